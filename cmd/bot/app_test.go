package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const threeTasks = "Say hello.\n\n- [ ] Write one\n  - Accept: one.txt is there\n- [ ] Write two\n- [ ] Write three\n"

// writesAll does each task by writing its file.
const writesAll = `model: scripted
tasks:
  one:
    - {files: {one.txt: "1\n"}, learn: "files are small", tick: true, say: done, cost_usd: 0.25}
  two:
    - {files: {two.txt: "2\n"}, tick: true, say: done, cost_usd: 0.25}
default:
  - {files: {three.txt: "3\n"}, say: done}
`

func subjects(commits []ghsim.Commit) []string {
	var got []string
	for _, c := range commits {
		got = append(got, c.Subject)
	}
	return got
}

var wantSubjects = []string{
	"feat: write one", "feat: write two", "feat: write three", "chore: remove the progress file of a finished run",
}

func TestLabelBecomesPullRequest(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{
		script: writesAll,
		gates:  []config.Gate{{Name: "not empty", Run: "test -s one.txt", When: "task", Timeout: time.Minute}},
	})
	s := st.serve()
	issue := st.label("Say hello to everybody", threeTasks)
	state := st.ended(s.store, issue)
	if state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)

	pr := st.onlyPR()
	if diff := cmp.Diff(wantSubjects, subjects(pr.Commits)); diff != "" {
		t.Error(diff)
	}
	for i, c := range pr.Commits {
		if !c.Verified || c.Author != st.app.BotLogin {
			t.Errorf("commit %q is by %s, verified %v", c.Subject, c.Author, c.Verified)
		}
		if i < 3 {
			for _, want := range []string{
				fmt.Sprintf("Ralph-Task: T%d", i+1), "Co-authored-by: ada <",
			} {
				if !strings.Contains(c.Body, want) {
					t.Errorf("commit %q lacks %q:\n%s", c.Subject, want, c.Body)
				}
			}
		}
	}
	if pr.Draft || pr.Head != "ralph/1" || pr.Base != "main" {
		t.Errorf("pull request from %s to %s, draft %v", pr.Head, pr.Base, pr.Draft)
	}
	for _, want := range []string{
		"- [x] T1 Write one", "- [x] T2 Write two", "- [x] T3 Write three", "Accept: one.txt is there", "files are small",
		"Closes #1", "not empty", "0.50",
	} {
		if !strings.Contains(pr.Body, want) {
			t.Errorf("the description lacks %q:\n%s", want, pr.Body)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"README.md": "# widgets\n", "one.txt": "1\n", "two.txt": "2\n", "three.txt": "3\n",
	}, st.contents("ralph/1")); diff != "" {
		t.Error(diff)
	}
	got := st.issue(1)
	if diff := cmp.Diff([]ghsim.Reaction{{User: st.app.BotLogin, Content: "eyes"}}, got.Reactions); diff != "" {
		t.Error(diff)
	}
	if len(got.Comments) != 0 {
		t.Errorf("a run that went well left comments: %v", got.Comments)
	}
	if calls := s.github.Calls(); calls.REST+calls.GraphQL > 13+3*3 {
		t.Errorf("%d calls to GitHub for three tasks: %v", calls.REST+calls.GraphQL, calls.ByPurpose)
	}
	st.await("the run's directory to be removed", func() bool {
		left, err := os.ReadDir(filepath.Join(st.config.DataDir, "runs"))
		return err == nil && len(left) == 0
	})
}

// hangsOnTwo does the first task and then never comes back.
const hangsOnTwo = `model: scripted
tasks:
  one: [{files: {one.txt: "1\n"}, say: done}]
default: [{misbehave: hang}]
`

// again takes the label off, puts it on and waits for the end of the run that
// comes of it.
func (st *stage) again(s *serving, issue ghsim.Issue, before run.ID) loop.State {
	st.t.Helper()
	if err := st.sim.RemoveLabel(person, repoOf, issue.Number, person, "ralph"); err != nil {
		st.t.Fatal(err)
	}
	st.processed(s)
	st.relabel(issue, person)
	state := st.another(s, issue, before)
	st.processed(s)
	return state
}

// push commits a file on a branch as the person.
func (st *stage) push(branch, path, content string) {
	st.t.Helper()
	if _, err := st.sim.Push(person, repoOf, branch, person,
		ghsim.PushOptions{Message: "Change " + path, Files: map[string]string{path: content}}); err != nil {
		st.t.Fatal(err)
	}
}

// watchStore opens the database beside the servers.
func (st *stage) watchStore() (*store.Store, error) {
	mkdir(st.t, st.config.DataDir)
	return store.Open(st.t.Context(), st.config.Database())
}

