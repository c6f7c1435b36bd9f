package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
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

// post delivers an event that the simulated GitHub does not cause, signed as
// GitHub would.
func (st *stage) post(s *serving, event, guid string, payload map[string]any) {
	st.t.Helper()
	if status := st.send(event, guid, payload); status != http.StatusAccepted {
		st.t.Fatalf("%s: status %d", event, status)
	}
	st.await(event+" to be dealt with", func() bool {
		d, err := s.store.Delivery(st.t.Context(), guid)
		return errors.Is(err, store.ErrNotFound) || err == nil && !d.ProcessedAt.IsZero()
	})
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

// TestA4AcceptedButNotBegun: the process dies after the 202 and before the run.
func TestA4AcceptedButNotBegun(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	hold := make(chan struct{})
	if err := st.sim.Inject(ghsim.Fault{Method: "GET", Match: "/collaborators/ada/permission$", Hold: hold}); err != nil {
		t.Fatal(err)
	}
	first := st.serve()
	issue := st.label("Say hello", threeTasks)
	if err := st.sim.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.stop()
	close(hold)
	second := st.serve()
	for _, d := range st.sim.AllDeliveries() { // GitHub's operator sends it again
		if err := st.sim.Redeliver(st.app.ID, d.ID); err != nil {
			t.Fatal(err)
		}
	}
	if state := st.ended(second.store, issue); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(second)
	if n := st.runs(second, issue.Number); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// TestA7RenamedRepositoryKeepsItsRun, which goes on under the new name.
func TestA7RenamedRepositoryKeepsItsRun(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	first, err := s.store.ActiveRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.sim.RenameRepo(person, repoOf, person, "gadgets"); err != nil {
		t.Fatal(err)
	}
	p := st.event("issues")
	p["action"] = "renamed"
	repository, ok := p["repository"].(map[string]any)
	if !ok {
		t.Fatalf("repository is %T", p["repository"])
	}
	repository["name"], repository["full_name"] = "gadgets", person+"/gadgets"
	delete(p, "issue")
	st.post(s, "repository", "renamed-1", p)
	if _, err := st.sim.Comment(person, "gadgets", issue.Number, person, "/ralph skip T2"); err != nil {
		t.Fatal(err)
	}
	st.agentAt(s, "T3")
	row, err := s.store.Run(t.Context(), first.ID)
	if err != nil || row.RepoName != "gadgets" || row.Phase.Terminal() {
		t.Errorf("%+v, %v", row, err)
	}
	if _, err := st.sim.Comment(person, "gadgets", issue.Number, person, "/ralph stop"); err != nil {
		t.Fatal(err)
	}
	if state := st.ended(s.store, issue); state.End != run.EndCancelled {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
}

// TestMissedWebhooksAreFetched: what GitHub could not deliver while the server
// was away is asked for at its next start.
func TestMissedWebhooksAreFetched(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	first := st.serve()
	one := st.label("Say one", "- [ ] Write one\n")
	if state := st.ended(first.store, one); state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(first)
	first.stop()
	two := st.label("Say two", "- [ ] Write two\n") // nobody listens
	if err := st.sim.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := st.serve()
	st.await("a run of the second issue", func() bool { return st.runs(second, two.Number) == 1 })
	if state := st.ended(second.store, two); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(second)
	if st.runs(second, one.Number) != 1 || st.runs(second, two.Number) != 1 {
		t.Errorf("%d and %d runs", st.runs(second, one.Number), st.runs(second, two.Number))
	}
	again := 0
	for _, d := range st.sim.AllDeliveries() {
		if d.Redelivery {
			again++
			if d.Event == "issues" && d.Action == "opened" {
				t.Errorf("%s %s was asked for and is of no use", d.Event, d.Action)
			}
		}
	}
	if again == 0 {
		t.Error("nothing was delivered again")
	}
}
