package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/machine"
	"github.com/org/ralph-action/internal/reconcile"
	"github.com/org/ralph-action/internal/run"
)

// crowd is an agent that counts how many of its kind are at work, and works on once the
// test lets it.
const crowd = `#!/bin/sh
cat >/dev/null
mkdir DIR/at-work/$$
ls DIR/at-work | wc -l >> DIR/counts
until [ -e DIR/go ]; do sleep 0.05; done
ls DIR/at-work | wc -l >> DIR/counts
echo hello > hello.txt
for f in .ralph/*/progress.md; do sed -i '0,/^- \[ \]/s//- [x]/' $f; done
rmdir DIR/at-work/$$
echo RALPH_RESULT: done
`

func (st *stage) standing(s *serving) reconcile.Standing {
	st.t.Helper()
	a, err := reconcile.ReadStanding(st.t.Context(), s.store)
	if err != nil {
		st.t.Fatal(err)
	}
	return a
}

// TestAgentsStayWithinTheirLimit: however many labels, and when
// the server starts again while agents are at work. Who waits can say for what.
func TestAgentsStayWithinTheirLimit(t *testing.T) {
	t.Parallel()
	const agents, labels = 2, 7
	st := newStage(t, setting{
		agent:  config.Agent{Name: config.AgentCommand, Command: "sh agent.sh"},
		change: func(c *config.Server) { c.Concurrency = config.Concurrency{Agents: agents} },
		gates:  []config.Gate{{Name: "there", Run: "test -e hello.txt", When: "task", Timeout: time.Minute}},
	})
	if err := os.MkdirAll(filepath.Join(st.dir, "at-work"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(st.dir, "agent.sh")
	if err := os.WriteFile(script, []byte(strings.ReplaceAll(crowd, "DIR", st.dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	st.config.Agent.Command = "sh " + script
	s := st.serve()
	var issues []ghsim.Issue
	for n := range labels {
		issues = append(issues, st.label(fmt.Sprint("Say hello ", n), "- [ ] Write hello\n"))
		if n == 0 { // the first comes first
			st.await("the first agent", func() bool { return st.standing(s).Running == 1 })
		}
	}
	full := func(s *serving) func() bool {
		return func() bool {
			a := st.standing(s)
			return a.Running == agents && a.Waiting == labels-agents
		}
	}
	st.await("all to run or to wait", full(s))
	st.await("those that wait to know their numbers, oldest first", func() bool {
		n := 0
		for _, x := range st.standing(s).Runs {
			if x.Running > 0 {
				continue
			}
			if n++; x.Waits != fmt.Sprintf("2 of 2 agents of this server are at work; number %d in this repository's line", n) {
				return false
			}
			if _, err := os.Lstat(host.TreeDir(filepath.Join(st.config.DataDir, "runs", string(x.Run)))); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s waits and holds a work tree: %v", x.Run, err)
			}
		}
		return n == labels-agents
	})

	s.stop()
	s = st.serve()
	st.await("all to run or to wait again", full(s))
	if err := os.WriteFile(filepath.Join(st.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, issue := range issues {
		if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete || len(state.Attempts) != 0 {
			t.Errorf("#%d ended %s, attempts %v: %s", issue.Number, state.End, state.Attempts, state.EndDetail)
		}
	}
	counts, err := os.ReadFile(filepath.Join(st.dir, "counts"))
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for field := range strings.FieldsSeq(string(counts)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
	}
	if most != agents {
		t.Errorf("%d agents at once, want %d", most, agents)
	}
	if a := st.standing(s); a.Running+a.Waiting != 0 {
		t.Errorf("places are left: %+v", a)
	}
}

// TestNothingStartsWithoutRoom: a disk without room is waited for, people are told once,
// and no task is to blame.
func TestNothingStartsWithoutRoom(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	full.Store(true)
	st := newStage(t, setting{script: writesAll})
	st.room = func() machine.Room {
		room := machine.Look(st.dir)
		if full.Load() {
			room.Disk = 400 << 20
		}
		return room
	}
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.await("the run to wait", func() bool {
		a := st.standing(s)
		return len(a.Runs) == 1 && a.Runs[0].Waits != ""
	})
	if s.started() {
		t.Error("an agent was started")
	}
	if status, body := st.readyz(); status != http.StatusServiceUnavailable || body != "not ready: disk\n" {
		t.Errorf("/readyz: %d %q", status, body)
	}
	st.clock.pass(2 * time.Minute)
	told := func() bool { return len(st.issue(issue.Number).Comments) > 0 }
	st.await("people to be told", told)
	st.clock.pass(30 * time.Hour) // more than a run may take
	full.Store(false)
	state := st.ended(s.store, issue)
	st.processed(s) // a webhook that came before the clock was put on would look a day old
	if status, body := st.readyz(); status != http.StatusOK {
		t.Errorf("/readyz with room again: %d %q", status, body)
	}
	if state.End != run.EndAllTasksComplete || len(state.Attempts) != 0 || state.Waited < 29*time.Hour {
		t.Errorf("ended %s, attempts %v, waited %v: %s", state.End, state.Attempts, state.Waited, state.EndDetail)
	}
	comments := st.issue(issue.Number).Comments
	if len(comments) != 1 || !strings.Contains(comments[0].Body, "the disk of this machine is nearly full") {
		t.Errorf("comments: %+v", comments)
	}
	st.settled(s)
	st.complete(issue, wantSubjects[:3]...)
	s.stop()
	st.checkWorld()
}
