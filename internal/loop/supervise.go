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
	"github.com/org/ralph-action/internal/supervise"
)

// keptIterations is how many iterations the supervisor's record holds: the ones
// it looks at, and some that do not count.
const keptIterations = 2 * supervise.Window

// supervise asks how the run is going before the task at hand is worked, and
// does what follows from the answer.
func (e *Engine) supervise(ctx context.Context, s *State, doc *progress.Doc, task run.Task) (Next, error) {
	h := s.watchedHistory(doc.Tasks(), task)
	a := supervise.Assess(s.Supervision, h)
	if s.Promise != "" && a.Verdict.Kind == supervise.VerdictDecompose {
		a.Verdict.Kind, a.Verdict.Role = supervise.VerdictNarrow, "" // the prompt stays one
	}
	s.Verdict, s.Guidance = a.Verdict.Kind, nil
	e.tellVerdict(s, task, a)
	job := prompt.JobBuild
	switch a.Verdict.Kind {
	case supervise.VerdictGiveUp:
		return e.giveUp(ctx, s, doc, a)
	case supervise.VerdictAbort:
		s.Diagnostics = a.Diagnostics
		return e.finish(s, run.EndStagnated, a.Verdict.Reason)
	case supervise.VerdictRollBack:
		back := a.Verdict.Checkpoint.Tree
		if s.lane != nil { // any tree before it is another task's
			back = s.HeadTree
		}
		s.Kept = nil
		if err := e.layOut(ctx, s, back); err != nil {
			return Next{}, fmt.Errorf("roll the work tree back: %w", err)
		}
	case supervise.VerdictDecompose:
		job = prompt.JobSplit
	case supervise.VerdictSwitchRole:
		if a.Verdict.Clean {
			s.Kept = nil
			if err := e.layOut(ctx, s, s.HeadTree); err != nil {
				return Next{}, err
			}
		}
	case supervise.VerdictProceed, supervise.VerdictNarrow:
	}
	if a.Guidance != "" {
		s.Guidance = []string{a.Guidance}
	}
	s.nextIteration()
	done, total := progress.Counts(doc.Tasks())
	e.emit(run.Event{
		Kind: run.EventIteration, TaskID: task.ID, TaskTitle: task.Title, Verdict: string(a.Verdict.Kind),
		Strategy: string(a.Strategy.Kind), Signals: shown(a.Signals), Done: done, Total: total,
	}, s)
	return e.prepareAgent(s, job, supervise.NextRole(h, task, supervise.Situation{Verdict: a.Verdict}), task.ID)
}

// tellVerdict says what the supervisor decided, where that is more than to go on.
func (e *Engine) tellVerdict(s *State, task run.Task, a supervise.Assessment) {
	if a.Verdict.Kind == supervise.VerdictProceed {
		return
	}
	e.emit(run.Event{
		Kind: run.EventVerdict, TaskID: task.ID, TaskTitle: task.Title, Verdict: string(a.Verdict.Kind),
		Patterns: patternNames(a.Patterns), Strategy: string(a.Strategy.Kind), Signals: shown(a.Signals),
		Text: fmt.Sprintf("%s: %s", inWords(a.Verdict.Kind, task.ID), a.Verdict.Reason),
	}, s)
}

// inWords says for people what a verdict has the host do.
func inWords(kind supervise.VerdictKind, task string) string {
	switch kind {
	case supervise.VerdictGiveUp:
		return "setting " + task + " aside"
	case supervise.VerdictDecompose:
		return "splitting " + task
	case supervise.VerdictSwitchRole:
		return "trying another role"
	case supervise.VerdictNarrow:
		return "retrying with a hint"
	case supervise.VerdictRollBack:
		return "going back to the last good state"
	case supervise.VerdictAbort:
		return "stopping"
	case supervise.VerdictProceed:
	}
	return string(kind)
}

// shown are the signals for whoever is told, nil where there was no attempt.
func shown(s supervise.Signals) *run.Signals {
	if s == (supervise.Signals{}) {
		return nil
	}
	return &run.Signals{
		Score: s.Score, Source: s.Source, Test: s.Test, Docs: s.Docs, Config: s.Config, Other: s.Other,
		Breadth: s.Breadth, Churn: s.Churn, Tests: s.Tests, Warnings: s.Quality,
	}
}

