package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// due is a check that has to run.
type due struct {
	gate.Gate
	// old is nil where it runs on the proposal itself.
	old *OldTree
}

// dueChecks are the checks due now: those of the task on a proposal, those of
// the end once all tasks are done, with those of the task where the branch moved since
// they ran. What the base brings along is joined by
// what the proposal adds, never shortened by it. Where a proposal touches
// what judges it, those of them that run tests are due again; see OldTree.
func (e *Engine) dueChecks(s State) ([]due, error) {
	when := gate.Task
	if s.Phase == run.PhaseFinishing {
		when = gate.Final
	}
	gates := s.Checks()
	if s.Proposal != nil {
		gates = gate.Union(gates, s.Proposal.Gates)
	}
	var all []due
	if when == gate.Final && s.Unchecked {
		for _, g := range gate.At(gates, gate.Task) {
			all = append(all, due{Gate: g})
		}
	}
	for _, g := range gate.At(gates, when) {
		all = append(all, due{Gate: g})
	}
	if when == gate.Task {
		own, err := e.ownChecks(&s)
		if err != nil {
			return nil, err
		}
		for _, c := range own {
			all = append(all, due{Gate: gate.Gate{Name: c, Command: c, Kind: gate.Check, Own: true}.WithDefaults()})
		}
	}
	if when == gate.Task {
		for i := range s.Proposal.Old {
			for _, g := range gate.At(s.Checks(), when) {
				if !g.Advisory && (g.Kind == gate.Test || g.Kind == gate.Check) {
					all = append(all, due{Gate: g, old: &s.Proposal.Old[i]})
				}
			}
		}
	}
	return all, nil
}

// beginFinal keeps what the checks of the task said of what landed: those that run at the end say
// it once more.
func (e *Engine) beginFinal(s *State) error {
	gates, err := e.dueChecks(*s)
	s.GateLast = slices.DeleteFunc(slices.Clone(s.LandedGates), func(r gate.Result) bool {
		return slices.ContainsFunc(gates, func(d due) bool { return d.Command == r.Command })
	})
	return err
}

// ownChecks are the commands that verify the task at hand, beyond the repository's
// own checks.
func (e *Engine) ownChecks(s *State) ([]string, error) {
	doc := s.doc()
	task, err := findTask(doc, s.TaskID)
	if err != nil || !task.Verify {
		return task.Checks, err
	}
	return phaseChecks(doc.Tasks(), task), nil
}

func (e *Engine) finalGates(s State) bool {
	return len(gate.At(s.Checks(), gate.Final)) > 0
}

// treeToCheck is the tree that checks run on: the proposal, or at the end what has
// landed, without .ralph/. The notes of a run are no part of what is checked.
func (e *Engine) treeToCheck(ctx context.Context, s *State, old *OldTree) (string, error) {
	whole := s.HeadTree
	switch {
	case s.Phase == run.PhaseFinishing:
	case old != nil:
		whole = old.Tree
	default:
		whole = s.Proposal.Tree
	}
	tree, err := e.Work.Without(ctx, whole, ".ralph")
	if err != nil {
		return "", fmt.Errorf("take .ralph out of the tree: %w", err)
	}
	return tree, nil
}

// check is one run of one gate: on the proposal, once more on the proposal, or
// on the tree that the work began from.
type check struct {
	gate gate.Gate
	tree string
	need gate.Need
	// times is how often it ran again before.
	times int
	old   *OldTree
	// trusted: no agent has written any of the tree.
	trusted bool
}

// of says what the check runs on where that is not what was proposed.
func (c check) of() string {
	switch {
	case c.need == gate.Baseline:
		return "as it was before the work began"
	case c.need == gate.Again:
		return "run again"
	case c.old != nil:
		return "with its test and runner files as they were"
	default:
		return ""
	}
}

// trust says whose code the check runs.
func (c check) trust() Trust {
	if c.trusted {
		return TrustBase
	}
	return TrustRun
}

