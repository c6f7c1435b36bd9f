package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// PatchPaths lists the paths that a patch changes, as git itself reads it; one that git
// cannot read is a *run.UserError.
func (r *Repo) PatchPaths(ctx context.Context, patch []byte) ([]string, error) {
	out, err := r.refs(ctx, call{args: []string{"apply", "--numstat", "-z", "-"}, stdin: bytes.NewReader(patch)})
	if err != nil {
		return nil, patchError(ctx, err)
	}
	var paths []string
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if entry == "" {
			continue
		}
		_, rest, _ := strings.Cut(entry, "\t")
		_, path, ok := strings.Cut(rest, "\t")
		if !ok {
			return nil, fmt.Errorf("read a patch: git apply answered %s", quote(entry))
		}
		if err := cleanPath(path); err != nil {
			return nil, fmt.Errorf("read a patch: %w", err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// ApplyPatch puts a patch into the checkout and its index, all of it or nothing. Git
// refuses paths that lead out of the checkout, also by a link. What does not fit is a
// *run.UserError.
func (r *Repo) ApplyPatch(ctx context.Context, patch []byte) error {
	if r.top == "" {
		return errors.New("apply a patch: a mirror has no checkout")
	}
	_, err := r.refs(ctx, call{args: []string{"update-index", "-q", "--refresh"}})
	if err != nil && exitCode(err) != 1 { // 1: some file differs, which git apply tells of where it matters
		return fmt.Errorf("apply a patch: %w", err)
	}
	_, err = r.refs(ctx, call{
		args: []string{"apply", "--index", "--whitespace=nowarn", "-"}, stdin: bytes.NewReader(patch),
	})
	if err != nil {
		return patchError(ctx, err)
	}
	return nil
}

func patchError(ctx context.Context, err error) error {
	if ctx.Err() != nil || exitCode(err) < 0 {
		return fmt.Errorf("apply a patch: %w", err)
	}
	said, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(stderrOf(err)), "error: "), "\n")
	return &run.UserError{
		Message: "the patch does not apply: " + run.PrintableLine(said),
		Hint:    "check out the branch of its run, without changes of your own, and try again", Err: err,
	}
}
