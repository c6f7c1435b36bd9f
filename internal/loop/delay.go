package loop

import (
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// Delay is the error of Work or a Runner that cannot do something now for a reason
// that is not the run's: no place is free, or the machine lacks something. The step is
// tried again; it uses no attempt and none of the run's time.
type Delay struct {
	// Why is what the run waits for, in words for people.
	Why string
	// For is when to try again, 0 for some seconds.
	For time.Duration
	// Queued: it waits for its turn, and nothing is wrong.
	Queued bool
	Err    error
}

// Error implements error.
func (d *Delay) Error() string {
	if d.Err != nil {
		return fmt.Sprintf("loop: it has to wait: %s: %v", d.Why, d.Err)
	}
	return "loop: it has to wait: " + d.Why
}

// Unwrap gives the cause.
func (d *Delay) Unwrap() error { return d.Err }

// delayPause is the pause between two attempts at a step that has to wait.
const delayPause = 5 * time.Second

// Delayed is why a run cannot take its next step, and since when.
type Delayed struct {
	Why    string
	Since  time.Time
	Queued bool
	// GivesUp is about when the run ends if that stays so, zero where it waits for as long as
	// it takes.
	GivesUp time.Time `json:",omitzero"`
	// Told: people have been told.
	Told bool
}

// Delay notes that a run has to wait. The next step that is taken ends that.
// Since and Told of d are those of the wait that goes on.
func (e *Engine) Delay(s State, d Delayed) State {
	was := s.Delayed
	begins := was == nil || was.Queued != d.Queued || was.GivesUp.IsZero() != d.GivesUp.IsZero()
	d.Since, d.Told = e.Now(), false
	if was != nil {
		d.Since, d.Told = was.Since, was.Told && !begins
	}
	if begins {
		e.emit(run.Event{Kind: run.EventTrouble, Text: "waiting, no attempt is used: " + d.Why}, &s)
	}
	s.Delayed = &d
	return s
}

// endDelay ends a wait: its time is none of the run's.
func (e *Engine) endDelay(s *State) {
	if s.Delayed == nil {
		return
	}
	s.Waited += max(e.Now().Sub(s.Delayed.Since), 0)
	s.Delayed = nil
}

// Deadline is when the run's time is up, zero where it has no limit. It moves on while
// the run is delayed.
func (s *State) Deadline(now time.Time) time.Time {
	if s.Limits.RunTimeout <= 0 {
		return time.Time{}
	}
	at := s.StartedAt.Add(s.Limits.RunTimeout + s.Waited)
	if s.Delayed != nil {
		at = at.Add(max(now.Sub(s.Delayed.Since), 0))
	}
	return at
}

// Occupies are the names of the processes that the run has at work, or is about to start.
func (s *State) Occupies() (names []string) {
	if s.Phase.Terminal() {
		return nil
	}
	for _, p := range s.processes() {
		names = append(names, p.Name)
	}
	return names
}

// Started are the names of those that are known to have been started.
func (s *State) Started() (names []string) {
	for _, p := range s.processes() {
		if p.Handle != "" && !s.Phase.Terminal() {
			names = append(names, p.Name)
		}
	}
	return names
}

// processes are those of the run that may be at work.
func (s *State) processes() (out []Process) {
	add := func(at Stage, p *Process) {
		if p != nil && at != stagePropose { // there it was seen to have ended
			out = append(out, *p)
		}
	}
	add(s.Stage, s.Process)
	for _, c := range s.Calls {
		add(c.Stage, c.Process)
	}
	return out
}
