package reconcile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/spend"
	"github.com/org/ralph-action/internal/store"
)

// Runs share the budgets of their issue and of their repository's day, which
// begins at midnight UTC.
func TestRunsShareBudgets(t *testing.T) {
	t.Parallel()
	m := &Models{IssueUSD: 2.5}
	one, other := store.Run{ID: "r1", RepoNode: "R", IssueNode: "I_1"}, store.Run{ID: "r2", RepoNode: "R", IssueNode: "I_2"}
	late := time.Date(2026, 1, 2, 20, 0, 0, 0, time.FixedZone("", -5*60*60))
	got := m.scopes(one, late)
	want := []spend.Scope{{Key: "issue:I_1", Limit: spend.Dollars(2.5)}, {Key: "day:R/2026-01-03"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := m.scopes(other, late); got[0].Key == want[0].Key || got[1].Key != want[1].Key {
		t.Errorf("another issue of the repository is charged to %v", got)
	}
}
