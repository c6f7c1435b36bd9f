package main

import (
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// issued writes an issue without a label.
func (st *stage) issued(title, body string) ghsim.Issue {
	st.t.Helper()
	issue, err := st.sim.CreateIssue(person, repoOf, person, title, body)
	if err != nil {
		st.t.Fatal(err)
	}
	return issue
}

func (st *stage) must(err error) {
	st.t.Helper()
	if err != nil {
		st.t.Fatal(err)
	}
}

// waits is what the only active run waits for.
func (st *stage) waits(s *serving) string {
	st.t.Helper()
	if a := st.standings(s, 0); len(a.Runs) == 1 {
		return a.Runs[0].Waits
	}
	return ""
}

// TestRunWaitsForItsIssues: a run waits until what its text names and what GitHub has the
// issue blocked by is closed, says so once, and begins by itself. Neither a restart nor one
// of the two is enough, and nothing of the run is used up.
func TestRunWaitsForItsIssues(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	s := st.serve()
	first, second := st.issued("First", "By hand"), st.issued("Second", "By hand")
	issue := st.issued("Say hello", "Depends on: #1\n\n"+threeTasks)
	st.must(st.sim.BlockIssue(person, repoOf, issue.Number, person, person, repoOf, second.Number))
	st.relabel(issue, person)
	st.await("the run to wait for both", func() bool { return st.waits(s) == "it waits for #2, #1" })
	st.must(st.sim.CloseIssue(person, repoOf, first.Number, person))
	st.await("the run to wait for the other", func() bool { return st.waits(s) == "it waits for #2" })
	s.stop()
	s = st.serve()
	st.processed(s)
	if s.started() {
		t.Error("an agent was started")
	}
	st.must(st.sim.CloseIssue(person, repoOf, second.Number, person))
	state := st.ended(s.store, issue)
	if state.End != run.EndAllTasksComplete || len(state.Attempts) != 0 || state.Waited <= 0 {
		t.Errorf("ended %s, attempts %v, waited %v: %s", state.End, state.Attempts, state.Waited, state.EndDetail)
	}
	st.processed(s)
	comments := st.issue(issue.Number).Comments
	if len(comments) == 0 || !strings.HasPrefix(comments[0].Body, "**Waiting for #2 and #1.**") {
		t.Fatalf("comments: %+v", comments)
	}
	for _, c := range comments[1:] {
		if strings.Contains(c.Body, "Waiting") {
			t.Errorf("said again: %s", c.Body)
		}
	}
}

// TestRunStopsWaiting: GitHub is not asked at each tick what a run waits for, and a label that
// is taken off ends the wait.
func TestRunStopsWaiting(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	s := st.serve()
	st.issued("First", "By hand")
	issue := st.label("Say hello", "Blocked by #1\n\n"+threeTasks)
	st.await("the run to wait", func() bool { return st.waits(s) == "it waits for #1" })
	st.processed(s)
	asked := func() (n int) {
		for _, c := range st.sim.Calls() {
			if strings.Contains(c.Path, "/dependencies/blocked_by") {
				n++
			}
		}
		return n
	}
	ticked := func() (at string) {
		if err := s.store.DB().QueryRowContext(t.Context(),
			`SELECT coalesce(max(attempted_at), '') FROM river_job WHERE kind = 'run.advance'`).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	tick := func() {
		last := ticked()
		st.await("another tick", func() bool { return ticked() != last })
	}
	// A signal that began it has it look once more, some seconds later.
	st.clock.pass(time.Minute)
	tick()
	tick() // the one before may have begun already
	before := asked()
	tick()
	tick()
	if n := asked() - before; n != 0 || before == 0 {
		t.Errorf("asked %d times in two ticks, %d before", n, before)
	}
	st.must(st.sim.RemoveLabel(person, repoOf, issue.Number, person, "ralph"))
	if state := st.ended(s.store, issue); state.End != run.EndCancelled || s.started() {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
}

// TestCircleIsNotWaitedFor: nor is what the App cannot read, and people are told of both.
func TestCircleIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	s := st.serve()
	other := st.issued("Other", "Depends on: #2\n\n"+threeTasks)
	issue := st.issued("Say hello", "Depends on: #1, else/where#5\n\n"+threeTasks)
	st.relabel(other, person) // nobody has approved the other's text
	st.await("the first run to wait", func() bool { return st.waits(s) == "it waits for #2" })
	st.relabel(issue, person)
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	const want = "I do not wait for #1, because that waits for this issue.\n\n" +
		"I do not wait for else/where#5, because I cannot read it."
	if comments := st.issue(issue.Number).Comments; len(comments) == 0 || !strings.HasPrefix(comments[0].Body, want) {
		t.Errorf("comments: %+v", comments)
	}
}

// TestActionDoesNotWaitForIssues: a job ends, and says what there is to do.
func TestActionDoesNotWaitForIssues(t *testing.T) {
	t.Parallel()
	r := newRunner(t, setting{script: writesAll})
	r.issued("First", "By hand")
	got := r.job("issues", r.labelled("Say hello", "Depends on: #1\n\n"+threeTasks)).step()
	if got.outputs["end_reason"] != string(run.EndAwaitingPerson) || !strings.Contains(got.log, "waits for #1") {
		t.Errorf("outputs %v:\n%s", got.outputs, got.log)
	}
	comments := r.issue(2).Comments
	if len(comments) == 0 || !strings.HasPrefix(comments[0].Body, "**This waits for #1.** A job of a workflow cannot wait.") {
		t.Errorf("comments: %+v", comments)
	}
}
