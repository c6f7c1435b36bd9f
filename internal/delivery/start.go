package delivery

import (
	"context"
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

// start makes a run of a labelled issue, or says why not.
func (r *Receiver) start(ctx context.Context, d store.Delivery, in handlers.StartIntent) error {
	if err := r.waitForEnding(ctx, in.Subject); err != nil {
		return err
	}
	past, err := r.recall(ctx, d, in.Subject, func(ctx context.Context, repo *ghapp.Repo) (bool, error) {
		return r.isWorked(ctx, repo, in.Subject)
	})
	if err != nil || past {
		return err
	}
	ctx = ghapp.WithPurpose(ctx, "authorise")
	w, admitted, err := r.admit(ctx, d, in)
	if err != nil || !admitted {
		return err
	}
	var started run.ID
	outcome, err := r.Begin(ctx, r.repoOf(in.Subject), w, func(tx *store.Tx, id run.ID) error {
		started = id
		return r.Store.MarkDelivery(ctx, tx, d.GUID, OutcomeStarted, r.Now())
	})
	switch {
	case err != nil:
		return err
	case outcome == OutcomeStarted:
		r.audit(ctx, d.GUID, in.Subject, allowed(actionLabel, "started "+string(started)))
		return nil
	case outcome == outcomeTooOften:
		return r.decide(ctx, d.GUID, outcome, in.Subject, refused(actionLabel, outcome), nil)
	case outcome == outcomeLocked:
		if err := r.Comments.Comment(ctx, r.repoOf(in.Subject), in.Issue, "locked:"+d.GUID,
			publish.LockedText(r.Decoder.Label)); err != nil {
			return err
		}
	}
	return r.mark(ctx, d.GUID, outcome, nil)
}

// admit gives the run that a label asks for, if whoever put it on may have one
// and there is something to work from. Otherwise it says so on the issue.
func (r *Receiver) admit(ctx context.Context, d store.Delivery,
	in handlers.StartIntent) (w RunRequest, admitted bool, err error) {
	repo := r.repoOf(in.Subject)
	st, err := r.Authorizer.Standing(ctx, repo, d.ReceivedAt, in.Subject, approvedAuthor(in))
	if err != nil {
		return RunRequest{}, false, err
	}
	if st.Denied != "" {
		return RunRequest{}, false, r.refuse(ctx, d.GUID, repo, in, st)
	}
	issuePlan, err := plan.FromIssue(in.Title, in.Body)
	if errors.Is(err, plan.ErrEmpty) {
		if err := r.Comments.Comment(ctx, repo, in.Issue, "empty:"+d.GUID,
			publish.EmptyBodyText(r.Decoder.Label)); err != nil {
			return RunRequest{}, false, err
		}
		return RunRequest{}, false, r.mark(ctx, d.GUID, outcomeEmpty, nil)
	}
	if err != nil {
		return RunRequest{}, false, err
	}
	return RunRequest{Subject: in.Subject, By: st.As, Plan: issuePlan,
		Text: handlers.Text{Title: in.Title, Body: in.Body}, ByLabel: true}, true, nil
}

// approvedAuthor is whose text a label approves. A person who labels an issue has read
// it, and answers for it; a bot has not.
func approvedAuthor(in handlers.StartIntent) handlers.Author {
	if in.SenderType == "Bot" {
		return in.Author
	}
	return handlers.Author{}
}

// RunRequest is a run that somebody may have.
type RunRequest struct {
	handlers.Subject

	By   handlers.Author
	Plan plan.Plan
	// Text is what Plan was made of, with a zero title where that was long ago.
	Text handlers.Text
	Mode run.Mode
	// Approved is the hash of an approved plan, ApprovedBy the login of whoever did
	// that, Covered what has come of it since, and Progress the progress.md of the run
	// before.
	Approved, ApprovedBy, Covered, Progress string
	// ByLabel: it is wanted for as long as the label is on. Otherwise the label
	// is put on, so that taking it off is a way to stop.
	ByLabel bool
}

// Begin makes a run and, in the transaction that does, what also is to be
// written. The outcome is OutcomeStarted, or says why there is no run. A run that
// is being stopped is queue.ErrBusy: the new one comes after it.
func (r *Receiver) Begin(ctx context.Context, repo *ghapp.Repo, w RunRequest,
	also func(tx *store.Tx, id run.ID) error) (outcome string, err error) {
	if what, err := r.Authorizer.TooManyRuns(ctx, w.RepoNode, w.Issue); err != nil {
		return "", err
	} else if what != "" {
		return outcomeTooOften, r.reportLimit(ctx, repo, w.Issue, w.Issue, what)
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
	case elsewhere(issue, w.Subject):
		return outcomeGone, nil
	case issue.State != "open" && !w.ByLabel:
		return outcomeClosed, nil
	case issue.State != "open", w.ByLabel && !hasLabel:
		return outcomeGone, nil
	case issue.Locked:
		return outcomeLocked, nil
	}
	if err := r.compareIssue(ctx, repo, w, issue); err != nil {
		return "", err
	}
	r.Comments.RemoveStates(ctx, repo, w.Issue, issue.Labels)
	if !w.ByLabel && !hasLabel {
		if err := publish.Tolerate(ctx, "the label was not put on",
			repo.AddLabels(ghapp.WithPurpose(ctx, "label"), w.Issue, r.Decoder.Label)); err != nil {
			return "", err
		}
	}
	id, err := r.create(ctx, w, also)
	if errors.Is(err, store.ErrRunActive) {
		if err := r.waitForEnding(ctx, w.Subject); err != nil {
			return "", err
		}
		return OutcomeRunning, nil
	}
	if err != nil {
		return "", err
	}
	zerolog.Ctx(ctx).Info().Str("run", string(id)).Str("repo", repo.FullName()).Int("issue", w.Issue).
		Str("by", w.By.Login).Msg("run queued")
	return OutcomeStarted, nil
}

// create stores a run.
func (r *Receiver) create(ctx context.Context, w RunRequest, also func(tx *store.Tx, id run.ID) error) (run.ID, error) {
	now := r.Now()
	id := host.NewID(now)
	var was loop.State
	pull := 0
	switch last, err := r.Store.LatestRunByIssue(ctx, w.RepoNode, w.Issue); {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return "", err
	default:
		if was, err = loop.Decode(last.State); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("run", string(last.ID)).
				Msg("what was said of the run before is not known any more")
		}
		if was.PullRequest == nil || !was.PullRequest.Closed {
			pull = last.PullNumber // what is said there is for this run
		}
	}
	s := loop.NewState(loop.Request{
		Run: id,
		Subject: loop.Subject{
			Key: "issue:" + w.IssueNode, Slug: fmt.Sprint(w.Issue), Name: w.Plan.Title,
			PlanFile:    fmt.Sprintf("issue #%d", w.Issue),
			RequestedBy: w.By.Login, RequestedByID: w.By.ID,
		},
		Plan: w.Plan, Mode: w.Mode, Agent: r.AgentName,
		Approved: w.Approved, ApprovedBy: w.ApprovedBy, Covered: w.Covered, Carried: w.Progress,
		Feedback: was.Feedback, FeedbackRounds: was.FeedbackRounds, Earlier: was.Sum(),
		Settings: loop.Settings{Limits: r.Limits(run.Limits{}), Model: r.Model},
	}, now)
	s.Branch = was.Branch // what was done is there, however others are called by now
	state, err := loop.Encode(s)
	if err != nil {
		return "", err
	}
	return id, r.Store.InTx(ctx, func(tx *store.Tx) error {
		err := r.Store.CreateRun(ctx, tx, store.Run{
			ID: id, RepoOwner: w.Owner, RepoName: w.Repo, RepoNode: w.RepoNode, Installation: w.Installation,
			IssueNumber: w.Issue, IssueNode: w.IssueNode, PullNumber: pull, Phase: s.Phase, State: state,
			CreatedAt: now, UpdatedAt: now,
		})
		if err != nil {
			return err
		}
		if also != nil {
			if err := also(tx, id); err != nil {
				return err
			}
		}
		r.Queue.Wake(tx, id)
		return nil
	})
}

