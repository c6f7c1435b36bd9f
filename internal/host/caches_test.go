package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/sandbox"
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

// ownTrees is a sandbox whose commands are the bot's own user.
type ownTrees struct{ sandbox.Sandbox }

func (ownTrees) Prepare(context.Context, string) error { return nil }

// TestFill: a cache begins with what the default branch left. Without what set-up commands made
// nothing is checked, and nothing is kept in its place.
func TestFill(t *testing.T) {
	t.Parallel()
	const commands = byCommands + "1"
	for name, tt := range map[string]struct {
		key, level string
		// there are files of the data directory, broken says that they cannot be copied.
		there  []string
		broken bool
		want   string // the file that the cache has
		keeps  bool   // what checks leave is kept at the end
		fails  string
	}{
		"nothing was left":              {key: "1", level: cacheBase, keeps: true},
		"an earlier run left something": {key: "1", level: cacheBase, there: []string{"set-1/x"}, want: "x", keeps: true},
		"set-up commands made something": {
			key: commands, level: cacheAgent, there: []string{"set-" + commands + "/x"}, want: "x", keeps: true,
		},
		"what they made went meanwhile": {key: commands, level: cacheBase, fails: "is not there any more"},
		"they begin with nothing":       {key: commands, level: cacheSetup},
		"it cannot be copied": {
			key: commands, level: cacheBase, there: []string{"set-" + commands + "/x"}, broken: true, fails: "cp",
		},
		"what checks left cannot be copied": {
			key: "1", level: cacheBase, there: []string{"set-1/x"}, broken: true, keeps: true,
		},
		"a check begins with the run's own copy": {
			key: commands, level: cacheCheck, there: []string{"../../run/cache/base/y"}, want: "y",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			h := &Host{cfg: Config{
				Dir: filepath.Join(root, "run"), Caches: Caches{Dir: filepath.Join(root, "caches"), Repo: "r"}, Sandbox: ownTrees{},
			}}
			for _, f := range tt.there {
				file(t, filepath.Join(h.cfg.Caches.Dir, "r", f), "content")
			}
			to := h.cacheDir(tt.level) + ".new"
			if err := os.MkdirAll(to, 0o700); err != nil {
				t.Fatal(err)
			}
			if tt.broken {
				to = filepath.Join(root, "file")
				file(t, to, "no directory")
			}
			s := loop.State{}
			s.SetupKey = tt.key
			err := h.fill(t.Context(), s, tt.level, to)
			if tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("error %v, want one with %q", err, tt.fails)
			}
			entries, _ := filepath.Glob(filepath.Join(to, "*"))
			if want := tt.want; (want == "") != (len(entries) == 0) || want != "" && filepath.Base(entries[0]) != want {
				t.Errorf("the cache has %v, want %q", entries, want)
			}
			if keeps := isThere(h.cacheDir(keyFile)); keeps != tt.keeps {
				t.Errorf("to be kept: %v, want %v", keeps, tt.keeps)
			}
		})
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
