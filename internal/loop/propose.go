package loop

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// candidate is what one call proposes while the host looks at it, before a check runs.
type candidate struct {
	task run.Task
	// accepted is progress.md without the task's tick, landed as it will be with it.
	accepted, landed *progress.Doc
	// found is the tree that the call began with, work the one that it left.
	found, work string
	// tree is what is to land of work, plain is tree without .ralph, and code is what
	// tree changes besides progress.md.
	tree, plain string
	code        []Change
	// already: nothing differs from what has landed. idle: the call itself changed nothing, and
	// nobody has claimed what earlier ones left.
	already, idle bool
	// judges are the test and runner files that it touches; recounts says whether fewer
	// tests may run for these, or for tests that stand beside the code.
	judges   []string
	recounts bool
	findings []gate.Finding
}

// propose acts on a call that has ended, by what it was for. All of it follows from the
// state and the tree that was stored then.
func (e *Engine) propose(ctx context.Context, s *State) (Next, error) {
	if err := e.forget(ctx, s); err != nil {
		return Next{}, err
	}
	switch {
	case s.Ended != nil:
		return e.endCall(ctx, s)
	case s.Job == prompt.JobPlan:
		return e.takePlan(ctx, s)
	case s.Job == prompt.JobSplit:
		return e.split(ctx, s)
	case s.Job == prompt.JobReview:
		return e.takeReview(ctx, s)
	case s.Job == prompt.JobVerify:
		return e.takeVerification(ctx, s)
	default:
		return e.proposeWork(ctx, s)
	}
}

// proposeWork looks at what the agent did, in this order. Each look may answer for the
// step (handled): it fails the attempt, or sets the task aside. What passes them all is
// a tree with the accepted progress.md in it, which goes to the checks. No claim of
// the agent's ticks a box.
func (e *Engine) proposeWork(ctx context.Context, s *State) (Next, error) {
	c := &candidate{found: s.Laid}
	for _, look := range []func(context.Context, *State, *candidate) (next Next, handled bool, err error){
		e.read,          // what it says in progress.md
		e.screen,        // paths that cannot be part of a commit of its own
		e.requireEnd,    // the call itself came to something
		e.requireClaim,  // the agent says that the task is done
		e.requireChange, // something changed, or somebody has to look whether it was there
		e.requireClean,  // no secret is new
		e.assemble,      // what the host adds to it
	} {
		if next, handled, err := look(ctx, s, c); err != nil || handled {
			return next, err
		}
	}
	return Next{}, nil
}

// read takes what the agent says in progress.md, and makes the tree that is to land of what it left.
func (e *Engine) read(ctx context.Context, s *State, c *candidate) (_ Next, handled bool, err error) {
	if !s.Proposal.Host {
		if err := e.judge(ctx, s); err != nil {
			return Next{}, false, err
		}
	}
	c.accepted = s.doc()
	if c.task, err = findTask(c.accepted, s.TaskID); err != nil {
		return Next{}, false, err
	}
	if c.landed, err = e.completeProgress(s, c.accepted, ""); err != nil {
		return Next{}, false, err
	}
	c.work = s.Proposal.Left
	if c.tree, err = e.keepTaskFile(ctx, s, c.work); err != nil {
		return Next{}, false, err
	}
	if c.tree, err = e.Work.With(ctx, c.tree, s.ProgressPath, c.landed.Bytes()); err != nil {
		return Next{}, false, fmt.Errorf("write %s: %w", s.ProgressPath, err)
	}
	return Next{}, false, nil
}

// withoutNotes is a tree without .ralph, which holds notes of runs and no work.
func (e *Engine) withoutNotes(ctx context.Context, tree string) (string, error) {
	plain, err := e.Work.Without(ctx, tree, ".ralph")
	if err != nil {
		return "", fmt.Errorf("take .ralph out of the tree: %w", err)
	}
	return plain, nil
}

