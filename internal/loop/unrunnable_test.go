package loop_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// absent is a runner that is not installed.
func absent(files, loop.GateStart) gate.Result {
	return gate.Result{ExitCode: 1, Reason: "exited", Output: "/usr/bin/python3: No module named pytest\n"}
}

// A check that was found and cannot run holds nobody up, is no proof, and is told.
func TestFoundCheckThatCannotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.landed = []loop.Landed{{OID: "base", Tree: w.store(files{"requirements.txt": "pytest\n", "test_a.py": ""})}}
	w.judge = absent
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndAllTasksComplete || s.Iteration != 3 {
		t.Fatalf("ended %s after %d iterations: %s", s.End, s.Iteration, s.EndDetail)
	}
	if diff := cmp.Diff([]gate.Standing{gate.Unrunnable}, standings(s)); diff != "" {
		t.Error(diff)
	}
	said := s.Proof().Sentence(s.End)
	if want := "All tasks are done; nothing was checked: pytest could not run: No module named pytest"; said != want {
		t.Errorf("%q, want %q", said, want)
	}
	var noted bool
	for _, ev := range w.events {
		noted = noted || ev.Kind == run.EventGateNote && strings.Contains(ev.Text, "requirements.txt")
	}
	if !noted {
		t.Error("nobody is told how to provide it")
	}
}

// Nothing lands without a check that a person has named, and no task is to blame.
func TestNamedCheckThatCannotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.judge = absent
	s := w.drive(loop.NewState(withGate(t, gate.Gate{Name: "pytest"}), w.now), nil)
	if s.End != run.EndFailed || !strings.HasPrefix(s.EndDetail, "pytest could not run: No module named pytest. What to do first: ") {
		t.Fatalf("ended %s: %s", s.End, s.EndDetail)
	}
	if len(w.commits) != 0 || s.Attempts["T1"] != 0 || s.Iteration != 1 {
		t.Errorf("%d commits, %d attempts, %d iterations", len(w.commits), s.Attempts["T1"], s.Iteration)
	}
	if len(w.refused) != 1 || w.refused[0].Task.ID != "T1" {
		t.Errorf("kept %+v", w.refused)
	}
}

// What a failed attempt changed is kept without the run's own notes, and the event has
// the lines that failed.
func TestRefusedWorkIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.judge = suite(map[string]func(files) bool{"TestNew": func(tree files) bool { return tree["src/T1.txt"] == "" }})
	w.drive(loop.NewState(withGate(t, gate.Gate{Name: "suite"}), w.now), nil)
	if len(w.refused) == 0 {
		t.Fatal("nothing is kept")
	}
	got := w.refused[0]
	changes, err := w.Changes(t.Context(), got.From, got.To)
	if err != nil || len(changes) != 1 || changes[0].Path != "src/T1.txt" || got.Iteration != 1 {
		t.Errorf("kept %+v, which changes %+v, %v", got, changes, err)
	}
	for _, ev := range w.events {
		if ev.Kind == run.EventAttemptFailed {
			if diff := cmp.Diff([]string{"FAILED TestNew"}, ev.Lines); diff != "" || !ev.Kept || ev.Gate != "suite" {
				t.Errorf("event %+v: %s", ev, diff)
			}
			return
		}
	}
	t.Error("no failed attempt is told of")
}
