package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// only is a mix in which nothing but what is named happens.
func only() Mix {
	return Mix{
		Name: "only", Runs: 1, MinTasks: 3, MaxTasks: 5,
		Limits: MixLimits{MaxIterations: 20, RunTimeout: 72 * time.Hour, BudgetUSD: 1000},
	}
}

// playPlain plays runs of the plain loop and gives each with its project.
func playPlain(t *testing.T, m Mix, runs uint64) (projects []*project, outcomes []outcome) {
	t.Helper()
	for i := range runs {
		p := newProject(m, rand.New(rand.NewPCG(1, i)))
		o, err := plain(t.Context(), p, m, rand.New(rand.NewPCG(2, i)))
		if err != nil {
			t.Fatal(err)
		}
		projects, outcomes = append(projects, p), append(outcomes, o)
	}
	return projects, outcomes
}

// Each fault does to a plain loop what its name says, when each call has it.
func TestFaultsAgainstPlainRalph(t *testing.T) {
	t.Parallel()
	lies := func(p *project, o outcome) bool { return o.claimed() && !o.finished }
	tests := map[Fault]struct {
		claim string
		holds func(p *project, o outcome) bool
	}{
		FaultNoOp: {
			"all is ticked, nothing is done, one call a task",
			func(p *project, o outcome) bool { return lies(p, o) && o.solved == 0 && o.calls == len(p.modules)+1 },
		},
		FaultWrong: {
			"a lie, and commits that break checks",
			func(p *project, o outcome) bool { return lies(p, o) && o.solved == 0 && o.badCommits > 0 },
		},
		FaultPretends: {
			"a lie that no check of a commit tells",
			func(p *project, o outcome) bool { return lies(p, o) && o.solved == 0 && o.badCommits == 0 },
		},
		FaultEarlyDone: {
			"over after one call", func(p *project, o outcome) bool { return lies(p, o) && o.calls == 1 && o.solved == 0 },
		},
		FaultTicksAll: {
			"over after one task", func(p *project, o outcome) bool { return lies(p, o) && o.calls == 2 && o.solved == 1 },
		},
		FaultForges: {
			"a task for each call, and as many are dropped",
			func(p *project, o outcome) bool { return lies(p, o) && o.solved == (len(p.modules)+1)/2 },
		},
		FaultBreaksTest: {
			"commits that break checks, and lost work",
			func(p *project, o outcome) bool { return lies(p, o) && o.badCommits > 0 && o.lost > 0 },
		},
		FaultDeletesTest: {
			"broken checks of the base", func(p *project, o outcome) bool { return lies(p, o) && o.badCommits > 0 },
		},
		FaultWeakensTest: {
			"broken checks of the base", func(p *project, o outcome) bool { return lies(p, o) && o.badCommits > 0 },
		},
		FaultThrashes: {
			"nothing solved, and half of the calls claim it",
			func(p *project, o outcome) bool { return !o.finished && o.solved == 0 && o.calls > len(p.modules) },
		},
		FaultCrashes: {
			"no end, and nothing ticked",
			func(p *project, o outcome) bool { return o.end == run.EndMaxIterations && o.calls == 20 },
		},
		FaultHangs: {"half an hour a call", func(p *project, o outcome) bool { return o.elapsed >= 20*plainWall }},
		FaultWronglyThere: {
			"all is ticked, nothing is done",
			func(p *project, o outcome) bool { return lies(p, o) && o.solved == 0 && o.badCommits == 0 },
		},
		FaultNeverClaims: {
			"the first task again and again",
			func(p *project, o outcome) bool { return o.end == run.EndMaxIterations && o.solved == 1 },
		},
		FaultProviderError: {
			"no end, and nothing ticked",
			func(p *project, o outcome) bool { return o.end == run.EndMaxIterations && o.calls == 20 },
		},
		FaultRateLimited: {
			"all iterations burned, none of which worked",
			func(p *project, o outcome) bool { return o.calls == 20 && o.iterations == 0 && o.solved == 0 },
		},
	}
	for fault, tt := range tests {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			m := only()
			m.Calls = map[Fault]float64{fault: 1}
			projects, outcomes := playPlain(t, m, 6)
			for i, o := range outcomes {
				if !tt.holds(projects[i], o) {
					t.Errorf("run %d of %d tasks: want %s, got %+v", i, len(projects[i].modules), tt.claim, o)
				}
			}
		})
	}
}

