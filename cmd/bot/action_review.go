package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/ghaction"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
)

// maxUnheard bounds the reviews that one job takes in beside its own: each costs
// GitHub questions.
const maxUnheard = 50

// maxBefore bounds what is read along of the conversations that it takes in.
const maxBefore = 200

// reviewed are the events of the review that started the job, as an App would get
// them, and then those of the others that no job has heard: of several that wait
// for the job before them GitHub keeps the last only. earlier is what was said
// before in the same conversations. Everything is read from GitHub; who passed the
// numbers on has no say in what they stand for.
func (a *actionStep) reviewed(
	ctx context.Context, repo *ghapp.Repo, event ghaction.Event,
) (earlier, events []ghaction.Event, err error) {
	pr, reviews, own, err := a.readReviews(ctx, repo, event)
	if err != nil {
		return nil, nil, err
	}
	told := append([]ghapp.Review{reviews[own]}, unheard(reviews, event.Review, pr.Body)...)
	for _, review := range told {
		more, err := a.reviewEvents(event, pr, review)
		if err != nil {
			return nil, nil, err
		}
		events = append(events, more...)
	}
	for _, c := range before(reviews, told) {
		e, err := a.commentEvent(event, pr, c)
		if err != nil {
			return nil, nil, err
		}
		earlier = append(earlier, e)
	}
	return earlier, events, nil
}

// before is what was said, oldest first, in conversations that go on in some of the
// reviews, less what these say. What was edited since has no words: those that
// people have answered to are not known.
func before(reviews, some []ghapp.Review) (list []ghapp.ReviewComment) {
	last := map[int64]int64{} // what is told of a conversation at last
	told := map[int64]bool{}
	for _, r := range some {
		told[r.ID] = true
		for _, c := range r.Comments {
			last[c.Conversation()] = max(last[c.Conversation()], c.ID)
		}
	}
	for _, r := range reviews {
		for _, c := range r.Comments {
			if !told[r.ID] && c.ID < last[c.Conversation()] {
				if c.Edited {
					c.Body = ""
				}
				list = append(list, c)
			}
		}
	}
	slices.SortFunc(list, func(a, b ghapp.ReviewComment) int { return cmp.Compare(a.ID, b.ID) })
	return list[max(0, len(list)-maxBefore):]
}

// readReviews reads the pull request of a review that an event is about, and all
// its reviews; own is the place of that one among them.
func (a *actionStep) readReviews(
	ctx context.Context, repo *ghapp.Repo, event ghaction.Event,
) (pr ghapp.PR, reviews []ghapp.Review, own int, err error) {
	ctx = ghapp.WithPurpose(ctx, "review")
	if pr, err = repo.PR(ctx, event.Issue); err == nil {
		reviews, err = repo.Reviews(ctx, event.Issue)
	}
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
		return ghapp.PR{}, nil, 0, err
	}
	own = slices.IndexFunc(reviews, func(r ghapp.Review) bool { return r.ID == event.Review })
	if own < 0 {
		return ghapp.PR{}, nil, 0, &run.UserError{
			Message: fmt.Sprintf("there is no review %d of pull request #%d", event.Review, event.Issue),
			Hint:    "it may have been deleted; submit another", Err: err,
		}
	}
	return pr, reviews, own, nil
}

// unheard are the reviews beside the one given that no job has taken in, oldest
// first. What was taken in and became a task is listed in the pull request's
// description, of each conversation the last that was said in it; and as each job
// takes in all there is, nothing from before the newest of that is left. What became
// no task is looked at again, to the same end.
func unheard(reviews []ghapp.Review, own int64, description string) (list []ghapp.Review) {
	shown := publish.SaidIn(description)
	opened := map[int64]int64{} // conversations, by each comment in them
	for _, r := range reviews {
		for _, c := range r.Comments {
			opened[c.ID] = c.Conversation()
		}
	}
	heard := func(r ghapp.Review) bool {
		return slices.ContainsFunc(shown, func(s publish.Said) bool {
			return s.Review == r.ID || slices.ContainsFunc(r.Comments, func(c ghapp.ReviewComment) bool {
				return c.Conversation() == opened[s.Comment] && c.ID <= s.Comment
			})
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
	itself, err := a.pullEvent(event, pr, "pull_request_review", "submitted", "review", object{
		"id": review.ID, "state": review.Verdict, "body": review.Body, "html_url": review.URL, "commit_id": review.CommitID,
		"user": userObject(review.Author),
	}, review.Author)
	if err != nil {
		return nil, err
	}
	events := []ghaction.Event{itself}
	for _, c := range review.Comments {
		e, err := a.commentEvent(event, pr, c)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// commentEvent is the event of a comment on a line.
func (a *actionStep) commentEvent(event ghaction.Event, pr ghapp.PR, c ghapp.ReviewComment) (ghaction.Event, error) {
	value := object{
		"id": c.ID, "node_id": c.NodeID, "pull_request_review_id": c.ReviewID, "body": c.Body, "html_url": c.URL,
		"path": c.Path, "diff_hunk": c.Diff, "line": c.Line, "start_line": c.StartLine, "user": userObject(c.Author),
	}
	if c.ReplyTo != 0 {
		value["in_reply_to_id"] = c.ReplyTo
	}
	return a.pullEvent(event, pr, "pull_request_review_comment", "created", "comment", value, c.Author)
}

type object = map[string]any

func userObject(u ghapp.User) object { return object{"login": u.Login, "id": u.ID, "type": u.Type} }

// pullEvent is an event about a pull request, as an App would get it: what of it
// is value, and by is who made it happen. The rest is that of the job's.
func (a *actionStep) pullEvent(
	event ghaction.Event, pr ghapp.PR, name, action, what string, value object, by ghapp.User,
) (ghaction.Event, error) {
	repository := object{
		"node_id": event.RepoNode, "name": a.env.Repo, "private": event.Private, "default_branch": event.DefaultBranch,
		"owner": object{"login": a.env.Owner},
	}
	payload, err := json.Marshal(object{
		"action": action, what: value, "repository": repository, "installation": object{"id": ghaction.Installation},
		"sender": userObject(by),
		"pull_request": object{
			"number": pr.Number, "node_id": pr.NodeID, "merged": pr.Merged, "updated_at": time.Now().UTC().Format(time.RFC3339),
			"head": object{"ref": pr.HeadRef, "repo": repository},
		},
	})
	if err != nil {
		return ghaction.Event{}, fmt.Errorf("describe the review: %w", err)
	}
	event.Name, event.Action, event.Payload, event.Sender, event.SenderID = name, action, payload, by.Login, by.ID
	return event, nil
}
