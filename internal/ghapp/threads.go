package ghapp

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-github/v60/github"
)

const (
	// maxThreads bounds how many conversations of a pull request are read, in
	// pages of threadPage. A conversation's first threadComments are.
	maxThreads     = 500
	threadPage     = 100
	threadComments = 100
	// maxFailedChecks bounds the failed checks of one commit that are told of.
	maxFailedChecks = 10
)

// Conversation is a pull request with the conversations on its lines.
type Conversation struct {
	// State is "OPEN", "CLOSED" or "MERGED".
	State   string
	HeadOID string
	// Threads are the conversations, oldest first; those beyond the 500th are left
	// out.
	Threads []Thread
}

// Thread is a conversation on lines of a pull request.
type Thread struct {
	// ID is its node id.
	ID       string
	Resolved bool
	// Outdated: the lines were changed since.
	Outdated bool
	Path     string
	// Comments are the numeric ids of what was said, oldest first.
	Comments []int64
}

// Conversation reads the state of pull request n and its conversations, 100 a
// call.
func (r *Repo) Conversation(ctx context.Context, n int) (Conversation, error) {
	const op = "read conversations"
	const query = `query($owner: String!, $name: String!, $number: Int!, $threads: Int!, $comments: Int!, $after: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    state headRefOid
    reviewThreads(first: $threads, after: $after) {
      pageInfo { hasNextPage endCursor }
      nodes { id isResolved isOutdated path comments(first: $comments) { nodes { databaseId } } }
    }
  } }
}`
	var out Conversation
	var after *string
	for {
		var data struct {
			Repository struct {
				PullRequest struct {
					State         string `json:"state"`
					HeadRefOid    string `json:"headRefOid"`
					ReviewThreads struct {
						PageInfo struct {
							HasNextPage bool    `json:"hasNextPage"`
							EndCursor   *string `json:"endCursor"`
						} `json:"pageInfo"`
						Nodes []threadNode `json:"nodes"`
					} `json:"reviewThreads"`
				} `json:"pullRequest"`
			} `json:"repository"`
		}
		vars := map[string]any{
			"owner": r.owner, "name": r.name, "number": n, "threads": threadPage, "comments": threadComments, "after": after,
		}
		if err := r.graphQL(ctx, r.reader.Client(), op, query, vars, &data); err != nil {
			return Conversation{}, err
		}
		pull := data.Repository.PullRequest
		out.State, out.HeadOID = pull.State, pull.HeadRefOid
		for _, node := range pull.ReviewThreads.Nodes {
			out.Threads = append(out.Threads, node.thread())
		}
		page := pull.ReviewThreads.PageInfo
		if !page.HasNextPage || page.EndCursor == nil || len(out.Threads) >= maxThreads {
			return out, nil
		}
		after = page.EndCursor
	}
}

// threadNode is a conversation as GraphQL gives it.
type threadNode struct {
	ID         string `json:"id"`
	IsResolved bool   `json:"isResolved"`
	IsOutdated bool   `json:"isOutdated"`
	Path       string `json:"path"`
	Comments   struct {
		Nodes []struct {
			DatabaseID int64 `json:"databaseId"`
		} `json:"nodes"`
	} `json:"comments"`
}

func (n threadNode) thread() Thread {
	t := Thread{ID: n.ID, Resolved: n.IsResolved, Outdated: n.IsOutdated, Path: n.Path}
	for _, c := range n.Comments.Nodes {
		t.Comments = append(t.Comments, c.DatabaseID)
	}
	return t
}

// ReplyInThread answers in a conversation of pull request n that the comment
// opened.
func (r *Repo) ReplyInThread(
	ctx context.Context, n int, comment int64, body string,
) (id int64, replyURL string, err error) {
	made, _, err := r.writer.PullRequests.CreateCommentInReplyTo(ctx, r.owner, r.name, n, body, comment)
	if err != nil {
		return 0, "", wrap("reply in a conversation", err)
	}
	return made.GetID(), made.GetHTMLURL(), nil
}

// FindReply gives the App's own comment on a line of pull request n that ends in
// marker, as FindComment does on an issue. None is ErrNotFound.
func (r *Repo) FindReply(ctx context.Context, n int, marker string) (ReviewComment, error) {
	bot, err := r.BotID(ctx)
	if err != nil {
		return ReviewComment{}, err
	}
	said, err := r.CommentsOnLines(ctx, n)
	if err != nil {
		return ReviewComment{}, err
	}
	for _, c := range said {
		if c.Author.ID == bot && endsIn(c.Body, marker) {
			return c, nil
		}
	}
	return ReviewComment{}, fmt.Errorf("find own reply: %w", ErrNotFound)
}

// CommentsOnLines lists what was said on lines of pull request n, oldest first.
func (r *Repo) CommentsOnLines(ctx context.Context, n int) ([]ReviewComment, error) {
	list, err := all("list comments on lines", func(page github.ListOptions) ([]*github.PullRequestComment, *github.Response, error) {
		return r.reader.PullRequests.ListComments(ctx, r.owner, r.name, n,
			&github.PullRequestListCommentsOptions{ListOptions: page})
	})
	said := make([]ReviewComment, 0, len(list))
	for _, c := range list {
		said = append(said, ReviewComment{
			ID: c.GetID(), ReviewID: c.GetPullRequestReviewID(), NodeID: c.GetNodeID(), Body: c.GetBody(), URL: c.GetHTMLURL(),
			Path: c.GetPath(), Diff: c.GetDiffHunk(), Line: c.GetLine(), StartLine: c.GetStartLine(), ReplyTo: c.GetInReplyTo(),
			Author: user(c.GetUser()), Edited: c.GetUpdatedAt().After(c.GetCreatedAt().Time),
		})
	}
	return said, err
}

// ResolveThread resolves a conversation. GitHub does not let every App do that
// (Forbidden).
func (r *Repo) ResolveThread(ctx context.Context, id string) error {
	return r.mutate(ctx, "resolve conversation", "ResolveReviewThread", "thread { isResolved }",
		map[string]any{"threadId": id}, nil)
}

// FailedCheck is a check of another App that failed. Its texts are the App's,
// and what it quotes may be anybody's.
type FailedCheck struct {
	Name, URL, Conclusion, Title, Summary, Text string
}

// FailedChecks lists the newest checks of other Apps on a commit that failed or
// timed out, ten at most.
func (r *Repo) FailedChecks(ctx context.Context, oid string) ([]FailedCheck, error) {
	completed := "completed"
	list, err := all("list checks", func(page github.ListOptions) ([]*github.CheckRun, *github.Response, error) {
		got, resp, err := r.checks.Checks.ListCheckRunsForRef(ctx, r.owner, r.name, oid,
			&github.ListCheckRunsOptions{Status: &completed, ListOptions: page})
		if err != nil {
			return nil, resp, err
		}
		return got.CheckRuns, resp, nil
	})
	var out []FailedCheck
	for _, c := range list {
		failed := c.GetConclusion() == "failure" || c.GetConclusion() == "timed_out"
		if !failed || c.GetApp().GetID() == r.app.appID || len(out) == maxFailedChecks {
			continue
		}
		said := c.GetOutput()
		out = append(out, FailedCheck{
			c.GetName(), c.GetHTMLURL(), c.GetConclusion(), said.GetTitle(), said.GetSummary(), said.GetText(),
		})
	}
	return out, err
}

// Denied says whether err is GitHub's word that the App may not do something, or
// that it is not there: what repeating would not change.
func Denied(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Class == Forbidden || e.Class == NotFound || e.Class == Invalid)
}
