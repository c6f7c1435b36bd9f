package run

import "time"

// EventKind names what an Event tells.
type EventKind string

// The kinds of events a run tells of.
const (
	EventRunStarted     EventKind = "run.started"
	EventPlanned        EventKind = "run.planned"
	EventIteration      EventKind = "iteration.started"
	EventAgentStarted   EventKind = "agent.started"
	EventAgentActivity  EventKind = "agent.activity"
	EventAgentFinished  EventKind = "agent.finished"
	EventVerdict        EventKind = "supervisor.verdict"
	EventGateStarted    EventKind = "gate.started"
	EventGate           EventKind = "gate.finished"
	EventGateNote       EventKind = "gate.noted"
	EventAttemptFailed  EventKind = "attempt.failed"
	EventTaskDone       EventKind = "task.done"
	EventTaskGoesOn     EventKind = "task.goes_on" // part of it is done; the next call goes on
	EventTaskBlocked    EventKind = "task.blocked"
	EventCommitted      EventKind = "commit.landed"
	EventWaiting        EventKind = "run.waiting"
	EventRunEnded       EventKind = "run.ended"
	EventPersonNotified EventKind = "person.notified"
	EventEdited         EventKind = "progress.edited" // people's edits were taken in
	EventTrouble        EventKind = "trouble"
)

// Event is one thing that happened in a run, for whoever watches: the
// terminal, chat, metrics, a live page. It is never the source of what people
// read on GitHub; that is rendered from state.
type Event struct {
	Time time.Time `json:"time"`
	Run  ID        `json:"run"`
	// Repo is the repository ("owner/name", or the path of a checkout) and
	// Subject what the run is about there; both may be "".
	Repo    string `json:"repo,omitempty"`
	Subject string `json:"subject,omitempty"`
	// URL is where people find the run on GitHub, "" where it is not there.
	URL  string    `json:"-"`
	Kind EventKind `json:"kind"`
	// Iteration is the number of the iteration, which counts on from earlier runs;
	// 0 before the first. Iterations counts those that this run has begun.
	Iteration  int `json:"iteration,omitempty"`
	Iterations int `json:"-"`
	// Plannings counts the calls of this run that wrote its plan; they are no
	// iterations.
	Plannings int `json:"-"`

	TaskID    string `json:"task,omitempty"`
	TaskTitle string `json:"title,omitempty"`
	// Tasks are those of the plan as they stand, on events that may change them; nobody
	// changes the slice.
	Tasks []Task `json:"-"`
	// Done and Total count tasks, where known.
	Done  int `json:"done,omitempty"`
	Total int `json:"total,omitempty"`
	// Text is one line for a person; it may hold agent output and is not yet
	// escaped for any medium.
	Text string `json:"text,omitempty"`
	// Lines tell on EventAttemptFailed what of a check failed, as it has printed that.
	Lines []string `json:"-"`
	// Kept: what the failed attempt changed is kept for people.
	Kept bool `json:"-"`
	// CostUSD is what the run has cost so far, and Tokens what its agent calls that
	// have ended read and wrote.
	CostUSD float64 `json:"cost_usd,omitempty"`
	Tokens  int64   `json:"-"`
	// Role, Outcome, Model and Usage are those of one agent call, on
	// EventAgentFinished; Role also on EventAgentStarted, and Usage, as far as the
	// agent tells it by then, on EventAgentActivity.
	Role    Role   `json:"role,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Model   string `json:"model,omitempty"`
	Usage   Usage  `json:"usage,omitzero"`
	// Models is what was used of each model, on EventAgentFinished, and Hosts what
	// was reached, or blocked, also on EventGate. Names of hosts are an agent's.
	Models []ModelUse `json:"models,omitempty"`
	Hosts  []HostUse  `json:"hosts,omitempty"`
	// Gate names the check of an EventGateStarted or EventGate, and Passed says how
	// it went.
	Gate   string `json:"gate,omitempty"`
	Passed bool   `json:"passed,omitempty"`
	// Duration is how long the agent or the check took, on EventRunEnded the run.
	Duration time.Duration `json:"duration_ns,omitempty"`
	// Verdict is the word of an EventVerdict; EventIteration has it, too.
	Verdict string `json:"verdict,omitempty"`
	// Signals are what the last attempt at the task showed, on EventVerdict and
	// EventIteration, where there was one.
	Signals *Signals `json:"signals,omitempty"`
	// Until is when a wait ends, on EventWaiting, whose Text says what for.
	Until time.Time `json:"-"`
	// End and Proof are set on EventRunEnded.
	End   EndReason `json:"end,omitempty"`
	Proof Proof     `json:"-"`
}

// Of gives the event with what its teller left out: the run, and the time, which
// is now. A door knows both, and always the repository.
func (ev Event) Of(id ID, repo string, now time.Time) Event {
	if ev.Repo = repo; ev.Run == "" {
		ev.Run = id
	}
	if ev.Time.IsZero() {
		ev.Time = now
	}
	return ev
}
