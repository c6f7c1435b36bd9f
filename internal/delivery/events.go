package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// reportEdit says on an issue that its run goes on with what was asked for.
func (r *Receiver) reportEdit(ctx context.Context, guid string, in handlers.EditIntent) error {
	row, err := r.Store.ActiveRunByIssue(ctx, in.RepoNode, in.Issue)
	if errors.Is(err, store.ErrNotFound) {
		return r.mark(ctx, guid, outcomeNothing, nil)
	}
	if err != nil {
		return err
	}
	s, err := loop.Decode(row.State)
	if err != nil {
		return err
	}
	if err := r.commentEdit(ctx, r.repoOf(in.Subject), in.Issue, s.Plan, in.Text.Title, in.Text.Body); err != nil {
		return err
	}
	return r.mark(ctx, guid, outcomeTold, nil)
}

// keepAnswer keeps what somebody with write access says on an issue whose run waits
// for answers. Nobody else's is kept, and nobody is told.
func (r *Receiver) keepAnswer(ctx context.Context, d store.Delivery, in handlers.RemarkIntent) error {
	row, err := r.Store.LatestRunByIssue(ctx, in.RepoNode, in.Issue)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.EndReason != run.EndAwaitingPerson {
		return r.mark(ctx, d.GUID, outcomeNothing, nil)
	}
	if err != nil {
		return err
	}
	s, err := loop.Decode(row.State)
	if err != nil {
		return err
	}
	if len(s.Questions) == 0 {
		return r.mark(ctx, d.GUID, outcomeNothing, nil)
	}
	since := r.Now().Add(-time.Hour)
	if n, err := r.Store.CountInputs(ctx, store.InputCount{AuthorID: in.SenderID,
		Kinds: []store.InputKind{store.InputAnswer}, Since: since}); err != nil {
		return err
	} else if most := r.People.CommandsPerPerson; most > 0 && n >= most {
		return r.mark(ctx, d.GUID, outcomeTooOften, nil)
	}
	st, err := r.Authorizer.Standing(ctx, r.repoOf(in.Subject), d.ReceivedAt, in.Subject, in.Comment.Author)
	if err != nil {
		return err
	}
	if st.Denied != "" {
		return r.decide(ctx, d.GUID, OutcomeRefused, in.Subject, refused(actionAnswer, why(st)), nil)
	}
	answer := allowed(actionAnswer, why(st))
	return r.decide(ctx, d.GUID, outcomeKept, in.Subject, answer, func(tx *store.Tx) error {
		_, _, err := r.Store.AddInput(ctx, tx, store.Input{
			RepoNode: in.RepoNode, Issue: in.Issue, Kind: store.InputAnswer,
			Source: handlers.CommentSource(in.Comment.ID), SourceID: in.Comment.ID,
			AuthorID: in.SenderID, Author: in.SenderLogin, Role: st.Role, Text: in.Comment.Body,
			Detail: []byte("{}"), ReceivedAt: d.ReceivedAt,
		})
		return err
	})
}

