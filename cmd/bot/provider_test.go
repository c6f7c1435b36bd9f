package main

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// TestProviderRefuses: people read the provider's words, and what to do first, in
// the comment and in the check run; no task is blamed, and the run goes on later.
func TestProviderRefuses(t *testing.T) {
	t.Parallel()
	const words = "Credit balance is too low. What to do first: add credit to the account with the provider"
	st := newStage(t, setting{script: `model: scripted
tasks:
  one: [{files: {one.txt: "1\n"}, tick: true, say: "RALPH_RESULT: done"}]
  two: [{misbehave: is_error, say: Credit balance is too low}]
`})
	s := st.serve()
	issue := st.label("Say hello", "- [ ] one\n- [ ] two\n")
	state := st.ended(s.store, issue)
	if state.End != run.EndFailed || state.Strikes != 1 || state.Attempts["T2"] != 0 {
		t.Fatalf("ended %s after %d strikes, attempts %v: %s", state.End, state.Strikes, state.Attempts, state.EndDetail)
	}
	comments := st.issue(issue.Number).Comments
	if last := comments[len(comments)-1].Body; !strings.Contains(last, "\n> "+words) || strings.Contains(last, "exact") {
		t.Errorf("the comment says:\n%s", last)
	}
	if _, head := st.checks(); head.Conclusion != "failure" || !strings.Contains(head.Summary, "> "+words) {
		t.Errorf("the check run says %s:\n%s", head.Conclusion, head.Summary)
	}
	if file := st.contents("ralph/1")[".ralph/1/progress.md"]; !strings.Contains(file, "- [ ] T2 two\n") ||
		strings.Contains(file, "Credit") {
		t.Errorf("progress.md says:\n%s", file)
	}

	st.script(writesAll)
	if err := st.sim.RemoveLabel(person, repoOf, issue.Number, person, "ralph"); err != nil {
		t.Fatal(err)
	}
	st.relabel(issue, person)
	st.processed(s)
	if again := st.ended(s.store, issue); again.Run == state.Run || again.End != run.EndAllTasksComplete {
		t.Errorf("with credit it ended %s: %s", again.End, again.EndDetail)
	}
}