func patternNames(patterns []supervise.Pattern) []string {
	names := make([]string, len(patterns))
	for i, p := range patterns {
		names[i] = string(p.Kind)
	}
	return names
}

// watchedHistory is the run as the supervisor sees it before task is worked.
func (s *State) watchedHistory(tasks []run.Task, task run.Task) supervise.History {
	h := supervise.History{
		Iterations: s.Watched, Checkpoints: s.Checkpoints, Acknowledged: s.Acknowledged, Flaky: s.Flaky,
		Task: supervise.Task{
			ID: task.ID, ParentID: s.Parents[task.ID], Attempts: s.Attempts[task.ID], Decomposed: s.Decomposed[task.ID],
			OneFile: len(namedSources(task)) == 1,
		},
	}
	for _, t := range tasks {
		if t.ID != task.ID && t.Actionable() && s.Attempts[t.ID] == 0 {
			h.Fresh++
		}
	}
	return h
}

// observed begins the supervisor's record of an agent call that has ended.
func (s *State) observed(status AgentStatus) {
	s.Draft = supervise.Iteration{
		Number: s.Iteration, TaskID: s.TaskID, ParentID: s.Parents[s.TaskID], Role: s.Role,
		Outcome: supervise.Outcome(status.Outcome), Duration: status.Finished.Sub(status.Started),
		Analysis:    supervise.AnalyseOutput(status.Final, status.Activity),
		ClaimedDone: progress.HintsDone(status.Final), Verdict: s.Verdict,
	}
}

// proposed notes what the agent changed: the tree, and what of it is not the
// run's own notes, by which a proposal that comes again is known.
func (s *State) proposed(tree, content string, changes []Change) {
	if s.Draft.FileCount = len(changes); len(changes) == 0 {
		return // what only writes notes proposes nothing
	}
	s.Draft.Change, s.DraftTree = content, tree
	for _, c := range changes[:min(len(changes), 20)] {
		s.Draft.Files = append(s.Draft.Files, c.Path)
	}
}

// measured notes what a check said about the proposal. Counts of tests mean
// something only where all of them could run to their end.
func (s *State) measured(r gate.Result) {
	if r.Reason != "exited" || r.Facts.Cut {
		return
	}
	m := supervise.GateMetrics{Gate: r.Gate}
	class := supervise.FailNone
	if !r.Passed {
		class = supervise.Classify(supervise.Failure{
			Outcome: supervise.Completed, Gate: r.Gate, Command: r.Command, ExitCode: r.ExitCode, Reason: r.Reason,
			Output: r.Output,
		})
	}
	if r.Facts.Known && class != supervise.FailCompile && class != supervise.FailTimeout && class != supervise.FailCrash {
		m.TestsKnown, m.TestsTotal, m.TestsPassed = true, r.Facts.Passed+r.Facts.Failed, r.Facts.Passed
	}
	// A linter that objects without a warning we know speaks another language.
	if r.Kind == gate.Lint && (r.Passed || r.Facts.Warnings > 0) {
		m.WarningsKnown, m.Warnings = true, r.Facts.Warnings
	}
	if m.TestsKnown || m.WarningsKnown {
		s.Draft.Metrics.Gates = append(s.Draft.Metrics.Gates[:len(s.Draft.Metrics.Gates):len(s.Draft.Metrics.Gates)], m)
	}
}

// watched ends the record of the iteration, and keeps its tree where that is
// worth going back to.
func (s *State) watched() {
	s.Draft.Advanced, s.Advanced = s.Draft.Advanced || s.Advanced, false
	s.Watched = append(slices.Clone(s.Watched[max(0, len(s.Watched)-keptIterations+1):]), s.Draft.Bounded())
	if (s.DraftTree != "" || s.Draft.Landed) && supervise.CheckpointDue(s.Supervision,
		supervise.History{Iterations: s.Watched, Checkpoints: s.Checkpoints}) {
		c := supervise.Checkpoint{Iteration: s.Draft.Number, Tree: s.DraftTree, Metrics: s.Draft.Bounded().Metrics}
		if s.Draft.Landed {
			c.Commit, c.Tree = s.Head, s.HeadTree
		}
		s.Checkpoints = supervise.AddCheckpoint(s.Checkpoints, c, s.Supervision.MaxCheckpoints)
	}
	s.Draft, s.DraftTree = supervise.Iteration{}, ""
}

