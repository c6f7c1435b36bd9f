package sim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// builtIn is a mix that comes with the program.
func builtIn(t *testing.T, name string) Mix {
	t.Helper()
	all, err := BuiltInMixes()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("there is no mix %q", name)
	return Mix{}
}

func play(t *testing.T, m Mix, seed uint64, runs int) Result {
	t.Helper()
	r, err := Run(t.Context(), m, seed, runs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The same seed gives the same report, however many workers play the runs and in
// which order; another seed gives other runs.
func TestSameSeedGivesSameReport(t *testing.T) {
	for _, name := range []string{"faulty", "honest", "hopeless", "passes"} {
		m := builtIn(t, name)
		many := play(t, m, 11, 2)
		old := runtime.GOMAXPROCS(1)
		one := play(t, m, 11, 2)
		runtime.GOMAXPROCS(old)
		if diff := cmp.Diff(Markdown([]Result{many}), Markdown([]Result{one})); diff != "" {
			t.Errorf("%s: the second report differs:\n%s", name, diff)
		}
		if name == "faulty" && cmp.Equal(many.Loop, play(t, m, 12, 2).Loop) {
			t.Error("another seed gives the same runs")
		}
	}
}

// What must never happen does not happen in mixes that the loop was not made for
// either; docs/simulation.md has their other numbers.
func TestOtherMixes(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.yml")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d mixes: %v", len(names), err)
	}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := ParseMix(name, src)
		if err != nil {
			t.Fatal(err)
		}
		r := play(t, m, 3, 2)
		if l := r.Loop; l.Solved == 0 || l.FalseCompletions+l.BadCommits+l.LostWork+l.Doubled+l.OverBudget+len(l.Troubles)+
			l.LateOver > 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// The bars of `make sim`, on a few runs of each mix. One task more or less is 1 % of so
// few: of what can be solved these have to solve 95 %, and all of it where agents are
// honest.
func TestBars(t *testing.T) {
	t.Parallel()
	for _, mix := range []string{"faulty", "honest", "hopeless", "passes"} {
		t.Run(mix, func(t *testing.T) {
			t.Parallel()
			r := play(t, builtIn(t, mix), 6, 12)
			for _, b := range r.Bars {
				few := mix != "honest" && b.Name == barSolved && float64(r.Loop.Solved) >= 0.95*float64(r.Loop.Solvable)
				if !b.Held && !few {
					t.Errorf("%s: is %s, must be %s", b.Name, b.Is, b.Must)
				}
			}
		})
	}
}

// Any one fault at a third of all calls.
func TestLoopBelievesNoFault(t *testing.T) {
	t.Parallel()
	for _, fault := range Faults() {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			m := only()
			m.Calls = map[Fault]float64{fault: 0.33}
			got := play(t, m, 3, 4).Loop
			if n := got.FalseCompletions + got.BadCommits + got.LostWork + got.OverBudget + got.Doubled +
				len(got.Troubles); n > 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Any one fault of a planner or verifier at a quarter of its calls, or of a reviewer at
// half.
func TestPlannersReviewersAndVerifiersAreNotBelieved(t *testing.T) {
	t.Parallel()
	whole := func(change func(*Mix)) Mix {
		m := only()
		m.Conditions = map[Condition]float64{ConditionPlanned: 1, ConditionReviewed: 1}
		change(&m)
		return m
	}
	mixes := map[string]Mix{}
	for _, f := range PlanFaults() {
		mixes[string(f)] = whole(func(m *Mix) { m.Planner = map[PlanFault]float64{f: 0.25} })
	}
	for _, f := range VerifyFaults() {
		mixes[string(f)] = whole(func(m *Mix) {
			m.Verifier, m.Tasks = map[VerifyFault]float64{f: 0.25}, map[Trait]float64{TraitAlready: 0.5}
		})
	}
	for _, f := range ReviewFaults() {
		mixes[string(f)] = whole(func(m *Mix) { m.Reviewer = map[ReviewFault]float64{f: 0.5} })
	}
	for name, m := range mixes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := play(t, m, 3, 12).Loop
			if n := got.FalseCompletions + got.BadCommits + got.LostWork + got.Doubled + len(got.Troubles); n > 0 ||
				got.Solved != got.Solvable {
				t.Errorf("%+v", got)
			}
			if f := got.Faults[name]; f.Calls == 0 || f.Harmful > 0 {
				t.Errorf("of the fault: %+v", f)
			}
		})
	}
}

// What an earlier run of the same project has noted saves calls, and what one of
// another has does no harm.
func TestMergedNotesSaveCalls(t *testing.T) {
	t.Parallel()
	m := only()
	m.Tasks = map[Trait]float64{TraitNeedsError: 1}
	without := play(t, m, 5, 10).Loop
	m.Conditions = map[Condition]float64{ConditionTaught: 1}
	with := play(t, m, 5, 10).Loop
	if with.Solved != with.Solvable || without.Solved != without.Solvable || with.Calls >= without.Calls {
		t.Errorf("%d calls with notes and %d without, for %d and %d of %d tasks", with.Calls, without.Calls, with.Solved,
			without.Solved, with.Solvable)
	}
}

