package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// TestConfiguration: what the owner's repository says holds where a repository says nothing, what a
// repository says on its default branch goes before it, and what cannot be read is told once, with line and
// column, until it is mended.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := st.sim.CreateRepo(person, config.OwnerRepo, ghsim.RepoOptions{Private: true, Files: map[string]string{
		"ralph.yml": "base: develop\nlimits: {max_iterations: 1}\n", config.RepoPath: "limits: {max_iterations: 2}\n",
	}})
	must(err)
	_, err = st.sim.Install(st.app.ID, person+"/"+config.OwnerRepo)
	must(err)
	push := func(repo, branch string, files map[string]string) {
		t.Helper()
		_, err := st.sim.Push(person, repo, branch, person, ghsim.PushOptions{Message: "Configure", Files: files})
		must(err)
	}
	// The configuration of the base branch is not asked.
	push(repoOf, "develop", map[string]string{"develop.txt": "ahead\n", config.RepoPath: "limits: {max_iterations: 9}\n"})
	s := st.serve()
	state := st.ended(s.store, st.label("Say hello", threeTasks))
	if state.End != run.EndMaxIterations || state.BaseBranch != "develop" {
		t.Errorf("by the owner: ended %s on top of %s: %s", state.End, state.BaseBranch, state.EndDetail)
	}
	if n := s.github.Calls().ByPurpose["owner-config"]; n != 1 {
		t.Errorf("asked for it %d times", n)
	}

	push(repoOf, "main", map[string]string{config.RepoPath: "limits:\n  max_iteration: 1\n"})
	issue := st.label("Say goodbye", threeTasks)
	state = st.ended(s.store, issue)
	st.processed(s)
	state = st.again(s, issue, state.Run)
	if said := st.said(issue.Number); state.End != run.EndFailed || len(said) != 1 ||
		!strings.Contains(said[0], "2:3") || !strings.Contains(said[0], "max_iteration") {
		t.Errorf("twice: ended %s and said %q", state.End, said)
	}
	push(repoOf, "main", map[string]string{config.RepoPath: "\nlimits:\n  max_iteration: 1\n"})
	state = st.again(s, issue, state.Run)
	if said := st.said(issue.Number); state.End != run.EndFailed || len(said) != 2 || !strings.Contains(said[1], "3:3") {
		t.Errorf("with another file: ended %s and said %q", state.End, said)
	}
	push(repoOf, "main", map[string]string{config.RepoPath: "base: develop\nreview: false\ngates: [{name: mine, run: test -e README.md}]\n"})
	state = st.again(s, issue, state.Run)
	if state.End != run.EndAllTasksComplete || len(state.GateLast) != 1 || state.GateLast[0].Gate != "mine" {
		t.Errorf("once it was mended: ended %s (%s) with checks %v", state.End, state.EndDetail, state.GateLast)
	}
	if diff := cmp.Diff(map[string]string{
		"README.md": "# widgets\n", config.RepoPath: "limits: {max_iterations: 9}\n", "develop.txt": "ahead\n",
		"one.txt": "1\n", "two.txt": "2\n", "three.txt": "3\n",
	}, st.contents(fmt.Sprint("ralph/", issue.Number))); diff != "" {
		t.Error(diff)
	}

	_, err = st.sim.Push(person, repoOf, "main", person, ghsim.PushOptions{Message: "Leave it", Delete: []string{config.RepoPath}})
	must(err)
	push(config.OwnerRepo, "main", map[string]string{"ralph.yml": "limits:\n  max_iteration: 1\n"})
	st.clock.pass(2 * time.Minute) // what was read of the owner's is believed for one
	third := st.label("Say no more", threeTasks)
	state = st.ended(s.store, third)
	st.processed(s)
	if said := strings.Join(st.said(third.Number), "\n"); state.End != run.EndFailed ||
		!strings.Contains(said, "ralph.yml of "+person+"/.github is not valid") {
		t.Errorf("the owner's is broken: ended %s, and said %s", state.End, said)
	}
}
