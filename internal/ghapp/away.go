package ghapp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// awayAfter is how many calls in a row have to fail before GitHub counts as away.
	awayAfter = 5
	// probeEvery is the pause between two calls that see whether it is back.
	probeEvery = 5 * time.Second
)

// breaker keeps calls from a host that does not answer: of all that come, one is let
// through from time to time, and the rest are given back unsent.
type breaker struct {
	two *gobreaker.TwoStepCircuitBreaker[struct{}]
	// returns counts how often the host has come back.
	returns atomic.Uint64
}

func newBreaker(host string) *breaker {
	b := &breaker{}
	b.two = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: host, MaxRequests: 1, Timeout: probeEvery,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= awayAfter },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateClosed {
				b.returns.Add(1)
			}
		},
	})
	return b
}

// send sends a request unless the host is away. What fails while it is away, the probes,
// says nothing of the call: it is given back like those that were not sent.
func (b *breaker) send(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	done, err := b.two.Allow()
	if err != nil {
		closeBody(req)
		return nil, away(err)
	}
	probe := b.two.State() != gobreaker.StateClosed
	resp, err := next.RoundTrip(req)
	gone := errors.Is(err, context.Canceled) // whoever asked is
	failed := err != nil || resp.StatusCode >= http.StatusInternalServerError
	done(!failed || gone && !probe)
	if !failed || gone || !probe && b.two.State() == gobreaker.StateClosed {
		return resp, err
	}
	if err == nil {
		err = fromResponse("reach GitHub", resp, "")
		_ = resp.Body.Close()
	}
	return nil, away(err)
}

// Through makes a call that reaches GitHub by another way than this package, a fetch for
// one. While GitHub is away it is not made, nor is it a probe, which others wait for.
// unanswered says of its error that GitHub did not answer.
func (a *App) Through(call func() error, unanswered func(error) bool) error {
	b := a.meter.breaker
	if b.two.State() != gobreaker.StateClosed {
		return away(gobreaker.ErrOpenState)
	}
	done, err := b.two.Allow()
	if err != nil {
		return away(err)
	}
	err = call()
	failed := err != nil && unanswered(err)
	done(!failed)
	switch {
	case !failed:
		return err
	case b.two.State() != gobreaker.StateClosed:
		return away(err)
	default:
		return &Error{Op: "reach GitHub", Class: Transient, Err: err}
	}
}

// Failed says whether err is that GitHub failed or did not answer: nobody here is to blame.
func Failed(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Class == Transient && (e.Status == 0 || e.Status >= http.StatusInternalServerError)
}

func away(err error) error {
	pause := probeEvery
	if errors.Is(err, gobreaker.ErrTooManyRequests) {
		pause = time.Second // a probe is on its way
	}
	return &Error{
		Op: "reach GitHub", Class: RateLimited, RetryAfter: pause,
		Message: "GitHub does not answer; calls wait until it does", Err: err,
	}
}

// Away says whether GitHub does not answer, so that calls wait.
func (a *App) Away() bool {
	return a != nil && a.meter.breaker.two.State() != gobreaker.StateClosed
}

// Returns counts how often GitHub has come back after it was away.
func (a *App) Returns() uint64 {
	if a == nil {
		return 0
	}
	return a.meter.breaker.returns.Load()
}

// timeFor is how long a call may take, by what it is for. A call that hangs holds up
// those of its kind for as long.
func timeFor(purpose string) time.Duration {
	switch purpose {
	case "reaction", "label":
		return 10 * time.Second
	case "commit":
		return time.Minute // of up to 35 MiB
	default:
		return 30 * time.Second
	}
}

// timed bounds the time that next takes for a call, with its answer.
type timed struct {
	next func(*http.Request) (*http.Response, error)
}

func (t timed) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), timeFor(purposeOf(req.Context())))
	resp, err := t.next(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &endingBody{ReadCloser: resp.Body, end: cancel}
	return resp, nil
}

// endingBody ends the time of a call with its answer, when that is closed or was read.
type endingBody struct {
	io.ReadCloser

	end context.CancelFunc
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
