package loop

import (
	"time"

	"github.com/org/ralph-action/internal/run"
)

// Resume lets a run that waits for a person go on as the same run: with its
// commits, its history and what it has cost. Its next step lays the work tree out
// anew and takes in what people have changed meanwhile. What came of its tasks so
// far is answered by the person who resumes it, so that they have all their
// attempts; and the time that it waited is none of its time limit. It is a
// *run.UserError where the run does not wait for anybody.
func Resume(s State, now time.Time) (State, error) {
	if s.Phase != run.PhasePaused {
		return s, &run.UserError{Message: "the run does not wait for a person", Hint: "only a paused run can be resumed; start another one instead"}
	}
	s.detach()
	if !s.EndedAt.IsZero() && now.After(s.EndedAt) {
		s.StartedAt = s.StartedAt.Add(now.Sub(s.EndedAt))
	}
	for _, it := range s.Watched {
		s.Acknowledged[it.TaskID] = s.Iteration
		delete(s.Attempts, it.TaskID)
	}
	s.End, s.EndDetail, s.EndedAt, s.Diagnostics, s.Questions = "", "", time.Time{}, "", nil
	s.TaskID, s.Failure, s.Objection, s.Violations, s.Guidance = "", "", "", nil, nil
	s.Proposal, s.Process, s.Ended, s.WaitUntil = nil, nil, nil, time.Time{}
	s.Strikes, s.Idle, s.Waits, s.Lost, s.Gone = 0, 0, 0, 0, 0
	s.Phase, s.Stage = run.PhasePreparing, stageOpen
	return s, nil
}
