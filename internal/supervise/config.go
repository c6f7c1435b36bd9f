package supervise

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Steps are the counts from which a pattern is a warning, elevated, critical.
// 0 leaves a level out.
type Steps struct {
	Warning, Elevated, Critical int
}

// Level is the highest one that n reaches.
func (s Steps) Level(n int) Level {
	switch {
	case s.Critical > 0 && n >= s.Critical:
		return Critical
	case s.Elevated > 0 && n >= s.Elevated:
		return Elevated
	case s.Warning > 0 && n >= s.Warning:
		return Warning
	default:
		return None
	}
}

// times is s for a threshold of n: once, twice, three times as much.
func times(n int) Steps { return Steps{Warning: n, Elevated: 2 * n, Critical: 3 * n} }

// Config holds the thresholds. The zero value turns everything off; start from
// [Defaults].
type Config struct {
	// StagnationThreshold is how many iterations without progress are a
	// warning; twice as many are elevated, three times as many critical. At
	// most MaxStagnationThreshold.
	StagnationThreshold int
	// MaxTaskAttempts is how many failed attempts a task has; 0 or less is no
	// limit.
	MaxTaskAttempts int
	// TaskTimeout is how long a task may take before that is a warning; twice
	// as long is elevated, three times critical. 0 or less is no limit.
	TaskTimeout time.Duration
	// Predictive steps in at a high risk, before a pattern is there.
	Predictive bool
	// GuideRisk and NarrowRisk are the risks above which the next prompt is
	// given guidance, or a narrower task.
	GuideRisk, NarrowRisk float64
	// Risk says how much each sign of trouble ahead adds to the risk.
	Risk RiskWeights
	// ExplorationAllowance is how many iterations that only read, or that moved
	// things a little, do not count as stagnation.
	ExplorationAllowance int

	// RepeatingError counts the same error within one task.
	RepeatingError Steps
	// SharedError counts tasks in a row that end in the same error.
	SharedError Steps
	// SameChange counts how often one task proposed the very same content.
	SameChange Steps
	// NoChange counts calls for one task that changed nothing.
	NoChange Steps
	// RepeatedTouches counts how often one file was changed without landing.
	RepeatedTouches Steps
	// Thrashing counts calls for one task that wrote the same files again and
	// again, or did the same over and over.
	Thrashing Steps
	// Oscillation counts returns to a task or a role that was left before.
	Oscillation Steps
	// Regression is the share of passing tests that were lost, in percent.
	Regression Steps
	// RegressionPatience is how many iterations in a row may be worse than the
	// best checkpoint before the tree goes back to it.
	RegressionPatience int
	// Warnings counts those that were added since the best.
	Warnings Steps
	// Questions counts calls for one task that asked something.
	Questions Steps
	// Refusals counts proposals for one task that could not be accepted.
	Refusals Steps
	// FalseClaims counts calls for one task that claimed to be done without a
	// change, or broke the rules of the progress file.
	FalseClaims Steps

	// CheckpointInterval is after how many iterations a checkpoint is due at
	// the latest; 0 or less makes one after landings only.
	CheckpointInterval int
	// MaxCheckpoints is how many are kept; 0 or less keeps none.
	MaxCheckpoints int

	// Without names verdicts, patterns and "risk" to leave out, separated by commas.
	// It measures what they are worth; see docs/simulation.md.
	Without string
}

// RuleNames lists what [Config.Without] can leave out.
func RuleNames() []string {
	names := []string{ruleRisk}
	for _, k := range VerdictKinds()[1:] {
		names = append(names, string(k))
	}
	for _, k := range PatternKinds() {
		names = append(names, string(k))
	}
	return names
}

// ruleRisk names the risk among the rules.
const ruleRisk = "risk"

// has says whether a rule is not left out.
func (c Config) has(rule string) bool {
	return c.Without == "" || !slices.Contains(strings.Split(c.Without, ","), rule)
}

// RiskWeights are what the signs of trouble ahead add to a risk, each from 0 to 1.
type RiskWeights struct {
	// Touches: one file is changed again and again.
	Touches float64
	// FlatTests: the number of tests does not grow.
	FlatTests float64
	// Repetition: most errors have been seen before.
	Repetition float64
	// RoleSwitch: the role was switched a short time ago.
	RoleSwitch float64
	// Churn: most of the files that change have changed before.
	Churn float64
	// Breadth: the change is spread over many areas.
	Breadth float64
}

// MaxStagnationThreshold bounds the stagnation threshold and the exploration
// allowance, so that three times the one and once the other fit [Window].
const MaxStagnationThreshold = Window / 4

