package gitrepo

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMerge3: what git itself would make of two trees and the one that they come from.
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
	if _, err := r.merge(t.Context(), head, head, time.Nanosecond); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a merge that takes too long: %v", err)
	}
}