// withdraw takes back what is no longer what somebody said, as long as nobody
// has acted on it. Whoever may edit it may withdraw it.
func (r *Receiver) withdraw(ctx context.Context, guid string, in handlers.WithdrawIntent) error {
	was, err := r.Store.InputBySource(ctx, in.RepoNode, in.Source)
	if err == nil && was.State != store.InputPending {
		was, err = r.Store.InputBySource(ctx, in.RepoNode, in.Source+besideSource)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && was.State != store.InputPending {
		return r.mark(ctx, guid, outcomeNothing, nil)
	}
	if err != nil {
		return err
	}
	taken := false
	err = r.mark(ctx, guid, outcomeWithdrawn, func(tx *store.Tx) error {
		settled, err := r.Store.SettleInput(ctx, tx, was.ID, store.InputWithdrawn,
			"edited or deleted by "+in.SenderLogin, "")
		taken = !settled
		return err
	})
	if err != nil || taken || in.Deleted || !CouldWrite(was.Role) { // it would have done nothing
		return err
	}
	return r.Comments.Comment(ctx, r.repoOf(in.Subject), max(in.Issue, in.Pull), "withdrawn:"+in.Source,
		publish.WithdrawnText(was.Author))
}

// wake has the run of a pull request look at it.
func (r *Receiver) wake(ctx context.Context, guid string, in handlers.WakeIntent) error {
	row, err := r.LastRun(ctx, in.Subject)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Phase.Terminal() {
		return r.mark(ctx, guid, outcomeNothing, nil)
	}
	if err != nil {
		return err
	}
	return r.mark(ctx, guid, in.What, func(tx *store.Tx) error {
		r.Queue.Wake(tx, row.ID)
		return nil
	})
}

// maxFeedback is how much one person may say in reviews within an hour.
const maxFeedback = 500

// keepFeedback keeps what is said of the work in a pull request for its run, as it
// was said, with the role of who said it. What bots say is kept only of those
// the server listens to.
func (r *Receiver) keepFeedback(ctx context.Context, d store.Delivery, in handlers.FeedbackIntent) error {
	row, err := r.LastRun(ctx, in.Subject)
	if errors.Is(err, store.ErrNotFound) {
		return r.mark(ctx, d.GUID, outcomeForeign, nil)
	}
	if err != nil {
		return err
	}
	role := ""
	if in.Kind != store.InputChecks {
		past, err := r.recall(ctx, d, in.Subject, func(ctx context.Context, repo *ghapp.Repo) (bool, error) {
			return isListed(ctx, repo, in)
		})
		if err != nil || past {
			return err
		}
		var st Standing
		if role, st, err = r.reviewer(ctx, d, in); err != nil {
			return err
		}
		if role == "" {
			return r.decide(ctx, d.GUID, OutcomeRefused, in.Subject, refused(actionReview, why(st)), nil)
		}
		since := r.Now().Add(-time.Hour)
		if n, err := r.Store.CountInputs(ctx, store.InputCount{AuthorID: in.SenderID, Since: since}); err != nil {
			return err
		} else if n >= maxFeedback {
			return r.mark(ctx, d.GUID, outcomeTooOften, nil)
		} else if most := r.People.CommandsPerPerson; most <= 0 || n < most {
			if err := r.acknowledge(ctx, in, row, st); err != nil {
				return err
			}
		}
	}
	input, err := feedbackInput(d, in, row.IssueNumber, role)
	if err != nil {
		return err
	}
	keep := func(tx *store.Tx) error {
		_, fresh, err := r.Store.AddInput(ctx, tx, input)
		if err != nil || !fresh {
			return err
		}
		r.Queue.Wake(tx, row.ID)
		return nil
	}
	if in.Kind == store.InputChecks { // which nobody has to be allowed
		return r.mark(ctx, d.GUID, outcomeKept, keep)
	}
	return r.decide(ctx, d.GUID, outcomeKept, in.Subject,
		decision{actionReview, role == "bot" || CouldWrite(role), role}, keep)
}

// ReadAlong keeps what an event says in a conversation as dealt with: it brings no work by
// itself. Whether it counts is asked as of anything else.
func (r *Receiver) ReadAlong(ctx context.Context, d store.Delivery) error {
	intent, err := r.Decoder.Decode(d.Event, d.Body)
	in, ok := intent.(handlers.FeedbackIntent)
	if err != nil || !ok {
		return nil //nolint:nilerr // what cannot be read is no part of the conversation
	}
	row, err := r.LastRun(ctx, in.Subject)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	role, _, err := r.reviewer(ctx, d, in)
	if err != nil || role == "" {
		return err
	}
	input, err := feedbackInput(d, in, row.IssueNumber, role)
	if err != nil {
		return err
	}
	input.State, input.Outcome = store.InputDone, "read along"
	return r.Store.InTx(ctx, func(tx *store.Tx) error {
		_, _, err := r.Store.AddInput(ctx, tx, input)
		return err
	})
}

// feedbackInput is what is kept of what was said of the work on an issue by
// somebody with the role.
func feedbackInput(d store.Delivery, in handlers.FeedbackIntent, issue int, role string) (store.Input, error) {
	detail, err := json.Marshal(in.Detail)
	if err != nil {
		return store.Input{}, fmt.Errorf("encode feedback: %w", err)
	}
	return store.Input{
		RepoNode: in.RepoNode, Issue: issue, Kind: in.Kind, Source: in.Source, SourceID: in.SourceID,
		AuthorID: in.SenderID, Author: in.SenderLogin, Role: role, Text: in.Text, Detail: detail,
		ReceivedAt: d.ReceivedAt,
	}, nil
}

// acknowledge answers a command in a review at once, as one in an ordinary comment
// is answered. What else is said in reviews is not, nor what bots say.
func (r *Receiver) acknowledge(ctx context.Context, in handlers.FeedbackIntent, row store.Run,
	st Standing) error {
	node, inThread := "", false
	switch said := in.Detail.(type) {
	case *handlers.Review:
		node = said.NodeID
	case *handlers.ReviewComment:
		node, inThread = said.NodeID, true
	}
	is, problem := handlers.CommandInReview(in.Text, inThread)
	if !is || node == "" || in.SenderType != "User" {
		return nil
	}
	repo, reaction := r.repoOf(in.Subject), ghapp.ReactionSeen
	switch {
	case st.Denied != "":
		in.Issue = row.IssueNumber
		if err := r.Comments.Comment(ctx, repo, in.Pull, r.denialOccasion(in.Subject, st),
			r.denialText(in.Subject, st, in.Author, true)); err != nil {
			return err
		}
		reaction = ghapp.ReactionNo
	case problem != "":
		if err := r.Comments.Answer(ctx, repo, in.Pull, in.Source, in.SenderLogin, problem); err != nil {
			return err
		}
		reaction = ghapp.ReactionNo
	}
	if err := repo.ReactTo(ghapp.WithPurpose(ctx, "reaction"), node, reaction); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("a reaction was not made")
	}
	return nil
}

