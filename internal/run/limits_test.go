package run_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// TestTighten: what a repository asks for never gets it more than the server
// allows.
func TestTighten(t *testing.T) {
	t.Parallel()
	server := run.DefaultLimits()
	got := server.Tighten(run.Limits{
		MaxIterations: 500, TaskAttempts: 1, RunTimeout: time.Hour, IdleTimeout: -1, BudgetUSD: 3,
	})
	want := server
	want.TaskAttempts, want.RunTimeout, want.BudgetUSD = 1, time.Hour, 3
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
