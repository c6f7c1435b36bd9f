package loop_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

func (w *world) needsSetup() {
	w.setup = &loop.Setup{
		Commands: []string{"npm ci", "make deps"}, Timeout: time.Minute, Tree: w.store(files{"main": "only"}),
	}
}

// TestSetupRunsFirst: set-up commands run on the default branch, before any agent, wherever the
// process dies meanwhile.
func TestSetupRunsFirst(t *testing.T) {
	t.Parallel()
	for crashAt := range 12 {
		w := newWorld(t)
		w.needsSetup()
		w.settings.Gates = []gate.Gate{{Name: "check", Command: "check"}}
		work := w.agent
		w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			if len(w.checks) == 0 {
				t.Error("an agent was started before the set-up commands")
			}
			return work(w, s, a)
		}
		s := w.drive(loop.NewState(request(t, threeTasks), w.now), func(step int) bool { return step == crashAt })
		if s.End != run.EndAllTasksComplete {
			t.Fatalf("ended %s: %s", s.End, s.EndDetail)
		}
		var setups, others []loop.GateStart
		for _, c := range w.checks {
			switch {
			case c.Gate.Name == loop.SetupName:
				setups = append(setups, c)
			case c.Tree == w.landed[0].Tree: // as it was before the work began
			default:
				others = append(others, c)
			}
		}
		want := []loop.GateStart{{
			Name: setups[0].Name, Tree: w.setup.Tree, Trust: loop.TrustDefault,
			Gate: gate.Gate{Name: loop.SetupName, Command: "npm ci\nmake deps", Timeout: time.Minute},
		}}
		if diff := cmp.Diff(want, setups[:1]); diff != "" || len(setups) > 2 { // at worst they run once more
			t.Errorf("crash at step %d: %d times, %s", crashAt, len(setups), diff)
		}
		if slices.ContainsFunc(others, func(c loop.GateStart) bool { return c.Trust != loop.TrustRun }) {
			t.Errorf("checks of proposals are trusted: %+v", others)
		}
	}
}

func TestSetupFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.needsSetup()
	w.judge = func(files, loop.GateStart) gate.Result {
		return gate.Result{ExitCode: 3, Reason: "exited", Output: "npm: no such package"}
	}
	w.agent = func(*world, loop.State, loop.AgentStart) loop.AgentStatus {
		t.Error("an agent was started")
		return completed("")
	}
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndFailed || !strings.Contains(s.EndDetail, "exit code 3: npm: no such package") {
		t.Errorf("ended %s: %s", s.End, s.EndDetail)
	}
}

// TestBaselineIsAnotherTrust: where a failure is compared with what was before,
// that runs apart from what the proposals left.
func TestBaselineIsAnotherTrust(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings.Gates = []gate.Gate{{Name: "check", Command: "check"}}
	w.gate = func(tree files, _ string) bool { return len(tree) == 1 }
	w.drive(loop.NewState(request(t, "- [ ] one\n"), w.now), nil)
	trusts := map[loop.Trust]int{}
	for _, c := range w.checks {
		trusts[c.Trust]++
		if base := len(w.trees[c.Tree]) == 1; base != (c.Trust == loop.TrustBase) {
			t.Errorf("a check of %v is trusted as %q", w.trees[c.Tree], c.Trust)
		}
	}
	if trusts[loop.TrustBase] != 1 || trusts[loop.TrustRun] == 0 {
		t.Errorf("checks by trust: %v", trusts)
	}
}
