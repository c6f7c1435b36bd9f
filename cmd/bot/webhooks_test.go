//go:build load

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/store"
)

// TestWebhooksComeFast: webhooks come at 500 and then at 1,000 a second, whether or not
// those before are answered. Each is accepted and dealt with, or refused with 503 and not
// kept, for a minute each, with bounds on the time of the answers.
func TestWebhooksComeFast(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{})
	const lasts = time.Minute
	s := st.serveLogging(zerolog.Nop())
	st.processed(s)
	st.newIssue(person, "Say hello", "now")
	st.processed(s)
	payload := st.event("issues")
	payload["action"] = "closed" // stops the runs of the issue, which are looked for
	for _, c := range []struct {
		rate      int
		p99, most time.Duration
	}{{500, 100 * time.Millisecond, 5 * time.Second}, {1000, 5 * time.Second, 5 * time.Second}} {
		answers := st.flood(payload, c.rate, lasts)
		begin := time.Now()
		st.processed(s)
		var took []time.Duration
		refused := 0
		for guid, a := range answers {
			took = append(took, a.took)
			d, err := s.store.Delivery(t.Context(), guid)
			switch {
			case a.status == http.StatusAccepted && (err != nil || d.ProcessedAt.IsZero()):
				t.Errorf("%s was accepted and not dealt with: %v", guid, err)
			case a.status == http.StatusServiceUnavailable && !errors.Is(err, store.ErrNotFound):
				t.Errorf("%s was refused and kept: %v", guid, err)
			case a.status == http.StatusServiceUnavailable:
				refused++
			case a.status != http.StatusAccepted:
				t.Errorf("%s was answered %d", guid, a.status)
			}
		}
		slices.Sort(took)
		p50, p99, most := took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
		t.Logf("%d/s for %s: p50 %s, p99 %s, longest %s, %d of %d refused; %s later all were dealt with",
			c.rate, lasts, p50, p99, most, refused, len(took), time.Since(begin))
		if p99 > c.p99 || most > c.most {
			t.Errorf("%d/s: p99 %s, longest %s", c.rate, p99, most)
		}
	}
}

// answered is how a webhook was.
type answered struct {
	status int
	took   time.Duration
}

// flood sends webhooks at a rate, each when its time has come.
func (st *stage) flood(payload map[string]any, rate int, lasts time.Duration) map[string]answered {
	st.t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 256}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	answers := map[string]answered{}
	var sending sync.WaitGroup
	begin := time.Now()
	for i := range int(lasts.Seconds() * float64(rate)) {
		due := begin.Add(time.Duration(i) * time.Second / time.Duration(rate))
		<-time.NewTimer(time.Until(due)).C
		guid := fmt.Sprintf("flood-%d-%d", rate, i)
		payload["n"] = guid // a body that came before counts as accepted
		body, err := json.Marshal(payload)
		if err != nil {
			st.t.Fatal(err)
		}
		sending.Go(func() {
			req, err := http.NewRequestWithContext(st.t.Context(), http.MethodPost, st.hookURL+handlers.DefaultPath,
				bytes.NewReader(body))
			if err != nil {
				st.t.Error(err)
				return
			}
			for k, v := range map[string]string{
				"Content-Type": "application/json", "X-GitHub-Event": "issues", "X-GitHub-Delivery": guid,
				"X-Hub-Signature-256": ghsim.Sign(st.app.WebhookSecret, body),
			} {
				req.Header.Set(k, v)
			}
			resp, err := client.Do(req)
			if err != nil {
				st.t.Error(err)
				return
			}
			_ = resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			answers[guid] = answered{resp.StatusCode, time.Since(due)}
		})
	}
	sending.Wait()
	return answers
}

// event is the payload of the last event of a name that the simulated GitHub
// sent, to be changed and sent again.
func (st *stage) event(name string) map[string]any {
	st.t.Helper()
	for _, d := range slices.Backward(st.sim.AllDeliveries()) {
		if d.Event == name {
			var p map[string]any
			if err := json.Unmarshal(d.Payload, &p); err != nil {
				st.t.Fatal(err)
			}
			return p
		}
	}
	st.t.Fatalf("no %s was sent", name)
	return nil
}
