package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// RuleProtected is the rule of findings about protected paths that were put back.
const RuleProtected = "protected"

// maxProtected bounds the protected paths of one call that are kept and told by name.
const maxProtected = 20

// putBack takes the changes of paths that only a person may change out of the candidate and
// of the work tree.
func (e *Engine) putBack(ctx context.Context, s *State, c *candidate, protected []Refusal) error {
	paths := make([]string, 0, len(protected))
	for _, r := range protected {
		paths = append(paths, r.Path)
	}
	tree, err := e.Trees.Restore(ctx, c.tree, s.HeadTree, paths)
	if err != nil {
		return fmt.Errorf("put protected paths back: %w", err)
	}
	if err := e.layOut(ctx, s, tree); err != nil {
		return err
	}
	c.work, c.tree = tree, tree
	s.Proposal.Protected = slices.Clone(protected[:min(len(protected), maxProtected)])
	s.Violations = append(s.Violations, "Only a person may change these paths, so your changes to them were put back. "+
		"The checks ran without them, and the rest must work without them: "+listRefusals(protected)+".")
	e.tellProtected(s, protected)
	return nil
}

// tellProtected tells people which protected paths an agent has changed, once for each task.
func (e *Engine) tellProtected(s *State, protected []Refusal) {
	var told []string
	for i, r := range protected {
		f := gate.Finding{
			Rule: RuleProtected, Path: r.Path,
			Text: fmt.Sprintf("%s was put back at %s (%s): change it yourself if you want that", r.Path, s.TaskID, r.Reason),
		}
		if i == maxProtected {
			f = gate.Finding{
				Rule: RuleProtected,
				Text: fmt.Sprintf("%d more protected paths were put back at %s", len(protected)-i, s.TaskID),
			}
		}
		if i <= maxProtected && !slices.Contains(s.Findings, f) {
			s.Findings = appendFindings(s.Findings, []gate.Finding{f})
			told = append(told, f.Text)
		}
	}
	if len(told) > 0 {
		e.emit(run.Event{Kind: run.EventPersonNotified, TaskID: s.TaskID, Text: strings.Join(told, "; ")}, s)
	}
}

// onlyProtected fails a call that changed nothing but protected paths, which is nothing.
func (e *Engine) onlyProtected(ctx context.Context, s *State) (Next, error) {
	return e.failed(ctx, s, "The last call changed nothing but protected paths, and these were put back: "+
		listRefusals(s.Proposal.Protected)+". Only a person may change them. Do as much of the task as you can without "+
		"that; if nothing is left to do, end with `RALPH_RESULT: blocked: ` and what a person has to do.",
		failure{Refused: true})
}

// appendFindings keeps as many findings as a run may.
func appendFindings(all, more []gate.Finding) []gate.Finding {
	all = append(all, more...)
	return all[:min(len(all), maxFindings)]
}
