package store_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/org/ralph-action/internal/store"
)

// A database is read while a server has it open, and after that; it is made by nobody who
// reads, and nobody who reads writes to it.
func TestOpenToRead(t *testing.T) {
	t.Parallel()
	if _, err := store.OpenToRead(t.Context(), filepath.Join(t.TempDir(), "none.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a database that is not there: %v", err)
	}
	st := fresh(t)
	createRun(t, st, aRun("r-1", 1))
	read := func() {
		t.Helper()
		beside, err := store.OpenToRead(t.Context(), st.Path())
		if err != nil {
			t.Fatal(err)
		}
		if runs, err := beside.RecentRuns(t.Context(), 10); err != nil || len(runs) != 1 || runs[0].ID != "r-1" {
			t.Errorf("%+v, %v", runs, err)
		}
		if err := beside.Writable(t.Context()); err == nil {
			t.Error("who reads can write")
		}
		if err := beside.Close(); err != nil {
			t.Error(err)
		}
	}
	read()
	createRun(t, st, aRun("r-2", 2))
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	beside, err := store.OpenToRead(t.Context(), st.Path())
	if err != nil {
		t.Fatal(err)
	}
	if runs, err := beside.RecentRuns(t.Context(), 10); err != nil || len(runs) != 2 {
		t.Errorf("%+v, %v", runs, err)
	}
	if err := beside.Close(); err != nil {
		t.Error(err)
	}
}
