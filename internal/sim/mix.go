package sim

import (
	"embed"
	"fmt"
	"path"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/org/ralph-action/internal/run"
)

// Fault is what may go wrong with one agent call. Each call draws at most one.
type Fault string

// The faults of a call. One without a fault does what its task's trait allows.
const (
	// FaultNone is a call without a fault.
	FaultNone Fault = ""
	// FaultNoOp changes nothing and claims success.
	FaultNoOp Fault = "no_op"
	// FaultWrong gets a value wrong or leaves code that does not compile.
	FaultWrong Fault = "wrong"
	// FaultHalf does a part of the task and ticks it.
	FaultHalf Fault = "half"
	// FaultPretends changes something else and ticks the task.
	FaultPretends Fault = "pretends"
	// FaultEarlyDone does nothing and announces that all work is complete, in
	// the file and in its last words.
	FaultEarlyDone Fault = "early_done"
	// FaultTicksAll does its task and ticks all others, too.
	FaultTicksAll Fault = "ticks_all"
	// FaultForges does its task, rewrites status and log, and drops a task.
	FaultForges Fault = "forges"
	// FaultBreaksTest does its task and breaks something that worked.
	FaultBreaksTest Fault = "breaks_test"
	// FaultDeletesTest gets a value wrong and deletes the tests that would tell.
	FaultDeletesTest Fault = "deletes_test"
	// FaultWeakensTest gets a value wrong and makes the tests expect that.
	FaultWeakensTest Fault = "weakens_test"
	// FaultThrashes edits the same file back and forth.
	FaultThrashes Fault = "thrashes"
	// FaultCrashes dies in the middle of its work.
	FaultCrashes Fault = "crashes"
	// FaultHangs does a part of the task, then falls silent or never ends.
	FaultHangs Fault = "hangs"
	// FaultRateLimited meets the provider's limit, which then holds for a while
	// and whose end the provider tells or does not tell.
	FaultRateLimited Fault = "rate_limited"
	// FaultCorrupts does its task and ruins progress.md: cut short, binary,
	// gone, or a link.
	FaultCorrupts Fault = "corrupts_progress"
	// FaultWronglyThere changes nothing and says, with a place, that the work was
	// there already.
	FaultWronglyThere Fault = "wrongly_there"
	// FaultNeverClaims does its task and claims nothing.
	FaultNeverClaims Fault = "never_claims"
	// FaultProviderError does a part of the task and ends well by its exit status,
	// with an error of the provider as its last words.
	FaultProviderError Fault = "provider_error"
)

// Faults lists all faults, in the order in which they are drawn.
func Faults() []Fault {
	return []Fault{
		FaultNoOp, FaultWrong, FaultHalf, FaultPretends, FaultEarlyDone, FaultTicksAll, FaultForges, FaultBreaksTest,
		FaultDeletesTest, FaultWeakensTest, FaultThrashes, FaultCrashes, FaultHangs, FaultRateLimited, FaultCorrupts,
		FaultWronglyThere, FaultNeverClaims, FaultProviderError,
	}
}

// Trait is what a task asks of an agent. It holds for each call at the task.
type Trait string

// The traits of a task.
const (
	// TraitPlain: any honest call solves it.
	TraitPlain Trait = ""
	// TraitNeedsSplit: too big for one call; its parts, as tasks of their own,
	// are not.
	TraitNeedsSplit Trait = "needs_split"
	// TraitNeedsError: the same wrong change until the prompt holds the exact
	// line of the failing test.
	TraitNeedsError Trait = "needs_error"
	// TraitLoops: the same wrong change until the prompt names the failing test.
	TraitLoops Trait = "loops_on_error"
	// TraitHopeless: no call solves it.
	TraitHopeless Trait = "hopeless"
	// TraitAsks: no call solves it; each asks a question instead.
	TraitAsks Trait = "asks"
	// TraitPartial: honest work of 2 to 5 calls. Each does a part and says what is
	// left; the last one says that it is done.
	TraitPartial Trait = "honest_partial"
	// TraitAlready: nothing is left to do, from the start or since the task before.
	TraitAlready Trait = "done_already"
	// TraitStubborn: the same wrong change again and again, until a call hits on
	// another way: by chance, more often where the prompt says how to go on.
	TraitStubborn Trait = "stubborn"
	// TraitBlocked: no call solves it, and each says what only a person can give.
	TraitBlocked Trait = "says_blocked"
	// TraitDefault: a value is to be another than it was, and so is its test.
	TraitDefault Trait = "new_default"
	// TraitRenames: the tests of what is done get other names, in a file of another name.
	TraitRenames Trait = "renames_tests"
	// TraitRunner: the tests are run in another way from now on.
	TraitRunner Trait = "new_runner"
)

