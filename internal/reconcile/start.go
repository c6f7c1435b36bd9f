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
	outcomeElsewhere = "the server does not work in this repository"
	outcomeStarted   = "started a run"
	outcomeRunning   = "a run is already in progress"
	outcomeRefused   = "refused"
	outcomeSelf      = "the App's own doing"
	outcomeTooOften  = "too often"
	outcomeEmpty     = "nothing to work on"
	outcomeGone      = "label is gone"
	outcomeClosed    = "the issue is closed"
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
		return r.served(ctx, guid, in.Subject, func() error { return r.start(ctx, d, in) })
	case handlers.StopIntent:
		return r.served(ctx, guid, in.Subject, func() error { return r.stopRun(ctx, guid, in) })
	case handlers.EditIntent:
		return r.served(ctx, guid, in.Subject, func() error { return r.edited(ctx, guid, in) })
	case handlers.CommandIntent:
		return r.served(ctx, guid, in.Subject, func() error { return r.command(ctx, d, in) })
	case handlers.RemarkIntent:
		return r.served(ctx, guid, in.Subject, func() error { return r.remark(ctx, d, in) })
	case handlers.WithdrawIntent:
		return r.served(ctx, guid, in.Subject, func() error { return r.withdraw(ctx, guid, in) })
	case handlers.WakeIntent:
		return r.served(ctx, guid, in.Subject, func() error { return r.wake(ctx, guid, in) })
	case handlers.FeedbackIntent:
		return r.served(ctx, guid, in.Subject, func() error { return r.feedback(ctx, d, in) })
	case handlers.ButtonIntent:
		return r.served(ctx, guid, in.Subject, func() error { return r.button(ctx, d, in) })
	case handlers.InstallationIntent:
		return r.installation(ctx, guid, in)
	case handlers.RenameIntent:
		return r.renamed(ctx, guid, in)
	default:
		return r.mark(ctx, guid, outcomeNothing, nil)
	}
}

