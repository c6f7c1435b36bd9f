package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Standing is what a gate's result means for the proposal.
type Standing string

// The ways a gate may turn out.
const (
	// Passed: it exited with 0, or enough tests passed for the repository's own limit.
	Passed Standing = "passed"
	// Failed: the proposal is to blame. The only one that keeps it from landing.
	Failed Standing = "failed"
	// KnownFailing: all that failed had failed before the work began.
	KnownFailing Standing = "known_failing"
	// RedAtBase: it failed before the work began too, and does not say what of
	// it is new. It is reported, and does not block.
	RedAtBase Standing = "red_at_base"
	// Flaky: it passed when it was run again on the same tree.
	Flaky Standing = "flaky"
	// Noted: it failed, and is advisory.
	Noted Standing = "advisory"
	// NoTests: it exited with 0 and ran no test, as before the work began, or since a task
	// changed how tests run. It proves nothing.
	NoTests Standing = "no_tests"
	// Unrunnable: what it needs is not there, as it was not before the work began.
	// It says nothing of the work.
	Unrunnable Standing = "could_not_run"
)

// Holds says whether the proposal may go on.
func (s Standing) Holds() bool { return s == Failed }

// Verdict is a standing and what there is to tell about it.
type Verdict struct {
	Standing Standing
	// Tests are those the verdict is about, at most a few.
	Tests []string
	// Note is one sentence for people, "" where the standing says it all.
	Note string
}

// Need says what else must be run before a result can be judged.
type Need int

// What may be needed.
const (
	// Nothing: the verdict is there.
	Nothing Need = iota
	// Baseline: the gate has to be run on the tree the work began from.
	Baseline
	// Again: the gate has to be run once more on the same tree.
	Again
)

// Most failing tests that are looked at as flaky; more than that do not fail by
// accident.
const maxFlaky = 5

// reruns is how often a gate is run again because of tests that may be flaky.
const reruns = 1

// maxTold bounds the tests a verdict names.
const maxTold = 10

// Results are what is known of one gate on one proposal.
type Results struct {
	// First is how it ended on the proposal.
	First Result
	// Base is how it ended on the tree the work began from; nil where it was not
	// run.
	Base *Result
	// Again is how it ended on the proposal each time it was run once more.
	Again []Result
	// SameTests: all tests that ran on Base are in the proposal's tree, too.
	SameTests bool
	// Old: it ran with tests and runner files as they were. A test that could not even be
	// loaded or called with the new code says nothing of it then.
	Old bool
}

// Judge says what the results mean, or what is needed to say so. A gate that
// failed, and one that runs tests, is compared with how it ended before the work
// began. The first case that holds decides.
//
// task is what the proposal is to do. What failed at the base is forgiven,
// unless the task is to fix it. A gate that a person asked for and that tells
// nothing but its exit code is taken at its word: it may be the very goal.
func Judge(g Gate, q Quality, task run.Task, r Results) (Verdict, Need) {
	first, failed := r.First, Verdict{Standing: Failed}
	switch {
	case first.Passed:
		return judgePassed(g, r)
	case g.Advisory && first.Missing != "":
		return unrunnable(first), Nothing
	case g.Advisory:
		return Verdict{Standing: Noted, Note: "it is advisory"}, Nothing
	case !first.answered() && first.Missing == "":
		return failed, Nothing
	case r.Base == nil:
		return Verdict{}, Baseline
	case sameLack(first.Missing, r.Base.Missing):
		return unrunnable(first), Nothing
	}
	all, named := first.Facts.FailedTests, first.Facts.named()
	known := forgiven(g, task, r)
	fresh := without(all, known)
	switch {
	case r.Old && named && len(fresh) == 0 && len(without(all, r.Base.Facts.FailedTests)) > 0:
		return failed, Nothing // no test has judged
	case r.Base.red() && !r.Base.Facts.named() && !g.goal() && (r.Old || g.Detected && !mends(g, task)):
		return Verdict{
			Standing: RedAtBase, Note: "it already failed before this run, and does not say which tests fail",
		}, Nothing
	case named && len(fresh) == 0:
		return Verdict{
			Standing: KnownFailing, Tests: some(all),
			Note: fmt.Sprintf("%s already failed before this run: %s", strs.Count(len(all), "test"), list(all)),
		}, Nothing
	case q.tolerates(first.Facts, r.Base.Facts):
		return Verdict{
			Standing: Passed, Tests: some(fresh),
			Note: fmt.Sprintf("%d of %d tests passed, which the repository's limit allows; failed: %s", first.Facts.Passed,
				first.Facts.Passed+first.Facts.Failed, list(fresh)),
		}, Nothing
	case !named:
		return failed, Nothing
	case len(fresh) <= maxFlaky && len(r.Again) < reruns:
		return Verdict{}, Again
	case len(fresh) <= maxFlaky:
		left := fresh
		for _, again := range r.Again {
			switch {
			case again.Passed:
				left = nil
			case again.Facts.named():
				left = without(again.Facts.FailedTests, known)
			}
		}
		if len(left) == 0 {
			return Verdict{
				Standing: Flaky, Tests: some(fresh),
				Note: fmt.Sprintf("%s failed once and passed on retry: %s", strs.Count(len(fresh), "test"), list(fresh)),
			}, Nothing
		}
		fresh = left
	}
	failed.Tests = some(fresh)
	if n := len(all) - len(without(all, known)); n > 0 {
		failed.Note = fmt.Sprintf("new since the work began: %s; %s failed before that too", list(fresh),
			strs.Count(n, "test"))
	}
	return failed, Nothing
}

