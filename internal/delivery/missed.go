package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/run"
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
	// grace is how long a webhook may be on its way.
	grace = 10 * time.Minute
)

// Redeliver asks GitHub for the webhooks that the store does not have: those that could not be
// delivered, and where the store is an older copy of itself those since. It is not for
// concurrent use. A server that begins with an empty store has missed nothing.
func (r *Receiver) Redeliver(ctx context.Context) error {
	since, err := r.Store.Since(ctx)
	if err != nil || since.IsZero() {
		return err
	}
	if kept := r.Now().Add(-keptFor); kept.After(since) {
		since = kept
	}
	attempts, err := r.GitHub.Attempts(ctx, since.Truncate(time.Second)) // GitHub tells whole seconds
	if err != nil {
		return fmt.Errorf("look for missed webhooks: %w", err)
	}
	tries := map[string]int{}
	for _, a := range attempts {
		tries[a.GUID]++
	}
	asked := 0
	for _, a := range attempts { // the newest attempt at each comes first
		if tries[a.GUID] >= maxAttempts || !handlers.Handles(a.Event, a.Action) {
			continue
		}
		tries[a.GUID] = maxAttempts // asked for, or here already
		if _, err := r.Store.Delivery(ctx, a.GUID); err == nil {
			continue
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := r.GitHub.Redeliver(ctx, a.ID); err != nil {
			return fmt.Errorf("fetch a missed webhook: %w", err)
		}
		if asked++; asked == maxRedeliveries {
			break
		}
	}
	if asked > 0 {
		zerolog.Ctx(ctx).Info().Int("webhooks", asked).Msg("asked GitHub for what did not arrive")
	}
	return nil
}

// lookRecord is what a look for what became of a webhook has found: it was worked before.
type lookRecord struct {
	Past bool `json:"past"`
}

// recall marks a webhook that was worked before, as done finds on GitHub. It looks where one comes so
// late that the store may be an older copy of itself; what is older than the store remembers was not
// sent by GitHub. A job has no memory, and may have waited for long.
func (r *Receiver) recall(ctx context.Context, d store.Delivery, in handlers.Subject,
	done func(ctx context.Context, repo *ghapp.Repo) (bool, error)) (past bool, err error) {
	age := d.ReceivedAt.Sub(in.At)
	switch {
	case r.ByJob || age <= grace:
		return false, nil
	case age > store.KeepDeliveries:
		return true, r.mark(ctx, d.GUID, outcomeOutdated, nil)
	}
	look := func(ctx context.Context) (found lookRecord, err error) {
		found.Past, err = done(ghapp.WithPurpose(ctx, "missed"), r.repoOf(in))
		if errors.Is(err, ghapp.ErrNotFound) {
			err = nil
		}
		return found, err
	}
	// What it finds is kept: what is done about the webhook next would be found if that is repeated.
	found, err := effects.Do(ctx, r.Comments.Effects, effects.Look(d.GUID), nil,
		func(ctx context.Context) (lookRecord, bool, error) {
			found, err := look(ctx)
			return found, err == nil, err
		}, look)
	if err != nil || !found.Past {
		return false, err
	}
	zerolog.Ctx(ctx).Warn().Str("delivery", d.GUID).Str("repo", in.Owner+"/"+in.Repo).Int("number", max(in.Issue, in.Pull)).
		Msg("a webhook came late and was worked before, as GitHub shows; asking again on GitHub starts it")
	return true, r.mark(ctx, d.GUID, outcomeSeen, nil)
}

// isWorked says whether GitHub shows a run of an issue that the store does not know: our reaction, or
// a commit at the head of the issue's branch.
func (r *Receiver) isWorked(ctx context.Context, repo *ghapp.Repo, in handlers.Subject) (bool, error) {
	_, err := r.Store.LatestRunByIssue(ctx, in.RepoNode, in.Issue)
	if errors.Is(err, store.ErrNotFound) {
		var seen bool
		if seen, err = repo.Reacted(ctx, in.Issue, ghapp.ReactionSeen); seen {
			return true, nil
		}
	}
	if err != nil {
		return false, err
	}
	ref, err := repo.Branch(ctx, run.Branch(in.Issue))
	if err != nil {
		return false, err
	}
	head, err := repo.Commit(ctx, ref.OID)
	if err != nil {
		return false, err
	}
	made, ok := publish.RecordOf(head.Message)
	if ours, err := repo.Ours(ctx, head.Author); err != nil || !ok || !ours || !head.Verified {
		return false, err
	}
	_, err = r.Store.Run(ctx, made.Run)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// isListed says whether the pull request lists what was said as work that was taken up.
func isListed(ctx context.Context, repo *ghapp.Repo, in handlers.FeedbackIntent) (bool, error) {
	pr, err := repo.PR(ctx, in.Pull)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(publish.SaidIn(pr.Body), func(s publish.Said) bool {
		return in.Kind == store.InputReview && s.Review == in.SourceID ||
			in.Kind == store.InputReviewComment && s.Comment == in.SourceID
	}), nil
}