// next says what has to run before the gate can be judged, or how it is judged. A
// gate runs on the tree the work began from before it runs on the first proposal: to
// tell what the work did, and because caches that agents cannot write begin with what
// that leaves.
// It follows from the state alone, so that a check that was started is found
// again by whoever observes it.
func (e *Engine) next(ctx context.Context, s *State, d due) (check, *gate.Result, error) {
	g := d.Gate
	tree, err := e.treeToCheck(ctx, s, d.old)
	if err != nil {
		return check{}, nil, err
	}
	known := e.baseline(s, g)
	var before check
	if known == nil { // this is asked each time that a check is looked at
		if before, err = e.before(ctx, s, g); err != nil {
			return check{}, nil, err
		}
	}
	first, ok := s.GateMemo[gate.Key(tree, g.Command, s.Image)]
	if !ok {
		if s.Phase != run.PhaseFinishing && !g.Own && !g.Advisory && s.DefaultTree != "" && known == nil &&
			before.tree != tree {
			return before, nil, nil
		}
		return check{gate: g, tree: tree, old: d.old}, nil, nil
	}
	results := gate.Results{First: first}
	for {
		r, ok := s.GateMemo[again(tree, g, s.Image, len(results.Again))]
		if !ok {
			break
		}
		results.Again = append(results.Again, r)
	}
	if p := s.Proposal; p != nil && s.Phase != run.PhaseFinishing {
		results.Old, results.SameTests = d.old != nil, d.old != nil || !p.Recounts
	}
	results.Base = known
	if known == nil && before.tree == tree {
		results.Base = &first
	}
	if known != nil && e.unknownAtBase(s, g, first) {
		results.Base = nil
		if before, err = e.before(ctx, s, g); err != nil {
			return check{}, nil, err
		}
	}
	task, err := e.task(s)
	if err != nil {
		return check{}, nil, err
	}
	verdict, need := gate.Judge(g, s.Quality, task, results)
	switch need {
	case gate.Baseline:
		return before, nil, nil
	case gate.Again:
		return check{gate: g, tree: tree, need: need, times: len(results.Again), old: d.old}, nil, nil
	case gate.Nothing:
	}
	first.Verdict = verdict
	first.Passed = first.Passed && !verdict.Standing.Holds()
	return check{gate: g, tree: tree, old: d.old}, &first, nil
}

// before is the check on the tree that the work began from.
func (e *Engine) before(ctx context.Context, s *State, g gate.Gate) (check, error) {
	tree, err := e.Work.Without(ctx, s.StartTree, ".ralph")
	if err != nil {
		return check{}, fmt.Errorf("take .ralph out of the tree the work began from: %w", err)
	}
	return check{
		gate: g, tree: tree, need: gate.Baseline, trusted: s.DefaultTree != "" && s.StartTree == s.DefaultTree,
	}, nil
}

// baseline is the best that is known of a gate on what had landed before this
// proposal; nil where it is not known. What a gate that the proposal itself
// brings along says of older trees is no excuse: it counts as passed there.
func (e *Engine) baseline(s *State, g gate.Gate) *gate.Result {
	r, ok := s.Baseline[baselineKey(g.Command, s.Image)]
	fresh := !slices.ContainsFunc(s.Checks(), func(old gate.Gate) bool { return old.Command == g.Command })
	switch {
	case fresh && r.Missing == "" && !r.Passed:
		return &gate.Result{Passed: true}
	case ok:
		return &r
	}
	return nil
}

// unknownAtBase says whether the gate found something missing on a tree, of which it is
// not known yet whether that was missing before the work began. Only there can it be
// told from what the work has broken.
func (e *Engine) unknownAtBase(s *State, g gate.Gate, first gate.Result) bool {
	_, ran := s.Baseline[baselineKey(g.Command, s.Image)]
	return first.Missing != "" && !ran
}

// unrunnable says of a check that it could not run, and why.
func unrunnable(r gate.Result) string { return r.Gate + " could not run: " + r.Missing }

