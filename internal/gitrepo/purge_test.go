package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a snapshot has seen that is not in the tree is all that there is to purge.
func TestPurgeAmongTheUntracked(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"bad": "tracked", "sub/x": "x", ".gitignore": "*.o\n/build/\n"}))
	purged := func(among func(Snapshot) []string, most int) []string {
		w := export(t, r)
		w.MaxFiles = most
		files{
			"bad/in/place": "of a file", "sub/bad": "new", "sub/bad.o": "", "sub/more/bad/x.o": "", "sub/more/y.o": "",
			"build/a/bad": "", "build/good": "", "new/bad/good": "tracked by now", "new/bad/x.o": "",
		}.write(t, removing(t, w.Dir(), "bad"))
		for _, fifo := range []string{"fifo", "sub/more/badfifo"} {
			if err := unix.Mkfifo(filepath.Join(w.Dir(), fifo), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := snapshot(t, w)
		err := w.Purge(t.Context(), among(s), func(path string) bool { return strings.Contains(path, "bad") })
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		err = filepath.WalkDir(w.Dir(), func(path string, d os.DirEntry, err error) error {
			left = append(left, fmt.Sprint(strings.TrimPrefix(path, w.Dir()), d.IsDir()))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return left
	}
	of := func(s Snapshot) []string { return s.Untracked }
	want := purged(func(Snapshot) []string { return Everywhere() }, DefaultMaxFiles)
	if got := purged(of, DefaultMaxFiles); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	if !slices.Contains(want, "/build/goodfalse") || slices.Contains(want, "/build/a/badfalse") {
		t.Errorf("left %q", want)
	}
	// A snapshot that gave up has not seen everything.
	if got := purged(of, 3); slices.Contains(got, "/build/a/badfalse") || slices.Contains(got, "/sub/badfalse") {
		t.Errorf("after a snapshot that gave up: left %q", got)
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
