package pullrequest

import (
	"context"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/publish"
)

// MergedNotes are what our own merged pull requests show of what was noted in their work,
// the newest first, by one call of GitHub.
func MergedNotes(ctx context.Context, repo *ghapp.Repo) (notes []string, err error) {
	merged, err := repo.MergedPRs(ctx)
	if err != nil {
		return nil, err
	}
	for _, pr := range merged {
		if text := publish.Notes(pr.Body); text != "" {
			notes = append(notes, text)
		}
		if len(notes) == host.MaxNoted {
			break
		}
	}
	return notes, nil
}
