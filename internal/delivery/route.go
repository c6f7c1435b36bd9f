package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// outcomeQueued is what became of an event that is left to a job in the queue of
// its issue.
const outcomeQueued = "left to the queue of its issue"

// Route stores a webhook and says which issue it is about, so that the job which works it can wait
// in the queue of that issue; 0 means that no job is to work it, and the outcome says why. What
// must not wait behind others it settles by itself: whoever may not ask for work is told so, what
// is no command is said to be none, `/ralph help` and `/ralph status` are answered, and
// `/ralph stop` takes the label off, which the job at work looks for. Nothing is fetched and
// nothing is run.
func (r *Receiver) Route(ctx context.Context, d store.Delivery) (issue int, outcome string, err error) {
	if err := r.insert(ctx, d); err != nil {
		return 0, "", err
	}
	if issue, err = r.route(ctx, d); err != nil {
		return 0, "", err
	}
	done, err := r.Store.Delivery(ctx, d.GUID)
	return issue, done.Outcome, err
}

func (r *Receiver) route(ctx context.Context, d store.Delivery) (issue int, err error) {
	intent, err := r.Decoder.Decode(d.Event, d.Body)
	if err != nil {
		return 0, r.mark(ctx, d.GUID, outcomeMalformed, nil)
	}
	switch in := intent.(type) {
	case handlers.StartIntent:
		_, admitted, err := r.admit(ghapp.WithPurpose(ctx, "authorise"), d, in)
		if err != nil || !admitted {
			return 0, err
		}
		issue = in.Issue
	case handlers.CommandIntent:
		issue, err = r.routeCommand(ctx, d, in)
	case handlers.FeedbackIntent:
		issue, err = r.routeFeedback(ctx, d, in)
	default:
		return 0, r.mark(ctx, d.GUID, outcomeNothing, nil)
	}
	if err != nil || issue == 0 {
		return 0, err
	}
	return issue, r.mark(ctx, d.GUID, outcomeQueued, nil)
}

// issueOf is the issue that an event is about, 0 for a pull request that is
// somebody else's.
func (r *Receiver) issueOf(ctx context.Context, in handlers.Subject) (int, error) {
	if in.Issue > 0 {
		return in.Issue, nil
	}
	issue, _, err := r.PullOf(ghapp.WithPurpose(ctx, "route"), r.repoOf(in), in)
	return issue, err
}

// routeCommand is route for a command. What is settled gives no issue.
func (r *Receiver) routeCommand(ctx context.Context, d store.Delivery,
	in handlers.CommandIntent) (issue int, err error) {
	if in.SenderType != "User" {
		return 0, r.mark(ctx, d.GUID, OutcomeRefused, nil)
	}
	o := order{CommandIntent: in, repo: r.repoOf(in.Subject), place: max(in.Issue, in.Pull)}
	if o.Issue, err = r.issueOf(ctx, in.Subject); err != nil {
		return 0, err
	}
	if o.Issue == 0 {
		return 0, r.mark(ctx, d.GUID, outcomeForeign, nil)
	}
	if o.by, err = r.Authorizer.Standing(ctx, o.repo, d.ReceivedAt, in.Subject, in.Comment.Author); err != nil {
		return 0, err
	}
	if o.input, err = r.commandInput(handlers.CommentSource(in.Comment.ID), d, o); err != nil {
		return 0, err
	}
	var rep reply
	switch {
	case o.by.Denied != "":
		return 0, r.refuseCommand(ctx, d.GUID, o)
	case in.Problem != "":
		rep = noCommand(in.Problem)
	case in.Command.Verb == handlers.VerbHelp:
		rep, err = r.carryOut(ctx, o)
	case in.Command.Verb == handlers.VerbStop:
		rep, err = r.stopElsewhere(ctx, o)
	case in.Command.Verb == handlers.VerbStatus:
		rep, err = r.statusElsewhere(ctx, o)
	}
	if err != nil {
		return 0, err
	}
	if rep.state == "" {
		return o.Issue, nil
	}
	return 0, r.settle(ctx, d.GUID, o, rep)
}

// stopElsewhere stops the run that another job may have at work: that job looks
// whether the label is still on. Which one it is, or whether it waits for its turn
// still, nobody has to know.
func (r *Receiver) stopElsewhere(ctx context.Context, o order) (reply, error) {
	ctx = ghapp.WithPurpose(ctx, "stop")
	asked, err := r.StillAsked(ctx, o.repo, o.Issue)
	if err != nil {
		return reply{}, err
	}
	if !asked {
		return no("There is no run to stop."), nil
	}
	err = o.repo.RemoveLabel(ctx, o.Issue, r.Decoder.Label)
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
		return reply{}, err
	}
	return yes(), nil
}

// statusElsewhere says where to read how the work stands: whichever job does it, if one does, keeps that up to date.
func (r *Receiver) statusElsewhere(ctx context.Context, o order) (reply, error) {
	pr, err := o.repo.FindPR(ghapp.WithPurpose(ctx, "status"), run.Branch(o.Issue))
	if errors.Is(err, ghapp.ErrNotFound) {
		return no("There is no pull request yet; the list of workflow runs says what is under way."), nil
	}
	if err != nil {
		return reply{}, err
	}
	rep := yes()
	rep.text = fmt.Sprintf("See the description of #%d; a job at work keeps it up to date.", pr.Number)
	return rep, nil
}

// routeFeedback is route for a review, or for a comment on lines.
func (r *Receiver) routeFeedback(ctx context.Context, d store.Delivery,
	in handlers.FeedbackIntent) (issue int, err error) {
	if issue, err = r.issueOf(ctx, in.Subject); err != nil {
		return 0, err
	}
	if issue == 0 {
		return 0, r.mark(ctx, d.GUID, outcomeForeign, nil)
	}
	role, st, err := r.reviewer(ctx, d, in)
	if err != nil {
		return 0, err
	}
	if role != "" && st.Denied == "" {
		return issue, nil
	}
	if err := r.acknowledge(ctx, in, store.Run{IssueNumber: issue}, st); err != nil {
		return 0, err
	}
	return 0, r.mark(ctx, d.GUID, OutcomeRefused, nil)
}

// PullOf is the issue that an event is about, with our pull request for it, whose
// number is 0 where there is none. An issue of 0 says that the pull request is
// somebody else's.
func (r *Receiver) PullOf(ctx context.Context, repo *ghapp.Repo, in handlers.Subject) (issue int, _ ghapp.PR, _ error) {
	if in.Issue > 0 {
		pr, err := repo.FindPR(ctx, run.Branch(in.Issue))
		if errors.Is(err, ghapp.ErrNotFound) {
			err = nil
		}
		return in.Issue, pr, err
	}
	pr, err := repo.PR(ctx, in.Pull)
	if errors.Is(err, ghapp.ErrNotFound) {
		return 0, ghapp.PR{}, nil
	}
	if err != nil {
		return 0, ghapp.PR{}, err
	}
	issue, ok := run.BranchIssue(pr.HeadRef)
	if !ok {
		return 0, ghapp.PR{}, nil
	}
	if ours, err := repo.Ours(ctx, pr.Author); err != nil || !ours {
		return 0, ghapp.PR{}, err
	}
	return issue, pr, nil
}
