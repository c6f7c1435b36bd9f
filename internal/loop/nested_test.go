package loop_test

import (
	"fmt"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestNestedRepositories: people are told once of a folder that was a repository
// of its own, when its files land, though only the first of the attempts that
// made them found its .git; whenever the process dies.
func TestNestedRepositories(t *testing.T) {
	t.Parallel()
	begin := func() *world {
		w := newWorld(t)
		w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			w.nested = nil
			w.work["app/"+s.TaskID] = "half"
			switch {
			case s.TaskID == "T1" && a.Attempt == 1:
				w.nested = []string{"app", "empty"}
			case s.TaskID == "T2":
				w.nested = []string{"app"}
				fallthrough
			default:
				w.work["app/"+s.TaskID] = "whole"
			}
			return claimed()
		}
		w.gate = func(tree files, _ string) bool { return tree["app/T1"] == "whole" }
		return w
	}
	r := request(t, "- [ ] one\n- [ ] two\n")
	r.Gates = []gate.Gate{{Name: "test", Command: "test"}}
	verify := func(s loop.State, at int) {
		t.Helper()
		if s.End != run.EndAllTasksComplete {
			t.Fatalf("crash at step %d: ended %s: %s", at, s.End, s.EndDetail)
		}
		if len(s.Findings) != 1 || s.Findings[0].Rule != loop.RuleNested || s.Findings[0].Path != "app" {
			t.Errorf("crash at step %d: people are told %+v", at, s.Findings)
		}
	}
	many := begin()
	tell := many.agent
	many.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		status := tell(w, s, a)
		for i := range 5000 {
			w.nested = append(w.nested, fmt.Sprintf("lib/%d", i))
			w.work[fmt.Sprintf("lib/%d/f", i)] = "f"
		}
		return status
	}
	if s := many.drive(loop.NewState(r, many.now), nil); len(s.Findings) != 10 || s.Findings[9].Path != "" ||
		len(s.Nested) != 11 {
		t.Errorf("of very many people are told %+v", s.Findings)
	}
	clean := begin()
	verify(clean.drive(loop.NewState(r, clean.now), nil), -1)
	for at, crash := range eachCrash {
		w := begin()
		verify(w.drive(loop.NewState(r, w.now), crash), at)
	}
}