// waitForEnding gives queue.ErrBusy where the issue has a run that was asked to stop: a
// label that was put back means a run after that one.
func (r *Receiver) waitForEnding(ctx context.Context, in handlers.Subject) error {
	row, err := r.Store.ActiveRunByIssue(ctx, in.RepoNode, in.Issue)
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

func (r *Receiver) hasLabel(issue ghapp.Issue) bool {
	return slices.ContainsFunc(issue.Labels, func(name string) bool { return strings.EqualFold(name, r.Decoder.Label) })
}

// StillAsked says whether the issue is open, with the label on and not locked.
func (r *Receiver) StillAsked(ctx context.Context, repo *ghapp.Repo, number int) (bool, error) {
	issue, err := repo.Issue(ctx, number)
	if errors.Is(err, ghapp.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return issue.State == "open" && r.hasLabel(issue) && !issue.Locked, nil
}

// refuse says on the issue why nothing happens, once per person and issue.
func (r *Receiver) refuse(ctx context.Context, guid string, repo *ghapp.Repo, in handlers.StartIntent,
	st Standing) error {
	if st.Denied == DeniedSelf {
		return r.mark(ctx, guid, outcomeSelf, nil)
	}
	// The comment comes first: its key keeps it from being said twice, and a
	// crash in between must not lose it.
	if err := r.Comments.Comment(ctx, repo, in.Issue, r.denialOccasion(in.Subject, st),
		r.denialText(in.Subject, st, in.Author, false)); err != nil {
		return err
	}
	return r.decide(ctx, guid, OutcomeRefused, in.Subject, refused(actionLabel, why(st)), nil)
}

// compareIssue says that an issue reads otherwise by now than what is worked.
func (r *Receiver) compareIssue(ctx context.Context, repo *ghapp.Repo, w RunRequest, now ghapp.Issue) error {
	if w.Text.Title == "" || now.Title == w.Text.Title && now.Body == w.Text.Body {
		return nil
	}
	return r.commentEdit(ctx, repo, w.Issue, w.Plan, now.Title, now.Body)
}

// commentEdit says it once for what is worked, however often the text is changed
// then, and not at all where people would see no difference.
func (r *Receiver) commentEdit(ctx context.Context, repo *ghapp.Repo, issue int, worked plan.Plan,
	title, body string) error {
	now, err := plan.FromIssue(title, body)
	if err == nil && now.SHA256 == worked.SHA256 && now.Title == worked.Title {
		return nil
	}
	return r.Comments.Comment(ctx, repo, issue, "edited:"+worked.SHA256, publish.EditedText(issue, r.Decoder.Label))
}

// stopRun asks a run to stop, if what the event tells of is so now: GitHub keeps no order, and this
// run may be newer than the event. Whoever may take the label off, close the issue or close the pull
// request may stop the run: stopping costs nobody anything.
func (r *Receiver) stopRun(ctx context.Context, guid string, in handlers.StopIntent) error {
	row, err := r.LastRun(ctx, in.Subject)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Phase.Terminal() {
		return r.mark(ctx, guid, outcomeNoRun, nil)
	}
	if err != nil {
		return err
	}
	if holds, err := r.holds(ctx, in); err != nil {
		return err
	} else if !holds {
		return r.mark(ctx, guid, outcomeOutdated, nil)
	}
	reason := map[handlers.StopReason]string{
		handlers.StopUnlabeled:   "the label was removed by ",
		handlers.StopClosed:      "the issue was closed by ",
		handlers.StopDeleted:     "the issue was deleted by ",
		handlers.StopTransferred: "the issue was transferred by ",
		handlers.StopLocked:      "the issue was locked by ",
		handlers.StopPullClosed:  "the pull request was closed by ",
		handlers.StopPullMerged:  "the pull request was merged by ",
	}[in.Reason] + in.SenderLogin
	return r.decide(ctx, guid, outcomeStopping, in.Subject, stopped(row.ID, reason), func(tx *store.Tx) error {
		return r.cancel(ctx, tx, row.ID, reason)
	})
}

// holds says whether what a stop tells of is so now. An answer that is older than the event does not
// count against it.
func (r *Receiver) holds(ctx context.Context, in handlers.StopIntent) (bool, error) {
	ctx, repo := ghapp.WithPurpose(ctx, "stop"), r.repoOf(in.Subject)
	if in.Pull > 0 {
		pr, err := repo.PR(ctx, in.Pull)
		if errors.Is(err, ghapp.ErrNotFound) {
			return true, nil
		}
		return err == nil && (pr.State != "open" || pr.UpdatedAt.Before(in.At)), err
	}
	issue, err := repo.Issue(ctx, in.Issue)
	switch {
	case errors.Is(err, ghapp.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case elsewhere(issue, in.Subject), issue.UpdatedAt.Before(in.At):
		return true, nil
	}
	switch in.Reason { //nolint:exhaustive // the others are of pull requests, or there would be no issue
	case handlers.StopUnlabeled:
		return !r.hasLabel(issue), nil
	case handlers.StopClosed:
		return issue.State != "open", nil
	case handlers.StopLocked:
		return issue.Locked, nil
	default:
		return false, nil
	}
}

// elsewhere says whether an issue that was read is another than the one that was meant: the address
// of one that was transferred leads to the new one.
func elsewhere(issue ghapp.Issue, in handlers.Subject) bool {
	page := fmt.Sprintf("/%s/%s/issues/%d", in.Owner, in.Repo, in.Issue)
	return issue.NodeID != in.IssueNode && !strings.HasSuffix(strings.ToLower(issue.URL), strings.ToLower(page))
}

// cancel asks a run to stop and has it look.
func (r *Receiver) cancel(ctx context.Context, tx *store.Tx, id run.ID, why string) error {
	if err := r.Store.RequestCancel(ctx, tx, id, why, r.Now()); err != nil {
		return err
	}
	r.Queue.Wake(tx, id)
	return nil
}

// LastRun is the newest run of an issue, of a pull request, or of the branch that
// an event names.
func (r *Receiver) LastRun(ctx context.Context, in handlers.Subject) (store.Run, error) {
	if in.Issue > 0 {
		return r.Store.LatestRunByIssue(ctx, in.RepoNode, in.Issue)
	}
	if in.Pull > 0 {
		row, err := r.Store.LatestRunByPull(ctx, in.RepoNode, in.Pull)
		if !errors.Is(err, store.ErrNotFound) {
			return row, err
		}
	}
	issue, ok := run.BranchIssue(in.Head)
	if !ok {
		return store.Run{}, store.ErrNotFound
	}
	row, err := r.Store.LatestRunByIssue(ctx, in.RepoNode, issue)
	if err == nil && in.Pull > 0 && row.PullNumber > 0 && row.PullNumber != in.Pull {
		return store.Run{}, store.ErrNotFound // somebody else's from our branch
	}
	return row, err
}
