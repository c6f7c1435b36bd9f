package supervise

import (
	"cmp"
	"fmt"
	"slices"
	"time"
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
	// PatternTaskOscillation: tasks are taken up in turns and none lands. Of
	// the run.
	PatternTaskOscillation PatternKind = "task_oscillation"
	// PatternWarnings: warnings pile up. Of the run.
	PatternWarnings PatternKind = "accumulating_warnings"
	// PatternRoleOscillation: roles take turns and nothing lands.
	PatternRoleOscillation PatternKind = "role_oscillation"
	// PatternRepeatingError: the same error again.
	PatternRepeatingError PatternKind = "repeating_error"
	// PatternSameChange: the same content is proposed again.
	PatternSameChange PatternKind = "same_change"
	// PatternNoChange: calls end without changing anything.
	PatternNoChange PatternKind = "no_change"
	// PatternRepeatedTouches: the same file is changed again and again.
	PatternRepeatedTouches PatternKind = "repeated_touches"
	// PatternThrashing: within one call, the same over and over.
	PatternThrashing PatternKind = "thrashing"
	// PatternRegression: fewer tests pass than did.
	PatternRegression PatternKind = "regression"
	// PatternQuestions: the agent asks instead of deciding.
	PatternQuestions PatternKind = "questions"
	// PatternRefusals: the agent changes what it must not.
	PatternRefusals PatternKind = "refusals"
	// PatternFalseClaims: the agent claims what is not so.
	PatternFalseClaims PatternKind = "false_claims"
	// PatternTimeOnTask: one task takes very long.
	PatternTimeOnTask PatternKind = "time_on_task"
)

// PatternKinds lists every pattern.
func PatternKinds() []PatternKind {
	return []PatternKind{
		PatternStagnation, PatternSharedError, PatternTaskOscillation, PatternWarnings,
		PatternRoleOscillation, PatternRepeatingError, PatternSameChange, PatternNoChange,
		PatternRepeatedTouches, PatternThrashing, PatternRegression, PatternQuestions,
		PatternRefusals, PatternFalseClaims, PatternTimeOnTask,
	}
}

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

	idle := v.idle(cfg.ExplorationAllowance)
	add(PatternStagnation, times(max(0, cfg.StagnationThreshold)), len(idle), idle,
		fmt.Sprintf("%s without progress", plural(len(idle), "iteration")))

	tasks, shared := v.sharedError()
	add(PatternSharedError, cfg.SharedError, tasks, shared, fmt.Sprintf("%d tasks end in the same error", tasks))

	back := returns(v.since, func(it *Iteration) string { return it.family() })
	add(PatternTaskOscillation, cfg.Oscillation, len(back), back,
		fmt.Sprintf("%s to a task that was left before", plural(len(back), "return")))

	more, warned := v.warnings()
	add(PatternWarnings, cfg.Warnings, more, warned, fmt.Sprintf("%s more than at the best", plural(more, "warning")))

	back = returns(v.peers(), func(it *Iteration) string { return string(it.Role) })
	add(PatternRoleOscillation, cfg.Oscillation, len(back), back,
		fmt.Sprintf("%s to a role that was left before", plural(len(back), "return")))

	if v.last == nil {
		return worstFirst(found)
	}
	percent, worse := v.regression()
	add(PatternRegression, cfg.Regression, percent, worse, fmt.Sprintf("%d%% of the tests that passed do not any more", percent))

	same := v.errors()
	add(PatternRepeatingError, cfg.RepeatingError, len(same), same,
		fmt.Sprintf("the same error %s: %s", plural(len(same), "time"), quote(v.last.Error.Text, maxMessage)))

	times, file, touched := v.touches()
	add(PatternRepeatedTouches, cfg.RepeatedTouches, times, touched,
		fmt.Sprintf("%s was changed in %s", quote(file, maxPath), plural(times, "iteration")))

	for _, p := range []struct {
		kind  PatternKind
		steps Steps
		what  string
		has   func(*Iteration) bool
	}{
		{PatternSameChange, cfg.SameChange, "proposed the same content",
			func(it *Iteration) bool {
				return it.Change != "" && it.Class != FailEmpty && it.Change == v.last.Change
			}},
		{PatternNoChange, cfg.NoChange, "changed nothing",
			func(it *Iteration) bool {
				return it.Class == FailEmpty && !it.Analysis.Exploring && it.Verdict != VerdictDecompose
			}},
		{PatternThrashing, cfg.Thrashing, "did the same over and over",
			func(it *Iteration) bool { return it.Analysis.Thrashing || it.Analysis.Stuck }},
		{PatternQuestions, cfg.Questions, "asked questions",
			func(it *Iteration) bool { return it.Analysis.Questions > 0 }},
		{PatternRefusals, cfg.Refusals, "ended with changes that cannot be accepted",
			func(it *Iteration) bool { return it.Class == FailRefused && !it.Tampered }},
		{PatternFalseClaims, cfg.FalseClaims, "claimed what is not so",
			func(it *Iteration) bool {
				return it.Violations > 0 || it.Tampered || it.ClaimedDone && it.Class == FailEmpty
			}},
	} {
		seen := v.matching(p.has)
		add(p.kind, p.steps, len(seen), seen, fmt.Sprintf("%s %s", plural(len(seen), "call"), p.what))
	}

	if cfg.TaskTimeout > 0 {
		spent := v.spent()
		add(PatternTimeOnTask, Steps{1, 2, 3}, int(min(spent/cfg.TaskTimeout, 100)), v.own,
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
func (v *view) idle(allowance int) []*Iteration {
	var m meter
	var idle []*Iteration
	partial := 0
	for _, it := range v.since {
		switch m.add(it).Progress {
		case ProgressMade:
			idle, partial = idle[:0], 0
			continue
		case ProgressPartial:
			if partial++; partial <= allowance {
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

// returns are the iterations that went back to something which had been left.
func returns(its []*Iteration, what func(*Iteration) string) []*Iteration {
	var back []*Iteration
	seen := map[string]bool{}
	last := ""
	for i, it := range its {
		now := what(it)
		if i > 0 && now != last && seen[now] {
			back = append(back, it)
		}
		seen[now], last = true, now
	}
	return back
}

// warnings is how many more there are than at the best checkpoint or iteration
// since something landed.
func (v *view) warnings() (more int, seen []*Iteration) {
	var best, now Metrics
	for _, c := range v.h.Checkpoints {
		best = best.better(c.Metrics)
	}
	for _, it := range v.since {
		best = best.better(it.Metrics)
		if _, known := it.Metrics.known(); known > 0 {
			now = it.Metrics
			if added(now, best) > 0 {
				seen = append(seen, it)
			}
		}
	}
	return max(0, added(now, best)), seen
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

// touches is the file of the last iteration that most iterations changed.
func (v *view) touches() (times int, file string, seen []*Iteration) {
	counts := make(map[string]int, len(v.last.Files))
	for _, f := range v.last.Files {
		counts[f] = 0
	}
	for _, it := range v.own {
		for _, f := range it.Files {
			if n, ok := counts[f]; ok {
				counts[f] = n + 1
			}
		}
	}
	for _, f := range v.last.Files {
		if counts[f] > times {
			times, file = counts[f], f
		}
	}
	for _, it := range v.own {
		if slices.Contains(it.Files, file) {
			seen = append(seen, it)
		}
	}
	return times, file, seen
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
