package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/prompt"
)

// What honest agents say is read as what they mean, however they put it.
func TestHonestAgentsAreUnderstood(t *testing.T) {
	t.Parallel()
	for trait, want := range map[Trait]prompt.ClaimKind{
		TraitPlain: prompt.ClaimDone, TraitAlready: prompt.ClaimDone, TraitPartial: prompt.ClaimPartial,
		TraitHopeless: prompt.ClaimFailed, TraitLoops: prompt.ClaimFailed, TraitAsks: prompt.ClaimBlocked, TraitBlocked: prompt.ClaimBlocked,
	} {
		p, a := abilities(trait)
		for i := range uint64(8) {
			mod := p.modules[int(i)%len(p.modules)]
			list := "- [ ] T1 Make " + mod.name + " right\n"
			tree := cloneFiles(p.base)
			tree["p.md"] = list
			out := a.work(&call{
				prompt:   "Mode: build\nTask: T1 Make " + mod.name + " right\n",
				tree:     &workTree{files: tree, links: map[string]bool{}},
				progress: "p.md", rnd: rand.New(rand.NewPCG(7, i)),
			})
			ticked := tree["p.md"] != list && strings.Contains(tree["p.md"], "[x] T1")
			got := prompt.ReadClaim(out.final)
			if ticked {
				got = got.Ticked()
			}
			if got.Kind != want || got.Contradicted {
				t.Errorf("%s: %q with the box ticked %t is read as %+v, want %s", trait, out.final, ticked, got, want)
			}
		}
	}
}

// Who works in parts says what is left until nothing is.
func TestPartsAreDoneOneByOne(t *testing.T) {
	t.Parallel()
	p, a := abilities(TraitPartial)
	mod := p.modules[0]
	tree := cloneFiles(p.base)
	for i := range mod.needs() {
		out := ask(a, tree, "Mode: build\nTask: T1 Make "+mod.name+" right\n")
		last := i == mod.needs()-1
		if out.partial == last || out.claimed != last || !out.better || out.solved != last {
			t.Errorf("call %d of %d: %+v", i+1, mod.needs(), out)
		}
		if passed := vet(tree) == ""; !passed {
			t.Errorf("call %d leaves what does not compile", i+1)
		}
	}
}

// A verifier answers each criterion by what the tree holds, and its faults are what
// their names say.
func TestVerifier(t *testing.T) {
	t.Parallel()
	p, _ := abilities(TraitPlain)
	mod := p.modules[0]
	done := cloneFiles(p.base)
	var criteria []string
	for i, x := range mod.pieces {
		setPiece(done, x, x.value)
		criteria = append(criteria, fmt.Sprintf("%d. %s: %s is %q", i+1, x.file, x.name, x.value))
	}
	head := "Mode: verify\nTask: T1 Make " + mod.name + " right\n\n## What to answer\n\n"
	values, whole := head+strings.Join(criteria, "\n")+"\n", head+"1. its values are those of the plan\n"
	for _, tt := range []struct {
		name   string
		fault  VerifyFault
		tree   files
		prompt string
		agreed bool
	}{
		{"the values are there", "", done, values, true},
		{"they are not", "", p.base, values, false},
		{"the whole is there", "", done, whole, true},
		{"it is not", "", p.base, whole, false},
		{"it objects to what is there", VerifyObjects, done, values, false},
		{"it gives no answer", VerifyNoAnswer, done, values, false},
		{"it agrees to what is not there", VerifyAgrees, p.base, values, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := only()
			if tt.fault != "" {
				m.Verifier = map[VerifyFault]float64{tt.fault: 1}
			}
			tree := cloneFiles(tt.tree)
			out := ask(&agent{project: p, mix: m, checks: newChecker()}, tree, tt.prompt)
			n := 1
			if tt.prompt == values {
				n = len(criteria)
			}
			got := prompt.ReadVerification(out.final, n)
			if got.Agreed != tt.agreed || tt.fault == "" && !tt.agreed && !strings.Contains(got.Objection, mod.pieces[0].value) {
				t.Errorf("%q is read as %+v", out.final, got)
			}
			if digest(tree) != digest(tt.tree) {
				t.Error("it changed the tree")
			}
		})
	}
}

// Honest work is called failed where an attempt fails that had got further and said
// what is left, and where a task is given up that was done and said to be.
func TestMeterOfHonestWork(t *testing.T) {
	t.Parallel()
	p, _ := abilities(TraitPlain)
	done := cloneFiles(p.base)
	for _, x := range p.modules[0].pieces {
		setPiece(done, x, x.value)
	}
	partial := answer{ending: endedWell, job: "build", task: "T1", partial: true, better: true}
	whole := answer{ending: endedWell, job: "build", task: "T1", claimed: true, better: true, solved: true}
	with := func(a answer, change func(*answer)) answer {
		change(&a)
		return a
	}
	for _, tt := range []struct {
		name    string
		call    answer
		failed  bool
		givenUp []string
		want    int
	}{
		{"a part that goes on", partial, false, nil, 0},
		{"a part that fails", partial, true, nil, 1},
		{"no part at all", with(partial, func(a *answer) { a.better = false }), true, nil, 0},
		{"a part of a faulty call", with(partial, func(a *answer) { a.fault = FaultForges }), true, nil, 0},
		{"a part that was cut off", with(partial, func(a *answer) { a.ending = endedCutOff }), true, nil, 0},
		{"the whole is given up", whole, true, []string{"T1"}, 1},
		{"another task is given up", whole, true, []string{"T2"}, 0},
		{"what was not whole is given up", with(whole, func(a *answer) { a.solved = false }), true, []string{"T1"}, 0},
	} {
		m := newMeter(p, newChecker())
		m.called(tt.call, m.before(p.base), done)
		if tt.failed {
			m.failed("T1")
			m.failed("T1") // a host that died says it twice
		}
		o := outcome{givenUp: tt.givenUp}
		m.finish(&o, p.base, time.Hour)
		if o.refused != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, o.refused, tt.want)
		}
	}
}
