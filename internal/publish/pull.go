package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/ralph-action/internal/effects"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/progress/island"
	"github.com/org/ralph-action/internal/run"
)

// maxPRTitle is in characters; GitHub takes 256.
const maxPRTitle = 200

// ErrEdited: people have edited the pull request's text, and it was left alone.
var ErrEdited = errors.New("publish: people have edited the text")

type prRecord struct {
	Number int `json:"number"`
}

// EnsurePR returns the run's pull request: the one of the given number, or
// else the open one that the App itself has from the issue's branch, or else a
// new one, which is a draft unless OpenReady. It does not bring an existing one
// up to date, and does not open a new one beside one that was closed: see its
// State. Where somebody else has one open from the branch it is a *run.UserError.
func (p *Publisher) EnsurePR(ctx context.Context, number int, v island.View) (ghapp.PR, error) {
	ctx = ghapp.WithPurpose(ctx, "pr")
	if number > 0 {
		return p.ownPR(ctx, number)
	}
	v = p.fill(v)
	head := p.Branch
	var got ghapp.PR
	rec, err := effects.Do(ctx, p.Effects, effects.PR(p.Run, p.GitHub.FullName(), head), map[string]string{"head": head, "base": p.BaseBranch},
		func(ctx context.Context) (prRecord, bool, error) {
			pr, err := p.GitHub.FindPR(ctx, head)
			if errors.Is(err, ghapp.ErrNotFound) {
				return prRecord{}, false, nil
			}
			got = pr
			return prRecord{Number: pr.Number}, err == nil, err
		},
		func(ctx context.Context) (prRecord, error) {
			pr, err := p.GitHub.CreatePR(ctx, ghapp.PRInput{Title: prTitle(v), Head: head, Base: p.BaseBranch, Body: island.Render(v), Draft: !p.OpenReady})
			got = pr
			return prRecord{Number: pr.Number}, err
		})
	if errors.Is(err, ghapp.ErrExists) {
		return ghapp.PR{}, &run.UserError{
			Message: fmt.Sprintf("somebody else has opened a pull request from the branch `%s`", head),
			Hint:    "close it, or, if it is that of another door to the same bot, name its author with pull_requests_of", Err: err,
		}
	}
	if err != nil {
		return ghapp.PR{}, err
	}
	if got.Number == rec.Number {
		return got, nil
	}
	return p.ownPR(ctx, rec.Number)
}

// ownPR reads a pull request and makes sure that it is ours: a number may come
// from a record that somebody could have changed.
func (p *Publisher) ownPR(ctx context.Context, number int) (ghapp.PR, error) {
	pr, err := p.GitHub.PR(ctx, number)
	if err != nil {
		return ghapp.PR{}, err
	}
	ours, err := p.GitHub.Ours(ctx, pr.Author)
	if err != nil {
		return ghapp.PR{}, err
	}
	if !ours || pr.HeadRef != p.Branch {
		return ghapp.PR{}, fmt.Errorf("pull request #%d: %w", number, ErrForeignPR)
	}
	return pr, nil
}

func (p *Publisher) fill(v island.View) island.View {
	v.IssueNumber = p.Issue
	v.Branch = p.Branch
	if v.Mask == nil {
		v.Mask = p.Mask.Mask
	}
	return v
}

func prTitle(v island.View) string {
	if title := island.Plain(v.Mask, v.Title, maxPRTitle); title != "" {
		return title
	}
	return fmt.Sprintf("Work on issue %d", v.IssueNumber)
}

// UpdatePR brings the island of a pull request up to date and says whether it
// had to. It compares with what is there, so it may be called at every step; it
// leaves the title alone, which people may have changed. GitHub offers no way
// to write only if nobody else wrote: an edit by a person in the moment between
// reading and writing is lost. Edits that Edited asks for come back as
// ErrEdited, with the pull request as it was read.
func (p *Publisher) UpdatePR(ctx context.Context, number int, v island.View) (pr ghapp.PR, changed bool, err error) {
	ctx = ghapp.WithPurpose(ctx, "pr-body")
	if pr, err = p.ownPR(ctx, number); err != nil {
		return ghapp.PR{}, false, err
	}
	return p.UpdateRead(ctx, pr, v)
}

// UpdateRead is UpdatePR for a pull request that EnsurePR has just given.
func (p *Publisher) UpdateRead(ctx context.Context, pr ghapp.PR, v island.View) (_ ghapp.PR, changed bool, err error) {
	ctx = ghapp.WithPurpose(ctx, "pr-body")
	if p.Edited != nil && p.Edited(pr.Body) {
		return pr, false, ErrEdited
	}
	body, err := island.Update(pr.Body, p.fill(v))
	if err != nil {
		return pr, false, fmt.Errorf("pull request #%d: %w", pr.Number, err)
	}
	if body == pr.Body {
		return pr, false, nil
	}
	if err := p.GitHub.UpdatePR(ctx, pr.Number, nil, &body); err != nil {
		return pr, false, err
	}
	pr.Body = body
	return pr, true, nil
}

// Finish brings the pull request up to date a last time, and takes it out of
// draft, once per run, if the work is complete. The pull request is returned as
// it is then.
func (p *Publisher) Finish(ctx context.Context, number int, v island.View) (ghapp.PR, error) {
	pr, _, err := p.UpdatePR(ctx, number, v)
	if err != nil || !v.End.Complete() || pr.State != "open" {
		return pr, err
	}
	ctx = ghapp.WithPurpose(ctx, "ready")
	_, err = effects.Do(ctx, p.Effects, effects.Ready(p.Run, p.GitHub.FullName(), number), nil,
		func(context.Context) (struct{}, bool, error) {
			return struct{}{}, !pr.Draft, nil // UpdatePR has just read it
		},
		func(ctx context.Context) (struct{}, error) {
			if !pr.Draft {
				return struct{}{}, nil
			}
			err := p.GitHub.MarkReady(ctx, pr.NodeID)
			pr.Draft = err != nil
			return struct{}{}, err
		})
	return pr, err
}
