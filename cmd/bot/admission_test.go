//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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

func (st *stage) standings(s *serving, limit int) reconcile.Admission {
	st.t.Helper()
	a, err := reconcile.ReadAdmission(st.t.Context(), s.store, limit)
	if err != nil {
		st.t.Fatal(err)
	}
	return a
}

// TestAgentsStayWithinTheirLimit: however many labels, however many workers, and when
// the server starts again while agents are at work. Who waits can say for what.
func TestAgentsStayWithinTheirLimit(t *testing.T) {
	t.Parallel()
	const agents, labels = 2, 7
	st := newStage(t, setting{
		agent: config.Agent{Name: config.AgentCommand, Command: "sh agent.sh"},
		change: func(c *config.Server) {
			c.Workers = 8
			c.Concurrency = config.Concurrency{Agents: agents}
		},
		gates: []config.Gate{{Name: "there", Run: "test -e hello.txt", When: "task", Timeout: time.Minute}},
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
			st.await("the first agent", func() bool { return st.standings(s, agents).Running == 1 })
		}
	}
	full := func(s *serving) func() bool {
		return func() bool {
			a := st.standings(s, agents)
			return a.Running == agents && a.Waiting == labels-agents
		}
	}
	st.await("all to run or to wait", full(s))
	if q, err := s.queueState(t.Context()); err != nil || q.Places != agents || q.MaxPlaces != agents || q.Line != labels-agents {
		t.Errorf("bot queue shows %+v, %v", q, err)
	}
	var places []int
	for _, x := range st.standings(s, agents).Runs {
		if x.Running {
			continue
		}
		if !strings.Contains(x.Waits, "2 of 2 agents of this server are at work") {
			t.Errorf("%s waits for %q", x.Run, x.Waits)
		}
		if _, err := os.Lstat(host.TreeDir(filepath.Join(st.config.DataDir, "runs", string(x.Run)))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s waits and holds a work tree: %v", x.Run, err)
		}
		places = append(places, x.Place)
	}
	if slices.Sort(places); places[0] < 1 || places[len(places)-1] > labels-agents {
		t.Errorf("places %v", places)
	}

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
	if a := st.standings(s, agents); a.Running+a.Waiting != 0 {
		t.Errorf("places are left: %+v", a)
	}
}

// TestNothingStartsWithoutRoom: a disk without room is waited for, people are told once,
// and no task is to blame.
func TestNothingStartsWithoutRoom(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	var passed atomic.Int64
	full.Store(true)
	st := newStage(t, setting{script: writesAll, now: func() time.Time {
		return time.Now().Add(time.Duration(passed.Load()))
	}})
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
		a := st.standings(s, 0)
		return len(a.Runs) == 1 && a.Runs[0].Waits != ""
	})
	if s.started() {
		t.Error("an agent was started")
	}
	if status, body := st.readyz(); status != http.StatusServiceUnavailable || body != "not ready: disk\n" {
		t.Errorf("/readyz: %d %q", status, body)
	}
	passed.Store(int64(2 * time.Minute))
	told := func() bool { return len(st.issue(issue.Number).Comments) > 0 }
	st.await("people to be told", told)
	passed.Store(int64(30 * time.Hour)) // more than a run may take
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

// alone has a run start one agent and nothing else.
var alone = map[string]string{"README.md": "x\n", config.RepoPath: "review: false\n"}

