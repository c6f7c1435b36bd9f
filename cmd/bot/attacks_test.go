package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/handlers"
)

// send posts a signed webhook and gives the status of the answer.
func (st *stage) send(event, guid string, payload map[string]any) (status int) {
	st.t.Helper()
	body, err := json.Marshal(payload)
	if err != nil {
		st.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(st.t.Context(), http.MethodPost, st.hookURL+handlers.DefaultPath,
		bytes.NewReader(body))
	if err != nil {
		st.t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "X-GitHub-Event": event, "X-GitHub-Delivery": guid,
		"X-Hub-Signature-256": ghsim.Sign(st.app.WebhookSecret, body),
	} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		st.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
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
