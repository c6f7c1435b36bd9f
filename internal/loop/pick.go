package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// spent says whether the budget is used up, as far as is known.
func (s *State) spent() bool {
	return s.Limits.BudgetUSD > 0 && s.Usage.CostUSD >= s.Limits.BudgetUSD
}

func (s *State) spending() string {
	return fmt.Sprintf("$%.2f of $%.2f is spent", s.Usage.CostUSD, s.Limits.BudgetUSD)
}

// pick looks at the exit conditions, then at the tasks.
func (e *Engine) pick(ctx context.Context, s *State) (Next, error) {
	doc := s.doc()
	tasks := doc.Tasks()
	switch done, total := progress.Counts(tasks); {
	case total == 0:
		return e.finish(s, run.EndFailed, "the plan holds no task")
	case len(s.Calls) > 0:
		return e.pickBeside(ctx, s, doc)
	case done == total:
		s.Phase, s.Stage, s.GateIndex = run.PhaseFinishing, stageGate, 0
		return Next{}, e.beginFinal(s)
	case s.StopAfterCall != "":
		return e.finish(s, s.stopReason(), s.StopAfterCall)
	case e.overdue(*s):
		return e.finish(s, run.EndDeadline, "")
	case s.spent():
		return e.finish(s, run.EndBudgetExhausted, s.spending())
	case s.Once && s.Iteration > 0:
		return e.finish(s, run.EndSingleIteration, "")
	case s.Limits.MaxIterations > 0 && s.Iterations() >= s.Limits.MaxIterations:
		return e.finish(s, run.EndMaxIterations, fmt.Sprintf("reached max_iterations (%d)", s.Limits.MaxIterations))
	}
	if e.parallel(s) && len(s.beside(tasks, s.Limits.Parallel)) > 1 {
		return e.pickBeside(ctx, s, doc)
	}
	task, ok := choose(tasks, s, nil)
	if !ok {
		detail := ""
		switch {
		case slices.ContainsFunc(tasks, run.Task.Actionable):
			detail = holdups(tasks, s)
		case s.Iteration == 0:
			detail = "the open tasks were blocked before; remove “(blocked: …)” from a task in " + s.ProgressPath +
				" to retry it"
		}
		return e.finishStuck(s, detail)
	}
	if task.Verify {
		return e.hostTask(ctx, s, task)
	}
	if next, handled, err := e.splitUnfinished(ctx, s, doc, task); err != nil || handled {
		return next, err
	}
	return e.call(ctx, s, doc, task)
}

// finishStuck ends a run without a task to work: for a person to give what the tasks
// need, or blocked.
func (e *Engine) finishStuck(s *State, detail string) (Next, error) {
	doc := s.doc()
	needs := s.openNeeds(doc.Tasks())
	if len(needs) == 0 {
		return e.finish(s, run.EndBlocked, detail)
	}
	said := make([]string, 0, len(needs))
	for _, n := range needs {
		said = append(said, n.TaskID+" needs a person: "+n.Words)
	}
	return e.finish(s, run.EndAwaitingPerson, strings.TrimSuffix(strings.Join(said, "; ")+"; "+detail, "; "))
}

func rank(t run.Task) int {
	if t.Priority == 0 {
		return 1 << 30
	}
	return t.Priority
}

func (e *Engine) overdue(s State) bool {
	return s.Limits.RunTimeout > 0 && !e.Now().Before(s.Deadline(e.Now()))
}

// Ahead is what is in front of a run that was opened: the tasks in the order in
// which they would be worked if each succeeded, and all of them, done or not.
func Ahead(s State) (order, all []run.Task, err error) {
	doc, err := progress.Parse([]byte(s.Progress))
	if err != nil {
		return nil, nil, fmt.Errorf("read the progress of the run: %w", err)
	}
	all = doc.Tasks()
	left := slices.Clone(all)
	for range left {
		t, ok := choose(left, &s, nil)
		if !ok {
			break
		}
		order = append(order, t)
		s.TaskID = ""
		left[slices.IndexFunc(left, func(o run.Task) bool { return o.ID == t.ID })].Status = run.TaskDone
	}
	return order, all, nil
}

