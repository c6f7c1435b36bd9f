package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

const oneTask = "- [ ] Migrate the ten modules\n"

// tickT1 ticks the box of T1 as an agent does.
func tickT1(w *world, s loop.State) {
	w.work[s.ProgressPath] = strings.Replace(w.work[s.ProgressPath], "- [ ] T1", "- [x] T1", 1)
}

// An agent that says what is left is believed: the work stays, the next call is told,
// and no attempt is used up.
func TestPartialWorkGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		n := 0
		for name := range w.work {
			if strings.HasPrefix(name, "mod") {
				n++
			}
		}
		w.work[fmt.Sprintf("mod%d", n+1)] = "migrated"
		if n == 3 {
			return claimed()
		}
		return completed(fmt.Sprintf("One more.\n\nRALPH_RESULT: partial: %d modules are left", 3-n))
	}
	s := w.drive(loop.NewState(request(t, oneTask), w.now), nil)
	if s.End != run.EndAllTasksComplete || len(s.Commits) != 1 || len(w.prompts) != 4 {
		t.Fatalf("ended %s (%s) with %d commits after %d calls\n%s", s.End, s.EndDetail, len(s.Commits), len(w.prompts),
			s.Progress)
	}
	if s.Attempts["T1"] != 0 || strings.Contains(s.Progress, "Iteration 1\n- Tried") {
		t.Errorf("partial work was counted as a failed attempt\n%s", s.Progress)
	}
	for i, want := range []string{"3 modules are left", "2 modules are left", "1 modules are left"} {
		if p := w.prompts[i+1]; !strings.Contains(p, want) || !strings.Contains(p, "continue from what is in the tree") {
			t.Errorf("call %d is not told %q", i+2, want)
		}
	}
	if s.Kept != nil {
		t.Errorf("after the end %v is kept", s.Kept)
	}
	if !strings.Contains(s.Progress, "continues; left: 3 modules are left") {
		t.Errorf("the log does not tell:\n%s", s.Progress)
	}
}

// A box that is ticked beside words that say otherwise is not believed.
func TestWordsAgainstATick(t *testing.T) {
	t.Parallel()
	for _, final := range []string{
		"I migrated 1 of the 10 modules; nine remain, so I have not ticked the task",
		"TASK_INCOMPLETE",
		"Manual intervention needed to finish",
		"I did not finish; nine modules remain",
		"Tests still fail, I ran out of ideas",
		"STATUS: BLOCKED",
		"VERIFICATION_FAIL: 3 tests failed",
	} {
		t.Run(final, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				w.work["mod"] = fmt.Sprint(len(w.prompts))
				tickT1(w, s)
				return completed(final)
			}
			s := w.drive(loop.NewState(request(t, oneTask), w.now), nil)
			if s.End.Complete() || len(s.Commits) > 0 {
				t.Errorf("ended %s with %d commits", s.End, len(s.Commits))
			}
		})
	}
}

// What an agent claims in so many words is judged by the checks, whatever else it tells.
func TestChattyWorkLands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["mod"] = "migrated"
		tickT1(w, s)
		return completed("The old tests still fail on main, and caching is not implemented, as the plan says.\n" +
			"Would you like me to do it next?\n\nRALPH_RESULT: done")
	}
	s := w.drive(loop.NewState(request(t, oneTask), w.now), nil)
	if s.End != run.EndAllTasksComplete || len(s.Commits) != 1 || len(w.prompts) != 1 {
		t.Errorf("ended %s (%s) with %d commits after %d calls", s.End, s.EndDetail, len(s.Commits), len(w.prompts))
	}
}

// What never gets finished is split up, and then a person is asked.
func TestPartialWorkIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	splits := 0
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.Job == prompt.JobSplit {
			splits++
			w.add(s, "first half", "second half")
			return completed("split")
		}
		w.work["mod"] = fmt.Sprint("attempt ", len(w.prompts))
		return completed("RALPH_RESULT: partial: the hard half")
	}
	s := w.drive(loop.NewState(request(t, oneTask), w.now), nil)
	// one part holds the other up no more than other tasks do
	if s.End != run.EndAwaitingPerson || splits != 1 || len(w.prompts) != 6+1+6+6 {
		t.Fatalf("ended %s (%s) after %d calls and %d splits\n%s", s.End, s.EndDetail, len(w.prompts), splits, s.Progress)
	}
	if !strings.Contains(s.EndDetail, "the hard half") || !strings.Contains(s.Progress, "needs a person: ") {
		t.Errorf("nobody is told what is left: %s\n%s", s.EndDetail, s.Progress)
	}
	if !strings.Contains(w.prompts[7], "the hard half") {
		t.Errorf("the first part does not go on from the work that is there:\n%s", w.prompts[7])
	}
}

