package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// patchIn is the patch that a comment hands over, in a fence of any length.
func patchIn(t *testing.T, comment string) string {
	t.Helper()
	m := regexp.MustCompile("(?s)\n(`{3,})diff\n(.*)\n`{3,}\n").FindStringSubmatch(comment)
	if m == nil || strings.Contains(m[2], m[1]) {
		t.Fatalf("no patch in\n%s", comment)
	}
	return m[2] + "\n"
}

// TestF7ProtectedPathsAreHeldBack: the rest lands, checked without them, and a
// person gets them as a patch that applies.
func TestF7ProtectedPathsAreHeldBack(t *testing.T) {
	t.Parallel()
	const workflow = "on: push\njobs: {x: {runs-on: ubuntu-latest, steps: [{run: \"echo `whoami` ```@ada``` fixes #1\"}]}}\n"
	st := newStage(t, setting{
		script: `model: scripted
tasks:
  one:
    - {files: {one.txt: "1\n", .github/workflows/ci.yml: ` + strconv.Quote(workflow) + `, Makefile: "all:\n", web/yarn.lock: "x\n"}, say: done}
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
	for _, held := range []string{".github/workflows/ci.yml", "CODEOWNERS", "web/yarn.lock"} {
		if landed[held] != "" || !strings.Contains(pr.Body, held) {
			t.Errorf("%s landed, or is not named in\n%s", held, pr.Body)
		}
	}
	comments := st.issue(pr.Number).Comments
	if len(comments) != 2 {
		t.Fatalf("%d comments on the pull request, want one for each task: %+v", len(comments), comments)
	}
	// A person does what the comments say.
	dir := t.TempDir()
	newRepo(t, dir, landed)
	for i, c := range comments {
		if !strings.Contains(c.Body, "git apply --index") || !strings.Contains(c.Body, "left for you to apply") {
			t.Errorf("comment %d:\n%s", i, c.Body)
		}
		file := filepath.Join(t.TempDir(), "held.patch")
		if err := os.WriteFile(file, []byte(patchIn(t, c.Body)), 0o600); err != nil {
			t.Fatal(err)
		}
		gitIn(t, dir, "apply", "--index", file)
	}
	for name, want := range map[string]string{
		".github/workflows/ci.yml": workflow, "CODEOWNERS": "* @ada\n", "web/yarn.lock": "x\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s with the patch: %q, %v", name, got, err)
		}
	}
}

// TestF7Policies: a repository may have protected changes refused, or let
// through; workflows never are.
func TestF7Policies(t *testing.T) {
	t.Parallel()
	const script = `model: scripted
tasks:
  one:
    - {files: {one.txt: "1\n", .github/workflows/ci.yml: "on: push\n", CODEOWNERS: "* @ada\n"}, say: done}
    - {files: {one.txt: "1\n"}, say: done}
default: [{files: {two.txt: "2\n"}, say: done}]
`
	for policy, c := range map[string]struct {
		iterations, comments int
		landed               bool
	}{"refuse": {3, 0, false}, "allow": {2, 1, true}, "hold": {2, 1, false}} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{
				script: script,
				files:  map[string]string{".github/ralph.yml": "protected: {policy: " + policy + "}\nreview: false\n"},
			})
			s := st.serve()
			state := st.ended(s.store, st.label("Say hello", "- [ ] one\n- [ ] two\n"))
			if state.End != run.EndAllTasksComplete || state.Iteration != c.iterations {
				t.Fatalf("ended %s after %d iterations: %s", state.End, state.Iteration, state.EndDetail)
			}
			landed := st.contents("ralph/1")
			if landed[".github/workflows/ci.yml"] != "" || landed["one.txt"] == "" || (landed["CODEOWNERS"] != "") != c.landed {
				t.Errorf("landed %v", landed)
			}
			if got := st.issue(st.onlyPR().Number).Comments; len(got) != c.comments {
				t.Errorf("comments: %+v", got)
			}
		})
	}
}
