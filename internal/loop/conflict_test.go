package loop_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestConflictBecomesATask: at the end of the work the base branch conflicts; an
// agent resolves it, is held to it, and the result is one merge; whenever the
// process dies.
func TestConflictBecomesATask(t *testing.T) {
	t.Parallel()
	const markers = "<<<<<<< ours\n1\n=======\n2\n>>>>>>> theirs\n"
	begin := func(agent func(w *world, a loop.AgentStart)) *world {
		w := newWorld(t)
		w.conflict = func(s loop.State) *loop.Merge {
			for _, l := range w.commits {
				if l.Merges != nil {
					return nil
				}
			}
			both := maps.Clone(w.trees[s.HeadTree])
			both["src/T1"], both["theirs_test.go"] = markers, "package x\n"
			return &loop.Merge{
				Parent: "base-2", ParentTree: w.store(files{"README": "hello", "src/T1": "2", "theirs_test.go": "package x\n"}),
				Tree: w.store(both), Files: []string{"src/T1"},
			}
		}
		w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			if s.Merge == nil {
				w.work["src/"+s.TaskID] = "done"
				return claimed()
			}
			if w.work["theirs_test.go"] == "" || !strings.Contains(a.Prompt, "src/T1") {
				t.Errorf("the agent of the merge finds %v", w.work)
			}
			agent(w, a)
			return claimed()
		}
		w.baseBranch = "main"
		return w
	}
	r := request(t, "- [ ] one\n")
	r.Gates = []gate.Gate{{Name: "test", Command: "test"}}

	resolves := func(w *world, a loop.AgentStart) {
		if a.Attempt == 1 { // resolved halfway
			w.work["src/T1"] = "<<<<<<< ours\n1 and 2\n"
			return
		}
		if !strings.Contains(a.Prompt, "still holds conflict markers") {
			t.Error("the next attempt is not told what is left")
		}
		w.work["src/T1"] = "1 and 2\n"
	}
	for at, crash := range eachCrash {
		w := begin(resolves)
		s := w.drive(loop.NewState(r, w.now), crash)
		if !s.End.Complete() || len(s.Commits) != 2 {
			t.Fatalf("crash at step %d: ended %s with %d commits: %s", at, s.End, len(s.Commits), s.EndDetail)
		}
		var merges []loop.Landing
		for _, l := range w.commits {
			if l.Merges != nil {
				merges = append(merges, l)
			}
		}
		if len(merges) != 1 || merges[0].Merges.Parent != "base-2" || merges[0].Merges.HeadTree != w.commits[0].Tree {
			t.Fatalf("crash at step %d: merges %+v", at, merges)
		}
		got := w.trees[merges[0].Tree]
		if got["src/T1"] != "1 and 2\n" || got["theirs_test.go"] == "" {
			t.Errorf("crash at step %d: the merge holds %v", at, got)
		}
	}

	// One that nobody can resolve leaves the branch as it was.
	w := begin(func(*world, loop.AgentStart) {})
	s := w.drive(loop.NewState(r, w.now), nil)
	if s.End != run.EndBlocked || s.Merge != nil {
		t.Errorf("ended %s: %s, with the merge %+v", s.End, s.EndDetail, s.Merge)
	}
	if got := w.trees[w.head().Tree]; got["src/T1"] != "done" || got["theirs_test.go"] != "" {
		t.Errorf("the branch holds %v", got)
	}
}

// TestTooMuchToMerge: what takes too long to merge with the base branch is told, and ends
// no run.
func TestTooMuchToMerge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.baseBranch, w.mergeErr = "main", loop.ErrTooMuch
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	told := func(text string) bool { return strings.Contains(text, "too much has changed on both") }
	if s.End != run.EndAllTasksComplete || !slices.ContainsFunc(s.Merged, told) {
		t.Errorf("ended %s: %s; people are told %q", s.End, s.EndDetail, s.Merged)
	}
}
