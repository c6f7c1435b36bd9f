package loop_test

import (
	"errors"
	"slices"
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

// overBudgetOnce has the first call for a task end because the budget is used up.
func (c *crew) overBudgetOnce(task string) {
	work, over := c.agent, true
	c.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		if over && s.TaskID == task {
			over = false
			return loop.AgentStatus{Outcome: loop.AgentOverBudget, Usage: run.Usage{CostUSD: 1}}
		}
		return work(w, s, a)
	}
}

// TestMoreWorkAtTheEnd: a run that one of its calls has ended and that a person gives more to do
// goes on with all its tasks.
func TestMoreWorkAtTheEnd(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.writes = true
	c.overBudgetOnce("T2")
	s := parallel(t, fourTasks, 3)
	s.Limits.BudgetUSD = 100
	e := c.engine()
	for s.End == "" {
		next, n, err := e.Step(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if s = next; n.Kind == loop.Wait {
			c.end(string(n.Handles[1])) // T2, beside two that are at work
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

// TestTheBudgetEndsBehindPaidWork: where one of several calls comes to the end of the budget, what
// others had finished lands, those at work are stopped, and no other begins. A person who raises
// the budget in time has it all go on.
func TestTheBudgetEndsBehindPaidWork(t *testing.T) {
	t.Parallel()
	for _, raised := range []bool{false, true} {
		c := newCrew(t)
		c.writes = true
		c.overBudgetOnce("T2")
		s := parallel(t, fourTasks, 4)
		s.Limits.BudgetUSD = 1.5
		e := c.engine()
		for _, next := range []int{0, 2, 1} { // T1, which is checked then, T3, which waits, and T2
			var n loop.Next
			s, n = c.atWork(e, s)
			c.end(string(n.Handles[next]))
		}
		s, n := c.atWork(e, s)
		if s.End != "" || len(n.Handles) != 1 || len(c.stopped) != 1 {
			t.Fatalf("ended %q: %s; it waits for %v, and stopped %v", s.End, s.EndDetail, n.Handles, c.stopped)
		}
		end, done := run.EndBudgetExhausted, 2
		if raised {
			end, done = run.EndAllTasksComplete, 4
			var err error
			if s, _, err = e.Steer(t.Context(), s, loop.Wish{
				Kind: loop.WishBudget, USD: 100, By: loop.Person{Login: "ada"},
			}); err != nil {
				t.Fatal(err)
			}
		}
		s = c.play(s, func(int) int { return 0 }, nil)
		landed := 0
		for _, l := range c.commits {
			if l.Task.ID != "" {
				landed++
			}
		}
		if s.End != end || landed != done || !raised && len(c.started) != 4 {
			t.Errorf("ended %s: %s; %d tasks landed, %d agents", s.End, s.EndDetail, landed, len(c.started))
		}
		c.linear(s)
	}
}

// TestTheBudgetOfTheRunsOwnCall: the call that splits a task comes to the end of the budget. What
// was finished beside it lands, whenever the process dies.
func TestTheBudgetOfTheRunsOwnCall(t *testing.T) {
	t.Parallel()
	for at, crash := range eachCrash {
		c := newCrew(t)
		c.writes = true
		work := c.agent
		c.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			switch {
			case a.Mode == run.ModePlan:
				return loop.AgentStatus{Outcome: loop.AgentOverBudget, Usage: run.Usage{CostUSD: 1}}
			case s.TaskID == "T1":
				return completed("RALPH_RESULT: failed: this task is too large for one call")
			}
			return work(w, s, a)
		}
		s := parallel(t, fourTasks, 2)
		s.Limits.BudgetUSD = 1.5
		ends := 0
		s = c.play(s, func(n int) int { // T1, then T2 while T1 is split
			if ends++; ends == 2 {
				return min(1, n-1)
			}
			return 0
		}, crash)
		var landed []string
		for _, l := range c.commits {
			landed = append(landed, l.Task.ID)
		}
		if s.End != run.EndBudgetExhausted || !slices.Equal(landed, []string{"T2"}) || len(s.Calls) > 0 {
			t.Fatalf("crash at step %d: ended %q: %s; %q landed, calls %+v", at, s.End, s.EndDetail, landed, s.Calls)
		}
		c.linear(s)
	}
}
