package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

var ada = loop.Person{Login: "ada", ID: 7}

// driveSteering steps s to its end and asks w of it as soon as when holds; said
// is what came of it, and how often it had to wait.
func (w *world) driveSteering(
	s loop.State, wish loop.Wish, when func(loop.State) bool,
) (_ loop.State, said string, waited int, err error) {
	w.t.Helper()
	e := w.engine()
	due, asked := false, false
	w.meanwhile = func(s loop.State) loop.State {
		if due = due || when(s); !due || asked {
			return s
		}
		next, text, serr := e.Steer(w.t.Context(), s, wish)
		if errors.Is(serr, loop.ErrNotNow) {
			waited++
			return s
		}
		asked, said, err = true, text, serr
		return next
	}
	s = w.drive(s, nil)
	w.meanwhile = nil
	return s, said, waited, err
}

func subjectsOf(w *world) (got []string) {
	for _, c := range w.commits {
		if !c.Closing && !c.Recorded {
			got = append(got, strings.TrimSpace(c.Task.ID+" "+c.Task.Title))
		}
	}
	return got
}

func iterating(n int) func(loop.State) bool {
	return func(s loop.State) bool { return s.Iteration >= n && s.Phase == run.PhaseIterating }
}

func TestSteerAddsATask(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]func(loop.State) bool{
		"while an agent works": iterating(2),
		"at the final checks":  func(s loop.State) bool { return s.Phase == run.PhaseFinishing },
		"at its very end":      func(s loop.State) bool { return s.End != "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s, said, waited, err := w.driveSteering(loop.NewState(request(t, threeTasks), w.now),
				loop.Wish{Kind: loop.WishAdd, By: ada, Task: run.Task{Title: "four"}}, when)
			if err != nil || said != "`ada` added T4." {
				t.Fatalf("%q, %v", said, err)
			}
			if s.End != run.EndAllTasksComplete {
				t.Errorf("ended %s: %s", s.End, s.EndDetail)
			}
			if diff := cmp.Diff([]string{"T1 one", "T2 two", "T3 three", "T4 four"}, subjectsOf(w)); diff != "" {
				t.Error(diff)
			}
			if (waited > 0) != (name == "while an agent works") {
				t.Errorf("it waited %d steps", waited)
			}
			if diff := cmp.Diff(ada, s.AskedBy("T4")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{said}, s.Merged); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSteerSkipsWhatIsBeingWorkedOn: the agent is stopped, and its work is gone.
func TestSteerSkipsWhatIsBeingWorkedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, said, waited, err := w.driveSteering(loop.NewState(request(t, threeTasks), w.now),
		loop.Wish{Kind: loop.WishSkip, By: ada, TaskID: "T2"},
		func(s loop.State) bool { return s.TaskID == "T2" && s.Process != nil && s.Process.Handle != "" })
	if err != nil || waited != 0 || said != "`ada` skipped T2." {
		t.Fatalf("%q after %d steps, %v", said, waited, err)
	}
	if diff := cmp.Diff([]string{"T1 one", "T3 three"}, subjectsOf(w)); diff != "" {
		t.Error(diff)
	}
	if _, there := w.trees[w.head().Tree]["src/T2.txt"]; there || len(w.stopped) != 1 {
		t.Errorf("stopped %v; T2's file is there: %t", w.stopped, there)
	}
	if s.End != run.EndAllTasksComplete || !strings.Contains(s.Progress, "(skipped: requested by ada)") {
		t.Errorf("ended %s:\n%s", s.End, s.Progress)
	}
}

// TestSteerRetriesWhatIsBlocked: a run about to end for want of work goes on.
func TestSteerRetriesWhatIsBlocked(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"T2", ""} {
		w := newWorld(t)
		works := false
		w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
			if s.TaskID != "T2" || works {
				w.work["src/"+s.TaskID+".txt"] = "done"
			}
			return claimed()
		}
		s, said, _, err := w.driveSteering(loop.NewState(request(t, threeTasks), w.now),
			loop.Wish{Kind: loop.WishRetry, By: ada, TaskID: id}, func(s loop.State) bool {
				works = s.End != ""
				return works
			})
		if err != nil || said != "`ada` reopened T2." {
			t.Fatalf("%q, %v", said, err)
		}
		if diff := cmp.Diff([]string{"T1 one", "T3 three", "T2 two"}, subjectsOf(w)); diff != "" ||
			s.End != run.EndAllTasksComplete {
			t.Errorf("ended %s (%s): %s", s.End, s.EndDetail, diff)
		}
	}
}

