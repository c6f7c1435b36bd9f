package loop_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// TestSideBySide: four tasks at once come to four commits in one line.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	s := c.play(parallel(t, fourTasks, 4), func(int) int { return 0 }, nil)
	if s.End != run.EndAllTasksComplete || c.most != 4 {
		t.Errorf("ended %s: %s; %d agents at once", s.End, s.EndDetail, c.most)
	}
	c.linear(s)
	tip := c.world.trees[c.head().Tree]
	for _, id := range []string{"T1", "T2", "T3", "T4"} {
		if tip["src/"+id+".txt"] != "done" {
			t.Errorf("the work of %s is not in the tip: %v", id, slices.Sorted(maps.Keys(tip)))
		}
	}
	if len(s.Calls) != 0 {
		t.Errorf("lanes are left: %+v", s.Calls)
	}
}

// TestFoldConflict: of two tasks that change one file, the later is done again on what the
// earlier one left, and its call is shown both changes.
func TestFoldConflict(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["shared.txt"] += s.TaskID + "\n"
		return claimed()
	}
	s := c.play(parallel(t, fourTasks[:strings.Index(fourTasks, "- [ ] T3")], 2), func(int) int { return 0 }, nil)
	if s.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", s.End, s.EndDetail)
	}
	c.linear(s)
	if got := c.world.trees[c.head().Tree]["shared.txt"]; got != "T1\nT2\n" && got != "T2\nT1\n" {
		t.Errorf("the file is %q", got)
	}
	last := c.prompts[len(c.prompts)-1]
	for _, want := range []string{"do not fit together", "shared.txt", "+T2", "+T1"} {
		if !strings.Contains(last, want) {
			t.Errorf("the call that does the later task again is not told %q:\n%s", want, last)
		}
	}
	if s.Attempts["T1"]+s.Attempts["T2"] != 0 {
		t.Errorf("attempts were used up: %v", s.Attempts)
	}
}

// TestFoldedChecksFail: two changes that are green alone and red together do not both land
// as they are.
func TestFoldedChecksFail(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if w.work["T1.txt"]+w.work["T2.txt"] != "" {
			w.work["both.txt"] = "they get on"
		}
		w.work[s.TaskID+".txt"] = "done"
		return claimed()
	}
	c.gate = func(tree files, _ string) bool {
		return tree["T1.txt"] == "" || tree["T2.txt"] == "" || tree["both.txt"] != ""
	}
	s := c.play(parallel(t, fourTasks[:strings.Index(fourTasks, "- [ ] T3")], 2), func(n int) int { return n - 1 }, nil)
	if s.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", s.End, s.EndDetail)
	}
	c.linear(s)
	for _, l := range c.commits {
		if !c.gate(c.world.trees[l.Tree], "check") {
			t.Errorf("the commit of %s breaks the check", l.Task.ID)
		}
	}
}

// TestMarkedTasksWait: a task without the mark, and one that depends on another, wait; two that
// name one file are not worked together.
func TestMarkedTasksWait(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	var order []string
	c.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		order = append(order, s.TaskID)
		w.work[s.TaskID+".txt"] = "done"
		return claimed()
	}
	body := "- [ ] T1 [P] one\n  - Files: a.go\n- [ ] T2 [P] two\n  - Files: a.go\n- [ ] T3 three\n- [ ] T4 [P] four\n- [ ] T5 [P] five\n"
	s := c.play(parallel(t, body, 4), func(int) int { return 0 }, nil)
	c.linear(s)
	if got := strings.Join(order, " "); got != "T1 T2 T3 T4 T5" || c.most != 2 {
		t.Errorf("worked %s, %d at once", got, c.most)
	}
}

// TestCancelSideBySide: a cancelled run stops all its agents, and what was done stays open.
func TestCancelSideBySide(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	s := parallel(t, fourTasks, 3)
	e := c.engine()
	s, n := c.atWork(e, s)
	if len(n.Handles) != 3 || len(s.Occupies()) != 3 {
		t.Fatalf("it waits for %v and occupies %v", n.Handles, s.Occupies())
	}
	s.CancelRequested, s.CancelReason = true, "by ada"
	s = c.play(s, func(int) int { return 0 }, nil)
	if s.End != run.EndCancelled || len(c.stopped) != 3 || len(s.Calls) != 0 || len(c.commits) != 0 {
		t.Errorf("ended %s, stopped %v, %d lanes, %d commits", s.End, c.stopped, len(s.Calls), len(c.commits))
	}
}

