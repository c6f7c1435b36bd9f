package reconcile

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// takeInFeedback has a run at work take in what was said of it, as soon as nothing is at
// work that it would change. The state and the word that it was taken in are stored
// together.
func (r *Reconciler) takeInFeedback(ctx context.Context, row store.Run, d *driver,
	s loop.State) (loop.State, error) {
	if !s.Receptive() {
		return s, nil
	}
	pending, wait, err := r.pendingFeedback(ctx, row, s)
	if err != nil || len(pending) == 0 || wait > 0 {
		return s, err
	}
	h, err := r.readFeedback(ctx, row, s, pending)
	if err != nil {
		return s, err
	}
	if err := r.askPeople(ctx, row, h); err != nil {
		return s, err
	}
	next, err := d.engine.TakeFeedback(ctx, s, h.list)
	if errors.Is(err, loop.ErrNotNow) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	next.FeedbackSeen, next.FeedbackRounds = h.seen, h.rounds
	if err := r.saveHeard(ctx, row.ID, next, h); err != nil {
		return s, err // with next, a later save would store the words without settling them
	}
	return next, nil
}

func (r *Reconciler) saveHeard(ctx context.Context, id run.ID, s loop.State, h digest) error {
	return r.saveWith(ctx, id, s, func(tx *store.Tx) error {
		for _, done := range h.settled {
			if _, err := r.cfg.Store.SettleInput(ctx, tx, done.input.ID, done.state, done.outcome, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// takeUpFeedback begins another run where something was said of the work of one
// that has ended, and keeps what brings no work in the state of that one. wait is
// when to come back.
func (r *Reconciler) takeUpFeedback(ctx context.Context, row store.Run) (wait time.Duration, err error) {
	if row.PullNumber == 0 {
		return 0, nil
	}
	s, err := loop.Decode(row.State)
	if err != nil {
		return 0, err
	}
	pending, wait, err := r.pendingFeedback(ctx, row, s)
	if err != nil || len(pending) == 0 || wait > 0 {
		return wait, err
	}
	h, err := r.readFeedback(ctx, row, s, pending)
	if err != nil {
		return 0, err
	}
	if h.hasWork() {
		begun, err := r.beginForFeedback(ctx, row, s, h)
		if err != nil || begun {
			return 0, err
		}
		// What was said waits for the next run.
		h.postponeWork()
	}
	if err := r.askPeople(ctx, row, h); err != nil {
		return 0, err
	}
	s.Note(h.list)
	s.FeedbackSeen = h.seen
	if err := r.saveHeard(ctx, row.ID, s, h); err != nil {
		return 0, err
	}
	if h.hasQuestions() {
		r.comments.AddState(ctx, r.repoOf(row), row.IssueNumber, publish.LabelNeedsHuman)
	}
	if len(h.list) == 0 || r.cfg.ByJob { // whose state is restored, and lacks what verified the work
		return 0, nil
	}
	// Notifications still work when the driver is incomplete.
	d, _ := r.driver(row)
	_, err = d.engine.Publisher.Show(ctx, s)
	r.retire(ctx, row.ID, d)
	return 0, publish.Tolerate(ctx, "what was said of a run that has ended was not shown", err)
}

// beginForFeedback begins the run that does what was said.
func (r *Reconciler) beginForFeedback(ctx context.Context, row store.Run, s loop.State,
	h digest) (begun bool, err error) {
	repo := r.repoOf(row)
	switch {
	case h.by.ID == 0 && !s.End.Complete():
		return false, nil // bots and checks do not bring work back that stopped short
	case !goesOn(s):
		// A job gives the run that it restores a name of its own.
		return false, r.comments.Comment(ctx, repo, row.PullNumber, "kept:"+cmp.Or(s.Head, string(row.ID)),
			publish.KeptText(s.End))
	}
	by := h.by
	if by.ID == 0 {
		by = handlers.Author{Login: s.Subject.RequestedBy, ID: s.Subject.RequestedByID, Type: "User"}
		may, err := r.authorizer.Permission(ctx, repo, row.RepoNode, by.Login)
		if err != nil || !may.CanWrite {
			return false, err
		}
	}
	outcome, err := r.goOn(ctx, row, s, by)
	if err != nil {
		return false, err
	}
	zerolog.Ctx(ctx).Info().Int("tasks", len(h.list)).Str("outcome", outcome).Msg("feedback on an ended run")
	return outcome == delivery.OutcomeStarted || outcome == delivery.OutcomeRunning, nil
}

func (r *Reconciler) repoOf(row store.Run) *ghapp.Repo {
	return r.cfg.GitHub.Repo(row.Installation, row.RepoOwner, row.RepoName)
}
