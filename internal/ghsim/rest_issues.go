package ghsim

import (
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"
)

func (s *Sim) getIssue(c *call) (int, any, error) {
	return http.StatusOK, s.issueJSON(c.repo, c.issue), nil
}

func (s *Sim) listComments(c *call) (int, any, error) {
	return list(c, c.issue.comments, func(cm *comment) viaComment { return s.commentJSON(c.repo, c.issue, cm) })
}

func (s *Sim) postComment(c *call, in struct{ Body string }) (int, any, error) {
	cm, err := s.newComment(c.repo, c.issue, c.who.author(), in.Body)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, s.commentJSON(c.repo, c.issue, cm), nil
}

func (s *Sim) getComment(c *call) (int, any, error) {
	return http.StatusOK, s.commentJSON(c.repo, c.issue, c.comment), nil
}

type reactionInput struct{ Content string }

func (s *Sim) addReaction(c *call, to *[]*reaction, content string) (int, any, error) {
	r, created, err := s.react(to, c.who.author().user, content)
	if err != nil {
		return 0, nil, err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return status, s.reactionJSON(r), nil
}

func (s *Sim) listReactions(c *call) (int, any, error) {
	of := c.issue.reactions
	if c.comment != nil {
		of = c.comment.reactions
	}
	return list(c, of, s.reactionJSON)
}

func (s *Sim) postReaction(c *call, in reactionInput) (int, any, error) {
	return s.addReaction(c, &c.issue.reactions, in.Content)
}

func (s *Sim) postCommentReaction(c *call, in reactionInput) (int, any, error) {
	return s.addReaction(c, &c.comment.reactions, in.Content)
}

func (s *Sim) postIssueLabels(c *call, in []string) (int, any, error) {
	if err := s.addLabels(c.repo, c.issue, c.who.author(), in); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.labelsJSON(c.repo, c.issue.labels), nil
}

func (s *Sim) deleteIssueLabel(c *call) (int, any, error) {
	if err := s.removeLabel(c.repo, c.issue, c.who.author(), c.str("name")); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.labelsJSON(c.repo, c.issue.labels), nil
}

func (s *Sim) getLabel(c *call) (int, any, error) {
	l := c.repo.label(c.str("name"))
	if l == nil {
		return 0, nil, notFound()
	}
	return http.StatusOK, s.labelJSON(c.repo, l), nil
}

func (s *Sim) listPulls(c *call) (int, any, error) {
	state := c.query("state", "open")
	// GitHub matches head as owner:branch and takes no notice of a bare name.
	owner, branch, ofBranch := strings.Cut(c.query("head", ""), ":")
	var found []*issue
	for _, i := range slices.Backward(c.repo.issues) {
		if i.pull == nil || state != "all" && i.state() != state ||
			ofBranch && (branch != i.pull.head || !strings.EqualFold(owner, c.repo.owner.login)) {
			continue
		}
		found = append(found, i)
	}
	return list(c, found, func(i *issue) *github.PullRequest { return s.pullJSON(c.repo, i) })
}

type pullInput struct {
	Title, Body, Head, Base string
	Draft                   bool
}

func (s *Sim) postPull(c *call, in pullInput) (int, any, error) {
	if c.who.author().user.app.slug == actionsSlug && !c.repo.actionsPulls {
		return 0, nil, &Error{
			Status: http.StatusForbidden, Message: "GitHub Actions is not permitted to create or approve pull requests.",
		}
	}
	i, err := s.newPull(c.repo, c.who.author(), in.Title, in.Body, in.Head, in.Base, in.Draft)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, s.pullJSON(c.repo, i), nil
}

func (s *Sim) getPull(c *call) (int, any, error) {
	return http.StatusOK, s.pullJSON(c.repo, c.issue), nil
}

func (s *Sim) patchPull(c *call, in struct{ Title, Body *string }) (int, any, error) {
	if err := s.editIssue(c.repo, c.issue, c.who.author(), in.Title, in.Body); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.pullJSON(c.repo, c.issue), nil
}

func (s *Sim) listReviews(c *call) (int, any, error) {
	return list(c, c.issue.pull.reviews,
		func(rv *review) *github.PullRequestReview { return s.reviewJSON(c.repo, c.issue, rv, false) })
}

func (s *Sim) listReviewComments(c *call) (int, any, error) {
	var all []*github.PullRequestComment
	for _, t := range c.issue.pull.threads {
		for _, cm := range t.comments {
			all = append(all, s.reviewCommentJSON(c.repo, c.issue, t, cm))
		}
	}
	return list(c, all, func(cm *github.PullRequestComment) *github.PullRequestComment { return cm })
}

type replyInput struct {
	Body    string
	ReplyTo int64 `json:"in_reply_to"`
}

// postReply answers the comment that opened a conversation. New conversations are people's: see Sim.Review.
func (s *Sim) postReply(c *call, in replyInput) (int, any, error) {
	if err := checkText("PullRequestReviewComment", "", in.Body); err != nil {
		return 0, nil, err
	}
	for _, t := range c.issue.pull.threads {
		if t.comments[0].id == in.ReplyTo {
			cm := s.addReviewComment(c.repo, c.issue, t, t.comments[0].review, c.who.author(), in.Body)
			return http.StatusCreated, s.reviewCommentJSON(c.repo, c.issue, t, cm), nil
		}
	}
	return 0, nil, notFound()
}
