package ghapp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// PR is a pull request.
type PR struct {
	Number                   int
	NodeID, Title, Body, URL string
	// State is "open" or "closed"; Merged tells the two kinds of closed apart.
	// Listings do not fill Merged.
	State         string
	Draft, Merged bool
	HeadRef       string
	HeadOID       string
	BaseRef       string
	Author        User
	// UpdatedAt is when it was last changed, by GitHub's clock.
	UpdatedAt time.Time
}

// PRInput is a pull request to open within the repository.
type PRInput struct {
	Title, Head, Base, Body string
	Draft                   bool
}

// PR reads pull request n.
func (r *Repo) PR(ctx context.Context, n int) (PR, error) {
	p, _, err := r.reader.PullRequests.Get(ctx, r.owner, r.name, n)
	if err != nil {
		return PR{}, wrap("read pull request", err)
	}
	return r.pullRequest(p), nil
}

// FindPR gives the open pull request from branch head of this repository that
// the App itself, or one of its kin, opened. None is ErrNotFound: a closed one is history, and
// somebody else's is not ours.
func (r *Repo) FindPR(ctx context.Context, head string) (PR, error) {
	all, _, err := r.reader.PullRequests.List(ctx, r.owner, r.name, &github.PullRequestListOptions{
		State: "open", Head: r.owner + ":" + head, ListOptions: github.ListOptions{PerPage: pageSize},
	})
	if err != nil {
		return PR{}, wrap("list pull requests", err)
	}
	for _, p := range all {
		// GitHub ignores a head it cannot parse and lists everything.
		if p.GetHead().GetRef() != head {
			continue
		}
		if ours, err := r.Ours(ctx, user(p.GetUser())); err != nil || ours {
			return r.pullRequest(p), err
		}
	}
	return PR{}, fmt.Errorf("find own pull request: %w", ErrNotFound)
}

// MergedPRs gives the pull requests of the newest page of closed ones that were merged into
// the default branch and that the App itself, or one of its kin, opened: those changed last
// come first.
func (r *Repo) MergedPRs(ctx context.Context) ([]PR, error) {
	all, _, err := r.reader.PullRequests.List(ctx, r.owner, r.name, &github.PullRequestListOptions{
		State: "closed", Sort: "updated", Direction: "desc", ListOptions: github.ListOptions{PerPage: pageSize},
	})
	if err != nil {
		return nil, wrap("list merged pull requests", err)
	}
	var merged []PR
	for _, p := range all {
		if p.MergedAt == nil || p.GetBase().GetRef() != p.GetBase().GetRepo().GetDefaultBranch() {
			continue
		}
		ours, err := r.Ours(ctx, user(p.GetUser()))
		if err != nil {
			return nil, err
		}
		if ours {
			merged = append(merged, r.pullRequest(p))
		}
	}
	return merged, nil
}

// CreatePR opens a pull request. Where there is one from that branch already,
// it is returned if the App opened it, and ErrExists if not. Where the plan has
// no drafts, it is opened as a normal one.
func (r *Repo) CreatePR(ctx context.Context, in PRInput) (PR, error) {
	p, _, err := r.writer.PullRequests.Create(ctx, r.owner, r.name, &github.NewPullRequest{
		Title: &in.Title, Head: &in.Head, Base: &in.Base, Body: &in.Body, Draft: &in.Draft,
	})
	if err == nil {
		return r.pullRequest(p), nil
	}
	err = wrap("open pull request", err)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Class != Invalid {
		return PR{}, err
	}
	switch lower := strings.ToLower(e.Message); {
	case in.Draft && strings.Contains(lower, "draft pull requests are not supported"):
		in.Draft = false
		return r.CreatePR(ctx, in)
	case strings.Contains(lower, "already exists"):
		found, findErr := r.FindPR(ctx, in.Head)
		if errors.Is(findErr, ErrNotFound) {
			return PR{}, fmt.Errorf("%w: %w", ErrExists, err)
		}
		return found, findErr
	default:
		return PR{}, err
	}
}

// MayOpenPRs asks whether pull requests may be opened, by one that GitHub can but refuse: of a branch into itself. It
// gives the refusal where it is of who asks, see Refused and ActionsRefused; any other answer says nothing against it.
func (r *Repo) MayOpenPRs(ctx context.Context, branch string) error {
	title := "May pull requests be opened?"
	_, _, err := r.writer.PullRequests.Create(ctx, r.owner, r.name,
		&github.NewPullRequest{Title: &title, Head: &branch, Base: &branch})
	err = wrap("open pull request", err)
	if e, ok := errors.AsType[*Error](err); ok && e.Class == Forbidden {
		return err
	}
	return nil
}

// UpdatePR changes the description. GitHub refuses one over 65,536 characters.
func (r *Repo) UpdatePR(ctx context.Context, n int, body string) error {
	_, _, err := r.writer.PullRequests.Edit(ctx, r.owner, r.name, n, &github.PullRequest{Body: &body})
	return wrap("update pull request", err)
}

// MarkReady takes a pull request out of draft. One that is not a draft is
// refused by GitHub (Invalid).
func (r *Repo) MarkReady(ctx context.Context, nodeID string) error {
	return r.mutate(ctx, "mark pull request ready", "MarkPullRequestReadyForReview", "pullRequest { isDraft }",
		map[string]any{"pullRequestId": nodeID}, nil)
}

func (r *Repo) pullRequest(p *github.PullRequest) PR {
	return PR{
		Number: p.GetNumber(), NodeID: p.GetNodeID(), Title: p.GetTitle(), Body: p.GetBody(), URL: p.GetHTMLURL(),
		State: p.GetState(), Draft: p.GetDraft(), Merged: p.GetMerged(),
		HeadRef: p.GetHead().GetRef(), HeadOID: p.GetHead().GetSHA(), BaseRef: p.GetBase().GetRef(),
		Author: user(p.GetUser()), UpdatedAt: p.GetUpdatedAt().UTC(),
	}
}
