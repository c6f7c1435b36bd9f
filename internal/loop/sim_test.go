package loop_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// mix says of what runs are made: the shares of calls with each fault, besides them of calls at each
// job but building, of tasks with each trait, and of runs that are odd.
type mix struct {
	tasks           int // at least, and less than three times as many
	calls           map[fault]float64
	jobs            map[string]map[fault]float64
	traits          map[trait]float64
	flaky, failing  float64 // a test that has nothing to do with the tasks fails now and then, or at the base
	planned, review float64 // the issue is prose, and a planner writes the tasks; all is reviewed at the end
	// crash is the chance, after each step, that the host dies before it has saved the state; half of
	// the time the agent or check dies with it.
	crash float64
}

// mixes are what `make sim` measures, and how many runs of them there are for each seed.
var mixes = []struct {
	name string
	runs int
	mix
	// solved is the share of the solvable tasks that has to be finished, late how many calls there may
	// be at a task that nobody can do.
	solved float64
	late   int
	// waste is how many calls there may be for one that the finished tasks need, 0 for any number.
	waste float64
}{
	{name: "faulty", runs: 20, solved: 0.99, late: 10, mix: mix{
		tasks: 4,
		calls: map[fault]float64{
			noOp: 0.03, wrong: 0.05, half: 0.03, pretends: 0.01, earlyDone: 0.03, ticksAll: 0.04, forges: 0.03,
			breaksTest: 0.03, deletesTest: 0.02, weakensTest: 0.02, crashes: 0.01, hangs: 0.02, rateLimited: 0.02, corrupts: 0.03,
			wronglyThere: 0.01, neverClaims: 0.01, providerLast: 0.01,
		},
		jobs: map[string]map[fault]float64{
			"plan":   {emptyPlan: 0.15, touchesCode: 0.15},
			"review": {reopensGood: 0.15, passesAll: 0.15, endless: 0.15},
			"verify": {objects: 0.04, noAnswer: 0.04, agrees: 0.02},
		},
		traits: map[trait]float64{
			needsSplit: 0.08, needsError: 0.2, hopeless: 0.02, needsHelp: 0.02, partial: 0.02, doneAlready: 0.02,
		},
		flaky: 0.1, failing: 0.1, planned: 0.2, review: 0.2, crash: 0.004,
	}},
	{name: "honest", runs: 6, solved: 1, waste: 1.05, mix: mix{
		tasks:  4,
		traits: map[trait]float64{partial: 0.10, doneAlready: 0.10, newDefault: 0.10, renames: 0.05, newRunner: 0.05},
	}},
	{name: "hopeless", runs: 10, solved: 0.99, late: 10, mix: mix{
		tasks: 2,
		calls: map[fault]float64{
			noOp: 0.02, wrong: 0.03, ticksAll: 0.03, earlyDone: 0.02, crashes: 0.02, rateLimited: 0.02, wronglyThere: 0.02,
		},
		traits: map[trait]float64{hopeless: 0.35, needsHelp: 0.25, needsError: 0.05, partial: 0.05, doneAlready: 0.05},
	}},
	{name: "dying", runs: 4, solved: 1, mix: mix{tasks: 2, crash: 0.2}},
}

// tally sums up runs, measured against the truth.
type tally struct {
	Runs, Complete, Calls, Solvable, Solved int
	// Needed is how many calls the solved tasks take by their nature.
	Needed int
	// AtHopeless is the most calls that a task nobody can do has cost.
	AtHopeless int
	// What must never happen: a run called complete whose tree is not what was wanted; commits that
	// break what passed at the base and on the commit before; values that were right on a commit and
	// are wrong on a later one; commits made twice; honest work that was called failed.
	FalseCompletions, BadCommits, Lost, Doubled, HonestFailed int
	// Troubles are errors of the loop itself.
	Troubles []string
}

func (t tally) never() bool {
	return t.FalseCompletions+t.BadCommits+t.Lost+t.Doubled+t.HonestFailed+len(t.Troubles) == 0
}

