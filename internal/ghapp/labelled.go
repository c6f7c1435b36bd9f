package ghapp

import (
	"context"
	"slices"
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
	list, err := all("list labelled issues", func(page github.ListOptions) ([]*github.Issue, *github.Response, error) {
		return r.reader.Issues.ListByRepo(ctx, r.owner, r.name, &github.IssueListByRepoOptions{
			State: "open", Labels: []string{label}, Sort: "created", Direction: "asc", ListOptions: page,
		})
	})
	var out []LabelledIssue
	for _, i := range list {
		if !i.IsPullRequest() {
			out = append(out, LabelledIssue{Issue: issue(i), Author: person(i.GetUser())})
		}
	}
	return out, err
}

// LabelledBy says who put a label on an issue last, and when. Nobody is told of
// where the account is gone; ErrNotFound says that the label was never put on.
func (r *Repo) LabelledBy(ctx context.Context, n int, label string) (by Person, at time.Time, err error) {
	list, err := all("list events of an issue", func(page github.ListOptions) ([]*github.IssueEvent, *github.Response, error) {
		return r.reader.Issues.ListIssueEvents(ctx, r.owner, r.name, n, &page)
	})
	if err != nil {
		return Person{}, time.Time{}, err
	}
	for _, e := range slices.Backward(list) { // newest first
		if e.GetEvent() == "labeled" && strings.EqualFold(e.GetLabel().GetName(), label) {
			return person(e.GetActor()), e.GetCreatedAt().UTC(), nil
		}
	}
	return Person{}, time.Time{}, &Error{Op: "find who put a label on", Class: NotFound}
}
