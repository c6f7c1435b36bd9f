package action

import (
	"context"
	"fmt"
	"slices"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish"
)

// maxConversations bounds the conversations that one job takes in: each costs GitHub questions.
const maxConversations = 50

// waiting are the events of what stands unanswered in the open conversations of the pull request,
// whichever review opened them: the event tells of one review and of none of its comments. earlier
// is what was said in them before our last answer, or before what the pull request lists as taken
// up; of that, what was edited since has no words.
func waiting(ctx context.Context, repo *ghapp.Repo, ev event) (earlier, fresh []event, err error) {
	ctx = ghapp.WithPurpose(ctx, "review")
	pr, err := repo.PR(ctx, ev.pull)
	if err != nil {
		return nil, nil, err
	}
	reviews, err := repo.Reviews(ctx, ev.pull)
	if err != nil {
		return nil, nil, err
	}
	conv, err := repo.Conversation(ctx, ev.pull)
	if err != nil {
		return nil, nil, err
	}
	said := map[int64]ghapp.ReviewComment{}
	for _, r := range reviews {
		for _, c := range r.Comments {
			said[c.ID] = c
		}
	}
	listed := map[int64]bool{}
	for _, f := range publish.SaidIn(pr.Body) {
		listed[f.Comment] = true
	}
	open := slices.DeleteFunc(conv.Threads, func(t ghapp.Thread) bool { return t.Resolved })
	for _, t := range open[max(0, len(open)-maxConversations):] {
		known := -1
		for i, id := range t.Comments {
			ours, err := repo.Ours(ctx, said[id].Author)
			if err != nil {
				return nil, nil, err
			}
			if ours || listed[id] {
				known = i
			}
		}
		if known == len(t.Comments)-1 {
			continue // nobody has said anything since
		}
		for i, id := range t.Comments {
			c, ok := said[id]
			if !ok {
				continue
			}
			list := &fresh
			if i <= known {
				list = &earlier
				if c.Edited {
					c.Body = ""
				}
			}
			e, err := ev.comment(c)
			if err != nil {
				return nil, nil, err
			}
			*list = append(*list, e)
		}
	}
	return earlier, fresh, nil
}

// comment is the event of a comment on lines.
func (e event) comment(c ghapp.ReviewComment) (event, error) {
	user := object{"login": c.Author.Login, "id": c.Author.ID, "type": c.Author.Type}
	comment := object{
		"id": c.ID, "node_id": c.NodeID, "pull_request_review_id": c.ReviewID, "body": c.Body, "html_url": c.URL,
		"path": c.Path, "diff_hunk": c.Diff, "line": c.Line, "start_line": c.StartLine, "user": user,
	}
	if c.ReplyTo != 0 {
		comment["in_reply_to_id"] = c.ReplyTo
	}
	return e.as("pull_request_review_comment", "created", object{"comment": comment, "sender": user})
}

// takeIn has the run hear what waits in the conversations of the event's pull request.
func (j *job) takeIn(ctx context.Context, repo *ghapp.Repo, ev event) error {
	var earlier, fresh []event
	err := retry(ctx, func() (err error) {
		earlier, fresh, err = waiting(ctx, repo, ev)
		return err
	})
	if err != nil {
		return err
	}
	for i, e := range earlier {
		if err := j.readAlong(ctx, fmt.Sprintf("earlier-%d", i+1), e); err != nil {
			return err
		}
	}
	for i, e := range fresh {
		if _, err := j.deliver(ctx, fmt.Sprintf("comment-%d", i+1), e); err != nil {
			return err
		}
	}
	return nil
}
