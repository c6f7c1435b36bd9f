package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// TestOneServerForADataDirectory: a second server is told which process has the directory,
// and may begin once that has ended.
func TestOneServerForADataDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unlock, err := lockDataDir(t.Context(), dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockDataDir(t.Context(), dir, 0)
	named, ok := errors.AsType[*run.UserError](err)
	if !ok || !strings.Contains(named.Message, fmt.Sprintf("process %d on ", os.Getpid())) {
		t.Errorf("the second is told %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = lockDataDir(t.Context(), dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}
