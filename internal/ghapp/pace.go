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
	writesAtOnce = 10
	writeEvery   = time.Second
	// maxPause is how long a write waits here. One whose turn is further away
	// is given back as RateLimited: its caller holds a worker meanwhile.
	maxPause = 100 * time.Millisecond
	// maxDebt bounds how far ahead of their time urgent writes are sent.
	maxDebt = 10 * time.Second
	// turnPause is after how long to come back to a kind of write that is busy.
	turnPause = time.Second
	// askedFor is how long a repository that was sent away is expected to come back.
	askedFor = 3 * time.Second
)

type urgentKey struct{}

// Urgent marks writes that must not wait for the pace of the others: people
// are watching, or an agent is to start. They count all the same, so that what
// follows waits the longer.
func Urgent(ctx context.Context) context.Context {
	return context.WithValue(ctx, urgentKey{}, true)
}

// lane is the way that all writes of one installation take: one at a time of each
// purpose, and together no faster than the pace. A purpose whose calls hang stops only
// itself. Where several repositories want to write, they take turns.
type lane struct {
	pace *rate.Limiter

	mu    sync.Mutex
	turns map[string]chan struct{}
	// asked is when a repository was last sent away, served when it last wrote.
	asked, served map[string]time.Time
}

func newLane(every time.Duration) *lane {
	return &lane{
		pace: rate.NewLimiter(rate.Every(every), writesAtOnce), turns: map[string]chan struct{}{},
		asked: map[string]time.Time{}, served: map[string]time.Time{},
	}
}

// enter waits for a moment until a write of a repository may be sent, or gives it back
// as RateLimited; leave has to be called after it.
func (l *lane) enter(ctx context.Context, repo string) (leave func(), err error) {
	turn := l.turn(purposeOf(ctx))
	wait := time.NewTimer(maxPause)
	defer wait.Stop()
	select {
	case turn <- struct{}{}:
	default:
		select {
		case turn <- struct{}{}:
		case <-wait.C:
			return nil, later(turnPause)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := l.slot(ctx, repo); err != nil {
		<-turn
		return nil, err
	}
	return func() { <-turn }, nil
}

func (l *lane) turn(purpose string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := l.turns[purpose]
	if turn == nil {
		turn = make(chan struct{}, 1)
		l.turns[purpose] = turn
	}
	return turn
}

// slot takes the next place in the pace.
func (l *lane) slot(ctx context.Context, repo string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	urgent, _ := ctx.Value(urgentKey{}).(bool)
	if !urgent && l.pace.TokensAt(now) < 2 && l.othersFirst(repo, now) {
		return l.sendAway(repo, now, turnPause)
	}
	slot := l.pace.ReserveN(now, 1)
	pause := slot.DelayFrom(now)
	if pause > maxDebt || !urgent && pause > maxPause {
		slot.CancelAt(now)
		return l.sendAway(repo, now, pause)
	}
	if !urgent && pause > 0 {
		// Nobody may overtake, so the lane is held.
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			slot.Cancel()
			return ctx.Err()
		}
	}
	delete(l.asked, repo)
	l.served[repo] = now
	return nil
}

// othersFirst says whether another repository, sent away a moment ago, has waited for
// longer since it last wrote.
func (l *lane) othersFirst(repo string, now time.Time) bool {
	for other, at := range l.asked {
		if now.Sub(at) > askedFor {
			delete(l.asked, other)
			continue
		}
		if other != repo && l.served[other].Before(l.served[repo]) {
			return true
		}
	}
	return false
}

func (l *lane) sendAway(repo string, now time.Time, pause time.Duration) error {
	l.asked[repo] = now
	return later(pause)
}

func later(pause time.Duration) error {
	return &Error{
		Op: "wait for the pace of writes", Class: RateLimited, RetryAfter: pause,
		Message: fmt.Sprintf("the next may be sent in %s", pause.Round(time.Second)),
	}
}
