package gateway

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// final takes a wrong key for final, and an unknown model before any work.
func final(r Refused) bool {
	return r.Status == http.StatusUnauthorized || r.Status == http.StatusNotFound && !r.Worked
}

// ask sends one request of an agent.
func ask(t *testing.T, addr, path string) answer {
	t.Helper()
	return do(t, request(t, http.MethodPost, addr+path, strings.NewReader(`{"model": "claude-sonnet-4-5","max_tokens":100}`),
		"X-Api-Key", runToken, "Content-Type", "application/json"))
}

// TestRefusedForGoodIsAskedOnce: after a refusal that is final nothing reaches the
// provider, however often the agent repeats its request; and it is told so.
func TestRefusedForGoodIsAskedOnce(t *testing.T) {
	t.Parallel()
	for name, unmetered := range map[string]bool{"metered": false, "unmetered": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := NewWatch(final)
			u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, `{"error":{"message":"invalid `+realKey+`"}}`)
			}}
			addr := start(t, u, func(c *Config) { c.Watch, c.Unmetered = w, unmetered })
			first := ask(t, addr, "/v1/messages")
			if first.status != http.StatusUnauthorized || first.header.Get("X-Should-Retry") != "false" ||
				!strings.Contains(first.body, "invalid") {
				t.Errorf("the refusal: %d %v %s", first.status, first.header, first.body)
			}
			for range 5 {
				if again := ask(t, addr, "/v1/messages"); again.status != http.StatusBadRequest {
					t.Errorf("again: %d %s", again.status, again.body)
				}
			}
			if n := len(u.requests()); n != 1 {
				t.Errorf("the provider was asked %d times", n)
			}
			got, ok := w.Last("r1-1")
			want := Refused{Status: http.StatusUnauthorized, InARow: 1, Final: true}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Refused{}, "Host", "Body")); !ok || diff != "" {
				t.Error(diff)
			}
			if strings.Contains(got.Body, realKey) || !strings.Contains(got.Body, "invalid") {
				t.Errorf("body %q", got.Body)
			}
			w.Forget("r1-1")
			if _, ok := w.Last("r1-1"); ok {
				t.Error("it was not forgotten")
			}
		})
	}
}

// TestWatchCountsUntilAnAnswer: what comes before and after an answer of the model is
// told apart, and calls that the work does not depend on count for nothing.
func TestWatchCountsUntilAnAnswer(t *testing.T) {
	t.Parallel()
	w := NewWatch(final)
	statuses := []int{529, 529, 404, 200, 404, 429}
	u := &upstream{answer: func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "count_tokens") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(statuses[0])
		statuses = statuses[1:]
	}}
	w.final = func(Refused) bool { return false }
	addr := start(t, u, func(c *Config) { c.Watch = w })
	var got []Refused
	for range 6 {
		ask(t, addr, "/v1/messages/count_tokens")
		ask(t, addr, "/v1/messages")
		last, _ := w.Last("r1-1")
		if last.Status != 0 && last.RetryAt.IsZero() {
			t.Errorf("%+v", last)
		}
		got = append(got, Refused{Status: last.Status, InARow: last.InARow, Worked: last.Worked})
	}
	want := []Refused{
		{Status: 529, InARow: 1},
		{Status: 529, InARow: 2},
		{Status: 404, InARow: 3},
		{},
		{Status: 404, InARow: 1, Worked: true},
		{Status: 429, InARow: 2, Worked: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestUnmeteredPassesWhatItDoesNotKnow, with the real credential and to the one
// upstream, and only for whoever has the token of a start.
func TestUnmeteredPassesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	addr := start(t, u, func(c *Config) { c.Unmetered = true })
	body := `{"model":"m","tools":[{"type":"web_search_20250305","name":"web_search"}],"of_tomorrow":1}`
	for _, path := range []string{"/v1/messages", "/v1/of/tomorrow"} {
		got := do(t, request(t, http.MethodPost, addr+path, strings.NewReader(body), "X-Api-Key", runToken))
		if got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		if got := do(t, request(t, http.MethodPost, addr+path, strings.NewReader(body), "X-Api-Key", "no")); got.status == http.StatusOK {
			t.Errorf("%s without a token: %d", path, got.status)
		}
	}
	asked := u.requests()
	if len(asked) != 2 {
		t.Fatalf("%d requests arrived", len(asked))
	}
	for _, r := range asked {
		if r.Header.Get("X-Api-Key") != realKey || r.URL.Query().Get("key") != "" {
			t.Errorf("%s with %v", r.URL, r.Header)
		}
	}
}

// TestReach: any answer will do, and none is told with what to check.
func TestReach(t *testing.T) {
	t.Parallel()
	there := Upstream{BaseURL: parsed(t, start(t, &upstream{}, nil))}
	if err := there.Reach(t.Context()); err != nil {
		t.Error(err)
	}
	gone := Upstream{BaseURL: parsed(t, "http://127.0.0.1:1")}
	if err := gone.Reach(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot reach the model endpoint 127.0.0.1:1") {
		t.Error(err)
	}
}

func parsed(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
