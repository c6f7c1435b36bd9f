package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// WishKind is what a person asks of a run.
type WishKind string

// The wishes a run can be steered by.
const (
	// WishAdd adds Task to those there are.
	WishAdd WishKind = "add"
	// WishSkip leaves a task out.
	WishSkip WishKind = "skip"
	// WishRetry opens a task again, with all its attempts; without a TaskID, all
	// that are blocked.
	WishRetry WishKind = "retry"
	// WishBudget lets the run spend USD more, up to CapUSD.
	WishBudget WishKind = "budget"
	// WishStop ends the run before its next call: the one at work ends, and what comes
	// of it is checked and lands.
	WishStop WishKind = "stop"
)

// Person is who is behind a wish.
type Person struct {
	Login string
	ID    int64
}

// Wish is what one person asks of a run, once. Who may ask is not asked here.
type Wish struct {
	Kind   WishKind
	By     Person
	TaskID string
	Task   run.Task
	Text   string
	// USD is more than 0; CapUSD is what the run may spend at most, 0 for no
	// bound.
	USD, CapUSD float64
}

// ErrNotNow is returned by Steer while what the run is at must not be disturbed.
// The wish is for a later step.
var ErrNotNow = errors.New("loop: the run cannot take this in at this moment")

// Steer takes in what a person asks and says, fit for people, what came of it.
// What cannot be done is a *run.UserError, and nothing is changed then. A wish
// waits (ErrNotNow) while an agent or a check works on what it would change; but
// one to skip the very task that is being worked on stops that. A run that was
// about to end for want of work goes on where the wish brings some.
func (e *Engine) Steer(ctx context.Context, s State, w Wish) (State, string, error) {
	if s.Progress == "" || s.Phase.Terminal() {
		return s, "", ErrNotNow
	}
	next := s.clone()
	if err := next.load(); err != nil {
		return s, "", err
	}
	said, err := e.steer(ctx, &next, w)
	if err != nil {
		return s, "", err
	}
	e.emit(run.Event{Kind: run.EventEdited, TaskID: w.TaskID, Text: said}, &next)
	return next, said, nil
}

func (e *Engine) steer(ctx context.Context, s *State, w Wish) (string, error) {
	switch w.Kind { //nolint:exhaustive // the others change the tasks
	case WishBudget:
		return e.raiseBudget(ctx, s, w)
	case WishStop:
		s.StopAfterCall, s.StopReason = "stopped by "+w.By.Login, ""
		return fmt.Sprintf("`%s` stops the run before its next call.", w.By.Login), nil
	}
	interrupt := w.Kind == WishSkip && w.TaskID == s.TaskID && w.TaskID != "" && s.working()
	if !interrupt && !s.betweenTasks() {
		return "", ErrNotNow
	}
	doc := s.doc()
	said, err := s.change(doc, w)
	if err != nil {
		return "", err
	}
	if err := s.amend(doc); err != nil {
		return "", err
	}
	s.noteMerged([]string{said})
	if interrupt {
		return said, e.interrupt(ctx, s)
	}
	return said, e.workOn(ctx, s, doc)
}

// stopsHere says whether a run that a person stops before its next call is there. The
// call that verifies a task is part of the one before it.
func (s *State) stopsHere() bool {
	return s.StopAfterCall != "" && len(s.Calls) == 0 && s.StartsAgent() && s.Phase != run.PhaseQueued &&
		s.Job != prompt.JobVerify
}

// stopReason is how a run ends that stops before its next call.
func (s *State) stopReason() run.EndReason { return cmp.Or(s.StopReason, run.EndCancelled) }

// takeBackStop takes back that the run is to end before its next call, but where a person wants it.
func (s *State) takeBackStop() {
	if s.StopReason != "" {
		s.StopAfterCall, s.StopReason = "", ""
	}
}

// betweenTasks says whether nothing is at work that the tasks are compared with.
func (s *State) betweenTasks() bool {
	switch s.Stage { //nolint:exhaustive // in every other stage something is under way
	case stagePick, stageFinal, stageEnd:
		return true
	case stageGate:
		return s.Phase == run.PhaseFinishing && s.Process == nil
	default:
		return false
	}
}

// working says whether the task at hand is being worked on in a way that can be
// broken off.
func (s *State) working() bool {
	switch s.Stage { //nolint:exhaustive // what lands, lands
	case stageStart, stageWatch, stagePropose, stageGate, stageGateWatch:
		return true
	default:
		return false
	}
}

