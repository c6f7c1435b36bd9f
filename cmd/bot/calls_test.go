package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// slowClock is the real clock with time put in, or one that begins at a time and
// goes on by what is put in alone.
type slowClock struct {
	begin time.Time
	mu    sync.Mutex
	more  time.Duration
}

func (c *slowClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	begin := c.begin
	if begin.IsZero() {
		begin = time.Now()
	}
	return begin.Add(c.more)
}

func (c *slowClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.more += d
}

// serveSlow is serve where each agent takes exactly this long by the App's clock, and
// all else no time.
func (st *stage) serveSlow(takes time.Duration) *serving {
	st.t.Helper()
	st.clock.begin = time.Now()
	return st.serveWith(func(ev run.Event) {
		if ev.Kind == run.EventAgentStarted {
			st.clock.pass(takes)
		}
	})
}

// TestCallsToGitHub: a run of three tasks makes at most 20 calls, of which these are writes: a
// reaction, the branch, the pull request, a commit for each task, the one that closes the work,
// the description, the end of draft, the check run and the label. Where each task is shown by itself, it costs five calls.
func TestCallsToGitHub(t *testing.T) {
	t.Parallel()
	configured := map[string]string{"README.md": "# widgets\n", config.RepoPath: "review: true\n"}
	for name, c := range map[string]struct {
		takes  time.Duration
		tasks  int
		files  map[string]string
		most   int
		writes int // at most, zero for any number
	}{
		"fast, not configured": {0, 3, nil, 20, 11}, "slow": {61 * time.Second, 4, configured, 12 + 5*4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, body := "model: scripted\ntasks:\n", ""
			for n := 1; n <= c.tasks; n++ {
				script += fmt.Sprintf("  step %d: [{files: {f%d.txt: \"%d\\n\"}, say: done}]\n", n, n, n)
				body += fmt.Sprintf("- [ ] Write step %d\n", n)
			}
			st := newStage(t, setting{
				files: c.files, script: script,
				gates: []config.Gate{{Name: "not empty", Run: "test -s f1.txt", When: "task", Timeout: time.Minute}},
			})
			s := st.serveSlow(c.takes)
			state := st.ended(s.store, st.label("Say hello to everybody", body))
			if state.End != run.EndAllTasksComplete || len(state.Commits) != c.tasks {
				t.Fatalf("ended %s with %d commits: %s", state.End, len(state.Commits), state.EndDetail)
			}
			st.processed(s)
			calls := s.github.Calls()
			// The server looks for webhooks and labels it has missed whether there are runs or
			// not, by a clock that is put on here, and with a token of its own.
			n := calls.REST + calls.GraphQL
			if missed := calls.ByPurpose["missed"] + calls.ByPurpose["inspect"]; missed > 0 {
				n -= missed + 1
			}
			t.Logf("%d calls: %v", n, calls.ByPurpose)
			if n > c.most {
				t.Errorf("%d calls for %d tasks, want at most %d: %v", n, c.tasks, c.most, calls.ByPurpose)
			}
			if writes := st.writes(); c.writes > 0 && len(writes) > c.writes {
				t.Errorf("%d writes:\n%s", len(writes), strings.Join(writes, "\n"))
			}
			// Nothing of what was put off got lost.
			if body := st.onlyPR().Body; strings.Count(body, "- [x] ") != c.tasks ||
				!strings.Contains(body, state.Commits[c.tasks-1].OID[:7]) {
				t.Errorf("the description in the end:\n%s", body)
			}
			all, head := st.checks()
			if head.Conclusion != "success" || strings.Join(all, "") != "completed success" {
				t.Errorf("check runs %q", all)
			}
		})
	}
}

// TestWhatWasPutOffIsShown while the run waits for its next agent.
func TestWhatWasPutOffIsShown(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{
		script: strings.Replace(writesAll, `- {files: {three.txt: "3\n"}, say: done}`, "- {misbehave: hang}", 1),
	})
	s := st.serve()
	issue := st.label("Say hello to everybody", threeTasks)
	shows := func(text string) func() bool {
		return func() bool {
			prs, err := st.sim.PRs(person, repoOf)
			if err != nil {
				t.Fatal(err)
			}
			return len(prs) == 1 && strings.Contains(prs[0].Body, text)
		}
	}
	st.await("the first task", shows("- [x] T1"))
	st.await("the agent of the third task", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		last := s.events[len(s.events)-1]
		return last.Kind == run.EventAgentStarted && last.TaskID == "T3"
	})
	st.clock.pass(20 * time.Second)
	st.await("the second task", shows("- [x] T2"))
	if err := st.sim.RemoveLabel(person, repoOf, issue.Number, person, "ralph"); err != nil {
		t.Fatal(err)
	}
	if state := st.ended(s.store, issue); state.End != run.EndCancelled {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
}
