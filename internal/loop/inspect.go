package loop

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

const (
	// maxFindings bounds what a run keeps for people to look at.
	maxFindings = 50
	// maxInspected bounds the files of one proposal whose content is compared, and
	// maxInspectedBytes what they hold before and after. What decides over checks is
	// never left out for it: more of that fails the attempt.
	maxInspected      = 2000
	maxInspectedBytes = 8 << 20
	// maxBlamed bounds the findings the next attempt is told of.
	maxBlamed = 15
)

// inspection is what a look at a proposal found.
type inspection struct {
	findings []gate.Finding
	// why is not "" where the attempt fails for it, gone where that is for nothing
	// but tests that are gone.
	why, gone string
	// before is the proposal's tree with existing tests as they were: those that
	// are gone where the attempt fails, otherwise those that were changed though
	// the task does not ask for that. "" where there are none.
	before string
	// revised is how many existing tests are in files that may go or change, as the
	// task asks: as many may be missing from what a check counts.
	revised int
}

// inspect looks at what a proposal does to the repository's own defences,
// before any check runs: a check that was taken away cannot fail.
func (e *Engine) inspect(ctx context.Context, s *State, task run.Task, code []Change, tree string) (inspection, error) {
	var found inspection
	leaks, err := e.Trees.Secrets(ctx, s.HeadTree, tree)
	if err != nil {
		return found, fmt.Errorf("look for secrets: %w", err)
	}
	for _, l := range leaks {
		found.findings = append(found.findings, s.Quality.Finding(l))
	}
	diffs, unseen, err := e.contents(ctx, s, code, tree)
	if err != nil {
		return found, err
	}
	found.findings = append(found.findings, unseen...)
	s.Draft.LinesAdded, s.Draft.LinesRemoved, s.Draft.TestsAdded = gate.Size(ctx, diffs)
	found.findings = append(found.findings, gate.FindWeakened(ctx, diffs)...)
	scripts, err := e.scripts(ctx, s, code)
	if err != nil {
		return found, err
	}
	found.findings = append(found.findings, scripts...)
	if s.Quality.RequireNewTests {
		found.findings = append(found.findings, gate.FindUntested(ctx, diffs)...)
	}
	found.findings = append(found.findings, s.Quality.Grown(diffs)...)
	stale, err := e.stale(ctx, s, code, diffs, tree)
	if err != nil {
		return found, err
	}
	found.findings = append(found.findings, stale...)
	sourceGone := slices.ContainsFunc(code, func(c Change) bool { return c.Status == "D" && gate.IsSource(c.Path) })
	blamed := s.blames(task, found.findings, sourceGone)
	var old []string
	for _, f := range blamed {
		if f.Rule == gate.RuleDeleted && !slices.Contains(old, f.Path) {
			old = append(old, f.Path)
		}
	}
	if len(blamed) > 0 {
		found.why = remedy(blamed)
		if !slices.ContainsFunc(blamed, func(f gate.Finding) bool { return f.Rule != gate.RuleDeleted }) {
			found.gone = found.why
		}
	} else {
		gone := map[string]int{}
		for _, f := range found.findings {
			if f.Rule == gate.RuleDeleted {
				gone[f.Path]++
			}
		}
		for _, d := range diffs {
			switch {
			case ctx.Err() != nil:
			case !gate.LosesLines(d) && !gate.GrowsInside(ctx, d):
				found.revised += gone[d.Path]
				if d.New == nil && gone[d.Path] > 0 {
					found.revised += gate.CountTests(ctx, d) - gone[d.Path]
				}
			case s.Quality.AllowChangedTests || s.vouched(ctx, task, d, sourceGone):
				if found.revised += gone[d.Path]; gate.LosesLines(d) {
					found.revised += gate.CountTests(ctx, d) - gone[d.Path]
				}
				found.findings = append(found.findings, gate.Finding{
					Path: d.Path, Rule: gate.RuleChanged, Text: d.Path + " expects something else than it did",
				})
			default:
				found.revised += gone[d.Path]
				old = append(old, d.Path)
			}
		}
	}
	if ctx.Err() != nil { // what was found is of no use
		return found, fmt.Errorf("inspect the changes: %w", context.Cause(ctx))
	}
	if len(old) > 0 {
		if found.before, err = e.Trees.Restore(ctx, tree, s.HeadTree, old); err != nil {
			return found, fmt.Errorf("put tests back: %w", err)
		}
	}
	return found, nil
}

// maxDocuments bounds what is read of documents for one proposal, in bytes, and
// maxLeft what is told of these.
const (
	maxDocuments = 4 << 20
	maxLeft      = 10
)

