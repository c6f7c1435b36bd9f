package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/store"
)

// Bounds on the sub-issues that one label has worked. GitHub has 100 for an issue, in at
// most eight generations.
const (
	maxMembers     = 300
	maxGenerations = 8
)

// family are the sub-issues of an issue that has open ones, nil where it has none: the
// label that a person puts on an issue is on them, too, as they read then. One that has
// open sub-issues itself stands for those. A job works one issue, and no family.
func (r *Receiver) family(ctx context.Context, repo *ghapp.Repo, d store.Delivery, w RunRequest) (*loop.Family, error) {
	if r.ByJob {
		return nil, nil
	}
	f := &loop.Family{Stacked: w.Plan.Stacked}
	known := map[string]bool{w.IssueNode: true}
	if err := r.gather(ghapp.WithPurpose(ctx, "family"), repo, d, w, f, known, w.Issue, 1); err != nil {
		return nil, err
	}
	for _, m := range f.Members {
		if m.Skipped != publish.MemberClosed {
			return f, nil
		}
	}
	return nil, nil
}

// gather adds the sub-issues of an issue to a family.
func (r *Receiver) gather(ctx context.Context, repo *ghapp.Repo, d store.Delivery, w RunRequest, f *loop.Family,
	known map[string]bool, of, generation int) error {
	subs, err := repo.SubIssues(ctx, of)
	if err != nil {
		return err
	}
	for _, sub := range subs {
		if known[sub.NodeID] || len(f.Members) == maxMembers {
			continue
		}
		known[sub.NodeID] = true
		here := strings.EqualFold(sub.Owner+"/"+sub.Repo, repo.FullName())
		if here && sub.State == "open" && sub.OpenSubIssues > 0 && generation < maxGenerations {
			if err := r.gather(ctx, repo, d, w, f, known, sub.Number, generation+1); err != nil {
				return err
			}
			continue
		}
		m := loop.Member{Name: fmt.Sprintf("#%d", sub.Number), Number: sub.Number, Node: sub.NodeID}
		p, planErr := plan.FromIssue(sub.Title, sub.Body)
		switch m.Text = p.SHA256; {
		case !here:
			m.Name, m.Skipped = fmt.Sprintf("%s/%s#%d", sub.Owner, sub.Repo, sub.Number), publish.MemberElsewhere
		case sub.State != "open":
			m.Skipped = publish.MemberClosed
		case planErr != nil:
			m.Skipped = publish.MemberEmpty
		case !w.At.IsZero() && sub.UpdatedAt.After(w.At):
			m.Skipped = publish.MemberChanged // nobody knows what it read like
		case w.SenderType == "Bot":
			author := handlers.Author{Login: sub.Author.Login, ID: sub.Author.ID, Type: sub.Author.Type}
			st, err := r.Authorizer.Standing(ctx, repo, d.ReceivedAt, w.Subject, author)
			if err != nil {
				return err
			}
			if st.Denied != "" {
				m.Skipped = publish.MemberAuthor
			}
		}
		f.Members = append(f.Members, m)
	}
	return nil
}

// Ready reads the text of a sub-issue whose turn has come into the run that it is to have.
// skipped says why it is not to have one: the text has to be the one that was approved.
func (r *Receiver) Ready(ctx context.Context, repo *ghapp.Repo, m loop.Member,
	w *RunRequest) (skipped string, err error) {
	issue, err := repo.Issue(ghapp.WithPurpose(ctx, "family"), m.Number)
	if errors.Is(err, ghapp.ErrNotFound) {
		return publish.MemberGone, nil
	}
	if err != nil {
		return "", err
	}
	if issue.State != "open" {
		return publish.MemberClosed, nil
	}
	p, err := plan.FromIssue(issue.Title, issue.Body)
	if err != nil || p.SHA256 != m.Text {
		return publish.MemberChanged, nil //nolint:nilerr // it could be read when it was approved
	}
	w.Plan, w.Text = p, handlers.Text{Title: issue.Title, Body: issue.Body}
	return "", nil
}
