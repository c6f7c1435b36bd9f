package store_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gateway/spend"
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
	if _, err := st.Run(t.Context(), "r-issue"); err != nil {
		t.Errorf("the run of an issue: %v", err)
	}
}

// TestReplacedRunIsForgotten: what was noted of it goes, and nothing else.
func TestReplacedRunIsForgotten(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	replaceRun(t, st, planRun("r-1", "/a", "plan:x.md"))
	replaceRun(t, st, planRun("r-10", "/a", "plan:y.md")) // its id begins like that of the first
	ids := []run.ID{"r-1", "r-10"}
	l := st.Spend()
	for _, id := range ids {
		name := string(id) + "-1"
		day := spend.DayScope("/a", "2026-03-01", 0)
		scopes := []spend.Scope{spend.RunScope(id, 0), spend.TaskScope(id, "T1", 0), day}
		if err := l.Begin(t.Context(), spend.Start{Name: name, Scopes: scopes}); err != nil {
			t.Fatal(err)
		}
		charged := l.Charge(t.Context(), name, spend.Charge{Model: "m", Cost: 5})
		refused := l.Refuse(t.Context(), name, spend.Refusal{Reason: "no"})
		reached := l.Reach(t.Context(), name, run.HostUse{Host: "h", Count: 1})
		if err := errors.Join(charged, refused, reached); err != nil {
			t.Fatal(err)
		}
	}
	other, err := l.Report(t.Context(), "r-10-1")
	if err != nil {
		t.Fatal(err)
	}

	replaceRun(t, st, planRun("r-2", "/a", "plan:x.md"))
	for id, want := range map[run.ID]spend.USD{"r-1": 0, "r-10": 5} {
		for _, scope := range []spend.Scope{spend.RunScope(id, 0), spend.TaskScope(id, "T1", 0)} {
			if spent, err := l.Spent(t.Context(), scope.Key); err != nil || spent != want {
				t.Errorf("%s: %v, %v", scope.Key, spent, err)
			}
		}
	}
	if spent, err := l.Spent(t.Context(), spend.DayScope("/a", "2026-03-01", 0).Key); err != nil || spent != 10 {
		t.Errorf("the day: %v, %v", spent, err)
	}
	for name, want := range map[string]spend.Report{"r-1-1": {}, "r-10-1": other} {
		got, err := l.Report(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, err := l.Start(t.Context(), "r-1-1"); !errors.Is(err, spend.ErrUnknownStart) {
		t.Errorf("the start: %v", err)
	}
}

// TestPlanHasOneActiveRun: the second comes in the place of the first only by
// ReplaceRun.
func TestPlanHasOneActiveRun(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	replaceRun(t, st, planRun("r-1", "/a", "plan:x.md"))
	wantErr(t, st.InTx(t.Context(), func(tx *store.Tx) error {
		return st.CreateRun(t.Context(), tx, planRun("r-2", "/a", "plan:x.md"))
	}), store.ErrRunActive)
	// Who drove the first no longer does.
	replaceRun(t, st, planRun("r-2", "/a", "plan:x.md"))
	wantErr(t, st.SaveState(t.Context(), "r-1", run.PhaseIterating, "", nil, t0()), store.ErrNotFound)
}
