package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// close lands the commit that takes progress.md away again, where the repository does
// not keep it.
func (e *Engine) close(ctx context.Context, s *State) (Next, error) {
	if s.KeepProgress {
		if err := e.markDone(ctx, s); err != nil {
			return Next{}, err
		}
	}
	if s.KeepProgress || s.Head == s.Base && len(s.Commits) == 0 {
		return e.finish(s, run.EndAllTasksComplete, "")
	}
	tree, err := e.Work.Without(ctx, s.HeadTree, s.ProgressPath)
	if err != nil {
		return Next{}, fmt.Errorf("take out %s: %w", s.ProgressPath, err)
	}
	if tree == s.HeadTree {
		return e.finish(s, run.EndAllTasksComplete, "")
	}
	landed, err := e.commit(ctx, s, Landing{Iteration: s.Iteration, Tree: tree, Closing: true})
	if errors.Is(err, ErrBranchMoved) {
		// Somebody works on the branch already; the file may stay.
		return e.finish(s, run.EndAllTasksComplete, "")
	}
	if halt, ok := errors.AsType[*Halt](err); ok {
		return e.finish(s, halt.Reason, halt.Detail)
	}
	if err != nil {
		return Next{}, fmt.Errorf("land the closing commit: %w", err)
	}
	if landed.OID != "" {
		s.Closing = &landed
	}
	return e.finish(s, run.EndAllTasksComplete, "")
}

// markDone sets the status of a file that stays, where that waited for the final
// checks.
func (e *Engine) markDone(ctx context.Context, s *State) error {
	doc := s.doc()
	if doc.MarkedDone() || len(s.Commits) == 0 {
		return nil
	}
	if err := doc.SetStatus(progress.StatusDone); err != nil {
		return fmt.Errorf("set the status: %w", err)
	}
	s.accept(doc)
	return e.commitProgress(ctx, s)
}

// end records what is worth remembering, tells people, and closes the run.
func (e *Engine) end(ctx context.Context, s *State) (Next, error) {
	if len(s.Calls) > 0 {
		return e.haltFirst(ctx, s, "the run ended")
	}
	if err := e.forget(ctx, s); err != nil {
		return Next{}, err
	}
	if !s.End.Complete() && s.End != run.EndPlanned && len(s.Commits) > 0 {
		// On a machine that has no tree of the run, the notes are not worth making one: people are
		// told of the end all the same.
		if err := e.commitProgress(ctx, s); err != nil && !errors.Is(err, ErrNoWorkTree) {
			return Next{}, err
		}
	}
	s.Phase = s.End.Phase()
	s.EndedAt = e.Now()
	again, err := e.publish(ctx, s)
	if err != nil {
		return Next{}, err
	}
	if again {
		return e.resume(s)
	}
	e.TellEnd(*s)
	return Next{Kind: Done}, nil
}

// TellEnd tells whoever watches that the run has ended. Step does; it is for
// doors that give up on a run whose end could not be published.
func (e *Engine) TellEnd(s State) {
	ended := s.EndedAt
	if ended.IsZero() {
		ended = e.Now()
	}
	e.emit(run.Event{
		Kind: run.EventRunEnded, End: s.End, Proof: s.Proof(), Text: s.EndDetail, Duration: ended.Sub(s.StartedAt),
	}, &s)
}

// resume goes on with a run that was about to end when people's edits of
// the task list were found: work that they added is worked, where the run ended
// for want of any.
func (e *Engine) resume(s *State) (Next, error) {
	s.Phase, s.EndedAt = run.PhaseFinishing, time.Time{}
	doc := s.doc()
	if done, total := progress.Counts(doc.Tasks()); s.End.Complete() && done < total {
		s.End, s.EndDetail, s.Closing = "", "", nil
		s.Phase, s.Stage = run.PhaseIterating, stagePick
	}
	return Next{}, nil
}

// commitProgress commits the progress file of a run that stopped short, so that the
// next one knows which tasks are blocked and what was tried.
func (e *Engine) commitProgress(ctx context.Context, s *State) error {
	doc := s.doc()
	tree, err := e.Work.With(ctx, s.HeadTree, s.ProgressPath, doc.Bytes())
	if err != nil {
		return fmt.Errorf("write %s: %w", s.ProgressPath, err)
	}
	tree, own, err := e.writeBack(ctx, s, tree, doc, "")
	if err != nil {
		return err
	}
	if tree == s.HeadTree {
		return nil
	}
	landed, err := e.commit(ctx, s, Landing{Iteration: s.Iteration, Tree: tree, Own: own, Recorded: true})
	var rejected *Rejection
	var halt *Halt
	if errors.Is(err, ErrBranchMoved) || errors.As(err, &rejected) || errors.As(err, &halt) {
		return nil // the notes are not worth more than that
	}
	if err != nil {
		return fmt.Errorf("land the record: %w", err)
	}
	if landed.OID != "" {
		s.Commits = append(s.Commits, landed)
	}
	return nil
}
