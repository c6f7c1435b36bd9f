package delivery

import (
	"context"
	"encoding/json"
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

// putOn says who put a label on, and when. asIs: they are known, and nothing has
// happened on the issue since.
type putOn struct {
	by   ghapp.Person
	at   time.Time
	asIs bool
}

// findMissed looks whether the label of an issue was missed: nobody has begun
// work, and it is on for longer than its webhook takes.
func (r *Receiver) findMissed(ctx context.Context, repo *ghapp.Repo,
	issue ghapp.LabelledIssue) (l putOn, missed bool, err error) {
	if issue.Locked || len(publish.StateLabels(r.Decoder.Label, issue.Labels)) > 0 {
		return l, false, nil
	}
	by, at, err := repo.LabelledBy(ctx, issue.Number, r.Decoder.Label)
	if errors.Is(err, ghapp.ErrNotFound) {
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	if at.After(r.Now().Add(-grace)) {
		return l, false, nil
	}
	switch _, err := repo.Branch(ctx, run.Branch(issue.Number)); {
	case err == nil:
		return l, false, nil // work is there already: a person says whether to go on
	case !errors.Is(err, ghapp.ErrNotFound):
		return l, false, err
	}
	// GitHub tells whole seconds: what happens within the label's own counts as
	// before it.
	return putOn{by: by, at: at, asIs: by.ID != 0 && !issue.UpdatedAt.After(at)}, true, nil
}

// Take deals with a webhook that was missed. The outcome says in a few words what came of
// it, enough that no other is wanted.
type Take func(ctx context.Context, d store.Delivery) (outcome string, enough bool, err error)

// SweepRepository has take deal with the labels that were missed in one repository, the
// oldest issue first, until it says that this is enough. only is an issue, 0 for any.
// The outcome says in a few words what came of the last.
//
// It is for a job, which has no memory. So it leaves alone what another may be at work
// on, which says so by a reaction long before there is a branch; and it asks nobody to
// put the label on again, which it would do each time.
func (r *Receiver) SweepRepository(ctx context.Context, installation int64, owner, name string, only int,
	take Take) (outcome string, err error) {
	ctx = ghapp.WithPurpose(ctx, "missed")
	repo := r.GitHub.Repo(installation, owner, name)
	info, err := repo.Info(ctx)
	if err != nil {
		return "", err
	}
	in := ghapp.Repository{Owner: owner, Name: name, NodeID: info.NodeID, DefaultBranch: info.DefaultBranch,
		Private: info.Private}
	issues, err := repo.Labelled(ctx, r.Decoder.Label)
	if err != nil {
		return "", err
	}
	outcome = "no issue waits that has the label"
	for _, issue := range issues {
		if only != 0 && issue.Number != only {
			continue
		}
		l, missed, err := r.findMissed(ctx, repo, issue)
		if err != nil {
			return "", err
		}
		if !missed {
			continue
		}
		heard, err := repo.Reacted(ctx, issue.Number, ghapp.ReactionSeen)
		if err != nil {
			return "", err
		}
		if heard || !l.asIs {
			zerolog.Ctx(ctx).Warn().Int("issue", issue.Number).
				Msg("left alone: somebody is at work on it, or something happened on it since the label; putting the " +
					"label on again starts it")
			continue
		}
		zerolog.Ctx(ctx).Info().Str("repo", in.Owner+"/"+in.Name).Int("issue", issue.Number).
			Msg("took up a label that was missed")
		d, err := r.deliveryOf(installation, in, issue, l)
		if err != nil {
			return "", err
		}
		var enough bool
		if outcome, enough, err = take(ctx, d); err != nil || enough {
			return outcome, err
		}
	}
	return outcome, nil
}

// deliveryOf is the webhook that GitHub would have sent.
func (r *Receiver) deliveryOf(installation int64, in ghapp.Repository, issue ghapp.LabelledIssue,
	l putOn) (store.Delivery, error) {
	user := func(p ghapp.Person) map[string]any {
		return map[string]any{"login": p.Login, "id": p.ID, "type": p.Type}
	}
	var labels []map[string]any
	for _, l := range issue.Labels {
		labels = append(labels, map[string]any{"name": l})
	}
	body, err := json.Marshal(map[string]any{
		"action": "labeled", "sender": user(l.by), "installation": map[string]any{"id": installation},
		"label": map[string]any{"name": r.Decoder.Label},
		"issue": map[string]any{
			"number": issue.Number, "node_id": issue.NodeID, "title": issue.Title, "body": issue.Body,
			"state": issue.State, "html_url": issue.URL,
			"user": user(issue.Author), "labels": labels, "updated_at": issue.UpdatedAt,
		},
		"repository": map[string]any{
			"node_id": in.NodeID, "name": in.Name, "private": in.Private, "default_branch": in.DefaultBranch,
			"owner": map[string]any{"login": in.Owner},
		},
	})
	if err != nil {
		return store.Delivery{}, fmt.Errorf("take up a missed label: %w", err)
	}
	return store.Delivery{
		GUID: fmt.Sprintf("sweep:%s:%d", issue.NodeID, l.at.Unix()), Event: "issues", Action: "labeled",
		Installation: installation, RepoNode: in.NodeID, Body: body, ReceivedAt: r.Now(),
	}, nil
}
