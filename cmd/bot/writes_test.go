package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const oneTask = "model: scripted\ndefault: [{files: {one.txt: \"1\\n\"}, say: done}]\n"

// writes are the calls that changed something on GitHub, each as what it did.
func (st *stage) writes() (got []string) {
	st.t.Helper()
	for _, c := range st.sim.Calls() {
		if c.Method != http.MethodGet && c.Method != http.MethodHead && !strings.Contains(c.Path, "/access_tokens") &&
			c.Kind != "git" && !strings.HasPrefix(c.Route, "query") && !strings.HasPrefix(c.Caller, "user:") {
			got = append(got, c.Method+" "+c.Route)
		}
	}
	return got
}

// TestWritesOfARun: a run of one task makes at most six writes: a reaction, the branch with the
// task's commit, the pull request, the commit that closes the work, the check run of that
// with the description and the end of draft, and the label.
func TestWritesOfARun(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: oneTask})
	s := st.serve()
	state := st.ended(s.store, st.label("Say hello", "- [ ] Write one\n"))
	if state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	if got := st.writes(); len(got) > 6 {
		t.Errorf("%d writes:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// TestManyRunsWriteInOrder: runs that begin together all end, by six writes each. In full
// size, where the pace is what they wait for, they take 1.3 times what it forces at most,
// beside what they take without one, and end in the order in which they were labelled, give
// or take three places; TestThirtyRunsWriteInOrder of ghapp says so without a server.
func TestManyRunsWriteInOrder(t *testing.T) {
	t.Parallel()
	runs, pace := 4, 300*time.Millisecond
	if fullSize() {
		runs, pace = 30, time.Second
	}
	play := func(pace time.Duration) (time.Duration, int, []int) {
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
		rows, err := s.store.RecentRuns(t.Context(), runs)
		if err != nil {
			t.Fatal(err)
		}
		var order []int // by their places among those that were labelled
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, ev := range s.events {
			if ev.Kind == run.EventRunEnded {
				order = append(order, slices.IndexFunc(rows, func(r store.Run) bool { return r.ID == ev.Run }))
			}
		}
		return took, len(st.writes()), order
	}
	usual, _, _ := play(0)
	took, writes, order := play(pace)
	const atOnce = 10
	forced := time.Duration(writes-atOnce) * pace
	t.Logf("%d runs took %s; their %d writes force %s; %s without a pace; order %v", runs, took, writes, forced, usual, order)
	if most := forced*13/10 + usual; fullSize() && took > most {
		t.Errorf("%d runs took %s, %s at most", runs, took, most)
	}
	if writes > 6*runs || len(order) != runs {
		t.Errorf("%d writes, %d runs ended", writes, len(order))
	}
	for at, n := range order {
		if fullSize() && (n < at-3 || n > at+3) {
			t.Errorf("ended in the order %v", order)
			break
		}
	}
}

// TestLabelsAndRepliesOutlastFailures: the label of the end is put on, and a command
// answered, when GitHub takes them, and once.
func TestLabelsAndRepliesOutlastFailures(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: oneTask})
	for _, f := range []ghsim.Fault{
		{Method: "POST", Match: "/issues/1/labels$", Status: http.StatusBadGateway},
		{Method: "POST", Match: "/issues/1/comments$", Status: http.StatusUnauthorized, Times: 2},
	} {
		if err := st.sim.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	s := st.serve()
	issue := st.label("Say hello", "- [ ] Write one\n")
	st.ended(s.store, issue)
	st.await("the label that says how the run ended", func() bool {
		return slices.Contains(st.issue(issue.Number).Labels, "ralph:done")
	})
	st.comment(issue.Number, person, "/ralph status")
	st.await("the reply", func() bool { return len(st.said(issue.Number)) > 0 })
	if said := st.said(issue.Number); len(said) != 1 {
		t.Errorf("said %q", said)
	}
}

// TestHangingEndpoint: calls of one kind that hang, each until its time of ten seconds is
// over, keep no run from its end.
func TestHangingEndpoint(t *testing.T) {
	t.Parallel()
	runs := 3
	if fullSize() {
		runs = 20
	}
	for name, match := range map[string]string{"reactions": "/reactions$", "labels": "/labels$"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{script: oneTask})
			s := st.serve()
			take := func() time.Duration {
				begin := time.Now()
				for range runs {
					state := st.ended(s.store, st.label("Say hello", "- [ ] Write one\n"))
					if state.End != run.EndAllTasksComplete {
						t.Errorf("ended %s: %s", state.End, state.EndDetail)
					}
				}
				return time.Since(begin)
			}
			usual := take()
			hold, held := make(chan struct{}), make(chan struct{}, 1)
			defer close(hold)
			st.inject(ghsim.Fault{Method: "POST", Match: match, Hold: hold, Held: held, Times: 1000})
			hung := take()
			select {
			case <-held:
			default:
				t.Error("nothing was kept waiting")
			}
			// The rest is for a machine that is busy: were each run kept waiting, the calls
			// alone would take 30 seconds more, and 200 in full size.
			if most := usual*2 + 20*time.Second; hung > most {
				t.Errorf("%d runs took %s, %s at most", runs, hung, most)
			}
			t.Logf("%d runs took %s, and %s where %s hang", runs, usual, hung, name)
		})
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
	// The first calls have it count as away, and each of the others is a probe five seconds
	// after the one before.
	calls := 7
	if fullSize() {
		calls = 5 + 24
	}
	begin := time.Now()
	st.inject(ghsim.Fault{Status: http.StatusServiceUnavailable, Times: calls})
	st.await("GitHub to count as away", s.github.Away)
	for _, issue := range issues {
		if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete || state.Troubles != 0 {
			t.Errorf("ended %s after %d troubles: %s", state.End, state.Troubles, state.EndDetail)
		}
	}
	if s.github.Returns() == 0 {
		t.Error("GitHub was never away")
	}
	t.Logf("three runs took %s, with GitHub away for %d probes", time.Since(begin), calls-5)
	st.settled(s)
	for _, issue := range issues {
		st.complete(issue, "feat: write one")
	}
	s.stop()
	st.checkWorld()
}
