package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func file(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestCopyTree: whatever its names, a cache is copied as it is, and nothing outside of it is read.
func TestCopyTree(t *testing.T) {
	t.Parallel()
	from, to, outside := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "secret")
	file(t, outside, "secret")
	file(t, filepath.Join(from, "mod", "a.go"), "package a")
	file(t, filepath.Join(from, "bad\xff", "-\xfe"), "x")
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := errors.Join(
		os.Chmod(filepath.Join(from, "mod", "a.go"), 0o444), // #nosec G302 -- as the module cache has it
		os.Chtimes(filepath.Join(from, "mod", "a.go"), old, old),
		os.Symlink(outside, filepath.Join(from, "link")),
		os.Symlink(filepath.Dir(outside), filepath.Join(from, "dir")),
		copyTree(t.Context(), to, from),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"mod/a.go": "-r--r--r--", "bad\xff/-\xfe": "-rw-------", "link": "Lrwxrwxrwx", "dir": "Lrwxrwxrwx",
	} {
		info, err := os.Lstat(filepath.Join(to, name))
		if err != nil || info.Mode().String() != want {
			t.Errorf("%q: %v, %v; want %s", name, info, err, want)
		}
		if name == "mod/a.go" && !info.ModTime().Equal(old) {
			t.Errorf("%s is of %v", name, info.ModTime())
		}
	}
}

// TestExpireCaches: what is old goes, and what is too much, the oldest first, whosever it is.
func TestExpireCaches(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		before time.Time
		most   int64
		want   []string
	}{
		"nothing":               {want: []string{"a/set-1", "a/set-2", "b/set-3"}},
		"what is old":           {before: begin.Add(time.Minute), want: []string{"a/set-2", "b/set-3"}},
		"what is too much":      {most: 15, want: []string{"b/set-3"}},
		"also what is the last": {most: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Caches{Dir: t.TempDir(), MaxBytes: tt.most}
			for i, set := range []string{"a/set-1", "a/set-2", "b/set-3", "b/" + gone + "1"} { // a removal broke off
				file(t, filepath.Join(c.Dir, set, "x"), "0123456789")
				at := begin.Add(time.Duration(i) * time.Hour)
				if err := os.Chtimes(filepath.Join(c.Dir, set), at, at); err != nil {
					t.Fatal(err)
				}
			}
			went := 3 - len(tt.want)
			got, err := c.Expire(t.Context(), tt.before)
			if err != nil || got != (Removed{Count: went, Bytes: int64(10 * went)}) {
				t.Errorf("%+v, %v", got, err)
			}
			left, _ := filepath.Glob(filepath.Join(c.Dir, "*", "*"))
			for i := range left {
				left[i], _ = filepath.Rel(c.Dir, left[i])
			}
			if !slices.Equal(left, tt.want) {
				t.Errorf("%v stay, want %v", left, tt.want)
			}
		})
	}
}
