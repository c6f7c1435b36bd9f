package loop

import (
	"cmp"
	"context"
	"fmt"

	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// enter begins with the work, now that everything is in place: with a plan
// where there are no tasks yet.
func (e *Engine) enter(s *State) (Next, error) {
	doc := s.doc()
	if len(doc.Tasks()) == 0 {
		s.Phase = run.PhasePlanning
		return e.prepareAgent(s, prompt.JobPlan, run.RolePlanner, "")
	}
	return e.work(s, doc)
}

// work goes on to the tasks of a plan, or leaves it to people where that is all
// that was asked for or where they have not approved it as it is.
func (e *Engine) work(s *State, doc *progress.Doc) (Next, error) {
	hash := doc.PlanSHA256()
	s.Approval, s.Proposal = "", nil
	if s.Mode != run.ModePlan && (!s.NeedsApproval || s.covered() == hash) {
		if s.Approved == hash { // read and approved as it stands
			for _, r := range s.Records {
				r.Behind = nil
			}
			if err := s.release(doc); err != nil {
				return Next{}, err
			}
		}
		s.Phase, s.Stage = run.PhaseIterating, stagePick
		return Next{}, nil
	}
	s.Approval, s.Stage = hash, stageLand
	return Next{}, nil
}

// covered is the hash of the plan that a person's approval covers, "" without one.
func (s *State) covered() string { return cmp.Or(s.Covered, s.Approved) }

// amend makes doc the accepted progress file, of which the host has edited the plan, or a person who
// may approve it: an approval of the plan as it was covers it. What agents write is not for amend; see await.
func (s *State) amend(doc *progress.Doc) error {
	if done, total := progress.Counts(doc.Tasks()); done < total && doc.MarkedDone() {
		if err := doc.SetStatus(progress.StatusInProgress); err != nil {
			return fmt.Errorf("set the status: %w", err)
		}
	}
	if s.Approved != "" && s.covered() == s.read.doc.PlanSHA256() {
		s.Covered = doc.PlanSHA256()
	}
	s.accept(doc)
	return nil
}

// needsApproval is why a task waits that an agent added to an approved plan.
const needsApproval = "an agent added this to the approved plan; approve it with /ralph retry and its id"

// release opens the tasks of an approved plan that waited for approval.
func (s *State) release(doc *progress.Doc) error {
	for _, t := range doc.Tasks() {
		if t.Status != run.TaskBlocked || t.Reason != needsApproval {
			continue
		}
		if err := doc.Reopen(t.ID); err != nil {
			return fmt.Errorf("open %s: %w", t.ID, err)
		}
	}
	s.accept(doc)
	return nil
}

// await has tasks that an agent wrote wait for a person, where the plan was
// approved without them.
func (s *State) await(doc *progress.Doc, ids []string) error {
	if s.Approved == "" {
		return nil
	}
	for _, id := range ids {
		if err := doc.Block(id, needsApproval); err != nil {
			return fmt.Errorf("have %s wait for approval: %w", id, err)
		}
	}
	return nil
}

// landPlan commits the plan and ends a run that goes no further than that.
func (e *Engine) landPlan(ctx context.Context, s *State) (Next, error) {
	tree, err := e.Work.With(ctx, s.HeadTree, s.ProgressPath, []byte(s.Progress))
	if err != nil {
		return Next{}, fmt.Errorf("write %s: %w", s.ProgressPath, err)
	}
	if tree != s.HeadTree {
		landed, err := e.commit(ctx, s, Landing{Iteration: s.Number, Tree: tree, Planned: true})
		if err != nil {
			return e.refuseLanding(ctx, s, err)
		}
		s.Commits, s.LandedProgress = append(s.Commits, landed), s.Progress
		e.emit(run.Event{Kind: run.EventCommitted, Text: landed.OID}, s)
	}
	if s.CancelRequested {
		return e.cancel(ctx, s)
	}
	if s.Mode == run.ModePlan {
		return e.finish(s, run.EndPlanned, "")
	}
	return e.finish(s, run.EndAwaitingPerson, "the plan needs approval before the work starts")
}

// takePlan takes the plan that the planner wrote, and nothing else that it did.
func (e *Engine) takePlan(ctx context.Context, s *State) (Next, error) {
	if err := e.judgePlan(ctx, s); err != nil {
		return Next{}, err
	}
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return Next{}, err
	}
	if len(s.Questions) > 0 {
		s.Proposal = nil
		return e.finish(s, run.EndAwaitingPerson, "the planner has questions")
	}
	doc := s.doc()
	if len(doc.Tasks()) == 0 {
		s.Plannings++
		e.emit(run.Event{Kind: run.EventAttemptFailed, Text: s.Failure}, s)
		if s.Plannings >= maxPlanAttempts {
			return e.finish(s, run.EndFailed, "the planner wrote no plan: "+s.Failure)
		}
		return e.again(s)
	}
	for _, t := range doc.Tasks() {
		s.noteAuthor(planWords(), t.ID)
	}
	e.emit(run.Event{Kind: run.EventPlanned}, s)
	e.tellTasks(s, doc.Tasks())
	return e.work(s, doc)
}

// judgePlan reads the tasks that the planner wrote, or its question.
func (e *Engine) judgePlan(ctx context.Context, s *State) error {
	before := s.doc()
	after, _, err := e.leftProgress(ctx, s)
	if err != nil {
		return err
	}
	verdict := progress.JudgePlan(before, after)
	s.Violations = verdict.Violations
	if said := s.Proposal.Claim; said.Kind == prompt.ClaimBlocked && said.Words != "" && s.Ask != plan.AskNever {
		s.Questions = []string{said.Words} // what it wrote besides is half a plan
		return nil
	}
	// Half a plan would pass for the whole.
	if _, total := progress.Counts(verdict.Accepted.Tasks()); total > 0 && s.Failure == "" {
		s.Violations = nil
		s.accept(verdict.Accepted)
	} else if s.Failure == "" {
		s.Failure = "The last call wrote no task into the Tasks section of the progress file."
	}
	return nil
}
