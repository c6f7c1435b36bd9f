package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// largest is the stored size of the largest state that the steps of a run leave.
func largest(w *world, s loop.State) (loop.State, int) {
	w.t.Helper()
	most := 0
	measure := func(s loop.State) loop.State {
		stored, err := loop.Encode(s)
		if err != nil {
			w.t.Fatal(err)
		}
		most = max(most, len(stored))
		return s
	}
	w.meanwhile = measure
	s = measure(w.drive(s, nil))
	return s, most
}

// TestManyTasksOfALongIssueStaySmall: no list grows with the number of tasks times the
// length of the issue.
func TestManyTasksOfALongIssueStaySmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.Job != prompt.JobPlan {
			w.work["src/"+s.TaskID] = "done"
			return claimed()
		}
		titles := make([]string, 200)
		for i := range titles {
			titles[i] = fmt.Sprintf("write file number %d", i)
		}
		w.add(s, titles...)
		return completed("planned")
	}
	r := request(t, "Write the files one.txt to many.txt.\n\n"+strings.Repeat("Every one of them says hello. ", 2000))
	r.Limits = run.Limits{MaxIterations: 10}
	s, most := largest(w, loop.NewState(r, w.now))
	if len(s.Commits) == 0 || s.End != run.EndMaxIterations {
		t.Errorf("ended %s (%s) with %d commits", s.End, s.EndDetail, len(s.Commits))
	}
	if most > 1<<20 {
		t.Errorf("the state took %d KiB", most>>10)
	}
}

// TestALargeStateEndsTheRun: what nobody bounded ends the run with a sentence, and
// never slows the server. What has landed stays.
func TestALargeStateEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["src/"+s.TaskID] = "done"
		return claimed()
	}
	w.judge = func(tree files, _ loop.GateStart) gate.Result {
		r := gate.Result{Passed: true, Reason: "exited"}
		if tree["src/T2"] != "" {
			r.Output = strings.Repeat("x", 5<<20)
		}
		return r
	}
	r := request(t, threeTasks)
	r.Gates = []gate.Gate{{Name: "test", Command: "make test", Kind: gate.Test}}
	s, most := largest(w, loop.NewState(r, w.now))
	if s.End != run.EndFailed || !strings.Contains(s.EndDetail, "outgrew the 4 MiB") || len(s.Commits) == 0 {
		t.Errorf("ended %s (%s) with %d commits", s.End, s.EndDetail, len(s.Commits))
	}
	if most > 4<<20 {
		t.Errorf("a state of %d KiB was kept", most>>10)
	}
}

// The borders of quoted text carry what nobody knows who wrote it: it is made at random for
// the run, kept with it, and another one for each prompt.
func TestBordersCannotBeForeseen(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 2 { // the same run by its id, plan and time
		w := newWorld(t)
		s := loop.NewState(request(t, "- [ ] one\n- [ ] two\n"), w.now)
		stored, err := loop.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := loop.Decode(stored); err != nil || again.NonceKey != s.NonceKey || s.NonceKey == "" {
			t.Errorf("%q is stored, %q comes back, %v", s.NonceKey, again.NonceKey, err)
		}
		w.drive(s, nil)
		for _, p := range w.prompts {
			_, rest, _ := strings.Cut(p, "----- BEGIN PLAN ")
			nonce, _, ok := strings.Cut(rest, " -----")
			if !ok || seen[nonce] {
				t.Errorf("the border %q is none, or has been there before", nonce)
			}
			seen[nonce] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d borders, want 4", len(seen))
	}
}

// A call is recorded with what it and the checks after it used and reached, as
// much of it as there is room for; the repository's list of hosts outlives a
// restart also where it is empty.
func TestCallsAreRecordedWithWhatTheyUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings.Egress = []string{}
	w.met = []run.HostUse{{Host: "0.example", Count: 1, Received: 5}, {Host: "check.example", Blocked: "why", Count: 1}}
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["src/"+s.TaskID+".txt"] = "done"
		status := claimed()
		for i := range 30 {
			status.Hosts = append(status.Hosts, run.HostUse{Host: fmt.Sprintf("%d.example", i), Count: 1, Sent: 1})
			status.Models = append(status.Models, run.ModelUse{
				Model: fmt.Sprintf("model-%d", i), Requests: 1, Usage: run.Usage{CostUSD: 1},
			})
		}
		return status
	}
	s := w.drive(loop.NewState(gated(t), w.now), nil)
	if s.End != run.EndAllTasksComplete || s.Egress == nil {
		t.Fatalf("ended %s: %s; hosts %v", s.End, s.EndDetail, s.Egress)
	}
	for _, h := range s.History {
		checks := h.Hosts[0].Count - 1
		if len(h.Hosts) != 22 || checks < 1 || h.Hosts[0].Received != int64(5*checks) || len(h.Models) != 9 {
			t.Fatalf("%d hosts, %d models: %+v", len(h.Hosts), len(h.Models), h)
		}
		want := []run.HostUse{
			{Host: run.OtherHosts, Count: 10, Sent: 10}, {Host: run.OtherHosts, Blocked: "why", Count: checks},
		}
		if diff := cmp.Diff(want, h.Hosts[20:]); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(run.ModelUse{Model: run.OtherModels, Requests: 22, Usage: run.Usage{CostUSD: 22}},
			h.Models[8]); diff != "" {
			t.Error(diff)
		}
	}
	told := map[run.EventKind]int{}
	for _, ev := range w.events {
		if len(ev.Hosts) > 0 {
			told[ev.Kind]++
		}
	}
	if told[run.EventAgentFinished] != len(s.History) || told[run.EventGate] == 0 || len(told) != 2 {
		t.Errorf("told by %v", told)
	}
}
