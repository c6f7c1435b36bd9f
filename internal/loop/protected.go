package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// The rules of findings about changes that were put back: of paths that only a person may change,
// and of what no commit can hold.
const (
	RuleProtected = "protected"
	RuleUnstored  = "unstored"
)

// maxHeld bounds the paths of one call that were put back and are kept and told by name.
const maxHeld = 20

// putBack takes changes out of the candidate and of the work tree that cannot be part of a commit
// of an agent's: of paths that only a person may change, and of what no commit can hold, such as
// links and files that are too large. Those that are unstored are in no tree.
func (e *Engine) putBack(ctx context.Context, s *State, c *candidate, unstored, held []Refusal) error {
	paths := make([]string, 0, len(held))
	for _, r := range held {
		paths = append(paths, r.Path)
	}
	tree, err := e.Work.Restore(ctx, c.tree, s.HeadTree, paths)
	if err != nil {
		return fmt.Errorf("put paths back: %w", err)
	}
	if err := e.layOut(ctx, s, tree); err != nil {
		return err
	}
	c.work, c.tree = tree, tree
	held = slices.Concat(unstored, held)
	s.Proposal.Held = slices.Clone(held[:min(len(held), maxHeld)])
	s.Violations = append(s.Violations, "These paths cannot be part of your work, so your changes to them were put back. "+
		"The checks ran without them, and the rest must work without them: "+listRefusals(held)+".")
	e.tellHeld(s, held, len(unstored))
	return nil
}

// tellHeld tells people which changes were put back, once for each task. The first of them could
// not be stored, as many as unstored says.
func (e *Engine) tellHeld(s *State, held []Refusal, unstored int) {
	var found []gate.Finding
	for i, r := range held[:min(len(held), maxHeld+1)] {
		rule, then := RuleProtected, ": change it yourself if you want that"
		if i < unstored {
			rule, then = RuleUnstored, ""
		}
		f := gate.Finding{
			Rule: rule, Path: r.Path, Text: fmt.Sprintf("%s was put back at %s (%s)%s", r.Path, s.TaskID, r.Reason, then),
		}
		if i == maxHeld {
			f = gate.Finding{Rule: rule, Text: fmt.Sprintf("%d more paths were put back at %s", len(held)-i, s.TaskID)}
		}
		found = append(found, f)
	}
	e.tell(s, run.EventPersonNotified, found...)
}

// tell keeps findings for people to look at, and tells them of those that are new: none, where it is false.
func (e *Engine) tell(s *State, kind run.EventKind, found ...gate.Finding) bool {
	var told []string
	for _, f := range found {
		if !slices.Contains(s.Findings, f) {
			s.Findings = appendFindings(s.Findings, []gate.Finding{f})
			told = append(told, f.Text)
		}
	}
	if len(told) > 0 {
		e.emit(run.Event{Kind: kind, TaskID: s.TaskID, Text: strings.Join(told, "; ")}, s)
	}
	return len(told) > 0
}

// onlyHeld fails a call that changed nothing but what was put back, which is nothing.
func (e *Engine) onlyHeld(ctx context.Context, s *State) (Next, error) {
	return e.failed(ctx, s, "All that the last call changed was put back, as it cannot be part of the work: "+
		listRefusals(s.Proposal.Held)+". Do as much of the task as you can without that; if nothing is left to do, "+
		"end with `RALPH_RESULT: blocked: ` and what a person has to do.",
		failure{Refused: true})
}

// appendFindings keeps as many findings as a run may.
func appendFindings(all, more []gate.Finding) []gate.Finding {
	all = append(all, more...)
	return all[:min(len(all), maxFindings)]
}
