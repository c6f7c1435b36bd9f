package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/queue"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// What became of a delivery, as the store keeps it.
const (
	outcomeNothing   = "nothing to do"
	outcomeMalformed = "malformed"
	outcomeStarted   = "started a run"
	outcomeRunning   = "a run is on its way"
	outcomeRefused   = "refused"
	outcomeEmpty     = "nothing to work on"
	outcomeGone      = "label is gone"
	outcomeStopping  = "stopping a run"
	outcomeNoRun     = "no run to stop"
)

// Delivery works one accepted webhook; it is queue.Handlers.Delivery.
func (r *Reconciler) Delivery(ctx context.Context, guid string) error {
	d, err := r.cfg.Store.Delivery(ctx, guid)
	if err != nil {
		return err
	}
	if !d.ProcessedAt.IsZero() {
		return nil
	}
	intent, err := r.cfg.Decoder.Decode(d.Event, d.Body)
	if err != nil {
		// Decoding it again would not help.
		zerolog.Ctx(ctx).Warn().Err(err).Str("delivery", guid).Msg("webhook ignored")
		return r.mark(ctx, guid, outcomeMalformed, nil)
	}
	switch in := intent.(type) {
	case handlers.StartIntent:
		return r.start(ctx, guid, in)
	case handlers.StopIntent:
		return r.stopRun(ctx, guid, in)
	default:
		return r.mark(ctx, guid, outcomeNothing, nil)
	}
}

// mark records what became of the delivery, together with what f writes.
func (r *Reconciler) mark(ctx context.Context, guid, outcome string, f func(tx *sql.Tx) error) error {
	return r.cfg.Store.InTx(ctx, func(tx *sql.Tx) error {
		if f != nil {
			if err := f(tx); err != nil {
				return err
			}
		}
		return r.cfg.Store.MarkDelivery(ctx, tx, guid, outcome, r.cfg.Now())
	})
}

// start makes a run of a labelled issue, or says why not.
func (r *Reconciler) start(ctx context.Context, guid string, in handlers.StartIntent) error {
	if err := r.ending(ctx, in.Subject); err != nil {
		return err
	}
	ctx = ghapp.WithPurpose(ctx, "authorise")
	repo := r.cfg.GitHub.Repo(in.Installation, in.Owner, in.Repo)
	p, err := repo.Permission(ctx, in.SenderLogin)
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
		return err
	}
	if !p.CanWrite {
		return r.refuse(ctx, guid, repo, in.Subject, p)
	}
	asked, err := r.stillAsked(ctx, repo, in.Issue)
	if err != nil {
		return err
	}
	if !asked {
		return r.mark(ctx, guid, outcomeGone, nil)
	}
	issuePlan, err := plan.FromIssue(in.Title, in.Body)
	if errors.Is(err, plan.ErrEmpty) {
		if err := r.say(ctx, repo, in.Issue, "empty:"+guid, publish.EmptyBodyText()); err != nil {
			return err
		}
		return r.mark(ctx, guid, outcomeEmpty, nil)
	}
	if err != nil {
		return err
	}
	now := r.cfg.Now()
	id := host.NewID(now)
	s := loop.NewState(loop.Request{
		Run: id,
		Subject: loop.Subject{
			Key: "issue:" + in.IssueNode, Slug: fmt.Sprint(in.Issue), Name: issuePlan.Title, PlanFile: fmt.Sprintf("issue #%d", in.Issue),
			RequestedBy: in.SenderLogin, RequestedByID: in.SenderID,
		},
		Plan: issuePlan, Limits: r.cfg.Limits(run.Limits{}), Agent: r.cfg.AgentName, Model: r.cfg.Model,
	}, now)
	state, err := loop.Encode(s)
	if err != nil {
		return err
	}
	err = r.mark(ctx, guid, outcomeStarted, func(tx *sql.Tx) error {
		err := r.cfg.Store.CreateRun(ctx, tx, store.Run{
			ID: id, RepoOwner: in.Owner, RepoName: in.Repo, RepoNode: in.RepoNode, Installation: in.Installation,
			IssueNumber: in.Issue, IssueNode: in.IssueNode, Phase: s.Phase, State: state, CreatedAt: now, UpdatedAt: now,
		})
		if err != nil {
			return err
		}
		if err := r.cfg.Queue.EnqueueAdvance(ctx, tx, id); err != nil {
			return err
		}
		return r.cfg.Queue.Wake(ctx, tx, id)
	})
	if errors.Is(err, store.ErrRunActive) {
		if err := r.ending(ctx, in.Subject); err != nil {
			return err
		}
		return r.mark(ctx, guid, outcomeRunning, nil)
	}
	if err == nil {
		zerolog.Ctx(ctx).Info().Str("run", string(id)).Str("repo", repo.FullName()).Int("issue", in.Issue).Str("by", in.SenderLogin).Msg("run queued")
	}
	return err
}

