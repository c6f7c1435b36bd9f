//go:build load

package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
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
