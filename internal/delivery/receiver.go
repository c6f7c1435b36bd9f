package delivery

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// Waker has a run ticked once tx is committed, or now where tx is nil. *queue.Queue is one.
type Waker interface {
	Wake(tx *store.Tx, id run.ID)
}

// Config is what a Receiver is made of.
type Config struct {
	Store   *store.Store
	Queue   Waker
	GitHub  *ghapp.App
	Decoder handlers.Decoder
	// People says who may use the bot, and how often.
	People config.People
	// AgentName, Model and Limits are those of the runs that are begun.
	AgentName, Model string
	Limits           func(asked run.Limits) run.Limits
	// Mask holds the secrets of this process; nil masks by pattern only.
	Mask *redact.Masker
	// ByJob: this is a job of a workflow, whose store began empty with it. Package action
	// sets it.
	ByJob bool
	// Now is the clock.
	Now func() time.Time
}

// Receiver works accepted webhooks. It is safe for concurrent use.
type Receiver struct {
	Config

	// Authorizer says who may have the bot act, and Comments answers them.
	Authorizer *Authorizer
	Comments   *publish.Commenter
}

// New makes a receiver.
func New(cfg Config) *Receiver {
	return &Receiver{
		Config:     cfg,
		Authorizer: &Authorizer{Store: cfg.Store, People: cfg.People, Now: cfg.Now, ByJob: cfg.ByJob},
		Comments: &publish.Commenter{
			Effects: effects.Runner{Store: cfg.Store, Now: cfg.Now},
			Label:   cfg.Decoder.Label, Mask: cfg.Mask,
		},
	}
}

// What became of a delivery, as the store keeps it.
const (
	outcomeNothing   = "nothing to do"
	outcomeMalformed = "malformed"
	outcomeElsewhere = "the server does not work in this repository"
	OutcomeStarted   = "started a run"
	OutcomeRunning   = "a run is already in progress"
	OutcomeRefused   = "refused"
	outcomeSelf      = "the App's own doing"
	outcomeTooOften  = "too often"
	outcomeEmpty     = "nothing to work on"
	outcomeGone      = "label is gone"
	outcomeClosed    = "the issue is closed"
	outcomeLocked    = "the issue is locked"
	outcomeStopping  = "stopping a run"
	outcomeOutdated  = "not so any more"
	outcomeNoRun     = "no run to stop"
)

// Deliver stores a webhook and works it. The outcome says in a few words what became of
// it.
func (r *Receiver) Deliver(ctx context.Context, d store.Delivery) (outcome string, err error) {
	if err := r.insert(ctx, d); err != nil {
		return "", err
	}
	if err := r.Work(ctx, d.GUID); err != nil {
		return "", err
	}
	done, err := r.Store.Delivery(ctx, d.GUID)
	return done.Outcome, err
}

func (r *Receiver) insert(ctx context.Context, d store.Delivery) error {
	return r.Store.InTx(ctx, func(tx *store.Tx) error {
		_, err := r.Store.InsertDelivery(ctx, tx, d)
		return err
	})
}

// Work works one accepted webhook, by its GUID; it is queue.Handlers.Delivery.
func (r *Receiver) Work(ctx context.Context, guid string) error {
	d, err := r.Store.Delivery(ctx, guid)
	if err != nil {
		return err
	}
	if !d.ProcessedAt.IsZero() {
		return nil
	}
	intent, err := r.Decoder.Decode(d.Event, d.Body)
	if err != nil {
		// Decoding it again would not help.
		zerolog.Ctx(ctx).Warn().Err(err).Str("delivery", guid).Msg("webhook ignored")
		return r.mark(ctx, guid, outcomeMalformed, nil)
	}
	switch in := intent.(type) {
	case handlers.StartIntent:
		return r.workServed(ctx, guid, in.Subject, func() error { return r.start(ctx, d, in) })
	case handlers.StopIntent:
		return r.workServed(ctx, guid, in.Subject, func() error { return r.stopRun(ctx, guid, in) })
	case handlers.EditIntent:
		return r.workServed(ctx, guid, in.Subject, func() error { return r.reportEdit(ctx, guid, in) })
	case handlers.CommandIntent:
		return r.workServed(ctx, guid, in.Subject, func() error { return r.workCommand(ctx, d, in) })
	case handlers.RemarkIntent:
		return r.workServed(ctx, guid, in.Subject, func() error { return r.keepAnswer(ctx, d, in) })
	case handlers.WithdrawIntent:
		return r.workServed(ctx, guid, in.Subject, func() error { return r.withdraw(ctx, guid, in) })
	case handlers.WakeIntent:
		return r.workServed(ctx, guid, in.Subject, func() error { return r.wake(ctx, guid, in) })
	case handlers.FeedbackIntent:
		return r.workServed(ctx, guid, in.Subject, func() error { return r.keepFeedback(ctx, d, in) })
	case handlers.RetryIntent:
		return r.workServed(ctx, guid, in.Subject, func() error { return r.press(ctx, d, in) })
	case handlers.InstallationIntent:
		return r.stopUninstalled(ctx, guid, in)
	case handlers.RenameIntent:
		return r.renameRepo(ctx, guid, in)
	default:
		return r.mark(ctx, guid, outcomeNothing, nil)
	}
}

// workServed works an event of a repository that the operator wants served, and
// leaves any other alone.
func (r *Receiver) workServed(ctx context.Context, guid string, in handlers.Subject, work func() error) error {
	if !r.People.Serves(in.Owner, in.Repo) {
		zerolog.Ctx(ctx).Info().Str("delivery", guid).Str("repo", in.Owner+"/"+in.Repo).
			Int64("installation", in.Installation).Msg("webhook of a repository that is not served")
		return r.mark(ctx, guid, outcomeElsewhere, nil)
	}
	return work()
}

// mark records what became of the delivery, together with what f writes.
func (r *Receiver) mark(ctx context.Context, guid, outcome string, f func(tx *store.Tx) error) error {
	return r.Store.InTx(ctx, func(tx *store.Tx) error {
		if f != nil {
			if err := f(tx); err != nil {
				return err
			}
		}
		return r.Store.MarkDelivery(ctx, tx, guid, outcome, r.Now())
	})
}

func (r *Receiver) repoOf(in handlers.Subject) *ghapp.Repo {
	return r.GitHub.Repo(in.Installation, in.Owner, in.Repo)
}
