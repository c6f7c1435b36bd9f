package loop_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// driveHearing steps s to its end and has it take in list once, as soon as when holds and the
// run can.
func (w *world) driveHearing(s loop.State, list []loop.Heard, when func(loop.State) bool) loop.State {
	w.t.Helper()
	e := w.engine()
	taken := false
	w.meanwhile = func(s loop.State) loop.State {
		if taken || !when(s) {
			return s
		}
		next, err := e.TakeFeedback(w.t.Context(), s, list)
		if err != nil && !errors.Is(err, loop.ErrNotNow) {
			w.t.Fatal(err)
		}
		if taken = err == nil; taken != s.Receptive() {
			w.t.Fatalf("receptive %v: %v", s.Receptive(), err)
		}
		return next
	}
	s = w.drive(s, nil)
	if !taken {
		w.t.Fatal("it never listened")
	}
	return s
}

func said(key string, title, quote string) loop.Heard {
	return loop.Heard{
		Feedback: loop.Feedback{
			Key: key, Comment: 1, Where: "README line 1", By: "ada", Standing: loop.FeedbackTask, Quote: quote,
		},
		Task: run.Task{Title: title, Priority: 1}, Person: ada,
	}
}

// TestTakeFeedback: what was said comes before the tasks that are left, and reaches the agent
// at it.
func TestTakeFeedback(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]func(loop.State) bool{
		"while an agent works": iterating(2),
		"at its very end":      func(s loop.State) bool { return s.End != "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			same := said("w2", "", "")
			same.As = "w"
			dropped := loop.Heard{Feedback: loop.Feedback{Key: "d", Standing: loop.FeedbackDropped, Why: "it was resolved"}}
			s := w.driveHearing(loop.NewState(request(t, threeTasks), w.now),
				[]loop.Heard{said("s", "Be kind", "ada wrote: be kind"), said("w", "Be brief", "ada wrote: be brief"), same, dropped}, when)
			if s.End != run.EndAllTasksComplete {
				t.Fatalf("ended %s: %s", s.End, s.EndDetail)
			}
			want := []string{"T1 one", "T2 two", "T4 Be kind", "T5 Be brief", "T3 three"}
			if name == "at its very end" {
				want = []string{"T1 one", "T2 two", "T3 three", "T4 Be kind", "T5 Be brief"}
			}
			if diff := cmp.Diff(want, subjectsOf(w)); diff != "" {
				t.Error(diff)
			}
			prompts := map[string]string{}
			for _, p := range w.prompts {
				_, task, _ := strings.Cut(p, "Task: ")
				prompts[task[:2]] = p
			}
			if !strings.Contains(prompts["T4"], "ada wrote: be kind") || !strings.Contains(prompts["T5"], "ada wrote: be brief") ||
				strings.Contains(prompts["T3"], "be brief") {
				t.Errorf("prompts of T4 and T5:\n%s\n%s", prompts["T4"], prompts["T5"])
			}
			done, err := s.Answered()
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			for _, f := range done {
				keys = append(keys, f.Key+" "+f.TaskID)
				if f.Quote != "" || f.Rounds != 1 || !strings.Contains(f.Did, "changed") {
					t.Errorf("%+v", f)
				}
			}
			if diff := cmp.Diff([]string{"s T4", "w T5", "w2 T5"}, keys); diff != "" {
				t.Error(diff)
			}
			if s.Unsettled() {
				t.Error("something waits for people")
			}
		})
	}
}

// TestTakeFeedbackAgain: a conversation that comes back is another round, and what is asked
// of people is not settled before they have answered.
func TestTakeFeedbackAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked := loop.Heard{Feedback: loop.Feedback{Key: "w", Comment: 1, Standing: loop.FeedbackAsked, Why: "two wishes"}}
	first := w.driveHearing(loop.NewState(request(t, threeTasks), w.now), []loop.Heard{said("w", "Be brief", "be brief")},
		iterating(2))
	again := request(t, threeTasks)
	again.Feedback, again.Carried = first.Feedback, first.Progress
	s := w.driveHearing(loop.NewState(again, w.now), []loop.Heard{asked},
		func(s loop.State) bool { return s.Progress != "" })
	if !s.Unsettled() || len(s.Feedback) != 1 || s.Feedback[0].Rounds != 1 {
		t.Fatalf("%+v", s.Feedback)
	}
	last := request(t, threeTasks)
	last.Feedback, last.Carried = s.Feedback, s.Progress
	s = w.driveHearing(loop.NewState(last, w.now), []loop.Heard{said("w", "Be briefer", "be briefer")},
		func(s loop.State) bool { return s.Progress != "" })
	if s.Unsettled() || len(s.Feedback) != 1 || s.Feedback[0].Rounds != 2 ||
		s.Feedback[0].TaskID == first.Feedback[0].TaskID || s.Feedback[0].Commit == "" {
		t.Errorf("%+v", s.Feedback)
	}
}

// TestWhatIsNotDoneIsKept where more was said than is remembered.
func TestWhatIsNotDoneIsKept(t *testing.T) {
	t.Parallel()
	list := make([]loop.Heard, 0, 310)
	add := func(f loop.Feedback) { list = append(list, loop.Heard{Feedback: f}) }
	add(loop.Feedback{Key: "open", Standing: loop.FeedbackTask, TaskID: "T1", Quote: "please"})
	add(loop.Feedback{Key: "asked", Standing: loop.FeedbackAsked})
	add(loop.Feedback{Key: "landed", Standing: loop.FeedbackTask, TaskID: "T2", Commit: "c0ffee"})
	for i := range 299 {
		add(loop.Feedback{Key: fmt.Sprintf("dropped %d", i), Standing: loop.FeedbackDropped})
	}
	var s loop.State
	s.Note(list)
	keys := make([]string, 0, len(s.Feedback))
	for _, f := range s.Feedback {
		keys = append(keys, f.Key)
	}
	if len(keys) != 300 || !slices.Equal(keys[:3], []string{"open", "asked", "dropped 1"}) || keys[299] != "dropped 298" {
		t.Errorf("kept %d: %v", len(keys), keys)
	}
	// Where nothing is done, the oldest goes.
	list = list[:0]
	for i := range 301 {
		add(loop.Feedback{Key: fmt.Sprint(i), Standing: loop.FeedbackAsked})
	}
	s = loop.State{}
	s.Note(list)
	if len(s.Feedback) != 300 || s.Feedback[0].Key != "1" {
		t.Errorf("kept %d, the first %q", len(s.Feedback), s.Feedback[0].Key)
	}
}
