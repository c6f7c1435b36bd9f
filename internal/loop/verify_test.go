package loop_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// hosts is a plan with a task of the host's own at its end.
func hosts(t *testing.T) loop.Request {
	t.Helper()
	r := request(t, "- [ ] one\n- [ ] [VERIFY] Quality checkpoint\n")
	r.Plan.Tasks[0].Checks = []string{"make one"}
	if !r.Plan.Tasks[1].Verify {
		t.Fatal("the plan has no task of the host's own")
	}
	r.Gates = []gate.Gate{{Name: "test", Command: "make test"}}
	return r
}

// A task of the host's own needs no agent.
func TestTheHostVerifies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.drive(loop.NewState(hosts(t), w.now), nil)
	if s.End != run.EndAllTasksComplete || len(w.prompts) != 1 || len(s.Commits) != 2 {
		t.Errorf("ended %s (%s) after %d calls with %v\n%s", s.End, s.EndDetail, len(w.prompts), subjects(s.Commits),
			s.Progress)
	}
}

func taskIDs(commits []loop.Landed) (ids []string) {
	for _, c := range commits {
		ids = append(ids, c.TaskID)
	}
	return ids
}

// Where no check says anything, all of the work is read once.
func TestUnprovenWorkIsReviewed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gates   []gate.Gate
		policy  loop.ReviewPolicy
		reviews int
	}{
		"no check":      {nil, loop.ReviewUnproven, 1},
		"never":         {nil, loop.ReviewNever, 0},
		"a check":       {[]gate.Gate{{Name: "test", Command: "make test"}}, loop.ReviewUnproven, 0},
		"failed before": {[]gate.Gate{{Name: "bad", Command: "make bad", Detected: true}}, loop.ReviewUnproven, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.gate = func(_ files, command string) bool { return command != "make bad" }
			agent := w.agent
			w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
				if s.Job == prompt.JobReview {
					w.add(s, "a case is missing")
					return completed("read")
				}
				return agent(w, s, a)
			}
			r := request(t, "- [ ] one\n")
			r.Gates, r.Review = tc.gates, tc.policy
			s := w.drive(loop.NewState(r, w.now), nil)
			if s.End != run.EndAllTasksComplete || s.Reviews != tc.reviews {
				t.Errorf("ended %s (%s) after %d reviews", s.End, s.EndDetail, s.Reviews)
			}
			if done, total := progress.Counts(w.tasks(s)); done != total || total != 1+tc.reviews {
				t.Errorf("%d of %d tasks are done", done, total)
			}
		})
	}
}

// Somebody who pushes to the branch costs no unfinished work, unless both changed one
// file.
func TestUnfinishedWorkOutlivesAPush(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		theirs string
		kept   bool
		lost   bool
	}{
		"another file":  {"theirs.txt", true, false},
		"the same file": {"mod1", false, false},
		"a lost tree":   {"theirs.txt", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.lost = tc.lost
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				switch {
				case len(w.prompts) == 1:
					w.work["mod1"] = "ours"
					return completed("RALPH_RESULT: partial: mod2")
				case w.work["mod1"] != "ours":
					w.work["mod1"] = "ours"
				}
				w.work["mod2"] = "ours"
				if len(w.prompts) == 2 { // somebody pushes while it is checked
					w.landed = append(w.landed, loop.Landed{
						OID: "theirs", Tree: w.store(files{"README": "hello", tc.theirs: "theirs"}),
					})
					w.landErr = []error{loop.ErrBranchMoved}
				}
				return claimed()
			}
			var told []string
			s := w.drive(loop.NewState(request(t, oneTask), w.now), nil)
			for _, ev := range w.events {
				if ev.Kind == run.EventTrouble {
					told = append(told, ev.Text)
				}
			}
			if s.End != run.EndAllTasksComplete || w.trees[w.head().Tree]["theirs.txt"] == "" && tc.theirs == "theirs.txt" {
				t.Fatalf("ended %s (%s)", s.End, s.EndDetail)
			}
			if tc.kept != (len(told) == 0) || tc.kept != strings.Contains(w.prompts[2], "What is left of it") {
				t.Errorf("told %q; the third prompt:\n%s", told, w.prompts[2])
			}
		})
	}
}
