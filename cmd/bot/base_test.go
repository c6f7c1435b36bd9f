package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// TestConfiguredBase: work begins from the branch that .github/ralph.yml on the
// default branch names, and is proposed to it.
func TestConfiguredBase(t *testing.T) {
	t.Parallel()
	const conf = "base: develop\n"
	st := newStage(t, setting{
		script: writesAll, files: map[string]string{"README.md": "# widgets\n", ".github/ralph.yml": conf},
	})
	// The configuration of the base branch is not asked: with its limit the run
	// would end early.
	_, err := st.sim.Push(person, repoOf, "develop", person, ghsim.PushOptions{
		Message: "Develop", Files: map[string]string{
			"develop.txt": "ahead\n", ".github/ralph.yml": "limits: {max_iterations: 1}\n",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := st.serve()
	state := st.ended(s.store, st.label("Say hello", threeTasks))
	if state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	pr := st.onlyPR()
	if pr.Base != "develop" || pr.Head != "ralph/1" {
		t.Errorf("pull request from %s to %s", pr.Head, pr.Base)
	}
	if diff := cmp.Diff(wantSubjects, subjects(pr.Commits)); diff != "" {
		t.Error(diff)
	}
	want := map[string]string{
		"README.md": "# widgets\n", ".github/ralph.yml": "limits: {max_iterations: 1}\n", "develop.txt": "ahead\n",
		"one.txt": "1\n", "two.txt": "2\n", "three.txt": "3\n",
	}
	if diff := cmp.Diff(want, st.contents("ralph/1")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"README.md": "# widgets\n", ".github/ralph.yml": conf},
		st.contents("main")); diff != "" {
		t.Error(diff)
	}
}