func (t tally) with(o tally) tally {
	return tally{
		t.Runs + o.Runs, t.Complete + o.Complete, t.Calls + o.Calls, t.Solvable + o.Solvable, t.Solved + o.Solved,
		t.Needed + o.Needed, max(t.AtHopeless, o.AtHopeless), t.FalseCompletions + o.FalseCompletions,
		t.BadCommits + o.BadCommits, t.Lost + o.Lost, t.Doubled + o.Doubled, t.HonestFailed + o.HonestFailed, append(t.Troubles, o.Troubles...),
	}
}

// simulation is a run of a project.
type simulation struct {
	*world
	*project
	mix     mix
	rnd     *rand.Rand
	limited time.Time // when the provider answers again, told whether it says so
	told    bool
	calls   int
	last    *call          // the call that ended last
	fresh   string         // what was started in this step
	at      map[string]int // calls at tasks that nobody can do, by module
	// unjust are calls whose honest part of the work was called failed, rightly the tasks that an
	// honest call had done and said so.
	unjust, rightly map[string]bool
}

// playMix plays runs of a mix.
func playMix(t *testing.T, m mix, seed uint64, runs int) (sum tally) {
	t.Helper()
	each := make([]tally, runs)
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for i := range each {
		places <- struct{}{}
		group.Go(func() {
			each[i] = simulate(t, m, rand.New(rand.NewPCG(seed, uint64(i))))
			<-places
		})
	}
	group.Wait()
	for _, one := range each {
		sum = sum.with(one)
	}
	return sum
}

// simulate plays one run. What a step that the host died in has done stays done, but its state is
// lost, and the run goes on from the one before, as it was stored.
func simulate(t *testing.T, m mix, rnd *rand.Rand) tally {
	const (
		maxSteps    = 50_000
		maxTroubles = 5 // steps that may fail in a row, as both doors have it
		readBack    = 8 // after so many steps a run goes on from what was stored, though nobody died
	)
	p := newProject(m, rnd)
	w := newWorld(t)
	s := &simulation{
		world: w, project: p, mix: m, rnd: rnd,
		last: &call{}, at: map[string]int{}, unjust: map[string]bool{}, rightly: map[string]bool{},
	}
	w.landed = []loop.Landed{{OID: "base", Tree: w.store(p.base)}}
	w.agent, w.judge = s.answer, s.judge
	prose, policy := rnd.Float64() < m.planned, loop.ReviewNever
	if rnd.Float64() < m.review {
		policy = loop.ReviewAlways
	}
	wanted, err := plan.FromIssue("Bring the values up to date", p.issue(prose))
	if err != nil {
		return tally{Troubles: []string{err.Error()}}
	}
	limits := run.DefaultLimits()
	limits.MaxIterations, limits.RunTimeout = 80, 72*time.Hour
	state := loop.NewState(loop.Request{
		Run: "sim", Plan: wanted,
		Subject: loop.Subject{Key: "issue:I_1", Slug: "1", Name: wanted.Title, PlanFile: "issue #1"},
		Settings: loop.Settings{Ask: plan.AskNever, Review: policy, Limits: limits, Gates: []gate.Gate{
			{Name: "go vet", Kind: gate.Lint, Command: vetCommand},
			{Name: "go test", Kind: gate.Test, Command: testCommand},
			{Name: "accept", Command: acceptCommand, When: gate.Final},
		}},
	}, w.now)
	engine := w.engine()
	engine.Emit = s.hear
	stored, err := loop.Encode(state)
	troubles := 0
	for step := 0; err == nil && step < maxSteps; step++ {
		s.fresh = ""
		next, n, stepErr := engine.Step(t.Context(), state)
		if stepErr != nil {
			if troubles++; troubles == maxTroubles {
				return tally{Troubles: []string{stepErr.Error()}}
			}
			continue
		}
		troubles = 0
		if n.Kind == loop.Done {
			return s.measure(next)
		}
		died := rnd.Float64() < m.crash
		switch {
		case died && s.fresh != "" && rnd.IntN(2) == 0:
			w.removed[s.fresh] = true
			if c := s.last; c.name == s.fresh {
				c.end.Outcome = loop.AgentBroken
				delete(s.rightly, c.id)
			}
		case died:
		case n.Kind == loop.Sleep:
			w.now = n.Until
		}
		if !died {
			state = next
			stored, err = loop.Encode(state)
		}
		if err == nil && (died || step%readBack == 0) {
			state, err = loop.Decode(stored)
		}
	}
	return tally{Troubles: []string{fmt.Sprintf("the run does not end: it is at %s: %v", state.Stage, err)}}
}

