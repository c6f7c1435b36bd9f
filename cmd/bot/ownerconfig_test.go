package main

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// ownerRepo makes the owner's repository for what holds in the others, with a
// configuration in it, and lets the App see it.
func (st *stage) ownerRepo(text string) {
	st.t.Helper()
	_, err := st.sim.CreateRepo(person, config.OwnerRepo,
		ghsim.RepoOptions{
			Files: map[string]string{"ralph.yml": text, config.RepoPath: "limits: {max_iterations: 2}\n"}, Private: true,
		})
	if err != nil {
		st.t.Fatal(err)
	}
	if _, err := st.sim.Install(st.app.ID, person+"/"+config.OwnerRepo); err != nil {
		st.t.Fatal(err)
	}
}

// TestOwnersConfiguration holds in repositories that have none.
func TestOwnersConfiguration(t *testing.T) {
	t.Parallel()
	const base = "base: develop\n"
	t.Run("is used", func(t *testing.T) {
		t.Parallel()
		st := newStage(t, setting{script: writesAll})
		st.ownerRepo(base + "limits: {max_iterations: 1}\n")
		if _, err := st.sim.Push(person, repoOf, "develop", person,
			ghsim.PushOptions{Files: map[string]string{"develop.txt": "ahead\n"}}); err != nil {
			t.Fatal(err)
		}
		s := st.serve()
		for _, title := range []string{"Say hello", "Say goodbye"} {
			state := st.ended(s.store, st.label(title, threeTasks))
			if state.End != run.EndMaxIterations || state.BaseBranch != "develop" {
				t.Errorf("ended %s on top of %s: %s", state.End, state.BaseBranch, state.EndDetail)
			}
		}
		if n := s.github.Calls().ByPurpose["owner-config"]; n != 1 {
			t.Errorf("asked for it %d times within a minute", n)
		}
	})
	t.Run("gives way to the repository's own", func(t *testing.T) {
		t.Parallel()
		st := newStage(t, setting{
			script: writesAll, files: map[string]string{"README.md": "x\n", config.RepoPath: "review: false\n"},
		})
		st.ownerRepo("limits: {max_iterations: 1}\n")
		s := st.serve()
		if state := st.ended(s.store, st.label("Say hello", threeTasks)); state.End != run.EndAllTasksComplete {
			t.Errorf("ended %s: %s", state.End, state.EndDetail)
		}
		if n := s.github.Calls().ByPurpose["owner-config"]; n != 0 {
			t.Errorf("asked for it %d times", n)
		}
	})
	t.Run("is refused by its name until it is mended", func(t *testing.T) {
		t.Parallel()
		st := newStage(t, setting{script: writesAll})
		st.ownerRepo("limits:\n  max_iteration: 1\n")
		s := st.serve()
		issue := st.label("Say hello", threeTasks)
		state := st.ended(s.store, issue)
		st.processed(s)
		if said := strings.Join(st.said(issue.Number), "\n"); state.End != run.EndFailed ||
			!strings.Contains(said, "ralph.yml of "+person+"/.github is not valid") || !strings.Contains(said, "2:3") {
			t.Errorf("ended %s, and said %s", state.End, said)
		}
		if _, err := st.sim.Push(person, config.OwnerRepo, "main", person,
			ghsim.PushOptions{Files: map[string]string{"ralph.yml": "limits:\n  max_iterations: 1\n"}}); err != nil {
			t.Fatal(err)
		}
		if again := st.ended(s.store, st.label("Say goodbye", threeTasks)); again.End != run.EndMaxIterations {
			t.Errorf("once it was mended: ended %s: %s", again.End, again.EndDetail)
		}
	})
}
