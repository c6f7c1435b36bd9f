package inline

import (
	"context"
	"errors"
	"time"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
)

// Past is a run that is remembered in a checkout: the last one of its plan.
type Past struct {
	State loop.State
	// Began is when it was first stored.
	Began time.Time
	// Top is the checkout's root.
	Top string
}

// Runs gives the runs that are remembered in the checkout around dir, the oldest
// first. What a later version has stored is left out.
func Runs(ctx context.Context, git *gitrepo.Git, dir, dataDir string) (past []Past, err error) {
	repo, err := git.OpenLocal(ctx, dir)
	if err != nil {
		return nil, err
	}
	st, err := readStore(ctx, dataDir)
	if err != nil || st == nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	rows, err := st.RunsOfCheckout(ctx, repo.Top())
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		s, err := loop.Decode(row.State)
		if err != nil {
			continue
		}
		past = append(past, Past{State: s, Began: row.CreatedAt, Top: repo.Top()})
	}
	return past, nil
}
