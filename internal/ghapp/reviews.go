package ghapp

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// Review is what somebody submitted about a pull request, with what they said of
// its lines, in the words of GitHub's webhooks.
type Review struct {
	ID int64
	// Verdict is approved, changes_requested, commented, dismissed or pending.
	Verdict, Body, URL, CommitID string
	Author                       User
	SubmittedAt                  time.Time
	Comments                     []ReviewComment
}

// ReviewComment is what a review says of a line, or of a file with Line 0.
type ReviewComment struct {
	ID, ReviewID                  int64
	NodeID, Body, URL, Path, Diff string
	Line, StartLine               int
	// ReplyTo is the comment that opened the conversation, 0 of that one itself.
	ReplyTo int64
	Author  User
	// Edited: it does not say what it said at first, as far as whole seconds tell.
	Edited bool
}

// Reviews reads the reviews of pull request n that were submitted, oldest first.
func (r *Repo) Reviews(ctx context.Context, n int) ([]Review, error) {
	got, err := all("list reviews", func(page github.ListOptions) ([]*github.PullRequestReview, *github.Response, error) {
		return r.reader.PullRequests.ListReviews(ctx, r.owner, r.name, n, &page)
	})
	if err != nil {
		return nil, err
	}
	comments, err := r.CommentsOnLines(ctx, n)
	if err != nil {
		return nil, err
	}
	of := map[int64][]ReviewComment{}
	for _, c := range comments {
		of[c.ReviewID] = append(of[c.ReviewID], c)
	}
	var reviews []Review
	for _, rv := range got {
		if rv.GetSubmittedAt().IsZero() {
			continue // somebody is at it
		}
		reviews = append(reviews, Review{
			ID: rv.GetID(), Verdict: strings.ToLower(rv.GetState()), Body: rv.GetBody(), URL: rv.GetHTMLURL(),
			CommitID: rv.GetCommitID(),
			Author:   user(rv.GetUser()), SubmittedAt: rv.GetSubmittedAt().Time, Comments: of[rv.GetID()],
		})
	}
	slices.SortStableFunc(reviews, func(a, b Review) int { return a.SubmittedAt.Compare(b.SubmittedAt) })
	return reviews, nil
}

// all reads a list to its end, or to maxPages.
func all[T any](
	op string, read func(github.ListOptions) ([]T, *github.Response, error),
) (list []T, err error) {
	page := github.ListOptions{PerPage: pageSize}
	for range maxPages {
		some, resp, err := read(page)
		if err != nil {
			return nil, wrap(op, err)
		}
		list = append(list, some...)
		if resp.NextPage == 0 {
			break
		}
		page.Page = resp.NextPage
	}
	return list, nil
}

// Conversation is the comment that opened the conversation which this one is in.
func (c ReviewComment) Conversation() int64 { return cmp.Or(c.ReplyTo, c.ID) }
