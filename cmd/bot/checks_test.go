package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

var noText = cmpopts.IgnoreFields(ghsim.CheckRun{}, "ID", "Summary", "Text")

// TestCheckRunSaysHowTheRunEnded on the last commit, and on no other.
func TestCheckRunSaysHowTheRunEnded(t *testing.T) {
	t.Parallel()
	const idleOnTwo = `model: scripted
tasks:
  one: [{files: {one.txt: "1\n"}, say: done}]
default: [{misbehave: nothing}]
`
	for end, c := range map[run.EndReason]struct {
		script string
		change func(*config.Server)
		want   []string
	}{
		run.EndAllTasksComplete: {writesAll, nil, []string{"", "", "", "completed success"}},
		run.EndBlocked:          {idleOnTwo, nothingOnce, []string{"", "completed failure"}},
		run.EndMaxIterations: {
			writesAll, func(c *config.Server) { c.Limits.MaxIterations = 2 }, []string{"", "completed action_required"},
		},
	} {
		t.Run(string(end), func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{
				script: c.script, change: c.change, gates: []config.Gate{{Name: "not empty", Run: "test -s one.txt", When: "task"}},
			})
			s := st.serveSlow(time.Minute) // else not every commit is shown
			state := st.ended(s.store, st.label("Say hello", threeTasks))
			if state.End != end {
				t.Fatalf("ended %s: %s", state.End, state.EndDetail)
			}
			got, head := st.checks()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("check runs by commit (-want +got):\n%s", diff)
			}
			want := ghsim.CheckRun{
				Name: "Ralph", HeadOID: state.Head, ExternalID: string(state.Run), Status: "completed",
				Conclusion: string(end.Conclusion()), Title: run.Proof{Passed: 1}.Sentence(end),
			}
			if !end.Complete() {
				want.Buttons = []string{"retry"}
			}
			if diff := cmp.Diff(want, head, noText); diff != "" {
				t.Errorf("on the head (-want +got):\n%s", diff)
			}
			if !strings.Contains(head.Summary, "- [x] T1 Write one ·") || !strings.Contains(head.Summary, "not empty") {
				t.Errorf("summary:\n%s", head.Summary)
			}
		})
	}
}

// TestOneCommentSaysHowItStands: what an earlier run has said of its end is
// folded away by the next, also where GitHub lets nothing be folded at first.
func TestOneCommentSaysHowItStands(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"folded": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{script: "model: scripted\ndefault: [{misbehave: nothing}]\n", change: nothingOnce})
			if refused {
				if err := st.sim.Inject(ghsim.Fault{
					Match: "^/graphql minimizeComment", Status: 403, Times: 9,
					Body: `{"message":"Resource not accessible by integration"}`,
				}); err != nil {
					t.Fatal(err)
				}
			}
			s := st.serve()
			issue := st.label("Say hello", "- [ ] Write one\n")
			state := st.ended(s.store, issue)
			st.processed(s)
			if err := st.sim.RemoveLabel(person, repoOf, issue.Number, person, "ralph"); err != nil {
				t.Fatal(err)
			}
			st.relabel(issue, person)
			if state = st.another(s, issue, state.Run); state.End != run.EndBlocked {
				t.Fatalf("ended %s: %s", state.End, state.EndDetail)
			}
			st.processed(s)
			var open, folded int
			for _, c := range st.issue(issue.Number).Comments {
				switch {
				case !strings.Contains(c.Body, "Stopped: all remaining tasks are blocked"):
				case c.Folded == "":
					open++
				default:
					folded++
				}
			}
			want := 1
			if refused {
				want = 0
			}
			if folded != want || open != 2-want {
				t.Errorf("%d comments say how a run ended, %d more are folded: %+v", open, folded, st.issue(issue.Number).Comments)
			}
		})
	}
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
echo "../one.txt:1: outside"
exit 1
}`
	st := newStage(t, setting{
		script: "model: scripted\ntasks:\n  one: [{files: {one.txt: \"1\\n\"}, say: done}]\n  two: [{files: {two.txt: \"2\\n\"}, say: done}]\n",
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
