package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// land makes the proposal a commit, or the plan where there is none.
func (e *Engine) land(ctx context.Context, s *State) (Next, error) {
	if s.Proposal == nil {
		return e.landPlan(ctx, s)
	}
	doc, err := progress.Parse([]byte(s.Proposal.Progress))
	if err != nil {
		return Next{}, fmt.Errorf("read the proposed progress: %w", err)
	}
	l := Landing{Iteration: s.Number, Tree: s.Proposal.Tree, Own: s.Proposal.Own}
	if l.Task, err = findTask(doc, s.TaskID); err != nil {
		return Next{}, err
	}
	landed, err := e.commit(ctx, s, l)
	if err != nil {
		return e.refuseLanding(ctx, s, err)
	}
	if len(s.Proposal.Own) > 0 { // the agent's tree is another one
		if err := e.layOut(ctx, s, landed.Tree); err != nil {
			return Next{}, err
		}
	}
	s.Moves = 0
	s.Kept = nil
	landed.TaskID, landed.Summary = l.Task.ID, oneLine(s.Proposal.Final, maxSummary)
	s.noteLanding(l.Task.ID, landed, changedBy(s.Draft))
	s.Commits = append(s.Commits, landed)
	s.Progress, s.LandedProgress = s.Proposal.Progress, s.Proposal.Progress
	if err := s.load(); err != nil {
		return Next{}, err
	}
	s.raiseBaseline()
	s.LandedGates, s.Unchecked = slices.Clone(s.GateLast), false
	s.Findings = appendFindings(s.Findings, s.Proposal.Findings)
	s.lastCall(func(it *Iteration) { it.Landed = true })
	s.Stage = stageShow
	e.emit(run.Event{Kind: run.EventCommitted, TaskID: l.Task.ID, Text: landed.OID}, s)
	s.Draft.Landed = true
	s.endRecord()
	e.emit(run.Event{Kind: run.EventTaskDone, TaskID: l.Task.ID}, s)
	s.dropCall()
	s.TaskID, s.Brief = "", Brief{Violations: s.Violations}
	return Next{}, nil
}

// changedBy says what files a call changed.
func changedBy(c Seen) string {
	if len(c.Files) == 0 {
		return "nothing had to be changed"
	}
	files := c.Files[:min(len(c.Files), maxListed)]
	did := "changed: " + listPaths(files)
	if more := c.Source + c.Test + c.Docs + c.Config + c.Other - len(files); more > 0 {
		did += fmt.Sprintf(" and %d more", more)
	}
	return did
}

// commit lands a tree. Nothing is committed where that is not wanted.
func (e *Engine) commit(ctx context.Context, s *State, l Landing) (Landed, error) {
	l.State, l.Model, l.CostUSD = *s, s.SeenModel, s.Usage.CostUSD-s.LandedUSD
	landed, err := e.Publisher.Land(ctx, l)
	if err != nil {
		return landed, err
	}
	s.Head, s.HeadTree, s.LandedUSD = cmp.Or(landed.OID, s.Head), landed.Tree, s.Usage.CostUSD
	return landed, nil
}

// refuseLanding goes on where the publisher did not land the proposal.
func (e *Engine) refuseLanding(ctx context.Context, s *State, err error) (Next, error) {
	var rejected *Rejection
	var halt *Halt
	switch {
	case errors.As(err, &halt):
		return e.finish(s, halt.Reason, halt.Detail)
	case errors.Is(err, ErrBranchMoved):
		return e.openAgain(s)
	case errors.As(err, &rejected):
		return e.reject(ctx, s, rejected.Refusals)
	default:
		return Next{}, fmt.Errorf("land %s: %w", s.TaskID, err)
	}
}

// openAgain takes in a branch that somebody else pushed to: lay the tree out anew
// at its tip and repeat the iteration there. Nothing is overwritten.
func (e *Engine) openAgain(s *State) (Next, error) {
	if s.Moves++; s.Moves >= maxMoves {
		return e.finish(s, run.EndFailed, "somebody moved the branch each time the run wanted to commit")
	}
	s.dropCall()
	s.Phase, s.Stage = run.PhasePreparing, stageOpen
	return Next{}, nil
}

func (e *Engine) show(ctx context.Context, s *State) (Next, error) {
	if again, err := e.publish(ctx, s); err != nil || again {
		return Next{}, err
	}
	s.Stage = stagePick
	return Next{}, nil
}

// publish shows people how the run stands. Where they have edited the task list
// meanwhile, that is taken in first, and has to be stored before what they
// wrote is written over: again says to come back.
func (e *Engine) publish(ctx context.Context, s *State) (again bool, err error) {
	shown := *s
	shown.Delayed = nil // a run that takes this step waits for nothing
	pr, err := e.Publisher.Show(ctx, shown)
	if err != nil {
		return false, fmt.Errorf("show progress: %w", err)
	}
	if pr == nil {
		return false, nil
	}
	ticks := pr.Ticks
	pr.Ticks = nil
	s.PullRequest = pr
	s.followPullRequest()
	if len(ticks) == 0 {
		return false, nil
	}
	return true, e.takeInTicks(s, ticks)
}

// Stale says whether what people see lacks a commit that has landed: showing it
// was put off.
func (s *State) Stale() bool {
	return s.PullRequest != nil && s.PullRequest.Head != "" && s.PullRequest.Head != s.Head && s.End == ""
}

// Refresh shows people how a run stands that waits for something. An edit of
// theirs is left for the next step that shows: an agent may be at work on the
// tasks as they are.
func (e *Engine) Refresh(ctx context.Context, s State) (State, error) {
	pr, err := e.Publisher.Show(ctx, s)
	if err != nil {
		return s, fmt.Errorf("show progress: %w", err)
	}
	switch {
	case pr == nil:
	case len(pr.Ticks) > 0:
		shown := *s.PullRequest
		shown.Head = s.Head // until the edit is taken in there is no more to show
		s.PullRequest = &shown
	default:
		s.PullRequest = pr
		s.followPullRequest()
	}
	return s, nil
}

// followPullRequest takes in what people have done to the pull request itself: closed or
// merged, it ends the run; sent elsewhere, it goes there.
func (s *State) followPullRequest() {
	pr := s.PullRequest
	if s.End != "" || pr == nil {
		return
	}
	switch {
	case s.CancelRequested:
	case pr.Merged:
		s.CancelRequested, s.CancelReason = true, fmt.Sprintf("#%d was merged", pr.Number)
	case pr.Closed:
		s.CancelRequested, s.CancelReason = true, fmt.Sprintf("#%d was closed", pr.Number)
	}
	if pr.Base != "" && pr.Base != s.BaseBranch {
		s.noteMerged([]string{fmt.Sprintf("The pull request now targets %s instead of %s.", pr.Base, s.BaseBranch)})
		s.BaseBranch = pr.Base
	}
}

// noteMerged keeps sentences on what people did to the run.
func (s *State) noteMerged(sentences []string) {
	s.Merged = append(s.Merged, sentences...)
	s.Merged = s.Merged[max(0, len(s.Merged)-maxMerged):]
}
