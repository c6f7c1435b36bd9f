package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// TestF7ProtectedPathsArePutBack: the rest lands, checked without them, and the
// description names them; so does the issue where there is no pull request.
func TestF7ProtectedPathsArePutBack(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{
		script: `model: scripted
tasks:
  one:
    - {files: {one.txt: "1\n", .github/workflows/ci.yml: "on: push\n", Makefile: "all:\n", web/yarn.lock: "x\n"}, say: done}
  two:
    - {files: {CODEOWNERS: "* @ada\n"}, say: done}
default: [{files: {three.txt: "3\n"}, say: done}]
`,
		files: map[string]string{
			"README.md": "# widgets\n", ".github/ralph.yml": "protected:\n  paths: [\"*.lock\"]\nreview: false\n",
		},
		gates: []config.Gate{
			{
				Name: "no workflow", Run: "test ! -e .github/workflows && test ! -e CODEOWNERS", When: "task", Timeout: time.Minute,
			},
		},
	})
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	state := st.ended(s.store, issue)
	if state.End != run.EndBlocked {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	pr := st.onlyPR()
	if diff := cmp.Diff([]string{wantSubjects[0], wantSubjects[2]}, subjects(pr.Commits)); diff != "" {
		t.Error(diff)
	}
	landed := st.contents("ralph/1")
	if landed["one.txt"] == "" || landed["Makefile"] == "" || landed["three.txt"] == "" {
		t.Errorf("what may land did not: %v", landed)
	}
	for path, task := range map[string]string{".github/workflows/ci.yml": "T1", "CODEOWNERS": "T2", "web/yarn.lock": "T1"} {
		if landed[path] != "" || !strings.Contains(pr.Body, path+" was put back at "+task) {
			t.Errorf("%s landed, or is not named in\n%s", path, pr.Body)
		}
	}
	if comments := st.issue(pr.Number).Comments; len(comments) != 0 {
		t.Errorf("comments on the pull request: %+v", comments)
	}

	issue = st.label("Say who reviews", "- [ ] two\n")
	state = st.ended(s.store, issue)
	if state.End != run.EndBlocked || len(state.Commits) != 0 {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	if said := st.issue(issue.Number).Comments; len(said) != 1 ||
		!strings.Contains(said[0].Body, "- CODEOWNERS was put back at T1") {
		t.Errorf("comments on the issue: %+v", said)
	}
}
