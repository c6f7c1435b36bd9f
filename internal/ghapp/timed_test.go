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

func answer(status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(&bytes.Buffer{})}
}

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

// TestCallsHaveTheirTime: a call that hangs ends after the time of its kind, which also
// bounds the answer.
func TestCallsHaveTheirTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for purpose, want := range map[string]time.Duration{
			"commit": time.Minute, "check": 30 * time.Second,
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
