package config

import (
	"cmp"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// limitsFile is how limits are written. A key that is absent keeps the
// default; pointers tell that from a zero.
type limitsFile struct {
	MaxIterations    *whole    `yaml:"max_iterations"`
	TaskAttempts     *whole    `yaml:"task_attempts"`
	PartialCalls     *whole    `yaml:"partial_calls"`
	Parallel         *whole    `yaml:"parallel"`
	IterationTimeout *duration `yaml:"iteration_timeout"`
	IdleTimeout      *duration `yaml:"idle_timeout"`
	RunTimeout       *duration `yaml:"run_timeout"`
	BudgetUSD        *float64  `yaml:"budget_usd"`
	TaskBudgetUSD    *float64  `yaml:"task_budget_usd"`
}

// serverLimitsFile is limitsFile with what only a server has.
type serverLimitsFile struct {
	Run limitsFile `yaml:",inline"`

	Agents              *whole `yaml:"agents"`
	AgentsPerRepository *whole `yaml:"agents_per_repository"`
}

// Concurrency bounds how many agents and checks are at work at once; 0 means no bound.
type Concurrency struct {
	// Agents is for the whole server, where 0 is as many as fit on the machine, and
	// Repository for one repository.
	Agents, Repository int
}

// maxAgents bounds each of them.
const maxAgents = 1000

// concurrency checks f and gives it over d.
func (f serverLimitsFile) concurrency(d Concurrency, report reporter) Concurrency {
	for _, l := range []struct {
		key string
		v   *whole
		dst *int
	}{
		{"agents", f.Agents, &d.Agents}, {"agents_per_repository", f.AgentsPerRepository, &d.Repository},
	} {
		if l.v == nil {
			continue
		}
		if *l.v < 1 || *l.v > maxAgents {
			report("$.limits."+l.key, "must be between 1 and %d; omit it for the default", maxAgents)
			continue
		}
		*l.dst = int(*l.v)
	}
	return d
}

const (
	maxIterations   = 10_000
	maxTaskAttempts = 100
	maxParallel     = 16
	maxTimeout      = 30 * 24 * time.Hour
	maxBudgetUSD    = 1_000_000
)

// limits checks f and returns it with zero for every key it does not name.
func limits(f limitsFile, report reporter) run.Limits {
	var l run.Limits
	count := func(path string, dst *int, v *whole, most int) {
		if v == nil {
			return
		}
		if *v < 1 || *v > whole(most) {
			report(path, "must be between 1 and %d; omit it for the default", most)
			return
		}
		*dst = int(*v)
	}
	count("$.limits.max_iterations", &l.MaxIterations, f.MaxIterations, maxIterations)
	count("$.limits.task_attempts", &l.TaskAttempts, f.TaskAttempts, maxTaskAttempts)
	count("$.limits.partial_calls", &l.PartialCalls, f.PartialCalls, maxTaskAttempts)
	count("$.limits.parallel", &l.Parallel, f.Parallel, maxParallel)
	span := func(path string, dst *time.Duration, v *duration) {
		if v == nil {
			return
		}
		if time.Duration(*v) < time.Second || time.Duration(*v) > maxTimeout {
			report(path, "must be between 1s and %s; omit it for the default", short(maxTimeout))
			return
		}
		*dst = time.Duration(*v)
	}
	span("$.limits.iteration_timeout", &l.IterationTimeout, f.IterationTimeout)
	span("$.limits.idle_timeout", &l.IdleTimeout, f.IdleTimeout)
	span("$.limits.run_timeout", &l.RunTimeout, f.RunTimeout)
	l.BudgetUSD = budget("$.limits.budget_usd", f.BudgetUSD, report)
	l.TaskBudgetUSD = budget("$.limits.task_budget_usd", f.TaskBudgetUSD, report)
	return l
}

// budget checks an amount of dollars; none is 0.
func budget(path string, v *float64, report reporter) float64 {
	if v == nil {
		return 0
	}
	// Written so that NaN, which compares as false, is refused too.
	if !(*v > 0 && *v <= maxBudgetUSD) {
		report(path, "must be more than 0 and at most %d; omit it for no budget", maxBudgetUSD)
		return 0
	}
	return *v
}

// Tighten returns the limits of a run where the server allows upper and the
// repository asks for asked: in each field the smaller of the two. A zero in
// asked asks for nothing; a negative in upper is no bound.
func Tighten(upper, asked run.Limits) run.Limits {
	return run.Limits{
		MaxIterations:    tighter(upper.MaxIterations, asked.MaxIterations),
		TaskAttempts:     tighter(upper.TaskAttempts, asked.TaskAttempts),
		PartialCalls:     tighter(upper.PartialCalls, asked.PartialCalls),
		Parallel:         tighter(upper.Parallel, asked.Parallel),
		IterationTimeout: tighter(upper.IterationTimeout, asked.IterationTimeout),
		IdleTimeout:      tighter(upper.IdleTimeout, asked.IdleTimeout),
		RunTimeout:       tighter(upper.RunTimeout, asked.RunTimeout),
		BudgetUSD:        tighter(upper.BudgetUSD, asked.BudgetUSD),
		TaskBudgetUSD:    tighter(upper.TaskBudgetUSD, asked.TaskBudgetUSD),
		// These bound nothing that a server pays for: the repository knows its tasks.
		Stagnation: cmp.Or(asked.Stagnation, upper.Stagnation),
		TaskTime:   cmp.Or(asked.TaskTime, upper.TaskTime),
	}
}

func tighter[T int | time.Duration | float64](upper, asked T) T {
	switch {
	case asked <= 0:
		return upper
	case upper <= 0:
		return asked
	default:
		return min(upper, asked)
	}
}