func baselineKey(command, image string) string { return gate.Key("", command, image) }

// raiseBaseline makes what has just landed the new baseline, where that is better: what
// was fixed in a run must not break again in it.
func (s *State) raiseBaseline() {
	for _, r := range s.GateLast {
		if r.Passed || r.Verdict.Standing == gate.KnownFailing {
			s.Baseline[baselineKey(r.Command, s.Image)] = r
		}
	}
}

// again is what a gate's result on one tree is remembered by that had run there
// before, and again as many times.
func again(tree string, g gate.Gate, image string, times int) string {
	return fmt.Sprintf("%s\x00again%d", gate.Key(tree, g.Command, image), times)
}

// task is what the proposal under check is to do; none where the end of the run
// is checked.
func (e *Engine) task(s *State) (run.Task, error) {
	if s.Phase == run.PhaseFinishing {
		return run.Task{}, nil
	}
	doc := s.doc()
	return findTask(doc, s.TaskID)
}

// startGate starts the next check.
func (e *Engine) startGate(ctx context.Context, s *State) (Next, error) {
	gates, err := e.dueChecks(*s)
	if err != nil {
		return Next{}, err
	}
	if s.GateIndex >= len(gates) {
		if s.Phase == run.PhaseFinishing {
			s.Stage = stageFinal
			return Next{}, nil
		}
		task, err := e.task(s)
		if err != nil {
			return Next{}, err
		}
		if e.needsLook(s, task) {
			return e.verify(s, task)
		}
		switch doubt, again, err := e.doubt(ctx, s, task); {
		case err != nil:
			return Next{}, err
		case again:
			return e.verify(s, task)
		case doubt != "":
			return e.fail(ctx, s, doubt)
		}
		s.Stage = stageLand
		return Next{}, nil
	}
	c, judged, err := e.next(ctx, s, gates[s.GateIndex])
	if err != nil {
		return Next{}, err
	}
	if judged != nil {
		switch {
		case c.old != nil:
			return e.judgeOld(ctx, s, *c.old, *judged)
		case judged.Verdict.Standing == gate.Unrunnable && !c.gate.Detected && !c.gate.Advisory:
			return e.endUnrunnable(ctx, s, c.gate, *judged)
		}
		return e.judgeGate(ctx, s, c.gate, *judged)
	}
	if s.Process == nil && e.overdue(*s) {
		return e.finish(s, run.EndDeadline, "")
	}
	if s.Process == nil {
		// The intent first: after a crash the same name finds the same process.
		s.prepareProcess(ProcessGate, e.Now())
		return Next{}, nil
	}
	s.Stage = stageGateWatch
	return Next{}, e.startCheck(ctx, s, GateStart{Gate: c.gate, Tree: c.tree, Of: c.of(), Trust: c.trust()})
}

// startCheck starts a check under the name of the process that was prepared, for no longer than the run has.
func (e *Engine) startCheck(ctx context.Context, s *State, g GateStart) (err error) {
	g.Name = s.Process.Name
	if s.Limits.RunTimeout > 0 {
		g.Gate.Timeout = min(g.Gate.Timeout, max(s.Deadline(e.Now()).Sub(e.Now()), time.Second))
	}
	if s.Process.Handle, err = e.Runner.StartGate(ctx, *s, g); err != nil {
		return fmt.Errorf("start %s: %w", g.Gate.Name, err)
	}
	e.emit(run.Event{Kind: run.EventGateStarted, TaskID: s.TaskID, Gate: g.Gate.Name}, s)
	return nil
}