// reviewer is the role of who reviews, and what they may ask for: of people the
// role as GitHub says, down to "none"; "bot" of a bot that the server listens to,
// and "" of any other.
func (r *Receiver) reviewer(ctx context.Context, d store.Delivery,
	in handlers.FeedbackIntent) (string, Standing, error) {
	if in.SenderType != "User" {
		if slices.Contains(r.People.Bots, in.SenderID) {
			return "bot", Standing{}, nil
		}
		return "", Standing{}, nil
	}
	st, err := r.Authorizer.Standing(ctx, r.repoOf(in.Subject), d.ReceivedAt, in.Subject, in.Author)
	if err != nil {
		return "", st, err
	}
	if st.Denied == "" {
		return st.Role, st, nil
	}
	// What is not known, and what two people said, counts for nothing.
	if st.Denied != DeniedRole || st.Role == "" {
		return "none", st, nil
	}
	return st.Role, st, nil
}

// press goes on with the run of the check run whose button was pressed.
func (r *Receiver) press(ctx context.Context, d store.Delivery, in handlers.RetryIntent) error {
	row, err := r.LastRun(ctx, in.Subject)
	if in.Run != "" {
		row, err = r.Store.Run(ctx, run.ID(in.Run))
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && row.RepoNode != in.RepoNode {
		return r.mark(ctx, d.GUID, outcomeForeign, nil)
	}
	if err != nil {
		return err
	}
	in.Issue, in.IssueNode = row.IssueNumber, row.IssueNode
	o := order{
		CommandIntent: handlers.CommandIntent{Subject: in.Subject, Command: handlers.Command{Verb: handlers.VerbRetry}},
		repo:          r.repoOf(in.Subject), place: row.IssueNumber,
	}
	if row.PullNumber > 0 {
		o.place = row.PullNumber
	}
	if _, err := r.findRun(ctx, &o); err != nil {
		return err
	}
	if o.by, err = r.Authorizer.Standing(ctx, o.repo, d.ReceivedAt, in.Subject, handlers.Author{}); err != nil {
		return err
	}
	what, err := r.Authorizer.TooManyCommands(ctx, o.Subject, o.Issue)
	if err != nil {
		return err
	}
	if what != "" || in.SenderType != "User" {
		return r.decide(ctx, d.GUID, outcomeTooOften, o.Subject, refused(o.action(), cmp.Or(what, "not a person")), nil)
	}
	if o.input, err = r.commandInput("button:"+d.GUID, d, o); err != nil {
		return err
	}
	if o.by.Denied != "" {
		return r.refuseInput(ctx, d.GUID, o)
	}
	rep, err := r.carryOut(ctx, o)
	if err != nil {
		return err
	}
	return r.settle(ctx, d.GUID, o, rep)
}

// stopUninstalled stops the runs that the App may no longer work on.
func (r *Receiver) stopUninstalled(ctx context.Context, guid string, in handlers.InstallationIntent) error {
	why := "the App was " + in.What + " by " + in.SenderLogin
	return r.stopAll(ctx, guid, in.SenderLogin, why, func(row store.Run) bool {
		return row.Installation == in.Installation &&
			(len(in.Repositories) == 0 || slices.Contains(in.Repositories, row.RepoNode))
	})
}

// renameRepo has the runs of a repository know it by its new name, or stops them.
func (r *Receiver) renameRepo(ctx context.Context, guid string, in handlers.RenameIntent) error {
	if in.Gone {
		return r.stopAll(ctx, guid, in.SenderLogin, "the repository was "+in.What+" by "+in.SenderLogin,
			func(row store.Run) bool { return row.RepoNode == in.RepoNode })
	}
	return r.mark(ctx, guid, in.What, func(tx *store.Tx) error {
		return r.Store.RenameRepo(ctx, tx, in.RepoNode, in.Owner, in.Repo, in.Installation)
	})
}

func (r *Receiver) stopAll(ctx context.Context, guid, by, why string, concerned func(store.Run) bool) error {
	active, err := r.Store.ActiveRuns(ctx)
	if err != nil {
		return err
	}
	active = slices.DeleteFunc(active, func(row store.Run) bool { return !concerned(row) })
	outcome := outcomeNoRun
	if len(active) > 0 {
		outcome = outcomeStopping
		zerolog.Ctx(ctx).Info().Int("runs", len(active)).Str("why", why).Msg("stopping runs")
	}
	err = r.mark(ctx, guid, outcome, func(tx *store.Tx) error {
		for _, row := range active {
			if err := r.cancel(ctx, tx, row.ID, why); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, row := range active {
		in := handlers.Subject{Owner: row.RepoOwner, Repo: row.RepoName, Issue: row.IssueNumber, SenderLogin: by}
		r.audit(ctx, guid, in, stopped(row.ID, why))
	}
	return nil
}
