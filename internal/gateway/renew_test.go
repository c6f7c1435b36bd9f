package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A key that was replaced while a request was under way costs the agent no more than a
// repetition: the refusal reaches neither it nor the watch. From then on requests carry the new
// key, and answers lack both.
func TestKeyIsReplaced(t *testing.T) {
	t.Parallel()
	const oldKey, newKey = "sk-ant-old-key-1234567890", "sk-ant-new-key-0987654321"
	var valid, inFile, held atomic.Value
	valid.Store(oldKey)
	inFile.Store(oldKey)
	held.Store(oldKey)
	u := &upstream{answer: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != valid.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, "not "+oldKey+" nor "+newKey)
	}}
	var watch *Watch
	addr := start(t, u, func(c *Config) {
		watch = NewWatch(func(r Refused) bool { return r.Status == http.StatusUnauthorized })
		c.Watch = watch
		c.Upstreams[0].Renew = func(_ context.Context, refused bool) (apiKey, authToken string) {
			if refused {
				held.Store(inFile.Load())
			}
			return held.Load().(string), ""
		}
	})
	ask := func(want int) string {
		t.Helper()
		got := do(t, request(t, http.MethodPost, addr+"/v1/messages", strings.NewReader(small), "X-Api-Key", runToken))
		if got.status != want {
			t.Errorf("status %d, want %d: %s", got.status, want, got.body)
		}
		if strings.Contains(got.body, oldKey) {
			t.Errorf("an answer holds the old key: %s", got.body)
		}
		return got.body
	}
	ask(http.StatusOK)
	valid.Store(newKey)
	inFile.Store(newKey)
	if body := ask(http.StatusBadGateway); !strings.Contains(body, "repeat the request") {
		t.Errorf("the agent is told %s", body)
	}
	if last, ok := watch.Last("r1-1"); ok {
		t.Errorf("the watch was told %+v", last)
	}
	if body := ask(http.StatusOK); strings.Contains(body, newKey) {
		t.Errorf("the new key is not masked: %s", body)
	}
	// One that is refused, and is the one in the file, is the agent's to hear of.
	valid.Store("another")
	ask(http.StatusUnauthorized)
	if last, ok := watch.Last("r1-1"); !ok || !last.Final {
		t.Errorf("the watch was told %+v", last)
	}
	if n := len(u.requests()); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}
