package loop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// TestAgentsWriteNoExcuse: a task that an agent wrote takes no test away, unless a
// person's words behind it ask for that, too.
func TestAgentsWriteNoExcuse(t *testing.T) {
	t.Parallel()
	const excuse = "Retire TestAlpha"
	adds := func(w *world, s loop.State) { // beside its own task
		if s.TaskID == "T1" && !strings.Contains(w.work[s.ProgressPath], excuse) {
			w.add(s, excuse)
		}
	}
	for _, tt := range []struct {
		name, plan string
		// text is the plan where an agent has to plan first.
		text string
		does func(w *world, s loop.State)
		// earlier: the task is left from a run before.
		earlier, excused bool
	}{
		{name: "a call added it", plan: "- [ ] Add a flag\n", does: adds},
		{name: "a run before added it", plan: "- [ ] Add a flag\n", earlier: true},
		{name: "a person wrote it", plan: "- [ ] Add a flag\n- [ ] " + excuse + "\n", excused: true},
		{name: "it was planned", text: "Make the door wider"},
		{name: "it was planned, as a person asks", text: "Make the door wider and drop TestAlpha", excused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.judge = suite(map[string]func(files) bool{
				"TestAlpha": func(tree files) bool { return tree["a_test.go"] == "" || tree["a.go"] == "right" },
			})
			w.landed[0].Tree = w.store(files{"a_test.go": "TestAlpha", "a.go": "right"})
			w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
				if s.Job == prompt.JobVerify {
					return completed("1. yes: src/T2:1\n\nRALPH_VERIFY: agreed")
				}
				if a.Mode == run.ModePlan {
					w.add(s, "Add a flag", excuse)
					return claimed()
				}
				if tt.does != nil {
					tt.does(w, s)
				}
				w.work["src/"+s.TaskID] = "x"
				if s.TaskID == "T2" && a.Attempt == 1 {
					delete(w.work, "a_test.go")
					w.work["a.go"] = "wrong"
				} else if s.TaskID == "T2" {
					w.work["a.go"] = "right"
				}
				return claimed()
			}
			r := request(t, tt.plan)
			r.Plan.Text = tt.text
			r.Gates = []gate.Gate{{Command: "suite", Kind: gate.Test}}
			if tt.text != "" {
				r.Plan.Tasks = nil
			}
			if tt.earlier {
				doc := progress.New(r.Subject.Name, progress.Binding{Key: r.Subject.Key, PlanSHA256: r.Plan.SHA256})
				for _, title := range []string{"Add a flag", excuse} {
					if _, err := doc.AddTask(run.Task{Title: title}); err != nil {
						t.Fatal(err)
					}
				}
				r.Carried = string(doc.Bytes())
			}
			s := w.drive(loop.NewState(r, w.now), nil)
			if s.End != run.EndAllTasksComplete {
				t.Fatalf("ended %s: %s", s.End, s.EndDetail)
			}
			told := slices.ContainsFunc(w.prompts, func(p string) bool { return strings.Contains(p, "not right by them") })
			if told == tt.excused {
				t.Errorf("refused: %v, want %v", told, !tt.excused)
			}
			if _, there := w.trees[w.head().Tree]["a_test.go"]; there == tt.excused {
				t.Errorf("the test has landed: %v, want %v", there, !tt.excused)
			}
		})
	}
}

// TestNoWordsOfAgentsUnderAnApproval: what an agent says of an approved task is told to
// the next call, and comes into no task that the approval covers.
func TestNoWordsOfAgentsUnderAnApproval(t *testing.T) {
	t.Parallel()
	const say = "remove the old tests and set MAKEFLAGS in the Makefile"
	w := newWorld(t)
	w.settings.NeedsApproval = true
	asks := func(approved string) loop.State {
		r := request(t, "- [ ] one\n- [ ] [VERIFY] Quality checkpoint\n")
		r.Plan.Tasks[1].Accept = []string{"the tests pass"}
		r.Gates = []gate.Gate{{Name: "test", Command: "make test"}}
		r.Approved, r.ApprovedBy = approved, "ada"
		return loop.NewState(r, w.now)
	}
	looks := 0
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.Job == prompt.JobVerify {
			if looks++; looks == 1 {
				return completed("1. no: " + say + "\n\nRALPH_VERIFY: not agreed: " + say)
			}
			return completed("1. yes: src/T1:1\n\nRALPH_VERIFY: agreed")
		}
		w.work["src/"+s.TaskID] = "done"
		return claimed()
	}
	approved := w.drive(asks(""), nil).Approval
	w.prompts = nil
	s := w.drive(asks(approved), nil)
	if !s.End.Complete() || looks != 2 {
		t.Fatalf("ended %s (%s) after %d looks", s.End, s.EndDetail, looks)
	}
	fixed := false
	for _, task := range w.tasks(s) {
		fixed = fixed || strings.Contains(task.Title, "Fix what T2 found") && slices.Equal(task.Accept, []string{"the tests pass"})
		if strings.Contains(task.Title+strings.Join(task.Accept, ""), say) {
			t.Errorf("an agent's words are in %s: %q", task.ID, task.Accept)
		}
	}
	if !fixed {
		t.Errorf("no task fixes it by the approved criterion:\n%s", s.Progress)
	}
	if !slices.ContainsFunc(w.prompts, func(p string) bool { return strings.Contains(p, say) }) {
		t.Error("no later call is told the objection")
	}
}
