package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// t0 is when the tests happen.
func t0() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC) }

func open(t testing.TB, path string) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func fresh(t testing.TB) *store.Store {
	t.Helper()
	return open(t, newFile(t))
}

// newFile gives the name of a new database.
func newFile(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "bot.db")
}

// inTx runs f in a transaction that must succeed.
func inTx(t testing.TB, st *store.Store, f func(tx *store.Tx) error) {
	t.Helper()
	if err := st.InTx(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func createRun(t testing.TB, st *store.Store, r store.Run) {
	t.Helper()
	inTx(t, st, func(tx *store.Tx) error { return st.CreateRun(t.Context(), tx, r) })
}

func aRun(id run.ID, issue int) store.Run {
	return store.Run{
		ID: id, RepoOwner: "acme", RepoName: "app", RepoNode: "R_1", Installation: 11,
		IssueNumber: issue, IssueNode: fmt.Sprintf("I_%d", issue),
		Phase: run.PhaseQueued, State: []byte(`{"v":1}`), CreatedAt: t0(), UpdatedAt: t0(),
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("makes a private file that survives a power cut", func(t *testing.T) {
		t.Parallel()
		st := open(t, filepath.Join(t.TempDir(), "a b?c#d%41.db"))
		info, err := os.Stat(st.Path())
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("mode %o, want 600", got)
		}
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
			var got string
			if err := st.DB().QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("PRAGMA %s is %q, %v; want %q", pragma, got, err, want)
			}
		}
	})

	t.Run("many at once on a new file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "bot.db")
		var g errgroup.Group
		for range 8 {
			g.Go(func() error {
				st, err := store.Open(t.Context(), path)
				if err != nil {
					return err
				}
				return st.Close()
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})

	t.Run("says which file it cannot open", func(t *testing.T) {
		t.Parallel()
		_, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "no", "such", "dir.db"))
		wantErr(t, err, os.ErrNotExist)
	})

	t.Run("refuses what is not a database", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "bot.db")
		if err := os.WriteFile(path, []byte("this is no database, and it is long enough to be taken for a page of one\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := store.Open(t.Context(), path)
		wantErr(t, err, store.ErrDamaged)
	})
}

// A file with other tables than those of this program is refused and not changed, and one
// of this program is opened as often as anybody wants.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change string
		want   error
	}{
		"of now":                 {"", nil},
		"newer":                  {"PRAGMA user_version = 999", store.ErrOtherVersion},
		"before there were any":  {"PRAGMA user_version = 0", store.ErrOtherVersion},
		"a number from the past": {"PRAGMA user_version = 1770000000", store.ErrOtherVersion},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			st, err := store.Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = st.DB().ExecContext(t.Context(), tc.change)
			if err := errors.Join(err, st.Close()); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, open := range []func(context.Context, string) (*store.Store, error){store.OpenToRead, store.Open, store.Open} {
				st, err := open(t.Context(), path)
				if err == nil {
					err = st.Close()
				}
				wantErr(t, err, tc.want)
				if tc.want != nil && !strings.Contains(err.Error(), path) {
					t.Errorf("%v does not name %s", err, path)
				}
			}
			if after, err := os.ReadFile(path); err != nil || tc.want != nil && !bytes.Equal(before, after) {
				t.Errorf("the file was changed, %v", err)
			}
		})
	}
}

