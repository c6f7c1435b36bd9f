package ghapp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-github/v60/github"
)

type sendFunc func(*http.Request) (*http.Response, error)

func (f sendFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answer(status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(&bytes.Buffer{})}
}

// TestAway: after five failures in a row nothing but a probe every five seconds is sent,
// what fails says that it is no trouble of the call, and all is sent once a probe succeeds.
func TestAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		status, sent := http.StatusBadGateway, 0
		a := &App{meter: &meter{total: &Counter{}, breaker: newBreaker("api.example"), next: sendFunc(
			func(*http.Request) (*http.Response, error) { sent++; return answer(status), nil })}}
		call := func() (class Class, after time.Duration) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := a.meter.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					return Transient, 0
				}
				return "", 0
			}
			return Classify(err)
		}
		for n := range awayAfter {
			want := Transient
			if n == awayAfter-1 {
				want = RateLimited
			}
			if class, _ := call(); class != want {
				t.Errorf("failure %d: %s", n+1, class)
			}
		}
		begin := time.Now()
		for time.Since(begin) < time.Hour {
			class, after := call()
			if class != RateLimited || after > probeEvery || !a.Away() {
				t.Fatalf("while it is away: %s, come back after %s", class, after)
			}
			<-time.After(time.Second) // by the clock of the bubble
		}
		if probes := sent - awayAfter; probes < 500 || probes > 720 {
			t.Errorf("%d probes in an hour", probes)
		}
		status = http.StatusOK
		<-time.After(probeEvery)
		for range 10 {
			if class, _ := call(); class != "" {
				t.Errorf("when it is back: %s", class)
			}
		}
		if a.Away() || a.Returns() != 1 {
			t.Errorf("away %v, came back %d times", a.Away(), a.Returns())
		}
	})
}

// TestAwayHoldsFetches: what reaches GitHub by another way counts as calls do, and is not
// made while GitHub is away, not even to see whether it is back.
func TestAwayHoldsFetches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &App{meter: &meter{total: &Counter{}, breaker: newBreaker("git.example"), next: sendFunc(
			func(*http.Request) (*http.Response, error) { return answer(http.StatusOK), nil })}}
		made, gone, own := 0, errors.New("no answer"), errors.New("no room")
		fetch := func(fails error) Class {
			err := a.Through(func() error { made++; return fails }, func(err error) bool { return errors.Is(err, gone) })
			if err == nil {
				return ""
			}
			if fails != nil && class(err) == Transient && !(Failed(err) && errors.Is(err, gone)) {
				t.Errorf("%v", err)
			}
			return class(err)
		}
		for range 2 * awayAfter {
			if got := fetch(own); got != Permanent {
				t.Errorf("a failure of our own: %s", got)
			}
		}
		for n := range awayAfter {
			want := Transient
			if n == awayAfter-1 {
				want = RateLimited
			}
			if got := fetch(gone); got != want {
				t.Errorf("failure %d: %s", n+1, got)
			}
		}
		before := made
		for range 3 {
			if got := fetch(nil); got != RateLimited || made != before {
				t.Errorf("while it is away: %s", got)
			}
			<-time.After(probeEvery) // by the clock of the bubble
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://git.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := a.meter.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := fetch(nil); got != "" || made != before+1 {
			t.Errorf("when it is back: %s", got)
		}
	})
}

func class(err error) Class {
	c, _ := Classify(err)
	return c
}

// TestCallsHaveTheirTime: a call that hangs ends after the time of its kind, which also
// bounds the answer.
// TestErrorsKeepNothing: go-github reads an answer that is an error, and does not close it.
// Neither a goroutine nor the time of the call is kept for it.
func TestErrorsKeepNothing(t *testing.T) {
	t.Parallel()
	var sent context.Context
	c := github.NewClient(httpClient(timed{func(req *http.Request) (*http.Response, error) {
		sent = req.Context()
		resp := answer(http.StatusNotFound)
		resp.Request = req
		return resp, nil
	}}))
	_, resp, err := c.Repositories.Get(t.Context(), "acme", "app")
	if err == nil || resp.StatusCode != http.StatusNotFound {
		t.Fatalf("%v, %v", resp, err)
	}
	if sent.Err() == nil {
		t.Error("the time of the call goes on")
	}
	stacks := make([]byte, 1<<20)
	if stacks = stacks[:runtime.Stack(stacks, true)]; bytes.Contains(stacks, []byte("setRequestCancel")) {
		t.Errorf("a goroutine waits for the end of the answer:\n%s", stacks)
	}
}

func TestCallsHaveTheirTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for purpose, want := range map[string]time.Duration{
			"reaction": 10 * time.Second, "label": 10 * time.Second, "commit": time.Minute, "check": 30 * time.Second,
		} {
			begin := time.Now()
			req, err := http.NewRequestWithContext(WithPurpose(t.Context(), purpose), http.MethodPost, "https://api.example/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := timed{func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}}.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			if class, _ := Classify(err); !errors.Is(err, context.DeadlineExceeded) || class != Transient ||
				time.Since(begin) != want {
				t.Errorf("%s: %v (%s) after %s", purpose, err, class, time.Since(begin))
			}
		}
	})
}
