package handlers

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/store"
)

// ButtonRetry is the identifier of the button on the App's check runs.
const ButtonRetry = "retry"

// CommentSource names a comment as the source of an input.
func CommentSource(id int64) string { return fmt.Sprintf("comment:%d", id) }

// ReviewCommentSource names a comment on a line as the source of an input.
func ReviewCommentSource(id int64) string { return fmt.Sprintf("review_comment:%d", id) }

// ReviewSource names a review as the source of an input.
func ReviewSource(id int64) string { return fmt.Sprintf("review:%d", id) }

// issues decodes the issues event.
//
// Who may start runs is not asked here. Taking the label off by a program is not
// taken for someone's wish: swapping labels is what bots do, this one among
// them. An issue that is closed, locked or gone stops its run whoever did it; one
// that is made a discussion is both closed and locked.
func (d *Decoder) issues(e *github.IssuesEvent, more extra) (Intent, error) {
	if more.Comment != nil {
		return nil, errOfComment
	}
	if e.GetIssue().GetPullRequestLinks() != nil {
		return nil, nil
	}
	subject, err := ofIssue(e, e.GetIssue())
	if err != nil {
		return nil, err
	}
	ours := strings.EqualFold(e.GetLabel().GetName(), d.Label)
	text := textOf(e.GetIssue())
	switch e.GetAction() {
	case "labeled":
		if !ours || text.Closed {
			return nil, nil
		}
		return StartIntent{Subject: subject, Title: text.Title, Body: text.Body, Author: text.Author}, nil
	case "unlabeled":
		if !ours || subject.SenderType != "User" {
			return nil, nil
		}
		return StopIntent{Subject: subject, Reason: StopUnlabeled}, nil
	case "edited":
		return EditIntent{Subject: subject, Text: text}, nil
	case "closed":
		return StopIntent{Subject: subject, Reason: StopClosed}, nil
	case "deleted":
		return StopIntent{Subject: subject, Reason: StopDeleted}, nil
	case "transferred":
		return StopIntent{Subject: subject, Reason: StopTransferred}, nil
	case "locked":
		return StopIntent{Subject: subject, Reason: StopLocked}, nil
	default:
		return nil, nil
	}
}

// issueComment decodes the issue_comment event, which is that of pull requests
// too. What the App itself wrote, also through a person, is not looked at.
func (d *Decoder) issueComment(e *github.IssueCommentEvent, more extra) (Intent, error) {
	subject, err := ofIssue(e, e.GetIssue())
	c := e.GetComment()
	if err := errors.Join(err, require(field{"comment.id", c.GetID() > 0})); err != nil {
		return nil, err
	}
	comment := Comment{ID: c.GetID(), Body: c.GetBody(), Author: authorOf(c.GetUser()), App: more.Comment.app()}
	action := e.GetAction()
	switch {
	case comment.App != 0 && comment.App == d.App:
		return nil, nil
	case action == "edited", action == "deleted":
		return WithdrawIntent{Subject: subject, Source: CommentSource(comment.ID), Deleted: action == "deleted"}, nil
	case action != "created":
		return nil, nil
	}
	command := CommandIntent{Subject: subject, Comment: comment, Text: textOf(e.GetIssue())}
	asked, ok, problem := ParseCommand(comment.Body)
	if ok && problem != nil {
		command.Problem = problem.Error()
		return command, nil
	}
	if ok {
		command.Command = asked
		return command, nil
	}
	if near, ok := NearCommand(comment.Body); ok {
		command.Command, command.Problem, command.Beside = near.Command, near.Problem, near.Beside
		return command, nil
	}
	if subject.Pull == 0 && subject.SenderType == "User" {
		return RemarkIntent{Subject: subject, Comment: comment}, nil
	}
	return nil, nil
}

