package loop_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

const progressPath = ".ralph/1/progress.md"

// push is a person's commit on the branch that edits the progress file.
func (w *world) push(edits ...string) {
	w.t.Helper()
	f := maps.Clone(w.trees[w.head().Tree])
	for pair := range slices.Chunk(edits, 2) {
		if !strings.Contains(f[progressPath], pair[0]) {
			w.t.Fatalf("%q is not in\n%s", pair[0], f[progressPath])
		}
		f[progressPath] = strings.Replace(f[progressPath], pair[0], pair[len(pair)-1], 1)
	}
	w.landed = append(w.landed, loop.Landed{OID: "person", Tree: w.store(f)})
}

// While an agent is at work, a person edits the progress file on the branch.
// The work of that agent is repeated, and what it learned is kept.
func TestPersonEditsTheFile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		edits    []string
		end      run.EndReason
		subjects []string // of the commits
		merged   []string
		progress []string // what the file holds in the end
	}{
		{
			name: "ticks", edits: []string{"- [ ] T3", "- [x] T3"},
			end: run.EndAllTasksComplete, subjects: []string{"T1 one", "T2 two"},
			merged: []string{`Taken in: T3 "three" ticked.`}, progress: []string{"- [x] T3 three\n"},
		},
		{
			name: "ticks what is being done", edits: []string{"- [ ] T2", "- [x] T2"},
			end: run.EndAllTasksComplete, subjects: []string{"T1 one", "T3 three"},
			merged: []string{`Taken in: T2 "two" ticked.`},
		},
		{
			name: "adds and reorders", edits: []string{
				"- [x] T1 one\n- [ ] T2 two\n- [ ] T3 three\n", "* [ ] zero\n- [ ] T3 three\n- [x] T1 one\n- [ ] T2 two\n",
			},
			// what is begun goes first
			end: run.EndAllTasksComplete, subjects: []string{"T1 one", "T2 two", "T4 zero", "T3 three"},
			merged:   []string{`Taken in: the order of the tasks changed; "zero" added.`},
			progress: []string{"* [x] T4 zero\n- [x] T3 three\n- [x] T1 one\n- [x] T2 two\n"},
		},
		{
			name: "unticks", edits: []string{"- [x] T1", "- [ ] T1"},
			end: run.EndAllTasksComplete, subjects: []string{"T1 one", "T2 two", "T1 one", "T3 three"},
			merged: []string{`Taken in: T1 "one" unticked.`},
		},
		{
			name: "writes notes", edits: []string{
				"## Testing Strategy\n", "## Testing Strategy\nby hand\n", "- learned at T1\n", "- learned at T1\n- by hand\n",
			},
			end: run.EndAllTasksComplete, subjects: []string{"T1 one", "T2 two", "T3 three"},
			merged:   []string{`Taken in: section "Testing Strategy" changed; section "Learnings" changed.`},
			progress: []string{"Strategy\nby hand\n", "- learned at T1\n- by hand\n- learned at T2\n"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, crash := range []func(int) bool{nil, func(step int) bool { return step%5 == 1 }} {
				w := newWorld(t)
				pushed := false
				w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
					w.work["src/"+a.Name+".txt"] = "done"
					lesson := "- learned at " + s.TaskID + "\n"
					if !strings.Contains(w.work[progressPath], lesson) {
						w.work[progressPath] = strings.Replace(w.work[progressPath], "\n## Completed", lesson+"\n## Completed", 1)
					}
					if s.TaskID == "T2" && !pushed {
						pushed = true
						w.push(tc.edits...)
					}
					return claimed()
				}
				var finals int
				w.gate = func(_ files, command string) bool {
					if command == "final" {
						finals++
					}
					return true
				}
				r := request(t, threeTasks)
				r.Gates = []gate.Gate{{Name: "final", Command: "final", When: gate.Final}}
				r.KeepProgress = true
				s := w.drive(loop.NewState(r, w.now), crash)
				if s.End != tc.end {
					t.Fatalf("ended %s: %s", s.End, s.EndDetail)
				}
				got := subjects(s.Commits)
				got = slices.DeleteFunc(got, func(s string) bool { return s == " " }) // the record at the end
				if diff := cmp.Diff(tc.subjects, got); diff != "" {
					t.Errorf("commits (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.merged, s.Merged); diff != "" {
					t.Errorf("merged (-want +got):\n%s", diff)
				}
				if finals == 0 {
					t.Error("the final checks did not run")
				}
				for _, text := range append(tc.progress, "- learned at T1\n") {
					if !strings.Contains(s.Progress, text) {
						t.Errorf("%q is not in\n%s", text, s.Progress)
					}
				}
				if left := w.trees[w.head().Tree][progressPath]; left != s.Progress || !strings.Contains(left, "RALPH_DONE") {
					t.Errorf("the branch holds\n%s", left)
				}
				if i := slices.IndexFunc(w.events, func(ev run.Event) bool { return ev.Kind == run.EventEdited }); i < 0 {
					t.Error("nobody was told")
				}
			}
		})
	}
}

// A file that a person took away is no wish to forget the tasks.
func TestPersonRemovesTheFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		w.work["src/"+a.Name+".txt"] = "done"
		if s.TaskID == "T2" && len(w.landed) == 2 {
			f := maps.Clone(w.trees[w.head().Tree])
			delete(f, progressPath)
			w.landed = append(w.landed, loop.Landed{OID: "person", Tree: w.store(f)})
		}
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if diff := cmp.Diff(wantThree, subjects(s.Commits)); diff != "" || s.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", s.End, diff)
	}
}

// People edit the task list of the pull request while the run goes on, and at
// its very end: what they did is taken in once, whenever the process dies.
func TestEditsOfTheTaskListShown(t *testing.T) {
	t.Parallel()
	edit := func(t *testing.T, at int) (*world, func(loop.State) map[string]bool) {
		t.Helper()
		w := newWorld(t)
		w.agent = func(w *world, _ loop.State, a loop.AgentStart) loop.AgentStatus {
			w.work["src/"+a.Name+".txt"] = "done"
			return claimed()
		}
		return w, func(s loop.State) map[string]bool {
			if len(s.Commits) != at || s.End != "" && at < 3 {
				return nil
			}
			return map[string]bool{"T1": false, "T9": true} // which nobody knows
		}
	}
	for _, at := range []int{2, 3} {
		clean, hook := edit(t, at)
		clean.edit = hook
		want := clean.drive(loop.NewState(request(t, threeTasks), clean.now), nil)
		if want.End != run.EndAllTasksComplete || len(want.Merged) != 1 {
			t.Fatalf("after %d commits: ended %s with %q", at, want.End, want.Merged)
		}
		if got := subjects(want.Commits); len(got) != 4 || got[at] != "T1 one" {
			t.Errorf("after %d commits: %q", at, got)
		}
		for step := range 60 {
			w, hook := edit(t, at)
			w.edit = hook
			s := w.drive(loop.NewState(request(t, threeTasks), w.now), func(n int) bool { return n == step })
			if diff := cmp.Diff(subjects(want.Commits), subjects(s.Commits)); diff != "" || len(s.Merged) != 1 {
				t.Errorf("after %d commits, crash at step %d: %q %s", at, step, s.Merged, diff)
			}
		}
	}
}
