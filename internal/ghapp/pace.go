package ghapp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// GitHub asks for a second between writes and forgives a few in a row; who goes
// on writing faster meets its secondary limits.
const (
	// writesAtOnce is how many are sent without a pause after a while without any.
	writesAtOnce = 10
	writeEvery   = time.Second
	// maxWait is how long a write waits for its turn. One whose turn is further away is
	// given back as RateLimited: so an installation holds up as many workers as this has
	// seconds, and a step of a run that makes several writes gets done.
	maxWait = 5 * time.Second
)

// pace is that of all writes of one installation.
type pace struct {
	mu      sync.Mutex
	limiter *rate.Limiter
}

func newPace(every time.Duration) *pace {
	return &pace{limiter: rate.NewLimiter(rate.Every(every), writesAtOnce)}
}

// wait waits until the next write may be sent, in the order of the callers. A RateLimited
// error says when to come back where that is too far away.
func (p *pace) wait(ctx context.Context) error {
	turn, wait, err := p.reserve(ctx)
	if err != nil {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		turn.Cancel()
		return ctx.Err()
	}
}

// reserve takes the next turn, if it is near. The lock keeps others from queueing behind a
// turn that is given back at once: the limiter would not forget it whole.
func (p *pace) reserve(ctx context.Context) (turn *rate.Reservation, wait time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn = p.limiter.Reserve()
	wait = turn.Delay()
	deadline, limited := ctx.Deadline()
	if wait <= maxWait && (!limited || wait <= time.Until(deadline)) {
		return turn, wait, nil
	}
	turn.Cancel()
	return nil, 0, &Error{
		Op: "wait for the pace of writes", Class: RateLimited, RetryAfter: wait,
		Message: fmt.Sprintf("the next may be sent in %s", wait.Round(time.Second)),
	}
}
