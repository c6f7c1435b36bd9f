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

// A task's own command is a check of that task, after the repository's.
func TestATasksOwnCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate = func(tree files, command string) bool {
		return command != "make accept" || tree["src/T1.txt"] == "right"
	}
	calls := 0
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["src/"+s.TaskID+".txt"] = "wrong"
		if calls++; calls > 1 {
			w.work["src/"+s.TaskID+".txt"] = "right"
		}
		return claimed()
	}
	r := request(t, "- [ ] one\n- [ ] two\n")
	r.Plan.Tasks[0].Checks = []string{"make accept"}
	r.Gates = []gate.Gate{{Name: "test", Command: "make test"}}
	s := w.drive(loop.NewState(r, w.now), nil)
	if s.End != run.EndAllTasksComplete || calls != 3 {
		t.Fatalf("ended %s (%s) after %d calls\n%s", s.End, s.EndDetail, calls, s.Progress)
	}
	if !strings.Contains(w.prompts[1], "output of make accept") {
		t.Errorf("the next attempt is not told what the check said:\n%s", w.prompts[1])
	}
	var ran []string
	for _, c := range w.checks {
		ran = append(ran, c.Gate.Command)
	}
	if want := []string{"make test", "make test", "make accept", "make test", "make accept", "make test"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
}

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

// A fix comes before the check that asked for it, also where that is the first task and has the highest priority.
func TestAFixComesBeforeItsCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate = func(tree files, command string) bool { return command != "make one" || tree["fixed"] != "" }
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["src/"+s.TaskID] = "x"
		if s.TaskID == "T3" {
			w.work["fixed"] = "x"
		}
		return claimed()
	}
	r := request(t, "- [ ] (P1) [VERIFY] Quality checkpoint\n- [ ] (P1) one\n")
	r.Plan.Tasks[0].Checks = []string{"make one"}
	r.Gates = []gate.Gate{{Name: "test", Command: "make test"}}
	s := w.drive(loop.NewState(r, w.now), nil)
	if want := []string{"T3", "T1", "T2"}; s.End != run.EndAllTasksComplete || s.Records["T1"].Reopened != 1 ||
		!slices.Equal(taskIDs(s.Commits), want) {
		t.Errorf("ended %s (%s), and %v landed, want %v\n%s", s.End, s.EndDetail, taskIDs(s.Commits), want, s.Progress)
	}
}

func taskIDs(commits []loop.Landed) (ids []string) {
	for _, c := range commits {
		ids = append(ids, c.TaskID)
	}
	return ids
}

// What it finds becomes a task before it, and it looks again, a few times.
func TestWhatTheHostFindsIsMended(t *testing.T) {
	t.Parallel()
	for name, mends := range map[string]bool{"mended": true, "never": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			landed := 0
			w.gate = func(tree files, command string) bool {
				if command != "make one" {
					return true
				}
				_, broken := tree["late.txt"]
				return !broken || tree["late.txt"] == "mended"
			}
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				landed++
				w.work["src/"+s.TaskID] = "x"
				if mends {
					w.work["late.txt"] = "mended"
				}
				return claimed()
			}
			r := hosts(t)
			r.Plan.Tasks[0].Checks = nil
			r.Plan.Tasks[1].Checks = []string{"make one"}
			w.landed[0].Tree = w.store(files{"late.txt": "broken"})
			if mends { // the first task breaks it
				first := w.agent
				w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
					status := first(w, s, a)
					if s.TaskID == "T1" {
						w.work["late.txt"] = "broken"
					}
					return status
				}
			}
			s := w.drive(loop.NewState(r, w.now), nil)
			if mends != s.End.Complete() {
				t.Fatalf("ended %s (%s)\n%s", s.End, s.EndDetail, s.Progress)
			}
			at := strings.Index(s.Progress, "Fix what T2 found")
			if at < 0 || at > strings.Index(s.Progress, "Quality checkpoint") {
				t.Errorf("no task before it mends what it found:\n%s", s.Progress)
			}
		})
	}
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

// A call that takes back what an earlier one broke has changed nothing in the end, and what it says is looked at though it
// names no place.
func TestWhatWasTakenBackIsLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.landed[0].Tree = w.store(files{"a.go": "package a\n"})
	w.gate = func(tree files, _ string) bool { return tree["a.go"] != "broken" }
	builds, looks := 0, 0
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.Job == prompt.JobVerify {
			looks++
			return completed("1. yes: a.go:1 is the package\n\nRALPH_VERIFY: agreed")
		}
		if builds++; builds == 1 {
			w.work["a.go"] = "broken"
		} else {
			w.work["a.go"] = "package a\n"
		}
		return claimed()
	}
	r := request(t, "- [ ] one\n")
	r.Gates = []gate.Gate{{Name: "test", Command: "make test"}}
	s := w.drive(loop.NewState(r, w.now), nil)
	if s.End != run.EndAllTasksComplete || builds != 2 || looks != 1 {
		t.Errorf("ended %s (%s) after %d calls and %d looks", s.End, s.EndDetail, builds, looks)
	}
}
