package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// RuleAbsent is the rule of a finding about what is not there where agents and checks work.
// It is told before anything is spent.
const RuleAbsent = "absent"

// open lays out the work tree and finds, or makes, the progress file.
func (e *Engine) open(ctx context.Context, s *State) error {
	s.Phase = run.PhasePreparing
	opened, err := e.Work.Open(ctx, *s)
	if err != nil {
		return fmt.Errorf("open the work tree: %w", err)
	}
	s.Branch, s.BaseBranch, s.Base, s.BaseTree = opened.Branch, opened.BaseBranch, opened.Base, opened.BaseTree
	s.DefaultTree = opened.DefaultTree
	known := s.HeadTree
	s.Head, s.HeadTree, s.Templates = opened.Head, opened.HeadTree, opened.Templates
	s.Setup, s.SetupKey = opened.Setup, opened.SetupKey
	for _, f := range opened.Findings {
		e.tell(s, run.EventTrouble, f)
	}
	s.Laid = s.HeadTree
	begins := s.Progress == ""
	if begins {
		s.takeEarlier(opened.Earlier)
	}
	if s.StartTree != s.HeadTree { // somebody's commits are part of it now
		s.StartTree, s.Baseline = s.HeadTree, map[string]gate.Result{}
	}
	if known != s.HeadTree && len(s.LandedGates) > 0 {
		if err := e.dropLandedGates(ctx, s); err != nil {
			return err
		}
	}
	s.Settings = s.mergeWith(opened.Settings, s.Attended)
	if err := e.detectAll(ctx, s); err != nil {
		return err
	}
	onBranch, doc, err := e.findProgress(ctx, s)
	if err != nil {
		return err
	}
	switch {
	case s.Outdated:
		doc = s.catchUp(onBranch, doc, opened.LastProgress)
	case s.Progress != "" && (onBranch == s.LandedProgress || onBranch == ""):
		// The tree is laid out again, and nobody else wrote this file
		// meanwhile, or somebody took it away: what we know beyond it stays.
		s.LandedProgress = onBranch
		s.Stage = stageSetup
		return nil
	case s.Progress != "":
		if doc, err = e.takeIn(s, doc); err != nil {
			return err
		}
	}
	if onBranch == "" && s.Progress == "" && s.Carried != "" {
		if doc, err = s.restore(doc); err != nil {
			return err
		}
	}
	if doc, err = follow(doc, s); err != nil {
		return err
	}
	doc.AssignIDs()
	e.tellPlan(s)
	if begins {
		s.inherit(doc)
		s.Earlier.Iterations = max(s.Earlier.Iterations, doc.LastIteration())
	}
	s.accept(doc)
	s.LandedProgress = onBranch
	s.Stage = stageSetup
	return nil
}

// dropLandedGates drops the results of checks where somebody changed what they ran on.
func (e *Engine) dropLandedGates(ctx context.Context, s *State) error {
	tree, err := e.Work.Without(ctx, s.HeadTree, ".ralph")
	if err != nil {
		return fmt.Errorf("take .ralph out of the tree: %w", err)
	}
	if !slices.ContainsFunc(s.LandedGates, func(r gate.Result) bool { return r.Tree == tree }) {
		s.LandedGates, s.GateLast, s.Unchecked = nil, nil, true
	}
	return nil
}

// restore gives the progress file of an earlier run on the same subject in the
// place of a new one.
func (s *State) restore(fresh *progress.Doc) (*progress.Doc, error) {
	doc, err := progress.Parse([]byte(s.Carried))
	s.Carried = ""
	if err != nil {
		return nil, fmt.Errorf("read the progress of the run before: %w", err)
	}
	if b, ok := doc.Binding(); !ok || b.Key != s.Subject.Key {
		return fresh, nil
	}
	return doc, nil
}

// maxMerged bounds how many sentences on people's edits a run remembers.
const maxMerged = 20

// takeIn merges the progress file that people left on the branch with what we
// know beyond the one that we landed there. People win; what a person ticked
// is done, as far as tasks go, and what they changed gets all its attempts.
func (e *Engine) takeIn(s *State, human *progress.Doc) (*progress.Doc, error) {
	base, err := progress.Parse([]byte(s.LandedProgress))
	if err != nil {
		return nil, fmt.Errorf("read the landed progress: %w", err)
	}
	return e.applyMerge(s, progress.Merge(base, s.doc(), human))
}

// takeInTicks merges what people made of the boxes in the pull request.
func (e *Engine) takeInTicks(s *State, ticks map[string]bool) error {
	_, err := e.applyMerge(s, progress.MergeTicks(s.doc(), ticks))
	return err
}

// applyMerge accepts the document after a merge with people's edits, and does what follows
// from them for the run.
func (e *Engine) applyMerge(s *State, m progress.Merged) (*progress.Doc, error) {
	for _, c := range m.Changes {
		if c.TaskID == "" {
			continue
		}
		// The task is judged anew, by what comes of it as it is now.
		s.resetTask(c.TaskID)
		if c.Kind == progress.ChangeAdded || c.Kind == progress.ChangeReworded {
			s.record(c.TaskID).Behind = nil
		}
		if c.Kind != progress.ChangeMoved {
			s.dropBeside(c.TaskID)
		}
		if c.TaskID == s.TaskID && c.Kind != progress.ChangeMoved {
			// What was said of the task as it was is not about this one.
			s.Brief = Brief{}
			s.TaskID = ""
		}
	}
	if err := s.amend(m.Doc); err != nil {
		return nil, err
	}
	told := m.Sentences()
	s.noteMerged(told)
	if len(told) > 0 {
		e.emit(run.Event{Kind: run.EventEdited, Text: strings.Join(told, " ")}, s)
	}
	return m.Doc, nil
}

