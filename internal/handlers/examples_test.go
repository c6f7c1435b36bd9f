package handlers_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/handlers"
)

// example is one webhook as GitHub documents it.
type example struct {
	event   string
	payload map[string]any
}

// examples are those that GitHub publishes, or, where RALPH_WEBHOOK_EXAMPLES
// does not name them, the few that are kept here.
func examples(t testing.TB) (all []example) {
	t.Helper()
	path := os.Getenv("RALPH_WEBHOOK_EXAMPLES")
	if path == "" {
		files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatal("no payloads", err)
		}
		for _, file := range files {
			event, _, _ := strings.Cut(filepath.Base(file), ".")
			var p map[string]any
			if err := json.Unmarshal(payload(t, strings.TrimSuffix(filepath.Base(file), ".json"), nil), &p); err != nil {
				t.Fatal(err)
			}
			all = append(all, example{event, p})
		}
		return all
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var docs []struct {
		Name     string           `json:"name"`
		Examples []map[string]any `json:"examples"`
	}
	if err := json.Unmarshal(raw, &docs); err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		for _, p := range d.Examples {
			all = append(all, example{d.Name, p})
		}
	}
	if len(all) < 300 {
		t.Fatalf("only %d examples", len(all))
	}
	return all
}

// TestEveryExampleIsTakenIn: each webhook that GitHub shows, signed with either
// secret, is accepted; and what is stored of them can be read.
func TestEveryExampleIsTakenIn(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	d := handlers.Decoder{Label: "bug", App: 29310}
	intents, stored := map[string]int{}, 0
	for i, e := range examples(t) {
		if e.payload["installation"] == nil {
			e.payload["installation"] = map[string]any{"id": 11} // an App always has one
		}
		body, err := json.Marshal(e.payload)
		if err != nil {
			t.Fatal(err)
		}
		guid := fmt.Sprint("example-", i)
		req := delivery(e.event, guid, body)
		if i%2 == 1 {
			req = req.with("X-Hub-Signature-256", sign(sha256.New, "sha256", oldSecret, body))
		}
		if status := send(t, s.url, req); status != http.StatusAccepted {
			t.Errorf("%s %v: status %d", e.event, e.payload["action"], status)
		}
		intent, err := d.Decode(e.event, body)
		if err != nil {
			t.Errorf("%s %v: %v", e.event, e.payload["action"], err)
		}
		intents[fmt.Sprintf("%T", intent)]++
		if _, err := s.store.Delivery(t.Context(), guid); err == nil {
			stored++
		} else if intent != nil {
			t.Errorf("%s %v asks for %T, and was not stored", e.event, e.payload["action"], intent)
		}
	}
	t.Logf("%d stored: %v", stored, intents)
	if stored == 0 || intents["handlers.StartIntent"] == 0 {
		t.Errorf("%d stored: %v", stored, intents)
	}
}
