package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Push sends a branch of the person's repository to the remote that their own
// git would push it to, under its own name, and returns that remote. It never
// forces, and pushes no tag. What the remote refuses is a *run.UserError.
//
// It is the person's own git that does it, with their configuration and their
// credentials, but without hooks: these may be files of the work tree, which an
// agent has changed.
func (r *Repo) Push(ctx context.Context, branch string) (remote string, err error) {
	if r.top == "" || !ValidBranch(branch) {
		return "", fmt.Errorf("push %s: not a branch of a checkout", quote(branch))
	}
	if remote, err = r.PushRemote(ctx, branch); err != nil {
		return "", err
	}
	ref := branchRef(branch)
	_, err = r.refs(ctx, call{
		args: []string{
			"push", "--no-follow-tags", "--recurse-submodules=no", "--end-of-options", remote, ref + ":" + ref,
		},
		personal: true,
	})
	switch {
	case err == nil:
		return remote, nil
	case ctx.Err() == nil:
		err = pushError(remote, branch, err)
	}
	return "", err
}

// PushRemote is the remote that a branch is pushed to: what git's own settings
// say, else origin, else the only one there is.
func (r *Repo) PushRemote(ctx context.Context, branch string) (string, error) {
	remotes, err := r.Remotes(ctx)
	if err != nil {
		return "", err
	}
	out, err := r.refs(ctx, call{
		args: []string{"for-each-ref", "--format=%(push:remotename)", branchRef(branch)}, personal: true,
	})
	if err != nil {
		return "", fmt.Errorf("find the remote of %s: %w", branch, err)
	}
	for _, name := range []string{strings.TrimSpace(string(out)), "origin"} {
		if slices.Contains(remotes, name) {
			return name, nil
		}
	}
	if len(remotes) > 1 {
		return "", &run.UserError{
			Message: "the remote to push to is unclear: there are " + strings.Join(remotes, ", "),
			Hint:    "choose one with git config remote.pushDefault NAME",
		}
	}
	return remotes[0], nil
}

// Remotes lists the remotes of the person's repository; a repository without one
// is a *run.UserError.
func (r *Repo) Remotes(ctx context.Context) ([]string, error) {
	out, err := r.refs(ctx, call{args: []string{"remote"}, personal: true})
	if err != nil {
		return nil, fmt.Errorf("list remotes: %w", err)
	}
	remotes := strings.Fields(string(out))
	if len(remotes) == 0 {
		return nil, &run.UserError{
			Message: "there is no remote to push to", Hint: "add one with git remote add origin URL, or omit --push",
		}
	}
	return remotes, nil
}

// pushError says why a push failed, and what to do.
func pushError(remote, branch string, err error) error {
	said := stderrOf(err)
	hint := fmt.Sprintf("try it yourself: git push %s %s", remote, branch)
	switch refused := remoteError(err, nil); {
	case strings.Contains(said, "non-fast-forward") || strings.Contains(said, "fetch first") ||
		strings.Contains(said, "[rejected]"):
		hint = fmt.Sprintf("somebody has pushed to it: git pull --rebase %s %s, then git push %s %s", remote, branch, remote,
			branch)
	case errors.Is(refused, ErrUnauthorized):
		hint = "let git find your credentials (git credential, gh auth setup-git, an SSH key), then " +
			fmt.Sprintf("git push %s %s", remote, branch)
	}
	return &run.UserError{
		Message: fmt.Sprintf("%s could not be pushed to %s: %s", branch, remote, pushReason(said)),
		Hint:    hint, Err: err,
	}
}

// pushReason is the gist of what git said on stderr, on one line.
func pushReason(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "hint:") && !strings.HasPrefix(line, "To ") {
			lines = append(lines, line)
		}
	}
	s := run.PrintableLine(strings.Join(lines, "; "))
	s = credential().ReplaceAllString(s, "://")
	return strs.Cut(cmp.Or(s, "git did not say why"), 300)
}

// credential is one in an address.
var credential = strs.Lazy(`://[^/@\s]*@`)

// personalEnv is the person's own environment, without what would lead git to
// another repository.
func personalEnv() []string {
	env := []string{}
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		switch key {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
			"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "LC_ALL", "GIT_TERMINAL_PROMPT":
		default:
			env = append(env, kv)
		}
	}
	return append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0")
}

// personalConfig outranks the person's configuration where git acts as them.
func personalConfig() []string {
	return []string{
		"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false",
		"submodule.recurse=false",
	}
}
