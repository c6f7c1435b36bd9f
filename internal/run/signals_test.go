package run_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// TestActivity counts what agents read and write, by the names of their tools.
func TestActivity(t *testing.T) {
	t.Parallel()
	var got run.Activity
	for _, tool := range []string{
		"Read", "Grep", "ls", "web_fetch", "Write", "apply_patch", "str_replace", "Bash", "shell", "TodoWrite", "update_plan",
	} {
		got.Use(tool)
	}
	if diff := cmp.Diff(run.Activity{Reads: 4, Writes: 3}, got); diff != "" {
		t.Error(diff)
	}
}

// TestSignals counts changed files by what they are for.
func TestSignals(t *testing.T) {
	t.Parallel()
	var got run.Signals
	for _, file := range []string{
		"a/a.go", "src/latest.ts", "a/a_test.go", "src/CartTest.java", "tests/util.py", "testdata/x.bin", "docs/x.md", "LICENSE",
		"go.mod", ".gitignore", "Makefile", "logo.png",
	} {
		got.Change(file, file == "a/a.go")
	}
	if diff := cmp.Diff(run.Signals{Source: 2, Test: 4, Docs: 2, Config: 3, Other: 1, Again: 1}, got); diff != "" {
		t.Error(diff)
	}
	const want = "it changed files (2 source, 4 test, 2 documentation, 3 configuration, 1 other), " +
		"1 of which had been changed by an attempt before"
	if got.Words() != want || (run.Signals{}).Words() != "" {
		t.Errorf("it says %q", got.Words())
	}
}
