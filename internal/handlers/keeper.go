package handlers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/palantir/go-githubapp/githubapp"

	"github.com/org/ralph-action/internal/store"
)

// keeper puts deliveries into the store instead of handling them on the spot.
// It is the dispatcher's scheduler, and its only handler, so that events
// nobody decodes do not get as far as the scheduler.
type keeper struct {
	inbox  inbox
	queue  enqueuer
	now    func() time.Time
	writes *batcher[store.Delivery]
}

func newKeeper(inbox inbox, queue enqueuer, now func() time.Time) *keeper {
	k := &keeper{inbox: inbox, queue: queue, now: now}
	k.writes = newBatcher(k.store)
	return k
}

var (
	_ githubapp.Scheduler    = (*keeper)(nil)
	_ githubapp.EventHandler = (*keeper)(nil)
)

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
func (k *keeper) Handles() []string { return eventNames() }

// Handle implements githubapp.EventHandler. It is never called: Schedule, which
// would call it, has the worker do the handling.
func (k *keeper) Handle(context.Context, string, string, []byte) error {
	return errors.New("webhook handler: deliveries are handled by the worker")
}

// Schedule implements githubapp.Scheduler: it returns nil once the delivery and
// its job are on disk.
func (k *keeper) Schedule(ctx context.Context, d githubapp.Dispatch) error {
	if nestsTooDeep(d.Payload) {
		return &badPayloadError{http.StatusRequestEntityTooLarge, "the payload nests deeper than GitHub's do"}
	}
	var env envelope
	if err := json.Unmarshal(d.Payload, &env); err != nil {
		return &badPayloadError{http.StatusBadRequest, "the payload is not valid JSON"}
	}
	if !Handles(d.EventType, env.Action) {
		return nil
	}
	delivery := store.Delivery{
		GUID:         d.DeliveryID,
		Event:        d.EventType,
		Action:       env.Action,
		Installation: env.Installation.ID,
		RepoNode:     env.Repository.NodeID,
		Body:         d.Payload,
		Digest:       digest(d.EventType, d.Payload),
		ReceivedAt:   k.now(),
	}
	if err := k.writes.write(ctx, delivery); err != nil {
		return fmt.Errorf("store delivery %s: %w", d.DeliveryID, err)
	}
	return nil
}

// digest is what keeps a body from counting twice, nil where it may. The GUID and the
// event's name are headers, which GitHub does not sign: whoever has seen a webhook
// could send it again under others. Bodies that start anything bear a time of change,
// an id of what is new, or the state of a check that a second request finds changed,
// so that honest ones differ; they are remembered for good. An App that loses its
// access twice may be told so in the same words, and must hear it.
func digest(event string, body []byte) []byte {
	if event == "repository" || strings.HasPrefix(event, "installation") {
		return nil
	}
	sum := sha256.Sum256(body)
	return sum[:]
}

// store writes deliveries and their jobs in one transaction.
func (k *keeper) store(ctx context.Context, deliveries []store.Delivery) error {
	return k.inbox.InTx(ctx, func(tx *store.Tx) error {
		for _, d := range deliveries {
			fresh, err := k.inbox.InsertDelivery(ctx, tx, d)
			if err != nil {
				return err
			}
			if !fresh {
				continue // accepted before, and its job with it
			}
			if err := k.queue.EnqueueDelivery(ctx, tx, d.GUID); err != nil {
				return err
			}
		}
		return nil
	})
}