// A partial call that changes nothing is a failed attempt.
func TestPartialWithoutAChangeFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(*world, loop.State, loop.AgentStart) loop.AgentStatus {
		return completed("RALPH_RESULT: partial: all of it")
	}
	s := w.drive(loop.NewState(request(t, oneTask), w.now), nil)
	if s.End != run.EndBlocked || len(w.prompts) != 3 {
		t.Errorf("ended %s after %d calls", s.End, len(w.prompts))
	}
}

// blocked: is not tried again; the other tasks are, and then a person is asked in the
// agent's words.
func TestBlockedAsksAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.TaskID == "T1" {
			return completed("I looked everywhere.\n\nRALPH_RESULT: blocked: the password of the staging database")
		}
		w.work[s.TaskID] = "x"
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndAwaitingPerson || len(w.prompts) != 3 || len(s.Commits) < 2 {
		t.Fatalf("ended %s (%s) after %d calls with %v", s.End, s.EndDetail, len(w.prompts), subjects(s.Commits))
	}
	if want := "T1 needs a person: the password of the staging database"; !strings.Contains(s.EndDetail, want) {
		t.Errorf("%q does not hold %q", s.EndDetail, want)
	}
}

// already drives a run whose agent claims T1 without a change, and whose verifiers
// answer in turn.
func already(t *testing.T, words string, answers ...string) (*world, loop.State) {
	t.Helper()
	w := newWorld(t)
	w.landed[0].Tree = w.store(files{"a.go": "package a\n\nfunc A() {}\n", "docs/a.md": "# A\n", "Makefile": "all:\n"})
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.Job == prompt.JobVerify {
			w.work["stray.txt"] = "a verifier writes nothing"
			answer := answers[0]
			answers = answers[min(1, len(answers)-1):]
			return completed(answer)
		}
		tickT1(w, s)
		return completed(words + "\n\nRALPH_RESULT: done")
	}
	r := request(t, "- [ ] Add A\n  - Accept: A exists in a.go\n")
	r.Gates = []gate.Gate{{Name: "test", Command: "make test"}}
	s := w.drive(loop.NewState(r, w.now), nil)
	return w, s
}

// Evidence is a line that exists, or a command between backticks.
func TestEvidence(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"`a.go:3` declares it", "./a.go:1", "see b.go:1 and a.go:3", "`go vet ./...` prints nothing at 12:30",
		"`curl http://localhost:8080/a` answers 200", "Makefile:1",
	} {
		if _, s := already(t, "It is there, see a.go.", "1. yes: "+answer+"\n\nRALPH_VERIFY: agreed"); !s.End.Complete() {
			t.Errorf("%q: ended %s (%s)", answer, s.End, s.EndDetail)
		}
	}
}

// What was there already is ticked, with the evidence of somebody else who looked.
func TestDoneAlready(t *testing.T) {
	t.Parallel()
	w, s := already(t, "It was there already, see a.go.", "1. yes: a.go:3 declares it\n\nRALPH_VERIFY: agreed")
	if s.End != run.EndAllTasksComplete || len(w.prompts) != 2 {
		t.Fatalf("ended %s (%s) after %d calls\n%s", s.End, s.EndDetail, len(w.prompts), s.Progress)
	}
	if len(s.Findings) != 1 || s.Findings[0].Text != "T1 was already done: a.go:3 declares it. Nothing was changed for it." {
		t.Errorf("people are told %+v", s.Findings)
	}
	if !strings.Contains(s.Progress, "was already done: a.go:3 declares it") {
		t.Errorf("the log does not tell:\n%s", s.Progress)
	}
	if !strings.Contains(w.prompts[1], "1. A exists in a.go") {
		t.Errorf("the verifier is not asked:\n%s", w.prompts[1])
	}
	if _, stray := w.trees[w.head().Tree]["stray.txt"]; stray {
		t.Error("what the verifier wrote has landed")
	}
	if len(w.checks) == 0 {
		t.Error("the checks did not run")
	}
}

