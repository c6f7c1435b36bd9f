package handlers

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/store"
)

// reviewActions: a review that is edited or dismissed is not what was submitted.
func reviewActions() []string { return []string{"submitted", "edited", "dismissed"} }

type reviewPayload struct {
	common

	PullRequest pullPayload `json:"pull_request"`
	Review      struct {
		ID       int64       `json:"id"`
		NodeID   string      `json:"node_id"`
		State    string      `json:"state"`
		Body     string      `json:"body"` // null where there is none
		CommitID string      `json:"commit_id"`
		User     userPayload `json:"user"`
		App      *appPayload `json:"performed_via_github_app"`
	} `json:"review"`
}

// ReviewSource names a review as the source of an input.
func ReviewSource(id int64) string { return fmt.Sprintf("%s%d", reviewSource, id) }

const reviewSource = "review:"

// ReviewOf is the review that a source names, 0 where it names something else.
func ReviewOf(source string) int64 {
	digits, ok := strings.CutPrefix(source, reviewSource)
	id, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || id < 0 {
		return 0
	}
	return id
}

// review decodes the pull_request_review event. GitHub sends one for the review
// and one pull_request_review_comment for each of its lines, in any order.
func (d *Decoder) review(payload []byte) (Intent, error) {
	var p reviewPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	var r required
	p.PullRequest.check(&r)
	r.need(p.Review.ID > 0, "review.id")
	p.common.check(&r)
	if err := r.err(); err != nil {
		return nil, err
	}
	subject, source := p.ofPull(p.PullRequest), ReviewSource(p.Review.ID)
	var app int64
	if p.Review.App != nil {
		app = p.Review.App.ID
	}
	switch {
	case app != 0 && app == d.App:
		return nil, nil
	case p.Action == "edited", p.Action == "dismissed":
		return WithdrawIntent{Subject: subject, Source: source, Deleted: p.Action == "dismissed"}, nil
	case p.Action != "submitted":
		return nil, nil
	}
	return FeedbackIntent{
		Subject: subject, Kind: store.InputReview, Source: source, SourceID: p.Review.ID,
		Text: p.Review.Body, Author: p.Review.User.author(), App: app,
		Detail: &Review{ID: p.Review.ID, NodeID: p.Review.NodeID, Verdict: p.Review.State, CommitID: p.Review.CommitID},
	}, nil
}