// checkpointHead makes the tip of the branch a tree to go back to.
func (s *State) checkpointHead() {
	if n := len(s.Checkpoints); n > 0 && s.Checkpoints[n-1].Commit == s.Head {
		return
	}
	c := supervise.Checkpoint{Iteration: max(s.Iteration, s.Earlier.Iterations), Commit: s.Head, Tree: s.HeadTree}
	s.Checkpoints = supervise.AddCheckpoint(s.Checkpoints, c, s.Supervision.MaxCheckpoints)
}

// giveUp sets the task of the verdict aside, which is the one at hand or the one
// that it is a part of: then all the parts that are left. It takes the tree back
// to the last good one, so that the next task starts clean.
func (e *Engine) giveUp(ctx context.Context, s *State, doc *progress.Doc, a supervise.Assessment) (Next, error) {
	family := a.Verdict.TaskID
	for _, t := range doc.Tasks() {
		if !t.Actionable() || t.ID != family && s.Parents[t.ID] != family {
			continue
		}
		if err := doc.Block(t.ID, oneLine(blockReason(*s, a), maxBlockReason)); err != nil {
			return Next{}, fmt.Errorf("block %s: %w", t.ID, err)
		}
		e.emit(run.Event{Kind: run.EventTaskBlocked, TaskID: t.ID, TaskTitle: t.Title, Text: a.Verdict.Reason}, s)
	}
	s.Kept, s.Advanced = nil, false
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return Next{}, err
	}
	s.Diagnostics = a.Diagnostics
	s.Progress = s.text(doc)
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
func blockReason(s State, a supervise.Assessment) string {
	const last = "; last: "
	if s.Failure == "" || len(a.Verdict.Reason)+len(last)+min(len(s.Failure), minLastError) > maxBlockReason {
		return a.Verdict.Reason
	}
	return a.Verdict.Reason + last + s.Failure
}

// split puts the parts that the planner wrote in the place of the task. What
// else the call did to the tree is thrown away, and so is what failed attempts at
// the task left there; unfinished work that nothing speaks against stays, for the
// first part to go on from.
func (e *Engine) split(ctx context.Context, s *State) (Next, error) {
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
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	parts, parent := s.Proposal.Added, run.Task{ID: s.TaskID}
	if t, ok := doc.Task(s.TaskID); ok {
		parent = t
	}
	s.Proposal = nil
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	if len(parts) < 2 {
		// Why the task failed stays what the next attempt is told.
		s.Draft.Class, s.Draft.Role = supervise.FailEmpty, run.RolePlanner
		s.watched()
		e.emit(run.Event{Kind: run.EventAttemptFailed, TaskID: s.TaskID, Text: "the task could not be split"}, s)
		return Next{}, nil
	}
	ids, err := doc.Split(s.TaskID, parts)
	if err != nil {
		return Next{}, fmt.Errorf("split %s: %w", s.TaskID, err)
	}
	if s.Parents == nil {
		s.Parents, s.Decomposed = map[string]string{}, map[string]bool{}
	}
	s.Decomposed[s.TaskID] = true
	for _, id := range ids {
		s.Parents[id] = s.TaskID
	}
	s.wrote(s.person(parent), ids...)
	if s.Kept != nil {
		kept := *s.Kept
		kept.TaskID = ids[0]
		s.Kept = &kept
	}
	s.Draft.Landed, s.Draft.Role = true, run.RolePlanner // planning that was accepted, whoever did it
	s.watched()
	done, total := progress.Counts(doc.Tasks())
	e.emit(run.Event{
		Kind: run.EventPlanned, TaskID: s.TaskID, Done: done, Total: total,
		Text: fmt.Sprintf("%s was split into %d parts", s.TaskID, len(ids)),
	}, s)
	if err := s.await(doc, ids); err != nil {
		return Next{}, err
	}
	s.Progress = s.text(doc)
	s.Brief = Brief{}
	s.TaskID = ""
	return Next{}, nil
}

