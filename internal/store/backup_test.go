package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// TestBackupWhileWriting: a copy holds whole transactions only, however busy the
// database is.
func TestBackupWhileWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	st, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	begun := make(chan struct{})
	writing.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			err := st.InTx(context.WithoutCancel(ctx), func(tx *store.Tx) error {
				for _, half := range []string{"a", "b"} {
					d := store.Delivery{GUID: half + time.Duration(n).String(), Body: []byte("body"), ReceivedAt: time.Now()}
					if _, err := st.InsertDelivery(ctx, tx, d); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			if n == 0 {
				close(begun)
			}
		}
	})
	<-begun
	for _, name := range []string{"one", "two", "three"} {
		to := filepath.Join(dir, name)
		if err := store.Backup(t.Context(), path, to); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		c, err := store.Open(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := c.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM deliveries`).Scan(&n); err != nil || n == 0 || n%2 > 0 {
			t.Errorf("%d deliveries, %v", n, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	stop()
	writing.Wait()
	if err := store.Backup(t.Context(), path, filepath.Join(dir, "one")); err == nil {
		t.Error("a copy was written over another")
	}
	if err := os.WriteFile(filepath.Join(dir, "no db"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Backup(t.Context(), filepath.Join(dir, "nowhere"), filepath.Join(dir, "x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a copy of nothing: %v", err)
	}
	if err := store.Backup(t.Context(), filepath.Join(dir, "no db"), filepath.Join(dir, "y")); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a copy of zeros: %v", err)
	}
}

// TestRestored: what has not ended gets another state and no driver, and its effects are
// not known to be fresh; what began after the restore is as always.
func TestRestored(t *testing.T) {
	t.Parallel()
	ctx, now := t.Context(), time.Now()
	st, err := store.Open(ctx, filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	create := func(id run.ID, issue string, at time.Time) {
		t.Helper()
		if err := st.InTx(ctx, func(tx *store.Tx) error {
			return st.CreateRun(ctx, tx, store.Run{ID: id, IssueNode: issue, Phase: run.PhaseQueued, State: []byte("was"), CreatedAt: at})
		}); err != nil {
			t.Fatal(err)
		}
	}
	create("open", "1", now.Add(-time.Hour))
	create("ended", "2", now.Add(-time.Hour))
	if err := st.SaveState(ctx, "ended", run.PhaseDone, run.EndAllTasksComplete, []byte("was"), now); err != nil {
		t.Fatal(err)
	}
	fresh := func(key string, id run.ID) bool {
		t.Helper()
		e, err := st.BeginEffect(ctx, key, id, "comment", nil, now)
		if err != nil {
			t.Fatal(err)
		}
		return e.Fresh
	}
	if !fresh("before", "open") || !fresh("before, of no run", "") {
		t.Error("an effect is not fresh in a database that was never restored")
	}
	failed := errors.New("unreadable")
	if _, err := st.Restored(ctx, now, func([]byte) ([]byte, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("err = %v", err)
	}
	if !fresh("still", "open") {
		t.Error("a restore that failed left a trace")
	}
	n, err := st.Restored(ctx, now, func(b []byte) ([]byte, error) { return append(b, " outdated"...), nil })
	if err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	for id, want := range map[run.ID]string{"open": "was outdated", "ended": "was"} {
		if r, err := st.Run(ctx, id); err != nil || string(r.State) != want {
			t.Errorf("%s: %q, %v", id, r.State, err)
		}
	}
	create("later", "3", now.Add(time.Hour))
	for key, want := range map[string]bool{"open": false, "ended": false, "later": true, "": false} {
		if got := fresh("after "+key, run.ID(key)); got != want {
			t.Errorf("effect of %q: fresh %v", key, got)
		}
	}
}