// stale finds documents that go on naming what a proposal takes away.
func (e *Engine) stale(
	ctx context.Context, s *State, code []Change, diffs []gate.FileDiff, tree string,
) (found []gate.Finding, _ error) {
	var deleted []string
	for _, c := range code {
		if c.Status == "D" {
			deleted = append(deleted, c.Path)
		}
	}
	gone := gate.NamesTaken(diffs, deleted)
	if len(gone) == 0 {
		return nil, nil
	}
	files, err := e.Trees.Files(ctx, tree)
	if err != nil {
		return nil, fmt.Errorf("look for documents: %w", err)
	}
	left := maxDocuments
	for _, name := range gate.Documents(files) {
		if path.Base(name) == path.Base(s.Subject.PlanFile) {
			continue // it says what is to go
		}
		text, _, err := e.Trees.File(ctx, tree, name, gate.MaxDocument)
		if err != nil {
			return nil, fmt.Errorf("read %q of the tree: %w", name, err)
		}
		found = append(found, gate.Stale(gone, name, text)...)
		if left -= len(text); left < 0 || len(found) >= maxLeft {
			break
		}
	}
	return found, nil
}

// advice is what the next call is told of what the last one left behind.
func advice(findings []gate.Finding) (said []string) {
	for _, f := range findings {
		what := ""
		switch f.Rule {
		case gate.RuleStale:
			what = "Bring that document up to date where it means this."
		case gate.RuleGrown:
			what = "Put new code into other files, and split this one where your task is about it."
		default:
			continue
		}
		if len(said) < maxLeft {
			said = append(said, "Since the last task, "+f.Text+". "+what)
		}
	}
	return said
}

// namedPath finds what may be the path of a file in a text.
var namedPath = regexp.MustCompile(`[\w.-]+(?:/[\w.-]+)*\.\w{1,8}\b`)

// maxNamed bounds the paths of a task that are looked up.
const maxNamed = 20

// namedSources are what look like source files in the text of a task.
func namedSources(task run.Task) []string {
	var named []string
	for _, name := range namedPath.FindAllString(task.Title+"\n"+strings.Join(task.Accept, "\n"), maxNamed) {
		if gate.IsSource(name) && !slices.Contains(named, name) {
			named = append(named, name)
		}
	}
	return named
}

// doubt is why a proposal that passed its checks is not believed: it changes nothing
// near what the task names; "" where it is believed. It is a doubt: where a call
// claims again that the task is done, somebody looks. Saying nothing about it is no
// answer.
func (e *Engine) doubt(ctx context.Context, s *State, task run.Task) (why string, again bool, _ error) {
	changes, err := e.Trees.Changes(ctx, s.HeadTree, s.Proposal.Tree)
	if err != nil {
		return "", false, fmt.Errorf("compare trees: %w", err)
	}
	code, _ := splitChanges(changes, path.Dir(s.ProgressPath))
	code = slices.DeleteFunc(code, func(c Change) bool { return slices.Contains(s.Proposal.Own, c.Path) })
	why, err = e.elsewhere(ctx, s, task, code)
	if err != nil || why == "" {
		return "", false, err
	}
	again = s.Challenged == task.ID && s.Draft.ClaimedDone
	s.Challenged = task.ID
	return why, again, nil
}

// elsewhere says of a proposal that it changes nothing in the folders of the files
// which the task names, "" where it does. Checks do not tell of work that was only
// pretended.
func (e *Engine) elsewhere(ctx context.Context, s *State, task run.Task, code []Change) (string, error) {
	if len(code) == 0 {
		return "", nil
	}
	named, err := e.existing(ctx, s.HeadTree, namedSources(task))
	if err != nil || len(named) == 0 {
		return "", err
	}
	var changed []string
	for _, c := range code {
		if slices.ContainsFunc(named, func(name string) bool { return path.Dir(name) == path.Dir(c.Path) }) {
			return "", nil
		}
		if len(changed) < maxToldPaths {
			changed = append(changed, c.Path)
		}
	}
	return fmt.Sprintf("The last call changed %s, but nothing near what the task names: %s. Do what the task asks "+
		"for. If the task is done anyway, tick it again and the checks decide.",
		oneLine(strings.Join(changed, ", "), 300), strings.Join(named, ", ")), nil
}