// change makes the wish's change to the document.
func (s *State) change(doc *progress.Doc, w Wish) (said string, err error) {
	who := "`" + w.By.Login + "`"
	if w.Kind == WishAdd {
		task := w.Task
		id, err := doc.AddTask(task)
		if err != nil {
			return "", fmt.Errorf("add a task: %w", err)
		}
		s.record(id).Asked = &w.By
		return fmt.Sprintf("%s added %s.", who, id), nil
	}
	if w.TaskID == "" { // WishRetry
		return s.reopenBlocked(doc, who)
	}
	t, ok := doc.Task(w.TaskID)
	if !ok {
		return "", &run.UserError{
			Message: fmt.Sprintf("there is no task %s", w.TaskID), Hint: "the pull request lists the tasks",
			Err: progress.ErrNoTask,
		}
	}
	switch w.Kind { //nolint:exhaustive // the others are dealt with
	case WishSkip:
		if t.Status == run.TaskDone {
			return "", &run.UserError{Message: t.ID + " is done already", Hint: "add a task that undoes it"}
		}
		if err := doc.Skip(t.ID, "requested by "+w.By.Login); err != nil {
			return "", fmt.Errorf("skip %s: %w", t.ID, err)
		}
		said = fmt.Sprintf("%s skipped %s.", who, t.ID)
	case WishRetry:
		if err := doc.Reopen(t.ID); err != nil {
			return "", fmt.Errorf("reopen %s: %w", t.ID, err)
		}
		said = fmt.Sprintf("%s reopened %s.", who, t.ID)
	default:
		return "", fmt.Errorf("unknown wish %q", w.Kind)
	}
	s.startOver(t.ID)
	return said, nil
}

func (s *State) reopenBlocked(doc *progress.Doc, who string) (string, error) {
	var ids []string
	for _, t := range doc.Tasks() {
		used := t.Actionable() && s.Attempts[t.ID] > 0
		if t.Status != run.TaskBlocked && !used || t.Reason == needsApproval {
			continue // whoever approves a task names it
		}
		if err := doc.Reopen(t.ID); err != nil {
			return "", fmt.Errorf("reopen %s: %w", t.ID, err)
		}
		s.startOver(t.ID)
		ids = append(ids, t.ID)
	}
	if len(ids) == 0 {
		return who + " asked for a retry, but no task was blocked.", nil
	}
	return fmt.Sprintf("%s reopened %s.", who, strings.Join(ids, ", ")), nil
}

// startOver begins again with a task that a person has decided about: nothing of what was
// said of it is told to the next call.
func (s *State) startOver(id string) {
	s.resetTask(id)
	s.record(id).Behind = nil
	if id == s.TaskID {
		s.Brief = Brief{}
	}
}

// resetTask makes a task be judged by what comes of it from now on.
func (s *State) resetTask(id string) {
	delete(s.Attempts, id)
	was := s.of(id)
	s.Records[id] = &TaskRecord{Parent: was.Parent, Behind: was.Behind, Asked: was.Asked, Since: s.Iteration}
}

// interrupt breaks off the work on the task at hand. What it has cost counts.
func (e *Engine) interrupt(ctx context.Context, s *State) error {
	if err := e.halt(ctx, s, "the task was skipped"); err != nil {
		return err
	}
	return e.pickNext(ctx, s)
}

// workOn takes a run that stands at its end back to work, if there is some.
func (e *Engine) workOn(ctx context.Context, s *State, doc *progress.Doc) error {
	done, total := progress.Counts(doc.Tasks())
	switch {
	case s.Stage == stagePick, done == total:
		return nil
	case s.Stage != stageEnd:
		s.Phase, s.Stage = run.PhaseIterating, stagePick
		return nil
	case !s.resumes():
		return nil // it is in the file that the next run finds
	}
	if err := e.forget(ctx, s); err != nil {
		return err
	}
	s.End, s.EndDetail, s.Closing, s.Diagnostics = "", "", nil, ""
	s.takeBackStop()
	return e.pickNext(ctx, s)
}

// resumes says whether a run that stands at its end goes on where more work
// appears.
func (s *State) resumes() bool {
	return s.End.Complete() || s.End == run.EndBlocked || s.End == run.EndAwaitingPerson && len(s.Needs) > 0 ||
		s.End == run.EndBudgetExhausted && !s.spent()
}

// pickNext lets the run choose its next task on the last good tree.
func (e *Engine) pickNext(ctx context.Context, s *State) error {
	s.Kept = nil
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return err
	}
	s.dropCall()
	s.Brief = Brief{}
	s.TaskID = ""
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	return nil
}

func (e *Engine) raiseBudget(ctx context.Context, s *State, w Wish) (string, error) {
	if s.Limits.BudgetUSD <= 0 {
		return "", &run.UserError{
			Message: "the run has no budget to raise", Hint: "the server's configuration decides what it may spend",
		}
	}
	raised := s.Limits.BudgetUSD + w.USD
	if w.CapUSD > 0 {
		raised = min(raised, w.CapUSD)
	}
	if raised <= s.Limits.BudgetUSD {
		return "", &run.UserError{
			Message: fmt.Sprintf("the budget is $%.2f, and the server does not allow more", s.Limits.BudgetUSD),
			Hint:    "whoever runs the server can raise limits.budget_usd",
		}
	}
	s.Limits.BudgetUSD = raised
	s.takeBackStop()
	said := fmt.Sprintf("`%s` raised the budget to $%.2f.", w.By.Login, raised)
	s.noteMerged([]string{said})
	if s.Stage != stageEnd {
		return said, nil
	}
	doc := s.doc()
	return said, e.workOn(ctx, s, doc)
}