// forgiven are the tests whose failure is not the work's fault, sorted: they failed before it
// began and are not what it is to fix. With old tests a name that is not there says nothing.
func forgiven(g Gate, task run.Task, r Results) []string {
	before := r.Base.Facts.FailedTests
	switch {
	case r.Old:
		return slices.Sorted(slices.Values(slices.Concat(before, r.First.Facts.Unloaded)))
	case g.goal(), mends(g, task), !r.Base.red(), !r.Base.Facts.named():
		return nil
	}
	return Unnamed(task, before)
}

func unrunnable(r Result) Verdict { return Verdict{Standing: Unrunnable, Note: r.Missing} }

// judgePassed says what it is worth that a gate exited with 0. A runner that was
// switched off does so, too: where the tests are the same as before, as many have
// to run.
func judgePassed(g Gate, r Results) (Verdict, Need) {
	passed := Verdict{Standing: Passed}
	ran, known := r.First.Facts.ran()
	if r.Base == nil {
		if r.SameTests && !g.Advisory && (known || g.Detected && g.Kind == Test) {
			return Verdict{}, Baseline
		}
		return passed, Nothing
	}
	before, counted := r.Base.Facts.ran()
	failed, asked := failing(r)
	most := ran // some tests choose by chance, or by what is there
	for _, again := range r.Again {
		if n, ok := again.Facts.ran(); ok && again.Passed {
			most = max(most, n)
		}
	}
	switch {
	case g.Advisory:
	case ran == 0 && r.Base.Verdict.Standing == NoTests: // since an earlier task
		return r.Base.Verdict, Nothing
	case ran == 0 && !r.SameTests && before > 0:
		return Verdict{
			Standing: NoTests,
			Note:     fmt.Sprintf("it ran %s before the work began, and tells of none now", strs.Count(before, "test")),
		}, Nothing
	case !r.SameTests, !known && !(g.Detected && g.Kind == Test):
	case asked:
		return Verdict{}, Again
	case len(failed) > 0:
		return Verdict{
			Standing: Failed, Tests: some(failed),
			Note: "it exited with 0, but tests failed that did not fail before: " + list(failed),
		}, Nothing
	case !known && !r.Base.Passed: // some runners count only what fails
	case counted && most < before && len(r.Again) < reruns:
		return Verdict{}, Again
	case counted && most < before:
		return Verdict{
			Standing: Failed, Note: fmt.Sprintf("it ran %s, but %d before the work began", strs.Count(most, "test"), before),
		}, Nothing
	case known && most == 0:
		return Verdict{Standing: NoTests, Note: "it ran no test"}, Nothing
	}
	return passed, Nothing
}

// failing are the tests that a gate counts and names as failed though it exited with 0, each
// time that it ran, and did not before the work began; asked: it has to run again for that.
// Runners that try tests again name what failed at first.
func failing(r Results) (names []string, asked bool) {
	names = without(r.First.Facts.FailedTests, r.Base.Facts.FailedTests)
	if len(names) == 0 || r.First.Facts.Failed <= r.Base.Facts.Failed || r.First.Facts.Cut || r.Base.Facts.Cut {
		return nil, false
	}
	for _, again := range r.Again {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return !slices.Contains(again.Facts.FailedTests, name)
		})
	}
	return names, len(names) > 0 && len(r.Again) < reruns
}

