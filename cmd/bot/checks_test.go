package main

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// checks are the check runs on the commits of the one pull request, told by
// conclusion, in the order of the commits. Each commit has at most one.
func (st *stage) checks() (conclusions []string, head ghsim.CheckRun) {
	st.t.Helper()
	all, err := st.sim.CheckRuns(person, repoOf)
	if err != nil {
		st.t.Fatal(err)
	}
	pr := st.onlyPR()
	for _, c := range pr.Commits {
		var said []string
		for _, check := range all {
			if check.HeadOID == c.OID {
				said = append(said, check.Status+" "+check.Conclusion)
			}
			if check.HeadOID == pr.HeadOID {
				head = check
			}
		}
		conclusions = append(conclusions, strings.Join(said, ", "))
	}
	return conclusions, head
}

// TestOneCommentSaysHowItStands: what an earlier run has said of its end is folded away by the next.
func TestOneCommentSaysHowItStands(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: "model: scripted\ndefault: [{misbehave: nothing}]\n", change: nothingOnce})
	s := st.serve()
	issue := st.label("Say hello", "- [ ] Write one\n")
	state := st.ended(s.store, issue)
	st.processed(s)
	if state = st.again(s, issue, state.Run); state.End != run.EndBlocked {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	folded := map[bool]int{}
	for _, c := range st.issue(issue.Number).Comments {
		if strings.Contains(c.Body, "Stopped: all remaining tasks are blocked") {
			folded[c.Folded != ""]++
		}
	}
	if folded[true] != 1 || folded[false] != 1 {
		t.Errorf("folded %v: %+v", folded, st.issue(issue.Number).Comments)
	}
}
