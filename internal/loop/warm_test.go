package loop_test

import (
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// On a branch that agents may have written on, each check runs once on the default
// branch, for what that leaves in the caches; not again, and not where that is kept.
func TestColdCachesAreFilledOnTheDefaultBranch(t *testing.T) {
	t.Parallel()
	for name, warm := range map[string]bool{"cold": false, "warm": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.defaultTree, w.warm = w.store(files{"README": "of the default branch"}), warm
			s := w.drive(loop.NewState(withGate(t, gate.Gate{Name: "suite"}), w.now), nil)
			if s.End != run.EndAllTasksComplete {
				t.Fatalf("ended %s: %s", s.End, s.EndDetail)
			}
			var filled int
			for i, c := range w.checks {
				if c.Trust != loop.TrustBase {
					continue
				}
				filled++
				if i != 0 || c.Tree != w.defaultTree || c.Of != "on the default branch" {
					t.Errorf("check %d fills the caches on %s (%s)", i, c.Tree, c.Of)
				}
			}
			if want := map[bool]int{false: 1, true: 0}[warm]; filled != want {
				t.Errorf("%d checks fill the caches, want %d", filled, want)
			}
		})
	}
}
