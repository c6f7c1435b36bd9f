package supervise

import (
	"slices"
	"time"
)

// Window is how many of the last iterations are looked at. Whoever keeps the
// history may forget older ones.
const Window = 64

// The size to which [Iteration.Bounded] cuts what an iteration left behind.
const (
	maxID      = 100 // bytes
	maxFiles   = 20
	maxPath    = 200 // bytes
	maxNames   = 10  // gates, tests
	maxName    = 120 // bytes
	maxMessage = 300 // bytes
)

// Outcome says how an agent call ended. The values are those of the loop.
type Outcome string

// How an agent call may end.
const (
	// Completed: it ended by itself and says it went well.
	Completed Outcome = "completed"
	// GaveUp: it ended by itself with an error of its own making, or without
	// any result.
	GaveUp Outcome = "gave_up"
	// TimedOut: it was stopped for silence or for taking too long.
	TimedOut Outcome = "timed_out"
	// Broken: it crashed, or the provider refused it. Not an attempt at a task.
	Broken Outcome = "broken"
	// RateLimited: the provider asked to come back later. A wait.
	RateLimited Outcome = "rate_limited"
	// OverBudget: the budget does not cover the next request.
	OverBudget Outcome = "over_budget"
)

// Iteration is what one agent call left behind. The zero value of a field means
// that nothing is known of it.
type Iteration struct {
	Number int
	TaskID string
	// ParentID is the task that TaskID was split off from, if any.
	ParentID string
	Role     Role
	Outcome  Outcome
	// Landed: the host accepted the result. For a planner that is its plan.
	Landed   bool
	Duration time.Duration

	// Class and Error say why it did not land.
	Class FailureClass
	Error Signature
	// Blamed are the tests that its failure is put down to, flaky ones and those
	// that failed before left out.
	Blamed []string

	// Files are the paths that differ from the last landed tree, the first of
	// FileCount in the order of the change.
	Files     []string
	FileCount int
	// Change identifies the proposed content: the id of its tree, or "" where
	// that is the landed one. Two iterations that left the same Change proposed
	// the same thing.
	Change                   string
	LinesAdded, LinesRemoved int
	// Unchanged: the call left the files as it had found them, whatever an earlier
	// one had done to them.
	Unchanged bool
	// Advanced: calls before it got further, and said what is left.
	Advanced bool
	// Looks is how many calls looked at what it claims, and did not agree.
	Looks int
	// Tampered: it changed or took away tests that would have told on it.
	Tampered bool
	// TestsAdded is how many test cases the change adds.
	TestsAdded int
	Metrics    Metrics

	Analysis Analysis
	// ClaimedDone: the agent said that the task, or all of it, is done.
	ClaimedDone bool

	// Verdict is what the supervisor had said before this iteration, "" where
	// it was not asked.
	Verdict VerdictKind
}

// Metrics are what the checks said about one tree. Two of them are compared by
// the checks that both hold: a proposal ends at the first check that fails, and
// what landed went through all.
type Metrics struct {
	// Gates are the checks that counted something, at most ten.
	Gates []GateMetrics
}

// GateMetrics are what one check said about one tree.
type GateMetrics struct {
	Gate string
	// TestsKnown says whether the two counts below mean anything.
	TestsKnown              bool
	TestsTotal, TestsPassed int
	// WarningsKnown says whether Warnings means anything.
	WarningsKnown bool
	Warnings      int
}

// Task is what is known of the task that is worked next.
type Task struct {
	ID string
	// ParentID is the task it was split off from, if any.
	ParentID string
	// Attempts counts its failed attempts.
	Attempts int
	// OneFile: it names a single source file, so that there is not much to split.
	OneFile bool
	// Decomposed: it was split up.
	Decomposed bool
}

// History is what is known of a run when its next iteration is about to begin.
type History struct {
	// Iterations are the agent calls so far, oldest first.
	Iterations []Iteration
	// Checkpoints are the trees that can be gone back to, oldest first.
	Checkpoints []Checkpoint
	// Task is the one that is next; the zero value where none is.
	Task Task
	// Fresh counts the other actionable tasks that were never tried.
	Fresh int
	// Flaky are the tests that were seen to pass and fail on one tree.
	Flaky []string
	// Acknowledged holds, by task, the number of the last iteration that a person
	// has answered to by changing the task. What happened at it and at its parts
	// until then is no evidence any more.
	Acknowledged map[string]int
}