// What these two do shows over many runs, not in each.
func TestFaultsThatSometimesShow(t *testing.T) {
	t.Parallel()
	for _, fault := range []Fault{FaultHalf, FaultCorrupts} {
		m := only()
		m.Calls = map[Fault]float64{fault: 1}
		_, outcomes := playPlain(t, m, 20)
		if !slices.ContainsFunc(outcomes, func(o outcome) bool { return o.claimed() && !o.finished }) {
			t.Errorf("%s: no run of the plain loop ended with a lie", fault)
		}
	}
}

// Each trait asks of a plain loop what its name says.
func TestTraitsAgainstPlainRalph(t *testing.T) {
	t.Parallel()
	tests := map[Trait]struct {
		claim string
		holds func(p *project, o outcome) bool
	}{
		TraitPlain: {
			"solved, one call a task",
			func(p *project, o outcome) bool { return o.claimed() && o.finished && o.calls == len(p.modules) },
		},
		TraitDefault: {"solved, with another test", func(_ *project, o outcome) bool { return o.claimed() && o.finished }},
		TraitRenames: {"solved, with tests of other names", func(_ *project, o outcome) bool { return o.claimed() && o.finished }},
		TraitRunner:  {"solved, with another runner", func(_ *project, o outcome) bool { return o.claimed() && o.finished }},
		TraitNeedsSplit: {
			"never solved", func(p *project, o outcome) bool { return o.end == run.EndMaxIterations && o.solved == 0 },
		},
		TraitNeedsError: {
			"ticked, never solved", func(p *project, o outcome) bool { return o.claimed() && !o.finished && o.solved == 0 },
		},
		TraitLoops: {
			"the same change until the end",
			func(p *project, o outcome) bool { return o.end == run.EndMaxIterations && o.solved == 0 },
		},
		TraitHopeless: {"no solvable task, no end", func(p *project, o outcome) bool {
			return o.end == run.EndMaxIterations && o.tasks == 0 && len(o.late) > 0
		}},
		TraitPartial: {"solved, in as many calls as it has parts", func(p *project, o outcome) bool {
			return o.claimed() && o.finished && o.calls == o.needed && o.calls > len(p.modules)
		}},
		TraitAlready: {
			"found to be done in the first call",
			func(p *project, o outcome) bool { return o.claimed() && o.finished && o.calls == 1 },
		},
		TraitBlocked: {"no change at all", func(p *project, o outcome) bool {
			return o.end == run.EndMaxIterations && o.tasks == 0 && o.badCommits == 0 && len(o.late) > 0
		}},
		TraitAsks: {"no change at all", func(p *project, o outcome) bool {
			return o.end == run.EndMaxIterations && o.badCommits == 0 && len(o.late) > 0
		}},
	}
	for trait, tt := range tests {
		t.Run("trait "+string(trait), func(t *testing.T) {
			t.Parallel()
			m := only()
			m.Tasks = map[Trait]float64{trait: 1}
			m.Limits.MaxIterations = 30
			projects, outcomes := playPlain(t, m, 6)
			for i, o := range outcomes {
				if !tt.holds(projects[i], o) {
					t.Errorf("run %d of %d tasks: want %s, got %+v", i, len(projects[i].modules), tt.claim, o)
				}
			}
		})
	}
}

// abilities draws a project of one trait and an agent for it.
func abilities(trait Trait) (*project, *agent) {
	m := only()
	m.Tasks = map[Trait]float64{trait: 1}
	p := newProject(m, rand.New(rand.NewPCG(3, 3)))
	return p, &agent{project: p, mix: m, checks: newChecker()}
}

// ask makes one call with a prompt on a tree.
func ask(a *agent, tree files, prompt string) answer {
	return a.work(&call{
		prompt: prompt, tree: &workTree{files: tree, links: map[string]bool{}}, progress: "p.md",
		rnd: rand.New(rand.NewPCG(4, 4)),
	})
}