// observeCheck gives what came of the check that runs, nil where nothing has yet: it runs still, or
// is to be started once more at the stage again, or the run has ended.
func (e *Engine) observeCheck(ctx context.Context, s *State, again Stage, name string) (*GateStatus, Next, error) {
	status, err := e.Runner.ObserveGate(ctx, s.Process.Handle)
	switch {
	case errors.Is(err, ErrGone) && s.Gone >= maxGone: // which says nothing of the tree
		s.Process = nil
		next, err := e.finish(s, run.EndFailed, fmt.Sprintf("%s was started %d times, and gone each time", name, s.Gone+1))
		return nil, next, err
	case errors.Is(err, ErrGone), errors.Is(err, ErrLost) && s.Lost < maxLost:
		if s.Stage = again; errors.Is(err, ErrGone) {
			s.Gone++
		} else {
			s.Lost++
		}
		s.prepareProcess(s.Process.Kind, e.Now())
		return nil, Next{}, nil
	case errors.Is(err, ErrLost):
		s.Process = nil
		return &GateStatus{Result: gate.Result{
			ExitCode: -1, Reason: "its process was lost: something ended it from outside, or it ended its own parent",
		}}, Next{}, nil
	case err != nil:
		return nil, Next{}, fmt.Errorf("observe %s: %w", name, err)
	case status.Running:
		return nil, Next{Kind: Wait, Handles: []Handle{s.Process.Handle}}, nil
	}
	s.Lost, s.Gone = 0, 0
	s.addHosts(status.Hosts)
	return &status, Next{}, e.forget(ctx, s)
}

// tellCheck tells how a check ended.
func (e *Engine) tellCheck(s *State, name string, status *GateStatus, text string) {
	r := status.Result
	e.emit(run.Event{
		Kind: run.EventGate, TaskID: s.TaskID, Gate: name, Passed: r.Passed, Duration: r.Duration,
		Hosts: run.AddHosts(nil, status.Hosts, maxHosts),
		Text:  fmt.Sprintf("%s in %s", text, r.Duration.Round(10*time.Millisecond)),
	}, s)
}

func (e *Engine) watchGate(ctx context.Context, s *State) (Next, error) {
	gates, err := e.dueChecks(*s)
	if err != nil {
		return Next{}, err
	}
	if s.GateIndex >= len(gates) {
		return Next{}, fmt.Errorf("check %d of %d is not there any more", s.GateIndex+1, len(gates))
	}
	c, _, err := e.next(ctx, s, gates[s.GateIndex])
	if err != nil {
		return Next{}, err
	}
	status, next, err := e.observeCheck(ctx, s, stageGate, c.gate.Name)
	if status == nil || err != nil {
		return next, err
	}
	if e.overdue(*s) && status.Result.Reason == "wall_timeout" {
		// It was cut short for the run's sake, which says nothing of the tree.
		return e.finish(s, run.EndDeadline, "")
	}
	s.Stage = stageGate
	e.remember(s, c, status)
	return Next{}, nil
}

// remember keeps the result of a check, and forgets those of other trees.
func (e *Engine) remember(s *State, c check, status *GateStatus) {
	r := status.Result
	r.Gate, r.Kind, r.Command, r.Tree = c.gate.Name, c.gate.Kind, c.gate.Command, c.tree
	r.Advisory, r.Missing = c.gate.Advisory, gate.Missing(c.gate, r)
	word := "failed"
	switch {
	case r.Passed:
		word = "passed"
	case r.Missing != "":
		word = "could not run"
	}
	switch {
	case c.need == gate.Baseline:
		s.Baseline[baselineKey(r.Command, s.Image)] = r
	default:
		maps.DeleteFunc(s.GateMemo, func(_ string, old gate.Result) bool { return old.Tree != c.tree })
		key := gate.Key(c.tree, r.Command, s.Image)
		if c.need == gate.Again {
			key = again(c.tree, c.gate, s.Image, c.times)
		}
		s.GateMemo[key] = r
	}
	where, name := c.of(), r.Gate
	if where != "" {
		where = ", " + where + ","
	}
	if len(s.Calls) > 0 {
		name = s.TaskID + ": " + name
	}
	e.tellCheck(s, r.Gate, status, name+where+" "+word)
}

