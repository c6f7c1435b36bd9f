package run

import (
	"cmp"
	"slices"
	"time"
)

// ID names one run. It is safe as a file name, a container name and a git
// trailer: lower-case letters, digits and hyphens.
type ID string

// Mode says what a run does.
type Mode string

// The modes of a run.
const (
	// ModeAuto plans where there are no tasks yet, then builds.
	ModeAuto Mode = ""
	// ModePlan writes the tasks and changes no code.
	ModePlan Mode = "plan"
	// ModeBuild works the tasks that are there.
	ModeBuild Mode = "build"
)

// Phase is the stretch of a run's life it is in.
type Phase string

// The phases, in order. Done, Paused, Failed and Cancelled are the last.
const (
	PhaseQueued         Phase = "queued"
	PhasePreparing      Phase = "preparing"
	PhasePlanning       Phase = "planning"
	PhaseAwaitingPerson Phase = "awaiting_person"
	PhaseIterating      Phase = "iterating"
	PhaseFinishing      Phase = "finishing"
	PhaseDone           Phase = "done"
	PhasePaused         Phase = "paused"
	PhaseFailed         Phase = "failed"
	PhaseCancelled      Phase = "cancelled"
)

// Terminal says whether a run in phase p takes no further step by itself.
func (p Phase) Terminal() bool {
	switch p {
	case PhaseDone, PhasePaused, PhaseFailed, PhaseCancelled:
		return true
	case PhaseQueued, PhasePreparing, PhasePlanning, PhaseAwaitingPerson, PhaseIterating, PhaseFinishing:
		return false
	default:
		return false
	}
}

// TaskStatus is where one task stands.
type TaskStatus string

// The states of a task.
const (
	TaskOpen       TaskStatus = "open"
	TaskInProgress TaskStatus = "in_progress"
	// TaskInReview: an agent has proposed the task, and the checks run.
	TaskInReview TaskStatus = "in_review"
	TaskDone     TaskStatus = "done"
	TaskBlocked  TaskStatus = "blocked"
	TaskSkipped  TaskStatus = "skipped"
)

// Task is one line of the plan: what one iteration works on and one commit
// lands.
type Task struct {
	// ID is the host's stable name for the task: T1, T2, …
	ID string
	// Title is the text of the line without id, priority and markers.
	Title string
	// Priority is 1 (first) and up; 0 means none was given and counts as last.
	Priority int
	// Group is the heading the task stands under ("Phase 1: Output"), or "".
	Group string
	// Steps are what the task says to do, in order ("Do:").
	Steps []string
	// Files are the files it says it is about, maybe with a remark each ("Files:").
	Files []string
	// Accept holds the acceptance criteria nested below the task, as text ("Accept:",
	// "Done when:"), and what is to be verified that is no command.
	Accept []string
	// Checks are shell commands, each on one line, that have to succeed before the
	// task is done ("Verify:").
	Checks []string
	// Subject is the first line its commit is to have, "" for one made of the title
	// ("Commit:").
	Subject string
	// Parallel is the marker [P]: safe to work beside others.
	Parallel bool
	// Verify is the marker [VERIFY]: the task checks rather than changes.
	Verify bool
	// DependsOn holds the ids of tasks that have to be done before this one.
	DependsOn []string
	Status    TaskStatus
	// Reason says why the task is blocked or skipped, or was before it was
	// done; "" where nobody said.
	Reason string
}

// Actionable says whether the task still wants work.
func (t Task) Actionable() bool {
	return t.Status == TaskOpen || t.Status == TaskInProgress || t.Status == TaskInReview
}

