package redelivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const (
	// labelGrace is how long a label's webhook may be on its way.
	labelGrace = 10 * time.Minute
	// maxSwept bounds the runs that one sweep begins: whoever comes back after a
	// week has not asked for a hundred at once.
	maxSwept = 5
)

// Sweep takes up labels whose webhook never came: GitHub does not send
// what is too large, keeps what failed for three days, and an App may have been
// without a webhook for a while. A label counts as if its webhook had come, if
// nothing has happened on the issue since; otherwise the text may be another than
// the one that was approved, and the person is asked to put the label on again.
func (s *Sweeper) Sweep(ctx context.Context) error {
	if known, err := s.Store.HasDeliveries(ctx); err != nil || !known {
		return err
	}
	installations, err := s.GitHub.Installations(ctx)
	if err != nil {
		return fmt.Errorf("look for labelled issues: %w", err)
	}
	var errs []error
	begun := 0
	for _, in := range installations {
		if in.Suspended {
			continue
		}
		repos, err := s.GitHub.Repositories(ctx, in.ID)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, repo := range repos {
			if repo.Idle || !s.Serves(repo.Owner, repo.Name) {
				continue
			}
			errs = append(errs, s.sweepRepository(ctx, in.ID, repo, &begun))
		}
	}
	return errors.Join(errs...)
}

func (s *Sweeper) sweepRepository(ctx context.Context, installation int64, in ghapp.Repository, begun *int) error {
	ctx = ghapp.WithPurpose(ctx, "missed")
	repo := s.GitHub.Repo(installation, in.Owner, in.Name)
	issues, err := repo.Labelled(ctx, s.Label)
	if err != nil {
		return err
	}
	var errs []error
	for _, issue := range issues {
		errs = append(errs, s.sweepIssue(ctx, installation, in, repo, issue, begun))
	}
	return errors.Join(errs...)
}

// sweepIssue takes up the label of one issue, if it was missed.
func (s *Sweeper) sweepIssue(ctx context.Context, installation int64, in ghapp.Repository, repo *ghapp.Repo,
	issue ghapp.LabelledIssue, begun *int) error {
	l, missed, err := s.findMissed(ctx, in, repo, issue)
	if err != nil || !missed {
		return err
	}
	if !l.asIs || *begun >= maxSwept {
		return s.Comments.Comment(ctx, repo, issue.Number, fmt.Sprintf("missed:%s:%d", issue.NodeID, l.at.Unix()),
			publish.MissedLabelText(s.Label))
	}
	*begun++
	d, err := s.deliveryOf(installation, in, issue, l)
	if err != nil {
		return err
	}
	zerolog.Ctx(ctx).Info().Str("repo", in.Owner+"/"+in.Name).Int("issue", issue.Number).
		Msg("took up a label that was missed")
	_, err = s.Deliver(ctx, d)
	return err
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
func (s *Sweeper) findMissed(ctx context.Context, in ghapp.Repository, repo *ghapp.Repo,
	issue ghapp.LabelledIssue) (l putOn, missed bool, err error) {
	if issue.Locked || len(publish.StateLabels(s.Label, issue.Labels)) > 0 {
		return l, false, nil
	}
	latest, err := s.Store.LatestRunByIssue(ctx, in.NodeID, issue.Number)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return l, false, err
	}
	if err == nil && !latest.Phase.Terminal() {
		return l, false, nil
	}
	by, at, err := repo.LabelledBy(ctx, issue.Number, s.Label)
	if errors.Is(err, ghapp.ErrNotFound) {
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	if at.After(s.Now().Add(-labelGrace)) || !latest.CreatedAt.Before(at) {
		return l, false, nil
	}
	known, err := s.Store.LabelDelivered(ctx, issue.NodeID, s.Label, at)
	if err != nil || known {
		return l, false, err
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
func (s *Sweeper) SweepRepository(ctx context.Context, installation int64, owner, name string, only int,
	take Take) (outcome string, err error) {
	ctx = ghapp.WithPurpose(ctx, "missed")
	repo := s.GitHub.Repo(installation, owner, name)
	info, err := repo.Info(ctx)
	if err != nil {
		return "", err
	}
	in := ghapp.Repository{Owner: owner, Name: name, NodeID: info.NodeID, DefaultBranch: info.DefaultBranch,
		Private: info.Private}
	issues, err := repo.Labelled(ctx, s.Label)
	if err != nil {
		return "", err
	}
	outcome = "no issue waits that has the label"
	for _, issue := range issues {
		if only != 0 && issue.Number != only {
			continue
		}
		l, missed, err := s.findMissed(ctx, in, repo, issue)
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
		d, err := s.deliveryOf(installation, in, issue, l)
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
func (s *Sweeper) deliveryOf(installation int64, in ghapp.Repository, issue ghapp.LabelledIssue,
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
		"label": map[string]any{"name": s.Label},
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
		Installation: installation, RepoNode: in.NodeID, Body: body, ReceivedAt: s.Now(),
	}, nil
}
