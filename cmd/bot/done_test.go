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