// maxRoot bounds the files that checks are detected by, in bytes.
const maxRoot = 1 << 20

// detect finds the checks that a tree brings along; none where they were named.
func (e *Engine) detect(ctx context.Context, s *State, tree string) ([]gate.Gate, error) {
	if s.NoDetect || len(s.Gates) > 0 || tree == "" {
		return nil, nil
	}
	var gates []gate.Gate
	err := e.rootOf(ctx, tree, func(r gate.Root) { gates = gate.Detect(r) })
	return s.Quality.Apply(gates), err
}

// rootOf hands over the top directory of a tree.
func (e *Engine) rootOf(ctx context.Context, tree string, look func(gate.Root)) error {
	names, failed := e.Work.Names(ctx, tree)
	if failed == nil {
		look(gate.Root{Names: names, Read: func(name string) ([]byte, bool) {
			src, ok, err := e.Work.File(ctx, tree, name, maxRoot)
			failed = errors.Join(failed, err)
			return src, ok
		}})
	}
	if failed != nil {
		return fmt.Errorf("look for checks: %w", failed)
	}
	return nil
}

// detectAll finds the checks that the run is held to: those of the default branch,
// which no agent has written, and what the run's own branch has added to them.
func (e *Engine) detectAll(ctx context.Context, s *State) error {
	base, err := e.detect(ctx, s, s.DefaultTree)
	if err != nil {
		return err
	}
	head, err := e.detect(ctx, s, s.HeadTree)
	if err != nil {
		return err
	}
	s.DetectedGates = gate.Union(base, head)
	return nil
}

// findProgress reads the progress file that is bound to this subject. A file
// bound to another subject is not ours: it stays, and ours gets another path.
// onBranch is the file as it stands, "" where a new one is begun.
func (e *Engine) findProgress(ctx context.Context, s *State) (onBranch string, _ *progress.Doc, _ error) {
	for n := 1; ; n++ {
		dir := ".ralph/" + s.Subject.Slug
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", dir, n)
		}
		s.ProgressPath = dir + "/progress.md"
		doc, unreadable, err := e.readProgress(ctx, s.HeadTree, s.ProgressPath)
		switch {
		case err != nil:
			return "", nil, err
		case doc != nil:
			if b, ok := doc.Binding(); ok && b.Key == s.Subject.Key {
				return string(doc.Bytes()), doc, nil
			}
		case unreadable == "":
			return "", progress.New(s.Subject.Name, progress.Binding{Key: s.Subject.Key, PlanSHA256: s.Plan.SHA256}), nil
		}
		if n >= 10 {
			return "", nil, &run.UserError{
				Message: fmt.Sprintf("%s and nine like it belong to other plans, or cannot be read",
					".ralph/"+s.Subject.Slug+"/progress.md"),
				Hint: "remove those that are finished",
			}
		}
	}
}

// begin tells people that the run has begun. ended: there is nothing to work.
func (e *Engine) begin(ctx context.Context, s *State) (_ Next, ended bool, _ error) {
	if err := e.Publisher.Begin(ctx, *s); err != nil {
		return Next{}, false, fmt.Errorf("announce the run: %w", err)
	}
	tasks := s.doc().Tasks()
	e.emit(run.Event{Kind: run.EventRunStarted, Text: s.Subject.Name}, s)
	e.tellTasks(s, tasks)
	if len(tasks) == 0 && s.Mode == run.ModeBuild {
		next, err := e.finish(s, run.EndFailed, "there are no tasks to build; run it in plan mode first")
		return next, true, err
	}
	return Next{}, false, nil
}

// tellTasks names the tasks that wait for each other, and says where the run cannot come to
// the end of its tasks: each needs at least one iteration.
func (e *Engine) tellTasks(s *State, tasks []run.Task) {
	var ids []string
	for _, t := range tasks {
		if t.Actionable() && inCircle(tasks, t.ID) {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) > 0 {
		e.emit(run.Event{
			Kind: run.EventPersonNotified,
			Text: strings.Join(ids, ", ") + " depend on each other in a circle: they are worked in their order. " +
				"Take one of the dependencies out where that is wrong",
		}, s)
	}
	done, total := progress.Counts(tasks)
	open, most := total-done, s.Limits.MaxIterations
	if most > 0 && !s.Once && s.Mode != run.ModePlan && open > most-s.Iterations() {
		e.emit(run.Event{
			Kind: run.EventPersonNotified,
			Text: fmt.Sprintf("%d tasks are open, but max_iterations is %d: this run will not reach the end", open, most),
		}, s)
	}
}

// outdatedStarts is added to the number of processes that an outdated run has started:
// those that came after its state was stored may still be there, under the numbers
// that follow.
const outdatedStarts = 1 << 20

// Outdated is the state of a run whose branch may have gone further than the state
// knows, as where the state is from an older copy of the database. Its next step takes the branch as it is;
// what was under way when the state was stored is forgotten. A run that is only to
// be told of stays as it is.
func Outdated(s State) State {
	if s.End != "" {
		return s
	}
	s.Call, s.PullRequest, s.Calls = Call{}, nil, nil
	s.Starts += outdatedStarts
	s.Phase, s.Stage, s.Outdated = run.PhasePreparing, stageOpen, true
	return s
}

// catchUp gives the progress file as the branch has it, or had it until a run that
// completed took it away. What the state knows of the tasks is dropped: it is older.
func (s *State) catchUp(onBranch string, doc, last *progress.Doc) *progress.Doc {
	s.Outdated, s.Progress, s.LandedProgress = false, onBranch, onBranch
	if onBranch == "" && last != nil {
		doc = last
		s.accept(doc)
	}
	s.Iteration = max(s.Iteration, doc.LastIteration())
	return doc
}
