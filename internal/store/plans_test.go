package store_test

import (
	"testing"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

func planRun(id run.ID, checkout, plan string) store.Run {
	return store.Run{
		ID: id, RepoNode: checkout, IssueNode: plan, Phase: run.PhaseIterating, State: []byte(id), CreatedAt: t0(),
	}
}

func replaceRun(t *testing.T, st *store.Store, r store.Run) {
	t.Helper()
	if err := st.ReplaceRun(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// TestRunOfPlan: a plan has the run that it had last, and other plans and
// checkouts have theirs.
func TestRunOfPlan(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	_, err := st.RunOfPlan(t.Context(), "/a", "plan:x.md")
	wantErr(t, err, store.ErrNotFound)
	issue := aRun("r-issue", 7)
	issue.RepoNode, issue.IssueNode = "/a", "plan:x.md"
	createRun(t, st, issue)
	for _, r := range []store.Run{
		planRun("r-1", "/a", "plan:x.md"), planRun("r-2", "/a", "plan:y.md"),
		planRun("r-3", "/b", "plan:x.md"), planRun("r-4", "/a", "plan:x.md"),
	} {
		replaceRun(t, st, r)
	}
	for _, want := range []struct {
		checkout, plan string
		id             run.ID
	}{{"/a", "plan:x.md", "r-4"}, {"/a", "plan:y.md", "r-2"}, {"/b", "plan:x.md", "r-3"}} {
		got, err := st.RunOfPlan(t.Context(), want.checkout, want.plan)
		if err != nil || got.ID != want.id || string(got.State) != string(want.id) {
			t.Errorf("%s in %s: %+v, %v", want.plan, want.checkout, got, err)
		}
	}
	_, err = st.Run(t.Context(), "r-1")
	wantErr(t, err, store.ErrNotFound)
	// Who drove it no longer does, and another comes only in its place.
	wantErr(t, st.SaveState(t.Context(), "r-1", run.PhaseIterating, "", nil, t0()), store.ErrNotFound)
	wantErr(t, st.InTx(t.Context(), func(tx *store.Tx) error {
		return st.CreateRun(t.Context(), tx, planRun("r-5", "/b", "plan:x.md"))
	}), store.ErrRunActive)
	if _, err := st.Run(t.Context(), "r-issue"); err != nil {
		t.Errorf("the run of an issue: %v", err)
	}
}
