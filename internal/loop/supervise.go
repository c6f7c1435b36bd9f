package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// call asks the policy how to go on with the task at hand, and does what it says.
func (e *Engine) call(ctx context.Context, s *State, doc *progress.Doc, task run.Task) (Next, error) {
	d := s.decide(task)
	s.Verdict, s.Guidance = d.Verdict, nil
	e.tellVerdict(s, task, d)
	job := prompt.JobBuild
	switch d.Verdict {
	case VerdictGiveUp:
		return e.giveUp(ctx, s, doc, task.ID, d)
	case VerdictAbort:
		s.Diagnostics = d.Diagnostics
		return e.finish(s, run.EndStagnated, d.Reason)
	case VerdictDecompose:
		job = prompt.JobSplit
	case VerdictSwitchRole, VerdictProceed:
	}
	if d.Clean {
		s.Kept = nil
		if err := e.layOut(ctx, s, s.HeadTree); err != nil {
			return Next{}, err
		}
	}
	if d.Guidance != "" {
		s.Guidance = []string{d.Guidance}
	}
	s.nextIteration()
	e.emit(run.Event{
		Kind: run.EventIteration, TaskID: task.ID, Verdict: string(d.Verdict),
		Signals: s.lastSignals(task.ID),
	}, s)
	return e.prepareAgent(s, job, d.Role, task.ID)
}

// tellVerdict says what the policy decided, where that is more than to go on.
func (e *Engine) tellVerdict(s *State, task run.Task, d Decision) {
	if d.Verdict == VerdictProceed {
		return
	}
	e.emit(run.Event{
		Kind: run.EventVerdict, TaskID: task.ID, Verdict: string(d.Verdict),
		Signals: s.lastSignals(task.ID), Text: fmt.Sprintf("%s: %s", d.inWords(task.ID), d.Reason),
	}, s)
}

// inWords says for people what the host does about a task.
func (d Decision) inWords(task string) string {
	switch d.Verdict {
	case VerdictGiveUp:
		return "setting " + task + " aside"
	case VerdictDecompose:
		return "splitting " + task
	case VerdictSwitchRole:
		return "trying another role"
	case VerdictAbort:
		return "stopping"
	case VerdictProceed:
	}
	return string(d.Verdict)
}

// lastSignals are those of the last attempt at a task, nil where there was none.
func (s *State) lastSignals(task string) *run.Signals {
	if v := s.storyOf(task); v.last != nil {
		signals := v.last.Signals
		return &signals
	}
	return nil
}

// giveUp sets a task aside, which need not be the one at hand. It takes the tree back to the
// last good one, so that the next task starts clean.
func (e *Engine) giveUp(ctx context.Context, s *State, doc *progress.Doc, task string, d Decision) (Next, error) {
	if err := doc.Block(task, oneLine(blockReason(*s, task, d), maxBlockReason)); err != nil {
		return Next{}, fmt.Errorf("block %s: %w", task, err)
	}
	s.accept(doc)
	e.emit(run.Event{Kind: run.EventTaskBlocked, TaskID: task, Text: d.Reason}, s)
	s.Kept, s.Advanced = nil, false
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return Next{}, err
	}
	s.Diagnostics = d.Diagnostics
	s.TaskID, s.Brief = "", Brief{}
	s.Stage = stagePick
	return Next{}, nil
}

const (
	// maxBlockReason is the length of the reason behind a task, in bytes: it
	// stands on the task's line.
	maxBlockReason = 160
	// minLastError is how much of the last error has to fit to say something.
	minLastError = 60
)

// blockReason is what people read behind a task that was set aside: the last
// error says more than how often it came. A reason that leaves no room for it
// tells an error itself.
func blockReason(s State, task string, d Decision) string {
	const last = "; last: "
	reason, failure := d.Reason, s.Failure
	if v := s.storyOf(task); d.Verdict == VerdictGiveUp && v.last != nil {
		failure = v.last.Error
	}
	if failure == "" || strings.Contains(reason, failure) || len(reason)+len(last)+min(len(failure), minLastError) > maxBlockReason {
		return reason
	}
	return reason + last + failure
}

// split puts the parts that the planner wrote in the place of the task. What
// else the call did to the tree is thrown away, and so is what failed attempts at
// the task left there; unfinished work that nothing speaks against stays, for the
// first part to go on from.
func (e *Engine) split(ctx context.Context, s *State) (Next, error) {
	parts, err := e.takeTasks(ctx, s)
	if err != nil {
		return Next{}, err
	}
	if s.Attempts[s.TaskID] > 0 {
		s.Kept = nil
	}
	from := s.HeadTree
	if s.Kept != nil {
		from = s.Kept.Tree
	}
	if err := e.layOut(ctx, s, from); err != nil {
		return Next{}, err
	}
	doc := s.doc()
	parent := run.Task{ID: s.TaskID}
	if t, ok := doc.Task(s.TaskID); ok {
		parent = t
	}
	s.Proposal = nil
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	if len(parts) < 2 {
		// Why the task failed stays what the next attempt is told.
		s.Draft.Role = run.RolePlanner
		s.endRecord()
		e.emit(run.Event{Kind: run.EventAttemptFailed, TaskID: s.TaskID, Text: "the task could not be split"}, s)
		return Next{}, nil
	}
	ids, err := doc.Split(s.TaskID, parts)
	if err != nil {
		return Next{}, fmt.Errorf("split %s: %w", s.TaskID, err)
	}
	s.record(s.TaskID).Split = true
	for _, id := range ids {
		s.record(id).Parent = s.TaskID
	}
	s.noteAuthor(s.person(parent), ids...)
	s.Draft.Landed, s.Draft.Role = true, run.RolePlanner // planning that was accepted, whoever did it
	s.endRecord()
	if err := s.await(doc, ids); err != nil {
		return Next{}, err
	}
	s.accept(doc)
	e.emit(run.Event{
		Kind: run.EventPlanned, TaskID: s.TaskID,
		Text: fmt.Sprintf("%s was split into %d parts", s.TaskID, len(ids)),
	}, s)
	s.Brief = Brief{}
	s.TaskID = ""
	return Next{}, e.handOn(ctx, s, doc.Tasks(), ids)
}

