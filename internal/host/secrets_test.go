package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// secret looks like a key and never was one.
func secret(of string) string { return "npm_" + strings.Repeat(of+"aB3xK9mQ7", 5)[:36] }

// opened is a host on a repository with these files, and the tree they make.
func opened(t *testing.T, files map[string]string) (h *host.Host, work, base string) {
	t.Helper()
	dir := t.TempDir()
	h = newHost(newSource(t, files), dir)
	o := open(t, h)
	return h, filepath.Join(dir, "work", "tree"), o.HeadTree
}

func snapshot(t *testing.T, h *host.Host) string {
	t.Helper()
	tree, refused, err := h.Snapshot(t.Context())
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	return tree
}

// TestSecretsAreThoseThatAreNew: what was there before is no news, not even in
// another file.
func TestSecretsAreThoseThatAreNew(t *testing.T) {
	t.Parallel()
	h, work, base := opened(t, map[string]string{
		"old.txt": "token\n" + secret("o") + "\n", "moved.txt": secret("m") + "\n", "still.txt": secret("s"),
	})
	put(t, work, map[string]string{
		secret("p"):     "named like one",
		"old.txt":       "one more line\ntoken\n" + secret("o") + "\n",
		"elsewhere.txt": secret("m") + "\n",
		"new.txt":       "first\n" + secret("n") + "\n",
	})
	if err := os.Remove(filepath.Join(work, "moved.txt")); err != nil {
		t.Fatal(err)
	}
	got, err := h.Secrets(t.Context(), base, snapshot(t, h))
	if err != nil {
		t.Fatal(err)
	}
	want := []gate.Leak{
		{Path: "new.txt", Line: 2, Rule: "npm_token", Critical: true}, {Path: "***", Rule: "npm_token", Critical: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNamesFollowNoLinks: a link to a folder is no folder of the tree.
func TestNamesFollowNoLinks(t *testing.T) {
	t.Parallel()
	h, work, _ := opened(t, map[string]string{"dir/a.txt": "x", "b.txt": "x"})
	if err := os.Symlink("dir", filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	got, err := h.Names(t.Context(), snapshot(t, h))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b.txt", "dir/", "link"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	h, work, base := opened(t, map[string]string{
		"gone_test.go": "old", "changed_test.go": "old", "kept_test.go": "old", "dir/x": "x",
	})
	if err := os.Remove(filepath.Join(work, "gone_test.go")); err != nil {
		t.Fatal(err)
	}
	put(t, work, map[string]string{
		"changed_test.go": "new", "kept_test.go": "new", "added_test.go": "new", "code.go": "new",
	})
	tree, _, err := h.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Restore(t.Context(), tree, base,
		[]string{"gone_test.go", "changed_test.go", "added_test.go", "never_test.go"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"gone_test.go": "old", "changed_test.go": "old", "kept_test.go": "new", "added_test.go": "", "code.go": "new",
		"dir/x": "x",
	} {
		if src, ok, err := h.File(t.Context(), got, path, 100); err != nil || ok != (want != "") || string(src) != want {
			t.Errorf("%s: %q, %t, %v; want %q", path, src, ok, err, want)
		}
	}
}

// However much looks like a secret, what is kept of it is bounded; and a cancel ends
// the search.
func TestManySecretsAreBounded(t *testing.T) {
	t.Parallel()
	h, work, base := opened(t, map[string]string{"a": "a"})
	files := map[string]string{}
	for i := range 101 {
		files[fmt.Sprintf("f%03d", i)] = strings.Repeat(secret("n")+"\n", 150)
	}
	put(t, work, files)
	tree := snapshot(t, h)
	got, err := h.Secrets(t.Context(), base, tree)
	if err != nil || len(got) != 1 || got[0].Path != "f100" || !got[0].Critical {
		t.Errorf("%d leaks, %v", len(got), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Secrets(ctx, base, tree); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled search says %v", err)
	}
}

// TestFillerHidesNoSecret: what is too large to be searched is told, and the host's own
// secrets are looked for behind it, and in what looks like no text.
func TestFillerHidesNoSecret(t *testing.T) {
	t.Parallel()
	const known = "correct-horse-battery-staple-1848"
	dir := t.TempDir()
	h := host.New(host.Config{
		Dir: dir, Source: newSource(t, map[string]string{"a": "a"}), Backend: talker{}, Mask: redact.New(known),
		Limits: func(asked run.Limits) run.Limits { return asked.WithDefaults(run.DefaultLimits()) },
	})
	o := open(t, h)
	filler := strings.Repeat("0\n", 17<<19) // 17 MiB
	files := map[string]string{"picture": "\x00" + known, "z/known": known, "z/token": secret("n")}
	for i := range 4 {
		files[fmt.Sprintf("b/%d", i)] = filler
	}
	put(t, filepath.Join(dir, "work", "tree"), files)
	got, err := h.Secrets(t.Context(), o.HeadTree, snapshot(t, h))
	if err != nil {
		t.Fatal(err)
	}
	want := []gate.Leak{
		{Path: "picture", Line: 1, Rule: redact.Known, Critical: true},
		{Path: "z/known", Line: 1, Rule: redact.Known, Critical: true},
		{Path: "z/token", Line: 1, Rule: "npm_token", Critical: true},
		{Path: "b/3", Rule: gate.RuleUnsearched, Critical: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, l := range got {
		if !(gate.Quality{}).Finding(l).Grave {
			t.Errorf("%+v does not fail the attempt", l)
		}
	}
}
