package loop_test

import (
	"errors"
	"testing"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestStoppedCallsAreCounted: what agents have cost that a cancelled run stops is known, even
// where a step of that has to be repeated.
func TestStoppedCallsAreCounted(t *testing.T) {
	t.Parallel()
	for most := 1; most <= 3; most++ {
		c := newCrew(t)
		e := c.engine()
		s, n := c.atWork(e, parallel(t, fourTasks, most))
		if len(n.Handles) != most {
			t.Fatalf("%d agents are at work, not %d", len(n.Handles), most)
		}
		s.CancelRequested = true
		c.removeErr = append(make([]error, most-1), errBoom)
		for s.EndedAt.IsZero() {
			next, _, err := e.Step(t.Context(), s)
			if err != nil && !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
			s = next
		}
		if len(c.removeErr) > 0 || s.Usage.CostUSD != 0.25*float64(most) {
			t.Errorf("%d agents were stopped, which cost $%.2f; %d calls of Remove are left", most, s.Usage.CostUSD, len(c.removeErr))
		}
	}
}

// TestMoreWorkAtTheEnd: a run that one of its calls has ended and that a person gives more to do
// goes on with all its tasks.
func TestMoreWorkAtTheEnd(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.writes = true
	work, over := c.agent, true
	c.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		if over && s.TaskID == "T2" {
			over = false
			return loop.AgentStatus{Outcome: loop.AgentOverBudget, Usage: run.Usage{CostUSD: 1}}
		}
		return work(w, s, a)
	}
	s := parallel(t, fourTasks, 3)
	s.Limits.BudgetUSD = 100
	e := c.engine()
	for s.End == "" {
		next, n, err := e.Step(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if s = next; n.Kind == loop.Wait {
			c.end(string(n.Handles[len(n.Handles)-1]))
		}
	}
	if s.End != run.EndBudgetExhausted {
		t.Fatalf("ended %s: %s", s.End, s.EndDetail)
	}
	s, _, err := e.Steer(t.Context(), s, loop.Wish{
		Kind: loop.WishAdd, Task: run.Task{Title: "five"}, By: loop.Person{Login: "ada"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s = c.play(s, func(int) int { return 0 }, nil)
	if s.End != run.EndAllTasksComplete || len(c.tasks(s)) != 5 {
		t.Errorf("ended %s: %s, with %d tasks", s.End, s.EndDetail, len(c.tasks(s)))
	}
	c.linear(s)
}
