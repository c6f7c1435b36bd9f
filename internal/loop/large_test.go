package loop_test

import (
	"fmt"
	"strings"
	"testing"

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