// pullRequest decodes the pull_request event. Nobody's permission is asked:
// closing stops, which costs nobody anything, and all else only makes the run
// look at what is there.
func (d *Decoder) pullRequest(e *github.PullRequestEvent, _ extra) (Intent, error) {
	subject, err := ofPull(e, e.GetPullRequest())
	if err != nil {
		return nil, err
	}
	switch e.GetAction() {
	case "closed":
		stop := StopIntent{Subject: subject, Reason: StopPullClosed}
		if e.GetPullRequest().GetMerged() {
			stop.Reason = StopPullMerged
		}
		return stop, nil
	case "edited", "synchronize", "converted_to_draft", "ready_for_review":
		return WakeIntent{Subject: subject, What: e.GetAction()}, nil
	default:
		return nil, nil
	}
}

// review decodes the pull_request_review event. GitHub sends one for the review
// and one pull_request_review_comment for each of its lines, in any order. A review that is
// edited or dismissed is not what was submitted.
func (d *Decoder) review(e *github.PullRequestReviewEvent, more extra) (Intent, error) {
	subject, err := ofPull(e, e.GetPullRequest())
	r := e.GetReview()
	if err := errors.Join(err, require(field{"review.id", r.GetID() > 0})); err != nil {
		return nil, err
	}
	source, app, action := ReviewSource(r.GetID()), more.Review.app(), e.GetAction()
	switch {
	case app != 0 && app == d.App:
		return nil, nil
	case action == "edited", action == "dismissed":
		return WithdrawIntent{Subject: subject, Source: source, Deleted: action == "dismissed"}, nil
	case action != "submitted":
		return nil, nil
	}
	return FeedbackIntent{
		Subject: subject, Kind: store.InputReview, Source: source, SourceID: r.GetID(),
		Text: r.GetBody(), Author: authorOf(r.GetUser()), App: app,
		Detail: &Review{ID: r.GetID(), NodeID: r.GetNodeID(), Verdict: r.GetState(), CommitID: r.GetCommitID()},
	}, nil
}

// reviewComment decodes the pull_request_review_comment event.
func (d *Decoder) reviewComment(e *github.PullRequestReviewCommentEvent, more extra) (Intent, error) {
	subject, err := ofPull(e, e.GetPullRequest())
	c := e.GetComment()
	if err := errors.Join(err, require(field{"comment.id", c.GetID() > 0})); err != nil {
		return nil, err
	}
	source, app, action := ReviewCommentSource(c.GetID()), more.Comment.app(), e.GetAction()
	switch {
	case app != 0 && app == d.App:
		return nil, nil
	case action == "edited", action == "deleted":
		return WithdrawIntent{Subject: subject, Source: source, Deleted: action == "deleted"}, nil
	case action != "created":
		return nil, nil
	}
	return FeedbackIntent{
		Subject: subject, Kind: store.InputReviewComment, Source: source, SourceID: c.GetID(),
		Text: c.GetBody(), Author: authorOf(c.GetUser()), App: app,
		Detail: &ReviewComment{
			ID: c.GetID(), NodeID: c.GetNodeID(), ReviewID: c.GetPullRequestReviewID(), ReplyTo: c.GetInReplyTo(),
			Path: c.GetPath(), Line: c.GetLine(), StartLine: c.GetStartLine(), DiffHunk: c.GetDiffHunk(),
		},
	}, nil
}

// thread decodes the pull_request_review_thread event. A thread may be resolved
// and opened again any number of times, each of which is said anew.
func (d *Decoder) thread(e *github.PullRequestReviewThreadEvent, more extra) (Intent, error) {
	subject, err := ofPull(e, e.GetPullRequest())
	node, action := e.GetThread().GetNodeID(), e.GetAction()
	if err := errors.Join(err, require(field{"thread.node_id", node != ""})); err != nil {
		return nil, err
	}
	if action != "resolved" && action != "unresolved" {
		return nil, nil
	}
	detail := &Thread{NodeID: node, Resolved: action == "resolved"}
	for _, c := range e.GetThread().Comments {
		detail.Comments = append(detail.Comments, c.GetID())
	}
	// GitHub's description has the time as optional.
	at := cmp.Or(more.UpdatedAt, subject.At.Format(time.RFC3339))
	return FeedbackIntent{
		Subject: subject, Kind: store.InputThread, Source: fmt.Sprintf("thread:%s:%s:%s", node, action, at),
		SourceID: subject.At.Unix(), Author: authorOf(e.GetSender()), Detail: detail,
	}, nil
}

