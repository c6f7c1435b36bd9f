package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/run"
)

const twoStories = `{"userStories": [
 {"id": "US-1", "title": "one", "passes": false},
 {"id": "US-2", "title": "two", "passes": false}
]}`

// fromFile is a run of a plan file that lies in the repository as the first of
// its commits has it.
func fromFile(t *testing.T, name, src string) (*world, loop.Request) {
	t.Helper()
	p, err := plan.FromFile(name, []byte(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.landed = []loop.Landed{{OID: "base", Tree: w.store(files{"README": "hello", name: src})}}
	return w, loop.Request{
		Run: "r1", Plan: p, Settings: loop.Settings{KeepProgress: true},
		Subject: loop.Subject{
			Key: "plan:" + name, Slug: "x", Name: "x", PlanFile: name, TaskFile: name, HostFiles: []string{name},
		},
	}
}

// TestTaskFileFollowsTheRun: the tree that checks see, and that lands, has the
// plan's file with the story ticked that lands, whatever the agent did to it, and
// wherever the process dies.
func TestTaskFileFollowsTheRun(t *testing.T) {
	t.Parallel()
	begin := func() (*world, loop.Request) {
		w, r := fromFile(t, "prd.json", twoStories)
		r.Subject.TaskNotes = "progress.txt"
		r.Subject.HostFiles = append(r.Subject.HostFiles, "progress.txt")
		r.Gates = []gate.Gate{{Name: "test", Command: "test"}}
		w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			w.work["src/"+s.TaskID+".txt"] = "done"
			w.work["prd.json"], w.work["progress.txt"] = "{}", "forged"
			w.work[a.ProgressPath] = strings.NewReplacer(
				"- [ ] "+s.TaskID, "- [x] "+s.TaskID, "## Learnings\n", "## Learnings\n- "+s.TaskID+" was easy\n",
			).Replace(w.work[a.ProgressPath])
			return completed("done\n\nRALPH_RESULT: done")
		}
		w.gate = func(tree files, _ string) bool { return strings.Contains(tree["prd.json"], `"passes": true`) }
		return w, r
	}
	clean, r := begin()
	want := clean.drive(loop.NewState(r, clean.now), nil)
	if want.End != run.EndAllTasksComplete || len(clean.commits) != 2 {
		t.Fatalf("ended %s (%s) after %d commits", want.End, want.EndDetail, len(clean.commits))
	}
	first := strings.Replace(twoStories, "false", "true", 1)
	for i, text := range []string{first, strings.ReplaceAll(twoStories, "false", "true")} {
		l := clean.commits[i]
		if d := cmp.Diff(text, clean.trees[l.Tree]["prd.json"]); d != "" || !slices.Equal(l.Own, r.Subject.HostFiles) {
			t.Errorf("commit %d, own %v (-want +got):\n%s", i+1, l.Own, d)
		}
		log := clean.trees[l.Tree]["progress.txt"]
		entry := fmt.Sprintf("- US-%d\n- Implemented: %s\n- Files changed: src/T%[1]d.txt\n- **Learnings for future iterations:**\n  - T%[1]d was easy\n---\n", i+1, []string{"one", "two"}[i])
		if strings.Count(log, "Implemented") != i+1 || !strings.HasSuffix(log, entry) {
			t.Errorf("commit %d has the log\n%s", i+1, log)
		}
	}
	for at, crash := range eachCrash {
		w, r := begin()
		s := w.drive(loop.NewState(r, w.now), crash)
		if d := cmp.Diff(clean.trees[clean.head().Tree], w.trees[w.head().Tree]); s.End != want.End || d != "" {
			t.Errorf("crash at step %d: ended %s (-want +got):\n%s", at, s.End, d)
		}
	}
}

// TestTickingTheTaskFileIsNoWork: it is no change, and no claim for any task.
func TestTickingTheTaskFileIsNoWork(t *testing.T) {
	t.Parallel()
	w, r := fromFile(t, "plan.md", "- [ ] one\n- [ ] two\n")
	r.Limits.TaskAttempts = 2
	w.agent = func(w *world, _ loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["plan.md"] = "- [x] one\n- [x] two\n"
		return completed("I looked around.")
	}
	s := w.drive(loop.NewState(r, w.now), nil)
	if s.End != run.EndBlocked || len(w.commits) > 0 {
		t.Errorf("ended %s (%s) after %d commits", s.End, s.EndDetail, len(w.commits))
	}
	if !strings.Contains(s.Failure+w.prompts[1], "without changing any file") {
		t.Errorf("the agent is not told:\n%s", w.prompts[1])
	}
}

// TestStatusWaitsForTheFinalChecks and comes with the commit that keeps the run's
// own.
func TestStatusWaitsForTheFinalChecks(t *testing.T) {
	t.Parallel()
	const src = "# Progress: x\n\n## Status\nIN_PROGRESS\n\n## Task List\n- [ ] Task 1: one\n"
	w, r := fromFile(t, "x_PROGRESS.md", src)
	r.Gates = []gate.Gate{{Name: "whole", Command: "whole", When: gate.Final}}
	w.gate = func(tree files, _ string) bool { return tree["src/T2.txt"] != "" }
	s := w.drive(loop.NewState(r, w.now), nil)
	if !s.End.Complete() || len(w.commits) != 3 {
		t.Fatalf("ended %s (%s) after %d commits", s.End, s.EndDetail, len(w.commits))
	}
	ticked := strings.Replace(src, "[ ]", "[x]", 1)
	for i, want := range []string{ticked, ticked, strings.Replace(ticked, "IN_PROGRESS", "RALPH_DONE", 1)} {
		if d := cmp.Diff(want, w.trees[w.commits[i].Tree]["x_PROGRESS.md"]); d != "" {
			t.Errorf("commit %d (-want +got):\n%s", i+1, d)
		}
	}
}

// TestNotesWithASecretStayOut, once what hid it is gone, and the box is ticked all
// the same.
func TestNotesWithASecretStayOut(t *testing.T) {
	t.Parallel()
	w, r := fromFile(t, "prd.json", twoStories)
	r.Subject.TaskNotes = "progress.txt"
	work := w.agent
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		w.work[a.ProgressPath] = strings.Replace(w.work[a.ProgressPath], "## Learnings\n",
			"## Learnings\n- the K\u200bEY is 1\n", 1)
		return work(w, s, a)
	}
	w.drive(loop.NewState(r, w.now), nil)
	tree := w.trees[w.head().Tree]
	if tree["prd.json"] != strings.ReplaceAll(twoStories, "false", "true") || tree["progress.txt"] != "" {
		t.Errorf("got %q and %q", tree["prd.json"], tree["progress.txt"])
	}
}
