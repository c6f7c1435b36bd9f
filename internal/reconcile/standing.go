package reconcile

import (
	"context"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// ActiveRun is how a run stands that has not ended.
type ActiveRun struct {
	Run run.ID
	// Running is how many agents and checks of it are at work.
	Running int
	// Waits is what it waits for, "" for nothing: a place, or what the machine lacks.
	Waits string
}

// Standing is what runs and waits on the whole server.
type Standing struct {
	// Running are the agents and checks at work, Waiting the runs that wait for their turn or
	// for what the server lacks. One that a step of its own keeps up is not among them.
	Running, Waiting int
	// Runs are all active runs, oldest first.
	Runs []ActiveRun
}

// ReadStanding reads it from the stored states, so that another process can ask, too.
func ReadStanding(ctx context.Context, st *store.Store) (Standing, error) {
	rows, err := st.ActiveRuns(ctx)
	if err != nil {
		return Standing{}, err
	}
	var all Standing
	for _, row := range rows {
		one := ActiveRun{Run: row.ID}
		if s, err := loop.Decode(row.State); err == nil {
			one.Running = len(s.Started())
			if s.Delayed != nil {
				one.Waits = s.Delayed.Why
				if s.Delayed.GivesUp.IsZero() {
					all.Waiting++
				}
			}
		}
		all.Running += one.Running
		all.Runs = append(all.Runs, one)
	}
	return all, nil
}
