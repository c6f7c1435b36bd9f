package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// TestAnAgentNeedsAPerson: what it says is missing is asked of a person at once, in
// its words, and the others of its tasks are worked; a retry goes on with it.
func TestAnAgentNeedsAPerson(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: `model: scripted
tasks:
  one: [{say: I looked everywhere., claim: "blocked: the password of the staging database"}]
default: [{files: {two.txt: "2\n"}}]
`})
	s := st.serve()
	issue := st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n")
	state := st.ended(s.store, issue)
	if state.End != run.EndAwaitingPerson || state.Attempts["T1"] != 0 || len(state.Commits) == 0 {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	body := st.onlyPR().Body
	for _, want := range []string{
		"the password of the staging database", "Add what the blocked tasks need to", "`/ralph retry`",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the description does not say %q:\n%s", want, body)
		}
	}
	if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:needs-human") {
		t.Errorf("labels %v", labels)
	}
	st.script("model: scripted\ndefault: [{files: {one.txt: \"1\\n\"}}]\n")
	st.comment(issue.Number, person, "/ralph retry")
	if again := st.another(s, issue, state.Run); again.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", again.End, again.EndDetail)
	}
}

// TestWhatWasThereAlready is told with its evidence where people review the work.
func TestWhatWasThereAlready(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: `model: scripted
tasks:
  readme: [{tick: true, say: "It was there already, see README.md."}]
verify:
  readme: [{say: "1. yes: README.md:1 is there\n\nRALPH_VERIFY: agreed"}]
default: [{files: {two.txt: "2\n"}}]
`})
	s := st.serve()
	state := st.ended(s.store, st.label("Say hello",
		"- [ ] Write the readme\n  - Accept: README.md is there\n- [ ] Write two\n"))
	if state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	if subject := st.onlyPR().Commits[0].Subject; subject != "chore: T1 was already done: Write the readme" {
		t.Errorf("the commit is called %q", subject)
	}
	if body := st.onlyPR().Body; !strings.Contains(body,
		"T1 was already done: README.md:1 is there. Nothing was changed for it.") {
		t.Errorf("the description does not tell:\n%s", body)
	}
}

// TestAVerifyLineIsACheck: its command holds back what it does not like, and the
// pull request of a `[VERIFY]` task that finds something has the task that fixes it.
func TestAVerifyLineIsACheck(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: `model: scripted
tasks:
  one: [{files: {wrong.txt: "1\n"}}, {files: {one.txt: "1\n"}}]
  Fix what: [{files: {late.txt: "1\n"}}]
default: [{files: {two.txt: "2\n"}}]
`})
	s := st.serve()
	issue := st.label("Say hello", "- [ ] Write one\n  - Verify: `test -s one.txt`\n- [ ] [VERIFY] Look at all of it\n  - Verify: `test -s late.txt`\n")
	state := st.ended(s.store, issue)
	if state.End != run.EndAllTasksComplete || state.Attempts["T1"] != 1 {
		t.Fatalf("ended %s: %s\n%s", state.End, state.EndDetail, state.Progress)
	}
	for _, want := range []string{"[x] T1 Write one", "Fix what T2 found", "Look at all of it"} {
		if !strings.Contains(state.Progress, want) {
			t.Errorf("no %q in\n%s", want, state.Progress)
		}
	}
}