// TestSkipSideBySide: a task that a person skips is stopped alone.
func TestSkipSideBySide(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.writes = true
	e := c.engine()
	s, _ := c.atWork(e, parallel(t, fourTasks, 3))
	s, _, err := e.Steer(t.Context(), s, loop.Wish{Kind: loop.WishSkip, TaskID: "T2", By: loop.Person{Login: "ada"}})
	if err != nil {
		t.Fatal(err)
	}
	s = c.play(s, func(int) int { return 0 }, nil)
	// That of T2 is stopped, and nobody begins it again.
	if s.End != run.EndAllTasksComplete || len(c.started) != 4 {
		t.Errorf("ended %s: %s; %d agents, not 4", s.End, s.EndDetail, len(c.started))
	}
	if len(c.stopped) != 1 {
		t.Errorf("stopped %v", c.stopped)
	}
	c.linear(s)
}

// TestSchedules plays seeded runs in which processes end in any order, tasks collide in
// files and in meaning, agents fail, the host dies before any save and people cancel. What
// must hold holds in each: see linear, and no commit breaks the check.
func TestSchedules(t *testing.T) {
	t.Parallel()
	n, first := 30, uint64(1)
	if os.Getenv("RALPH_TEST_FULL") != "" {
		n = 10_000
	}
	if seed, err := strconv.ParseUint(os.Getenv("RALPH_TEST_SEED"), 10, 64); err == nil {
		n, first = 1, seed
	}
	var sentBack, crashed, cancelled int
	for seed := first; seed < first+uint64(n); seed++ {
		c := newCrew(t)
		c.writes = true
		rnd := rand.New(rand.NewPCG(seed, 1))
		var body strings.Builder
		tasks := 2 + rnd.IntN(6)
		for i := range tasks {
			mark := "[P] "
			if rnd.IntN(6) == 0 {
				mark = ""
			}
			fmt.Fprintf(&body, "- [ ] T%d %stask %d\n", i+1, mark, i+1)
		}
		shared, meaning := rnd.IntN(4) == 0, rnd.IntN(4) == 0
		c.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
			if rnd.IntN(8) == 0 {
				return completed("I could not do it.\n\nRALPH_RESULT: failed: it is hard")
			}
			if rnd.IntN(10) == 0 {
				return loop.AgentStatus{Outcome: loop.AgentRateLimited}
			}
			if shared && rnd.IntN(2) == 0 {
				w.work["shared.txt"] += s.TaskID + "\n"
			}
			if meaning { // each counts what is there, and its own
				others := 0
				for path := range w.work {
					if strings.HasPrefix(path, "src/") && path != "src/"+s.TaskID+".txt" {
						others++
					}
				}
				w.work["count/"+s.TaskID] = strconv.Itoa(others + 1)
			}
			w.work["src/"+s.TaskID+".txt"] = "done"
			return claimed()
		}
		c.gate = func(tree files, _ string) bool {
			if !meaning {
				return true
			}
			have, counted := 0, 0
			for path, text := range tree {
				if strings.HasPrefix(path, "src/") {
					have++
				}
				if strings.HasPrefix(path, "count/") {
					n, _ := strconv.Atoi(text)
					counted = max(counted, n)
				}
			}
			return have == counted
		}
		s := parallel(t, body.String(), 1+rnd.IntN(4))
		crash := func(int) bool {
			died := rnd.IntN(12) == 0
			if died {
				crashed++
			}
			return died
		}
		if rnd.IntN(10) == 0 {
			cancelled++
			steps, e := rnd.IntN(60), c.engine()
			for range steps {
				next, n, err := e.Step(t.Context(), s)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				s = next
				if n.Kind == loop.Wait {
					c.end(string(n.Handles[rnd.IntN(len(n.Handles))]))
				}
				if n.Kind == loop.Done {
					break
				}
			}
			s.CancelRequested = true
		}
		s = c.play(s, rnd.IntN, crash)
		for _, ev := range c.events {
			if strings.HasPrefix(ev.Text, "does not fit") {
				sentBack++
			}
		}
		c.linear(s)
		for _, l := range c.commits {
			if l.Task.ID != "" && !c.gate(c.world.trees[l.Tree], "check") {
				t.Errorf("the commit of %s breaks the check", l.Task.ID)
			}
			if l.Task.ID != "" && c.world.trees[l.Tree]["src/"+l.Task.ID+".txt"] != "done" {
				t.Errorf("the commit of %s lacks its work", l.Task.ID)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d (RALPH_TEST_SEED): ended %s: %s\n%s", seed, s.End, s.EndDetail, body.String())
		}
	}
	t.Logf("%d schedules from seed %d: %d times sent back, %d crashes, %d cancelled", n, first, sentBack, crashed, cancelled)
	if n > 1 && (sentBack == 0 || crashed == 0 || cancelled == 0) {
		t.Error("the schedules do not try everything")
	}
}

