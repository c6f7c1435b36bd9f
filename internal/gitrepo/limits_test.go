package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

// scale divides the sizes of hostile trees, which are whole where time and memory are measured.
func scale() int {
	if measured {
		return 1
	}
	return 50
}

// inTime is a context that ends when a snapshot has taken too long, where that is measured.
func inTime(t *testing.T) (context.Context, context.CancelFunc) {
	if measured {
		return context.WithTimeout(t.Context(), 10*time.Second)
	}
	return context.WithCancel(t.Context())
}

// Deep, wide and without end: a tree is refused in little time and memory, a
// cancel is heard, and a reset mends it.
func TestHostileTreeIsRefusedCheaply(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(dir string) error{
		"deep":  func(dir string) error { return sandboxtest.Dig(dir, 100_000/scale()) },
		"flat":  func(dir string) error { return fill(dir, 1_000_000/scale()) },
		"bushy": func(dir string) error { return bushy(dir, 1_000_000/scale()) },
		"rules": func(dir string) error { return rules(dir, 1<<30/scale()) },
		"rule":  func(dir string) error { return sparse(filepath.Join(dir, ".gitignore"), 1<<30) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, person(t, files{"a": "a", "d/x": "x"}))
			w := export(t, r)
			w.MaxFiles = w.MaxFiles / scale()
			if err := build(filepath.Join(w.Dir(), "d")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := inTime(t)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begun := time.Now()
			s, err := w.Snapshot(ctx)
			took := time.Since(begun)
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Refused) == 0 {
				t.Errorf("refused nothing: %+v", s)
			}
			grown := int64(after.HeapInuse) - int64(before.HeapInuse)
			t.Logf("refused %d in %v, the heap grew by %d KiB: %s", len(s.Refused), took, grown>>10, s.Refused[0].Reason)
			if measured && grown > 64<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
			cancel()
			if _, err := w.Snapshot(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled snapshot says %v", err)
			}
			if err := w.Reset(ctx, headTree(t, r), false); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled reset says %v", err)
			}
			if err := w.Reset(t.Context(), headTree(t, r), false); err != nil {
				t.Fatal(err)
			}
			if s := snapshot(t, w); s.Tree != headTree(t, r) || len(s.Refused) != 0 {
				t.Errorf("after a reset: %+v", s)
			}
		})
	}
}

// fill makes empty files in one directory, count of them.
func fill(dir string, count int) error {
	for i := range count {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%0100d", i)), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// bushy makes count entries in directories of a hundred files.
func bushy(dir string, count int) error {
	for i := range count / 101 {
		sub := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(sub, 0o750); err != nil {
			return err
		}
		if err := fill(sub, 100); err != nil {
			return err
		}
	}
	return nil
}

// rules makes .gitignore files of size bytes in all.
func rules(dir string, size int) error {
	rule := bytes.Repeat([]byte("*a*b*c*[!d-z]\n"), maxIgnoreSize/14)
	for i := range size / len(rule) {
		sub := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(sub, 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(sub, ".gitignore"), rule, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// sparse makes a file of that size that takes no room.
func sparse(path string, size int64) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(path, size)
}

// A repository may itself be deeper than what is read: that part of it stays as
// it is.
func TestDeepRepositoriesAreWithheld(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("d/", maxDepth+1) + "f"
	dir := person(t, files{"a": "a", deep: "deep"})
	r := open(t, dir)
	w := export(t, r)
	files{"a": "changed"}.write(t, w.Dir())
	s := snapshot(t, w)
	if len(s.Refused) > 0 {
		t.Errorf("refused %v", s.Refused)
	}
	if got := mustGit(t, dir, "show", string(s.Tree)+":"+deep) + mustGit(t, dir, "show", string(s.Tree)+":a"); got != "deepchanged" {
		t.Errorf("the tree holds %q", got)
	}
}

// Many names that fold together cost no more than as many that do not; and what a
// repository already has of them does not refuse honest work.
func TestNamesThatFoldTogether(t *testing.T) {
	t.Parallel()
	dir := person(t, files{"README.md": "1", "readme.md": "2", "Src/a": "a", "src/b": "b", "x": "x"})
	w := export(t, open(t, dir))
	files{"readme.md": "3", "src/c": "c", "xt_\u00b5": "own"}.write(t, w.Dir())
	if s := snapshot(t, w); len(s.Refused) > 0 {
		t.Errorf("refused %v", s.Refused)
	}
	for i := range 10_000 {
		name := []byte("abcdefghijklmnop")
		for bit := range name {
			if i>>bit&1 == 1 {
				name[bit] -= 'a' - 'A'
			}
		}
		if err := os.WriteFile(filepath.Join(w.Dir(), string(name)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := inTime(t)
	defer cancel()
	s, err := w.Snapshot(ctx)
	if err != nil || len(s.Refused) != maxRefusals {
		t.Errorf("%d refusals, %v", len(s.Refused), err)
	}
}

// A file may change the case of its name.
func TestRenameOfCase(t *testing.T) {
	t.Parallel()
	dir := person(t, files{"README.md": "1", "Src/a": "a"})
	w := export(t, open(t, dir))
	if err := firstErr(os.Rename(filepath.Join(w.Dir(), "README.md"), filepath.Join(w.Dir(), "readme.md")),
		os.Rename(filepath.Join(w.Dir(), "Src"), filepath.Join(w.Dir(), "src"))); err != nil {
		t.Fatal(err)
	}
	if s := snapshot(t, w); len(s.Refused) > 0 {
		t.Errorf("refused %v", s.Refused)
	}
}

// A file that is too large is not compared line by line.
func TestPatchOfALargeFile(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"large": strings.Repeat("a\n", maxCompared), "small": "a\n"}))
	w := export(t, r)
	files{"large": strings.Repeat("b\na\n", maxCompared/2), "small": "b\n"}.write(t, w.Dir())
	patch, err := r.Patch(t.Context(), headTree(t, r), snapshot(t, w).Tree, nil, 1<<30)
	if err != nil || !strings.Contains(string(patch), "Binary files a/large and b/large differ") ||
		!strings.Contains(string(patch), "+b\n") || len(patch) > 1000 {
		t.Errorf("%d bytes, %v: %.500s", len(patch), err, patch)
	}
}
