package ghapp

import (
	"context"
	"errors"
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
	// maxPause is how long a write waits here. One whose turn is further away
	// is given back as RateLimited: its caller holds a worker meanwhile.
	maxPause = 100 * time.Millisecond
	// maxDebt bounds how far ahead of their time urgent writes are sent.
	maxDebt = 10 * time.Second
	// turnPause is after how long to come back to a kind of write that is busy.
	turnPause = time.Second
	// hungPause is how long a kind of write is left alone of which one got no answer in
	// its time: each that tries would be held up for as long.
	hungPause = 5 * time.Second
	// lateBy is how long a place in the line is kept for who should have come back.
	lateBy = 3 * time.Second
)

type (
	urgentKey struct{}
	sinceKey  struct{}
)

// Urgent marks writes that must not wait for the pace of the others: people
// are watching, or an agent is to start. They count all the same, so that what
// follows waits the longer.
func Urgent(ctx context.Context) context.Context {
	return context.WithValue(ctx, urgentKey{}, true)
}

// Since says when that began whose writes are made under ctx, a run for instance. Where
// writes of a repository wait, those of what began earlier go first; those of what does not
// say so, an answer to somebody for instance, before all.
func Since(ctx context.Context, begin time.Time) context.Context {
	return context.WithValue(ctx, sinceKey{}, begin.UnixNano())
}

// place is one in the line of those who wait to write.
type place struct {
	repo  string
	since int64
}

// lane is the way that all writes of one installation take: one at a time of each
// purpose, and together no faster than the pace. A purpose whose calls hang stops only
// itself, and is tried every few seconds. Where several repositories want to write, they
// take turns; within one, writes go in the order of what they are for.
type lane struct {
	pace            *rate.Limiter
	every, patience time.Duration

	mu    sync.Mutex
	turns map[string]*turn
	// line holds those who were sent away, and when they are to come back; served is when a
	// repository last wrote.
	line   map[place]time.Time
	served map[string]time.Time
}

func newLane(every, patience time.Duration) *lane {
	return &lane{
		pace: rate.NewLimiter(rate.Every(every), writesAtOnce), every: every, patience: patience,
		turns: map[string]*turn{}, line: map[place]time.Time{}, served: map[string]time.Time{},
	}
}

// turn is that of the writes of one purpose.
type turn struct {
	taken chan struct{} // of one place
	// rests is until when none is sent. lane.mu guards it.
	rests time.Time
}

// enter waits for a moment until a write of a repository may be sent, or gives it back
// as RateLimited; leave has to be called after it, with the error it came to.
func (l *lane) enter(ctx context.Context, repo string) (leave func(error), err error) {
	since, _ := ctx.Value(sinceKey{}).(int64)
	who := place{repo, since}
	turn, rests := l.turn(purposeOf(ctx))
	if rests > 0 {
		return nil, later(rests)
	}
	wait := time.NewTimer(l.patience)
	defer wait.Stop()
	select {
	case turn.taken <- struct{}{}:
	default:
		select {
		case turn.taken <- struct{}{}:
		case <-wait.C:
			l.mu.Lock()
			defer l.mu.Unlock()
			return nil, l.sendAway(who, time.Now(), turnPause)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	slot, err := l.slot(ctx, who)
	if err != nil {
		<-turn.taken
		return nil, err
	}
	if urgent, _ := ctx.Value(urgentKey{}).(bool); !urgent {
		// Later ones have later slots, so nobody overtakes.
		wait.Reset(slot.Delay())
		select {
		case <-wait.C:
		case <-ctx.Done():
			slot.Cancel()
			<-turn.taken
			return nil, ctx.Err()
		}
	}
	return func(err error) {
		if errors.Is(err, context.DeadlineExceeded) {
			l.mu.Lock()
			turn.rests = time.Now().Add(hungPause)
			l.mu.Unlock()
		}
		<-turn.taken
	}, nil
}

// turn is that of a purpose, and for how long it rests.
func (l *lane) turn(purpose string) (t *turn, rests time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t = l.turns[purpose]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		l.turns[purpose] = t
	}
	return t, time.Until(t.rests)
}

// slot takes the next place in the pace, which is near; an urgent write may go before it.
func (l *lane) slot(ctx context.Context, who place) (*rate.Reservation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	urgent, _ := ctx.Value(urgentKey{}).(bool)
	free := l.pace.TokensAt(now)
	if ahead := l.ahead(who, now); !urgent && free < 2 && ahead > 0 {
		// One for each of those who go first, and one more.
		pause := time.Duration((float64(ahead+1) - free) * float64(l.every))
		return nil, l.sendAway(who, now, min(max(pause, maxPause), maxDebt))
	}
	slot := l.pace.ReserveN(now, 1)
	pause := slot.DelayFrom(now)
	if pause > maxDebt || !urgent && pause > maxPause {
		slot.CancelAt(now)
		return nil, l.sendAway(who, now, pause)
	}
	delete(l.line, who)
	l.served[who.repo] = now
	return slot, nil
}

// ahead counts those in the line who go first: of the same repository what began earlier,
// and each other repository that has waited for longer since it last wrote.
func (l *lane) ahead(who place, now time.Time) int {
	n, repos := 0, map[string]bool{}
	for other, back := range l.line {
		switch {
		case now.Sub(back) > lateBy:
			delete(l.line, other)
		case other.repo == who.repo:
			if other.since < who.since {
				n++
			}
		case l.served[other.repo].Before(l.served[who.repo]):
			repos[other.repo] = true
		}
	}
	return n + len(repos)
}

func (l *lane) sendAway(who place, now time.Time, pause time.Duration) error {
	l.line[who] = now.Add(pause)
	return later(pause)
}

func later(pause time.Duration) error {
	return &Error{
		Op: "wait for the pace of writes", Class: RateLimited, RetryAfter: pause,
		Message: fmt.Sprintf("the next may be sent in %s", pause.Round(time.Second)),
	}
}
