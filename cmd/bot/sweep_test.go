package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// TestMissedLabels: GitHub sends no webhook of some labels. They are worked as if
// it had, unless something happened on the issue since.
func TestMissedLabels(t *testing.T) {
	t.Parallel()
	clock, gitHubs := &slowClock{}, &slowClock{}
	st := newStage(t, setting{script: writesAll, gitHubClock: gitHubs.now})
	st.now = clock.now
	s := st.serve()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ran := func(issue ghsim.Issue) bool {
		t.Helper()
		_, err := s.store.LatestRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
		return err == nil
	}
	asked := func(issue ghsim.Issue) int {
		t.Helper()
		n := 0
		for _, c := range st.issue(issue.Number).Comments {
			n += strings.Count(c.Body, "missed this label")
		}
		return n
	}
	st.caughtUp(s)
	// One that was delivered: the server is not new, and does not do it again.
	delivered := st.label("Say hello to everybody", threeTasks)
	first := st.ended(s.store, delivered)
	if first.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", first.End, first.EndDetail)
	}
	st.await("the label of state", func() bool { return slices.Contains(st.issue(delivered.Number).Labels, "ralph:done") })
	// The same, without a label of state that says so.
	must(st.sim.RemoveLabel(person, repoOf, delivered.Number, person, "ralph:done"))
	_, err := st.sim.CreateUser("eve")
	must(err)
	must(st.sim.SetPermission(person, repoOf, "eve", ghsim.RoleTriage))
	refused, err := st.sim.CreateIssue(person, repoOf, person, "By a stranger who was heard", threeTasks)
	must(err)
	st.relabel(refused, "eve")
	st.processed(s)

	must(st.sim.SetHook(st.app.ID, "", ""))
	quiet := st.label("Say hello once more", threeTasks)
	edited := st.label("Say hello", threeTasks)
	gitHubs.pass(time.Second) // its times are in seconds
	must(st.sim.EditIssue(person, repoOf, edited.Number, person, "Say hello", threeTasks+"\n- [ ] and something else\n"))
	by, err := st.sim.CreateIssue(person, repoOf, person, "By a stranger", threeTasks)
	must(err)
	st.relabel(by, "eve")
	done := st.label("Done before", threeTasks)
	must(st.sim.AddLabel(person, repoOf, done.Number, person, "ralph:done"))
	branched := st.label("Begun elsewhere", threeTasks)
	_, err = st.sim.Push(person, repoOf, fmt.Sprintf("ralph/%d", branched.Number), person,
		ghsim.PushOptions{Message: "manually", Files: map[string]string{"x": "x"}})
	must(err)
	off := st.label("Changed my mind", threeTasks)
	must(st.sim.RemoveLabel(person, repoOf, off.Number, person, "ralph"))
	st.hook(strings.TrimPrefix(st.hookURL, "http://"))

	// Its webhook may still be on its way.
	must(s.catchUp(t.Context()))
	if ran(quiet) || asked(edited) != 0 {
		t.Error("did not wait for the webhook")
	}
	clock.pass(11 * time.Minute)
	for range 3 {
		must(s.catchUp(t.Context()))
	}
	if state := st.ended(s.store, quiet); state.End != run.EndAllTasksComplete || state.Subject.RequestedBy != person {
		t.Errorf("ended %s for %s: %s", state.End, state.Subject.RequestedBy, state.EndDetail)
	}
	st.processed(s)
	must(s.catchUp(t.Context()))
	for name, issue := range map[string]ghsim.Issue{
		"edited": edited, "by a stranger": by, "done": done, "branched": branched, "without the label": off,
		"refused before": refused,
	} {
		if ran(issue) {
			t.Errorf("%s: a run was begun", name)
		}
		want := 0
		if name == "edited" {
			want = 1
		}
		if n := asked(issue); n != want {
			t.Errorf("%s: asked %d times, want %d", name, n, want)
		}
	}
	if c := st.issue(by.Number).Comments; len(c) != 1 || !strings.Contains(c[0].Body, "eve") {
		t.Errorf("the stranger was told %+v", c)
	}
	if c := st.issue(refused.Number).Comments; len(c) != 1 {
		t.Errorf("on the issue that was refused before: %+v", c)
	}
	if latest, err := s.store.LatestRunByIssue(t.Context(), st.repo.NodeID, delivered.Number); err != nil ||
		string(latest.ID) != string(first.Run) {
		t.Errorf("a second run was begun of what was done: %v", err)
	}
}

// caughtUp waits until the server has looked for what was missed before its start, so that
// the test's own look is the only one.
func (st *stage) caughtUp(s *serving) {
	st.t.Helper()
	st.await("the look at the start", s.app.caughtUp.Load)
}

// TestManyMissedLabels: not all are begun at once.
func TestManyMissedLabels(t *testing.T) {
	t.Parallel()
	clock := &slowClock{}
	st := newStage(t, setting{script: "model: scripted\ndefault: [{misbehave: hang}]\n"})
	st.now = clock.now
	s := st.serve()
	st.caughtUp(s)
	st.label("Say", "") // so that the server is not new
	st.processed(s)
	if err := st.sim.SetHook(st.app.ID, "", ""); err != nil {
		t.Fatal(err)
	}
	var issues []ghsim.Issue
	for range 7 {
		issues = append(issues, st.label("Say hello", threeTasks))
	}
	clock.pass(11 * time.Minute)
	if err := s.catchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	begun, asked := 0, 0
	for _, issue := range issues {
		if _, err := s.store.LatestRunByIssue(t.Context(), st.repo.NodeID, issue.Number); err == nil {
			begun++
		}
		for _, c := range st.issue(issue.Number).Comments {
			asked += strings.Count(c.Body, "missed this label")
		}
	}
	if begun != 5 || asked != 2 {
		t.Errorf("%d runs begun and %d issues asked about, want 5 and 2", begun, asked)
	}
}