func TestSteerRefuses(t *testing.T) {
	t.Parallel()
	at := iterating(2)
	for name, tt := range map[string]struct {
		wish loop.Wish
		want string
	}{
		"no such task": {loop.Wish{Kind: loop.WishSkip, TaskID: "T9"}, "no task T9"},
		"a done task":  {loop.Wish{Kind: loop.WishSkip, TaskID: "T1"}, "done already"},
		"no budget":    {loop.Wish{Kind: loop.WishBudget, USD: 5}, "no budget"},
	} {
		w := newWorld(t)
		s, said, _, err := w.driveSteering(loop.NewState(request(t, threeTasks), w.now), tt.wish, at)
		if userErr, ok := errors.AsType[*run.UserError](err); !ok || !strings.Contains(userErr.Message, tt.want) ||
			said != "" {
			t.Errorf("%s: said %q, %v", name, said, err)
		}
		if s.End != run.EndAllTasksComplete || len(s.Merged) != 0 {
			t.Errorf("%s: ended %s, %v", name, s.End, s.Merged)
		}
	}
	w := newWorld(t)
	if _, _, err := w.engine().Steer(t.Context(), loop.NewState(request(t, threeTasks), w.now),
		loop.Wish{Kind: loop.WishSkip, TaskID: "T1"}); !errors.Is(err, loop.ErrNotNow) {
		t.Errorf("a run that has not begun: %v", err)
	}
}

// TestSteerBudget: never over the server's bound; a run that stopped for want
// of money goes on.
func TestSteerBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := request(t, threeTasks)
	r.Limits = run.Limits{BudgetUSD: 0.3} // a call costs 0.25
	s, said, _, err := w.driveSteering(loop.NewState(r, w.now),
		loop.Wish{Kind: loop.WishBudget, By: ada, USD: 5, CapUSD: 2},
		func(s loop.State) bool { return s.End == run.EndBudgetExhausted })
	if err != nil || said != "`ada` raised the budget to $2.00." {
		t.Fatalf("%q, %v", said, err)
	}
	if s.End != run.EndAllTasksComplete || s.Limits.BudgetUSD != 2 {
		t.Errorf("ended %s with a budget of %v", s.End, s.Limits.BudgetUSD)
	}
	if _, _, _, err = newWorld(t).driveSteering(loop.NewState(r, w.now),
		loop.Wish{Kind: loop.WishBudget, By: ada, USD: 5, CapUSD: 0.3}, iterating(1)); err == nil {
		t.Error("the server's bound was raised")
	}
}

// TestApprovalIsOfWhatWasRead: what agents add to a plan that a person approved
// waits for a person, and no commit says that it was approved.
func TestApprovalIsOfWhatWasRead(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]prompt.Job{"a worker": prompt.JobBuild, "a reviewer": prompt.JobReview} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			approvalIsOfWhatWasRead(t, who)
		})
	}
}

func approvalIsOfWhatWasRead(t *testing.T, who prompt.Job) {
	t.Helper()
	const path = ".ralph/1/progress.md"
	w := newWorld(t)
	w.settings.NeedsApproval = true
	if who == prompt.JobReview {
		w.settings.Review = loop.ReviewAlways
	}
	add := func(w *world, title string) {
		w.work[path] = strings.Replace(w.work[path], "\n## Testing", "- [ ] "+title+"\n\n## Testing", 1)
		if !strings.Contains(w.work[path], title) {
			t.Fatalf("no place for a task in %s", w.work[path])
		}
	}
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		w.work["src/"+s.TaskID+".txt"] = "done"
		if s.Job == who && (s.TaskID == "T1" || s.TaskID == "" && s.Reviews == 1) {
			add(w, "mine coins")
		}
		return claimed()
	}
	approved := w.drive(loop.NewState(request(t, threeTasks), w.now), nil).Approval
	run1 := func() loop.Request {
		r := request(t, threeTasks)
		r.Approved, r.ApprovedBy = approved, "ada"
		return r
	}
	// Whoever asks for a retry of everything has not approved what is new.
	s, said, _, err := w.driveSteering(loop.NewState(run1(), w.now), loop.Wish{Kind: loop.WishRetry, By: ada},
		func(s loop.State) bool { return s.End != "" })
	if err != nil || !strings.Contains(said, "no task was blocked") {
		t.Errorf("retry said %q, %v", said, err)
	}
	if got := subjectsOf(w); s.End != run.EndBlocked || len(got) != 4 {
		t.Fatalf("ended %s (%s) with %q", s.End, s.EndDetail, got)
	}
	for _, c := range w.commits[1:] {
		if c.State.Approved != approved || c.State.Covered != "" {
			t.Errorf("%s landed as approved by %q, %q", c.Task.ID, c.State.Approved, c.State.Covered)
		}
	}
	tasks := w.tasks(s)
	if last := tasks[len(tasks)-1]; last.Title != "mine coins" || last.Status != run.TaskBlocked ||
		!strings.Contains(last.Reason, "an agent added this") {
		t.Errorf("the task that was added: %+v", last)
	}
	again := run1()
	again.Carried = s.Progress
	if s := w.drive(loop.NewState(again, w.now), nil); s.End != run.EndAwaitingPerson || len(subjectsOf(w)) != 4 {
		t.Errorf("run again: ended %s with %q", s.End, subjectsOf(w))
	}
	// Whoever approves the plan as it is now has read it.
	doc, err := progress.Parse([]byte(s.Progress))
	if err != nil {
		t.Fatal(err)
	}
	whole := run1()
	whole.Approved, whole.Carried = doc.PlanSHA256(), s.Progress
	if s := w.drive(loop.NewState(whole, w.now), nil); s.End != run.EndAllTasksComplete {
		t.Errorf("the plan approved as it is: ended %s (%s)\n%s", s.End, s.EndDetail, s.Progress)
	}
}

