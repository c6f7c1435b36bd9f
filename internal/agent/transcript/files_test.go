package transcript_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/blob"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// node is a machine with a disk of its own, and the files that all share.
type node struct {
	*transcript.Store
	dir string
}

// cluster gives nodes that share their files in a database.
func cluster(t *testing.T, n int) (nodes []node, db *store.Store) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for range n {
		nodes = append(nodes, openNode(t, db.Blobs(time.Now), nil))
	}
	return nodes, db
}

func openNode(t *testing.T, files blob.Store, gone func(context.Context, []run.ID) (map[run.ID]bool, error)) node {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "transcripts")
	return node{transcript.OpenSpool(dir, redact.New(secret), transcript.Elsewhere{
		Files: blob.Seal(files, nil), Gone: gone,
	}), dir}
}

// left is what is on a node's disk.
func (n node) left(t *testing.T) []string {
	t.Helper()
	names := []string{}
	err := filepath.WalkDir(n.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, filepath.Base(path))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

// TestCarried: what a call wrote is read from another machine once it has ended, and
// nothing of it is left on this one.
func TestCarried(t *testing.T) {
	t.Parallel()
	nodes, _ := cluster(t, 2)
	one, two := nodes[0], nodes[1]
	note := func(n node, iteration int, text string) {
		t.Helper()
		at := time.Date(2026, 3, 1, 12, iteration, 0, 0, time.UTC)
		ev := run.Event{Time: at, Run: "r1", Iteration: iteration, Kind: run.EventAttemptFailed, Text: text}
		if err := n.Note(ev); err != nil {
			t.Fatal(err)
		}
	}
	carry := func(n node, ended bool) {
		t.Helper()
		if err := n.Carry(t.Context(), "r1", ended); err != nil {
			t.Fatal(err)
		}
	}
	note(one, 1, "first")
	carry(one, false)
	if diff := cmp.Diff([]string{"verdicts.jsonl"}, one.left(t)); diff != "" {
		t.Errorf("before a call has ended: %s", diff)
	}
	keep(t, one.Store, start("r1", 1, "r1-1"), "said "+secret)
	if err := one.KeepCheck(transcript.Check{Run: "r1", Name: "r1-2", Iteration: 1, Gate: "go test"},
		strings.NewReader("FAIL")); err != nil {
		t.Fatal(err)
	}
	if err := one.KeepRefused("r1", "T1", "about", "the patch"); err != nil {
		t.Fatal(err)
	}
	carry(one, false)
	if diff := cmp.Diff([]string{}, one.left(t)); diff != "" {
		t.Error(diff)
	}
	// The other one goes on with the run; the first verdict is told again.
	note(two, 1, "first")
	note(two, 2, "second")
	keep(t, two.Store, start("r1", 2, "r1-3"), "more")

	for name, n := range map[string]node{"one": one, "two": two} {
		ids, err := n.Runs(t.Context())
		if diff := cmp.Diff([]run.ID{"r1"}, ids); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if got := read(t, loadFirst(t, n.Store), transcript.StdoutPart); got != "said ***" {
			t.Errorf("%s: %q", name, got)
		}
		checks, err := n.Checks(t.Context(), "r1")
		if err != nil || len(checks) != 1 {
			t.Fatalf("%s: %v, %v", name, checks, err)
		}
		var b strings.Builder
		if err := n.WriteCheck(t.Context(), &b, checks[0]); err != nil || !strings.Contains(b.String(), "FAIL") {
			t.Errorf("%s: %q, %v", name, b.String(), err)
		}
	}
	carry(two, false)
	note(two, 3, "third")
	carry(two, true)
	names, err := one.Starts(t.Context(), "r1")
	if diff := cmp.Diff([]string{"0001-r1-1.zip", "0002-r1-3.zip"}, names); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	got, err := one.Verdicts(t.Context(), "r1")
	var texts []string
	for _, v := range got {
		texts = append(texts, v.Text)
	}
	if diff := cmp.Diff([]string{"first", "second", "third"}, texts); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if tail, err := one.Tail(t.Context(), "r1", parsers, 1); err != nil || !strings.HasPrefix(tail, "iteration 2 ·") {
		t.Errorf("%q, %v", tail, err)
	}
	dir := filepath.Join(t.TempDir(), "new", "saved")
	if err := one.Save(t.Context(), "r1", dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 7 { // two calls, a check, a patch, three lists
		t.Errorf("%v, %v", entries, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "refused-T1.patch")); err != nil || string(b) != "about\nthe patch" {
		t.Errorf("%q, %v", b, err)
	}
	if err := one.Save(t.Context(), "r1", dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("into a directory that is there: %v", err)
	}
	if err := one.Save(t.Context(), "r9", dir+"2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no run: %v", err)
	}
	if _, err := two.Starts(t.Context(), "r9"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no run: %v", err)
	}
}

func loadFirst(t *testing.T, s *transcript.Store) *transcript.Transcript {
	t.Helper()
	names, err := s.Starts(t.Context(), "r1")
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	tr, err := s.Load(t.Context(), "r1", names[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

// TestRefusedElsewhere: newer work takes the place of older, and what is forgotten on one
// machine is gone for all.
func TestRefusedElsewhere(t *testing.T) {
	t.Parallel()
	nodes, db := cluster(t, 2)
	names := func() (names []string) {
		t.Helper()
		all, err := db.Blobs(time.Now).List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range all {
			names = append(names, i.Name)
		}
		return names
	}
	for i, n := range nodes {
		if err := n.KeepRefused("r1", "T1", "about", strings.Repeat("patch", i+1)); err != nil {
			t.Fatal(err)
		}
		if err := n.Carry(t.Context(), "r1", false); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"runs/r1/refused-T1.patch"}, names()); diff != "" {
		t.Error(diff)
	}
	if err := nodes[0].ForgetRefused("r1", "T1"); err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].Carry(t.Context(), "r1", false); err != nil {
		t.Fatal(err)
	}
	if got := names(); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	if got := nodes[0].left(t); len(got) > 0 {
		t.Errorf("left here: %v", got)
	}
}

// away is a store that cannot be reached until it is.
type away struct {
	blob.Store
	back bool
}

var errAway = errors.New("away")

func (a *away) Put(ctx context.Context, name string, r io.Reader) error {
	if !a.back {
		return errAway
	}
	return a.Store.Put(ctx, name, r)
}

// TestCarriedLater: what cannot be carried is kept and read here, also by the next process,
// which carries it when it finds it.
func TestCarriedLater(t *testing.T) {
	t.Parallel()
	_, db := cluster(t, 0)
	files := &away{Store: db.Blobs(time.Now)}
	n := openNode(t, files, nil)
	for _, id := range []run.ID{"r1", "r2"} {
		keep(t, n.Store, start(id, 1, string(id)+"-1"), "said")
		if err := n.Carry(t.Context(), id, false); !errors.Is(err, errAway) {
			t.Errorf("%v", err)
		}
	}
	if got := read(t, loadFirst(t, n.Store), transcript.StdoutPart); got != "said" {
		t.Errorf("%q", got)
	}
	if err := n.CarryAll(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("%v", err)
	}
	// What a process was killed at is no transcript.
	half := filepath.Join(n.dir, "r2", "new-1")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	files.back = true
	next := node{transcript.OpenSpool(n.dir, nil, transcript.Elsewhere{Files: blob.Seal(files, nil)}), n.dir}
	if err := next.CarryAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"new-1"}, next.left(t)); diff != "" {
		t.Error(diff)
	}
	other := openNode(t, files, nil)
	ids, err := other.Runs(t.Context())
	if diff := cmp.Diff([]run.ID{"r1", "r2"}, ids); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	// It goes when its run has ended, an hour later.
	for _, tt := range []struct {
		now    time.Time
		active run.ID
		left   int
	}{{time.Now(), "", 1}, {time.Now().Add(2 * time.Hour), "r2", 1}, {time.Now().Add(2 * time.Hour), "", 0}} {
		if err := next.Prune(t.Context(), transcript.Limits{}, tt.now, func(id run.ID) bool { return id == tt.active }); err != nil {
			t.Fatal(err)
		}
		if got := next.left(t); len(got) != tt.left {
			t.Errorf("%v are left", got)
		}
	}
}

