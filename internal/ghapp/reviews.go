package ghapp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"
)

// Review is what somebody submitted about a pull request, with what they said of
// its lines, in the words of GitHub's webhooks.
type Review struct {
	ID int64
	// Verdict is approved, changes_requested, commented, dismissed or pending.
	Verdict, Body, URL, CommitID string
	Author                       User
	Comments                     []ReviewComment
}

// ReviewComment is what a review says of a line, or of a file with Line 0.
type ReviewComment struct {
	ID                                            int64
	NodeID, Body, URL, Path, Side, CommitID, Diff string
	Line, StartLine                               int
	ReplyTo                                       int64
	Author                                        User
}

// Review reads a review of pull request n; ErrNotFound if there is none of that id
// on it.
func (r *Repo) Review(ctx context.Context, n int, id int64) (Review, error) {
	reviews, err := all(func(page github.ListOptions) ([]*github.PullRequestReview, *github.Response, error) {
		return r.reader.PullRequests.ListReviews(ctx, r.owner, r.name, n, &page)
	})
	if err != nil {
		return Review{}, wrap("list reviews", err)
	}
	i := slices.IndexFunc(reviews, func(got *github.PullRequestReview) bool { return got.GetID() == id })
	if i < 0 {
		return Review{}, fmt.Errorf("find review: %w", ErrNotFound)
	}
	got := reviews[i]
	review := Review{
		ID: id, Verdict: strings.ToLower(got.GetState()), Body: got.GetBody(), URL: got.GetHTMLURL(), CommitID: got.GetCommitID(), Author: user(got.GetUser()),
	}
	comments, err := all(func(page github.ListOptions) ([]*github.PullRequestComment, *github.Response, error) {
		return r.reader.PullRequests.ListComments(ctx, r.owner, r.name, n, &github.PullRequestListCommentsOptions{ListOptions: page})
	})
	if err != nil {
		return Review{}, wrap("list the comments of reviews", err)
	}
	for _, c := range comments {
		if c.GetPullRequestReviewID() == id {
			review.Comments = append(review.Comments, reviewComment(c))
		}
	}
	return review, nil
}

// all reads a list to its end, or to maxPages.
func all[T any](read func(github.ListOptions) ([]T, *github.Response, error)) (list []T, err error) {
	page := github.ListOptions{PerPage: pageSize}
	for range maxPages {
		some, resp, err := read(page)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
		if resp.NextPage == 0 {
			break
		}
		page.Page = resp.NextPage
	}
	return list, nil
}

func reviewComment(c *github.PullRequestComment) ReviewComment {
	return ReviewComment{
		ID: c.GetID(), NodeID: c.GetNodeID(), Body: c.GetBody(), URL: c.GetHTMLURL(), Path: c.GetPath(), Side: c.GetSide(), CommitID: c.GetCommitID(),
		Diff: c.GetDiffHunk(), Line: c.GetLine(), StartLine: c.GetStartLine(), ReplyTo: c.GetInReplyTo(), Author: user(c.GetUser()),
	}
}
