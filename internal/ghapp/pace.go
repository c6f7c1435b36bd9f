package ghapp

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// GitHub asks for a second between writes and forgives a few in a row; who goes
// on writing faster meets its secondary limits.
const (
	writesAtOnce = 10
	writeEvery   = time.Second
	// maxPause is how long a write waits here. One whose turn is further away
	// is given back as RateLimited: its caller has better things to do.
	maxPause = 5 * time.Second
)

type urgentKey struct{}

// Urgent marks writes that must not wait for the pace of the others: people
// are watching, or an agent is to start. They count all the same, so that what
// follows waits the longer.
func Urgent(ctx context.Context) context.Context {
	return context.WithValue(ctx, urgentKey{}, true)
}

// lane is the way that all writes of one installation take: one at a time, and
// no faster than the pace.
type lane struct {
	turn chan struct{}
	pace *rate.Limiter
}

func newLane(every time.Duration) *lane {
	return &lane{turn: make(chan struct{}, 1), pace: rate.NewLimiter(rate.Every(every), writesAtOnce)}
}

// enter waits until a write may be sent; leave has to be called after it. The
// turn is taken last, so that an urgent write does not stand behind a waiting
// one.
func (l *lane) enter(ctx context.Context) error {
	slot := l.pace.Reserve()
	if urgent, _ := ctx.Value(urgentKey{}).(bool); !urgent {
		if err := await(ctx, slot); err != nil {
			return err
		}
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		slot.Cancel()
		return ctx.Err()
	}
}

func (l *lane) leave() { <-l.turn }

// await waits for the time of a slot, or gives it back.
func await(ctx context.Context, slot *rate.Reservation) error {
	pause := slot.Delay()
	if pause == 0 {
		return nil
	}
	if pause > maxPause {
		slot.Cancel()
		return &Error{
			Op: "wait for the pace of writes", Class: RateLimited, RetryAfter: pause,
			Message: fmt.Sprintf("the next may be sent in %s", pause.Round(time.Second)),
		}
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		slot.Cancel()
		return ctx.Err()
	}
}
