package loop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// ticks is an agent that does its task and says so in each way there is.
func ticks(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
	w.work["src/"+s.TaskID+".txt"] = "done"
	w.work[s.ProgressPath] = strings.Replace(w.work[s.ProgressPath], "[ ] "+s.TaskID, "[x] "+s.TaskID, 1)
	return completed("RALPH_RESULT: done")
}

func log(t *testing.T, s loop.State) (numbers []int) {
	t.Helper()
	d, err := progress.Parse([]byte(s.Progress))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range d.Log() {
		numbers = append(numbers, row.Iteration)
	}
	return numbers
}

// Each run of a subject may begin as many iterations as its limit says, and
// numbers them from where the last one stopped.
func TestIterationsCountOnFromTheRunBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = ticks
	w.settings.KeepProgress = true
	r := request(t, "- [ ] one\n- [ ] two\n- [ ] three\n- [ ] four\n- [ ] five\n")
	r.Limits.MaxIterations = 2
	first := w.drive(loop.NewState(r, w.now), nil)
	if got := log(t, first); first.End != run.EndMaxIterations || !slices.Equal(got, []int{1, 2}) {
		t.Fatalf("ended %s: %s; log %v", first.End, first.EndDetail, got)
	}

	r.Run, r.Earlier = "r2", first.Sum()
	second := w.drive(loop.NewState(r, w.now), nil)
	if got := log(t, second); second.End != run.EndMaxIterations || second.Iterations() != 2 ||
		!slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("ended %s after %d iterations: %s; log %v", second.End, second.Iterations(), second.EndDetail, got)
	}

	// Of the third, no door knows anything; the file tells enough.
	r.Run, r.Earlier, r.Once = "r3", loop.Earlier{}, true
	third := w.drive(loop.NewState(r, w.now), nil)
	if got := log(t, third); third.Iteration != 5 || third.Iterations() != 1 || !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
		t.Errorf("ended %s (%s); log %v", third.End, third.EndDetail, got)
	}
	var landed []int
	for _, l := range w.commits {
		if l.Task.ID != "" {
			landed = append(landed, l.Iteration)
		}
	}
	if !slices.Equal(landed, []int{1, 2, 3, 4, 5}) {
		t.Errorf("commits of iterations %v", landed)
	}
	last := w.events[len(w.events)-1]
	if last.Iteration != 5 || last.Iterations != 1 {
		t.Errorf("the last event is of iteration %d, the run's %d.", last.Iteration, last.Iterations)
	}
}

// The branch says which commits there are; what it does not know, the run before does.
func TestSumOfEarlierRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = ticks
	w.earlier = loop.Earlier{
		Runs: 2, Iterations: 4, CostUSD: 1,
		Commits: []loop.Landed{{OID: "a", Subject: "one"}, {OID: "b", Subject: strings.Repeat("x", 500)}},
	}
	r := request(t, "- [ ] one\n")
	r.Earlier = loop.Earlier{
		Runs: 3, Iterations: 7, CostUSD: 2.5, Commits: []loop.Landed{{OID: "gone"}, {OID: "b", Verified: new(true)}},
	}
	s := w.drive(loop.NewState(r, w.now), nil)
	sum := s.Sum()
	if sum.Runs != 4 || sum.Iterations != 8 || sum.CostUSD != 2.75 || sum.Older != 0 {
		t.Errorf("%+v", sum)
	}
	want := []loop.Landed{
		{OID: "a", Subject: "one"}, {OID: "b", Subject: strings.Repeat("x", 197) + "…", Verified: new(true)}, s.Commits[0],
	}
	if diff := cmp.Diff(want, sum.Commits); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}

	// However many there are, a state stays small.
	for range 300 {
		w.earlier.Commits = append(w.earlier.Commits, loop.Landed{OID: "c"})
	}
	r.Run = "r5"
	if s = w.drive(loop.NewState(r, w.now), nil); len(s.Earlier.Commits) != 100 || s.Earlier.Older != 202 {
		t.Errorf("%d commits are kept, %d are not", len(s.Earlier.Commits), s.Earlier.Older)
	}
	if fresh := (&loop.State{}).Sum(); fresh.Runs != 0 {
		t.Errorf("no run is %+v", fresh)
	}
}