// judgeGate takes the verdict on one check: on to the next, or back to work.
func (e *Engine) judgeGate(ctx context.Context, s *State, g gate.Gate, r gate.Result) (Next, error) {
	s.GateLast = append(s.GateLast, r)
	if s.Phase == run.PhaseFinishing {
		s.LandedGates = slices.Clone(s.GateLast)
	}
	s.recordCheck(r)
	if !r.Verdict.Standing.Holds() {
		s.GateIndex++
		if base := e.baseline(s, g); s.Phase != run.PhaseFinishing && base != nil && base.Facts.Known && r.Facts.Known {
			if before, now := base.Facts.Passed+base.Facts.Failed, r.Facts.Passed+r.Facts.Failed; now < before {
				s.find(gate.RuleFewer, fmt.Sprintf("%s ran %d tests before, and runs %d now", r.Gate, before, now))
			}
		}
		if note := s.noteOn(g, r); note != "" {
			e.emit(run.Event{Kind: run.EventGateNote, TaskID: s.TaskID, Gate: r.Gate, Text: note}, s)
		}
		return Next{}, nil
	}
	// Where the same tree is proposed again, somebody holds that it is not to
	// blame: it is looked at once more.
	key := gate.Key(r.Tree, r.Command, s.Image)
	maps.DeleteFunc(s.GateMemo, func(k string, _ gate.Result) bool { return k == key || strings.HasPrefix(k, key+"\x00") })
	if s.Phase != run.PhaseFinishing {
		why := gate.Remediation(r)
		if s.Proposal.Host {
			task, err := e.task(s)
			if err != nil {
				return Next{}, err
			}
			return e.fixFirst(ctx, s, task, fmt.Sprintf("the check %q fails", r.Gate), why)
		}
		return e.failed(ctx, s, why, failure{Check: &r})
	}
	return e.reopen(s, r)
}

// noteOn is what people are told of a check that does not block, "" for nothing.
func (s *State) noteOn(g gate.Gate, r gate.Result) string {
	switch {
	case r.Verdict.Note == "":
		return ""
	case r.Verdict.Standing == gate.Unrunnable && len(s.Commits) > 0: // how to mend it has been said
		return unrunnable(r)
	case r.Verdict.Standing == gate.Unrunnable:
		return unrunnable(r) + ". To have it run, " + gate.Provide(g)
	case r.Verdict.Standing == gate.NoTests:
		return r.Gate + " proves nothing: " + r.Verdict.Note
	default:
		return r.Gate + " ignored: " + r.Verdict.Note
	}
}

// endUnrunnable ends a run whose checks a person named, where one of them cannot run:
// no task is to blame, and nothing may land without it.
func (e *Engine) endUnrunnable(ctx context.Context, s *State, g gate.Gate, r gate.Result) (Next, error) {
	s.GateLast = append(s.GateLast, r)
	s.LandedGates = slices.DeleteFunc(s.LandedGates, func(old gate.Result) bool { return old.Command == r.Command })
	s.LandedGates = append(s.LandedGates, r) // it would not have run on those either
	e.keepRefused(ctx, s, unrunnable(r))
	return e.finish(s, run.EndFailed, unrunnable(r)+". What to do first: "+gate.Provide(g))
}

// reopen turns a failed final check into a task of its own.
func (e *Engine) reopen(s *State, r gate.Result) (Next, error) {
	s.record(r.Command).Reopened++
	if s.of(r.Command).Reopened > maxReopen {
		return e.finish(s, run.EndBlocked, fmt.Sprintf("the final check %q still fails", r.Gate))
	}
	doc := s.doc()
	id, err := doc.AddTask(run.Task{
		Title: gate.Goal(r.Gate), Priority: 1,
		Accept: []string{fmt.Sprintf("`%s` exits with 0", r.Command)},
	})
	if err != nil {
		return Next{}, fmt.Errorf("add a task: %w", err)
	}
	s.noteAuthor(run.Task{}, id)
	if err := s.amend(doc); err != nil {
		return Next{}, err
	}
	s.Failure = gate.Remediation(r)
	s.Objection, s.TaskID = s.Failure, ""
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	return Next{}, nil
}
