package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

func anInput(source string, id int64) store.Input {
	return store.Input{
		RepoNode: "R_1", Issue: 7, Kind: store.InputCommand, Source: source, SourceID: id,
		AuthorID: 5, Author: "ada", Role: "write", Text: "/ralph skip T2", Detail: []byte(`{}`), ReceivedAt: t0(),
	}
}

func addInput(t testing.TB, st *store.Store, in store.Input) (id int64, fresh bool) {
	t.Helper()
	inTx(t, st, func(tx *store.Tx) (err error) {
		id, fresh, err = st.AddInput(t.Context(), tx, in)
		return err
	})
	return id, fresh
}

// TestInputSpeaksOnce: what came from one source is stored once, taken in once,
// and keeps its words.
func TestInputSpeaksOnce(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	id, first := addInput(t, st, anInput("comment:1", 1))
	again := anInput("comment:1", 1)
	again.Text = "/ralph skip T3"
	if _, second := addInput(t, st, again); !first || second {
		t.Errorf("fresh %t, then %t", first, second)
	}
	other := anInput("comment:1", 1)
	other.RepoNode = "R_2" // another GitHub could number alike
	if _, f := addInput(t, st, other); !f {
		t.Error("the source of another repository was taken for this one")
	}

	pending, err := st.PendingInputs(t.Context(), "R_1", 7)
	if err != nil || len(pending) != 1 {
		t.Fatalf("pending: %+v, %v", pending, err)
	}
	want := anInput("comment:1", 1)
	want.ID, want.State = id, store.InputPending
	if diff := cmp.Diff(want, pending[0]); diff != "" {
		t.Error(diff)
	}

	for i, wantSettled := range []bool{true, false} {
		inTx(t, st, func(tx *store.Tx) error {
			settled, err := st.SettleInput(t.Context(), tx, id, store.InputDone, "skipped T2", "r1")
			if settled != wantSettled {
				t.Errorf("settled %t the %d. time", settled, i+1)
			}
			return err
		})
	}
	got, err := st.InputBySource(t.Context(), "R_1", "comment:1")
	if err != nil || got.State != store.InputDone || got.Run != run.ID("r1") {
		t.Errorf("%+v, %v", got, err)
	}
	if left, err := st.PendingInputs(t.Context(), "R_1", 7); err != nil || len(left) != 0 {
		t.Errorf("left %+v, %v", left, err)
	}
	_, err = st.InputBySource(t.Context(), "R_1", "comment:2")
	wantErr(t, err, store.ErrNotFound)
}

// TestStateAndInputsTogether: a state that cannot be saved takes nothing in.
func TestStateAndInputsTogether(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	createRun(t, st, aRun("r1", 7))
	id, _ := addInput(t, st, anInput("comment:1", 1))
	takeIn := func(saved run.ID) error {
		return st.InTx(t.Context(), func(tx *store.Tx) error {
			if _, err := st.SettleInput(t.Context(), tx, id, store.InputDone, "", "r1"); err != nil {
				return err
			}
			return st.SaveStateTx(t.Context(), tx, saved, run.PhaseIterating, "", []byte("new"), t0())
		})
	}
	spoken := func(want ...run.ID) {
		t.Helper()
		if got, err := st.SpokenTo(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("spoken to: %v, %v; want %v", got, err, want)
		}
	}
	spoken("r1")
	wantErr(t, takeIn("r2"), store.ErrNotFound)
	if left, err := st.PendingInputs(t.Context(), "R_1", 7); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := takeIn("r1"); err != nil {
		t.Error(err)
	}
	spoken()
	if left, err := st.PendingInputs(t.Context(), "R_1", 7); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestRunsByPullAndRename(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	createRun(t, st, aRun("r1", 7))
	row, err := st.Run(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = st.LatestRunByPull(t.Context(), row.RepoNode, 0)
	wantErr(t, err, store.ErrNotFound)
	inTx(t, st, func(tx *store.Tx) error {
		if err := st.NotePull(t.Context(), tx, "r1", 12); err != nil {
			return err
		}
		return st.RenameRepo(t.Context(), tx, row.RepoNode, "acme", "gadgets", 0)
	})
	got, err := st.LatestRunByPull(t.Context(), row.RepoNode, 12)
	if err != nil || got.RepoOwner != "acme" || got.RepoName != "gadgets" || got.Installation != row.Installation {
		t.Errorf("%+v, %v", got, err)
	}
	inTx(t, st, func(tx *store.Tx) error {
		return st.RenameRepo(t.Context(), tx, row.RepoNode, "acme", "gadgets", 1<<40)
	})
	if got, err = st.Run(t.Context(), "r1"); err != nil || got.Installation != 1<<40 || got.PullNumber != 12 {
		t.Errorf("%+v, %v", got, err)
	}
	if n, err := st.RunsSince(t.Context(), row.RepoNode, 7, row.CreatedAt.Add(-time.Second)); err != nil || n != 1 {
		t.Errorf("%d runs, %v", n, err)
	}
}
