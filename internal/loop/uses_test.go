package loop_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

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