// TestApproval: a plan is worked only as it was approved.
func TestApproval(t *testing.T) {
	t.Parallel()
	start := func(w *world, approved string) loop.State {
		w.settings.NeedsApproval = true
		r := request(t, threeTasks)
		r.Approved = approved
		return w.drive(loop.NewState(r, w.now), nil)
	}
	w := newWorld(t)
	first := start(w, "")
	if first.End != run.EndAwaitingPerson || first.Approval == "" || len(first.History) != 0 || !w.commits[0].Planned {
		t.Fatalf("ended %s (%s), approval %q", first.End, first.EndDetail, first.Approval)
	}
	// Asked again before anybody approved: nothing new is committed.
	if again := start(w, "0123"); again.End != run.EndAwaitingPerson || again.Approval != first.Approval ||
		len(w.commits) != 1 {
		t.Errorf("ended %s, approval %q, %d commits", again.End, again.Approval, len(w.commits))
	}
	// C5: somebody edits the plan on the branch after it was approved.
	w.push("- [ ] T3 three", "- [ ] T3 three, and mine coins")
	edited := start(w, first.Approval)
	if edited.End != run.EndAwaitingPerson || edited.Approval == first.Approval || len(edited.History) != 0 {
		t.Fatalf("an edited plan: ended %s, approval %q", edited.End, edited.Approval)
	}
	done := start(w, edited.Approval)
	if done.End != run.EndAllTasksComplete || done.Approval != "" {
		t.Errorf("ended %s: %s", done.End, done.EndDetail)
	}
	// What a person asks of the run that works the plan needs no other approval.
	w = newWorld(t)
	first = start(w, "")
	r := request(t, threeTasks)
	r.Approved = first.Approval
	s, _, _, err := w.driveSteering(loop.NewState(r, w.now),
		loop.Wish{Kind: loop.WishAdd, By: ada, Task: run.Task{Title: "four"}}, iterating(1))
	if err != nil || s.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %v", s.End, err)
	}
	doc, err := progress.Parse([]byte(s.Progress))
	if err != nil || s.Approved != first.Approval || s.Covered != doc.PlanSHA256() || s.Covered == s.Approved {
		t.Errorf("approved %q, which covers %q, %v", s.Approved, s.Covered, err)
	}
	// At a terminal nobody is asked.
	w = newWorld(t)
	w.settings.NeedsApproval = true
	r = request(t, threeTasks)
	r.Attended = true
	if s := w.drive(loop.NewState(r, w.now), nil); s.End != run.EndAllTasksComplete {
		t.Errorf("ended %s", s.End)
	}
}

// TestPauseHoldsTheNextCall: a paused run starts no agent, and the time counts for none.
func TestPauseHoldsTheNextCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paused, held := false, 0
	d := loop.Driver{
		Engine: w.engine(),
		Save:   func(context.Context, loop.State) error { return nil },
		Await:  func(context.Context, loop.Handle) error { return nil },
		Steer: func(_ context.Context, s loop.State) (loop.State, bool, error) {
			paused = s.Iteration == 2 && held == 0
			return s, paused, nil
		},
	}
	d.Sleep = func(_ context.Context, until time.Time) error {
		if paused {
			held = len(w.agents)
		}
		w.now = until
		return nil
	}
	s, err := d.Run(t.Context(), loop.NewState(request(t, threeTasks), w.now))
	if err != nil || s.End != run.EndAllTasksComplete {
		t.Fatalf("end %q, error %v", s.End, err)
	}
	if held != 1 || s.Waited < time.Hour {
		t.Errorf("it was held after %d calls, for %s", held, s.Waited)
	}
}
