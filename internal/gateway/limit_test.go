package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLimitsThatLastAreFinal for an agent that would repeat the request in
// silence, and pass as they are for all others.
func TestLimitsThatLastAreFinal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header string
		// answers are the provider's: a status and what Retry-After says.
		answers []string
		kind    string // of a 429
		want    []string
	}{
		"long":  {"X-Final", []string{"429 3600", "200 "}, "tokens", []string{"400 429 3600", "200  "}},
		"short": {"X-Final", []string{"429 2", "200 ", "429 59"}, "tokens", []string{"429  2", "200  ", "429  59"}},
		"again, again": {
			"X-Final", strings.Split(strings.Repeat("429 ,", 6)+"200 ,429 ", ","), "requests",
			[]string{"429  ", "429  ", "429  ", "429  ", "400 429 ", "400 429 ", "200  ", "429  "},
		},
		"empty":       {"X-Final", []string{"429 3600"}, "insufficient_quota", []string{"400 429 3600"}},
		"no limit":    {"X-Final", []string{"503 3600", "529 3600"}, "", []string{"503  3600", "529  3600"}},
		"other agent": {"", []string{"429 3600"}, "tokens", []string{"429  3600"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
				status, after := 0, ""
				_, _ = fmt.Sscan(tt.answers[asked], &status, &after)
				asked++
				if after != "" {
					w.Header().Set("Retry-After", after)
				}
				w.WriteHeader(status)
				if status == http.StatusTooManyRequests {
					_, _ = io.WriteString(w, `{"error":{"message":"words","type":"`+tt.kind+`"}}`)
				}
			}}
			addr := start(t, u, func(c *Config) { c.FinalLimit = tt.header })
			var got []string
			for range tt.answers {
				resp := do(t, request(t, http.MethodPost, addr+"/v1/messages",
					strings.NewReader(`{"model": "claude-sonnet-4-5","max_tokens":100}`), "X-Api-Key", runToken, "Content-Type",
					"application/json"))
				if own := strings.Contains(resp.body, "words"); resp.status == http.StatusBadRequest &&
					own != (tt.kind == "insufficient_quota") || resp.status == http.StatusTooManyRequests && !own {
					t.Errorf("%d: %s", resp.status, resp.body)
				}
				got = append(got, fmt.Sprintf("%d %s %s", resp.status, resp.header.Get("X-Final"), resp.header.Get("Retry-After")))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-5": 0, "90": 90 * time.Second, "Sun, 01 Mar 2026 10:00:00 GMT": time.Hour,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q is %s, want %s", value, got, want)
		}
	}
}
