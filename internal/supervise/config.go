package supervise

import (
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

// Config holds the thresholds that people set; start from [Defaults].
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
	// Predictive narrows the next call down at a high risk of getting stuck, before a
	// pattern is there.
	Predictive bool

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

// MaxStagnationThreshold bounds the stagnation threshold, so that three times as much
// and what is left out of it fit [Window].
const MaxStagnationThreshold = Window / 4

// Defaults are the thresholds of a run that names none: those of the system that Ralph
// Bot learnt from.
func Defaults() Config {
	return Config{
		StagnationThreshold: 5,
		MaxTaskAttempts:     3,
		TaskTimeout:         30 * time.Minute,
		Predictive:          true,
		CheckpointInterval:  10,
		MaxCheckpoints:      20,
	}
}
