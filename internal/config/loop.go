package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// loopFile keeps the spelling of the proposal its keys come from, as qualityFile does.
type loopFile struct {
	MaxIterations       *whole   `yaml:"maxIterations"`
	MaxTaskAttempts     *whole   `yaml:"maxTaskAttempts"`
	TaskTimeoutMinutes  *float64 `yaml:"taskTimeoutMinutes"`
	StagnationThreshold *whole   `yaml:"stagnationThreshold"`
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
	maxMinutes = 30 * 24 * 60
	maxTurns   = 10_000
	// maxStagnation keeps three times as many calls within what is remembered of a run.
	maxStagnation = 16
)

// loopLimits sets the limits that may be written under "loop".
func loopLimits(f loopFile, l *run.Limits, report reporter) {
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
	count("$.loop.maxIterations", f.MaxIterations, maxIterations,
		func(n int) { l.MaxIterations = cmp.Or(l.MaxIterations, n) })
	count("$.loop.maxTaskAttempts", f.MaxTaskAttempts, maxTaskAttempts,
		func(n int) { l.TaskAttempts = cmp.Or(l.TaskAttempts, n) })
	if v := f.TaskTimeoutMinutes; v != nil {
		if !(*v > 0 && *v <= maxMinutes) { // so that NaN is refused
			report("$.loop.taskTimeoutMinutes", "must be more than 0 and at most %d", maxMinutes)
		} else {
			l.TaskTime = time.Duration(*v * float64(time.Minute))
		}
	}
	count("$.loop.stagnationThreshold", f.StagnationThreshold, maxStagnation, func(n int) { l.Stagnation = n })
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
		case f.Model != "" && !run.IsModelName(f.Model):
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