// judge runs a check.
func (s *simulation) judge(tree files, g loop.GateStart) gate.Result {
	s.fresh = g.Name
	out, passed := check(tree, g.Gate.Command, s.rnd.Float64() < 0.3)
	r := gate.Result{Passed: passed, Reason: "exited", Output: out, Facts: gate.Read(out)}
	if !passed {
		r.ExitCode = 1
	}
	return r
}

// hear notes what the loop makes of the call that ended last.
func (s *simulation) hear(ev run.Event) {
	if c := s.last; ev.Kind == run.EventAttemptFailed && c.id == ev.TaskID && c.honest() && c.inPart {
		if n, _ := c.right(); n > c.before {
			s.unjust[c.name] = true
		}
	}
}

// honest says whether the call did what it could and said what is so.
func (c *call) honest() bool { return c.fault == "" && c.end.Outcome == loop.AgentCompleted }

// measure compares what came of the run with the truth.
func (s *simulation) measure(end loop.State) tally {
	out := tally{Runs: 1, Calls: s.calls, HonestFailed: len(s.unjust)}
	tip := s.trees[s.head().Tree]
	if end.End.Complete() {
		out.Complete++
		if !s.done(tip) {
			out.FalseCompletions++
		}
	}
	for _, m := range s.modules {
		if m.trait.solvable() {
			if out.Solvable++; m.holds(tip) {
				out.Solved, out.Needed = out.Solved+1, out.Needed+m.needs()
			}
		} else {
			out.AtHopeless = max(out.AtHopeless, s.at[m.name])
		}
	}
	var trees []files
	for _, c := range s.landed {
		trees = append(trees, s.trees[c.Tree])
	}
	out.BadCommits, out.Lost = s.damages(trees)
	known, seen := len(end.Commits), map[string]bool{}
	if end.Closing != nil {
		known++
	}
	out.Doubled = len(s.commits) - known
	for _, c := range s.commits {
		if c.Closing || c.Recorded || c.Planned {
			continue
		}
		if seen[c.Task.ID] {
			out.Doubled++
		}
		seen[c.Task.ID] = true
	}
	// Tasks that are given up though they were done; a run that ends at a limit gives up nothing.
	if doc, err := progress.Parse([]byte(end.Progress)); err != nil {
		out.Troubles = append(out.Troubles, err.Error())
	} else if slices.Contains([]run.EndReason{run.EndBlocked, run.EndAwaitingPerson, run.EndStagnated}, end.End) {
		for _, t := range doc.Tasks() {
			asked := slices.ContainsFunc(end.Needs, func(n loop.Need) bool { return n.TaskID == t.ID })
			if t.Status != run.TaskDone && !asked && s.rightly[t.ID] {
				out.HonestFailed++
			}
		}
	}
	return out
}

// damages counts the commits that break what passed at the base and on the commit before, and the
// values that were right on a commit and are wrong on a later one.
func (p *project) damages(trees []files) (bad, lost int) {
	var before []string
	held, gone := map[piece]bool{}, map[piece]bool{}
	for _, f := range trees {
		now := p.broken(f)
		if slices.ContainsFunc(now, func(id string) bool { return !slices.Contains(before, id) }) {
			bad++
		}
		before = now
		for _, x := range p.pieces() {
			if x.holds(f) {
				held[x] = true
			} else if held[x] {
				gone[x] = true
			}
		}
	}
	return bad, len(gone)
}

