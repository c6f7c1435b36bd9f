package gitrepo

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// Complete brings what commits of the person's repository need and a partial clone has left
// with its remote, as their own git would when it checks them out. Where that cannot be
// had, it is a *run.UserError.
func (r *Repo) Complete(ctx context.Context, commits ...OID) error {
	out, err := r.refs(ctx, call{args: []string{"config", "--name-only", "--get-regexp", `^remote\..*\.promisor$`}})
	if exitCode(err) == 1 {
		return nil // a whole clone
	}
	args := []string{"rev-list", "--objects", "--no-walk", "--missing=print", "--end-of-options"}
	for _, oid := range commits {
		args = append(args, string(oid))
	}
	var listed []byte
	if err == nil {
		listed, err = r.refs(ctx, call{args: args})
	}
	if err != nil {
		return fmt.Errorf("look for what a partial clone lacks: %w", err)
	}
	remote := strings.TrimSuffix(strings.TrimPrefix(firstLine(string(out)), "remote."), ".promisor")
	missing := regexp.MustCompile(`(?m)^\?(\w+)$`).FindAllString(string(listed), -1)
	if len(missing) == 0 {
		return nil
	}
	_, err = r.refs(ctx, call{
		args: []string{
			"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--recurse-submodules=no",
			"--filter=blob:none", "--stdin", "--end-of-options", remote,
		},
		config: []string{"fetch.negotiationAlgorithm=noop"}, personal: true,
		stdin: strings.NewReader(strings.ReplaceAll(strings.Join(missing, "\n"), "?", "") + "\n"),
	})
	if err != nil && ctx.Err() == nil {
		return &run.UserError{
			Message: "this is a partial clone, and what it lacks did not come from " + quotePath(remote) + ": " +
				pushReason(stderrOf(err)),
			Hint: "let git reach the remote, or make it a whole clone with git fetch --refetch --no-filter", Err: err,
		}
	}
	return err
}
