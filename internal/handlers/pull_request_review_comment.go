package handlers

import (
	"encoding/json"
	"fmt"

	"github.com/org/ralph-action/internal/store"
)

func reviewCommentActions() []string { return []string{"created", "edited", "deleted"} }

type reviewCommentPayload struct {
	common

	PullRequest pullPayload `json:"pull_request"`
	Comment     struct {
		commentPayload

		NodeID    string `json:"node_id"`
		ReviewID  int64  `json:"pull_request_review_id"`
		ReplyTo   int64  `json:"in_reply_to_id"`
		Path      string `json:"path"`
		Line      int    `json:"line"`       // null where it is outdated
		StartLine int    `json:"start_line"` // null where it is one line
		DiffHunk  string `json:"diff_hunk"`
	} `json:"comment"`
}

// ReviewCommentSource names a comment on a line as the source of an input.
func ReviewCommentSource(id int64) string { return fmt.Sprintf("review_comment:%d", id) }

// reviewComment decodes the pull_request_review_comment event.
func (d *Decoder) reviewComment(payload []byte) (Intent, error) {
	var p reviewCommentPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	var r required
	p.PullRequest.check(&r)
	r.need(p.Comment.ID > 0, "comment.id")
	p.common.check(&r)
	if err := r.err(); err != nil {
		return nil, err
	}
	c, comment := p.Comment, p.Comment.comment()
	subject, source := p.ofPull(p.PullRequest), ReviewCommentSource(c.ID)
	switch {
	case comment.App != 0 && comment.App == d.App:
		return nil, nil
	case p.Action == "edited", p.Action == "deleted":
		return WithdrawIntent{Subject: subject, Source: source, Deleted: p.Action == "deleted"}, nil
	case p.Action != "created":
		return nil, nil
	}
	return FeedbackIntent{
		Subject: subject, Kind: store.InputReviewComment, Source: source, SourceID: c.ID,
		Text: comment.Body, Author: comment.Author, App: comment.App,
		Detail: &ReviewComment{
			ID: c.ID, NodeID: c.NodeID, ReviewID: c.ReviewID, ReplyTo: c.ReplyTo, Path: c.Path,
			Line: c.Line, StartLine: c.StartLine, DiffHunk: c.DiffHunk,
		},
	}, nil
}
