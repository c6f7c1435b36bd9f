package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestHeldBack: what is a person's to change does not land, the checks run
// without it, and the next task does not find it; whenever the process dies.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	begin := func() *world {
		w := newWorld(t)
		w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			if s.TaskID == "T2" && w.work["held/T1"] != "" {
				t.Error("the second task finds what was held back from the first")
			}
			w.work["held/"+s.TaskID] = "mine\n"
			if s.TaskID != "T2" { // all of whose work is a person's
				w.work["src/"+s.TaskID] = "done"
			}
			if s.TaskID == "T3" && a.Attempt == 2 {
				if !strings.Contains(a.Prompt, "held/T3") || w.work["held/T3"] == "" {
					t.Error("the next attempt is not told, or finds nothing of the last")
				}
				w.work["src/whole"] = "yes"
			}
			return claimed()
		}
		w.gate = func(tree files, _ string) bool {
			for path := range tree {
				if strings.HasPrefix(path, "held/") {
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
		var held []string
		for _, h := range s.Held {
			held = append(held, h.TaskID+" "+h.Paths[0].Path)
			if h.Patch == "" {
				t.Errorf("crash at step %d: %s has no patch", at, h.TaskID)
			}
		}
		if !slices.Equal(held, []string{"T1 held/T1", "T2 held/T2", "T3 held/T3"}) {
			t.Errorf("crash at step %d: held %q", at, held)
		}
		if len(s.Findings) != 3 || s.Findings[1].Rule != loop.RuleHeld {
			t.Errorf("crash at step %d: people are told %+v", at, s.Findings)
		}
		for path := range w.trees[w.head().Tree] {
			if strings.HasPrefix(path, "held/") {
				t.Errorf("crash at step %d: %s has landed", at, path)
			}
		}
	}
	clean := begin()
	s := clean.drive(loop.NewState(r, clean.now), nil)
	verify(clean, s, -1)
	if len(clean.prompts) != 5 {
		t.Errorf("%d agents, want two for what is all held back and for what failed", len(clean.prompts))
	}
	for at, crash := range eachCrash {
		w := begin()
		verify(w, w.drive(loop.NewState(r, w.now), crash), at)
	}
}

// TestManyHeldPathsStaySmall: what is kept and told of many protected paths does not
// grow with their number.
func TestManyHeldPathsStaySmall(t *testing.T) {
	t.Parallel()
	const paths = 5000
	w := newWorld(t)
	w.agent = func(w *world, _ loop.State, _ loop.AgentStart) loop.AgentStatus {
		for i := range paths {
			w.work[fmt.Sprintf("held/%s/%d", strings.Repeat("x", 150), i)] = "mine\n"
		}
		w.work["ok"] = "x"
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, "- [ ] one\n"), w.now), nil)
	if !s.End.Complete() || len(s.Held) != 1 {
		t.Fatalf("ended %s (%s) with %d holds", s.End, s.EndDetail, len(s.Held))
	}
	if h := s.Held[0]; len(h.Paths)+h.More != paths || len(h.Paths) > 100 {
		t.Errorf("%d paths and %d more are kept of %d", len(h.Paths), h.More, paths)
	}
	notified := 0
	for _, ev := range w.events {
		if ev.Kind == run.EventPersonNotified && strings.Contains(ev.Text, "held back") {
			notified++
		}
	}
	last := s.Findings[len(s.Findings)-1].Text
	if notified != 1 || len(s.Findings) > 50 || last != "4980 more paths were held back from T1" {
		t.Errorf("people are notified %d times, of %d findings, the last %q", notified, len(s.Findings), last)
	}
	if stored, err := loop.Encode(s); err != nil || len(stored) > 200<<10 {
		t.Errorf("the state takes %d bytes, %v", len(stored), err)
	}
}