// Bounded cuts what agents and tools determine down to a size that can be
// stored with each step of a run, a few kilobytes.
func (it Iteration) Bounded() Iteration {
	it.TaskID, it.ParentID = clip(it.TaskID, maxID), clip(it.ParentID, maxID)
	it.Change = clip(it.Change, maxID)
	it.FileCount = max(it.FileCount, len(it.Files))
	it.Files = clipAll(it.Files, maxFiles, maxPath)
	it.Blamed = clipAll(it.Blamed, maxNames, maxName)
	it.Error = it.Error.bounded()
	it.Metrics.Gates = slices.Clone(it.Metrics.Gates[:min(len(it.Metrics.Gates), maxNames)])
	for i := range it.Metrics.Gates {
		it.Metrics.Gates[i].Gate = clip(it.Metrics.Gates[i].Gate, maxName)
	}
	it.Analysis.Asked = clip(it.Analysis.Asked, maxMessage)
	return it
}

func clipAll(all []string, n, size int) []string {
	all = slices.Clone(all[:min(len(all), n)])
	for i, s := range all {
		all[i] = clip(s, size)
	}
	return all
}

// neutral says whether the iteration tells nothing about how the work goes: a
// wait, or planning that was accepted.
func (it *Iteration) neutral() bool {
	return it.Outcome == RateLimited || it.Outcome == OverBudget || it.Role == Planner && it.Landed
}

// shows is what an attempt showed of its task: that nothing changed, or how it
// failed, and which tests with that. Two that show the same are evidence that a
// third will. A call that broke off shows nothing, and so does one that
// nothing but the tests it had tampered with told on, or that claims what it has not
// even tried: "".
func (it *Iteration) shows(flaky []string) (what string, tests []string) {
	switch {
	case it.Outcome == Broken:
		return "", nil
	case it.ClaimedDone && it.Unchanged && len(it.Blamed) == 0:
		return "", nil
	case it.Class == FailEmpty, it.Unchanged:
		return "no change", nil
	case it.hid():
		return "", nil
	case it.Class == FailRefused:
		return string(FailRefused), nil
	case len(it.Blamed) > 0:
		tests = it.Blamed
	case it.Class == FailTest && len(it.Error.Tests) > 0:
		tests = it.Error.Tests
	default:
		return string(it.Class) + " " + it.Error.Hash, nil
	}
	tests = slices.DeleteFunc(slices.Clone(tests), func(name string) bool { return slices.Contains(flaky, name) })
	if len(tests) == 0 {
		return "", nil
	}
	return "failing tests", tests
}

// hid says whether nothing would have told on the attempt but the tests that it took
// away or changed. How it failed shows what the agent tried to get by with, and not
// how far an honest attempt at the task gets.
func (it *Iteration) hid() bool { return it.Tampered && it.Class == FailRefused }

// repeats says whether failing tests show what others had shown before: all of
// them fail still, or all but one. One may be by chance.
func repeats(now, before []string) bool {
	mended := 0
	for _, name := range before {
		if !slices.Contains(now, name) {
			mended++
		}
	}
	return mended == 0 || mended == 1 && len(now) == len(before)-1 && len(now) > 0
}

// tooMuch says whether the agent takes the task for too much for one call,
// whatever the checks said of what it did.
func (it *Iteration) tooMuch() bool { return it.Class == FailTooComplex || it.Analysis.TooComplex }

func (it *Iteration) family() string { return family(it.TaskID, it.ParentID) }

// family is the task that counts for what is tried again and again: a task that
// was split up and its parts are one.
func family(id, parent string) string {
	if parent != "" {
		return parent
	}
	return id
}

// answered says whether a person has changed the task, or the one it is a part
// of, since.
func (h *History) answered(it *Iteration) bool {
	return it.Number <= h.Acknowledged[it.TaskID] || it.Number <= h.Acknowledged[it.family()]
}

// counted are the iterations that are evidence, oldest first: the last [Window]
// of those that tell how the work goes and that no person has answered to.
func (h *History) counted() []*Iteration {
	its := make([]*Iteration, 0, min(Window, len(h.Iterations)))
	for i := len(h.Iterations) - 1; i >= 0 && len(its) < Window; i-- {
		it := &h.Iterations[i]
		if !it.neutral() && !h.answered(it) {
			its = append(its, it)
		}
	}
	slices.Reverse(its)
	return its
}
