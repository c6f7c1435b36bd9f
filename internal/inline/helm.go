package inline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/loop"
)

// Helm is how a person who watches a run steers it. Its methods may be called from any
// goroutine, before the run, too.
type Helm struct {
	mu            sync.Mutex
	paused, stops bool
	bell          chan struct{}
}

// NewHelm gives the helm of one run.
func NewHelm() *Helm { return &Helm{bell: make(chan struct{}, 1)} }

// Pause keeps the run from its next call, or no longer. The one at work goes on.
func (h *Helm) Pause(yes bool) { h.set(func() { h.paused = yes }) }

// StopAfterCall ends the run before its next call, in the name of the person whose commits
// these are.
func (h *Helm) StopAfterCall() { h.set(func() { h.stops = true }) }

// set notes what is asked and wakes the run.
func (h *Helm) set(note func()) {
	h.mu.Lock()
	note()
	h.mu.Unlock()
	select {
	case h.bell <- struct{}{}:
	default: // it is woken already
	}
}

// take says whether the run was asked to stop since, and whether it is paused.
func (h *Helm) take() (stops, paused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	stops, h.stops = h.stops, false
	return stops, h.paused
}

// steer has e take in what login asked of a run.
func (h *Helm) steer(e *loop.Engine, login string) func(context.Context, loop.State) (loop.State, bool, error) {
	return func(ctx context.Context, s loop.State) (loop.State, bool, error) {
		stops, paused := h.take()
		if !stops {
			return s, paused, nil
		}
		next, _, err := e.Steer(ctx, s, loop.Wish{Kind: loop.WishStop, By: loop.Person{Login: login}})
		if errors.Is(err, loop.ErrNotNow) { // it has not looked at its plan yet: with its next step
			h.mu.Lock()
			h.stops = true
			h.mu.Unlock()
			return s, paused, nil
		}
		if err != nil {
			return s, false, fmt.Errorf("take in what %s asked: %w", login, err)
		}
		return next, paused, nil
	}
}

// awake makes a wait one that ends where somebody asks something.
func awake[T any](h *Helm, wait func(context.Context, T) error) func(context.Context, T) error {
	return func(ctx context.Context, what T) error {
		waiting, stop := context.WithCancel(ctx)
		defer stop()
		over := make(chan error, 1)
		go func() { over <- wait(waiting, what) }()
		select {
		case err := <-over:
			return err
		case <-h.bell:
			stop()
			<-over
			return ctx.Err()
		}
	}
}

// steered has a person steer what the driver drives.
func (h *Helm) steered(d *loop.Driver, login string) {
	if h == nil {
		return
	}
	d.Steer = h.steer(d.Engine, login)
	d.Engine.Held = func(context.Context) (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.paused, nil
	}
	d.Await = awake[loop.Handle](h, d.Await)
	d.Sleep = awake[time.Time](h, d.Sleep)
}
