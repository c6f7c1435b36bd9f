package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
)

// Result is what the runs of one mix came to.
type Result struct {
	Mix  string `json:"mix"`
	Seed uint64 `json:"seed"`
	Runs int    `json:"runs"`
	// Loop is the loop of this program, Plain the plain Ralph loop.
	Loop  Totals `json:"loop"`
	Plain Totals `json:"plain"`
	Bars  []Bar  `json:"bars"`
}

// Run plays a mix: each run once through the loop, once through a plain Ralph
// loop. It fails only where a run cannot be played to its end.
func Run(ctx context.Context, m Mix, seed uint64, runs int) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pairs := make([][2]outcome, runs)
	todo := make(chan int)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range todo {
				var err error
				if pairs[i], err = pair(ctx, m, seed, i); err != nil {
					cancel(fmt.Errorf("run %d of mix %s with seed %d: %w", i, m.Name, seed, err))
				}
			}
		})
	}
	for i := range runs {
		todo <- i
	}
	close(todo)
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	r := Result{Mix: m.Name, Seed: seed, Runs: runs}
	r.Loop = total(pairs, 0)
	r.Plain = total(pairs, 1)
	r.Bars = bars(m, r.Loop, r.Plain)
	return r, nil
}

// pair plays one run both ways, on one project.
func pair(ctx context.Context, m Mix, seed uint64, i int) (both [2]outcome, err error) {
	// The streams of a run are apart from each other and from those of all others.
	rnd := rand.New(rand.NewPCG(seed, uint64(i))) // #nosec G404,G115 -- repeatable on purpose; an index is not negative
	p := newProject(m, rnd)
	if both[0], err = looped(ctx, p, m, rnd.Uint64()); err != nil {
		return both, err
	}
	both[1], err = plain(ctx, p, m, rand.New(rand.NewPCG(rnd.Uint64(), 0))) // #nosec G404 -- repeatable on purpose
	return both, err
}

// Totals sum up the runs of one loop.
type Totals struct {
	// Complete are the runs the loop called complete, Finished those in which
	// the landed tree is what was wanted.
	Complete int `json:"complete"`
	Finished int `json:"finished"`
	// FalseCompletions are the runs called complete in which it is not.
	FalseCompletions int `json:"false_completions"`
	// BadCommits break a check that passed at the base and on the commit before; the
	// tests of the base count even where the commit deleted or weakened them.
	BadCommits int `json:"bad_commits"`
	// LostWork counts values that were right on a landed tree, and wrong on a later
	// one.
	LostWork int `json:"lost_work"`
	// Doubled counts commits that happened twice.
	Doubled int `json:"doubled"`
	// OverBudget are the runs that spent more than their budget.
	OverBudget int `json:"over_budget"`
	// Solvable are the tasks that the fault model makes solvable, Solved those of
	// them that the landed trees solve.
	Solvable int `json:"solvable_tasks"`
	Solved   int `json:"solved_tasks"`
	// Calls are all agent calls; Iterations leave out those the provider refused.
	Calls      int `json:"calls"`
	Iterations int `json:"iterations"`
	// HonestRefused is how often honest work was called failed: failed attempts of
	// honest calls that had got further and said what is left, and tasks given up
	// though an honest call had done them and said so. Not counted of plain Ralph.
	HonestRefused int `json:"honest_refused"`
	// CleanRuns have no hopeless task and a budget that covers the tasks;
	// CleanCalls, CleanIterations and CleanSolved are those of them.
	CleanRuns       int `json:"clean_runs"`
	CleanCalls      int `json:"clean_calls"`
	CleanIterations int `json:"clean_iterations"`
	CleanSolved     int `json:"clean_solved"`
	// CleanNeeded is how many calls the finished tasks of the clean runs take by
	// their nature.
	CleanNeeded int `json:"clean_needed"`
	// Hopeless are the hopeless tasks that gave evidence of it. Late is how many
	// calls followed at one of them: at most, and in all.
	Hopeless int `json:"hopeless_tasks"`
	LateMost int `json:"late_most"`
	LateOver int `json:"late_over"`
	LateAll  int `json:"late_all"`
	// Hours passed on the virtual clock, Dollars were spent.
	Hours   float64        `json:"hours"`
	Dollars float64        `json:"dollars"`
	Ends    map[string]int `json:"ends"`
	// Faults tell of each fault that calls had.
	Faults map[string]FaultTotals `json:"faults,omitempty"`
	// Troubles are the errors that the loop itself failed with.
	Troubles []string `json:"troubles,omitempty"`
}

// FaultTotals are what became of the calls with one fault.
type FaultTotals struct {
	// Calls had it; Harmful are those of them whose work was committed though it
	// broke a check, or for a task that it had not solved. Not counted of plain Ralph.
	Calls   int `json:"calls"`
	Harmful int `json:"harmful"`
	// Tasks are the solvable ones at which a call had it, Finished those of them
	// that were solved all the same.
	Tasks    int `json:"tasks"`
	Finished int `json:"finished"`
}