// How often all of the work is reviewed, and how many tasks one review may add.
const (
	maxReviews     = 2
	maxReviewTasks = 5
)

// review has the whole change read once more, where that is wanted and the run
// changed something.
func (e *Engine) review(s *State) (Next, error) {
	switch {
	case len(s.Commits) == 0 || s.Reviews >= s.reviews() || s.Once:
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
	s.Stage = stageClose
	return Next{}, nil
}

// reviews is how often all of the work may be reviewed.
func (s *State) reviews() int {
	switch s.Review {
	case ReviewAlways:
		return maxReviews
	case ReviewUnproven:
		if s.proven() || s.VerifyTasks {
			return 0
		}
		return 1
	case ReviewNever:
		return 0
	default:
		return 0
	}
}

// proven says whether any check has passed on what landed last, or on the whole.
func (s *State) proven() bool { return s.Proof().Passed > 0 }

// Proof is what shows that the work is right, as far as is known.
func (s *State) Proof() run.Proof {
	p := run.Proof{Reviewed: s.Reviews > 0 && s.ReviewNote == "", Evidence: s.VerifyTasks && len(s.Commits) > 0}
	for _, r := range s.GateLast {
		switch r.Verdict.Standing {
		case gate.Passed, gate.Tolerated, gate.Flaky:
			p.Passed++
		case gate.KnownFailing, gate.RedAtBase:
			if !slices.Contains(p.Failing, r.Gate) {
				p.Failing = append(p.Failing, r.Gate)
			}
		case gate.Unrunnable:
			if what := unrunnable(r); !r.Advisory && !slices.Contains(p.Missing, what) {
				p.Missing = append(p.Missing, what)
			}
		case gate.Silenced:
			if what := r.Gate + " proves nothing: " + r.Verdict.Note; !slices.Contains(p.Missing, what) {
				p.Missing = append(p.Missing, what)
			}
		case gate.Failed, gate.Noted, gate.Empty: // these prove nothing
		}
	}
	return p
}

// reviewed takes the tasks a review asks for, and nothing else it did.
func (e *Engine) reviewed(ctx context.Context, s *State) (Next, error) {
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return Next{}, err
	}
	added, failed := s.Proposal.Added, s.Proposal.Failed
	s.Proposal = nil
	if failed != "" {
		s.ReviewNote = "the review did not finish: " + oneLine(failed, 200)
	}
	s.Draft = supervise.Iteration{} // reading moves nothing
	if len(added) == 0 {
		s.Phase, s.Stage = run.PhaseFinishing, stageClose
		return Next{}, nil
	}
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	for _, t := range added[:min(len(added), maxReviewTasks)] {
		id, err := doc.AddTask(t)
		if err != nil {
			return Next{}, fmt.Errorf("add a task: %w", err)
		}
		s.wrote(run.Task{}, id)
		if err := s.await(doc, []string{id}); err != nil {
			return Next{}, err
		}
	}
	if err := doc.SetStatus(progress.StatusInProgress); err != nil {
		return Next{}, fmt.Errorf("set the status: %w", err)
	}
	done, total := progress.Counts(doc.Tasks())
	e.emit(run.Event{
		Kind: run.EventPlanned, Done: done, Total: total, Text: fmt.Sprintf("the review asks for %d more tasks", total-done),
	}, s)
	s.Progress = s.text(doc)
	s.TaskID = ""
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	return Next{}, nil
}

// interesting are the paths an agent should look at first: those the failure
// names, then those of earlier attempts.
func (s *State) interesting() []string {
	var files []string
	add := func(name string) {
		if name != "" && !path.IsAbs(name) && !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	for _, it := range slices.Backward(s.Watched) {
		if it.TaskID != s.TaskID {
			continue
		}
		add(it.Error.File)
		for _, f := range it.Files {
			add(f)
		}
	}
	return files[:min(len(files), 20)]
}
