package loop

import (
	"context"
	"sync"
	"time"
)

// Driver runs the loop to its end in one process, as the command line does:
// it blocks where the App's tick would go away and come back.
type Driver struct {
	Engine *Engine
	// Save persists the state after each step.
	Save func(ctx context.Context, s State) error
	// Await returns when the process behind the handle has ended, or ctx has.
	Await func(ctx context.Context, h Handle) error
	// Sleep returns at the given time, or when ctx has ended.
	Sleep func(ctx context.Context, until time.Time) error
	// Lacks says what this machine lacks where that is why something failed, "" where it is
	// not: the run then waits for it. nil waits for nothing.
	Lacks func(err error) string
	// Steer takes in, before each step, what a person who watches the run asks of it, and
	// says whether the next call has to wait; nil where nobody watches. Await and Sleep
	// return early where there is something to take in.
	Steer func(ctx context.Context, s State) (next State, hold bool, err error)
}

// Run drives s until the run has ended. When ctx is cancelled the run is
// cancelled in order: the agent is stopped, what is finished stays landed, and
// the end is told and saved before Run returns.
func (d *Driver) Run(ctx context.Context, s State) (State, error) {
	work := ctx
	for {
		if ctx.Err() != nil && !s.CancelRequested {
			s.CancelRequested = true
			s.CancelReason = context.Cause(ctx).Error()
			// What is left to do is to stop in order; that must not be cut short.
			work = context.WithoutCancel(ctx)
		}
		if d.Steer != nil {
			steered, hold, err := d.Steer(work, s)
			if err != nil {
				return s, err
			}
			s = steered
			if hold && s.StartsAgent() && !s.CancelRequested && s.StopAfterCall == "" {
				if err := d.pause(ctx, &s); err != nil {
					return s, err
				}
				continue
			}
		}
		next, n, err := d.Engine.Step(work, s)
		if why := d.lacks(ctx, err); why != "" {
			next, n, err = d.Engine.Delay(s, Delayed{Why: why}), Next{Kind: Sleep, Until: d.Engine.Now().Add(delayPause)}, nil
		}
		if err != nil {
			if ctx.Err() != nil && !s.CancelRequested {
				continue // the step was cut short by the cancellation
			}
			return s, err
		}
		s = next
		if err := d.Save(context.WithoutCancel(ctx), s); err != nil {
			return s, err
		}
		switch n.Kind {
		case Continue:
		case Done:
			return s, nil
		case Wait:
			if err = d.await(ctx, n); d.lacks(ctx, err) != "" {
				err = nil // so the next step finds
			}
		case Sleep:
			err = d.Sleep(ctx, n.Until)
		}
		if err != nil && ctx.Err() == nil {
			return s, err
		}
	}
}

// await returns when the first of the processes that n waits for has ended, or it is due.
func (d *Driver) await(ctx context.Context, n Next) error {
	if len(n.Handles) == 1 && n.Until.IsZero() {
		return d.Await(ctx, n.Handles[0])
	}
	waiting, stop := context.WithCancel(ctx)
	first := make(chan error, len(n.Handles)+1)
	var all sync.WaitGroup
	for _, h := range n.Handles {
		all.Go(func() { first <- d.Await(waiting, h) })
	}
	if !n.Until.IsZero() {
		all.Go(func() { first <- d.Sleep(waiting, n.Until) })
	}
	err := <-first
	stop()
	all.Wait()
	return err
}

// lacks is what an error is to wait for, "" for nothing. A run that is to stop waits for
// nothing.
func (d *Driver) lacks(ctx context.Context, err error) string {
	if err == nil || ctx.Err() != nil || d.Lacks == nil {
		return ""
	}
	return d.Lacks(err)
}

// pauseFor is how long a paused run sleeps where nobody wakes it.
const pauseFor = time.Hour

// pause keeps the run from its next call until somebody wakes it. That is none of the
// run's time.
func (d *Driver) pause(ctx context.Context, s *State) error {
	*s = d.Engine.Delay(*s, Delayed{Why: "paused by the person who watches", Queued: true})
	if err := d.Save(context.WithoutCancel(ctx), *s); err != nil {
		return err
	}
	if err := d.Sleep(ctx, d.Engine.Now().Add(pauseFor)); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
