package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

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
		files:  alone,
		now: func() time.Time {
			now := time.Now().Round(0) // without the clock that never jumps
			if ahead.Load() {
				now = now.Add(time.Hour)
			}
			return now
		},
	})
	jump := func(run.Event) { ahead.Store(!ahead.Load()) }
	s := st.serveWith(jump)
	// A write that fails is to be repeated, by a time that is wrong a moment later.
	for _, match := range []string{"createRef", "/labels$", "createCommitOnBranch", "/pulls$"} {
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