// MaxPatience bounds the patience with a regression.
const MaxPatience = maxEvidence

// Defaults are the thresholds of a run that names none. Those of stagnation,
// attempts, time, risk and checkpoints are the ones of the system that Ralph
// Bot learnt from.
func Defaults() Config {
	return Config{
		StagnationThreshold:  5,
		MaxTaskAttempts:      3,
		TaskTimeout:          30 * time.Minute,
		Predictive:           true,
		GuideRisk:            0.7,
		NarrowRisk:           0.5,
		Risk:                 RiskWeights{Touches: 0.3, FlatTests: 0.2, Repetition: 0.4, RoleSwitch: 0.2, Churn: 0.1, Breadth: 0.1},
		ExplorationAllowance: 5,
		RepeatingError:       Steps{Warning: 2, Elevated: 3, Critical: 4},
		SharedError:          Steps{Warning: 2, Elevated: 3, Critical: 4},
		SameChange:           Steps{Warning: 2, Elevated: 3, Critical: 4},
		NoChange:             Steps{Warning: 2, Elevated: 3, Critical: 4},
		RepeatedTouches:      Steps{Warning: 4, Elevated: 6, Critical: 8},
		Thrashing:            Steps{Warning: 1, Elevated: 2, Critical: 4},
		Oscillation:          Steps{Warning: 3, Elevated: 4, Critical: 5},
		Regression:           Steps{Warning: 1, Elevated: 20, Critical: 50},
		RegressionPatience:   2,
		Warnings:             Steps{Warning: 5, Elevated: 10, Critical: 20},
		Questions:            Steps{Warning: 1, Elevated: 2, Critical: 4},
		Refusals:             Steps{Warning: 1, Elevated: 2, Critical: 3},
		FalseClaims:          Steps{Warning: 1, Elevated: 3, Critical: 5},
		CheckpointInterval:   10,
		MaxCheckpoints:       20,
	}
}

// Validate says what is wrong with the thresholds, all of it at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(name, rule string, value any) {
		errs = append(errs, fmt.Errorf("%s must be %s, not %v", name, rule, value))
	}
	if c.StagnationThreshold < 1 || c.StagnationThreshold > MaxStagnationThreshold {
		bad("stagnation threshold", fmt.Sprintf("from 1 to %d", MaxStagnationThreshold), c.StagnationThreshold)
	}
	for _, r := range []struct {
		name string
		risk float64
	}{{"risk for guidance", c.GuideRisk}, {"risk for narrowing", c.NarrowRisk}} {
		if !(r.risk > 0 && r.risk <= 1) { // so that NaN is refused
			bad(r.name, "above 0 and at most 1", r.risk)
		}
	}
	for _, r := range []struct {
		name   string
		weight float64
	}{
		{"weight of touches", c.Risk.Touches}, {"weight of flat tests", c.Risk.FlatTests}, {"weight of repetition", c.Risk.Repetition},
		{"weight of role switches", c.Risk.RoleSwitch}, {"weight of churn", c.Risk.Churn}, {"weight of breadth", c.Risk.Breadth},
	} {
		if !(r.weight >= 0 && r.weight <= 1) {
			bad(r.name, "from 0 to 1", r.weight)
		}
	}
	if c.NarrowRisk > c.GuideRisk {
		bad("risk for narrowing", "at most the risk for guidance", c.NarrowRisk)
	}
	if c.ExplorationAllowance < 0 || c.ExplorationAllowance > MaxStagnationThreshold {
		bad("exploration allowance", fmt.Sprintf("from 0 to %d", MaxStagnationThreshold), c.ExplorationAllowance)
	}
	if c.RegressionPatience < 1 || c.RegressionPatience > MaxPatience {
		bad("regression patience", fmt.Sprintf("from 1 to %d", MaxPatience), c.RegressionPatience)
	}
	for _, n := range []struct {
		name  string
		steps Steps
	}{
		{"repeating error", c.RepeatingError}, {"shared error", c.SharedError}, {"same change", c.SameChange},
		{"no change", c.NoChange}, {"repeated touches", c.RepeatedTouches}, {"thrashing", c.Thrashing},
		{"oscillation", c.Oscillation}, {"regression", c.Regression}, {"warnings", c.Warnings},
		{"questions", c.Questions}, {"refusals", c.Refusals}, {"false claims", c.FalseClaims},
	} {
		last := 0
		for _, v := range []int{n.steps.Warning, n.steps.Elevated, n.steps.Critical} {
			if v < 0 || v != 0 && v < last {
				bad(n.name, "levels that rise, each at least 0", n.steps)
				break
			}
			last = max(last, v)
		}
	}
	return errors.Join(errs...)
}
