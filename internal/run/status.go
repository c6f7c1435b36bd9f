package run

import "time"

// Status is how a run stands for whoever watches it, as its events tell.
type Status struct {
	// Event is the last one, with what it left out because an earlier one has said it.
	Event

	Started time.Time
	// Doing says in a few words what goes on, "" where nothing does: Since when, and until
	// when where it is a wait.
	Doing        string
	Since, Until time.Time
	// Agent is the role of the call at work, "" for none, Heard when it was last heard, and
	// Used what it has used so far, in tokens.
	Agent Role
	Heard time.Time
	Used  int64
	// Check names the check at work, "" for none.
	Check string
	// Landed: the last iteration has done its task, or written the plan.
	Landed, Ended bool
}

// Apply takes in what happened at that time.
func (s *Status) Apply(ev Event, now time.Time) {
	old := s.Event
	if s.Started.IsZero() {
		s.Started = now
	}
	if ev.Total == 0 {
		ev.Done, ev.Total = old.Done, old.Total
	}
	if ev.TaskID == "" && ev.Kind != EventIteration { // a review of all is about no task
		ev.TaskID, ev.TaskTitle = old.TaskID, old.TaskTitle
	} else if ev.TaskTitle == "" && ev.TaskID == old.TaskID {
		ev.TaskTitle = old.TaskTitle
	}
	if ev.Tasks == nil {
		ev.Tasks = old.Tasks
	}
	if ev.Subject == "" {
		ev.Subject = old.Subject
	}
	ev.Iteration, ev.Iterations = max(ev.Iteration, old.Iteration), max(ev.Iterations, old.Iterations)
	ev.Plannings = max(ev.Plannings, old.Plannings)
	ev.CostUSD, ev.Tokens = max(ev.CostUSD, old.CostUSD), max(ev.Tokens, old.Tokens)
	s.Event = ev

	begin := func(doing string) { s.Doing, s.Since, s.Until, s.Check = doing, now, time.Time{}, "" }
	switch ev.Kind { //nolint:exhaustive // the others change nothing of what goes on
	case EventRunStarted, EventIteration:
		s.Landed = false
		begin("preparing")
	case EventPlanned:
		s.Landed = true
	case EventAgentStarted:
		s.Agent, s.Heard, s.Used = ev.Role, now, 0
		begin("waiting for the model")
	case EventAgentActivity:
		s.Heard, s.Used = now, ev.Usage.Tokens()
		if s.Doing != ev.Text {
			begin(ev.Text)
		}
	case EventAgentFinished:
		s.Agent, s.Used = "", 0
		begin("looking at what changed")
	case EventGateStarted:
		begin("running " + ev.Gate)
		s.Agent, s.Check = "", ev.Gate
	case EventGate:
		begin("")
	case EventWaiting:
		begin(ev.Text)
		s.Until = ev.Until
	case EventTaskDone:
		s.Landed = true
	case EventRunEnded:
		s.Ended, s.Agent = true, ""
		begin("")
	}
}