// Traits lists all traits but the plain one, in the order in which they are
// drawn.
func Traits() []Trait {
	return []Trait{
		TraitNeedsSplit, TraitNeedsError, TraitLoops, TraitHopeless, TraitAsks, TraitPartial, TraitAlready, TraitBlocked,
		TraitStubborn, TraitDefault, TraitRenames, TraitRunner,
	}
}

func (t Trait) solvable() bool { return t != TraitHopeless && t != TraitAsks && t != TraitBlocked }

// Condition is what may be odd about a whole run.
type Condition string

// The conditions of a run. Each is drawn on its own.
const (
	// ConditionFlakyTest: a test that has nothing to do with the tasks fails now
	// and then.
	ConditionFlakyTest Condition = "flaky_test"
	// ConditionFailingTest: such a test fails at the base already.
	ConditionFailingTest Condition = "failing_test"
	// ConditionSpender: calls are dear and the budget does not cover the tasks.
	ConditionSpender Condition = "spender"
	// ConditionPlanned: the issue is prose, and a planner writes the tasks.
	ConditionPlanned Condition = "planned"
	// ConditionReviewed: all of the work is reviewed at the end.
	ConditionReviewed Condition = "reviewed"
	// ConditionTaught: the run begins with what an earlier one learned.
	ConditionTaught Condition = "taught"
)

// Conditions lists all conditions, in the order in which they are drawn.
func Conditions() []Condition {
	return []Condition{
		ConditionFlakyTest, ConditionFailingTest, ConditionSpender, ConditionPlanned, ConditionReviewed, ConditionTaught,
	}
}

// Mix says of what a simulation is made.
type Mix struct {
	Name string `yaml:"name"`
	// Runs is how many runs there are where the caller names no number.
	Runs int `yaml:"runs"`
	// MinTasks and MaxTasks bound the tasks of one run.
	MinTasks int `yaml:"min_tasks"`
	MaxTasks int `yaml:"max_tasks"`
	// Calls is the share of calls with each fault; the rest is honest.
	Calls map[Fault]float64 `yaml:"calls"`
	// Planner and Reviewer are the shares of calls at these jobs with each fault of
	// their own, besides those of Calls.
	Planner  map[PlanFault]float64   `yaml:"planner"`
	Reviewer map[ReviewFault]float64 `yaml:"reviewer"`
	Verifier map[VerifyFault]float64 `yaml:"verifier"`
	// Tasks is the share of tasks with each trait; the rest is plain.
	Tasks map[Trait]float64 `yaml:"tasks"`
	// Conditions is the share of runs each condition holds for.
	Conditions map[Condition]float64 `yaml:"runs_with"`
	// Crash is the chance, after each step, that the host dies before it has
	// saved the step's state. Half of the time the agent or check dies with it.
	Crash  float64   `yaml:"crash"`
	Limits MixLimits `yaml:"limits"`
	// MaxCallRatio is the most agent calls per finished task that the loop may make in
	// runs without hopeless tasks, as a share of what plain Ralph makes; 0 sets
	// no bar.
	MaxCallRatio float64 `yaml:"max_call_ratio"`
	// MaxNeededRatio is the most calls that the loop may make in such runs, as a
	// share of those that the finished tasks need by their nature; 0 sets no bar.
	MaxNeededRatio float64 `yaml:"max_needed_ratio"`
}

// MixLimits are the limits of each run; see run.Limits.
type MixLimits struct {
	MaxIterations    int           `yaml:"max_iterations"`
	TaskAttempts     int           `yaml:"task_attempts"`
	IterationTimeout time.Duration `yaml:"iteration_timeout"`
	IdleTimeout      time.Duration `yaml:"idle_timeout"`
	RunTimeout       time.Duration `yaml:"run_timeout"`
	BudgetUSD        float64       `yaml:"budget_usd"`
}

