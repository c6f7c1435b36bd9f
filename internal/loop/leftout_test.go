package loop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestWhatToolsMakeIsLeftOut: it fails nothing, and is named once, for people and for the next call.
func TestWhatToolsMakeIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tools = []string{"node_modules", "env", "a", "b", "c", "d"}
	var notices []string
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		if strings.Contains(a.Prompt, "left out of the work: node_modules (of a tool), env") {
			notices = append(notices, s.TaskID)
		}
		w.work["src/"+s.TaskID+".txt"] = "done"
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", s.End, s.EndDetail)
	}
	var told []string
	for _, f := range s.Findings {
		if f.Rule == "left_out" {
			told = append(told, f.Text)
		}
	}
	want := []string{
		"left out of the work: node_modules (of a tool), env (of a tool), a (of a tool), b (of a tool), c (of a tool) and 1 more",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	if len(notices) != 1 || notices[0] != "T2" {
		t.Errorf("the calls at %q were told", notices)
	}
	if slices.ContainsFunc(s.History, func(l loop.Iteration) bool { return l.Note != "" }) {
		t.Errorf("an attempt failed: %+v", s.History)
	}
}
