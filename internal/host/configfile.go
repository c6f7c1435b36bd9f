package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/run"
)

// ConfigFile is the configuration of a repository as it was found. The zero
// value says nothing.
type ConfigFile struct {
	// Name is what people know it by: ".github/ralph.yml".
	Name   string
	Source []byte
	// TooLarge: it holds more than config.MaxFileBytes, and Source none of it.
	TooLarge bool
}

// ReadConfig gives the file at path, "" for config.RepoPath, as it stands at
// commit; found is false where there is none.
func ReadConfig(
	ctx context.Context, repo *gitrepo.Repo, commit gitrepo.OID, path string,
) (f ConfigFile, found bool, err error) {
	path = cmp.Or(path, config.RepoPath)
	src, err := repo.ReadFile(ctx, commit, path, config.MaxFileBytes)
	switch {
	case errors.Is(err, gitrepo.ErrNotFound):
		return ConfigFile{}, false, nil
	case errors.Is(err, gitrepo.ErrTooLarge):
		return ConfigFile{Name: path, TooLarge: true}, true, nil
	case err != nil:
		return ConfigFile{}, false, fmt.Errorf("read %s: %w", path, err)
	}
	return ConfigFile{Name: path, Source: src}, true, nil
}

// UnusableError is the cause of what Parse finds wrong with a file.
type UnusableError struct {
	// Content is the same for the same contents of the same file, and for no
	// others.
	Content string
}

// Error implements error.
func (e *UnusableError) Error() string { return "a configuration is not valid" }

// Parse gives what the file says. What is wrong with it is a *run.UserError,
// with line and column, because of an *UnusableError.
func (f ConfigFile) Parse() (config.Repo, error) {
	unusable := func(why string) (config.Repo, error) {
		sum := sha256.Sum256(append([]byte(f.Name+"\x00"), f.Source...))
		return config.Repo{}, &run.UserError{
			Message: f.Name + " is not valid: " + why, Hint: "fix it on the default branch",
			Err: &UnusableError{Content: hex.EncodeToString(sum[:])},
		}
	}
	if f.TooLarge {
		return unusable(fmt.Sprintf("it holds more than %d KiB", config.MaxFileBytes>>10))
	}
	repo, problems := config.ParseRepo(f.Source)
	if len(problems) == 0 {
		return repo, nil
	}
	lines := make([]string, 0, len(problems))
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	return unusable(strings.Join(lines, "; "))
}

// Base is the branch that the file wants work to begin from and to be merged
// into, "" where it names none or is not valid: what is wrong with it is told
// when the whole of it is read.
func (f ConfigFile) Base() string {
	repo, err := f.Parse()
	if err != nil {
		return ""
	}
	return repo.Base
}
