package store_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/blob"
	"github.com/org/ralph-action/internal/blob/blobtest"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

func testBlobs(t *testing.T, e engine) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return e.fresh(t).Blobs(time.Now) })
}

// stuck is a reader that says when it has given all it has, and goes on when it may.
type stuck struct {
	io.Reader
	at, on chan struct{}
}

func (s *stuck) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		close(s.at)
		<-s.on
	}
	return n, err
}

// testBlobUnfinished: whoever is killed in the middle of writing leaves nothing that is
// seen, and that is removed a day later; one that only takes long is not disturbed by others.
func testBlobUnfinished(t *testing.T, e engine) {
	st := e.fresh(t)
	now := t0()
	files := st.Blobs(func() time.Time { return now })
	s := &stuck{bytes.NewReader(make([]byte, 2*blob.ChunkSize)), make(chan struct{}), make(chan struct{})}
	done := make(chan error)
	go func() { done <- files.Put(t.Context(), "runs/r-1/a", s) }()
	<-s.at
	if all, err := files.List(t.Context(), ""); err != nil || len(all) > 0 {
		t.Errorf("half of it is listed: %v, %v", all, err)
	}
	if _, err := files.Open(t.Context(), "runs/r-1/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half of it can be opened: %v", err)
	}
	// Others write meanwhile.
	if err := files.Put(t.Context(), "runs/r-1/b", strings.NewReader("b")); err != nil {
		t.Error(err)
	}
	prune := func(at time.Time) {
		t.Helper()
		if _, err := st.Prune(t.Context(), at, nil); err != nil {
			t.Fatal(err)
		}
	}
	prune(now.Add(store.KeepUnready))
	chunks := func() (n int) {
		t.Helper()
		inTx(t, st, func(tx *store.Tx) error {
			return tx.QueryRowContext(t.Context(), `SELECT count(*) FROM blob_chunks`).Scan(&n)
		})
		return n
	}
	if n := chunks(); n != 3 {
		t.Errorf("%d chunks after less than a day", n)
	}
	prune(now.Add(store.KeepUnready + time.Second))
	if n := chunks(); n != 1 {
		t.Errorf("%d chunks after a day", n)
	}
	close(s.on)
	if err := <-done; err == nil {
		t.Error("what was removed counts as written")
	}
	if all, err := files.List(t.Context(), ""); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// testBlobsGoWithTheirRun: those of a run that is removed, and no others.
func testBlobsGoWithTheirRun(t *testing.T, e engine) {
	st := e.fresh(t)
	files := st.Blobs(t0)
	createRun(t, st, aRun("r-1", 7))
	createRun(t, st, aRun("r-10", 8))
	for _, name := range []string{"runs/r-1/a", "runs/r-1/b", "runs/r-10/a", "runs/r-0/a", "other"} {
		if err := files.Put(t.Context(), name, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := st.ClaimRun(t.Context(), "r-1", "me", "", time.Hour, t0())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.SaveState(t.Context(), "r-1", lease, run.PhaseDone, run.EndAllTasksComplete, []byte("{}"), t0()); err != nil {
		t.Fatal(err)
	}
	gone, err := st.Gone(t.Context(), []run.ID{"r-0", "r-1", "r-10"})
	if diff := cmp.Diff(map[run.ID]bool{"r-0": true}, gone); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	digest := func([]byte) (float64, int, error) { return 0, 0, nil }
	if _, err := st.Prune(t.Context(), t0().Add(store.KeepRuns+time.Hour), digest); err != nil {
		t.Fatal(err)
	}
	all, err := files.List(t.Context(), "")
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	if diff := cmp.Diff([]string{"other", "runs/r-0/a", "runs/r-10/a"}, names); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	var n int
	inTx(t, st, func(tx *store.Tx) error {
		return tx.QueryRowContext(t.Context(), `SELECT count(*) FROM blob_chunks`).Scan(&n)
	})
	if n != 3 {
		t.Errorf("%d chunks of 3 files", n)
	}
}
