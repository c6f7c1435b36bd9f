//go:build load

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// TestManyRunsWrite: runs that begin together all end, by nine writes each. They take 1.3 times
// what the pace of writes forces at most, beside what they take without one.
func TestManyRunsWrite(t *testing.T) {
	t.Parallel()
	const runs, pace = 30, time.Second
	play := func(pace time.Duration) (time.Duration, int) {
		st := newStage(t, setting{script: oneTask})
		st.pace = pace
		s := st.serve()
		begin := time.Now()
		var issues []ghsim.Issue
		for range runs {
			issues = append(issues, st.label("Say hello", "- [ ] Write one\n"))
		}
		for _, issue := range issues {
			if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
				t.Errorf("ended %s: %s", state.End, state.EndDetail)
			}
		}
		took := time.Since(begin)
		st.settled(s)
		return took, len(st.writes())
	}
	usual, _ := play(0)
	took, writes := play(pace)
	const atOnce = 10
	forced := time.Duration(writes-atOnce) * pace
	t.Logf("%d runs took %s; their %d writes force %s; %s without a pace", runs, took, writes, forced, usual)
	if most := forced*13/10 + usual; took > most {
		t.Errorf("%d runs took %s, %s at most", runs, took, most)
	}
	if writes > 9*runs {
		t.Errorf("%d writes", writes)
	}
}

// TestGitHubIsAway: runs neither end nor give up while GitHub answers nothing, and all go
// on once it does.
func TestGitHubIsAway(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: oneTask})
	s := st.serve()
	var issues []ghsim.Issue
	for range 3 {
		issues = append(issues, st.label("Say hello", "- [ ] Write one\n"))
	}
	st.await("an agent to start", s.started)
	st.inject(ghsim.Fault{Status: http.StatusServiceUnavailable, Times: 20})
	for _, issue := range issues {
		if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete || state.Troubles != 0 {
			t.Errorf("ended %s after %d troubles: %s", state.End, state.Troubles, state.EndDetail)
		}
	}
	st.settled(s)
	for _, issue := range issues {
		st.complete(issue, "feat: write one")
	}
	s.stop()
	st.checkWorld()
}

// alone has a run start one agent and nothing else.
var alone = map[string]string{"README.md": "x\n", config.RepoPath: "review: false\n"}

// crowded serves agents that work on only once the test lets them, in two repositories:
// many issues of the first are labelled, and when its agents have taken all its places, few of
// the second. It gives the issues whose agents were started, in that order, each as its
// repository's number, and how many were at work at once.
func (st *stage) crowded(other string, many, few int) (starts []string, most int) {
	st.t.Helper()
	mkdir(st.t, filepath.Join(st.dir, "at-work"))
	file := filepath.Join(st.dir, "agent.sh")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(crowd, "DIR", st.dir)), 0o600); err != nil {
		st.t.Fatal(err)
	}
	st.config.Agent = config.Agent{Name: config.AgentCommand, Command: "sh " + file}
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
			a := st.standing(s)
			return a.Running == running && a.Waiting == waiting
		}
	}
	limits := st.config.Concurrency
	begin(person+"/"+repoOf, many)
	st.await("all places of the repository to be taken", stands(limits.Repository, many-limits.Repository))
	begin(other, few)
	st.await("the others to wait", stands(limits.Agents, many+few-limits.Agents))
	if err := os.WriteFile(filepath.Join(st.dir, "go"), nil, 0o600); err != nil {
		st.t.Fatal(err)
	}
	st.await("all runs to end", func() bool {
		runs, err := s.store.RecentRuns(st.t.Context(), many+few)
		if err != nil {
			st.t.Fatal(err)
		}
		return len(runs) == many+few && !slices.ContainsFunc(runs, func(r store.Run) bool { return r.Phase != run.PhaseDone })
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

// TestCrowdOfLabels: of very many labels never more are worked on at once than may be, and
// the few of another repository wait for none of those that wait for a place in theirs.
func TestCrowdOfLabels(t *testing.T) {
	t.Parallel()
	const many, few, agents, each = 190, 10, 8, 6
	st := newStage(t, setting{files: alone})
	other := st.otherRepo("eve")
	st.config.Concurrency = config.Concurrency{Agents: agents, Repository: each}
	starts, most := st.crowded(other, many, few)
	if most != agents || len(starts) != many+few {
		t.Errorf("%d agents at once, want %d; %d starts, want %d", most, agents, len(starts), many+few)
	}
	last := 0
	for i, repo := range starts {
		if repo == other {
			last = i + 1
		}
	}
	// While a quarter of the places is the few's, three of the many start for each of them; twice that is given.
	if limit := each + 7*few; last > limit {
		t.Errorf("the last of the few was started as number %d, %d at most: %v", last, limit, starts)
	}
}

// TestI3ManyAtOnce: 50 issues labelled at once, and each event sent ten times.
func TestI3ManyAtOnce(t *testing.T) {
	t.Parallel()
	const issues, copies = 50, 10
	st := newStage(t, setting{script: writesAll})
	// It is about how many runs are made: none of them gets to start an agent.
	if err := st.sim.Inject(ghsim.Fault{
		Method: "POST", Match: "/issues/[0-9]+/reactions$", Times: 1 << 20, Status: http.StatusBadGateway, Body: "{}",
	}); err != nil {
		t.Fatal(err)
	}
	s := st.serve()
	var numbers []int
	for i := range issues {
		numbers = append(numbers, st.newIssue(person, fmt.Sprint("Say hello ", i), threeTasks).Number)
	}
	var g errgroup.Group
	g.SetLimit(10)
	for _, n := range numbers {
		g.Go(func() error { return st.sim.AddLabel(person, repoOf, n, person, "ralph") })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for range copies - 1 {
		for _, d := range st.sim.AllDeliveries() {
			if d.Event == "issues" && d.Action == "labeled" && !d.Redelivery {
				if err := st.sim.Redeliver(st.app.ID, d.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	st.processed(s)
	for _, n := range numbers {
		if got := st.runs(s, n); got != 1 {
			t.Errorf("issue %d has %d runs", n, got)
		}
	}
}

// TestI3ToggledLabel: thirty times on and off is not thirty runs, and not thirty
// comments.
func TestI3ToggledLabel(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll, change: func(c *config.Server) { c.People.RunsPerIssue = 3 }})
	s := st.serve()
	issue := st.newIssue(person, "Say hello", threeTasks)
	for range 30 {
		st.relabel(issue, person)
		if err := st.sim.RemoveLabel(person, repoOf, issue.Number, person, "ralph"); err != nil {
			t.Fatal(err)
		}
	}
	st.relabel(issue, person)
	st.processed(s)
	st.await("the last run to end", func() bool {
		_, err := s.store.ActiveRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
		return errors.Is(err, store.ErrNotFound)
	})
	if n := st.runs(s, issue.Number); n < 1 || n > 3 {
		t.Errorf("%d runs", n)
	}
	if said := st.said(issue.Number); len(said) > 4 {
		t.Errorf("%d comments: %q", len(said), said)
	}
}