// TestSimulation plays the mixes on the seeds 1 to 5 or, for `make sim`, on RALPH_TEST_SEED with
// RALPH_TEST_RUNS times as many runs.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds, times := []uint64{1, 2, 3, 4, 5}, 1
	if text := os.Getenv("RALPH_TEST_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	if text := os.Getenv("RALPH_TEST_RUNS"); text != "" {
		var err error
		if times, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range mixes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			var sum tally
			for _, seed := range seeds {
				sum = sum.with(playMix(t, m.mix, seed, times*m.runs))
			}
			share := float64(sum.Solved) / float64(sum.Solvable)
			t.Logf("%.2f %% of the solvable tasks are finished: %+v", 100*share, sum)
			if !sum.never() {
				t.Errorf("seeds %d, %d runs each: what must never happen has happened", seeds, times*m.runs)
			}
			calls := float64(sum.Calls) / float64(sum.Needed)
			if share < m.solved || sum.AtHopeless > m.late || m.waste > 0 && calls > m.waste {
				t.Errorf("want at least %g %%, at most %d calls at a hopeless task, and at most %g for one that is needed",
					100*m.solved, m.late, m.waste)
			}
		})
	}
}

// Any one fault at a third of all calls, or at half of those of its job.
func TestNoFaultIsBelieved(t *testing.T) {
	t.Parallel()
	alone := map[fault]mix{}
	for f := range mixes[0].calls {
		alone[f] = mix{tasks: 3, calls: map[fault]float64{f: 0.33}}
	}
	for job, faults := range mixes[0].jobs {
		for f := range faults {
			alone[f] = mix{
				tasks: 3, planned: 1, review: 1, traits: map[trait]float64{doneAlready: 0.5},
				jobs: map[string]map[fault]float64{job: {f: 0.5}},
			}
		}
	}
	for f, m := range alone {
		if got := playMix(t, m, 3, 4); !got.never() || got.Solved == 0 {
			t.Errorf("%s: %+v", f, got)
		}
	}
}

// Whoever believes the agents lands what the truth finds out, and nothing is found where they are honest.
func TestTruthOfTheSimulation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault                fault
		finished, bad, loses bool
	}{
		{"", true, false, false},
		{noOp, false, false, false},
		{wrong, false, true, false},
		{pretends, false, false, false},
		{wronglyThere, false, false, false},
		{earlyDone, false, false, false},
		{deletesTest, false, true, false},
		{weakensTest, false, true, false},
		{breaksTest, false, true, true},
	} {
		rnd := rand.New(rand.NewPCG(4, 4))
		m := mix{tasks: 4, calls: map[fault]float64{tt.fault: 1}, flaky: 1, failing: 1}
		s := &simulation{world: newWorld(t), project: newProject(m, rnd), mix: m, rnd: rnd, rightly: map[string]bool{}}
		s.work = maps.Clone(s.base)
		trees := []files{s.base}
		for i, mod := range s.modules {
			prompt := fmt.Sprintf("Mode: build\nTask: T%d Make %s right\n", i+1, mod.name)
			s.answer(s.world, loop.State{}, loop.AgentStart{Prompt: prompt})
			if trees = append(trees, maps.Clone(s.work)); !s.last.claimed {
				t.Errorf("%q claims nothing", tt.fault)
			}
		}
		bad, lost := s.damages(trees)
		if got := s.done(s.work); got != tt.finished || bad > 0 != tt.bad || lost > 0 != tt.loses {
			t.Errorf("%q: finished %t, %d bad commits, %d values lost", tt.fault, got, bad, lost)
		}
	}
}

// The same seed gives the same runs, and another seed gives others.
func TestSimulationIsRepeatable(t *testing.T) {
	t.Parallel()
	first, second := playMix(t, mixes[0].mix, 11, 2), playMix(t, mixes[0].mix, 11, 2)
	if other := playMix(t, mixes[0].mix, 12, 2); !cmp.Equal(first, second) || cmp.Equal(first, other) {
		t.Errorf("seed 11 gives %+v and %+v, seed 12 %+v", first, second, other)
	}
}
