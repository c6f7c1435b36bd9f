package main

import (
	"testing"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// TestMissedLabelAtAStart: a label of which GitHub sent no webhook, since the App had none for a
// while, starts its run when the server starts.
func TestMissedLabelAtAStart(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	s := st.serve()
	// A server that knows of nothing is new, and has missed nothing. What it says of its first run
	// has arrived before it stops: a label that GitHub is asked for puts the look off.
	st.ended(s.store, st.label("Say hello", threeTasks))
	st.settled(s)
	s.stop()
	if err := st.sim.SetHook(st.app.ID, "", ""); err != nil {
		t.Fatal(err)
	}
	issue := st.label("Say hello", threeTasks)
	st.clock.pass(11 * time.Minute)
	s = st.serve()
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete || state.Subject.RequestedBy != person {
		t.Errorf("ended %s for %s: %s", state.End, state.Subject.RequestedBy, state.EndDetail)
	}
}
