package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/ghsim"
)

const oneTask = "model: scripted\ndefault: [{files: {one.txt: \"1\\n\"}, say: done}]\n"

// writes are the calls that changed something on GitHub, each as what it did.
func (st *stage) writes() (got []string) {
	st.t.Helper()
	for _, c := range st.sim.Calls() {
		if c.Method != http.MethodGet && c.Method != http.MethodHead && !strings.Contains(c.Path, "/access_tokens") &&
			c.Kind != "git" && !strings.HasPrefix(c.Route, "query") && !strings.HasPrefix(c.Caller, "user:") {
			got = append(got, c.Method+" "+c.Route)
		}
	}
	return got
}

// TestLabelsAndRepliesOutlastFailures: the label of the end is put on, and a command
// answered, when GitHub takes them, and once.
func TestLabelsAndRepliesOutlastFailures(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: oneTask})
	for _, f := range []ghsim.Fault{
		{Method: "POST", Match: "/issues/1/labels$", Status: http.StatusBadGateway},
		{Method: "POST", Match: "/issues/1/comments$", Status: http.StatusBadGateway, After: true},
	} {
		if err := st.sim.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	s := st.serve()
	issue := st.label("Say hello", "- [ ] Write one\n")
	st.ended(s.store, issue)
	st.await("the label that says how the run ended", func() bool {
		return slices.Contains(st.issue(issue.Number).Labels, "ralph:done")
	})
	st.comment(issue.Number, person, "/ralph status")
	st.await("the reply", func() bool { return len(st.said(issue.Number)) > 0 })
	if said := st.said(issue.Number); len(said) != 1 {
		t.Errorf("said %q", said)
	}
}
