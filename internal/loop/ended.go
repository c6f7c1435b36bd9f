package loop

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// Rate-limit waits without a reset time from the provider: doubled from the
// first to the last.
const (
	firstWait = time.Minute
	// minWait is the first wait at least, whatever time the provider names.
	minWait  = 5 * time.Second
	lastWait = 30 * time.Minute
)

// endCall acts on an agent call that came to nothing: a wait, a crash, a budget.
func (e *Engine) endCall(ctx context.Context, s *State) (Next, error) {
	end := *s.Ended
	s.Ended = nil
	detail := oneLine(end.Detail, 600)
	switch end.Outcome { //nolint:exhaustive // the others are judged
	case AgentRateLimited:
		return e.wait(s, end)
	case AgentOverBudget:
		return e.stop(s, run.EndBudgetExhausted, oneLine(detail, 300))
	case AgentOverTaskBudget:
		return e.overTaskBudget(ctx, s, detail)
	case AgentCrowded:
		return e.countCrowded(s, detail)
	default:
		return e.countBroken(s, detail, end)
	}
}

// worked says whether a call got as far as using the model.
func worked(u run.Usage) bool { return u.CostUSD > 0 || u.OutputTokens > 0 }

// lookAround notes how a call that was not looked at has left the files, so that
// the next one is not taken for having changed them.
func (e *Engine) lookAround(ctx context.Context, s *State) error {
	tree, _, err := e.Work.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the work tree: %w", err)
	}
	s.Laid, err = e.keepTaskFile(ctx, s, tree)
	return err
}

// layOut makes the work tree a known one again.
func (e *Engine) layOut(ctx context.Context, s *State, tree string) error {
	if err := e.Work.Reset(ctx, tree); err != nil {
		return fmt.Errorf("reset the work tree: %w", err)
	}
	s.Laid = tree
	return nil
}

// overTaskBudget gives up a task that has used up its share; the others have
// theirs.
func (e *Engine) overTaskBudget(ctx context.Context, s *State, detail string) (Next, error) {
	doc := s.doc()
	if s.Job == prompt.JobReview || s.TaskID == "" {
		return e.stop(s, run.EndBudgetExhausted, detail)
	}
	s.Failure = detail
	s.Phase = run.PhaseIterating
	return e.giveUp(ctx, s, doc, s.TaskID, Decision{
		Reason:      "its budget is used up",
		Diagnostics: fmt.Sprintf("%s was given up: its budget is used up.\n\n%s\n", s.TaskID, detail),
	})
}

// wait notes when the provider wants to be asked again. It costs neither an
// attempt nor an iteration. However soon it names, waits in a row grow.
func (e *Engine) wait(s *State, end AgentStatus) (Next, error) {
	least, until := minWait, end.RetryAt
	if !until.After(e.Now()) {
		least = firstWait
	}
	if floor := e.Now().Add(min(least<<min(s.Waits, 10), lastWait)); until.Before(floor) {
		until = floor
	}
	until = earlier(until, e.Now().Add(maxWait))
	if s.Limits.RunTimeout > 0 {
		until = earlier(until, s.Deadline(e.Now()))
	}
	s.Waits++
	task := s.TaskID
	if _, err := e.again(s); err != nil || s.Stage != stageStart {
		return Next{}, err
	}
	s.Resume, s.WaitUntil = s.Stage, until
	e.emit(run.Event{
		Kind: run.EventWaiting, TaskID: task,
		Text: cmp.Or(end.Limit, "Rate limited"), Until: until,
	}, s)
	return Next{Kind: Sleep, Until: until}, nil
}

// waits says whether the time until which something waits is still to come. No wait is
// longer than maxWait: one that is was begun by a clock that has been put back since.
func (e *Engine) waits(until time.Time) bool {
	left := until.Sub(e.Now())
	return left > 0 && left <= maxWait
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// countBroken answers a crash or a refusal by the provider: try again, but three in
// a row are not going to fix themselves, and what lasts is not tried again at all.
func (e *Engine) countBroken(s *State, detail string, end AgentStatus) (Next, error) {
	s.Strikes++
	if s.Idle++; worked(end.Usage) && end.DoFirst == "" {
		s.Idle = 0
	}
	s.Draft.Outcome = AgentBroken // that its process is gone is told by no outcome
	s.blame(failure{}, detail, detail)
	s.endRecord()
	what := "the agent failed: " + detail
	if end.DoFirst != "" {
		what = "not the task's fault: " + detail
	}
	if !end.Lasts { // else the run's end says it, once
		e.emit(run.Event{Kind: run.EventAttemptFailed, TaskID: s.TaskID, Text: what}, s)
	}
	if end.Lasts || s.Idle >= maxStrikes || s.Strikes >= 2*maxStrikes {
		return e.stop(s, run.EndFailed, brokenDetail(s.Strikes, detail, end.DoFirst))
	}
	return e.again(s)
}

// countCrowded repeats a call that the machine had no room for. The next start waits for
// room.
func (e *Engine) countCrowded(s *State, detail string) (Next, error) {
	if s.Crowded++; s.Crowded < maxCrowded {
		return e.again(s)
	}
	return e.stop(s, run.EndFailed, brokenDetail(s.Crowded, detail,
		"see what fills the disk: either the work itself, or something else on this machine"))
}

// brokenDetail is why a run ends after so many broken calls. What somebody can
// fix begins with the words of who refused, and with what to do first.
func brokenDetail(calls int, detail, doFirst string) string {
	if doFirst == "" {
		return fmt.Sprintf("the agent failed %d times in a row: %s", calls, detail)
	}
	blame := "No task is blamed."
	if calls > 1 {
		blame = fmt.Sprintf("(%d agent calls in a row failed; no task is blamed.)", calls)
	}
	return fmt.Sprintf("%s. What to do first: %s. %s", strings.TrimRight(detail, ". "), doFirst, blame)
}