func TestInTxRollsBack(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	boom := errors.New("boom")
	insert := func(tx *store.Tx) error {
		_, err := st.InsertDelivery(t.Context(), tx, store.Delivery{GUID: "g", ReceivedAt: t0()})
		return err
	}

	err := st.InTx(t.Context(), func(tx *store.Tx) error { return errors.Join(insert(tx), boom) })
	wantErr(t, err, boom)

	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = st.InTx(t.Context(), func(tx *store.Tx) error {
			if err := insert(tx); err != nil {
				t.Error(err)
			}
			panic("boom")
		})
	}()

	_, err = st.Delivery(t.Context(), "g")
	wantErr(t, err, store.ErrNotFound)
	inTx(t, st, insert) // the connection is free again
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	want := store.Delivery{
		GUID: "g-1", Event: "issues", Action: "labeled", Installation: 11, RepoNode: "R_1",
		Body: []byte("{\"a\":\"\x00\xff\"}"), ReceivedAt: t0(),
	}
	insert := func(d store.Delivery) (isFresh bool) {
		inTx(t, st, func(tx *store.Tx) (err error) {
			isFresh, err = st.InsertDelivery(t.Context(), tx, d)
			return err
		})
		return isFresh
	}
	unprocessed := func() []string {
		guids, _, err := st.Due(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return guids
	}
	check := func(want store.Delivery) {
		t.Helper()
		got, err := st.Delivery(t.Context(), want.GUID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}

	if !insert(want) {
		t.Error("first insert is not fresh")
	}
	check(want)

	again := want
	again.Body, again.Event = []byte("other"), "push"
	if insert(again) {
		t.Error("second insert is fresh")
	}
	check(want)

	older := store.Delivery{GUID: "g-0", ReceivedAt: t0().Add(-time.Second)}
	insert(older)
	if diff := cmp.Diff([]string{"g-0", "g-1"}, unprocessed()); diff != "" {
		t.Error(diff)
	}

	mark := func(guid, outcome string, at time.Time) error {
		return st.InTx(t.Context(), func(tx *store.Tx) error {
			return st.MarkDelivery(t.Context(), tx, guid, outcome, at)
		})
	}
	if err := mark("g-1", "run r-1 created", t0().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := mark("g-1", "too late", t0().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	want.Outcome, want.ProcessedAt = "run r-1 created", t0().Add(time.Minute)
	check(want)
	if diff := cmp.Diff([]string{"g-0"}, unprocessed()); diff != "" {
		t.Error(diff)
	}
	wantErr(t, mark("unknown", "x", t0()), store.ErrNotFound)
	if insert(want) {
		t.Error("a processed delivery is accepted anew")
	}
}

func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, commits string
		want          error
	}{
		{"inside a transaction", "", store.ErrNotFound},
		{"after the commit", "yes", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			name := newFile(t)
			st := open(t, name)
			killChild(t, name, tc.commits)
			if _, err := st.Delivery(t.Context(), "from-child"); !errors.Is(err, tc.want) {
				t.Errorf("delivery of the killed process: %v, want %v", err, tc.want)
			}
			// Whatever the process held, it is free.
			inTx(t, st, func(tx *store.Tx) error {
				_, err := st.InsertDelivery(t.Context(), tx, store.Delivery{GUID: "after", ReceivedAt: t0()})
				return err
			})
			open(t, name)
		})
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	_, err := st.Run(t.Context(), "r-1")
	wantErr(t, err, store.ErrNotFound)
	_, err = st.ActiveRunByIssue(t.Context(), "R_1", 7)
	wantErr(t, err, store.ErrNotFound)
	_, err = st.LatestRunByIssue(t.Context(), "R_1", 7)
	wantErr(t, err, store.ErrNotFound)

	want := aRun("r-1", 7)
	createRun(t, st, want)
	for name, get := range map[string]func() (store.Run, error){
		"Run":              func() (store.Run, error) { return st.Run(t.Context(), "r-1") },
		"ActiveRunByIssue": func() (store.Run, error) { return st.ActiveRunByIssue(t.Context(), "R_1", 7) },
		"LatestRunByIssue": func() (store.Run, error) { return st.LatestRunByIssue(t.Context(), "R_1", 7) },
	} {
		got, err := get()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	createRun(t, st, aRun("r-2", 8)) // another issue
	other := aRun("r-3", 7)
	other.RepoNode = "R_2" // same number elsewhere
	createRun(t, st, other)
	err = st.InTx(t.Context(), func(tx *store.Tx) error { return st.CreateRun(t.Context(), tx, aRun("r-4", 7)) })
	wantErr(t, err, store.ErrRunActive)
	err = st.InTx(t.Context(), func(tx *store.Tx) error { return st.CreateRun(t.Context(), tx, aRun("r-1", 9)) })
	if err == nil || errors.Is(err, store.ErrRunActive) {
		t.Errorf("an id used twice: %v", err)
	}
}

func TestOneActiveRunPerIssue(t *testing.T) {
	t.Parallel()
	for _, phase := range []run.Phase{
		run.PhaseQueued, run.PhasePreparing, run.PhasePlanning, run.PhaseAwaitingPerson, run.PhaseIterating,
		run.PhaseFinishing, run.PhaseDone, run.PhasePaused, run.PhaseFailed, run.PhaseCancelled,
	} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			st := fresh(t)
			createRun(t, st, aRun("r-1", 7))
			if err := st.SaveState(t.Context(), "r-1", phase, "", nil, t0()); err != nil {
				t.Fatal(err)
			}
			_, ids, err := st.Due(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			active, err := st.ActiveRuns(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			second := aRun("r-2", 7)
			second.CreatedAt = t0().Add(time.Second)
			err = st.InTx(t.Context(), func(tx *store.Tx) error { return st.CreateRun(t.Context(), tx, second) })
			if !phase.Terminal() {
				wantErr(t, err, store.ErrRunActive)
				if len(ids) != 1 || len(active) != 1 {
					t.Errorf("active: %v, %v", ids, active)
				}
				return
			}
			if err != nil || len(ids) != 0 || len(active) != 0 {
				t.Fatalf("after the end: create %v, active %v, %v", err, ids, active)
			}
			if latest, err := st.LatestRunByIssue(t.Context(), "R_1", 7); err != nil || latest.ID != "r-2" {
				t.Errorf("latest is %s, %v", latest.ID, err)
			}
			// The first cannot come back beside the second.
			err = st.SaveState(t.Context(), "r-1", run.PhaseIterating, "", nil, t0())
			wantErr(t, err, store.ErrRunActive)
		})
	}
}

func TestRequestCancel(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	cancel := func(id run.ID, by string, at time.Time) error {
		return st.InTx(t.Context(), func(tx *store.Tx) error { return st.RequestCancel(t.Context(), tx, id, by, at) })
	}
	check := func(id run.ID, wantBy string, wantAt time.Time) {
		t.Helper()
		r, err := st.Run(t.Context(), id)
		if err != nil || r.CancelBy != wantBy || !r.CancelRequestedAt.Equal(wantAt) {
			t.Errorf("cancelled by %q at %v, %v; want %q at %v", r.CancelBy, r.CancelRequestedAt, err, wantBy, wantAt)
		}
	}
	wantErr(t, cancel("r-0", "ann", t0()), store.ErrNotFound)

	createRun(t, st, aRun("r-1", 7))
	check("r-1", "", time.Time{})
	for i, by := range []string{"ann", "bob"} { // the first stays
		if err := cancel("r-1", by, t0().Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
		check("r-1", "ann", t0())
	}

	ended := aRun("r-2", 8)
	ended.Phase = run.PhaseDone
	createRun(t, st, ended)
	if err := cancel("r-2", "ann", t0()); err != nil {
		t.Fatal(err)
	}
	check("r-2", "", time.Time{})
}

func TestEffects(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	ctx := t.Context()
	begin := func(key, intent string, at time.Time) store.Effect {
		t.Helper()
		e, err := st.BeginEffect(ctx, key, "r-1", "commit", []byte(intent), at)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	check := func(got, want store.Effect) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	want := store.Effect{
		Key: "k1", Run: "r-1", Kind: "commit", Intent: []byte("i1"), Status: store.EffectIntended,
		CreatedAt: t0(), Fresh: true,
	}
	check(begin("k1", "i1", t0()), want)
	want.Fresh = false
	check(begin("k1", "another try", t0().Add(time.Second)), want) // crashed in between

	done := t0().Add(time.Minute)
	if err := st.FinishEffect(ctx, "k1", []byte("sha")); err != nil {
		t.Fatal(err)
	}
	want.Status, want.Result = store.EffectDone, []byte("sha")
	check(begin("k1", "again", done), want)
	// What is done stays as it was done.
	if err := st.FinishEffect(ctx, "k1", []byte("other")); err != nil {
		t.Fatal(err)
	}
	check(begin("k1", "again", done), want)

	begin("k2", "i2", t0().Add(time.Second))
	want2 := store.Effect{
		Key: "k2", Run: "r-1", Kind: "commit", Intent: []byte("i2"), Status: store.EffectIntended,
		CreatedAt: t0().Add(time.Second),
	}
	all, err := st.Effects(ctx, "r-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]store.Effect{want, want2}, all); diff != "" {
		t.Error(diff)
	}

	wantErr(t, st.FinishEffect(ctx, "k3", nil), store.ErrNotFound)
	if none, err := st.Effects(ctx, "r-2"); err != nil || len(none) != 0 {
		t.Errorf("effects of another run: %v, %v", none, err)
	}
}

// What goes to a file that is gone is lost, and so is not taken.
func TestGoneDatabase(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := fresh(t)
			createRun(t, st, aRun("r-1", 1))
			if err := st.Writable(t.Context()); err != nil {
				t.Error(err)
			}
			if err := lose(st.Path()); err != nil {
				t.Fatal(err)
			}
			wantErr(t, st.InTx(t.Context(), func(*store.Tx) error { return nil }), store.ErrGone)
			wantErr(t, st.SaveState(t.Context(), "r-1", run.PhaseDone, run.EndAllTasksComplete, nil, t0()), store.ErrGone)
			wantErr(t, st.Writable(t.Context()), store.ErrGone)
		})
	}
}

// TestFullDisk: a state that the disk has no room for is known by that, and the one before it stays.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	createRun(t, st, aRun("r-1", 1))
	err := st.InTx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `PRAGMA max_page_count = 1`) // as many as there are
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, st.SaveState(t.Context(), "r-1", run.PhaseIterating, "", make([]byte, 1<<20), t0()), store.ErrFull)
	if row, err := st.Run(t.Context(), "r-1"); err != nil || len(row.State) >= 1<<20 {
		t.Errorf("%d bytes, %v", len(row.State), err)
	}
}