// crowded serves agents that work on only once the test lets them, in two repositories:
// many issues of the first are labelled, and when its agents have taken all places, few of
// the second. It gives the issues whose agents were started, in that order, each as its
// repository's number, and how many were at work at once.
func (st *stage) crowded(other string, agents, many, few int) (starts []string, most int) {
	st.t.Helper()
	mkdir(st.t, filepath.Join(st.dir, "at-work"))
	file := filepath.Join(st.dir, "agent.sh")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(crowd, "DIR", st.dir)), 0o600); err != nil {
		st.t.Fatal(err)
	}
	st.config.Agent = config.Agent{Name: config.AgentCommand, Command: "sh " + file}
	st.config.Concurrency = config.Concurrency{Agents: agents}
	var mu sync.Mutex
	s := st.serveWith(func(ev run.Event) {
		if ev.Kind == run.EventAgentStarted {
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, ev.Repo)
		}
	})
	begin := func(repo string, n int) {
		owner, name, _ := strings.Cut(repo, "/")
		for i := range n {
			issue, err := st.sim.CreateIssue(owner, name, person, fmt.Sprint("Say hello ", i), "- [ ] Write hello\n")
			if err == nil {
				err = st.sim.AddLabel(owner, name, issue.Number, person, "ralph")
			}
			if err != nil {
				st.t.Fatal(err)
			}
		}
	}
	stands := func(running, waiting int) func() bool {
		return func() bool {
			a := st.standings(s, agents)
			return a.Running == running && a.Waiting == waiting
		}
	}
	begin(person+"/"+repoOf, many)
	st.await("all places to be taken", stands(agents, many-agents))
	begin(other, few)
	st.await("the few to wait", stands(agents, many-agents+few))
	if err := os.WriteFile(filepath.Join(st.dir, "go"), nil, 0o600); err != nil {
		st.t.Fatal(err)
	}
	st.await("all runs to end", func() bool {
		var n int
		if err := s.store.DB().QueryRowContext(st.t.Context(), `SELECT count(*) FROM runs WHERE active = 0 AND end_reason = ?`,
			string(run.EndAllTasksComplete)).Scan(&n); err != nil {
			st.t.Fatal(err)
		}
		return n == many+few
	})
	counts, err := os.ReadFile(filepath.Join(st.dir, "counts"))
	if err != nil {
		st.t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(counts)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			st.t.Fatal(err)
		}
		most = max(most, n)
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(starts), most
}

// otherRepo makes a repository of an owner where the App is installed, too.
func (st *stage) otherRepo(owner string) string {
	st.t.Helper()
	if owner != person {
		st.user(owner, ghsim.RoleRead)
	}
	if _, err := st.sim.CreateRepo(owner, "gadgets", ghsim.RepoOptions{Files: alone}); err != nil {
		st.t.Fatal(err)
	}
	if owner != person {
		if err := st.sim.SetPermission(owner, "gadgets", person, ghsim.RoleWrite); err != nil {
			st.t.Fatal(err)
		}
	}
	if _, err := st.sim.Install(st.app.ID, owner+"/gadgets"); err != nil {
		st.t.Fatal(err)
	}
	return owner + "/gadgets"
}

// TestOneAmongMany: one issue of an installation is begun with the next place that is free,
// however many issues of another wait.
func TestOneAmongMany(t *testing.T) {
	t.Parallel()
	many, agents := 10, 2
	if fullSize() {
		many, agents = 60, 8
	}
	st := newStage(t, setting{files: alone})
	other := st.otherRepo("eve")
	starts, _ := st.crowded(other, agents, many, 1)
	// As many places may become free at the same moment, and be given in one go.
	if at := slices.Index(starts, other); at < agents || at >= 2*agents {
		t.Errorf("started as number %d, with %d at once: %v", at+1, agents, starts)
	}
}

// TestCrowdOfLabels: of very many labels never more are worked on at once than may be, and
// the few of one repository end as if they had half of all agents for themselves, within one
// and a half times.
func TestCrowdOfLabels(t *testing.T) {
	t.Parallel()
	many, few, agents := 18, 4, 2
	if fullSize() {
		many, few, agents = 190, 10, 8
	}
	st := newStage(t, setting{files: alone})
	other := st.otherRepo(person)
	starts, most := st.crowded(other, agents, many, few)
	if most != agents || len(starts) != many+few {
		t.Errorf("%d agents at once, want %d; %d starts, want %d", most, agents, len(starts), many+few)
	}
	last := 0
	for i, repo := range starts {
		if repo == other {
			last = i + 1
		}
	}
	// With half of the agents the few take few/(agents/2) times what one takes; in one and a
	// half times that, all agents are started three times as often as there are few.
	if limit := agents + 3*few; last > limit {
		t.Errorf("the last of the few was started as number %d, %d at most: %v", last, limit, starts)
	}
	t.Logf("the last of %d was started as number %d of %d", few, last, len(starts))
}
