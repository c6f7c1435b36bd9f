package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// Setup are commands of the repository that have to run before the first agent,
// on the content of its default branch. What they leave in their cache is kept
// for the repository.
type Setup struct {
	Commands []string
	Timeout  time.Duration
	// Tree is the default branch's.
	Tree string
	// Done: they have ended. Failed says what went wrong, if anything did.
	Done   bool
	Failed string
}

// SetupName is what people call the set-up commands.
const SetupName = "set-up"

// setup tells people that the run has begun, and runs the set-up commands. Once they have
// ended, which is stored by then, it goes on: without what they prepare no check would tell
// anything, so that the run ends where they failed, before any model is paid for.
func (e *Engine) setup(ctx context.Context, s *State) (Next, error) {
	switch {
	case s.Process == nil:
		if next, ended, err := e.begin(ctx, s); err != nil || ended {
			return next, err
		}
		if s.Setup == nil {
			return e.enter(ctx, s)
		}
		s.prepareProcess(ProcessSetup, e.Now())
		return Next{}, nil
	case s.Setup.Done:
		if err := e.forget(ctx, s); err != nil {
			return Next{}, err
		}
		failed := s.Setup.Failed
		s.Setup = nil
		switch {
		case failed == "":
			return e.enter(ctx, s)
		case e.overdue(*s):
			return e.finish(s, run.EndDeadline, "")
		default:
			return e.finish(s, run.EndFailed, failed)
		}
	case s.Process.Handle != "":
		return e.watchSetup(ctx, s)
	}
	g := gate.Gate{Name: SetupName, Command: strings.Join(s.Setup.Commands, "\n"), Timeout: s.Setup.Timeout}
	if s.Limits.RunTimeout > 0 {
		g.Timeout = min(g.Timeout, max(s.Deadline(e.Now()).Sub(e.Now()), time.Second))
	}
	h, err := e.Runner.StartGate(ctx, *s, GateStart{
		Name: s.Process.Name, Gate: g, Tree: s.Setup.Tree, Trust: TrustDefault,
	})
	if err != nil {
		return Next{}, fmt.Errorf("start the set-up commands: %w", err)
	}
	s.Process.Handle = h
	e.emit(run.Event{Kind: run.EventGateStarted, Gate: SetupName}, s)
	return Next{}, nil
}

// watchSetup waits for the set-up commands.
func (e *Engine) watchSetup(ctx context.Context, s *State) (Next, error) {
	status, err := e.Runner.ObserveGate(ctx, s.Process.Handle)
	switch {
	case (errors.Is(err, ErrGone) || errors.Is(err, ErrLost)) && s.Gone < maxGone:
		s.prepareProcess(ProcessSetup, e.Now())
		s.Gone++
		return Next{}, nil
	case errors.Is(err, ErrGone), errors.Is(err, ErrLost):
		s.Process = nil
		return e.finish(s, run.EndFailed, "the set-up commands were lost each time they were started")
	case err != nil:
		return Next{}, fmt.Errorf("observe the set-up commands: %w", err)
	}
	if status.Running {
		return Next{Kind: Wait, Handles: []Handle{s.Process.Handle}}, nil
	}
	s.Gone = 0
	r, word := status.Result, "done"
	s.Setup.Done = true
	if !r.Passed {
		word = "failed"
		why := r.Reason
		if why == "exited" {
			why = fmt.Sprintf("they ended with exit code %d", r.ExitCode)
		}
		s.Setup.Failed = fmt.Sprintf("the set-up commands of .github/ralph.yml failed: %s: %s", why, oneLine(r.Output, 400))
	}
	s.addHosts(status.Hosts)
	e.emit(run.Event{
		Kind: run.EventGate, Gate: SetupName, Passed: r.Passed, Duration: r.Duration,
		Hosts: run.AddHosts(nil, status.Hosts, maxHosts),
		Text:  fmt.Sprintf("%s %s in %s", SetupName, word, r.Duration.Round(10*time.Millisecond)),
	}, s)
	return Next{}, nil
}