// Who looks has to agree, with evidence that can be found, and the objection is what the next attempt is told. Two
// calls look at most; then a person is asked, where the claim names the place.
func TestDoneAlreadyIsNotBelieved(t *testing.T) {
	t.Parallel()
	const there = "It was there already, see a.go:3."
	for _, tt := range []struct {
		name, words, answer string
		looks               int
	}{
		{"it objects", there, "1. no: only B is there\n\nRALPH_VERIFY: not agreed: only B is there", 2},
		{"no such file", there, "1. yes: b.go:3\n\nRALPH_VERIFY: agreed", 2},
		{"no such file, as the prompt has it", there, "1. yes: `internal/nowhere.go:999`\n\nRALPH_VERIFY: agreed", 2},
		{"no such line", there, "1. yes: a.go:300\n\nRALPH_VERIFY: agreed", 2},
		{"mere words", there, "1. yes: I am sure of it\n\nRALPH_VERIFY: agreed", 2},
		{"no answer to the point", there, "RALPH_VERIFY: agreed", 2},
		{"no answer", there, "Looks good to me!", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, s := already(t, tt.words, tt.answer)
			looked := 0
			for _, p := range w.prompts {
				if strings.HasPrefix(p, "Mode: verify\n") {
					looked++
				}
			}
			if asked := s.End == run.EndAwaitingPerson; s.End.Complete() || looked != tt.looks || asked != (looked == 2) {
				t.Errorf("ended %s, and %d calls looked, want %d", s.End, looked, tt.looks)
			}
			if tt.name == "it objects" && !strings.Contains(w.prompts[2], "only B is there") {
				t.Errorf("the next attempt is not told:\n%s", w.prompts[2])
			}
		})
	}
}

// What earlier calls left is not believed on the word of one that changed nothing: somebody looks.
func TestUnfinishedWorkIsNotCalledDoneByWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.landed[0].Tree = w.store(files{"a/a.go": "package a\n"})
	builds, looks := 0, 0
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.Job == prompt.JobVerify {
			looks++
			return completed("1. no: B is missing\n\nRALPH_VERIFY: not agreed: B is missing")
		}
		switch builds++; builds {
		case 1:
			w.work["a/a.go"] += "func A() {}\n"
			return completed("RALPH_RESULT: partial: B")
		case 2:
			return completed("RALPH_RESULT: done")
		}
		w.work["a/a.go"] += "func B() {}\n"
		return completed("RALPH_RESULT: done")
	}
	s := w.drive(loop.NewState(request(t, "- [ ] Put A and B into a/a.go\n"), w.now), nil)
	if src := w.trees[w.head().Tree]["a/a.go"]; looks != 1 || builds != 3 || !strings.Contains(src, "func B") {
		t.Errorf("ended %s after %d calls and %d looks, with %q", s.End, builds, looks, src)
	}
}

// Work that its own agent calls failed does not land, whatever the checks say, and the next call is told why.
func TestFailedWorkDoesNotLand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := 0
	w.agent = func(w *world, _ loop.State, _ loop.AgentStart) loop.AgentStatus {
		if calls++; calls == 1 {
			w.work["a.go"] = "broken"
			return completed("RALPH_RESULT: failed: I do not see why")
		}
		w.work["a.go"] = "whole"
		return completed("RALPH_RESULT: done")
	}
	r := request(t, oneTask)
	r.Gates = []gate.Gate{{Name: "test", Kind: gate.Test, Command: "make test"}}
	s := w.drive(loop.NewState(r, w.now), nil)
	if calls != 2 || len(s.Commits) != 1 || !strings.Contains(w.prompts[1], "I do not see why") {
		t.Fatalf("ended %s after %d calls with %d commits:\n%s", s.End, calls, len(s.Commits), w.prompts[len(w.prompts)-1])
	}
}
