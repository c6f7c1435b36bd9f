//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// fullSize says that the limits are tried in full size, see `make limits`.
func fullSize() bool { return os.Getenv("RALPH_TEST_FULL") != "" }

// dice are rolled from a seed, by many at once.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func rollDice(t testing.TB) *dice {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("RALPH_TEST_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("RALPH_TEST_SEED=%d", seed)
	return &dice{rand: rand.New(rand.NewPCG(seed, 0))}
}

func (d *dice) under(chance float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.Float64() < chance
}

func (d *dice) upTo(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rand.Int64N(int64(most)))
}

// breakGitHub fails a quarter of all calls in each way that GitHub fails, and has half of
// the answers of writes lost after they took effect, as long as on says so.
func (st *stage) breakGitHub(d *dice, on *atomic.Bool) {
	st.t.Helper()
	const limited = `{"message":"You have exceeded a secondary rate limit"}`
	some := func(chance float64) func(string, string) bool {
		return func(string, string) bool { return on.Load() && d.under(chance) }
	}
	// Of four of the ways each has a sixteenth of all calls, which come to them in turn.
	for i, f := range []ghsim.Fault{
		{Status: http.StatusBadGateway, Body: "bad gateway"},
		{Status: http.StatusTooManyRequests, Body: limited, Header: map[string]string{"Retry-After": "1"}},
		{Status: http.StatusForbidden, Body: limited, Header: map[string]string{"Retry-After": "1"}},
		{Drop: true},
	} {
		f.Hits = some(1 / float64(16-i))
		st.inject(f)
	}
	lost := some(0.5)
	st.inject(ghsim.Fault{Drop: true, After: true, Hits: func(method, target string) bool {
		_, read := slices.BinarySearch([]string{"/graphql node", "/graphql nodes", "/graphql repository"}, target)
		return method != http.MethodGet && !read && lost(method, target)
	}})
}

// TestChaos kills the server at instants that nobody chose while GitHub fails and loses
// answers, and runs begin. In the end nothing is lost, nothing doubled and nothing missing.
func TestChaos(t *testing.T) {
	t.Parallel()
	lasts, most := 12*time.Second, 4
	if fullSize() {
		lasts, most = 300*time.Second, 30
	}
	d := rollDice(t)
	st := newStage(t, setting{script: `model: scripted
tasks:
  one: [{files: {one.txt: "1\n"}, say: done}]
default: [{files: {two.txt: "2\n"}, say: done}]
`})
	var passed atomic.Int64
	st.now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	var on atomic.Bool
	on.Store(true)
	st.breakGitHub(d, &on)
	st.hook(st.config.Listen)
	file := st.writeConfig()
	var issues []ghsim.Issue
	kills := 0
	for until := time.Now().Add(lasts); time.Now().Before(until); kills++ {
		p := st.startProgram(theProgram(t), "serve", "--config", file)
		rest(d.upTo(time.Second))
		if len(issues) < most {
			issue := st.label(fmt.Sprint("Say hello ", len(issues)), "- [ ] Write one\n- [ ] Write two\n")
			issues = append(issues, issue)
			st.comment(issue.Number, person, "/ralph status")
		}
		rest(d.upTo(3 * time.Second))
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait() // it was killed
	}
	on.Store(false)
	calls := len(st.sim.Calls())

	// An hour later GitHub is well again, and somebody starts the server once more.
	passed.Store(int64(time.Hour))
	s := st.serve()
	for _, issue := range issues {
		if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete || len(state.Attempts) != 0 {
			t.Errorf("#%d ended %s, attempts %v: %s", issue.Number, state.End, state.Attempts, state.EndDetail)
		}
	}
	for _, issue := range issues {
		st.await("the answer to a command", func() bool { return len(st.said(issue.Number)) > 0 })
	}
	st.settled(s)
	for _, issue := range issues {
		st.complete(issue, "feat: write one", "feat: write two")
		waits := 0
		said := slices.DeleteFunc(st.said(issue.Number), func(text string) bool {
			waiting := strings.HasPrefix(text, "**Waiting for the server.**")
			if waiting {
				waits++
			}
			return waiting
		})
		if len(said) != 1 || waits > 1 {
			t.Errorf("#%d: told %d times that it waits, and answered %q", issue.Number, waits, said)
		}
	}
	s.stop()
	st.checkWorld()
	t.Logf("%d kills in %s, %d runs, %d calls broken or not", kills, lasts, len(issues), calls)
}

// rest has the test last that long.
func rest(d time.Duration) { <-time.NewTimer(d).C }

// settled waits until nothing is left to be dealt with or to be repeated.
func (st *stage) settled(s *serving) {
	st.t.Helper()
	st.processed(s)
	st.watchOthers() // what is repeated in vain rings no bell
	const query = `SELECT count(*) FROM effects WHERE status = 'intended'`
	st.await("all effects to be made", func() bool {
		var left int
		if err := s.store.DB().QueryRowContext(st.t.Context(), query).Scan(&left); err != nil {
			st.t.Fatal(err)
		}
		return left == 0
	})
}

// complete holds what people see of a run that went well against what they are to see:
// its commits, the last of which closes the work, a pull request that is no draft, one
// check run on each commit, a reaction and a label.
func (st *stage) complete(issue ghsim.Issue, commits ...string) {
	st.t.Helper()
	prs, err := st.sim.PRs(person, repoOf)
	if err != nil {
		st.t.Fatal(err)
	}
	branch := fmt.Sprintf("ralph/%d", issue.Number)
	prs = slices.DeleteFunc(prs, func(pr ghsim.PR) bool { return pr.Head != branch })
	if len(prs) != 1 {
		st.t.Errorf("#%d has %d pull requests", issue.Number, len(prs))
		return
	}
	pr := prs[0]
	if got := subjects(pr.Commits); len(got) != len(commits)+1 || !slices.Equal(got[:len(commits)], commits) {
		st.t.Errorf("#%d: commits %q", issue.Number, got)
	}
	if pr.Draft {
		st.t.Errorf("#%d: the pull request is a draft", issue.Number)
	}
	all, err := st.sim.CheckRuns(person, repoOf)
	if err != nil {
		st.t.Fatal(err)
	}
	for _, c := range pr.Commits {
		var said []string
		for _, check := range all {
			if check.HeadOID == c.OID {
				said = append(said, check.Status+" "+check.Conclusion)
			}
		}
		want := "completed neutral"
		if c.OID == pr.HeadOID {
			want = "completed success"
		}
		// What was overtaken before it was shown has none. One that nobody knows of any more stays as
		// it was where another commit has followed.
		known := c.OID == pr.HeadOID || len(said) > 0 && !st.forgets
		if !slices.Equal(said, []string{want}) && known {
			st.t.Errorf("#%d: check runs on %s: %q, want %q", issue.Number, c.OID, said, want)
		}
	}
	if got := st.issue(issue.Number); !slices.Contains(got.Labels, "ralph:done") || len(got.Reactions) != 1 {
		st.t.Errorf("#%d: labels %q, reactions %v", issue.Number, got.Labels, got.Reactions)
	}
}
