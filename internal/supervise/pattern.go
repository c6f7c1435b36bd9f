package supervise

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/strs"
)

// PatternKind names a way in which a run goes wrong.
type PatternKind string

// The patterns. Those of the run look at everything since the last landing, the
// others at the task at hand and its parts since they last landed.
const (
	// PatternStagnation: iteration after iteration without progress. Of the run.
	PatternStagnation PatternKind = "stagnation"
	// PatternSharedError: different tasks end in the same error, so that it is
	// not theirs. Of the run.
	PatternSharedError PatternKind = "shared_error"
	// PatternRepeatingError: the same error again.
	PatternRepeatingError PatternKind = "repeating_error"
	// PatternRegression: fewer tests pass than did.
	PatternRegression PatternKind = "regression"
	// PatternTimeOnTask: one task takes very long.
	PatternTimeOnTask PatternKind = "time_on_task"
)

// PatternKinds lists every pattern.
func PatternKinds() []PatternKind {
	return []PatternKind{
		PatternStagnation, PatternSharedError, PatternRepeatingError, PatternRegression, PatternTimeOnTask,
	}
}

// From which counts on a pattern is a warning, elevated, critical. Stagnation and time
// have theirs in [Config].
var (
	repeatingSteps  = Steps{Warning: 2, Elevated: 3, Critical: 4}   // the same error
	sharedSteps     = Steps{Warning: 2, Elevated: 3, Critical: 4}   // tasks with the same error
	regressionSteps = Steps{Warning: 1, Elevated: 20, Critical: 50} // percent of the passing tests
)

const (
	// exploration is how many iterations that only read, or that moved things a little,
	// do not count as stagnation.
	exploration = 5
	// regressionPatience is how many iterations in a row may be worse than the best
	// checkpoint before the tree goes back to it.
	regressionPatience = 2
)

// Pattern is one that was found, with its evidence.
type Pattern struct {
	Kind  PatternKind
	Level Level
	// Count is what the thresholds of the pattern are about: times, tasks,
	// percent.
	Count int
	// Iterations are the numbers of those it was seen in, the last ten.
	Iterations []int
	// Detail says it in words, without a full stop.
	Detail string
}

const maxEvidence = 10

// patterns finds what goes wrong, the worst first.
func (v *view) patterns(cfg Config) []Pattern {
	var found []Pattern
	add := func(kind PatternKind, steps Steps, count int, seen []*Iteration, detail string) {
		level := steps.Level(count)
		if level == None || !cfg.has(string(kind)) {
			return
		}
		p := Pattern{Kind: kind, Level: level, Count: count, Detail: detail}
		for _, it := range seen[max(0, len(seen)-maxEvidence):] {
			p.Iterations = append(p.Iterations, it.Number)
		}
		found = append(found, p)
	}

	idle := v.idle()
	add(PatternStagnation, times(max(0, cfg.StagnationThreshold)), len(idle), idle,
		fmt.Sprintf("%s without progress", strs.Count(len(idle), "iteration")))

	tasks, shared := v.sharedError()
	add(PatternSharedError, sharedSteps, tasks, shared, fmt.Sprintf("%d tasks end in the same error", tasks))
	if v.last == nil {
		return worstFirst(found)
	}

	percent, worse := v.regression()
	add(PatternRegression, regressionSteps, percent, worse,
		fmt.Sprintf("%d%% of the tests that passed do not any more", percent))

	same := v.errors()
	add(PatternRepeatingError, repeatingSteps, len(same), same,
		fmt.Sprintf("the same error %s: %s", strs.Count(len(same), "time"), quote(v.last.Error.Text, maxMessage)))

	if cfg.TaskTimeout > 0 {
		spent := v.spent()
		add(PatternTimeOnTask, times(1), int(min(spent/cfg.TaskTimeout, 100)), v.own,
			fmt.Sprintf("the task took %s so far", roughly(spent)))
	}
	return worstFirst(found)
}

// roughly is a duration as people say it.
func roughly(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < 2*time.Minute:
		return d.Round(time.Second)
	default:
		return d.Round(time.Minute)
	}
}

func worstFirst(found []Pattern) []Pattern {
	slices.SortStableFunc(found, func(a, b Pattern) int { return cmp.Compare(b.Level, a.Level) })
	return found
}

// idle are the iterations since the last progress that count as stagnation. The
// first few that moved things a little, or only read, do not.
func (v *view) idle() []*Iteration {
	var m meter
	var idle []*Iteration
	partial := 0
	for _, it := range v.since {
		switch m.add(it).Progress {
		case ProgressMade:
			idle, partial = idle[:0], 0
			continue
		case ProgressPartial:
			if partial++; partial <= exploration {
				continue
			}
		case ProgressNone:
		}
		idle = append(idle, it)
	}
	return idle
}

// sharedError counts the tasks that ended in the last error, since something
// landed. Only what a tool printed is an error that tasks can share: that a call
// changed nothing or too much is said in the same words of any task.
func (v *view) sharedError() (tasks int, seen []*Iteration) {
	hash := ""
	for _, it := range slices.Backward(v.since) {
		if it.Verdict == VerdictDecompose {
			continue // that a planner found nothing to split is no error of the task
		}
		switch it.Class { //nolint:exhaustive // the others are said in the same words of any task
		case FailCompile, FailTest, FailLint, FailTimeout, FailCrash:
			hash = it.Error.Hash
		}
		break
	}
	if hash == "" {
		return 0, nil
	}
	families := map[string]bool{}
	for _, it := range v.since {
		if it.Error.Hash == hash {
			families[it.family()] = true
			seen = append(seen, it)
		}
	}
	if len(families) < 2 {
		return 0, nil
	}
	return len(families), seen
}

// regression is how many percent of the tests that passed at the best do not
// pass any more, and the iterations in a row for which that is so. One test of
// many counts as a percent.
func (v *view) regression() (percent int, seen []*Iteration) {
	best := v.standard()
	var fewer, of float64
	for _, it := range v.own {
		n, all, ok := lost(it.Metrics, best)
		switch {
		case !ok:
			continue
		case n > 0:
			seen = append(seen, it)
		default:
			seen = seen[:0]
		}
		fewer, of = n, all
	}
	if fewer <= 0 || of <= 0 {
		return 0, nil
	}
	return max(1, int(100*fewer/of)), seen
}

// standard is what the task at hand must not fall behind: the best checkpoint,
// and the best of its own iterations.
func (v *view) standard() Metrics {
	var best Metrics
	if c, ok := Best(v.h.Checkpoints); ok {
		best = c.Metrics
	}
	for _, it := range v.own {
		best = best.better(it.Metrics)
	}
	return best
}
