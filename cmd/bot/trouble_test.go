package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// script changes what the agent does from now on.
func (st *stage) script(text string) {
	st.t.Helper()
	if err := os.WriteFile(st.config.Agent.ScriptFile, []byte(text), 0o600); err != nil {
		st.t.Fatal(err)
	}
}

func (s *serving) started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.events, func(ev run.Event) bool { return ev.Kind == run.EventAgentStarted })
}

// nothingOnce gives every task up at once.
func nothingOnce(c *config.Server) { c.Limits.TaskAttempts = 1 }

// TestNothingLandedOnABranchThatIsThere: GitHub opens no pull request without
// commits, and one that is open is brought up to date.
func TestNothingLandedOnABranchThatIsThere(t *testing.T) {
	t.Parallel()
	const idle = "model: scripted\ndefault: [{misbehave: nothing}]\n"
	t.Run("without a pull request", func(t *testing.T) {
		t.Parallel()
		st := newStage(t, setting{script: idle, change: nothingOnce})
		for _, push := range []struct {
			branch string
			o      ghsim.PushOptions
		}{
			{"ralph/1", ghsim.PushOptions{Message: "Work", Files: map[string]string{"a.txt": "a\n"}}},
			{
				"main",
				ghsim.PushOptions{
					Message: "Merge and go on", Files: map[string]string{"b.txt": "b\n"}, From: "ralph/1", Force: true,
				},
			},
		} {
			if _, err := st.sim.Push(person, repoOf, push.branch, person, push.o); err != nil {
				t.Fatal(err)
			}
		}
		s := st.serve()
		issue := st.label("Say hello", "- [ ] one\n")
		state := st.ended(s.store, issue)
		if state.End != run.EndBlocked || state.PullRequest != nil {
			t.Errorf("ended %s (%s) with pull request %v", state.End, state.EndDetail, state.PullRequest)
		}
		if got := st.issue(issue.Number); len(got.Comments) != 1 {
			t.Errorf("comments: %+v", got.Comments)
		}
		for _, call := range st.sim.Calls() {
			if call.Method == "POST" && strings.HasSuffix(call.Route, "/pulls") {
				t.Errorf("a pull request was asked for: %+v", call)
			}
		}
	})
	t.Run("on an issue that takes no comment", func(t *testing.T) {
		t.Parallel()
		st := newStage(t, setting{script: idle, change: nothingOnce})
		st.inject(ghsim.Fault{
			Method: "POST", Match: "/(comments|reactions)$", Status: 403, Times: 1 << 20,
			Body: `{"message": "Unable to create comment because issue is locked."}`,
		})
		s := st.serve()
		issue := st.label("Say hello", "- [ ] one\n")
		if state := st.ended(s.store, issue); state.End != run.EndBlocked || state.Phase == run.PhaseFailed {
			t.Errorf("ended %s in %s: %s", state.End, state.Phase, state.EndDetail)
		}
		if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:needs-human") {
			t.Errorf("labels %v", labels)
		}
		asked := 0
		for _, call := range st.sim.Calls() {
			if call.Method == "POST" && strings.HasSuffix(call.Path, "/comments") {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("tried to comment %d times", asked)
		}
	})
	t.Run("with one of an earlier run", func(t *testing.T) {
		t.Parallel()
		st := newStage(t, setting{script: hangsOnTwo, change: nothingOnce})
		s := st.serve()
		issue := st.label("Say hello", threeTasks)
		st.await("the first task", func() bool {
			prs, err := st.sim.PRs(person, repoOf)
			if err != nil {
				t.Fatal(err)
			}
			return len(prs) == 1
		})
		if err := st.sim.RemoveLabel(person, repoOf, issue.Number, person, "ralph"); err != nil {
			t.Fatal(err)
		}
		first := st.ended(s.store, issue)
		st.script(idle)
		st.relabel(issue, person)
		st.processed(s)
		again := st.ended(s.store, issue)
		if again.Run == first.Run || again.End != run.EndBlocked || again.PullRequest == nil {
			t.Fatalf("the second run ended %s (%s) with pull request %v", again.End, again.EndDetail, again.PullRequest)
		}
		if pr := st.onlyPR(); pr.Number != again.PullRequest.Number || !strings.Contains(pr.Body, "all remaining tasks are blocked") {
			t.Errorf("#%d says:\n%s", pr.Number, pr.Body)
		}
	})
}

// TestStartRemovesWhatDeadRunsLeft: a process may die between the end of a run
// and its clean-up.
func TestStartRemovesWhatDeadRunsLeft(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	left := []string{
		filepath.Join(st.config.DataDir, "runs", "r-dead", "work"),
		filepath.Join(st.config.DataDir, "gw", "0123456789ab", "gw"),
	}
	for _, dir := range left {
		mkdir(t, dir)
	}
	s := st.serve()
	if state := st.ended(s.store, st.label("Say hello", threeTasks)); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	for _, dir := range left {
		if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", filepath.Dir(dir), err)
		}
	}
}

// TestDataDirTooLongForSockets is refused before anything is started.
func TestDataDirTooLongForSockets(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll, change: func(c *config.Server) {
		c.Sandbox.Kind, c.Sandbox.Image, c.Agent.Name, c.Agent.Path = config.SandboxDocker, "agent:1", "claude", os.Args[0]
		c.DataDir = filepath.Join(c.DataDir, strings.Repeat("d", 80))
	}})
	a, err := newApp(t.Context(), st.config, zerolog.Nop(), observers{})
	if err == nil {
		t.Fatal("accepted", a.close())
	}
	user, ok := errors.AsType[*run.UserError](err)
	if !ok || !strings.Contains(user.Message, "Linux allows 107") {
		t.Errorf("%v, want a UserError that names the limit", err)
	}
}
