package gitrepo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What is tracked stays, whatever it is called, and the way to it.
func TestPurge(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"bad": "tracked", "sub/x": "x", ".gitignore": "*.o\n/build/\n"}))
	w := export(t, r)
	files{
		"bad/in/place": "of a file", "sub/bad": "new", "sub/bad.o": "", "sub/more/bad/x.o": "", "sub/more/y.o": "",
		"build/a/bad": "", "build/good": "", "new/bad/good": "tracked by now", "new/bad/x.o": "",
	}.write(t, removing(t, w.Dir(), "bad"))
	if err := unix.Mkfifo(filepath.Join(w.Dir(), "sub/more/badfifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	snapshot(t, w)
	files{"sub/worse-bad": "untracked"}.write(t, w.Dir())
	if err := w.Purge(t.Context(), func(path string) bool { return strings.Contains(path, "bad") }); err != nil {
		t.Fatal(err)
	}
	var left []string
	for name := range onDisk(t, w.Dir()) {
		left = append(left, name)
	}
	want := []string{".gitignore", "bad/in/place", "build/good", "new/bad/good", "sub/bad", "sub/more/y.o", "sub/x"}
	if !slices.Equal(sorted(left), want) {
		t.Errorf("left %q, want %q", sorted(left), want)
	}
}

// removing takes a file of a directory away, and gives the directory.
func removing(t *testing.T, dir, name string) string {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	return dir
}
