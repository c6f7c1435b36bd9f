package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
	"github.com/org/ralph-action/internal/supervise"
)

// loopFile, checkpointsFile and historyFile keep the spelling of the proposal
// their keys come from, as qualityFile does.
type loopFile struct {
	MaxIterations              *whole `yaml:"maxIterations"`
	MaxTaskAttempts            *whole `yaml:"maxTaskAttempts"`
	TaskTimeoutMinutes         *whole `yaml:"taskTimeoutMinutes"`
	StagnationThreshold        *whole `yaml:"stagnationThreshold"`
	EnablePredictiveStagnation *bool  `yaml:"enablePredictiveStagnation"`
}

type checkpointsFile struct {
	Enabled                *bool  `yaml:"enabled"`
	AutoCheckpointInterval *whole `yaml:"autoCheckpointInterval"`
	MaxCheckpoints         *whole `yaml:"maxCheckpoints"`
}

// stepsFile are the counts from which a pattern is a warning, elevated, critical.
type stepsFile []whole

// supervisionFile holds what the proposal has no key for.
type supervisionFile struct {
	TaskTimeout        *duration `yaml:"task_timeout"`
	Exploration        *whole    `yaml:"exploration"`
	RegressionPatience *whole    `yaml:"regression_patience"`
	Risk               struct {
		Guide      *float64 `yaml:"guide"`
		Narrow     *float64 `yaml:"narrow"`
		Touches    *float64 `yaml:"touches"`
		FlatTests  *float64 `yaml:"flat_tests"`
		Repetition *float64 `yaml:"repetition"`
		RoleSwitch *float64 `yaml:"role_switch"`
		Churn      *float64 `yaml:"churn"`
		Breadth    *float64 `yaml:"breadth"`
	} `yaml:"risk"`
	Patterns struct {
		SharedError          stepsFile `yaml:"shared_error"`
		AccumulatingWarnings stepsFile `yaml:"accumulating_warnings"`
		RepeatingError       stepsFile `yaml:"repeating_error"`
		SameChange           stepsFile `yaml:"same_change"`
		NoChange             stepsFile `yaml:"no_change"`
		RepeatedTouches      stepsFile `yaml:"repeated_touches"`
		Thrashing            stepsFile `yaml:"thrashing"`
		Oscillation          stepsFile `yaml:"oscillation"`
		Regression           stepsFile `yaml:"regression"`
		Questions            stepsFile `yaml:"questions"`
		Refusals             stepsFile `yaml:"refusals"`
		FalseClaims          stepsFile `yaml:"false_claims"`
	} `yaml:"patterns"`
}

type historyFile struct {
	Enabled *bool `yaml:"enabled"`
}

// roleFile is what a repository says of one role.
type roleFile struct {
	Name      string   `yaml:"name"`
	Model     string   `yaml:"model"`
	MaxTurns  *whole   `yaml:"max_turns"`
	DenyTools []string `yaml:"deny_tools"`
}

// Role is the model and the limits of one role; zero fields leave the run's
// model and the agent's own limits.
type Role struct {
	Model     string
	MaxTurns  int
	DenyTools []string
}

// toolPattern is a tool, or one of its uses: "WebFetch", "Bash(git push:*)".
var toolPattern = strs.Lazy(`^[A-Za-z][A-Za-z0-9_-]{0,63}(?:\([A-Za-z0-9 ./:*_-]{1,128}\))?$`)

// maxTools bounds what is put on a command line.
const maxTools = 50

const (
	maxMinutes     = 30 * 24 * 60
	maxInterval    = 10_000
	maxCheckpoints = 100
	maxTurns       = 10_000
)

// supervision checks how a run is to be watched, and sets the limits that may
// be written here too. Where the file says nothing of it, the zero value is the
// loop's own choice.
func supervision(f repoFile, l *run.Limits, report reporter) supervise.Config {
	if f.Loop == (loopFile{}) && f.Checkpoints == (checkpointsFile{}) && reflect.ValueOf(f.Supervision).IsZero() {
		return supervise.Config{}
	}
	c := supervise.Defaults()
	count := func(path string, v *whole, most int, take func(int)) {
		if v == nil {
			return
		}
		if *v < 1 || *v > whole(most) {
			report(path, "must be between 1 and %d; omit it for the default", most)
			return
		}
		take(int(*v))
	}
	count("$.loop.maxIterations", f.Loop.MaxIterations, maxIterations, func(n int) { l.MaxIterations = cmp.Or(l.MaxIterations, n) })
	count("$.loop.maxTaskAttempts", f.Loop.MaxTaskAttempts, maxTaskAttempts, func(n int) { l.TaskAttempts = cmp.Or(l.TaskAttempts, n) })
	count("$.loop.taskTimeoutMinutes", f.Loop.TaskTimeoutMinutes, maxMinutes, func(n int) { c.TaskTimeout = time.Duration(n) * time.Minute })
	count("$.loop.stagnationThreshold", f.Loop.StagnationThreshold, supervise.MaxStagnationThreshold, func(n int) { c.StagnationThreshold = n })
	if v := f.Loop.EnablePredictiveStagnation; v != nil {
		c.Predictive = *v
	}
	count("$.checkpoints.autoCheckpointInterval", f.Checkpoints.AutoCheckpointInterval, maxInterval, func(n int) { c.CheckpointInterval = n })
	count("$.checkpoints.maxCheckpoints", f.Checkpoints.MaxCheckpoints, maxCheckpoints, func(n int) { c.MaxCheckpoints = n })
	if v := f.Checkpoints.Enabled; v != nil && !*v {
		c.MaxCheckpoints = 0
	}
	thresholds(f, &c, report)
	return c
}

