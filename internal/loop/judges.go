package loop

import (
	"context"
	"fmt"
	"slices"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// OldTree is a proposal with its judges, the test and runner files that it touches, as
// they were when its task began.
type OldTree struct {
	Tree   string
	Judges []string
}

// judgeBy has the checks that run tests run once more, on the proposal with these
// judges as they were, unless they already do on the same tree.
func (e *Engine) judgeBy(ctx context.Context, s *State, judges []string) error {
	if len(judges) == 0 {
		return nil
	}
	tree, err := e.Work.Restore(ctx, s.Proposal.Bare, s.HeadTree, judges)
	if err != nil {
		return fmt.Errorf("put tests back: %w", err)
	}
	p := s.Proposal
	if tree == p.Bare || slices.ContainsFunc(p.Old, func(o OldTree) bool { return o.Tree == tree }) {
		return nil
	}
	p.Old = append(p.Old, OldTree{Tree: tree, Judges: judges})
	return nil
}

// judgeOld takes the verdict on the new code by judges as they were. What fails there
// by its own judgement fails the attempt, unless a person's words ask for other judges. What
// cannot run there, such as a test of a function that has another name now, proves
// nothing: people are told.
func (e *Engine) judgeOld(ctx context.Context, s *State, old OldTree, r gate.Result) (Next, error) {
	s.GateIndex++
	if !r.Verdict.Standing.Holds() {
		return Next{}, nil
	}
	isTest := slices.ContainsFunc(old.Judges, gate.IsTest)
	// A runner that says nothing but no: new code needs no new one, unless it builds with it.
	saysNo := r.Reason == "exited" && r.ExitCode < 126 && r.Missing == "" && len(r.Facts.FailedTests) == 0 && !isTest &&
		!slices.ContainsFunc(old.Judges, gate.IsManifest)
	if len(r.Verdict.Tests) == 0 && r.ExitCode != 0 && !saysNo {
		var tests, others []string
		for _, name := range old.Judges {
			if gate.IsTest(name) {
				tests = append(tests, name)
			} else {
				others = append(others, name)
			}
		}
		if len(tests) == 0 || len(others) == 0 {
			s.find(gate.RuleChanged, fmt.Sprintf("%s cannot run on the new code with %s as before, which proves nothing", r.Gate,
				listPaths(old.Judges)))
			return Next{}, nil
		}
		if err := e.judgeBy(ctx, s, tests); err != nil {
			return Next{}, err
		}
		return Next{}, e.judgeBy(ctx, s, others)
	}
	task, err := e.task(s)
	if err != nil {
		return Next{}, err
	}
	var unasked, unnamed []string
	for _, words := range s.wordsBehind(task) {
		unnamed = append(unnamed, gate.Unnamed(words, r.Verdict.Tests)...)
	}
	for _, name := range old.Judges {
		asked, err := e.asksFor(ctx, s, task, name)
		if err != nil {
			return Next{}, err
		}
		if !asked {
			unasked = append(unasked, name)
		}
	}
	named := len(r.Verdict.Tests) > 0 && len(unnamed) == 0
	if named || len(unasked) < len(old.Judges) {
		s.find(gate.RuleChanged, fmt.Sprintf("%s fails with %s as before; the task asks for a change there", r.Gate,
			listPaths(old.Judges)))
		if named {
			return Next{}, nil
		}
		return Next{}, e.judgeBy(ctx, s, unasked)
	}
	return e.refuseJudges(ctx, s, old, r)
}

// find notes something about the proposal for people to look at.
func (s *State) find(rule, text string) {
	p := s.Proposal
	p.Findings = appendFindings(p.Findings, []gate.Finding{{Rule: rule, Text: text}})
}

// asksFor says whether the words behind a task ask for a judge to be another; see wordsBehind.
func (e *Engine) asksFor(ctx context.Context, s *State, task run.Task, name string) (bool, error) {
	if s.Quality.AllowChangedTests {
		return true, nil
	}
	var sides [2][]byte
	for i, tree := range []string{s.HeadTree, s.Proposal.Bare} {
		var err error
		if sides[i], _, err = e.Work.File(ctx, tree, name, maxJudge); err != nil {
			return false, fmt.Errorf("read %q of the tree: %w", name, err)
		}
	}
	return !slices.ContainsFunc(s.wordsBehind(task), func(words run.Task) bool {
		return !gate.Asks(words, name, sides[0], sides[1])
	}), nil
}

// maxJudge bounds a judge that is searched for words of a task, in bytes.
const maxJudge = 1 << 20

// refuseJudges fails the attempt. Its judges are put back, but for tests that it added:
// the rest of the work stays.
func (e *Engine) refuseJudges(ctx context.Context, s *State, old OldTree, r gate.Result) (Next, error) {
	changes, err := e.Work.Changes(ctx, s.HeadTree, s.Proposal.Bare)
	if err != nil {
		return Next{}, fmt.Errorf("compare trees: %w", err)
	}
	var back []string
	for _, c := range changes {
		if slices.Contains(old.Judges, c.Path) && !(gate.IsTest(c.Path) && c.Status == "A") {
			back = append(back, c.Path)
		}
	}
	tree, err := e.Work.Restore(ctx, s.Proposal.Bare, s.HeadTree, back)
	if err != nil {
		return Next{}, fmt.Errorf("put tests back: %w", err)
	}
	if err := e.layOut(ctx, s, tree); err != nil {
		return Next{}, fmt.Errorf("put tests back: %w", err)
	}
	s.Draft.Tampered = true
	why := fmt.Sprintf("The last call changed files that decide whether the work is right (%s), and the new code is "+
		"not right by them as they were. They were restored: fix the code so that it passes with them. Change them only "+
		"where your task says so.\n\n%s", listPaths(old.Judges), gate.Remediation(r))
	return e.failed(ctx, s, why, failure{Check: &r, Refused: true})
}