// killed serves the issue that begin has worked, with servers of which each is
// killed with SIGKILL before or after it has stored its first state (see stage.steps), until
// the run has ended.
func (st *stage) killed(begin func() ghsim.Issue) (ghsim.Issue, loop.State) {
	st.t.Helper()
	watch, err := st.watchStore()
	if err != nil {
		st.t.Fatal(err)
	}
	defer func() {
		if err := watch.Close(); err != nil {
			st.t.Error(err)
		}
	}()
	var issue ghsim.Issue
	lives := 0
	for ended := ""; ended == ""; lives++ {
		if lives > 300 {
			st.t.Fatal("the run does not get on")
		}
		p := st.start(fmt.Sprintf("%d:%s", max(1, st.steps), []string{"before", "after"}[lives%2]))
		if lives == 0 {
			issue = begin()
		}
		ended = p.rest(st.t)
	}
	if lives < 20/max(1, st.steps) {
		st.t.Errorf("only %d lives: the server is not killed at each step", lives)
	}
	// The last one may have been killed after it told the end and before that
	// was stored.
	p := st.start("")
	state := st.ended(watch, issue)
	p.stop(st.t)
	st.checkWorld()
	st.t.Logf("%d lives, %d iterations", lives, state.Iteration)
	return issue, state
}

func mkdir(t testing.TB, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTicksInThePullRequestAreTakenIn: what a person ticks there is done, and their words
// beside it stay.
func TestTicksInThePullRequestAreTakenIn(t *testing.T) {
	t.Parallel()
	edited := filepath.Join(shortTempDir(t), "edited")
	st := newStage(t, setting{
		script: `model: scripted
tasks:
  one: [{files: {one.txt: "1\n"}}]
default: [{files: {other.txt: "x\n"}}]
`,
		// The second task waits until the description is edited.
		gates: []config.Gate{{
			Name: "edit", Run: "test ! -e other.txt || until test -e " + edited + "; do sleep 0.01; done", When: "task",
			Timeout: time.Minute,
		}},
	})
	s := st.serveSlow(time.Minute) // so that what people see is read after each task
	issue := st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n- [ ] Write three\n")
	number := 0
	st.await("the pull request with a task ticked", func() bool {
		prs, err := st.sim.PRs(person, repoOf)
		if err != nil || len(prs) == 0 || !strings.Contains(prs[0].Body, "- [x] T1") {
			return false
		}
		number = prs[0].Number
		return true
	})
	body := st.onlyPR().Body
	want := strings.Replace(body, "- [ ] T3 Write three", "- [x] T3 Write three", 1)
	if want == body {
		t.Fatalf("no third task in\n%s", body)
	}
	if err := st.sim.EditIssue(person, repoOf, number, person, "",
		strings.ReplaceAll(want+"\n\nA note of ada's.\n", "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(edited, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	state := st.ended(s.store, issue)
	if state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s\n%s\n%+v", state.End, state.EndDetail, state.Progress, state.History)
	}
	pr := st.onlyPR()
	if got := subjects(pr.Commits); len(got) != 3 || got[1] != "feat: write two" {
		t.Errorf("commits %q", got)
	}
	for _, text := range []string{"- [x] T3 Write three", "3 of 3 tasks", "A note of ada's."} {
		if !strings.Contains(pr.Body, text) {
			t.Errorf("%q is not in\n%s", text, pr.Body)
		}
	}
	if len(state.Merged) == 0 {
		t.Error("nobody is told what became of the edit")
	}
}

// TestKilledNowAndThen kills the server at every fifth of its steps: ten times or so.
func TestKilledNowAndThen(t *testing.T) {
	t.Parallel()
	killedGoingWell(t, 5)
}

// killedGoingWell expects of a server that is killed again and again, each time after so many
// steps, the result of one that nothing happened to.
func killedGoingWell(t *testing.T, steps int) {
	t.Helper()
	counts := filepath.Join(shortTempDir(t), "starts.json")
	st := newStage(t, setting{script: fmt.Sprintf(`model: scripted
state: %q
tasks:
  one: [{files: {one.txt: "1\n"}, say: done}]
default: [{files: {two.txt: "2\n"}, say: done}]
review: [{say: fine}]
`, counts)})
	st.steps = steps
	issue, state := st.killed(func() ghsim.Issue { return st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n") })
	if state.End != run.EndAllTasksComplete || state.Iteration != 3 {
		t.Errorf("ended %s after %d iterations", state.End, state.Iteration)
	}
	pr := st.onlyPR()
	if diff := cmp.Diff([]string{wantSubjects[0], wantSubjects[1], wantSubjects[3]}, subjects(pr.Commits)); diff != "" {
		t.Error(diff)
	}
	if pr.Draft {
		t.Error("the pull request is a draft")
	}
	if checks, _ := st.checks(); !slices.Equal(checks,
		[]string{"", "", "completed success"}) {
		t.Errorf("check runs by commit: %q", checks)
	}
	got := st.issue(issue.Number)
	if len(got.Comments) != 0 || len(got.Reactions) != 1 {
		t.Errorf("%d comments, %d reactions", len(got.Comments), len(got.Reactions))
	}
	starts, err := os.ReadFile(counts)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"T1":1,"T2":1,"review":1}`; strings.TrimSpace(string(starts)) != want {
		t.Errorf("agents started %s, want %s", starts, want)
	}
}
