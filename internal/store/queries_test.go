package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// TestQueries asks what no other test asks.
func TestQueries(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st := fresh(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(st.Check(ctx))
	must(st.Writable(ctx))
	is := func(what string, want bool, got bool, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	if at, err := st.Since(ctx); err != nil || !at.IsZero() {
		t.Errorf("a new store knows of %v, %v", at, err)
	}
	inTx(t, st, func(tx *store.Tx) error {
		_, err := st.InsertDelivery(ctx, tx, store.Delivery{GUID: "g-1", ReceivedAt: t0()})
		return err
	})
	if at, err := st.Since(ctx); err != nil || !at.Equal(t0()) {
		t.Errorf("the first webhook was taken at %v, %v", at, err)
	}

	ids := func(rows []store.Run, err error) (ids []run.ID) {
		t.Helper()
		must(err)
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		return ids
	}
	same := func(what string, want, got []run.ID) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
	for i, id := range []run.ID{"r-1", "r-2", "x_%-3"} {
		r := aRun(id, 7+i)
		r.CreatedAt = t0().Add(time.Duration(i) * time.Second)
		createRun(t, st, r)
	}
	must(st.SaveState(ctx, "r-1", run.PhaseDone, run.EndAllTasksComplete, nil, t0().Add(time.Minute)))
	replaceRun(t, st, planRun("p-1", "/a", "plan:x.md"))
	same("the newest", []run.ID{"r-2", "x_%-3"}, ids(st.RecentRuns(ctx, 3))[1:])
	same("by the beginning of an id", []run.ID{"r-1", "r-2"}, ids(st.RunsLike(ctx, "r-")))
	same("by one that looks like a pattern", nil, ids(st.RunsLike(ctx, "r_%")))
	same("in a checkout", []run.ID{"p-1"}, ids(st.RunsOfCheckout(ctx, "/a")))

	first := store.Input{
		RepoNode: "R_1", Issue: 7, Kind: store.InputCommand, Source: "comment:1", SourceID: 1, State: store.InputDone,
		Outcome: "start", ReceivedAt: t0(),
	}
	second := first
	second.Source, second.SourceID, second.Outcome = "comment:2", 2, "stop"
	inTx(t, st, func(tx *store.Tx) error {
		_, _, err := st.AddInput(ctx, tx, first)
		must(err)
		_, _, err = st.AddInput(ctx, tx, second)
		must(err)
		return nil
	})
	got, err := st.LaterInput(ctx, first, "stop", "start")
	is("something later", true, got, err)
	got, err = st.LaterInput(ctx, first, "pause")
	is("something else later", false, got, err)
	got, err = st.LaterInput(ctx, second, "stop", "start")
	is("something after the last", false, got, err)
}
