package redelivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/store"
)

const (
	// keptFor is how long GitHub keeps what it could not deliver.
	keptFor = 72 * time.Hour
	// maxRedeliveries bounds what one look asks for.
	maxRedeliveries = 50
	// maxAttempts is how often one event is asked for: what was refused as often
	// is not going to be taken.
	maxAttempts = 4
	// lostBefore is for how long before the database was found to be a copy of an earlier moment
	// webhooks may have arrived that it does not have.
	lostBefore = time.Hour
)

// Sweeper finds webhooks that did not arrive. CatchUp is not for concurrent use.
type Sweeper struct {
	Store  *store.Store
	GitHub *ghapp.App
	// Label starts runs.
	Label string
	// Deliver stores a webhook and works it; the outcome says in a few words what became
	// of it.
	Deliver  func(ctx context.Context, d store.Delivery) (outcome string, err error)
	Comments *publish.Commenter
	// Serves says whether the server works in a repository.
	Serves func(owner, repo string) bool
	// Now is the clock.
	Now func() time.Time

	// swept: labels were looked for.
	swept bool
}

// CatchUp has GitHub deliver again what did not arrive. The first look after a start that asks for
// no label also takes up labels of which no webhook was ever sent. A label that was just asked for
// is not among those: it is on its way, and is left to the next look.
func (s *Sweeper) CatchUp(ctx context.Context) error {
	labels, err := s.Redeliver(ctx)
	if err != nil || labels > 0 || s.swept {
		return err
	}
	if err := s.Sweep(ctx); err != nil {
		return err
	}
	s.swept = true
	return nil
}

// Redeliver asks GitHub for the webhooks that it could not deliver. labels are those that tell of
// a label and may still come, whether they were asked for now or are to be.
func (s *Sweeper) Redeliver(ctx context.Context) (labels int, err error) {
	if known, err := s.Store.HasDeliveries(ctx); err != nil || !known {
		return 0, err
	}
	attempts, err := s.GitHub.Attempts(ctx, s.Now().Add(-keptFor))
	if err != nil {
		return 0, fmt.Errorf("look for missed webhooks: %w", err)
	}
	restored, err := s.Store.LastRestore(ctx)
	if err != nil {
		return 0, err
	}
	arrived, tries := map[string]bool{}, map[string]int{}
	for _, a := range attempts {
		// What came just before may be lost; the store tells.
		lost := !restored.IsZero() && a.At.Before(restored) && restored.Sub(a.At) < lostBefore
		arrived[a.GUID] = arrived[a.GUID] || a.Arrived && !lost
		tries[a.GUID]++
	}
	asked := 0
	for _, a := range attempts { // the newest attempt at each comes first
		if arrived[a.GUID] || tries[a.GUID] >= maxAttempts || !handlers.Handles(a.Event, a.Action) {
			continue
		}
		arrived[a.GUID] = true // asked for, or here already
		if _, err := s.Store.Delivery(ctx, a.GUID); err == nil {
			continue
		} else if !errors.Is(err, store.ErrNotFound) {
			return labels, err
		}
		if a.Event == "issues" && a.Action == "labeled" {
			labels++
		}
		if asked == maxRedeliveries {
			continue
		}
		if err := s.GitHub.Redeliver(ctx, a.ID); err != nil {
			return labels, fmt.Errorf("fetch a missed webhook: %w", err)
		}
		asked++
	}
	if asked > 0 {
		zerolog.Ctx(ctx).Info().Int("webhooks", asked).Msg("asked GitHub for what did not arrive")
	}
	return labels, nil
}
