package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/run"
)

// stopAnswer is the answer to an agent that asks whether it is to go on.
type stopAnswer struct {
	status   int
	decision map[string]string
}

// askStop has the agent of a start ask; the answer comes when there is one.
func askStop(t *testing.T, url, token, body string) <-chan stopAnswer {
	t.Helper()
	req := request(t, http.MethodPost, url+StopPath, strings.NewReader(body), "Authorization", "Bearer "+token)
	out := make(chan stopAnswer, 1)
	go func() {
		defer close(out)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return // the test has cut it off
		}
		defer func() { _ = resp.Body.Close() }()
		a := stopAnswer{status: resp.StatusCode}
		if b, err := io.ReadAll(resp.Body); err == nil {
			_ = json.Unmarshal(b, &a.decision) // nothing is read of what is no answer
		}
		out <- a
	}()
	return out
}

func TestStopsAnswerAgents(t *testing.T) {
	t.Parallel()
	stops := NewStops()
	tr := try(t, http.NotFoundHandler(), run.ProviderAnthropic, 0, func(c *Config) { c.Stops = stops })
	token := Token([]byte("key"), "r1-1")

	first := askStop(t, tr.url, token, `{"hook_event_name":"Stop","last_assistant_message":"half of it"}`)
	if err := stops.Wait(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	if said, asks := stops.Said("r1-1"); !asks || said != "half of it" {
		t.Errorf("it said %q, %t", said, asks)
	}
	if _, asks := stops.Said("r1-2"); asks {
		t.Error("another agent asks")
	}
	// The first start is over, and with it what it may use; the agent works for the next.
	if err := tr.meter.End(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	if a := <-askStop(t, tr.url, token, `{}`); a.status != http.StatusBadRequest {
		t.Errorf("an agent whose start has ended is answered %+v", a)
	}
	if err := tr.meter.Begin(t.Context(), spend.Start{Name: "r1-2"}); err != nil {
		t.Fatal(err)
	}
	if !stops.GoOn("r1-1", "r1-2", "Do the rest.") {
		t.Fatal("nobody asks")
	}
	if diff := cmp.Diff(map[string]string{"decision": "block", "reason": "Do the rest."}, (<-first).decision); diff != "" {
		t.Error(diff)
	}
	if stops.GoOn("r1-1", "r1-3", "Once more.") {
		t.Error("it is answered twice")
	}

	second := askStop(t, tr.url, token, `{"last_assistant_message":"all of it"}`)
	if err := stops.Wait(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	stops.End("r1-1")
	if a := <-second; a.status != http.StatusOK || len(a.decision) != 0 {
		t.Errorf("an agent that may end is answered %+v", a)
	}
}

func TestStopsRefuseStrangers(t *testing.T) {
	t.Parallel()
	stops := NewStops()
	tr := try(t, http.NotFoundHandler(), run.ProviderAnthropic, 0, func(c *Config) { c.Stops = stops })
	for token, body := range map[string]string{
		"": `{}`, Token([]byte("another key"), "r1-1"): `{}`, Token([]byte("key"), "r2-1"): `{}`,
		Token([]byte("key"), "r1-1"): `no report`,
	} {
		if a := <-askStop(t, tr.url, token, body); a.status != http.StatusBadRequest {
			t.Errorf("token %q with %s is answered %+v", token, body, a)
		}
	}
	if _, asks := stops.Said("r1-1"); asks {
		t.Error("one of them asks")
	}
}