// With the host dying after every fifth step, all is finished and nothing happens
// twice.
func TestCrashesLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	m := only()
	m.Crash = maxCrash
	got := play(t, m, 4, 20).Loop
	if got.Finished != 20 || got.Complete != 20 || got.Doubled > 0 || got.LostWork > 0 || len(got.Troubles) > 0 {
		t.Errorf("of 20 runs: %+v", got)
	}
}

// The budget is never exceeded, however soon it is used up.
func TestBudgetIsNeverExceeded(t *testing.T) {
	t.Parallel()
	m := only()
	m.Conditions = map[Condition]float64{ConditionSpender: 1}
	got := play(t, m, 4, 20)
	if got.Loop.OverBudget > 0 || got.Loop.Ends["budget_exhausted"] != 20 {
		t.Errorf("the loop: %+v", got.Loop)
	}
	if got.Plain.OverBudget == 0 {
		t.Error("plain Ralph, which knows no budget, kept it")
	}
}

func TestRunStopsWhenCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := Run(ctx, only(), 1, 4); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestParseMix(t *testing.T) {
	t.Parallel()
	const head = "name: mine\nruns: 5\nmin_tasks: 1\nmax_tasks: 3\n"
	m, err := ParseMix("mine.yml", []byte(head+"calls: {no_op: 0.5}\nruns_with: {flaky_test: 1, spender: 1}\nlimits: {run_timeout: 72h, budget_usd: 3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Mix{
		Name: "mine", Runs: 5, MinTasks: 1, MaxTasks: 3, Calls: map[Fault]float64{FaultNoOp: 0.5},
		Conditions: map[Condition]float64{ConditionFlakyTest: 1, ConditionSpender: 1},
		Limits:     MixLimits{RunTimeout: 72 * time.Hour, BudgetUSD: 3},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct{ name, src, hint string }{
		{"no name", "runs: 1\nmin_tasks: 1\nmax_tasks: 1\n", "name"},
		{"unknown key", head + "color: red\n", "color"},
		{"unknown fault", head + "calls: {sings: 0.1}\n", "calls knows only"},
		{"unknown fault of a planner", head + "planner: {sings: 0.1}\n", "planner knows only"},
		{"unknown fault of a reviewer", head + "reviewer: {sings: 0.1}\n", "reviewer knows only"},
		{"unknown trait", head + "tasks: {sings: 0.1}\n", "tasks knows only"},
		{"unknown fault of a verifier", head + "verifier: {sings: 0.1}\n", "verifier knows only"},
		{"negative ratio of needed calls", head + "max_needed_ratio: -1\n", "max_needed_ratio"},
		{"share too large", head + "runs_with: {spender: 1.5}\n", "runs_with.spender"},
		{"negative share", head + "calls: {no_op: -0.1}\n", "calls.no_op"},
		{"shares above one", head + "calls: {no_op: 0.6, wrong: 0.6}\n", "together"},
		{"no runs", strings.Replace(head, "runs: 5", "runs: 0", 1), "runs"},
		{"tasks out of order", strings.Replace(head, "min_tasks: 1", "min_tasks: 9", 1), "min_tasks"},
		{"too many tasks", strings.Replace(head, "max_tasks: 3", "max_tasks: 9000", 1), "max_tasks"},
		{"crash too likely", head + "crash: 0.9\n", "crash"},
		{"negative ratio", head + "max_call_ratio: -1\n", "max_call_ratio"},
		{"no mapping", "- a\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseMix("mine.yml", []byte(tt.src))
			user, ok := errors.AsType[*run.UserError](err)
			if !ok || !strings.Contains(user.Hint, tt.hint) {
				t.Errorf("got %v, want a hint with %q", err, tt.hint)
			}
		})
	}
}

func TestBarsFollowFromTotals(t *testing.T) {
	t.Parallel()
	loop := Totals{
		Solvable: 100, Solved: 98, CleanRuns: 1, CleanCalls: 70, CleanSolved: 10, CleanNeeded: 50, Hopeless: 1, LateMost: 4,
		FalseCompletions: 1,
		HonestRefused:    2,
	}
	plain := Totals{CleanCalls: 100, CleanSolved: 10}
	var failed []string
	for _, b := range bars(Mix{MaxCallRatio: 0.6, MaxNeededRatio: 1.05}, loop, plain) {
		if !b.Held {
			failed = append(failed, b.Name+": "+b.Is)
		}
	}
	want := []string{
		"false completions: 1", "honest work called failed: 2", "solvable tasks finished: 98.00 %",
		"calls per finished task, of plain Ralph's: 70.0 %",
		"calls, of those that the finished tasks need: 140.0 %",
		"calls at a hopeless task after the evidence: 4 at most",
	}
	if diff := cmp.Diff(want, failed); diff != "" {
		t.Error(diff)
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	doc := "before\n" + reportBegin + "old\n" + reportEnd + "after\n"
	once, err := Update(doc, "new")
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + reportBegin + "\nnew\n" + reportEnd + "after\n"; once != want {
		t.Errorf("got %q", once)
	}
	if twice, err := Update(once, "new"); err != nil || twice != once {
		t.Errorf("a second time: %q, %v", twice, err)
	}
	for _, doc := range []string{"", reportBegin, reportEnd + reportBegin} {
		if _, err := Update(doc, "new"); err == nil {
			t.Errorf("%q has a place for the report", doc)
		}
	}
}