// ran is how many tests were run to their end, as far as that is known.
func (f Facts) ran() (n int, known bool) { return f.Passed + f.Failed, f.Known }

// goal says whether the gate says what is wanted, for the end of the run or for one
// task: then it is no excuse that it failed before the work began.
func (g Gate) goal() bool { return g.When == Final && !g.Detected || g.Own }

// mending finds that what is red already is the very goal of a task. Nothing but its
// words can tell, and without them the next call would not be told what still fails.
var mending = strs.Lazy(`(?i)\b(?:fix|mend|repair)(?:es|ed|ing|s)?\b.*\b(?:tests?|suite|specs?|build|ci|checks?|gates?)\b|\b(?:make|get|turn|bring)\b.*\b(?:pass(?:es)?|green)\b`)

const goal = "Make the final check "

// Goal is the title of the task to make one check of the end pass.
func Goal(name string) string { return fmt.Sprintf(goal+"%q pass", name) }

// mends says whether a task is to make something pass that does not: any check, or the one
// that it names.
func mends(g Gate, task run.Task) bool {
	if strings.HasPrefix(task.Title, goal) {
		return task.Title == Goal(g.Name)
	}
	return mending().MatchString(task.Title)
}

// answered says whether the command itself came to a result, be it by taking
// too long. What was ended from outside says nothing of the tree, and neither does
// what could not run.
func (r Result) answered() bool {
	return r.Missing == "" && r.Reason == "exited" || r.Reason == "wall_timeout"
}

// red says whether the command came to a result, and that was no pass.
func (r Result) red() bool { return r.answered() && !r.Passed }

// named says whether FailedTests is all that failed.
func (f Facts) named() bool { return len(f.FailedTests) > 0 && !f.Cut }

func some(names []string) []string {
	return slices.Clone(names[:min(len(names), maxTold)])
}

func list(names []string) string {
	text := strings.Join(some(names), ", ")
	if more := len(names) - maxTold; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// without is all minus known; both are sorted.
func without(all, known []string) []string {
	var left []string
	for _, name := range all {
		if _, ok := slices.BinarySearch(known, name); !ok {
			left = append(left, name)
		}
	}
	return left
}

// Quality is what a repository asks of the work beyond its gates. The zero
// value asks for all tests to pass and for no new secrets of any severity.
type Quality struct {
	// MinPassRate is the share of tests that must pass, up to 1; 0 is 1. It
	// works where the tool's output says how many passed, and never lets fewer
	// pass than at the base.
	MinPassRate float64
	// AllowChangedTests lets a proposal change what existing tests expect though
	// its task does not say so; it is told of all the same.
	AllowChangedTests bool
	// RequireNewTests: a task that changes source files has to change tests.
	RequireNewTests bool
	// AllowCritical and AllowHigh let secrets of that severity through; they
	// are told of all the same.
	AllowCritical, AllowHigh bool
	// ClippyStrict makes every warning of Rust's linter an error, and its
	// detected gate a blocking one. ClippyAllowed are lints it leaves alone,
	// separated by spaces.
	ClippyStrict  bool
	ClippyAllowed string
}

func (q Quality) tolerates(now, base Facts) bool {
	total := now.Passed + now.Failed
	if q.MinPassRate <= 0 || q.MinPassRate >= 1 || !now.Known || total == 0 {
		return false
	}
	return float64(now.Passed) >= q.MinPassRate*float64(total) && base.Known && now.Passed >= base.Passed
}

// Apply puts what a repository asks of single tools into the gates that were
// detected for them.
func (q Quality) Apply(gates []Gate) []Gate {
	out := slices.Clone(gates)
	for i, g := range out {
		if !g.Detected || g.Name != Clippy {
			continue
		}
		var flags strings.Builder
		if q.ClippyStrict {
			flags.WriteString(" -D warnings")
			out[i].Advisory = false
		}
		for lint := range strings.FieldsSeq(q.ClippyAllowed) {
			flags.WriteString(" -A " + lint)
		}
		if flags.Len() > 0 {
			out[i].Command += " --" + flags.String()
		}
	}
	return out
}
