package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// delaying is a runner that has starts wait for hours before it lets them happen.
type delaying struct {
	loop.Runner
	w      *world
	until  map[string]time.Time
	delays int
}

func (d *delaying) delay(name string) error {
	if _, ok := d.until[name]; !ok {
		d.until[name] = d.w.now.Add(5 * time.Hour)
	}
	if d.w.now.Before(d.until[name]) {
		d.delays++
		return &loop.Delay{Why: "no place is free", For: time.Hour, Queued: true}
	}
	return nil
}

func (d *delaying) StartAgent(ctx context.Context, s loop.State, a loop.AgentStart) (loop.Handle, error) {
	if err := d.delay(a.Name); err != nil {
		return "", err
	}
	return d.Runner.StartAgent(ctx, s, a)
}

func (d *delaying) StartGate(ctx context.Context, s loop.State, g loop.GateStart) (loop.Handle, error) {
	if err := d.delay(g.Name); err != nil {
		return "", err
	}
	return d.Runner.StartGate(ctx, s, g)
}

// TestDelayUsesNothing: a run of six hours whose starts wait five hours each comes to
// its end, with one call for each task.
func TestDelayUsesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.engine()
	d := &delaying{Runner: e.Runner, w: w, until: map[string]time.Time{}}
	e.Runner = d
	s := loop.NewState(withGate(t, gate.Gate{Name: "check"}), w.now)
	s.Limits.RunTimeout = 6 * time.Hour
	began, told, before := w.now, 0, s
	w.meanwhile = func(s loop.State) loop.State {
		if s.Delayed != nil && before.Delayed == nil {
			told++
		}
		if s.Delayed != nil && (s.Attempts["T1"] != before.Attempts["T1"] || s.Iteration != before.Iteration) {
			t.Fatalf("a wait used an attempt: %v", s.Attempts)
		}
		before = s
		return s
	}
	s = w.steps(e, s, 1000, func([]loop.Handle) {}, nil)
	if s.End != run.EndAllTasksComplete || len(s.Attempts) != 0 || s.Delayed != nil {
		t.Fatalf("ended %s with attempts %v: %s", s.End, s.Attempts, s.EndDetail)
	}
	if waited := time.Duration(len(d.until)) * 5 * time.Hour; s.Waited < waited || s.Waited > waited+time.Hour ||
		w.now.Sub(began) < waited || told != len(d.until) {
		t.Errorf("waited %v, want %v; told %d times of %d", s.Waited, waited, told, len(d.until))
	}
}

// TestAgentStoppedForAFullDisk: no attempt is used, until it is plain that the work
// itself fills the disk.
func TestAgentStoppedForAFullDisk(t *testing.T) {
	t.Parallel()
	for _, full := range []int{2, 3} {
		w := newWorld(t)
		work := w.agent
		w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			if len(w.agents) < full {
				return loop.AgentStatus{Outcome: loop.AgentCrowded, Detail: "the disk is nearly full"}
			}
			return work(w, s, a)
		}
		s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
		want := run.EndAllTasksComplete
		if full == 3 {
			want = run.EndFailed
		}
		if s.End != want || s.Attempts["T1"] != 0 {
			t.Errorf("full %d times: ended %s with attempts %v: %s", full, s.End, s.Attempts, s.EndDetail)
		}
	}
}

// awayRunner is one whose engine is away for its next calls.
type awayRunner struct {
	loop.Runner
	calls int
}

func (a *awayRunner) away() error {
	if a.calls--; a.calls >= 0 {
		return errBoom
	}
	return nil
}

func (a *awayRunner) StartAgent(ctx context.Context, s loop.State, start loop.AgentStart) (loop.Handle, error) {
	if err := a.away(); err != nil {
		return "", err
	}
	return a.Runner.StartAgent(ctx, s, start)
}

func (a *awayRunner) ObserveAgent(ctx context.Context, h loop.Handle) (loop.AgentStatus, error) {
	if err := a.away(); err != nil {
		return loop.AgentStatus{}, err
	}
	return a.Runner.ObserveAgent(ctx, h)
}

func (a *awayRunner) Abandon(ctx context.Context, name string) error {
	if err := a.away(); err != nil {
		return err
	}
	return a.Runner.Abandon(ctx, name)
}

// TestDriverWaitsForTheMachine: an engine that is away is waited for until it is back, or
// until the person has had enough.
func TestDriverWaitsForTheMachine(t *testing.T) {
	t.Parallel()
	drive := func(ctx context.Context, calls int, sleep func()) (loop.State, []string, error) {
		w := newWorld(t)
		e := w.engine()
		e.Runner = &awayRunner{Runner: e.Runner, calls: calls}
		var said []string
		e.Emit = func(ev run.Event) {
			if ev.Kind == run.EventTrouble {
				said = append(said, ev.Text)
			}
		}
		awaited := 0
		d := loop.Driver{
			Engine: e, Save: func(context.Context, loop.State) error { return nil },
			Await: func(context.Context, loop.Handle) error {
				if awaited++; awaited == 1 {
					return errBoom
				}
				return nil
			},
			Sleep: func(_ context.Context, until time.Time) error {
				w.now = until
				sleep()
				return nil
			},
			Lacks: func(err error) string {
				if errors.Is(err, errBoom) {
					return "the engine is away; start it"
				}
				return ""
			},
		}
		s, err := d.Run(ctx, loop.NewState(request(t, threeTasks), w.now))
		return s, said, err
	}
	s, said, err := drive(t.Context(), 5000, func() {})
	if err != nil || s.End != run.EndAllTasksComplete || s.Waited < 5000*time.Second || len(s.Attempts) > 0 {
		t.Errorf("ended %s, waited %v, attempts %v: %v", s.End, s.Waited, s.Attempts, err)
	}
	if len(said) == 0 || !strings.Contains(said[0], "the engine is away; start it") || len(said) > 3 {
		t.Errorf("said %q", said)
	}
	ctx, cancel := context.WithCancel(t.Context())
	sleeps := 0
	if s, _, err := drive(ctx, 1<<30, func() {
		if sleeps++; sleeps == 10 {
			cancel()
		}
	}); sleeps != 10 || !errors.Is(err, errBoom) || s.Phase.Terminal() {
		t.Errorf("cancelled after %d waits, in phase %s: %v", sleeps, s.Phase, err)
	}
}
