package handlers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/org/ralph-action/internal/store"
)

// keeper is the dispatcher's only handler: it puts deliveries into the store in place of
// handling them on the spot.
type keeper Config

// badPayloadError is a genuine request whose payload is of no use.
type badPayloadError struct {
	status int
	reason string
}

// Error implements error.
func (e *badPayloadError) Error() string { return e.reason }

// envelope is what the ingress wants to know of any payload.
type envelope struct {
	Action       string `json:"action"`
	Installation struct {
		ID int64 `json:"id"`
	} `json:"installation"`
	Repository struct {
		NodeID string `json:"node_id"`
	} `json:"repository"`
}

// Handles implements githubapp.EventHandler.
func (k keeper) Handles() []string { return eventNames() }

// Handle implements githubapp.EventHandler: it returns nil once the delivery is on disk.
func (k keeper) Handle(ctx context.Context, event, guid string, payload []byte) error {
	if nestsTooDeep(payload) {
		return &badPayloadError{http.StatusRequestEntityTooLarge, "the payload nests deeper than GitHub's do"}
	}
	var env envelope
	if err := json.Unmarshal(payload, &env); err != nil {
		return &badPayloadError{http.StatusBadRequest, "the payload is not valid JSON"}
	}
	if !Handles(event, env.Action) {
		return nil
	}
	err := k.Keep(ctx, store.Delivery{
		GUID:         guid,
		Event:        event,
		Action:       env.Action,
		Installation: env.Installation.ID,
		RepoNode:     env.Repository.NodeID,
		Body:         payload,
		Digest:       digest(event, payload),
		ReceivedAt:   k.Now(),
	})
	if err != nil {
		return fmt.Errorf("store delivery %s: %w", guid, err)
	}
	return nil
}

// digest is what keeps a body from counting twice, nil where it may. The GUID and the
// event's name are headers, which GitHub does not sign: whoever has seen a webhook
// could send it again under others. Bodies that start anything bear a time of change,
// an id of what is new, or the state of a check that a second request finds changed,
// so that honest ones differ. They are remembered for store.KeepDeliveries, and what asks for work and
// is older than that is not worked. An App that loses its
// access twice may be told so in the same words, and must hear it.
func digest(event string, body []byte) []byte {
	if event == "repository" || strings.HasPrefix(event, "installation") {
		return nil
	}
	sum := sha256.Sum256(body)
	return sum[:]
}