// TestPruneElsewhere: the limits hold for the transcripts of all machines together, those
// of runs that nobody knows go, and never those of one that is under way.
func TestPruneElsewhere(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tt := range map[string]struct {
		limits transcript.Limits
		active run.ID
		gone   run.ID
		want   []run.ID
	}{
		"all fit":      {transcript.Limits{Keep: 100 * time.Hour, MaxBytes: 1 << 20}, "", "", []run.ID{"r1", "r2", "r3"}},
		"too old":      {transcript.Limits{Keep: 15 * time.Hour}, "", "", []run.ID{"r3"}},
		"too much":     {transcript.Limits{MaxBytes: 4000}, "", "", []run.ID{"r2", "r3"}},
		"nothing fits": {transcript.Limits{MaxBytes: 1}, "", "", nil},
		"under way":    {transcript.Limits{Keep: time.Hour, MaxBytes: 1}, "r1", "", []run.ID{"r1"}},
		"nobody knows": {transcript.Limits{}, "", "r2", []run.ID{"r1", "r3"}},
		"room again":   {transcript.Limits{MaxBytes: 4000}, "", "r3", []run.ID{"r1", "r2"}},
		"known later":  {transcript.Limits{}, "r2", "r2", []run.ID{"r1", "r2", "r3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, db := cluster(t, 0)
			gone := func(_ context.Context, ids []run.ID) (map[run.ID]bool, error) {
				if !slices.Contains(ids, "r2") {
					t.Errorf("asked for %v", ids)
				}
				return map[run.ID]bool{tt.gone: true}, nil
			}
			for i, id := range []run.ID{"r1", "r2", "r3"} {
				at := now.Add(time.Duration(i-3) * 10 * time.Hour)
				n := openNode(t, db.Blobs(func() time.Time { return at }), gone)
				keep(t, n.Store, start(id, 1, "s"), "")
				if err := os.WriteFile(filepath.Join(n.Dir(id), "0002-s.zip"), make([]byte, 1000), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := n.Carry(t.Context(), id, true); err != nil {
					t.Fatal(err)
				}
			}
			n := openNode(t, db.Blobs(time.Now), gone)
			active := func(id run.ID) bool { return id == tt.active }
			runs, bytes, err := n.Prunable(t.Context(), tt.limits, now, active)
			if err != nil || runs != 3-len(tt.want) || (bytes > 0) != (runs > 0) {
				t.Errorf("%d runs of %d bytes, %v", runs, bytes, err)
			}
			if err := n.Prune(t.Context(), tt.limits, now, active); err != nil {
				t.Fatal(err)
			}
			got, err := n.Runs(t.Context())
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}
