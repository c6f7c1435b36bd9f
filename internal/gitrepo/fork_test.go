package gitrepo

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// objectFiles counts the objects below a directory that are files of their own.
func objectFiles(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What an attempt made is in the repository once it is taken, whole, and not before.
func TestRefusedWorkLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := person(t, files{"a": "a"})
	objects := filepath.Join(dir, ".git", "objects")
	before := objectFiles(t, objects)
	place := filepath.Join(t.TempDir(), `a:"b`, "run.git")
	person := open(t, dir)
	r, err := person.Fork(place)
	if err != nil {
		t.Fatal(err)
	}
	w := export(t, r)
	large := strings.Repeat("large", 1<<20)
	files{"new/x": "x", "new/large": large, "a": "changed"}.write(t, w.Dir())
	s := snapshot(t, w)
	if n := objectFiles(t, objects); n != before {
		t.Errorf("the repository has %d objects instead of %d before anything was taken", n, before)
	}
	if got, err := r.ReadFile(t.Context(), s.Tree, "new/large", 1<<30); err != nil || string(got) != large {
		t.Errorf("through the fork: %d bytes, %v", len(got), err)
	}
	if ok, err := r.HasTree(t.Context(), s.Tree); !ok || err != nil {
		t.Errorf("the fork has the tree: %v, %v", ok, err)
	}
	if ok, err := person.HasTree(t.Context(), s.Tree); ok || err != nil {
		t.Errorf("the repository has the tree: %v, %v", ok, err)
	}
	files{"refused": "refused"}.write(t, w.Dir())
	refused := snapshot(t, w)
	commit, err := r.CommitTree(t.Context(), CommitSpec{
		Tree: s.Tree, Parents: []OID{headOf(t, person)}, Message: "m", Author: ann(), When: testTime(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, oid := range []OID{s.Tree, commit, commit} { // as after a crash
		if err := person.Take(t.Context(), r, oid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(place); err != nil {
		t.Fatal(err)
	}
	mustGit(t, dir, "fsck", "--strict")
	if got := mustGit(t, dir, "show", string(commit)+":new/x"); got != "x" {
		t.Errorf("taken: %q", got)
	}
	if ok, err := person.HasTree(t.Context(), refused.Tree); ok || err != nil {
		t.Errorf("the repository has the refused tree: %v, %v", ok, err)
	}
}

// What an attempt adds is bounded before any of it is stored.
func TestTooMuchNewWorkIsRefusedBeforeItIsStored(t *testing.T) {
	t.Parallel()
	large := files{"x": strings.Repeat("x", 2<<20), "y": strings.Repeat("y", 2<<20)}
	for want, tt := range map[string]struct {
		limit func(*Worktree)
		made  files
	}{
		"more than 1 new files":        {func(w *Worktree) { w.MaxNewFiles = 1 }, files{"x": "x", "y": "y"}},
		"more than 3 MiB of new files": {func(w *Worktree) { w.MaxNewBytes = 3 << 20 }, large},
		"more than 1 MiB of new files": {func(w *Worktree) { w.MaxNewBytes = 1 << 20 }, files{"a": large["x"]}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := open(t, person(t, files{"a": "a"}))
			w := export(t, r)
			tt.limit(w)
			before := objectFiles(t, r.objects)
			tt.made.write(t, w.Dir())
			s := snapshot(t, w)
			if s.Tree != headTree(t, r) || len(s.Refused) != 1 || s.Refused[0].Reason != want {
				t.Errorf("got %+v, want %q", s, want)
			}
			if n := objectFiles(t, r.objects) - before; n != 0 {
				t.Errorf("%d objects were stored", n)
			}
		})
	}
}

// A mirror drops what nothing needs.
func TestMirrorsAreTidied(t *testing.T) {
	t.Parallel()
	srv := serve(t, files{"a": "1"})
	r, err := newGit(t).OpenMirror(filepath.Join(t.TempDir(), "mirror.git"), srv.remote())
	if err != nil {
		t.Fatal(err)
	}
	// Git guesses the number of objects by those whose names begin with 17.
	var refuse OID
	for i, found := 0, 0; found < 3; i++ {
		data := fmt.Append(nil, i)
		oid, err := blobName(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(oid), "17") {
			found++
			if refuse, err = r.WriteBlob(t.Context(), data); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := time.Now().Add(-15 * 24 * time.Hour)
	if err := os.Chtimes(filepath.Join(r.objects, string(refuse[:2]), string(refuse[2:])), old, old); err != nil {
		t.Fatal(err)
	}
	if err := firstErr(r.Fetch(t.Context()), r.collectGarbage(t.Context(), 1)); err != nil {
		t.Fatal(err)
	}
	if data, err := r.Blob(t.Context(), refuse, 100); err == nil {
		t.Errorf("the mirror still holds %q", data)
	}
	if _, err := r.Resolve(t.Context(), "main"); err != nil {
		t.Error(err)
	}
}

// What refused attempts leave is bounded in sum, for whoever opens the fork again as well.
// What the run needs no more makes room.
func TestForkIsBounded(t *testing.T) {
	t.Parallel()
	dir, place := person(t, files{"a": "a"}), filepath.Join(t.TempDir(), "run.git")
	fork := func() (*Repo, *Worktree) {
		r, err := open(t, dir).Fork(place)
		if err != nil {
			t.Fatal(err)
		}
		w := export(t, r)
		w.MaxFork = 3 << 20
		return r, w
	}
	random := func(seed byte) string {
		data := make([]byte, 2<<20)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
		return string(data)
	}
	_, w := fork()
	files{"large": random(1)}.write(t, w.Dir())
	refused := snapshot(t, w)
	if len(refused.Refused) != 0 {
		t.Fatalf("refused %v", refused.Refused)
	}
	r, w := fork()
	needed := edited(t, r, headTree(t, r), TreeEdit{Path: "needed", Data: []byte("x")})
	files{"large": random(2)}.write(t, w.Dir())
	held := objectFiles(t, place)
	full := snapshot(t, w)
	if n := objectFiles(t, place); n != held || len(full.Refused) != 1 ||
		full.Refused[0].Reason != "more than 3 MiB in what this run has kept of its attempts" {
		t.Errorf("%d objects became %d; refused %v", held, n, full.Refused)
	}
	// Small objects count as the disk has them.
	if bytes, err := fileBytes(r.objects); err != nil || bytes < 2<<20+2*block {
		t.Errorf("it holds %d bytes, %v", bytes, err)
	}
	if err := r.Tidy(t.Context(), []OID{headTree(t, r), needed, "", noOID}); err != nil {
		t.Fatal(err)
	}
	if ok, err := r.HasTree(t.Context(), refused.Tree); ok || err != nil {
		t.Errorf("refused work is still there: %v, %v", ok, err)
	}
	if got, err := r.ReadFile(t.Context(), needed, "needed", 10); string(got) != "x" || err != nil {
		t.Errorf("what is needed holds %q, %v", got, err)
	}
	if s := snapshot(t, w); len(s.Refused) != 0 {
		t.Errorf("refused %v after the fork was tidied", s.Refused)
	}
}