// choose picks the next task: the one in progress first, then the open one of the best priority
// whose attempts are left and whose dependencies are done, in the order of the file. Tasks that
// depend on each other in a circle do not hold each other up. Tasks that are taken are being worked on already: they are not done, and not to be chosen.
func choose(tasks []run.Task, s *State, taken map[string]bool) (best run.Task, found bool) {
	state := standings(tasks, s)
	for _, t := range tasks {
		if t.ID == s.TaskID && t.Actionable() && !taken[t.ID] {
			return t, true // the policy says when it is enough
		}
	}
	for _, t := range tasks {
		if workable(state[t.ID]) && !taken[t.ID] && (!found || rank(t) < rank(best)) && free(tasks, state, t) {
			best, found = t, true
		}
	}
	return best, found
}

// free says whether a task waits for no other, but in a circle.
func free(tasks []run.Task, state map[string]run.TaskStatus, t run.Task) bool {
	return !slices.ContainsFunc(t.DependsOn, func(id string) bool {
		return state[id] == run.TaskBlocked || workable(state[id]) && !slices.Contains(dependencies(tasks, id), t.ID)
	}) && (len(t.DependsOn) == 0 || holdup(tasks, state, t.ID) == "")
}

// standings is how each task stands; one whose attempts are used up is blocked.
func standings(tasks []run.Task, s *State) map[string]run.TaskStatus {
	state := make(map[string]run.TaskStatus, len(tasks))
	for _, t := range tasks {
		state[t.ID] = t.Status
		if t.Actionable() && s.Limits.TaskAttempts > 0 && s.Attempts[t.ID] >= s.Limits.TaskAttempts {
			state[t.ID] = run.TaskBlocked
		}
	}
	return state
}

func workable(status run.TaskStatus) bool {
	return status == run.TaskOpen || status == run.TaskInProgress
}

// dependencies yields what a task waits for, directly and through others, each once; that may be
// the task itself.
func dependencies(tasks []run.Task, id string) []string {
	var all []string
	next := []string{id}
	for len(next) > 0 {
		at := slices.IndexFunc(tasks, func(t run.Task) bool { return t.ID == next[0] })
		next = next[1:]
		if at < 0 || tasks[at].Status == run.TaskDone {
			continue
		}
		for _, d := range tasks[at].DependsOn {
			if !slices.Contains(all, d) {
				all, next = append(all, d), append(next, d)
			}
		}
	}
	return all
}

// inCircle says whether a task waits for itself.
func inCircle(tasks []run.Task, id string) bool { return slices.Contains(dependencies(tasks, id), id) }

// holdup is the blocked task that a task waits for, directly or through others, "" where there is
// none.
func holdup(tasks []run.Task, state map[string]run.TaskStatus, id string) string {
	for _, d := range dependencies(tasks, id) {
		if state[d] == run.TaskBlocked && d != id {
			return d
		}
	}
	return ""
}

// holdups say which open tasks wait for which blocked ones.
func holdups(tasks []run.Task, s *State) string {
	state := standings(tasks, s)
	var said []string
	for _, t := range tasks {
		if !workable(state[t.ID]) {
			continue
		}
		if by := holdup(tasks, state, t.ID); by != "" {
			said = append(said, t.ID+" waits for "+by+", which is blocked")
		}
	}
	if more := len(said) - maxHoldups; more > 0 {
		said = append(said[:maxHoldups], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(said, "; ")
}

// maxHoldups bounds how many waiting tasks are named.
const maxHoldups = 10

// Checks are the gates of a run: those asked for, else those that were found.
func (s State) Checks() []gate.Gate {
	if len(s.Gates) > 0 {
		return s.Gates
	}
	return s.DetectedGates
}