// Usage is what an agent consumed. Tokens are counts, cost is US dollars.
type Usage struct {
	InputTokens      int64   `json:"input_tokens"`
	OutputTokens     int64   `json:"output_tokens"`
	CacheReadTokens  int64   `json:"cache_read_tokens"`
	CacheWriteTokens int64   `json:"cache_write_tokens"`
	CostUSD          float64 `json:"cost_usd"`
	Turns            int     `json:"turns"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.CostUSD += v.CostUSD
	u.Turns += v.Turns
	return u
}

// Tokens counts all that was read and written.
func (u Usage) Tokens() int64 {
	return u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens
}

// ModelUse is what was used of one model.
type ModelUse struct {
	Model    string `json:"model"`
	Requests int    `json:"requests"`
	Usage    Usage  `json:"usage"`
}

// OtherModels stands for all models that there was no room for.
const OtherModels = "other models"

// AddModels adds the uses of more to those of uses, which stays as it is. At most
// limit different models are kept, those that came first; the others become one.
func AddModels(uses, more []ModelUse, limit int) []ModelUse {
	return addUp(uses, more, limit,
		func(a, b ModelUse) bool { return a.Model == b.Model },
		func(u *ModelUse) { u.Model = OtherModels },
		func(sum *ModelUse, u ModelUse) {
			sum.Requests += u.Requests
			sum.Usage = sum.Usage.Add(u.Usage)
		})
}

// HostUse is what a sandbox had to do with one host of the network.
type HostUse struct {
	// Host is its name, or OtherHosts.
	Host string `json:"host"`
	// Blocked says why the sandbox was kept from it, "" where it was not.
	Blocked string `json:"blocked,omitempty"`
	// Count is how often it was asked for, Sent and Received are bytes.
	Count    int   `json:"count"`
	Sent     int64 `json:"sent_bytes,omitempty"`
	Received int64 `json:"received_bytes,omitempty"`
}

// OtherHosts stands for all hosts that there was no room for.
const OtherHosts = "other hosts"

// AddHosts adds the uses of more to those of uses, which stays as it is. At most
// limit different ones are kept, those that came first; the others become one of
// OtherHosts for each reason they were blocked for.
func AddHosts(uses, more []HostUse, limit int) []HostUse {
	return addUp(uses, more, limit,
		func(a, b HostUse) bool { return a.Host == b.Host && a.Blocked == b.Blocked },
		func(u *HostUse) { u.Host = OtherHosts },
		func(sum *HostUse, u HostUse) {
			sum.Count += u.Count
			sum.Sent += u.Sent
			sum.Received += u.Received
		})
}

// addUp adds each of more to the one of uses that is of the same key, or puts it
// behind them as a new one. Once there are limit, a new one is made one of the
// others first.
func addUp[U any](uses, more []U, limit int, same func(a, b U) bool, toOthers func(*U), add func(sum *U, u U)) []U {
	sums := slices.Clone(uses)
	for _, u := range more {
		likeU := func(s U) bool { return same(s, u) }
		i := slices.IndexFunc(sums, likeU)
		if i < 0 && len(sums) >= limit {
			toOthers(&u)
			i = slices.IndexFunc(sums, likeU)
		}
		if i < 0 {
			sums = append(sums, u)
			continue
		}
		add(&sums[i], u)
	}
	return sums
}

// Limits bound a run. A zero field means the default of DefaultLimits; a
// negative one means no limit. The tags are for the files of package config.
type Limits struct {
	MaxIterations int `yaml:"max_iterations" is:"1..10000"`
	TaskAttempts  int `yaml:"task_attempts" is:"1..100"`
	// PartialCalls bounds the calls that get a task further without finishing it.
	PartialCalls int `yaml:"partial_calls" is:"1..100"`
	// Parallel is how many tasks marked [P] are worked side by side.
	Parallel         int           `yaml:"parallel" is:"1..16"`
	IterationTimeout time.Duration `yaml:"iteration_timeout" is:"1s..30d"`
	IdleTimeout      time.Duration `yaml:"idle_timeout" is:"1s..30d"`
	RunTimeout       time.Duration `yaml:"run_timeout" is:"1s..30d"`
	BudgetUSD        float64       `yaml:"budget_usd" is:"0.01..1000000"`
	// TaskBudgetUSD bounds each task; it can only be kept where a gateway counts.
	TaskBudgetUSD float64 `yaml:"task_budget_usd" is:"0.01..1000000"`
	// Stagnation is how many calls in a row may land nothing before another role takes over; at
	// three times as many the run may stop.
	Stagnation int
	// TaskTime is how long the failed attempts at a task may take before it is told so; at three
	// times as long its attempts are used up.
	TaskTime time.Duration
}

// DefaultLimits are the limits of a run that names none.
func DefaultLimits() Limits {
	return Limits{
		MaxIterations:    50,
		TaskAttempts:     3,
		PartialCalls:     6,
		Parallel:         1,
		IterationTimeout: 30 * time.Minute,
		IdleTimeout:      10 * time.Minute,
		RunTimeout:       6 * time.Hour,
		BudgetUSD:        -1,
		TaskBudgetUSD:    -1,
		Stagnation:       5,
		TaskTime:         30 * time.Minute,
	}
}

// WithDefaults fills the zero fields of l from d.
func (l Limits) WithDefaults(d Limits) Limits {
	return Limits{
		MaxIterations:    cmp.Or(l.MaxIterations, d.MaxIterations),
		TaskAttempts:     cmp.Or(l.TaskAttempts, d.TaskAttempts),
		PartialCalls:     cmp.Or(l.PartialCalls, d.PartialCalls),
		Parallel:         cmp.Or(l.Parallel, d.Parallel),
		IterationTimeout: cmp.Or(l.IterationTimeout, d.IterationTimeout),
		IdleTimeout:      cmp.Or(l.IdleTimeout, d.IdleTimeout),
		RunTimeout:       cmp.Or(l.RunTimeout, d.RunTimeout),
		BudgetUSD:        cmp.Or(l.BudgetUSD, d.BudgetUSD),
		TaskBudgetUSD:    cmp.Or(l.TaskBudgetUSD, d.TaskBudgetUSD),
		Stagnation:       cmp.Or(l.Stagnation, d.Stagnation),
		TaskTime:         cmp.Or(l.TaskTime, d.TaskTime),
	}
}

// Tighten returns the limits of a run where a server allows l and the repository asks
// for asked: in each field the smaller of the two. A zero in asked asks for nothing; a
// negative in l is no bound.
func (l Limits) Tighten(asked Limits) Limits {
	return Limits{
		MaxIterations:    tighter(l.MaxIterations, asked.MaxIterations),
		TaskAttempts:     tighter(l.TaskAttempts, asked.TaskAttempts),
		PartialCalls:     tighter(l.PartialCalls, asked.PartialCalls),
		Parallel:         tighter(l.Parallel, asked.Parallel),
		IterationTimeout: tighter(l.IterationTimeout, asked.IterationTimeout),
		IdleTimeout:      tighter(l.IdleTimeout, asked.IdleTimeout),
		RunTimeout:       tighter(l.RunTimeout, asked.RunTimeout),
		BudgetUSD:        tighter(l.BudgetUSD, asked.BudgetUSD),
		TaskBudgetUSD:    tighter(l.TaskBudgetUSD, asked.TaskBudgetUSD),
		// These bound nothing that a server pays for: the repository knows its tasks.
		Stagnation: cmp.Or(asked.Stagnation, l.Stagnation),
		TaskTime:   cmp.Or(asked.TaskTime, l.TaskTime),
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

// UserError is an error a person can do something about: what is wrong and
// what to do, in one sentence each.
type UserError struct {
	Message string
	Hint    string
	Err     error
}

// Error implements error.
func (e *UserError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ": " + e.Hint
}

// Unwrap gives the cause, if one was kept.
func (e *UserError) Unwrap() error { return e.Err }
