package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

const (
	// maxFindings bounds what a run keeps for people to look at.
	maxFindings = 50
	// maxInspected bounds the files of one proposal whose content is compared.
	maxInspected = 500
	// maxBlamed bounds the findings the next attempt is told of.
	maxBlamed = 15
)

// inspect looks at what a proposal does to the repository's own defences,
// before any check runs: a check that was taken away cannot fail. why is not ""
// where the attempt fails for it.
func (e *Engine) inspect(ctx context.Context, s *State, task run.Task, code []Change, tree string) (findings []gate.Finding, why string, err error) {
	leaks, err := e.Workspace.Secrets(ctx, s.HeadTree, tree)
	if err != nil {
		return nil, "", fmt.Errorf("look for secrets: %w", err)
	}
	for _, l := range leaks {
		findings = append(findings, s.Quality.Finding(l))
	}
	diffs, err := e.contents(ctx, s, code, tree)
	if err != nil {
		return nil, "", err
	}
	findings = append(findings, gate.Weakened(diffs)...)
	if s.Quality.RequireNewTests {
		findings = append(findings, gate.Untested(diffs)...)
	}
	blamed := gate.Blames(task, findings, s.knownFailing(), slices.ContainsFunc(code, func(c Change) bool {
		return c.Status == "D" && gate.IsSource(c.Path)
	}))
	if len(blamed) == 0 {
		return findings, "", nil
	}
	return nil, remedy(blamed), nil
}

// contents reads the changed files that matter, before and after.
func (e *Engine) contents(ctx context.Context, s *State, code []Change, tree string) ([]gate.FileDiff, error) {
	var diffs []gate.FileDiff
	for _, c := range code {
		watched := gate.Watched(c.Path) || s.Quality.RequireNewTests && gate.IsSource(c.Path)
		if !watched || len(diffs) >= maxInspected {
			continue
		}
		d := gate.FileDiff{Path: c.Path}
		var err error
		if c.Status != "A" {
			if d.Old, _, err = e.Workspace.File(ctx, s.HeadTree, c.Path, gate.MaxFile); err != nil {
				return nil, err
			}
		}
		if c.Status != "D" {
			if d.New, _, err = e.Workspace.File(ctx, tree, c.Path, gate.MaxFile); err != nil {
				return nil, err
			}
		}
		diffs = append(diffs, d)
	}
	return diffs, nil
}

// knownFailing are the tests that failed on the tree the work began from, as
// far as that was looked at.
func (s *State) knownFailing() []string {
	var known []string
	for _, r := range s.Baseline {
		known = append(known, r.Facts.FailedTests...)
	}
	slices.Sort(known)
	return known
}

// remedies say what to do about a rule, once for all findings of it.
var remedies = []struct{ rule, text string }{
	{gate.RuleSecret, "Take the secrets out of the files; read them from the environment, or use a place holder such as \"example\" where only the form matters."},
	{gate.RuleDeleted, "Put the tests back. If the new behaviour is right and a test is not, change what the test expects."},
	{gate.RuleCommand, "Put the command back: how the repository is checked is not part of this task."},
	{gate.RuleNoNewTest, "Add tests for the code that was added; this repository asks for them."},
}

// remedy tells the next attempt what was found and what to do about it.
func remedy(blamed []gate.Finding) string {
	var b strings.Builder
	b.WriteString("The last call did what cannot be accepted:\n\n")
	for i, f := range blamed {
		if i == maxBlamed {
			fmt.Fprintf(&b, "- and %d more\n", len(blamed)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", f.Text)
	}
	for _, r := range remedies {
		if slices.ContainsFunc(blamed, func(f gate.Finding) bool { return f.Rule == r.rule }) {
			b.WriteString("\n" + r.text)
		}
	}
	return b.String()
}
