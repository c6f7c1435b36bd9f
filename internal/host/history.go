package host

import (
	"context"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
)

const (
	// defaultHistory is how many commits deep agents see the branch's history
	// where the repository does not say.
	defaultHistory = 50
	// historyPatience is how long an agent waits for the newest commits. Without
	// them it sees the older ones.
	historyPatience = 20 * time.Second
)

// noteHistory notes what the repository says of the history, for the agents of
// this run and whichever process starts them.
func (h *Host) noteHistory(repo config.Repo) error {
	p, err := h.pinning()
	if err != nil {
		return err
	}
	p.History = defaultHistory
	if repo.AgentHistory != nil {
		p.History = *repo.AgentHistory
	}
	return h.notePinning(p)
}

// history is what of the run's branch an agent's repository shows. A commit that
// GitHub made is fetched when the first agent after it starts.
func (h *Host) history(s loop.State, repo *gitrepo.Repo) (gitrepo.History, error) {
	p, err := h.pinning()
	if err != nil {
		return gitrepo.History{}, err
	}
	return gitrepo.History{Tip: gitrepo.OID(s.Head), Depth: p.History, Fetch: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, historyPatience)
		defer cancel()
		return repo.Fetch(ctx, "refs/heads/"+s.Branch)
	}}, nil
}
