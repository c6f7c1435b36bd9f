package ghapp

import (
	"context"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// Person is somebody with an account.
type Person struct {
	Login string
	ID    int64
	// Type is GitHub's: "User", "Bot" or "Organization".
	Type string
}

func person(u *github.User) Person {
	return Person{Login: u.GetLogin(), ID: u.GetID(), Type: u.GetType()}
}

// LabelledIssue is an open issue that has a label.
type LabelledIssue struct {
	Issue

	Author Person
}

// Labelled lists the open issues that have a label, those that were made first
// first, as far as we look.
func (r *Repo) Labelled(ctx context.Context, label string) ([]LabelledIssue, error) {
	var out []LabelledIssue
	opts := &github.IssueListByRepoOptions{
		State: "open", Labels: []string{label}, Sort: "created", Direction: "asc",
		ListOptions: github.ListOptions{PerPage: pageSize},
	}
	for range maxPages {
		page, resp, err := r.reader.Issues.ListByRepo(ctx, r.owner, r.name, opts)
		if err != nil {
			return nil, wrap("list labelled issues", err)
		}
		for _, i := range page {
			if !i.IsPullRequest() {
				out = append(out, LabelledIssue{Issue: issue(i), Author: person(i.GetUser())})
			}
		}
		if resp.NextPage == 0 {
			break
		}
		opts.Page = resp.NextPage
	}
	return out, nil
}

// LabelledBy says who put a label on an issue last, and when. Nobody is told of
// where the account is gone; ErrNotFound says that the label was never put on.
func (r *Repo) LabelledBy(ctx context.Context, n int, label string) (by Person, at time.Time, err error) {
	found := false
	opts := &github.ListOptions{PerPage: pageSize}
	for range maxPages {
		page, resp, err := r.reader.Issues.ListIssueEvents(ctx, r.owner, r.name, n, opts)
		if err != nil {
			return Person{}, time.Time{}, wrap("list events of an issue", err)
		}
		for _, e := range page { // oldest first
			if e.GetEvent() == "labeled" && strings.EqualFold(e.GetLabel().GetName(), label) {
				by, at, found = person(e.GetActor()), e.GetCreatedAt().UTC(), true
			}
		}
		if resp.NextPage == 0 {
			break
		}
		opts.Page = resp.NextPage
	}
	if !found {
		return Person{}, time.Time{}, &Error{Op: "find who put a label on", Class: NotFound}
	}
	return by, at, nil
}
