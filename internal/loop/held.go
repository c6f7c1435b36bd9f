package loop

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/supervise"
)

const (
	// maxHeld bounds how often something is held back in one run, and
	// maxHeldPatch the bytes of one patch.
	maxHeld      = 20
	maxHeldPatch = 40 << 10
	// maxHeldPaths bounds the paths of one hold that are kept, and maxHeldFindings
	// those that are findings of their own.
	maxHeldPaths    = 100
	maxHeldFindings = 20
)

// RuleHeld is the rule of findings about what was held back.
const RuleHeld = "held"

// Held is what was held back of the work at one task.
type Held struct {
	TaskID string
	// Paths are the first of what was held back, and More is how many more there were.
	Paths []Refusal
	More  int `json:",omitempty"`
	// Patch makes it of what landed without it, "" where it is too large.
	Patch string
}

// holdBack takes paths that a person has to change out of a candidate. The work
// tree keeps them: should the rest not pass, the next attempt goes on from all
// of it.
func (e *Engine) holdBack(ctx context.Context, s *State, c *candidate, held []Refusal) error {
	paths := make([]string, 0, len(held))
	for _, h := range held {
		paths = append(paths, h.Path)
	}
	whole := c.tree
	var err error
	if c.tree, err = e.Trees.Restore(ctx, whole, s.HeadTree, paths); err != nil {
		return fmt.Errorf("hold changes back: %w", err)
	}
	if c.plain, err = e.withoutNotes(ctx, c.tree); err != nil {
		return err
	}
	changes, err := e.Trees.Changes(ctx, s.HeadTree, c.tree)
	if err != nil {
		return fmt.Errorf("compare trees: %w", err)
	}
	c.code, _ = splitChanges(changes, path.Dir(s.ProgressPath))
	kept := held[:min(len(held), maxHeldPaths)]
	c.held = &Held{TaskID: s.TaskID, Paths: slices.Clone(kept), More: len(held) - len(kept)}
	patch, err := e.Trees.Patch(ctx, c.tree, whole, maxHeldPatch+1)
	if err != nil {
		return fmt.Errorf("make a patch of what is held back: %w", err)
	}
	if len(patch) <= maxHeldPatch {
		c.held.Patch = patch
	}
	s.Violations = append(s.Violations, "Only a person may change these paths. Your changes to them were removed and "+
		"given to a person "+
		"as a patch; the checks ran without them, so the rest must work without them: "+listRefusals(held)+".")
	return nil
}

// heldFindings tell people what a proposal lacks.
func heldFindings(h *Held) []gate.Finding {
	if h == nil {
		return nil
	}
	var out []gate.Finding
	for i, p := range h.Paths {
		if more := len(h.Paths) - i + h.More; i == maxHeldFindings && more > 0 {
			return append(out, gate.Finding{
				Rule: RuleHeld, Text: fmt.Sprintf("%d more paths were held back from %s", more, h.TaskID),
			})
		}
		out = append(out, gate.Finding{
			Rule: RuleHeld, Path: p.Path,
			Text: fmt.Sprintf("%s was held back from %s (%s): apply it yourself if you want it", p.Path, h.TaskID, p.Reason),
		})
	}
	return out
}

// keepHeld tells of what was held back, and remembers it for people to be shown.
func (e *Engine) keepHeld(s *State, h *Held) {
	if h != nil {
		text := heldFindings(h)[0].Text
		if more := len(h.Paths) - 1 + h.More; more > 0 {
			text += fmt.Sprintf("; so were %d more paths", more)
		}
		e.emit(run.Event{Kind: run.EventPersonNotified, TaskID: h.TaskID, Text: text}, s)
	}
	if h != nil && len(s.Held) < maxHeld {
		s.Held = append(s.Held[:len(s.Held):len(s.Held)], *h)
	}
}

// allHeld answers work that is all for a person to apply. The agent is told once,
// since not every task needs what it changed; the second time the task is set
// aside, with the patch for a person.
func (e *Engine) allHeld(ctx context.Context, s *State, doc *progress.Doc, h *Held) (Next, error) {
	if s.OnlyHeld != s.TaskID {
		s.OnlyHeld = s.TaskID
		return e.failed(ctx, s, "The last call changed only paths that a person must change: "+listRefusals(h.Paths)+
			". Do as much of the task as you can without changing them.", supervise.Failure{Refused: true})
	}
	e.keepHeld(s, h)
	s.Findings = appendFindings(s.Findings, heldFindings(h))
	a := supervise.Assessment{Verdict: supervise.Verdict{
		Kind: supervise.VerdictGiveUp, TaskID: s.TaskID,
		Reason: "it changed only protected paths, which a person must apply: " + oneLine(listRefusals(h.Paths), 200),
	}}
	a.Diagnostics = fmt.Sprintf("%s is blocked: %s.\n", s.TaskID, a.Verdict.Reason)
	s.Brief.begin()
	s.Draft.Class = supervise.Classify(supervise.Failure{Refused: true})
	s.watched()
	s.dropCall()
	s.Phase = run.PhaseIterating
	return e.giveUp(ctx, s, doc, a)
}

// appendFindings keeps as many findings as a run may.
func appendFindings(all, more []gate.Finding) []gate.Finding {
	all = append(all[:len(all):len(all)], more...)
	return all[:min(len(all), maxFindings)]
}
