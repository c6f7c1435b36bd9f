package host

import (
	"context"
	"errors"
	"time"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
)

const (
	// defaultHistory is how many commits deep agents see the branch's history
	// where the repository does not say.
	defaultHistory = 50
	// historyPatience is how long an agent waits for the newest commits. Without
	// them it sees the older ones.
	historyPatience = 20 * time.Second
	// MaxRestored bounds how many commits are looked through for what the last of
	// them no longer tell.
	MaxRestored = 50
)

// history is what of the run's branch an agent's repository shows. A commit that
// GitHub made is fetched when the first agent after it starts.
func (h *Host) history(s loop.State, repo *gitrepo.Repo) (gitrepo.History, error) {
	p, err := h.treeNote()
	if err != nil {
		return gitrepo.History{}, err
	}
	return gitrepo.History{Tip: gitrepo.OID(s.Head), Depth: p.History, Fetch: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, historyPatience)
		defer cancel()
		return repo.Fetch(ctx, "refs/heads/"+s.Branch)
	}}, nil
}

// LastProgress is the progress file of the subject as commits, newest first, have
// it, or the last one that was there: a run that completes takes it away. nil is none.
// It looks through the newest MaxRestored of them.
func LastProgress(ctx context.Context, mirror *gitrepo.Repo, commits []gitrepo.CommitInfo,
	subject loop.Subject) (*progress.Doc, error) {
	for _, c := range commits[:min(len(commits), MaxRestored)] {
		src, err := mirror.ReadFile(ctx, c.OID, ".ralph/"+subject.Slug+"/progress.md", progress.MaxSize)
		if errors.Is(err, gitrepo.ErrNotFound) || errors.Is(err, gitrepo.ErrTooLarge) {
			continue
		}
		if err != nil {
			return nil, err
		}
		doc, err := progress.Parse(src)
		if err != nil {
			continue // a later commit may have fixed it, or this one broken it
		}
		if b, ok := doc.Binding(); ok && b.Key == subject.Key {
			return doc, nil
		}
	}
	return nil, nil
}
