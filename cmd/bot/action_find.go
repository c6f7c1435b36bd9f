package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghaction"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	eventjob "github.com/org/ralph-action/internal/job"
	"github.com/org/ralph-action/internal/reconcile"
	"github.com/org/ralph-action/internal/store"
)

// find says whose queue the event belongs to, for the job after this one, and
// settles what comes from people who may not, or needs no run. It has no agent, no
// sandbox, no git and no key: what strangers write comes no further than here.
func (a *actionStep) find(ctx context.Context, event ghaction.Event) (_ ghaction.Result, err error) {
	if err := a.checkKin(); err != nil {
		return ghaction.Result{}, err
	}
	cfg := a.doorConfig()
	mask := serverMask(cfg, a.in.Secrets()...)
	a.mask = mask.Mask
	ctx = newLogger(config.Log{Level: "warn", Format: "console"}, maskedWriter{a.log, mask}).WithContext(ctx)
	gh, err := ghapp.New(a.gitHub(cfg))
	if err != nil {
		return ghaction.Result{}, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return ghaction.Result{}, fmt.Errorf("make a directory for the job: %w", err)
	}
	db, err := store.Open(ctx, cfg.Database())
	if err != nil {
		return ghaction.Result{}, err
	}
	j := eventjob.New(
		delivery.Config{
			Store: db, GitHub: gh, Decoder: handlers.Decoder{Label: cfg.Label}, People: cfg.People,
			Mask: mask, Now: time.Now,
		},
		reconcile.Config{
			Store: db, GitHub: gh, DataDir: cfg.DataDir, Mask: mask, Now: time.Now,
		},
	)
	defer func() { err = errors.Join(err, j.Close(ctx), db.Close()) }()

	issue, outcome, err := a.found(ctx, j, gh.Repo(ghaction.Installation, a.env.Owner, a.env.Repo), event)
	switch {
	case err != nil:
		return ghaction.Result{}, err
	case issue != 0:
		a.log.Line("a queued job for #%d handles this event", issue)
		return ghaction.Result{End: ghaction.EndQueued, Issue: issue}, nil
	case outcome == delivery.OutcomeRefused:
		return a.refused(event), nil
	default:
		return a.nothing(outcome), nil
	}
}

// found is the issue whose queue the event belongs to, 0 for none.
func (a *actionStep) found(
	ctx context.Context, j *eventjob.Job, repo *ghapp.Repo, event ghaction.Event,
) (issue int, outcome string, err error) {
	events := []ghaction.Event{event}
	switch {
	case a.in.Issue != 0:
		return a.in.Issue, "", nil
	case event.Name == ghaction.Schedule:
		return j.FindWaiting(ctx, ghaction.Installation, a.env.Owner, a.env.Repo)
	case event.Review != 0:
		pr, reviews, own, err := a.readReviews(ctx, repo, event)
		if err != nil {
			return 0, "", err
		}
		if events, err = a.reviewEvents(event, pr, reviews[own]); err != nil {
			return 0, "", err
		}
	}
	// Of a review, each of its comments may have to be answered.
	for i, event := range events {
		n, became, err := j.Find(ctx, deliveryOf(fmt.Sprintf("find-%d", i+1), event))
		if err != nil {
			return 0, "", err
		}
		if n != 0 {
			return n, became, nil
		}
		if i == 0 {
			outcome = became
		}
	}
	return 0, outcome, nil
}
