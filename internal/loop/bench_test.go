package loop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// BenchmarkBeforeAnAgent is what the loop costs before each start of an agent:
// the task is chosen, the history judged, the prompt written. The plan has a
// thousand tasks, the history 500 iterations, the last of which failed. The bar
// is 2 ms.
func BenchmarkBeforeAnAgent(b *testing.B) {
	var body strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&body, "- [ ] Do the %dth of many things\n  - Accept: it is done\n", i+1)
	}
	w := newWorld(b)
	w.gate = func(files, string) bool { return false }
	s := loop.NewState(request(b, body.String()), w.now)
	s.Gates = []gate.Gate{gate.Gate{Name: "check", Command: "go test ./..."}.WithDefaults()}
	s.Limits.MaxIterations, s.Limits.TaskAttempts, s.Limits.RunTimeout = -1, 600, -1
	e := w.engine()
	for s.Iteration < 2 || s.Stage != "pick" {
		next, _, err := e.Step(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		s = next
	}
	// The record as 500 failures leave it, each different enough to be gone on
	// with.
	last := s.Seen[len(s.Seen)-1]
	s.Seen = nil
	for i := range 500 {
		it := last
		it.Number, it.TaskID, it.Landed = i+1, fmt.Sprintf("T%d", i/2+2), i%2 == 1
		it.Shown = fmt.Sprint(i)
		for f := range 20 {
			it.Files = append(it.Files[:min(f, len(it.Files)):min(f, len(it.Files))], fmt.Sprintf("src/pkg%d/file%d.go", i, f))
		}
		s.Seen = append(s.Seen, it)
		s.History = append(s.History, loop.Iteration{
			Number: i + 1, TaskID: it.TaskID, StartedAt: w.now, Duration: time.Minute,
		})
	}
	s.TaskID = ""
	clear(s.Attempts)
	s.Failure = strings.Repeat("--- FAIL: TestThing (0.00s)\n", 100)
	b.ResetTimer()
	for b.Loop() {
		b.StopTimer()
		clear(w.agents)
		b.StartTimer()
		at, _, err := e.Step(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		if at.Stage != "start" || at.Role != run.RoleImplementer {
			b.Fatalf("at %s as %s", at.Stage, at.Role)
		}
		if _, _, err := e.Step(b.Context(), at); err != nil {
			b.Fatal(err)
		}
	}
}
