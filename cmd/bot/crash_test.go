//go:build crash

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// dice are rolled from a seed, by many at once.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func rollDice(t testing.TB) *dice {
	t.Helper()
	seed := uint64(1)
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
	const lasts, most = 5 * time.Minute, 30
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
	var issues []ghsim.Issue
	kills := 0
	for until := time.Now().Add(lasts); time.Now().Before(until); kills++ {
		p := st.start("")
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
		for range p.lines { // to their end
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
			waiting := strings.HasPrefix(text, "**Waiting for the server.**") ||
				strings.HasPrefix(text, "**I cannot go on at the moment:**")
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

// TestClockThatJumps: the clock of the machine jumps an hour ahead and back again, in the
// middle of runs and while the server starts again. No work is lost or done twice, no run is
// given up, no attempt is used. Like that of a machine, what the clock says is compared with
// what was written down before.
func TestClockThatJumps(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(shortTempDir(t), "starts.json")
	var ahead atomic.Bool
	st := newStage(t, setting{
		script: fmt.Sprintf("model: scripted\nstate: %q\ndefault: [{files: {one.txt: \"1\\n\"}, say: done}]\n", starts),
		files:  quick,
	})
	st.now = func() time.Time {
		now := time.Now().Round(0) // without the clock that never jumps
		if ahead.Load() {
			now = now.Add(time.Hour)
		}
		return now
	}
	jump := func(run.Event) { ahead.Store(!ahead.Load()) }
	s := st.serveWith(jump)
	// A write that fails is to be repeated, by a time that is wrong a moment later.
	for _, match := range []string{"/git/refs$", "/labels$", "createCommitOnBranch", "/pulls$"} {
		st.inject(ghsim.Fault{Method: "POST", Match: match, Status: 502})
	}
	var issues []ghsim.Issue
	for n := range 3 {
		issues = append(issues, st.label(fmt.Sprint("Say hello ", n), "- [ ] Write one\n"))
	}
	st.await("an agent to start", s.started)
	s.stop()
	ahead.Store(true)
	s = st.serveWith(jump)
	for _, issue := range issues {
		if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete || len(state.Attempts) != 0 {
			t.Errorf("#%d ended %s, attempts %v: %s", issue.Number, state.End, state.Attempts, state.EndDetail)
		}
	}
	ahead.Store(false) // what was put off by the clock that was ahead would be an hour late
	st.settled(s)
	for _, issue := range issues {
		st.complete(issue, "feat: write one")
	}
	if b, err := os.ReadFile(starts); err != nil || string(b) != "{\"T1\":3}" && string(b) != "{\"T1\":3}\n" {
		t.Errorf("agents started %s, %v", b, err)
	}
	s.stop()
	st.checkWorld()
}

// TestKilledAtEveryStep expects of a server that is killed at each step the
// result of one that nothing happened to.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	t.Run("a run that goes well", func(t *testing.T) {
		t.Parallel()
		killedGoingWell(t, 1)
	})
	t.Run("tasks side by side", func(t *testing.T) {
		t.Parallel()
		counts := filepath.Join(shortTempDir(t), "starts.json")
		st := newStage(t, setting{
			script: fmt.Sprintf("model: scripted\nstate: %q\ndefault: [{files: {one.txt: \"1\\n\"}, say: done}]\ntasks:\n"+
				"  two: [{files: {two.txt: \"2\\n\"}, say: done}]\n  three: [{files: {three.txt: \"3\\n\"}, say: done}]\n", counts),
			change: func(c *config.Server) { c.Limits.Parallel = 3 },
		})
		_, state := st.killed(func() ghsim.Issue {
			return st.label("Say hello", "- [ ] [P] Write one\n- [ ] [P] Write two\n- [ ] [P] Write three\n")
		})
		if got := subjects(st.onlyPR().Commits); state.End != run.EndAllTasksComplete || len(got) != 4 { // and the closing one
			t.Errorf("ended %s: %s; commits %q", state.End, state.EndDetail, got)
		}
		if b, err := os.ReadFile(counts); err != nil || !strings.HasPrefix(string(b), `{"T1":1,"T2":1,"T3":1`) {
			t.Errorf("agents started %s, %v", b, err)
		}
	})
	t.Run("a run that ends short", func(t *testing.T) {
		t.Parallel()
		st := newStage(t, setting{
			script: "model: scripted\ntasks:\n  one: [{files: {one.txt: \"1\\n\"}, say: done}]\ndefault: [{misbehave: nothing}]\n",
			change: func(c *config.Server) { c.Limits.TaskAttempts = 1 },
		})
		issue, state := st.killed(func() ghsim.Issue { return st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n") })
		if state.End != run.EndBlocked {
			t.Errorf("ended %s", state.End)
		}
		pr := st.onlyPR()
		if diff := cmp.Diff([]string{wantSubjects[0], "chore: record what was tried"}, subjects(pr.Commits)); diff != "" {
			t.Error(diff)
		}
		if checks, _ := st.checks(); !slices.Equal(checks, []string{"", "completed failure"}) {
			t.Errorf("check runs by commit: %q", checks)
		}
		got := st.issue(issue.Number)
		if len(got.Comments) != 1 || len(got.Reactions) != 1 {
			t.Errorf("%d comments, %d reactions, want one of each", len(got.Comments), len(got.Reactions))
		}
	})
	t.Run("a run that a review brings", func(t *testing.T) {
		t.Parallel()
		counts := filepath.Join(shortTempDir(t), "starts.json")
		st := newStage(t, setting{files: quick, script: fmt.Sprintf(`model: scripted
state: %q
tasks:
  one: [{files: {one.txt: "a\nb\n"}, say: done}]
  one.txt: [{files: {one.txt: "a\nB\n"}, say: done}]
  two.txt: [{files: {two.txt: "zwei\n"}, say: done}]
default: [{files: {two.txt: "2\n"}, say: done}]
`, counts)})
		s := st.serve()
		issue := st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n")
		first := st.ended(s.store, issue)
		if first.End != run.EndAllTasksComplete {
			t.Fatalf("ended %s: %s", first.End, first.EndDetail)
		}
		st.processed(s)
		s.stop()
		before := subjects(st.onlyPR().Commits)
		var rv ghsim.Review
		_, state := st.killed(func() ghsim.Issue {
			rv = st.review(person, "COMMENTED", "",
				ghsim.ReviewLine{Path: "one.txt", Line: 2, Body: "```suggestion\nB\n```"},
				ghsim.ReviewLine{Path: "two.txt", Line: 1, Body: "Say it in German."})
			return issue
		})
		if state.End != run.EndAllTasksComplete || state.Run == first.Run || state.Iteration != 4 || state.Iterations() != 2 {
			t.Errorf("ended %s (%s) after %d iterations", state.End, state.EndDetail, state.Iteration)
		}
		// Each task has one commit and each conversation one reply, which resolves it.
		pr := st.onlyPR()
		added := subjects(pr.Commits)[len(before):]
		if len(added) != 3 || len(state.Commits) != 2 || added[2] != wantSubjects[3] {
			t.Errorf("commits %q", added)
		}
		for _, line := range rv.Lines {
			said := st.thread(line)
			if len(said) != 2 || said[1].User != st.app.BotLogin || !said[1].Resolved {
				t.Errorf("the conversation on %s: %+v", line.Path, said)
			}
		}
		files := st.contents("ralph/1")
		if files["one.txt"] != "a\nB\n" || files["two.txt"] != "zwei\n" {
			t.Errorf("the files: %q", files)
		}
		if got := st.issue(issue.Number); len(got.Comments) != 0 || len(st.said(pr.Number)) != 0 {
			t.Errorf("comments %+v and %q", got.Comments, st.said(pr.Number))
		}
		starts, err := os.ReadFile(counts)
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"T1":1,"T2":1,"T3":1,"T4":1}`; strings.TrimSpace(string(starts)) != want {
			t.Errorf("agents started %s, want %s", starts, want)
		}
	})
}