// TestStop: who stops a run before its next call lets those at work end and land.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 3} {
		c := newCrew(t)
		e := c.engine()
		s, _ := c.atWork(e, parallel(t, fourTasks, most))
		s, _, err := e.Steer(t.Context(), s, loop.Wish{Kind: loop.WishStop, By: ada})
		if err != nil {
			t.Fatal(err)
		}
		s = c.play(s, func(int) int { return 0 }, nil)
		if s.End != run.EndCancelled || s.EndDetail != "stopped by ada" || len(c.started) != most || len(c.stopped) != 0 {
			t.Errorf("ended %s: %s; %d agents, stopped %v", s.End, s.EndDetail, len(c.started), c.stopped)
		}
		c.linear(s)
		if n := len(s.Commits); n < most {
			t.Errorf("%d commits", n)
		}
	}
}

// TestPauseBesideOthers: while starts are held, agents at work end and land, and no other
// begins.
func TestPauseBesideOthers(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	held := false
	e := c.engine()
	e.Held = func(context.Context) (bool, error) { return held, nil }
	s := parallel(t, fourTasks, 2)
	step := func() loop.Next {
		t.Helper()
		next, n, err := e.Step(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		s = next
		return n
	}
	s, _ = c.atWork(e, s)
	held = true
	for !s.StartsAgent() {
		if n := step(); n.Kind == loop.Wait {
			c.end(string(n.Handles[0]))
		}
	}
	if len(c.started) != 2 || len(s.Commits) < 2 {
		t.Errorf("%d agents were started, %d commits landed", len(c.started), len(s.Commits))
	}
	n := step()
	for n.Kind == loop.Continue { // work trees are laid out
		n = step()
	}
	if n.Kind != loop.Sleep || s.Delayed == nil || len(c.started) != 2 {
		t.Errorf("then it goes on with %+v; %d agents were started", n, len(c.started))
	}
	held = false
	s = c.play(s, func(int) int { return 0 }, nil)
	if s.End != run.EndAllTasksComplete || s.Delayed != nil {
		t.Errorf("ended %s: %s, delayed %v", s.End, s.EndDetail, s.Delayed)
	}
	c.linear(s)
}

// TestVerifiedSideBySide: a task that was done before lands like any other, once another call has looked at it.
func TestVerifiedSideBySide(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.landed[0].Tree = c.store(files{"src/T2.txt": "done"})
	c.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.Job == prompt.JobVerify {
			return completed("1. yes: src/" + s.TaskID + ".txt:1 has it\n\nRALPH_VERIFY: agreed")
		}
		w.work["src/"+s.TaskID+".txt"] = "done"
		return claimed()
	}
	s := c.play(parallel(t, fourTasks, 3), func(n int) int { return n - 1 }, nil)
	if s.End != run.EndAllTasksComplete || c.most < 2 || c.moved > 0 {
		t.Fatalf("ended %s: %s; %d agents at once, %d proposals on a tip that was gone", s.End, s.EndDetail, c.most, c.moved)
	}
	if !strings.Contains(s.Progress, "was already done: ") {
		t.Errorf("the log does not say that a task was done:\n%s", s.Progress)
	}
	c.linear(s)
}
