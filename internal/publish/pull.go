package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish/effects"
)

// maxPRTitle is in characters; GitHub takes 256.
const maxPRTitle = 200

type prRecord struct {
	Number int `json:"number"`
}

// EnsurePR returns the run's pull request: the open one that the App itself has from the issue's branch, or else a
// new one, which is a draft. It does not bring an existing one
// up to date, and does not open a new one beside one that was closed: see its
// State. Where somebody else has one open from the branch, or GitHub does not let
// us open one, it is a *run.UserError.
func (p *Publisher) EnsurePR(ctx context.Context, v View) (ghapp.PR, error) {
	ctx = ghapp.WithPurpose(ctx, "pr")
	v = p.fill(v)
	head := p.Branch
	var got ghapp.PR
	rec, err := effects.Do(ctx, p.Effects, effects.PR(p.Run, p.GitHub.FullName(), head),
		map[string]string{"head": head, "base": p.BaseBranch},
		func(ctx context.Context) (prRecord, bool, error) {
			pr, err := p.GitHub.FindPR(ctx, head)
			if errors.Is(err, ghapp.ErrNotFound) {
				return prRecord{}, false, nil
			}
			got = pr
			return prRecord{Number: pr.Number}, err == nil, err
		},
		func(ctx context.Context) (prRecord, error) {
			body, err := Body("", v)
			if err != nil {
				return prRecord{}, err
			}
			pr, err := p.GitHub.CreatePR(ctx, ghapp.PRInput{
				Title: prTitle(v), Head: head, Base: p.BaseBranch, Body: body, Draft: true,
			})
			got = pr
			return prRecord{Number: pr.Number}, err
		})
	if err != nil {
		return ghapp.PR{}, p.explainNotOpened(ctx, head, err)
	}
	if got.Number == rec.Number {
		return got, nil
	}
	return p.ReadPR(ctx, rec.Number)
}

// ReadPR reads a pull request and makes sure that it is ours: a number may come
// from a record that somebody could have changed. Another is ErrForeignPR.
func (p *Publisher) ReadPR(ctx context.Context, number int) (ghapp.PR, error) {
	ctx = ghapp.WithPurpose(ctx, "pr")
	pr, err := p.GitHub.PR(ctx, number)
	if err != nil {
		return ghapp.PR{}, err
	}
	ours, err := p.GitHub.Ours(ctx, pr.Author)
	if err != nil {
		return ghapp.PR{}, err
	}
	if !ours || pr.HeadRef != p.Branch {
		return ghapp.PR{}, fmt.Errorf("pull request #%d: %w", pr.Number, ErrForeignPR)
	}
	return pr, nil
}

func (p *Publisher) fill(v View) View {
	v.IssueNumber = p.Issue
	v.Branch = p.Branch
	v.ByJob = p.ByJob
	if v.Mask == nil {
		v.Mask = p.Mask.Mask
	}
	return v
}

func prTitle(v View) string {
	if title := Plain(v.Mask, v.Title, maxPRTitle); title != "" {
		return title
	}
	return fmt.Sprintf("Work on issue %d", v.IssueNumber)
}

// UpdatePR brings our part of a pull request's description up to date, and gives the pull request, which
// was just read, back as it is then. It leaves the title alone, which people may
// have changed. GitHub offers no way to write only if nobody else wrote: an edit
// by a person in the moment between reading and writing is lost.
func (p *Publisher) UpdatePR(ctx context.Context, pr ghapp.PR, v View) (ghapp.PR, error) {
	body, err := Body(pr.Body, p.fill(v))
	if err != nil {
		return pr, fmt.Errorf("pull request #%d: %w", pr.Number, err)
	}
	if body == pr.Body {
		return pr, nil
	}
	if err := p.GitHub.UpdatePR(ghapp.WithPurpose(ctx, "pr-body"), pr.Number, body); err != nil {
		return pr, err
	}
	pr.Body = body
	return pr, nil
}

// Ready takes a pull request that was just read out of draft, once per run, and gives it back
// as it is then.
func (p *Publisher) Ready(ctx context.Context, pr ghapp.PR) (ghapp.PR, error) {
	if pr.State != "open" {
		return pr, nil
	}
	_, err := effects.Do(ctx, p.Effects, effects.Ready(p.Run, p.GitHub.FullName(), pr.Number), nil,
		func(context.Context) (struct{}, bool, error) {
			return struct{}{}, !pr.Draft, nil // it has just been read
		},
		func(ctx context.Context) (struct{}, error) {
			if !pr.Draft {
				return struct{}{}, nil
			}
			err := p.GitHub.MarkReady(ghapp.WithPurpose(ctx, "ready"), pr.NodeID)
			pr.Draft = err != nil
			return struct{}{}, err
		})
	return pr, err
}
