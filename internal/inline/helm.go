package inline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// Helm is how a person who watches a run steers it. Its methods may be called from any
// goroutine, before the run, too.
type Helm struct {
	mu     sync.Mutex
	wishes []loop.Wish
	paused bool
	bell   chan struct{}
}

// NewHelm gives the helm of one run.
func NewHelm() *Helm { return &Helm{bell: make(chan struct{}, 1)} }

// Ask hands a wish to the run, which takes it in as soon as it can. Who asks is the
// person whose commits these are.
func (h *Helm) Ask(w loop.Wish) {
	h.mu.Lock()
	h.wishes = append(h.wishes, w)
	h.mu.Unlock()
	h.ring()
}

// Pause keeps the run from its next call, or no longer. The one at work goes on.
func (h *Helm) Pause(yes bool) {
	h.mu.Lock()
	h.paused = yes
	h.mu.Unlock()
	h.ring()
}

func (h *Helm) ring() {
	select {
	case h.bell <- struct{}{}:
	default: // it is heard already
	}
}

// take gives what was asked since, and whether the run is paused.
func (h *Helm) take() ([]loop.Wish, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wishes := h.wishes
	h.wishes = nil
	return wishes, h.paused
}

// back keeps a wish for the next step.
func (h *Helm) back(w loop.Wish) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wishes = append(h.wishes, w)
}

// steer has e take in what login asked of a run.
func (h *Helm) steer(
	e *loop.Engine, login string, say func(format string, args ...any),
) func(context.Context, loop.State) (loop.State, bool, error) {
	return func(ctx context.Context, s loop.State) (loop.State, bool, error) {
		wishes, paused := h.take()
		for _, w := range wishes {
			w.By.Login = login
			next, _, err := e.Steer(ctx, s, w)
			if errors.Is(err, loop.ErrNotNow) {
				h.back(w)
				continue
			}
			if user, ok := errors.AsType[*run.UserError](err); ok {
				say("%s", user.Message)
				continue
			}
			if err != nil {
				return s, false, fmt.Errorf("take in what %s asked: %w", login, err)
			}
			s = next
		}
		return s, paused, nil
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
func (h *Helm) steered(d *loop.Driver, login string, say func(format string, args ...any)) {
	if h == nil {
		return
	}
	d.Steer = h.steer(d.Engine, login, say)
	d.Engine.Held = func(context.Context) (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.paused, nil
	}
	d.Await = awake[loop.Handle](h, d.Await)
	d.Sleep = awake[time.Time](h, d.Sleep)
}