// screen compares the candidate with what has landed, and takes out of it what cannot be part of
// a commit of an agent's: the rest of the work goes on without.
func (e *Engine) screen(ctx context.Context, s *State, c *candidate) (_ Next, handled bool, err error) {
	held, err := e.changes(ctx, s, c)
	if err != nil {
		return Next{}, false, err
	}
	if all := s.Proposal.refusesAll(); all != nil {
		if err := e.layOut(ctx, s, c.work); err != nil { // as the call found it
			return Next{}, false, err
		}
		next, err := e.failed(ctx, s, "What the last call left could not be stored, so all that it changed is gone: "+
			all.Reason+".", failure{Refused: true})
		return next, true, err
	}
	unstored := slices.DeleteFunc(slices.Clone(s.Proposal.Refused), func(r Refusal) bool { return s.holdsProgress(r.Path) })
	if len(unstored)+len(held) > 0 {
		if err := e.putBack(ctx, s, c, unstored, held); err != nil {
			return Next{}, false, err
		}
		if _, err = e.changes(ctx, s, c); err != nil {
			return Next{}, false, err
		}
	}
	if c.plain, err = e.withoutNotes(ctx, c.tree); err != nil {
		return Next{}, false, err
	}
	if c.found != "" {
		found, err := e.withoutNotes(ctx, c.found)
		if err != nil {
			return Next{}, false, err
		}
		s.Draft.Unchanged = found == c.plain
	}
	s.Laid = c.tree
	s.recordChanges(c.plain, c.code)
	return Next{}, false, nil
}

// changes are what the candidate changes, and held those of it that cannot be part of a commit.
func (e *Engine) changes(ctx context.Context, s *State, c *candidate) (held []Refusal, _ error) {
	changes, err := e.Work.Changes(ctx, s.HeadTree, c.tree)
	if err != nil {
		return nil, fmt.Errorf("compare trees: %w", err)
	}
	code, foreign := splitChanges(changes, path.Dir(s.ProgressPath))
	c.code = code
	return append(foreign, e.Publisher.Screen(*s, code)...), nil
}

// requireEnd fails the attempt of a call that came to nothing by how it ended.
func (e *Engine) requireEnd(ctx context.Context, s *State, _ *candidate) (_ Next, handled bool, err error) {
	if s.Failure == "" {
		return Next{}, false, nil
	}
	next, err := e.fail(ctx, s, s.Failure)
	return next, true, err
}

// requireChange acts on a claim that is followed by no change of the call's own.
func (e *Engine) requireChange(ctx context.Context, s *State, c *candidate) (_ Next, handled bool, err error) {
	if len(c.code) == 0 && len(s.Proposal.Held) > 0 {
		next, err := e.onlyHeld(ctx, s)
		return next, true, err
	}
	c.already = len(c.code) == 0 && !s.Proposal.Host
	// Work that an earlier call has called done, and that a check has failed and now passes, needs nobody else.
	unclaimed := s.of(c.task.ID).Partial > 0 || s.Objection == ""
	c.idle = s.Draft.Unchanged && unclaimed && !s.Proposal.Host
	if !s.Draft.Unchanged {
		s.record(c.task.ID).Verified = 0 // who objected had seen another tree
	}
	if !c.already && !c.idle {
		return Next{}, false, nil
	}
	return e.requireLook(ctx, s, c)
}

// requireClean fails an attempt that wrote secrets, or no tests where these are required.
func (e *Engine) requireClean(ctx context.Context, s *State, c *candidate) (_ Next, handled bool, err error) {
	p := s.Proposal
	if p.Gates, err = e.detect(ctx, s, c.tree); err != nil {
		return Next{}, false, err
	}
	if err := e.inspect(ctx, s, c); err != nil {
		return Next{}, false, err
	}
	grave := slices.DeleteFunc(slices.Clone(c.findings), func(f gate.Finding) bool { return !f.Grave })
	if len(grave) == 0 {
		return Next{}, false, nil
	}
	next, err := e.fail(ctx, s, remedy(grave))
	return next, true, err
}

// assemble adds what the host writes itself, and hands the whole to the checks.
func (e *Engine) assemble(ctx context.Context, s *State, c *candidate) (_ Next, handled bool, err error) {
	whole, own, err := e.writeBack(ctx, s, c.tree, c.landed, s.TaskID)
	if err != nil {
		return Next{}, false, err
	}
	p := s.Proposal
	p.Tree, p.Progress, p.Own = whole, string(c.landed.Bytes()), own
	p.Bare = c.tree
	p.Already, p.Idle, p.Work, p.Draft = c.already, c.idle, c.work, s.Draft
	p.Recounts, p.Old, p.Findings = c.recounts, nil, c.findings
	s.GateIndex, s.GateLast = 0, nil
	s.Stage = stageGate
	return Next{}, false, e.judgeBy(ctx, s, c.judges)
}
