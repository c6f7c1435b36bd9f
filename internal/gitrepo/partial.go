package gitrepo

import (
	"bytes"
	"context"
	"fmt"
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
	if err != nil {
		return fmt.Errorf("look for a partial clone: %w", err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	remote := strings.TrimSuffix(strings.TrimPrefix(first, "remote."), ".promisor")
	args := []string{"rev-list", "--objects", "--no-walk", "--missing=print", "--end-of-options"}
	for _, oid := range commits {
		args = append(args, string(oid))
	}
	if out, err = r.refs(ctx, call{args: args}); err != nil {
		return fmt.Errorf("look for what a partial clone lacks: %w", err)
	}
	var missing bytes.Buffer
	for line := range strings.Lines(string(out)) {
		if oid, ok := strings.CutPrefix(line, "?"); ok {
			missing.WriteString(oid)
		}
	}
	if missing.Len() == 0 {
		return nil
	}
	_, err = r.refs(ctx, call{
		args: []string{
			"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--recurse-submodules=no",
			"--filter=blob:none", "--stdin", "--end-of-options", remote,
		},
		config: []string{"fetch.negotiationAlgorithm=noop"}, stdin: &missing, personal: true,
	})
	if err != nil && ctx.Err() == nil {
		return &run.UserError{
			Message: "this is a partial clone, and what it lacks did not come from " + quotePath(remote) + ": " +
				pushReason(stderrOf(err)),
			Hint: "let git reach the remote, or make it a whole clone with git fetch --refetch --no-filter", Err: err,
		}
	}
	if err != nil {
		return fmt.Errorf("complete a partial clone: %w", err)
	}
	return nil
}