// maxStep bounds a threshold of a pattern.
const maxStep = 1000

// thresholds takes those that only this program knows.
func thresholds(f repoFile, c *supervise.Config, report reporter) {
	s := f.Supervision
	if v := s.TaskTimeout; v != nil {
		switch d := time.Duration(*v); {
		case f.Loop.TaskTimeoutMinutes != nil:
			report("$.supervision.task_timeout", "says the same as loop.taskTimeoutMinutes; use only one of them")
		case d <= 0 || d > maxMinutes*time.Minute:
			report("$.supervision.task_timeout", "must be more than 0 and at most %d days", maxMinutes/24/60)
		default:
			c.TaskTimeout = d
		}
	}
	between := func(path string, v *whole, least, most int, take *int) {
		switch {
		case v == nil:
		case *v < whole(least) || *v > whole(most):
			report(path, "must be between %d and %d", least, most)
		default:
			*take = int(*v)
		}
	}
	between("$.supervision.exploration", s.Exploration, 0, supervise.MaxStagnationThreshold, &c.ExplorationAllowance)
	between("$.supervision.regression_patience", s.RegressionPatience, 1, supervise.MaxPatience, &c.RegressionPatience)
	for _, r := range []struct {
		name string
		from *float64
		take *float64
	}{
		{"guide", s.Risk.Guide, &c.GuideRisk}, {"narrow", s.Risk.Narrow, &c.NarrowRisk},
		{"touches", s.Risk.Touches, &c.Risk.Touches}, {"flat_tests", s.Risk.FlatTests, &c.Risk.FlatTests},
		{"repetition", s.Risk.Repetition, &c.Risk.Repetition}, {"role_switch", s.Risk.RoleSwitch, &c.Risk.RoleSwitch},
		{"churn", s.Risk.Churn, &c.Risk.Churn}, {"breadth", s.Risk.Breadth, &c.Risk.Breadth},
	} {
		least := r.take == &c.GuideRisk || r.take == &c.NarrowRisk
		switch {
		case r.from == nil:
		case !(*r.from >= 0 && *r.from <= 1) || least && *r.from == 0: // so that NaN is refused
			report("$.supervision.risk."+r.name, "must be from 0 to 1, and more than 0 for guide and narrow")
		default:
			*r.take = *r.from
		}
	}
	if c.NarrowRisk > c.GuideRisk {
		report("$.supervision.risk", "narrow must be at most guide")
	}
	p := s.Patterns
	for _, n := range []struct {
		name string
		from stepsFile
		take *supervise.Steps
	}{
		{"shared_error", p.SharedError, &c.SharedError}, {"accumulating_warnings", p.AccumulatingWarnings, &c.Warnings},
		{"repeating_error", p.RepeatingError, &c.RepeatingError}, {"same_change", p.SameChange, &c.SameChange},
		{"no_change", p.NoChange, &c.NoChange}, {"repeated_touches", p.RepeatedTouches, &c.RepeatedTouches},
		{"thrashing", p.Thrashing, &c.Thrashing}, {"oscillation", p.Oscillation, &c.Oscillation},
		{"regression", p.Regression, &c.Regression}, {"questions", p.Questions, &c.Questions},
		{"refusals", p.Refusals, &c.Refusals}, {"false_claims", p.FalseClaims, &c.FalseClaims},
	} {
		if n.from == nil {
			continue
		}
		steps, ok := n.from.steps()
		if !ok {
			report("$.supervision.patterns."+n.name, "must be three whole numbers that rise, as [2, 3, 4]: from which count on it is a warning, elevated, critical; 0 leaves a level out; at most %d", maxStep)
			continue
		}
		*n.take = steps
	}
}

// steps are the levels of a pattern, where they rise.
func (s stepsFile) steps() (supervise.Steps, bool) {
	if len(s) != 3 {
		return supervise.Steps{}, false
	}
	last := whole(0)
	for _, n := range s {
		if n < 0 || n > maxStep || n != 0 && n <= last {
			return supervise.Steps{}, false
		}
		last = max(last, n)
	}
	return supervise.Steps{Warning: int(s[0]), Elevated: int(s[1]), Critical: int(s[2])}, true
}

// roles checks what a file says of single roles.
func roles(files []roleFile, report reporter) map[run.Role]Role {
	out := map[run.Role]Role{}
	for _, f := range files {
		role := run.Role(f.Name)
		switch {
		case !role.Known():
			names := make([]string, 0, len(run.Roles()))
			for _, r := range run.Roles() {
				names = append(names, string(r))
			}
			report("$.roles", "there is no role %q; the roles are %s", clip(f.Name), strings.Join(names, ", "))
			continue
		case f.Model != "" && !modelPattern().MatchString(f.Model):
			report("$.roles", "%q does not look like the name of a model", clip(f.Model))
			continue
		case slices.Contains(slices.Collect(maps.Keys(out)), role):
			report("$.roles", "the role %s is listed twice", role)
			continue
		}
		if n := slices.IndexFunc(f.DenyTools, func(tool string) bool { return !toolPattern().MatchString(tool) }); n >= 0 {
			report("$.roles", "%q does not look like a tool", clip(f.DenyTools[n]))
			continue
		}
		if len(f.DenyTools) > maxTools {
			report("$.roles", "%d tools are denied to %s; at most %d can be", len(f.DenyTools), role, maxTools)
			continue
		}
		set := Role{Model: f.Model, DenyTools: f.DenyTools}
		if v := f.MaxTurns; v != nil {
			if *v < 1 || *v > maxTurns {
				report("$.roles", "max_turns of %s must be between 1 and %d", role, maxTurns)
				continue
			}
			set.MaxTurns = int(*v)
		}
		out[role] = set
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