// served works an event of a repository that the operator wants served, and
// leaves any other alone.
func (r *Reconciler) served(ctx context.Context, guid string, in handlers.Subject, work func() error) error {
	if !r.cfg.People.Serves(in.Owner, in.Repo) {
		zerolog.Ctx(ctx).Info().Str("delivery", guid).Str("repo", in.Owner+"/"+in.Repo).Int64("installation", in.Installation).Msg("webhook of a repository that is not served")
		return r.mark(ctx, guid, outcomeElsewhere, nil)
	}
	return work()
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

func (r *Reconciler) repo(in handlers.Subject) *ghapp.Repo {
	return r.cfg.GitHub.Repo(in.Installation, in.Owner, in.Repo)
}

// start makes a run of a labelled issue, or says why not.
func (r *Reconciler) start(ctx context.Context, d store.Delivery, in handlers.StartIntent) error {
	if err := r.ending(ctx, in.Subject); err != nil {
		return err
	}
	ctx = ghapp.WithPurpose(ctx, "authorise")
	w, admitted, err := r.admit(ctx, d, in)
	if err != nil || !admitted {
		return err
	}
	outcome, err := r.begin(ctx, r.repo(in.Subject), w, func(tx *sql.Tx, _ run.ID) error {
		return r.cfg.Store.MarkDelivery(ctx, tx, d.GUID, outcomeStarted, r.cfg.Now())
	})
	if err != nil || outcome == outcomeStarted {
		return err
	}
	return r.mark(ctx, d.GUID, outcome, nil)
}

// admit gives the run that a label asks for, if whoever put it on may have one
// and there is something to work from. Otherwise it says so on the issue.
func (r *Reconciler) admit(ctx context.Context, d store.Delivery, in handlers.StartIntent) (w wanted, admitted bool, err error) {
	repo := r.repo(in.Subject)
	st, err := r.standing(ctx, repo, d, in.Subject, labelled(in))
	if err != nil {
		return wanted{}, false, err
	}
	if st.why != "" {
		return wanted{}, false, r.refuse(ctx, d.GUID, repo, in, st)
	}
	issuePlan, err := plan.FromIssue(in.Title, in.Body)
	if errors.Is(err, plan.ErrEmpty) {
		if err := r.tell(ctx, repo, in.Issue, "empty:"+d.GUID, publish.EmptyBodyText(r.cfg.Decoder.Label)); err != nil {
			return wanted{}, false, err
		}
		return wanted{}, false, r.mark(ctx, d.GUID, outcomeEmpty, nil)
	}
	if err != nil {
		return wanted{}, false, err
	}
	return wanted{Subject: in.Subject, by: st.as, plan: issuePlan, text: handlers.Text{Title: in.Title, Body: in.Body}, byLabel: true}, true, nil
}

// labelled is whose text a label approves. A person who labels an issue has read
// it, and answers for it; a bot has not.
func labelled(in handlers.StartIntent) handlers.Author {
	if in.SenderType == "Bot" {
		return in.Author
	}
	return handlers.Author{}
}

// wanted is a run that somebody may have.
type wanted struct {
	handlers.Subject

	by   handlers.Author
	plan plan.Plan
	// text is what plan was made of, with a zero title where that was long ago.
	text handlers.Text
	mode run.Mode
	// approved is the hash of an approved plan, approvedBy the login of whoever did
	// that, and progress the progress.md of the run before.
	approved, approvedBy, progress string
	// byLabel: it is wanted for as long as the label is on. Otherwise the label
	// is put on, so that taking it off is a way to stop.
	byLabel bool
}

// begin makes a run and, in the transaction that does, what also is to be
// written. The outcome is outcomeStarted, or says why there is no run. A run that
// is being stopped is queue.ErrBusy: the new one comes after it.
func (r *Reconciler) begin(ctx context.Context, repo *ghapp.Repo, w wanted, also func(tx *sql.Tx, id run.ID) error) (outcome string, err error) {
	if what, err := r.tooManyRuns(ctx, w.RepoNode, w.Issue); err != nil {
		return "", err
	} else if what != "" {
		return outcomeTooOften, r.breaker(ctx, repo, w.Issue, w.Issue, what)
	}
	issue, err := repo.Issue(ghapp.WithPurpose(ctx, "issue"), w.Issue)
	if errors.Is(err, ghapp.ErrNotFound) {
		return outcomeGone, nil
	}
	if err != nil {
		return "", err
	}
	hasLabel := r.hasLabel(issue)
	switch {
	case issue.State != "open" && !w.byLabel:
		return outcomeClosed, nil
	case issue.State != "open", w.byLabel && !hasLabel:
		return outcomeGone, nil
	}
	if err := r.noteEdit(ctx, repo, w, issue); err != nil {
		return "", err
	}
	r.unlabel(ctx, repo, w.Issue, issue.Labels)
	if !w.byLabel && !hasLabel {
		if err := r.soft(ctx, "the label was not put on", repo.AddLabels(ghapp.WithPurpose(ctx, "label"), w.Issue, r.cfg.Decoder.Label)); err != nil {
			return "", err
		}
	}
	id, err := r.create(ctx, w, also)
	if errors.Is(err, store.ErrRunActive) {
		if err := r.ending(ctx, w.Subject); err != nil {
			return "", err
		}
		return outcomeRunning, nil
	}
	if err != nil {
		return "", err
	}
	zerolog.Ctx(ctx).Info().Str("run", string(id)).Str("repo", repo.FullName()).Int("issue", w.Issue).Str("by", w.by.Login).Msg("run queued")
	return outcomeStarted, nil
}

// create stores a run.
func (r *Reconciler) create(ctx context.Context, w wanted, also func(tx *sql.Tx, id run.ID) error) (run.ID, error) {
	now := r.cfg.Now()
	id := host.NewID(now)
	var was loop.State
	pull := 0
	switch last, err := r.cfg.Store.LatestRunByIssue(ctx, w.RepoNode, w.Issue); {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return "", err
	default:
		if was, err = loop.Decode(last.State); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("run", string(last.ID)).Msg("what was said of the run before is not known any more")
		}
		if was.PullRequest == nil || !was.PullRequest.Closed {
			pull = last.PullNumber // what is said there is for this run
		}
	}
	s := loop.NewState(loop.Request{
		Run: id,
		Subject: loop.Subject{
			Key: "issue:" + w.IssueNode, Slug: fmt.Sprint(w.Issue), Name: w.plan.Title, PlanFile: fmt.Sprintf("issue #%d", w.Issue),
			RequestedBy: w.by.Login, RequestedByID: w.by.ID,
		},
		Plan: w.plan, Mode: w.mode, Agent: r.cfg.AgentName,
		Approved: w.approved, ApprovedBy: w.approvedBy, Carried: w.progress,
		Feedback: was.Feedback, FeedbackRounds: was.FeedbackRounds, Earlier: was.Sum(),
		Settings: loop.Settings{Limits: r.cfg.Limits(run.Limits{}), Model: r.cfg.Model},
	}, now)
	s.Branch = was.Branch // what was done is there, however others are called by now
	state, err := loop.Encode(s)
	if err != nil {
		return "", err
	}
	return id, r.cfg.Store.InTx(ctx, func(tx *sql.Tx) error {
		err := r.cfg.Store.CreateRun(ctx, tx, store.Run{
			ID: id, RepoOwner: w.Owner, RepoName: w.Repo, RepoNode: w.RepoNode, Installation: w.Installation,
			IssueNumber: w.Issue, IssueNode: w.IssueNode, PullNumber: pull, Phase: s.Phase, State: state, CreatedAt: now, UpdatedAt: now,
		})
		if err != nil {
			return err
		}
		if also != nil {
			if err := also(tx, id); err != nil {
				return err
			}
		}
		if err := r.cfg.Queue.EnqueueAdvance(ctx, tx, id); err != nil {
			return err
		}
		return r.cfg.Queue.Wake(ctx, tx, id)
	})
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

func (r *Reconciler) hasLabel(issue ghapp.Issue) bool {
	return slices.ContainsFunc(issue.Labels, func(name string) bool { return strings.EqualFold(name, r.cfg.Decoder.Label) })
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
	return issue.State == "open" && r.hasLabel(issue), nil
}

// refuse says on the issue why nothing happens, once per person and issue.
func (r *Reconciler) refuse(ctx context.Context, guid string, repo *ghapp.Repo, in handlers.StartIntent, st standing) error {
	if st.why == refusedSelf {
		return r.mark(ctx, guid, outcomeSelf, nil)
	}
	// The comment comes first: its key keeps it from being said twice, and a
	// crash in between must not lose it.
	if err := r.tell(ctx, repo, in.Issue, r.refusalKey(in.Subject, st), r.refusalText(in.Subject, st, in.Author, false)); err != nil {
		return err
	}
	return r.mark(ctx, guid, outcomeRefused, func(tx *sql.Tx) error {
		_, err := r.cfg.Store.Refused(ctx, tx, in.RepoNode, in.Issue, fmt.Sprint(in.SenderID), string(st.why)+": "+st.role)
		return err
	})
}

// say writes a comment outside of any run, at most once for its occasion.
func (r *Reconciler) say(ctx context.Context, repo *ghapp.Repo, issue int, what, text string) error {
	pub := publish.Publisher{GitHub: repo, Effects: r.effects, Issue: issue, Label: r.cfg.Decoder.Label, Mask: r.cfg.Mask}
	// Several deliveries may ask for the same word at the same time.
	return r.cfg.Store.Exclusively(ctx, func(ctx context.Context) error {
		_, err := pub.Say(ctx, what, text)
		return err
	})
}

// noteEdit says that an issue reads otherwise by now than what is worked.
func (r *Reconciler) noteEdit(ctx context.Context, repo *ghapp.Repo, w wanted, now ghapp.Issue) error {
	if w.text.Title == "" || now.Title == w.text.Title && now.Body == w.text.Body {
		return nil
	}
	return r.sayEdited(ctx, repo, w.Issue, w.plan, now.Title, now.Body)
}

// sayEdited says it once for what is worked, however often the text is changed
// then, and not at all where people would see no difference.
func (r *Reconciler) sayEdited(ctx context.Context, repo *ghapp.Repo, issue int, worked plan.Plan, title, body string) error {
	now, err := plan.FromIssue(title, body)
	if err == nil && now.SHA256 == worked.SHA256 && now.Title == worked.Title {
		return nil
	}
	return r.tell(ctx, repo, issue, "edited:"+worked.SHA256, publish.EditedText(issue, r.cfg.Decoder.Label))
}

// stopRun asks a run to stop. Whoever may take the label off, close the issue or
// close the pull request may stop the run: stopping costs nobody anything.
func (r *Reconciler) stopRun(ctx context.Context, guid string, in handlers.StopIntent) error {
	row, err := r.lastRun(ctx, in.Subject)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Phase.Terminal() {
		return r.mark(ctx, guid, outcomeNoRun, nil)
	}
	if err != nil {
		return err
	}
	why := map[handlers.StopReason]string{
		handlers.StopUnlabeled:   "the label was removed by ",
		handlers.StopClosed:      "the issue was closed by ",
		handlers.StopDeleted:     "the issue was deleted by ",
		handlers.StopTransferred: "the issue was transferred by ",
		handlers.StopLocked:      "the issue was locked by ",
		handlers.StopPullClosed:  "the pull request was closed by ",
		handlers.StopPullMerged:  "the pull request was merged by ",
	}[in.Reason] + in.SenderLogin
	return r.mark(ctx, guid, outcomeStopping, func(tx *sql.Tx) error { return r.cancel(ctx, tx, row.ID, why) })
}

// cancel asks a run to stop and has it look.
func (r *Reconciler) cancel(ctx context.Context, tx *sql.Tx, id run.ID, why string) error {
	if err := r.cfg.Store.RequestCancel(ctx, tx, id, why, r.cfg.Now()); err != nil {
		return err
	}
	return r.cfg.Queue.Wake(ctx, tx, id)
}

// lastRun is the newest run of an issue, of a pull request, or of the branch that
// an event names.
func (r *Reconciler) lastRun(ctx context.Context, in handlers.Subject) (store.Run, error) {
	if in.Issue > 0 {
		return r.cfg.Store.LatestRunByIssue(ctx, in.RepoNode, in.Issue)
	}
	if in.Pull > 0 {
		row, err := r.cfg.Store.LatestRunByPull(ctx, in.RepoNode, in.Pull)
		if !errors.Is(err, store.ErrNotFound) {
			return row, err
		}
	}
	issue, ok := r.cfg.Branches.Issue(in.Head)
	if !ok {
		return store.Run{}, store.ErrNotFound
	}
	row, err := r.cfg.Store.LatestRunByIssue(ctx, in.RepoNode, issue)
	if err == nil && in.Pull > 0 && row.PullNumber > 0 && row.PullNumber != in.Pull {
		return store.Run{}, store.ErrNotFound // somebody else's from our branch
	}
	return row, err
}