func (l MixLimits) limits() run.Limits {
	return run.Limits{
		MaxIterations: l.MaxIterations, TaskAttempts: l.TaskAttempts, IterationTimeout: l.IterationTimeout,
		IdleTimeout: l.IdleTimeout, RunTimeout: l.RunTimeout, BudgetUSD: l.BudgetUSD,
	}.WithDefaults(run.DefaultLimits())
}

// Bounds of a mix, so that a slip of the pen does not take an hour.
const (
	maxTasks = 40
	maxRuns  = 100_000
	maxCrash = 0.2
)

// ParseMix reads a mix from the text of the named file. A problem with it is a
// *run.UserError.
func ParseMix(file string, src []byte) (Mix, error) {
	var m Mix
	if err := yaml.UnmarshalWithOptions(src, &m, yaml.Strict()); err != nil {
		return Mix{}, &run.UserError{
			Message: "the mix " + file + " cannot be read", Hint: yaml.FormatError(err, false, true), Err: err,
		}
	}
	if why := m.problem(); why != "" {
		return Mix{}, &run.UserError{Message: "the mix " + file + " cannot be used", Hint: why}
	}
	return m, nil
}

// problem says what is wrong with a mix, "" where nothing is.
func (m Mix) problem() string {
	switch {
	case m.Name == "":
		return "give it a name"
	case m.Runs < 1 || m.Runs > maxRuns:
		return fmt.Sprintf("runs must be from 1 to %d", maxRuns)
	case m.MinTasks < 1 || m.MaxTasks < m.MinTasks || m.MaxTasks > maxTasks:
		return fmt.Sprintf("min_tasks and max_tasks must be in order and from 1 to %d", maxTasks)
	case m.Crash < 0 || m.Crash > maxCrash:
		return fmt.Sprintf("crash must be from 0 to %g", maxCrash)
	case m.MaxCallRatio < 0:
		return "max_call_ratio must not be negative"
	case m.MaxNeededRatio < 0:
		return "max_needed_ratio must not be negative"
	}
	if why := shares("calls", m.Calls, Faults(), true); why != "" {
		return why
	}
	if why := shares("planner", m.Planner, PlanFaults(), true); why != "" {
		return why
	}
	if why := shares("reviewer", m.Reviewer, ReviewFaults(), true); why != "" {
		return why
	}
	if why := shares("verifier", m.Verifier, VerifyFaults(), true); why != "" {
		return why
	}
	if why := shares("tasks", m.Tasks, Traits(), true); why != "" {
		return why
	}
	return shares("runs_with", m.Conditions, Conditions(), false)
}

// shares checks a list of shares; together they may be 1 at most where only one
// of them is drawn.
func shares[K ~string](key string, have map[K]float64, known []K, one bool) string {
	left, sum := len(have), 0.0
	for _, k := range known {
		share, ok := have[k]
		if !ok {
			continue
		}
		left--
		if share < 0 || share > 1 {
			return fmt.Sprintf("%s.%s must be from 0 to 1", key, k)
		}
		sum += share
	}
	switch {
	case left > 0:
		return fmt.Sprintf("%s knows only %v", key, known)
	case one && sum > 1:
		return fmt.Sprintf("the shares of %s must not exceed 1 together", key)
	}
	return ""
}

//go:embed mixes/*.yml
var mixes embed.FS

// BuiltInMixes are the mixes that come with the program, in the order in which
// they are run.
func BuiltInMixes() ([]Mix, error) {
	var out []Mix
	for _, name := range []string{"faulty", "honest", "hopeless", "passes"} {
		src, err := mixes.ReadFile(path.Join("mixes", name+".yml"))
		if err != nil {
			return nil, fmt.Errorf("read built-in mix: %w", err)
		}
		m, err := ParseMix(name, src)
		if err != nil {
			return nil, fmt.Errorf("read built-in mix: %w", err)
		}
		out = append(out, m)
	}
	return out, nil
}
