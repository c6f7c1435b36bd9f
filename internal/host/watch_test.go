package host_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// watchedAgent starts an agent behind a gateway in front of a provider that answers so,
// and gives how the agent asks.
func watchedAgent(t *testing.T, says agent.Result, answer http.HandlerFunc) (*host.Host, *box, loop.Handle, func()) {
	t.Helper()
	provider := httptest.NewServer(answer)
	t.Cleanup(provider.Close)
	base, err := url.Parse(provider.URL)
	if err != nil {
		t.Fatal(err)
	}
	watch := gateway.NewWatch(func(r gateway.Refused) bool { return agent.EndsCall(r.Status, r.Body, r.Worked) })
	h, b, meter, handle := metered(t, says, func(g *host.Gateway) { g.Watch = watch })
	key := []byte("key")
	front, err := gateway.NewHandler(gateway.Config{
		Upstreams: []gateway.Upstream{{Provider: run.ProviderAnthropic, BaseURL: base, APIKey: "real"}},
		Key:       key, Meter: meter, Watch: watch,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, b, handle, func() {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/messages",
			strings.NewReader(`{"model":"claude-haiku-4-5","max_tokens":10,"messages":[]}`))
		req.Header.Set("X-Api-Key", gateway.Token(key, "r1-1"))
		front.ServeHTTP(httptest.NewRecorder(), req)
	}
}

// refuses answers each request so.
func refuses(status int, after, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestRefusedAgentIsStopped: where there is no use in going on, the host ends the agent at
// once, and what the run learns is the provider's word, whatever the agent makes of it.
func TestRefusedAgentIsStopped(t *testing.T) {
	t.Parallel()
	const limited = `{"error":{"type":"rate_limit_error","message":"slow down"}}`
	for name, tt := range map[string]struct {
		answer   http.HandlerFunc
		requests int
		want     loop.Outcome
		detail   string
		first    string
		limit    string
	}{
		"wrong key": {
			refuses(401, "", `{"error":{"type":"authentication_error","message":"invalid x-api-key"}}`), 1,
			loop.AgentBroken, "refuses the key (401): invalid x-api-key", "check the key", "",
		},
		"unknown model": {
			refuses(404, "", `{"error":{"type":"not_found_error","message":"model: x"}}`), 1, loop.AgentBroken,
			"does not know the model (404): model: x", "--model", "",
		},
		"no credit": {
			refuses(429, "", `{"error":{"type":"insufficient_quota","message":"no money"}}`), 1, loop.AgentBroken,
			"has no credit (429): no money", "add credit", "",
		},
		"a long limit":    {refuses(429, "600", limited), 1, loop.AgentRateLimited, "limits requests (429)", "", "Rate limited"},
		"limits in a row": {refuses(529, "", ""), 4, loop.AgentRateLimited, "(529)", "", "Provider overloaded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// It says nothing, as one that was killed.
			h, b, handle, ask := watchedAgent(t, agent.Result{Outcome: agent.OutcomeEmpty}, tt.answer)
			for i := range tt.requests {
				if status, err := h.ObserveAgent(t.Context(), handle); err != nil || !status.Running || b.status.State != sandbox.Running {
					t.Fatalf("before request %d: %+v, %v", i, status, err)
				}
				ask()
			}
			if err := h.Await(t.Context(), handle); err != nil { // returns once it was stopped
				t.Fatal(err)
			}
			got, err := h.ObserveAgent(t.Context(), handle)
			if err != nil || got.Outcome != tt.want || !strings.Contains(got.Detail, tt.detail) ||
				!strings.Contains(got.DoFirst, tt.first) || got.Lasts != (tt.first != "") || got.Limit != tt.limit {
				t.Errorf("%+v, %v", got, err)
			}
			if wait := time.Until(got.RetryAt); name == "a long limit" && (wait < 9*time.Minute || wait > 10*time.Minute) {
				t.Errorf("again in %s", wait)
			}
		})
	}
}

// TestAgentThatGetsOnIsLeftAlone: what passes by itself is the agent's to wait for, and
// an end that went well needs no explanation.
func TestAgentThatGetsOnIsLeftAlone(t *testing.T) {
	t.Parallel()
	asked := 0
	h, b, handle, ask := watchedAgent(t, agent.Result{Outcome: agent.OutcomeCompleted},
		func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked == 4 {
				_, _ = io.WriteString(w, `{"type":"message","usage":{"input_tokens":1,"output_tokens":1}}`)
				return
			}
			refuses(429, "1", "")(w, r)
		})
	for range 9 { // three limits, an answer, and five limits more
		ask()
		if status, err := h.ObserveAgent(t.Context(), handle); err != nil || !status.Running {
			t.Fatalf("%+v, %v", status, err)
		}
	}
	b.end(sandbox.Status{Reason: sandbox.ReasonExited})
	if got, err := h.ObserveAgent(t.Context(), handle); err != nil || got.Outcome != loop.AgentCompleted || got.Limit != "" {
		t.Errorf("%+v, %v", got, err)
	}
}