// ending gives queue.ErrBusy where the issue has a run that was asked to stop: a
// label that was put back means a run after that one.
func (r *Reconciler) ending(ctx context.Context, in handlers.Subject) error {
	row, err := r.cfg.Store.ActiveRunByIssue(ctx, in.RepoNode, in.Issue)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !row.CancelRequestedAt.IsZero() {
		return fmt.Errorf("run %s of the issue is being stopped: %w", row.ID, queue.ErrBusy)
	}
	return nil
}

// stillAsked says whether the issue is open with the label on. Deliveries come
// in any order: what took the label off may have been worked already.
func (r *Reconciler) stillAsked(ctx context.Context, repo *ghapp.Repo, number int) (bool, error) {
	issue, err := repo.Issue(ctx, number)
	if errors.Is(err, ghapp.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	labelled := slices.ContainsFunc(issue.Labels, func(name string) bool { return strings.EqualFold(name, r.cfg.Decoder.Label) })
	return issue.State == "open" && labelled, nil
}

// refuse says on the issue why nothing happens, once per person and issue.
func (r *Reconciler) refuse(ctx context.Context, guid string, repo *ghapp.Repo, in handlers.Subject, p ghapp.Permission) error {
	who := fmt.Sprint(in.SenderID)
	// The comment comes first: its key keeps it from being said twice, and a
	// crash in between must not lose it.
	if err := r.say(ctx, repo, in.Issue, "refused:"+who, publish.RefusalText(in.SenderLogin, p.Role)); err != nil {
		return err
	}
	return r.mark(ctx, guid, outcomeRefused, func(tx *sql.Tx) error {
		_, err := r.cfg.Store.Refused(ctx, tx, in.RepoNode, in.Issue, who, "permission: "+p.Role)
		return err
	})
}

// say writes a comment outside of any run, at most once for its occasion.
func (r *Reconciler) say(ctx context.Context, repo *ghapp.Repo, issue int, what, text string) error {
	pub := publish.Publisher{GitHub: repo, Effects: r.effects, Issue: issue, Mask: r.cfg.Mask}
	// Several deliveries may ask for the same word at the same time.
	return r.cfg.Store.Exclusively(ctx, func(ctx context.Context) error {
		_, err := pub.Say(ctx, what, text)
		return err
	})
}

// stopRun asks the issue's run to stop. Whoever may take the label off or close
// the issue may stop the run: stopping costs nobody anything.
func (r *Reconciler) stopRun(ctx context.Context, guid string, in handlers.StopIntent) error {
	row, err := r.cfg.Store.ActiveRunByIssue(ctx, in.RepoNode, in.Issue)
	if errors.Is(err, store.ErrNotFound) {
		return r.mark(ctx, guid, outcomeNoRun, nil)
	}
	if err != nil {
		return err
	}
	why := map[handlers.StopReason]string{
		handlers.StopUnlabeled:   "the label was taken off by ",
		handlers.StopClosed:      "the issue was closed by ",
		handlers.StopDeleted:     "the issue was deleted by ",
		handlers.StopTransferred: "the issue was transferred by ",
	}[in.Reason] + in.SenderLogin
	return r.mark(ctx, guid, outcomeStopping, func(tx *sql.Tx) error {
		if err := r.cfg.Store.RequestCancel(ctx, tx, row.ID, why, r.cfg.Now()); err != nil {
			return err
		}
		return r.cfg.Queue.Wake(ctx, tx, row.ID)
	})
}
