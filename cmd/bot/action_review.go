//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/ghaction"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/progress/island"
	"github.com/org/ralph-action/internal/run"
)

// maxUnheard bounds the reviews that one job takes in beside its own: each costs
// GitHub questions.
const maxUnheard = 50

// reviewed are the events of the review that started the job, as an App would get
// them, and then those of the others that no job has heard: of several that wait
// for the job before them GitHub keeps the last only. Everything is read from
// GitHub; who passed the numbers on has no say in what they stand for.
func (a *actionStep) reviewed(ctx context.Context, repo *ghapp.Repo, event ghaction.Event) ([]ghaction.Event, error) {
	pr, reviews, own, err := a.readReviews(ctx, repo, event)
	if err != nil {
		return nil, err
	}
	events, err := a.reviewEvents(event, pr, reviews[own])
	if err != nil {
		return nil, err
	}
	for _, other := range unheard(reviews, event.Review, pr.Body) {
		more, err := a.reviewEvents(event, pr, other)
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	return events, nil
}

// readReviews reads the pull request of a review that an event is about, and all
// its reviews; own is the place of that one among them.
func (a *actionStep) readReviews(ctx context.Context, repo *ghapp.Repo, event ghaction.Event) (pr ghapp.PR, reviews []ghapp.Review, own int, err error) {
	ctx = ghapp.WithPurpose(ctx, "review")
	if pr, err = repo.PR(ctx, event.Issue); err == nil {
		reviews, err = repo.Reviews(ctx, event.Issue)
	}
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
		return ghapp.PR{}, nil, 0, err
	}
	own = slices.IndexFunc(reviews, func(r ghapp.Review) bool { return r.ID == event.Review })
	if own < 0 {
		return ghapp.PR{}, nil, 0, &run.UserError{Message: fmt.Sprintf("there is no review %d of pull request #%d", event.Review, event.Issue), Hint: "it may have been deleted; submit another", Err: err}
	}
	return pr, reviews, own, nil
}

// unheard are the reviews beside the one given that no job has taken in, oldest
// first. What was taken in and became a task is listed in the pull request's
// description; and as each job takes in all there is, nothing from before the
// newest of that is left. What became no task is looked at again, to the same end.
func unheard(reviews []ghapp.Review, own int64, description string) (list []ghapp.Review) {
	shown, err := island.Parse(description)
	if err != nil {
		shown.Said = nil // nothing is known
	}
	heard := func(r ghapp.Review) bool {
		return slices.ContainsFunc(shown.Said, func(s island.Said) bool {
			return s.Review == r.ID || slices.ContainsFunc(r.Comments, func(c ghapp.ReviewComment) bool { return c.ID == s.Comment })
		})
	}
	var since time.Time
	for _, r := range reviews {
		if r.ID != own && heard(r) {
			since = r.SubmittedAt
		}
	}
	for _, r := range reviews {
		// GitHub tells whole seconds.
		if r.ID != own && !r.SubmittedAt.Before(since) && !heard(r) && r.Author.Type == "User" && r.Verdict != "dismissed" {
			list = append(list, r)
		}
	}
	return list[max(0, len(list)-maxUnheard):]
}

// reviewEvents are the events of a review: one for itself and one for each of its
// comments.
func (a *actionStep) reviewEvents(event ghaction.Event, pr ghapp.PR, review ghapp.Review) ([]ghaction.Event, error) {
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
