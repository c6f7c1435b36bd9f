package gitrepo

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMergeTrees: what git itself would make of it, without a work tree.
func TestMergeTrees(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	git := func(args ...string) string { return mustGit(t, top, args...) }
	commit := func(branch, from string, files map[string]string) OID {
		t.Helper()
		git("checkout", "-q", "-B", branch, from)
		for name, content := range files {
			write(t, filepath.Join(top, name), content)
		}
		git("add", "-A")
		git("commit", "-q", "-m", branch)
		return OID(git("rev-parse", "HEAD"))
	}
	git("init", "-q", "-b", "main")
	git("checkout", "-q", "--orphan", "base")
	write(t, filepath.Join(top, "a"), "1\n2\n3\n")
	write(t, filepath.Join(top, "b"), "b\n")
	git("add", "-A")
	git("commit", "-q", "-m", "base")
	ours := commit("ours", "base", map[string]string{"a": "1\nours\n3\n", "ours": "x\n"})
	apart := commit("apart", "base", map[string]string{"b": "theirs\n", "theirs": "x\n"})
	against := commit("against", "base", map[string]string{"a": "1\ntheirs\n3\n", "theirs": "x\n"})
	git("checkout", "-q", "--orphan", "foreign")
	git("commit", "-q", "-m", "foreign")
	foreign := OID(git("rev-parse", "HEAD"))

	r, err := newGit(t).OpenLocal(t.Context(), top)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		theirs    OID
		conflicts []string
		a         string
	}{
		"clean": {apart, nil, "1\nours\n3\n"},
		"against": {
			against, []string{"a"},
			"1\n<<<<<<< " + string(ours) + "\nours\n=======\ntheirs\n>>>>>>> " + string(against) + "\n3\n",
		},
		"merged": {ours, nil, "1\nours\n3\n"},
	} {
		m, err := r.MergeTrees(t.Context(), ours, c.theirs)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.conflicts, m.Conflicts); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got := git("cat-file", "blob", string(m.Tree)+":a") + "\n"; got != c.a {
			t.Errorf("%s: a is %q", name, got)
		}
	}
	if _, err := r.MergeTrees(t.Context(), ours, foreign); !errors.Is(err, ErrUnrelated) {
		t.Errorf("unrelated: %v", err)
	}
	if _, err := r.MergeTrees(t.Context(), ours, "--help"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no object name: %v", err)
	}
}

// TestMerge3: the same of trees, which have no history.
func TestMerge3(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"a": "1\n2\n3\n", "b": "b\n", "gone": "x\n"}))
	base := headTree(t, r)
	with := func(edits ...TreeEdit) OID {
		t.Helper()
		tree, err := r.TreeWith(t.Context(), base, edits)
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	ours := with(TreeEdit{Path: "a", Data: []byte("1\nours\n3\n")}, TreeEdit{Path: "gone", Remove: true})
	m, err := r.Merge3(t.Context(), base, ours, with(TreeEdit{Path: "b", Data: []byte("theirs\n")}))
	if err != nil || len(m.Conflicts) > 0 {
		t.Fatalf("%v, %v", m, err)
	}
	want := with(TreeEdit{Path: "a", Data: []byte("1\nours\n3\n")}, TreeEdit{Path: "gone", Remove: true},
		TreeEdit{Path: "b", Data: []byte("theirs\n")})
	if m.Tree != want {
		t.Errorf("it is %s, not %s", m.Tree, want)
	}
	m, err = r.Merge3(t.Context(), base, ours, with(TreeEdit{Path: "a", Data: []byte("1\ntheirs\n3\n")}))
	if diff := cmp.Diff([]string{"a"}, m.Conflicts); diff != "" || err != nil {
		t.Errorf("%s, %v", diff, err)
	}
	if _, err := r.Merge3(t.Context(), base, ours, "--help"); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v", err)
	}
	head := OID(mustGit(t, r.top, "rev-parse", "HEAD"))
	if _, err := r.mergeTree(t.Context(), head, head, time.Nanosecond); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a merge that takes too long: %v", err)
	}
}