// contents reads the changed files that matter, before and after: first those that
// decide whether and how checks run, then tests, then sources. It tells of those of
// the first two that cannot be read.
func (e *Engine) contents(
	ctx context.Context, s *State, code []Change, tree string,
) (diffs []gate.FileDiff, unseen []gate.Finding, _ error) {
	must, all := s.inspected(code)
	if must > maxInspected {
		return nil, []gate.Finding{gate.TooMuch(must, maxInspected)}, nil
	}
	left := int64(maxInspectedBytes)
	for i, c := range all[:min(len(all), maxInspected)] {
		d := gate.FileDiff{Path: c.Path}
		whole, err := e.sides(ctx, s, c, tree, &d)
		if err != nil {
			return nil, nil, err
		}
		left -= int64(len(d.Old) + len(d.New))
		switch {
		case whole && left >= 0:
			diffs = append(diffs, d)
		case left < 0 && i < must:
			return diffs, append(unseen, gate.TooMuch(must, i)), nil
		case left < 0:
			return diffs, unseen, nil
		case i < must:
			unseen = append(unseen, gate.Unseen(c.Path))
		}
	}
	return diffs, unseen, nil
}

// deciding are the files that say what checks run.
var deciding = []string{
	"GNUmakefile", "makefile", "Makefile", "justfile", "Justfile", ".justfile", "Taskfile.yml", "Taskfile.yaml", "Rakefile",
	"tox.ini", "noxfile.py", "package.json", "composer.json",
}

// scripts finds changes to scripts that checks run: those that a check or a file that
// decides over checks names, or that such a script names.
func (e *Engine) scripts(ctx context.Context, s *State, code []Change) ([]gate.Finding, error) {
	var changed []string
	for _, c := range code {
		if c.Status != "A" && gate.IsScript(c.Path) && len(changed) < maxInspected {
			changed = append(changed, c.Path)
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	var text strings.Builder
	for _, g := range e.gates(*s) {
		text.WriteString(g.Command + "\n")
	}
	for _, name := range deciding {
		src, _, err := e.Trees.File(ctx, s.HeadTree, name, gate.MaxFile)
		if err != nil {
			return nil, fmt.Errorf("read %q of the tree: %w", name, err)
		}
		text.Write(append(src, '\n'))
	}
	var found []gate.Finding
	named := gate.Words(text.String())
	for _, name := range gate.Scripts(named) { // one step on
		src, _, err := e.Trees.File(ctx, s.HeadTree, name, gate.MaxFile)
		if err != nil {
			return nil, fmt.Errorf("read %q of the tree: %w", name, err)
		}
		maps.Copy(named, gate.Words(string(src)))
	}
	for _, name := range changed {
		if named[name] {
			found = append(found, gate.Script(name))
		}
	}
	return found, nil
}

// inspected are the changes whose content is looked at, the most important first.
// None of the first must may be left out.
func (s *State) inspected(code []Change) (must int, all []Change) {
	var runners, tests, sources []Change
	for _, c := range code {
		switch {
		case gate.Inspects(c.Path) && !gate.IsTest(c.Path):
			runners = append(runners, c)
		case gate.Inspects(c.Path):
			tests = append(tests, c)
		case gate.IsSource(c.Path):
			sources = append(sources, c)
		}
	}
	must = len(runners) + len(tests)
	if s.Quality.RequireNewTests {
		must += len(sources)
	}
	return must, slices.Concat(runners, tests, sources)
}

// sides reads a changed file before and after; whole is false where one of them is
// too large, or no plain file.
func (e *Engine) sides(ctx context.Context, s *State, c Change, tree string, d *gate.FileDiff) (whole bool, err error) {
	before, after := true, true
	if c.Status != "A" {
		if d.Old, before, err = e.Trees.File(ctx, s.HeadTree, c.Path, gate.MaxFile); err != nil {
			return false, err
		}
	}
	if c.Status != "D" {
		if d.New, after, err = e.Trees.File(ctx, tree, c.Path, gate.MaxFile); err != nil {
			return false, err
		}
		if d.New == nil {
			d.New = []byte{} // an empty file is not one that is gone
		}
	}
	return before && after, nil
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
	{
		gate.RuleSecret,
		"Remove the secrets from the files. Read them from the environment, or use a placeholder such as \"example\" " +
			"where only the form matters.",
	},
	{gate.RuleUnsearched, "Every change is searched for secrets: leave large generated files out of it."},
	{gate.RuleDeleted, "The tests were restored. Do not change them unless the task says so."},
	{gate.RuleCommand, "Restore the command: changing how the repository is checked is not part of this task."},
	{gate.RuleRunner, "Undo that: what decides whether and how checks run is not part of this task."},
	{
		gate.RuleUnseen,
		"Tests and files that decide how checks run have to be small enough to be looked at: keep data out of them, " +
			"and change fewer at once.",
	},
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
