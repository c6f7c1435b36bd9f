package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gitrepo"
)

// BaseBranch is the branch that the repository's own configuration, the file at
// path as it stands at commit, wants work to begin from and to be merged into. It is ""
// where the file names none, is missing or cannot be used: what is wrong with
// it is reported when the whole of it is read.
func BaseBranch(ctx context.Context, repo *gitrepo.Repo, commit gitrepo.OID, path string) (string, error) {
	src, err := repo.ReadFile(ctx, commit, path, config.MaxFileBytes)
	if errors.Is(err, gitrepo.ErrNotFound) || errors.Is(err, gitrepo.ErrTooLarge) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find the base branch: %w", err)
	}
	repoConfig, _ := config.ParseRepo(src) // the zero value where there are problems
	return repoConfig.Base, nil
}
