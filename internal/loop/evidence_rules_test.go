package loop

import (
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// TestTwoAttemptsShowTheSame: which two attempts are evidence that a third will fail as well.
func TestTwoAttemptsShowTheSame(t *testing.T) {
	t.Parallel()
	check := func(output string, tests ...string) failure {
		return failure{Check: &gate.Result{
			Gate: "test", Kind: gate.Test, Reason: "exited", Output: output, Verdict: gate.Verdict{Tests: tests},
		}}
	}
	done := Seen{Outcome: AgentCompleted, ClaimedDone: true}
	unchanged := Seen{Outcome: AgentCompleted, Unchanged: true}
	for name, tt := range map[string]struct {
		first, second       Seen
		firstFail, thenFail failure
		want                bool
	}{
		"the same tests":                         {done, done, check("x", "a"), check("y", "a"), true},
		"other tests":                            {done, done, check("x", "a"), check("x", "b"), false},
		"more tests":                             {done, done, check("x", "a"), check("x", "a", "b"), true},
		"one test fewer":                         {done, done, check("x", "a", "b"), check("x", "a"), true},
		"two tests fewer":                        {done, done, check("x", "a", "b", "c"), check("x", "a"), false},
		"one test mended, another broken":        {done, done, check("x", "a", "b"), check("x", "a", "c"), false},
		"the same words":                         {done, done, check("a.go:1: no x"), check("a.go:17: no x"), true},
		"other words":                            {done, done, check("a.go:1: no x"), check("a.go:1: no y"), false},
		"nothing changed":                        {unchanged, unchanged, failure{Unchanged: true}, failure{Unchanged: true}, true},
		"nothing changed, though a check failed": {unchanged, unchanged, failure{Unchanged: true}, check("x", "a"), true},
		"protected paths":                        {done, done, failure{Refused: true}, failure{Refused: true}, true},
		"broken calls":                           {Seen{Outcome: AgentBroken}, Seen{Outcome: AgentBroken}, failure{}, failure{}, false},
		"tests tampered with": {
			Seen{Tampered: true}, Seen{Tampered: true}, failure{Refused: true}, failure{Refused: true}, false,
		},
		"claims without a change": {
			Seen{ClaimedDone: true, Unchanged: true}, Seen{ClaimedDone: true, Unchanged: true}, failure{Unchanged: true},
			failure{Unchanged: true}, false,
		},
		"a claim without a change and idleness": {
			Seen{ClaimedDone: true, Unchanged: true}, unchanged, failure{Unchanged: true}, failure{Unchanged: true}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make([]Seen, 2)
			for i, f := range []failure{tt.firstFail, tt.thenFail} {
				s := State{}
				s.Draft = []Seen{tt.first, tt.second}[i]
				s.blame(f, "why", "")
				seen[i] = s.Draft
			}
			if got := seen[1].repeats(&seen[0]); got != tt.want {
				t.Errorf("%+v after %+v shows the same: %t, want %t", seen[1], seen[0], got, tt.want)
			}
		})
	}
}

// TestRisk adds up the four signs.
func TestRisk(t *testing.T) {
	t.Parallel()
	calls := func(n int, change func(i int, c *Seen)) (own []*Seen) {
		for i := range n {
			c := &Seen{Role: run.RoleDebugger}
			change(i, c)
			own = append(own, c)
		}
		return own
	}
	for name, tt := range map[string]struct {
		own  []*Seen
		want float64
	}{
		"none":       {nil, 0},
		"one file":   {calls(4, func(_ int, c *Seen) { c.Files = []string{"a.go"} }), 0.3},
		"flat tests": {calls(6, func(_ int, c *Seen) { c.Passing = 7 }), 0.2},
		"old errors": {calls(3, func(_ int, c *Seen) { c.Shown = "x" }), 0.4},
		"new role":   {calls(2, func(i int, c *Seen) { c.Role = run.Roles()[i] }), 0.2},
		"all": {calls(6, func(i int, c *Seen) {
			c.Files, c.Passing, c.Shown, c.Role = []string{"a.go"}, 7, "x", run.Roles()[i%2]
		}), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (&story{own: tt.own}).risk(); got < tt.want-0.001 || got > tt.want+0.001 {
				t.Errorf("risk %v, want %v", got, tt.want)
			}
		})
	}
}

func TestChangedBy(t *testing.T) {
	t.Parallel()
	many := Seen{Signals: run.Signals{Source: 20, Docs: 5}}
	for range 20 {
		many.Files = append(many.Files, "a")
	}
	for want, c := range map[string]Seen{
		"nothing had to be changed": {},
		"changed: a.go":             {Files: []string{"a.go"}, Signals: run.Signals{Source: 1}},
		"changed: a, a, a, a, a, a, a, a, a, a and 15 more": many,
	} {
		if got := changedBy(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
