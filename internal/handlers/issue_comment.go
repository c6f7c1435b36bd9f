package handlers

import (
	"encoding/json"
	"fmt"

	"github.com/org/ralph-action/internal/review"
)

// issueCommentActions: only a new comment can command. One that is edited or
// deleted withdraws what it said, as long as nobody has acted on it.
func issueCommentActions() []string { return []string{"created", "edited", "deleted"} }

type issueCommentPayload struct {
	common

	Issue   issuePayload   `json:"issue"`
	Comment commentPayload `json:"comment"`
}

type commentPayload struct {
	ID   int64       `json:"id"`
	Body string      `json:"body"`
	User userPayload `json:"user"`
	App  *appPayload `json:"performed_via_github_app"`
}

func (c commentPayload) comment() Comment {
	out := Comment{ID: c.ID, Body: c.Body, Author: c.User.author()}
	if c.App != nil {
		out.App = c.App.ID
	}
	return out
}

// CommentSource names a comment as the source of an input.
func CommentSource(id int64) string { return fmt.Sprintf("comment:%d", id) }

// issueComment decodes the issue_comment event, which is that of pull requests
// too. What the App itself wrote, also through a person, is not looked at.
func (d *Decoder) issueComment(payload []byte) (Intent, error) {
	var p issueCommentPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	var r required
	r.need(p.Issue.Number > 0, "issue.number")
	r.need(p.Issue.NodeID != "", "issue.node_id")
	r.need(p.Comment.ID > 0, "comment.id")
	p.common.check(&r)
	if err := r.err(); err != nil {
		return nil, err
	}
	comment, subject := p.Comment.comment(), p.ofIssue(p.Issue)
	switch {
	case comment.App != 0 && comment.App == d.App:
		return nil, nil
	case p.Action == "edited", p.Action == "deleted":
		return WithdrawIntent{Subject: subject, Source: CommentSource(comment.ID), Deleted: p.Action == "deleted"}, nil
	case p.Action != "created":
		return nil, nil
	}
	c, ok, err := review.ParseCommand(comment.Body)
	switch {
	case ok && err != nil:
		return CommandIntent{Subject: subject, Comment: comment, Text: p.Issue.text(), Problem: err.Error()}, nil
	case ok:
		return CommandIntent{Subject: subject, Comment: comment, Text: p.Issue.text(), Command: c}, nil
	}
	near, ok := review.NearCommand(comment.Body)
	switch {
	case ok:
		return CommandIntent{Subject: subject, Comment: comment, Text: p.Issue.text(), Command: near.Command,
			Problem: near.Problem, Beside: near.Beside}, nil
	case subject.Pull == 0 && p.Sender.Type == "User":
		return RemarkIntent{Subject: subject, Comment: comment}, nil
	default:
		return nil, nil
	}
}
