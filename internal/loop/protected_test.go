package loop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// TestProtectedPathsArePutBack: what only a person may change does not land, the checks
// run without it, and the next call does not find it and is told; whenever the process
// dies.
func TestProtectedPathsArePutBack(t *testing.T) {
	t.Parallel()
	begin := func() *world {
		w := newWorld(t)
		w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			for path := range w.work {
				if strings.HasPrefix(path, "protected/") {
					t.Errorf("attempt %d at %s finds %s", a.Attempt, s.TaskID, path)
				}
			}
			w.work["protected/"+s.TaskID] = "mine\n"
			if s.TaskID != "T2" { // all of whose work is a person's
				w.work["src/"+s.TaskID] = "done"
			}
			if s.TaskID == "T3" && a.Attempt == 2 {
				if !strings.Contains(a.Prompt, "protected/T3") || w.work["src/T3"] == "" {
					t.Error("the next attempt is not told, or finds nothing of the last")
				}
				w.work["src/whole"] = "yes"
			}
			return claimed()
		}
		w.gate = func(tree files, _ string) bool {
			for path := range tree {
				if strings.HasPrefix(path, "protected/") {
					t.Errorf("a check ran on %s", path)
				}
			}
			return tree["src/T3"] == "" || tree["src/whole"] != ""
		}
		return w
	}
	r := request(t, "- [ ] one\n- [ ] two\n- [ ] three\n")
	r.Gates = []gate.Gate{{Name: "test", Command: "test"}}
	verify := func(w *world, s loop.State, at int) {
		t.Helper()
		tasks := w.tasks(s)
		if s.End != run.EndBlocked || tasks[0].Status != run.TaskDone || tasks[1].Status != run.TaskBlocked ||
			tasks[2].Status != run.TaskDone {
			t.Fatalf("crash at step %d: ended %s: %+v", at, s.End, tasks)
		}
		var paths []string
		for _, f := range s.Findings {
			paths = append(paths, f.Rule+" "+f.Path)
		}
		if !slices.Equal(paths, []string{"protected protected/T1", "protected protected/T2", "protected protected/T3"}) {
			t.Errorf("crash at step %d: people are told %+v", at, s.Findings)
		}
		if reason := tasks[1].Reason; !strings.Contains(reason, "protected/T2") {
			t.Errorf("crash at step %d: T2 is blocked: %s", at, reason)
		}
		for path := range w.trees[w.head().Tree] {
			if strings.HasPrefix(path, "protected/") {
				t.Errorf("crash at step %d: %s has landed", at, path)
			}
		}
	}
	clean := begin()
	s := clean.drive(loop.NewState(r, clean.now), nil)
	verify(clean, s, -1)
	if len(clean.prompts) != 8 {
		t.Errorf("%d agents, want five at what is all protected and two at what failed", len(clean.prompts))
	}
	for at, crash := range eachCrash {
		w := begin()
		verify(w, w.drive(loop.NewState(r, w.now), crash), at)
	}
}

// TestATreeThatIsTooMuchIsRejected: where nothing of the work tree could be stored, the call has
// failed for that reason alone; what calls before it left is not taken for its work.
func TestATreeThatIsTooMuchIsRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := 0
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.Job != prompt.JobBuild {
			t.Errorf("a call is made to %s", s.Job)
		}
		switch calls++; calls {
		case 1:
			w.work["half"] = "done"
			return completed("RALPH_RESULT: partial: the other half")
		case 2:
			w.links["."] = true
			return claimed()
		}
		if w.work["half"] == "" {
			t.Error("what the first call did is gone")
		}
		w.work["whole"] = "done"
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, "- [ ] one\n"), w.now), nil)
	if s.End != run.EndAllTasksComplete || calls != 3 || len(s.Findings) > 0 {
		t.Fatalf("ended %s (%s) after %d calls; people are told %+v", s.End, s.EndDetail, calls, s.Findings)
	}
	if want := "could not be stored, so all that it changed is gone: it is a link"; !strings.Contains(w.prompts[2], want) {
		t.Errorf("the next call is not told %q:\n%s", want, w.prompts[2])
	}
}

// TestWhatCannotBeStoredIsNotAPersonsToDo: people are told of it by a rule of its own.
func TestWhatCannotBeStoredIsNotAPersonsToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, _ loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.links["pipe"], w.work["protected/x"], w.work["ok"] = true, "mine", "x"
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, "- [ ] one\n"), w.now), nil)
	want := []gate.Finding{
		{Rule: loop.RuleUnstored, Path: "pipe", Text: "pipe was put back at T1 (it is a link)"},
		{
			Rule: loop.RuleProtected, Path: "protected/x",
			Text: "protected/x was put back at T1 (is a person's): change it yourself if you want that",
		},
	}
	if diff := cmp.Diff(want, s.Findings); !s.End.Complete() || diff != "" {
		t.Errorf("ended %s: %s", s.End, diff)
	}
}