func TestWhatUnlocksATrait(t *testing.T) {
	t.Parallel()
	for _, trait := range []Trait{TraitNeedsError, TraitLoops} {
		p, a := abilities(trait)
		tree := cloneFiles(p.base)
		mod := p.modules[0]
		prompt := fmt.Sprintf("Mode: build\nTask: T1 Make %s right\n", mod.name)
		for range 2 {
			if ask(a, tree, prompt); mod.held(tree) {
				t.Fatalf("%s: solved without a word of what failed", trait)
			}
		}
		out, passed := a.checks.check(tree, testCommand, false)
		if passed {
			t.Fatalf("%s: the wrong change passes", trait)
		}
		if ask(a, tree, prompt+"\n"+out); !mod.held(tree) {
			t.Errorf("%s: not solved with the error in the prompt:\n%s", trait, out)
		}
	}
	p, a := abilities(TraitNeedsSplit)
	tree := cloneFiles(p.base)
	mod := p.modules[0]
	if ask(a, tree, fmt.Sprintf("Mode: build\nTask: T1 Make %s right\n", mod.name)); mod.held(tree) {
		t.Fatal("needs_split: solved in one go")
	}
	tree["p.md"] = "# Progress: x\n\n## Status\n\nIN_PROGRESS\n\n## Tasks\n\n- [ ] T1 Make " + mod.name + " right\n"
	ask(a, tree, fmt.Sprintf("Mode: split\nTask: T1 Make %s right\n", mod.name))
	var parts []string
	for line := range strings.Lines(tree["p.md"]) {
		if m := taskItem.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil && m[2] == "" {
			parts = append(parts, m[3])
		}
	}
	if len(parts) != len(mod.paths()) {
		t.Fatalf("needs_split: %d parts, want %d:\n%s", len(parts), len(mod.paths()), tree["p.md"])
	}
	for _, part := range parts {
		ask(a, tree, "Mode: build\nTask: T9 "+part+"\n")
	}
	if !mod.held(tree) {
		t.Error("needs_split: not solved part by part")
	}
}

// An agent whose task names no place runs the check and mends what it prints.
func TestAgentMendsWhatTheFinalCheckPrints(t *testing.T) {
	t.Parallel()
	p, a := abilities(TraitPlain)
	tree := cloneFiles(p.base)
	for range len(p.modules) {
		ask(a, tree, "Mode: build\nTask: T9 Make the final check \"accept\" pass\n")
	}
	if !p.done(tree) {
		out, _ := a.checks.check(tree, acceptCommand, false)
		t.Error(out)
	}
}

