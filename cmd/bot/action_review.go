//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/ghaction"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/run"
)

// reviewed are the events of a review, as an App would get them: one for itself
// and one for each of its comments. Everything is read from GitHub; who passed the
// numbers on has no say in what they stand for.
func (a *actionStep) reviewed(ctx context.Context, repo *ghapp.Repo, event ghaction.Event) ([]ghaction.Event, error) {
	ctx = ghapp.WithPurpose(ctx, "review")
	pr, err := repo.PR(ctx, event.Issue)
	var review ghapp.Review
	if err == nil {
		review, err = repo.Review(ctx, event.Issue, event.Review)
	}
	if errors.Is(err, ghapp.ErrNotFound) {
		return nil, &run.UserError{Message: fmt.Sprintf("there is no review %d of pull request #%d", event.Review, event.Issue), Hint: "it may have been deleted; submit another", Err: err}
	}
	if err != nil {
		return nil, err
	}
	type object = map[string]any
	user := func(u ghapp.User) object { return object{"login": u.Login, "id": u.ID, "type": u.Type} }
	repository := object{"node_id": event.RepoNode, "name": a.env.Repo, "private": event.Private, "default_branch": event.DefaultBranch, "owner": object{"login": a.env.Owner}}
	payload := func(action, what string, value object, by ghapp.User) ([]byte, error) {
		b, err := json.Marshal(object{
			"action": action, what: value, "repository": repository, "installation": object{"id": ghaction.Installation}, "sender": user(by),
			"pull_request": object{
				"number": pr.Number, "node_id": pr.NodeID, "merged": pr.Merged, "updated_at": time.Now().UTC().Format(time.RFC3339),
				"head": object{"ref": pr.HeadRef, "repo": repository},
			},
		})
		if err != nil {
			return nil, fmt.Errorf("describe the review: %w", err)
		}
		return b, nil
	}

	body, err := payload("submitted", "review", object{
		"id": review.ID, "state": review.Verdict, "body": review.Body, "html_url": review.URL, "commit_id": review.CommitID, "user": user(review.Author),
	}, review.Author)
	if err != nil {
		return nil, err
	}
	event.Name, event.Action, event.Payload, event.Sender, event.SenderID = "pull_request_review", "submitted", body, review.Author.Login, review.Author.ID
	events := []ghaction.Event{event}
	for _, c := range review.Comments {
		value := object{
			"id": c.ID, "node_id": c.NodeID, "pull_request_review_id": review.ID, "body": c.Body, "html_url": c.URL, "path": c.Path, "side": c.Side,
			"commit_id": c.CommitID, "diff_hunk": c.Diff, "line": c.Line, "start_line": c.StartLine, "user": user(c.Author),
		}
		if c.ReplyTo != 0 {
			value["in_reply_to_id"] = c.ReplyTo
		}
		if event.Payload, err = payload("created", "comment", value, c.Author); err != nil {
			return nil, err
		}
		event.Name, event.Action, event.Sender, event.SenderID = "pull_request_review_comment", "created", c.Author.Login, c.Author.ID
		events = append(events, event)
	}
	return events, nil
}
