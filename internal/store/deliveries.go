package store

import (
	"context"
	"time"
)

// Delivery is one webhook that GitHub sent and the ingress accepted.
type Delivery struct {
	// GUID is GitHub's X-GitHub-Delivery; a redelivery has the same.
	GUID string
	// Event is X-GitHub-Event, Action the payload's field of that name.
	Event  string
	Action string
	// Installation is the numeric id of the App's installation.
	Installation int64
	// RepoNode is the repository's node id, which survives renames and
	// transfers.
	RepoNode string
	// Body is the JSON payload, byte for byte; nothing is left of it some time after
	// the delivery was dealt with, see Store.Prune.
	Body []byte
	// Digest is that of a body which counts once; nil where it may honestly repeat.
	Digest     []byte
	ReceivedAt time.Time
	// ProcessedAt is zero until the worker has dealt with the delivery.
	ProcessedAt time.Time
	// Outcome says in a few words what became of it.
	Outcome string
}

// InsertDelivery stores d as accepted. fresh is false, and nothing is changed,
// where a delivery with the same GUID or the same digest was accepted before.
func (s *Store) InsertDelivery(ctx context.Context, tx *Tx, d Delivery) (fresh bool, err error) {
	n, err := change(ctx, tx, "insert delivery "+d.GUID, `
		INSERT INTO deliveries (guid, event, action, installation_id, repo_node, body, digest, received_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		d.GUID, d.Event, d.Action, d.Installation, d.RepoNode, blob(d.Body), blob(d.Digest), micros(d.ReceivedAt))
	return n == 1, err
}

// Delivery returns the delivery with this GUID, or ErrNotFound.
func (s *Store) Delivery(ctx context.Context, guid string) (Delivery, error) {
	return one(ctx, s.reader, "delivery "+guid, func(scan func(...any) error) (Delivery, error) {
		d := Delivery{GUID: guid}
		var received, processed int64
		err := scan(&d.Event, &d.Action, &d.Installation, &d.RepoNode, &d.Body, &d.Digest, &received, &processed, &d.Outcome)
		d.Body, d.Digest = filled(d.Body), filled(d.Digest)
		d.ReceivedAt, d.ProcessedAt = fromMicros(received), fromMicros(processed)
		return d, err
	}, `
		SELECT event, action, installation_id, repo_node, body, digest, received_at, processed_at, outcome
		FROM deliveries WHERE guid = ?`, guid)
}

// Since is since when the store knows what happened, as far back as is kept: when it took its
// first webhook or made its first run. The zero time says that it is new.
func (s *Store) Since(ctx context.Context) (time.Time, error) {
	at, err := one(ctx, s.reader, "look for the first webhook", column[int64], `
		SELECT coalesce(min(at), 0) FROM (SELECT min(received_at) AS at FROM deliveries
			UNION ALL SELECT min(created_at) FROM runs)`)
	return fromMicros(at), err
}

// MarkDelivery records that the delivery is dealt with, and how. The first
// outcome stays: a worker that comes late changes nothing.
func (s *Store) MarkDelivery(ctx context.Context, tx *Tx, guid, outcome string, now time.Time) error {
	return changeOne(ctx, tx, "mark delivery "+guid, `
		UPDATE deliveries
		SET outcome      = CASE processed_at WHEN 0 THEN ? ELSE outcome END,
		    processed_at = CASE processed_at WHEN 0 THEN ? ELSE processed_at END
		WHERE guid = ?`, outcome, micros(now), guid)
}

// OldestWaiting is when the oldest delivery was accepted that nobody has dealt with,
// the zero time where none waits.
func (s *Store) OldestWaiting(ctx context.Context) (time.Time, error) {
	at, err := one(ctx, s.reader, "look for waiting deliveries", column[int64],
		`SELECT coalesce(min(received_at), 0) FROM deliveries WHERE processed_at = 0`)
	return fromMicros(at), err
}
