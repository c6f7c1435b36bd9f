package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// TestServerWorksSideBySide: a server has as many agents at work for one issue as its
// limits allow, each place counted, and a commit for each task.
func TestServerWorksSideBySide(t *testing.T) {
	t.Parallel()
	const agents = 2
	st := newStage(t, setting{
		agent: config.Agent{Name: config.AgentCommand, Command: "sh agent.sh"},
		change: func(c *config.Server) {
			c.Concurrency = config.Concurrency{Agents: agents}
			c.Limits.Parallel = 3
		},
		gates: []config.Gate{{Name: "there", Run: "test -e README.md", When: "task", Timeout: time.Minute}},
	})
	script := filepath.Join(st.dir, "agent.sh")
	if err := os.WriteFile(script, []byte(strings.ReplaceAll(`#!/bin/sh
id=$(grep -oE 'T[0-9]+' | head -n 1)
until [ -e DIR/go ]; do sleep 0.05; done
echo $id > $id.txt
echo RALPH_RESULT: done
`, "DIR", st.dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	st.config.Agent.Command = "sh " + script
	s := st.serve()
	issue := st.label("Say hello", "- [ ] [P] Write one\n- [ ] [P] Write two\n- [ ] [P] Write three\n")
	st.await("two agents of one run", func() bool {
		a := st.standing(s)
		return a.Running == agents && len(a.Runs) == 1
	})
	if err := os.WriteFile(filepath.Join(st.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	state := st.ended(s.store, issue)
	if state.End != run.EndAllTasksComplete || len(state.Attempts) != 0 {
		t.Errorf("ended %s, attempts %v: %s", state.End, state.Attempts, state.EndDetail)
	}
	if got := subjects(st.onlyPR().Commits); len(got) != 4 {
		t.Errorf("commits %q", got)
	}
	if a := st.standing(s); a.Running+a.Waiting != 0 {
		t.Errorf("places are left: %+v", a)
	}
}