// checkRunEvent is go-github's without what it cannot read in each of GitHub's examples: the times
// of an App.
type checkRunEvent struct {
	github.CheckRunEvent

	CheckRun struct {
		ExternalID string `json:"external_id"`
		App        struct {
			ID int64 `json:"id"`
		} `json:"app"`
		Suite struct {
			HeadBranch string `json:"head_branch"` // null for forks
		} `json:"check_suite"`
	} `json:"check_run"`
}

// checkRun decodes the check_run event: the button on check runs of the App's own.
func (d *Decoder) checkRun(e *checkRunEvent, _ extra) (Intent, error) {
	if e.CheckRun.App.ID != d.App {
		return nil, nil
	}
	subject, err := subjectOf(e)
	if err != nil {
		return nil, err
	}
	pressed := e.GetAction() == "requested_action" && e.RequestedAction != nil && e.RequestedAction.Identifier == ButtonRetry
	if e.GetAction() != "rerequested" && !pressed {
		return nil, nil
	}
	subject.Head = e.CheckRun.Suite.HeadBranch
	return RetryIntent{Subject: subject, Run: e.CheckRun.ExternalID}, nil
}

// checkSuite decodes the check_suite event: the checks of others that failed on
// a branch, and a wish to run the App's own again.
func (d *Decoder) checkSuite(e *github.CheckSuiteEvent, _ extra) (Intent, error) {
	suite := e.GetCheckSuite()
	subject, err := subjectOf(e)
	if err := errors.Join(err, require(field{"check_suite.id", suite.GetID() > 0})); err != nil {
		return nil, err
	}
	if subject.Head = suite.GetHeadBranch(); subject.Head == "" { // of a fork
		return nil, nil
	}
	ours, conclusion := suite.GetApp().GetID() == d.App, suite.GetConclusion()
	switch {
	case e.GetAction() == "rerequested" && ours:
		return RetryIntent{Subject: subject}, nil
	case e.GetAction() == "completed" && !ours && (conclusion == "failure" || conclusion == "timed_out"):
		return FeedbackIntent{
			Subject: subject, Kind: store.InputChecks,
			Source:   fmt.Sprintf("check_suite:%d:%s", suite.GetID(), suite.GetUpdatedAt().UTC().Format(time.RFC3339)),
			SourceID: suite.GetID(), App: suite.GetApp().GetID(),
			Detail: &Checks{SuiteID: suite.GetID(), Head: suite.GetHeadSHA(), Conclusion: conclusion, App: suite.GetApp().GetSlug()},
		}, nil
	default:
		return nil, nil
	}
}

// installation decodes the installation event.
func (d *Decoder) installation(e *github.InstallationEvent, _ extra) (Intent, error) {
	subject, err := senderOf(e)
	what := map[string]string{"deleted": "uninstalled", "suspend": "suspended"}[e.GetAction()]
	if err != nil || what == "" {
		return nil, err
	}
	return InstallationIntent{Subject: subject, What: what}, nil
}

// installationRepositories decodes the installation_repositories event.
func (d *Decoder) installationRepositories(e *github.InstallationRepositoriesEvent, _ extra) (Intent, error) {
	subject, err := senderOf(e)
	if err != nil || e.GetAction() != "removed" {
		return nil, err
	}
	in := InstallationIntent{Subject: subject, What: "taken off the repository"}
	for _, r := range e.RepositoriesRemoved {
		if r.GetNodeID() != "" {
			in.Repositories = append(in.Repositories, r.GetNodeID())
		}
	}
	if len(in.Repositories) == 0 {
		return nil, nil // which must not read as "all of them"
	}
	return in, nil
}

// repository decodes the repository event. The node id stays; the name is what
// changes.
func (d *Decoder) repository(e *github.RepositoryEvent, _ extra) (Intent, error) {
	subject, err := subjectOf(e)
	if err != nil {
		return nil, err
	}
	switch e.GetAction() {
	case "renamed", "transferred":
		return RenameIntent{Subject: subject, What: e.GetAction()}, nil
	case "deleted", "archived":
		return RenameIntent{Subject: subject, What: e.GetAction(), Gone: true}, nil
	default:
		return nil, nil
	}
}
