package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
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

// TestAnnotationsOfTheCheckRun: what the gates said of lines that are there, and
// nothing else, is shown on them, each once, though the end is told twice.
func TestAnnotationsOfTheCheckRun(t *testing.T) {
	t.Parallel()
	fails := `test ! -e two.txt || {
echo "one.txt:1:2: @walt says no"
echo "./README.md:1: key sk-ant-api03-` + strings.Repeat("a", 95) + `"
echo "one.txt:2: beyond its end"
echo "two.txt:1: did not land"
echo "both.txt:1: is another one at the head"
echo "../one.txt:1: outside"
exit 1
}`
	st := newStage(t, setting{
		script: "model: scripted\ntasks:\n  one: [{files: {one.txt: \"1\\n\", both.txt: \"1\\n\"}, say: done}]\n" +
			"  two: [{files: {two.txt: \"2\\n\", both.txt: \"2\\n\"}, say: done}]\n",
		change: nothingOnce,
		gates: []config.Gate{
			{
				Name: "lint", Run: "echo \"one.txt:1: could be nicer\"; exit 1", When: "task", Blocking: new(false), Timeout: time.Minute,
			},
			{Name: "words", Run: fails, When: "task", Timeout: time.Minute},
		},
	})
	// The answer gets lost: the end is told again.
	if err := st.sim.Inject(ghsim.Fault{
		Method: "POST", Match: "/check-runs$", After: true, Status: 502, Body: "<html>",
	}); err != nil {
		t.Fatal(err)
	}
	s := st.serve()
	state := st.ended(s.store, st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n"))
	if state.End != run.EndBlocked {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	_, head := st.checks()
	for i, a := range head.Annotations {
		if strings.Contains(a.Message, "sk-ant") || strings.Contains(a.Message, "@walt") {
			t.Errorf("annotation %q", a.Message)
		}
		head.Annotations[i].Message = ""
	}
	want := []ghsim.Annotation{
		{Path: "one.txt", StartLine: 1, EndLine: 1, StartColumn: 2, EndColumn: 2, Level: "failure", Title: "words"},
		{Path: "README.md", StartLine: 1, EndLine: 1, Level: "failure", Title: "words"},
		{Path: "one.txt", StartLine: 1, EndLine: 1, Level: "warning", Title: "lint"},
	}
	if diff := cmp.Diff(want, head.Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