// What an earlier call broke is mended by one that is told of it.
func TestAgentMendsWhatItIsToldOf(t *testing.T) {
	t.Parallel()
	p, a := abilities(TraitPlain)
	tree := cloneFiles(p.base)
	setPiece(tree, p.old[0], "changed in passing")
	gone := p.modules[0].name + "/" + p.modules[0].name + "_test.go"
	delete(tree, gone)
	prompt := fmt.Sprintf("Mode: build\nTask: T1 Make %s right\n", p.modules[0].name)
	if ask(a, tree, prompt); p.old[0].held(tree) || tree[gone] != "" {
		t.Fatal("mended what nobody told it of")
	}
	out, _ := a.checks.check(tree, testCommand, false)
	ask(a, tree, prompt+"\n"+out+"\nThe test file "+gone+" was deleted.\n")
	if !p.old[0].held(tree) || tree[gone] != p.base[gone] {
		t.Errorf("not mended with this in the prompt:\n%s", out)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	m := only()
	m.Conditions = map[Condition]float64{ConditionFlakyTest: 1, ConditionFailingTest: 1, ConditionSpender: 1}
	p := newProject(m, rand.New(rand.NewPCG(5, 5)))
	c := newChecker()
	ids := func(late bool) []string {
		var out []string
		for _, x := range c.run(p.base, false, late) {
			out = append(out, x.id)
		}
		return out
	}
	if got := ids(false); len(got) != 1 || !p.knownFailing[got[0]] {
		t.Errorf("at the base fail %v, known to fail are %v", got, p.knownFailing)
	}
	if got := ids(true); len(got) != 2 {
		t.Errorf("with the flaky test fail %v, want two", got)
	}
	if broke := c.broke(p, p.base); len(broke) != 0 {
		t.Errorf("the base breaks %v", broke)
	}
	projects, outcomes := playPlain(t, m, 10)
	for i, o := range outcomes {
		if o.tasks != 0 || o.clean {
			t.Errorf("run %d counts as one whose budget covers the tasks", i)
		}
	}
	if !slices.ContainsFunc(outcomes, func(o outcome) bool { return o.over > 0 }) {
		t.Errorf("no run of %d spent too much", len(projects))
	}
}

// What the checks print is read by the program as it reads real tools.
func TestChecksPrintWhatToolsPrint(t *testing.T) {
	t.Parallel()
	p, _ := abilities(TraitPlain)
	c := newChecker()
	tree := cloneFiles(p.base)
	x := p.modules[0].pieces[0]
	if out, passed := c.check(tree, testCommand, false); !passed {
		t.Fatalf("go test fails at the base:\n%s", out)
	}
	out, passed := c.check(tree, acceptCommand, false)
	if facts := gate.Read(out); passed || len(facts.FailedTests) > 0 {
		t.Errorf("accept at the base: passed %t, names the tests %v", passed, facts.FailedTests)
	}
	setPiece(tree, x, "mistaken")
	out, passed = c.check(tree, testCommand, false)
	if facts := gate.Read(out); passed || len(facts.FailedTests) == 0 ||
		!strings.Contains(out, fmt.Sprintf("want %q", x.value)) {
		t.Errorf("go test with a wrong value: passed %t, names %v, prints\n%s", passed, facts.FailedTests, out)
	}
	tree[x.file] += broken + "\n"
	if out, passed := c.check(tree, vetCommand, false); passed || !strings.Contains(out, x.file) {
		t.Errorf("go vet: passed %t, prints\n%s", passed, out)
	}
	if out, passed := c.check(tree, testCommand, false); passed || !strings.Contains(out, "build failed") {
		t.Errorf("go test of what does not compile: passed %t, prints\n%s", passed, out)
	}
	for _, m := range p.modules {
		for _, x := range m.pieces {
			setPiece(tree, x, x.value)
		}
	}
	for _, command := range []string{vetCommand, testCommand, acceptCommand} {
		if out, passed := c.check(tree, command, false); !passed {
			t.Errorf("%s of the finished project:\n%s", command, out)
		}
	}
}

func TestMeterOfTheTruth(t *testing.T) {
	t.Parallel()
	m := only()
	m.Tasks = map[Trait]float64{TraitHopeless: 1}
	p := newProject(m, rand.New(rand.NewPCG(6, 6)))
	meter := newMeter(p, newChecker())
	x := p.modules[0].pieces[0]
	right := cloneFiles(p.base)
	for _, x := range p.modules[0].pieces {
		setPiece(right, x, x.value)
	}
	wrong := cloneFiles(right)
	setPiece(wrong, x, "stuck")
	for _, tree := range []files{right, wrong, wrong, right, wrong} {
		meter.landed(tree)
	}
	at := answer{ending: endedWell, focus: p.modules[0].name, cost: 1}
	meter.called(at, meter.before(p.base), wrong)
	meter.committed(wrong, nil, []aim{{module: p.modules[0]}})
	for range 4 {
		meter.called(at, meter.before(p.base), wrong)
	}
	meter.called(answer{ending: endedRefused}, "", wrong)
	meter.called(answer{ending: endedCrashed, focus: at.focus}, "", wrong)
	var o outcome
	meter.finish(&o, wrong, time.Hour)
	if o.badCommits != 2 || o.lost != 1 {
		t.Errorf("%d bad commits and %d lost values, want 2 and 1", o.badCommits, o.lost)
	}
	if o.calls != 7 || o.iterations != 6 || o.spent != 5 {
		t.Errorf("%d calls, %d iterations, $%g; want 7, 6 and $5", o.calls, o.iterations, o.spent)
	}
	if !slices.Equal(o.late, []int{2}) {
		t.Errorf("calls after the evidence: %v, want two after the second of the same outcome since the commit", o.late)
	}
}
