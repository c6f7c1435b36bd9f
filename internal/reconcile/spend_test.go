package reconcile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/store"
)

// Runs share the budgets of their issue and of their repository's day, which
// begins at midnight UTC.
func TestRunsShareBudgets(t *testing.T) {
	t.Parallel()
	m := &Models{IssueUSD: 2.5}
	one, other := store.Run{ID: "r1", RepoNode: "R", IssueNode: "I_1"},
		store.Run{ID: "r2", RepoNode: "R", IssueNode: "I_2"}
	late := time.Date(2026, 1, 2, 20, 0, 0, 0, time.FixedZone("", -5*60*60))
	got := m.Scopes(one, late)
	want := []spend.Scope{{Key: "issue:I_1", Limit: spend.Dollars(2.5)}, {Key: "day:R/2026-01-03"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := m.Scopes(other, late); got[0].Key == want[0].Key || got[1].Key != want[1].Key {
		t.Errorf("another issue of the repository is charged to %v", got)
	}
}

// What a run shares with others is told where it leaves less than was asked for.
func TestSharedBudgetsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	at, row := w.clock.now(), store.Run{ID: "r1", RepoNode: "R", IssueNode: "I_1"}
	m := &Models{IssueUSD: 10, DayUSD: 20}
	ledger := w.r.cfg.Store.Spend()
	if err := ledger.Begin(t.Context(), spend.Start{Name: "a", Scopes: m.Scopes(row, at)}); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Charge(t.Context(), "a", spend.Charge{Model: "model", Cost: spend.Dollars(9)}); err != nil {
		t.Fatal(err)
	}
	const issue, day = "All runs of this issue share a budget of $10.00 (`budgets.issue_usd`); $1.00 is left.",
		"All runs in this repository share a daily budget of $20.00 (`budgets.repository_day_usd`); $11.00 is left today."
	for more, want := range map[float64][]string{1: nil, 5: {issue}, 12: {issue, day}} {
		got, err := m.caps(t.Context(), ledger, row, at, more)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("$%v more: %v\n%s", more, err, diff)
		}
	}
	if got, err := (&Models{}).caps(t.Context(), ledger, row, at, 100); len(got) != 0 || err != nil {
		t.Errorf("without budgets: %q, %v", got, err)
	}
}