// PerTask is how many calls a finished task took in the clean runs.
func (t Totals) PerTask() float64 { return share(t.CleanCalls, t.CleanSolved) }

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// lateLimit is how many calls a loop may still spend on a hopeless task after the
// evidence.
const lateLimit = 3

func total(pairs [][2]outcome, which int) Totals {
	t := Totals{Ends: map[string]int{}, Faults: map[string]FaultTotals{}}
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	for _, both := range pairs {
		o := both[which]
		count(&t.Complete, o.claimed())
		count(&t.Finished, o.finished)
		count(&t.FalseCompletions, o.claimed() && !o.finished)
		count(&t.OverBudget, o.over > 1e-9)
		t.BadCommits += o.badCommits
		t.LostWork += o.lost
		t.Doubled += o.doubled
		t.Solvable += o.tasks
		t.Solved += o.solved
		t.HonestRefused += o.refused
		t.Calls += o.calls
		t.Iterations += o.iterations
		if o.clean {
			t.CleanRuns++
			t.CleanCalls += o.calls
			t.CleanIterations += o.iterations
			t.CleanSolved += o.solved
			t.CleanNeeded += o.needed
		}
		for _, late := range o.late {
			t.Hopeless++
			t.LateMost = max(t.LateMost, late)
			t.LateAll += late
			count(&t.LateOver, late > lateLimit)
		}
		t.Hours += o.elapsed.Hours()
		t.Dollars += o.spent
		t.Ends[string(o.end)]++
		for fault, f := range o.faults {
			sum := t.Faults[string(fault)]
			sum.Calls, sum.Harmful = sum.Calls+f.calls, sum.Harmful+f.harmful
			sum.Tasks, sum.Finished = sum.Tasks+f.tasks, sum.Finished+f.finished
			t.Faults[string(fault)] = sum
		}
		if o.trouble != "" && !slices.Contains(t.Troubles, o.trouble) && len(t.Troubles) < 10 {
			t.Troubles = append(t.Troubles, o.trouble)
		}
	}
	return t
}

// Bar is one thing the loop has to hold.
type Bar struct {
	Name string `json:"name"`
	Held bool   `json:"held"`
	// Is and Must are the measured value and what is asked for, for people.
	Is   string `json:"is"`
	Must string `json:"must"`
}

// barSolved names the bar of what can be solved, and solvedShare is how much of it the loop
// has to solve.
const (
	barSolved   = "solvable tasks finished"
	solvedShare = 0.99
)

func bars(m Mix, loop, plain Totals) []Bar {
	never := func(name string, n int) Bar {
		return Bar{Name: name, Held: n == 0, Is: fmt.Sprint(n), Must: "0"}
	}
	out := []Bar{
		never("false completions", loop.FalseCompletions),
		never("commits whose checks fail", loop.BadCommits),
		never("lost good work", loop.LostWork),
		never("doubled effects", loop.Doubled),
		never("runs over budget", loop.OverBudget),
		never("honest work called failed", loop.HonestRefused),
		never("errors of the loop itself", len(loop.Troubles)),
	}
	if loop.Solvable > 0 {
		out = append(out, Bar{
			Name: barSolved, Held: float64(loop.Solved) >= solvedShare*float64(loop.Solvable),
			Is: percent(loop.Solved, loop.Solvable), Must: fmt.Sprintf("at least %g %%", 100*solvedShare),
		})
	}
	if m.MaxCallRatio > 0 && loop.CleanRuns > 0 {
		ratio := loop.ratio(plain)
		out = append(out, Bar{
			Name: "calls per finished task, of plain Ralph's", Held: loop.CleanSolved > 0 && ratio <= m.MaxCallRatio,
			Is: fmt.Sprintf("%.1f %%", 100*ratio), Must: fmt.Sprintf("at most %g %%", 100*m.MaxCallRatio),
		})
	}
	if m.MaxNeededRatio > 0 && loop.CleanRuns > 0 {
		ratio := share(loop.CleanCalls, loop.CleanNeeded)
		out = append(out, Bar{
			Name: "calls, of those that the finished tasks need", Held: loop.CleanNeeded > 0 && ratio <= m.MaxNeededRatio,
			Is: fmt.Sprintf("%.1f %%", 100*ratio), Must: fmt.Sprintf("at most %g %%", 100*m.MaxNeededRatio),
		})
	}
	if loop.Hopeless > 0 {
		out = append(out, Bar{
			Name: "calls at a hopeless task after the evidence", Held: loop.LateMost <= lateLimit,
			Is: fmt.Sprintf("%d at most", loop.LateMost), Must: fmt.Sprintf("at most %d", lateLimit),
		})
	}
	return out
}

// ratio is how many calls a finished task took, as a share of those of
// another loop; 0 where that finished none.
func (t Totals) ratio(other Totals) float64 {
	if other.PerTask() == 0 {
		return 0
	}
	return t.PerTask() / other.PerTask()
}

func percent(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of))
}
