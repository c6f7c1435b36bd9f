package ghapp

import (
	"context"

	"github.com/google/go-github/v60/github"
)

// Reactions that say what becomes of a comment.
const (
	ReactionSeen   = "eyes"
	ReactionYes    = "+1"
	ReactionNo     = "-1"
	ReactionStarts = "rocket"
)

// ReactToComment adds a reaction to a comment on an issue or pull request.
// Adding it twice is adding it once.
func (r *Repo) ReactToComment(ctx context.Context, comment int64, content string) error {
	_, _, err := r.writer.Reactions.CreateIssueCommentReaction(ctx, r.owner, r.name, comment, content)
	return wrap("react to comment", err)
}

// ReactedToComment says whether we have added a reaction to a comment on an issue or pull request.
func (r *Repo) ReactedToComment(ctx context.Context, comment int64) (bool, error) {
	return r.reacted(ctx, "", func(page github.ListOptions) ([]*github.Reaction, *github.Response, error) {
		return r.reader.Reactions.ListIssueCommentReactions(ctx, r.owner, r.name, comment, &page)
	})
}

// ReactTo adds a reaction to whatever has the node id: reviews have no other
// address. Adding it twice is adding it once.
func (r *Repo) ReactTo(ctx context.Context, node, content string) error {
	names := map[string]string{
		ReactionSeen: "EYES", ReactionYes: "THUMBS_UP", ReactionNo: "THUMBS_DOWN", ReactionStarts: "ROCKET",
	}
	return r.mutate(ctx, "react in a review", "AddReaction", "clientMutationId",
		map[string]any{"subjectId": node, "content": names[content]}, nil)
}

// CommentByID reads one comment on an issue or pull request.
func (r *Repo) CommentByID(ctx context.Context, id int64) (Comment, error) {
	c, _, err := r.reader.Issues.GetComment(ctx, r.owner, r.name, id)
	if err != nil {
		return Comment{}, wrap("read comment", err)
	}
	return comment(c), nil
}

func comment(c *github.IssueComment) Comment {
	return Comment{
		ID: c.GetID(), NodeID: c.GetNodeID(), URL: c.GetHTMLURL(), Body: c.GetBody(), Author: user(c.GetUser()),
		CreatedAt: c.GetCreatedAt().Time, Edited: !c.GetUpdatedAt().Equal(c.GetCreatedAt()),
	}
}