// handOn gives unfinished work at a task that was split to the first of its parts that may
// begin now. That is the task at hand then, so that no other call finds the work.
func (e *Engine) handOn(ctx context.Context, s *State, tasks []run.Task, parts []string) error {
	if s.Kept == nil {
		return nil
	}
	state := standings(tasks, s)
	for _, t := range tasks {
		if slices.Contains(parts, t.ID) && workable(state[t.ID]) && free(tasks, state, t) {
			s.Kept.TaskID, s.TaskID = t.ID, t.ID
			return nil
		}
	}
	e.loseKept(s)
	return e.layOut(ctx, s, s.HeadTree)
}

// How often all of the work is reviewed, and how many tasks one review may add.
const (
	maxReviews     = 2
	maxReviewTasks = 5
)

// final has the whole change read once more, where that is wanted and the run changed
// something since. What then is left is the closing commit.
func (e *Engine) final(ctx context.Context, s *State) (Next, error) {
	switch {
	case len(s.Commits) == 0 || s.Reviews >= s.reviews() || s.Reviewed == s.HeadTree || s.Once:
	case e.overdue(*s), s.spent(), s.Limits.MaxIterations > 0 && s.Iterations()+1 >= s.Limits.MaxIterations:
		// What it found could not be fixed any more.
		s.ReviewNote = "no budget or calls were left for it"
	default:
		s.Reviews++
		s.nextIteration()
		s.Brief = Brief{}
		s.Verdict = ""
		e.emit(run.Event{Kind: run.EventIteration, Text: "review", Role: run.RoleReviewer}, s)
		return e.prepareAgent(s, prompt.JobReview, run.RoleReviewer, "")
	}
	return e.close(ctx, s)
}

// reviews is how often all of the work may be reviewed.
func (s *State) reviews() int {
	switch {
	case s.Review == ReviewAlways:
		return maxReviews
	case s.Review == ReviewUnproven && !s.hasProof():
		return 1
	default:
		return 0
	}
}

// hasProof says whether any check has passed on what landed last, or on the whole.
func (s *State) hasProof() bool { return s.Proof().Passed > 0 }

// LastGates are the checks that people are shown: of the work at hand and, once the run has ended, of
// what is on the branch, else of the last attempt; see OfAttempt.
func (s *State) LastGates() []gate.Result {
	if s.End != "" && !s.OfAttempt() {
		return s.LandedGates
	}
	return s.GateLast
}

// OfAttempt says whether no checks are known of the branch that a run has left, but some of the last
// attempt, which did not land.
func (s *State) OfAttempt() bool {
	return s.End != "" && len(s.LandedGates) == 0 && len(s.GateLast) > 0
}

// Proof is what shows that the work is right, as far as is known.
func (s *State) Proof() run.Proof {
	p := run.Proof{Reviewed: s.Reviews > 0 && s.ReviewNote == ""}
	if s.OfAttempt() {
		return p
	}
	for _, r := range s.LastGates() {
		switch r.Verdict.Standing {
		case gate.Passed, gate.Flaky:
			p.Passed++
		case gate.KnownFailing, gate.RedAtBase:
			if !slices.Contains(p.Failing, r.Gate) {
				p.Failing = append(p.Failing, r.Gate)
			}
		case gate.Unrunnable:
			if what := unrunnable(r); !r.Advisory && !slices.Contains(p.Missing, what) {
				p.Missing = append(p.Missing, what)
			}
		case gate.NoTests:
			if what := r.Gate + " proves nothing: " + r.Verdict.Note; !slices.Contains(p.Missing, what) {
				p.Missing = append(p.Missing, what)
			}
		case gate.Failed, gate.Noted: // these prove nothing
		}
	}
	return p
}

// takeReview takes the tasks a review asks for, and nothing else it did.
func (e *Engine) takeReview(ctx context.Context, s *State) (Next, error) {
	added, err := e.takeTasks(ctx, s)
	if err != nil {
		return Next{}, err
	}
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return Next{}, err
	}
	failed := s.Proposal.Failed
	s.Proposal, s.Reviewed = nil, s.HeadTree
	if failed != "" {
		s.ReviewNote = "the review did not finish: " + oneLine(failed, 200)
	}
	s.Draft = Seen{} // reading moves nothing
	if len(added) == 0 {
		s.Phase, s.Stage = run.PhaseFinishing, stageFinal
		return Next{}, nil
	}
	doc := s.doc()
	for _, t := range added[:min(len(added), maxReviewTasks)] {
		id, err := doc.AddTask(t)
		if err != nil {
			return Next{}, fmt.Errorf("add a task: %w", err)
		}
		s.noteAuthor(run.Task{}, id)
		if err := s.await(doc, []string{id}); err != nil {
			return Next{}, err
		}
	}
	if err := doc.SetStatus(progress.StatusInProgress); err != nil {
		return Next{}, fmt.Errorf("set the status: %w", err)
	}
	s.accept(doc)
	e.emit(run.Event{
		Kind: run.EventPlanned, Text: fmt.Sprintf("the review asks for %d more tasks", min(len(added), maxReviewTasks)),
	}, s)
	s.TaskID = ""
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	return Next{}, nil
}
