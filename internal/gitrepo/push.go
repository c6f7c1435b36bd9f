package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
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
	if err == nil {
		return remote, nil
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("push %s: %w", branch, err)
	}
	return "", pushError(remote, branch, err)
}

// PushRemote is the remote that a branch is pushed to: what git's own settings
// say, else origin, else the only one there is.
func (r *Repo) PushRemote(ctx context.Context, branch string) (string, error) {
	remotes, err := r.Remotes(ctx)
	if err != nil {
		return "", err
	}
	for _, key := range []string{
		"branch." + branch + ".pushRemote", "remote.pushDefault", "branch." + branch + ".remote",
	} {
		out, err := r.refs(ctx, call{args: []string{"config", "--get", key}, personal: true})
		if err != nil && exitCode(err) != 1 {
			return "", fmt.Errorf("read %s: %w", key, err)
		}
		if name := strings.TrimSpace(string(out)); slices.Contains(remotes, name) {
			return name, nil
		}
	}
	switch {
	case slices.Contains(remotes, "origin"):
		return "origin", nil
	case len(remotes) == 1:
		return remotes[0], nil
	}
	return "", &run.UserError{
		Message: "the remote to push to is unclear: there are " + strings.Join(remotes, ", "),
		Hint:    "choose one with git config remote.pushDefault NAME",
	}
}

// Remotes lists the remotes of the person's repository; a repository without one
// is a *run.UserError.
func (r *Repo) Remotes(ctx context.Context) ([]string, error) {
	remotes, err := r.remotes(ctx)
	if err != nil {
		return nil, err
	}
	if len(remotes) == 0 {
		return nil, &run.UserError{
			Message: "there is no remote to push to", Hint: "add one with git remote add origin URL, or omit --push",
		}
	}
	return remotes, nil
}

// remotes are those of the person's repository, none where it has none.
func (r *Repo) remotes(ctx context.Context) ([]string, error) {
	out, err := r.refs(ctx, call{args: []string{"remote"}, personal: true})
	if err != nil {
		return nil, fmt.Errorf("list remotes: %w", err)
	}
	return strings.Fields(string(out)), nil
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
	const most = 300
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "hint:") && !strings.HasPrefix(line, "To ") {
			lines = append(lines, line)
		}
	}
	s := run.PrintableLine(strings.Join(lines, "; "))
	s = regexp.MustCompile(`://[^/@\s]*@`).ReplaceAllString(s, "://") // a credential in the address
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	if s == "" {
		return "git did not say why"
	}
	return s
}

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
