package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
)

const (
	// maxFindings bounds what a run keeps for people to look at, and maxBlamed those that
	// the next attempt is told of.
	maxFindings = 50
	maxBlamed   = 15
	// maxMeasured bounds the patch whose lines are counted, in bytes.
	maxMeasured = 1 << 20
)

// inspect looks at what no check tells of a proposal: secrets, and whether it touches
// what judges it.
func (e *Engine) inspect(ctx context.Context, s *State, c *candidate) error {
	leaks, err := e.Work.Secrets(ctx, s.HeadTree, c.tree)
	if err != nil {
		return fmt.Errorf("look for secrets: %w", err)
	}
	for _, l := range leaks {
		c.findings = append(c.findings, s.Quality.Finding(l))
	}
	gates := gate.Union(s.Checks(), s.Proposal.Gates)
	for _, change := range c.code {
		if gate.IsTest(change.Path) || gate.Decides(change.Path, gates) {
			c.judges = append(c.judges, change.Path)
		}
		c.recounts = c.recounts || len(c.judges) > 0 || strings.HasSuffix(change.Path, ".rs")
	}
	if s.Quality.RequireNewTests {
		c.findings = append(c.findings, missingTests(c.code)...)
	}
	patch, err := e.Work.Patch(ctx, s.HeadTree, c.tree, maxMeasured)
	if err != nil {
		return fmt.Errorf("measure the change: %w", err)
	}
	s.Draft.LinesAdded, s.Draft.LinesRemoved = strings.Count(patch, "\n+"), strings.Count(patch, "\n-")
	return nil
}

// missingTests are the source files that are new or changed where no test is.
func missingTests(code []Change) (found []gate.Finding) {
	for _, c := range code {
		switch {
		case c.Status == "D":
		case gate.IsTest(c.Path):
			return nil
		case gate.IsSource(c.Path):
			found = append(found, gate.Finding{
				Path: c.Path, Rule: gate.RuleNoNewTest, Text: c.Path + " was changed, and no test was", Grave: true,
			})
		}
	}
	return found
}

// remedies say what to do about a rule, once for all findings of it.
var remedies = []struct{ rule, text string }{
	{
		gate.RuleSecret,
		"Remove the secrets from the files. Read them from the environment, or use a placeholder such as \"example\" " +
			"where only the form matters.",
	},
	{gate.RuleUnsearched, "Every change is searched for secrets: leave large generated files out of it."},
	{gate.RuleNoNewTest, "Add tests for the new code; this repository requires them."},
}

// remedy tells the next attempt what was found and what to do about it.
func remedy(blamed []gate.Finding) string {
	var b strings.Builder
	b.WriteString("The last call made changes that cannot be accepted:\n\n")
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
