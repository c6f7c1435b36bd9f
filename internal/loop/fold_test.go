package loop_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// TestWhatChangesDuringAFoldStays: what a person does to the tasks while folded work is checked, and
// what other agents note, is there once that work has landed.
func TestWhatChangesDuringAFoldStays(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	e := c.engine()
	s, n := c.atWork(e, parallel(t, fourTasks, 4))
	folded := func(l loop.Lane) bool { return l.Folded }
	for !slices.ContainsFunc(s.Lanes, folded) {
		for _, h := range n.Handles {
			if name := string(h); name != s.Lanes[len(s.Lanes)-1].Process.Name { // the last agent goes on
				c.end(name)
			}
		}
		s, n = c.atWork(e, s)
	}
	ada := loop.Person{Login: "ada"}
	for _, w := range []loop.Wish{
		{Kind: loop.WishSkip, TaskID: "T4", By: ada},
		{Kind: loop.WishAdd, Task: run.Task{Title: "five"}, By: ada},
	} {
		var err error
		if s, _, err = e.Steer(t.Context(), s, w); err != nil {
			t.Fatal(err)
		}
	}
	lands := func(l loop.Lane) bool { return l.Stage == "land" }
	for !slices.ContainsFunc(s.Lanes, lands) {
		for _, h := range n.Handles {
			c.end(string(h))
		}
		var err error
		if s, n, err = e.Step(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := e.Steer(t.Context(), s, loop.Wish{Kind: loop.WishSkip, TaskID: "T3", By: ada}); !errors.Is(err, loop.ErrNotNow) {
		t.Errorf("a wish is taken in while a commit is made of what was there before: %v", err)
	}
	s = c.play(s, func(int) int { return 0 }, nil)
	for _, task := range c.tasks(s) {
		want := run.TaskDone
		if task.ID == "T4" {
			want = run.TaskSkipped
		}
		if task.Status != want {
			t.Errorf("%s is %s, not %s", task.ID, task.Status, want)
		}
	}
	if got := len(c.tasks(s)); got != 5 {
		t.Errorf("%d tasks are left of 5", got)
	}
	c.linear(s)
}

// TestVerifiedLanesAreFolded: a task that another call has looked at is brought onto the
// present tip like any other, and so is one that was done before.
func TestVerifiedLanesAreFolded(t *testing.T) {
	t.Parallel()
	for name, there := range map[string]bool{"new": false, "done before": true} {
		c := newCrew(t)
		c.settings.VerifyTasks, c.settings.Limits.Parallel = true, 3
		if there {
			c.landed[0].Tree = c.store(files{"src/T2.txt": "done"})
		}
		c.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
			if s.Job == prompt.JobVerify {
				return completed("1. yes: src/" + s.TaskID + ".txt:1 has it\n\nRALPH_VERIFY: agreed")
			}
			w.work["src/"+s.TaskID+".txt"] = "done"
			return completed("It is in src/" + s.TaskID + ".txt:1 already.\n\nRALPH_RESULT: done")
		}
		s := c.play(parallel(t, fourTasks, 3), func(n int) int { return n - 1 }, nil)
		if s.End != run.EndAllTasksComplete || c.most < 2 {
			t.Fatalf("%s: ended %s: %s; %d agents at once", name, s.End, s.EndDetail, c.most)
		}
		if c.moved > 0 {
			t.Errorf("%s: %d proposals were made on a tip that was gone", name, c.moved)
		}
		if told := slices.ContainsFunc(s.Findings, func(f gate.Finding) bool { return f.Rule == loop.RuleAlready }); told != there {
			t.Errorf("%s: people are told that a task was done: %v", name, told)
		}
		if strings.Contains(s.Progress, "was already done: ") != there {
			t.Errorf("%s: the log says that a task was done:\n%s", name, s.Progress)
		}
		c.linear(s)
	}
}
