package reconcile

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/host"
)

// ownerConfigAge is how old the owner's configuration may be.
const ownerConfigAge = time.Minute

// ownerFile is a file of a repository, by the lower-case name of that.
type ownerFile struct{ repo, path string }

// ownerConfig is the file at path in a repository of the owner, as it stood
// within the last minute. One that is not there, or not for the App to see, says
// nothing. One that cannot be used is not remembered, so that it holds as soon as
// it is fixed.
func (r *Reconciler) ownerConfig(ctx context.Context, repo *ghapp.Repo, path string) (host.ConfigFile, error) {
	key, now := ownerFile{strings.ToLower(repo.FullName()), path}, r.cfg.Now()
	if file, ok := r.owners.Get(key, now); ok {
		return file, nil
	}
	src, err := repo.File(ghapp.WithPurpose(ctx, "owner-config"), path, config.MaxFileBytes)
	file := host.ConfigFile{Name: path + " of " + repo.FullName(), Source: src}
	switch {
	case errors.Is(err, ghapp.ErrNotFound):
		file = host.ConfigFile{}
	case errors.Is(err, ghapp.ErrTooLarge):
		file.TooLarge = true
	case err != nil:
		return host.ConfigFile{}, err
	}
	if _, err := file.Parse(); err == nil {
		r.owners.Put(key, file, now.Add(ownerConfigAge))
	}
	return file, nil
}
