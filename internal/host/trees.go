package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
)

// Progress implements loop.Work.
func (h *Host) Progress(ctx context.Context, tree, path string) (_ *progress.Doc, unreadable string, _ error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return nil, "", err
	}
	at := ""
	for name := range strings.SplitSeq(path, "/") {
		at = strings.TrimPrefix(at+"/"+name, "/")
		mode, err := repo.ModeOf(ctx, gitrepo.OID(tree), at)
		switch {
		case errors.Is(err, gitrepo.ErrNotFound):
			return nil, "", nil
		case err != nil:
			return nil, "", err
		case at == path && mode&0o170000 != 0o100000, at != path && mode != 0o040000:
			return nil, at + " is no plain file", nil
		}
	}
	src, ok, err := h.File(ctx, tree, path, progress.MaxSize)
	if err != nil {
		return nil, "", err
	}
	if !ok {
		return nil, fmt.Sprintf("%s holds more than %d KiB", path, progress.MaxSize>>10), nil
	}
	doc, err := progress.Parse(src)
	if err != nil {
		return nil, err.Error(), nil
	}
	doc, err = h.withoutSecrets(ctx, doc)
	return doc, "", err
}

// Names implements loop.Work.
func (h *Host) Names(ctx context.Context, tree string) ([]string, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return nil, err
	}
	return repo.Names(ctx, gitrepo.OID(tree))
}

// Changes implements loop.Work.
func (h *Host) Changes(ctx context.Context, from, to string) ([]loop.Change, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return nil, err
	}
	diff, err := repo.Diff(ctx, gitrepo.OID(from), gitrepo.OID(to))
	if err != nil {
		return nil, err
	}
	changes := make([]loop.Change, 0, len(diff))
	for _, c := range diff {
		changes = append(changes, loop.Change{
			Path: c.Path, Status: c.Status.String(), OldMode: c.OldMode, NewMode: c.NewMode,
		})
	}
	return changes, nil
}

// File implements loop.Work.
func (h *Host) File(ctx context.Context, tree, path string, limit int64) ([]byte, bool, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return nil, false, err
	}
	src, err := repo.ReadFile(ctx, gitrepo.OID(tree), path, limit)
	if errors.Is(err, gitrepo.ErrNotFound) || errors.Is(err, gitrepo.ErrTooLarge) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %q of the tree: %w", path, err)
	}
	return src, true, nil
}

// Patch implements loop.Work.
func (h *Host) Patch(ctx context.Context, from, to string, limit int) (string, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return "", err
	}
	text, err := repo.Patch(ctx, gitrepo.OID(from), gitrepo.OID(to), nil, int64(limit))
	if err != nil && !errors.Is(err, gitrepo.ErrTooLarge) {
		return "", err
	}
	return strings.ToValidUTF8(string(text), "\ufffd"), nil
}

// With implements loop.Work.
func (h *Host) With(ctx context.Context, tree, path string, content []byte) (string, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return "", err
	}
	oid, err := repo.TreeWith(ctx, gitrepo.OID(tree), []gitrepo.TreeEdit{{Path: path, Data: content}})
	return string(oid), err
}

// Without implements loop.Work.
func (h *Host) Without(ctx context.Context, tree, dir string) (string, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return "", err
	}
	oid, err := repo.TreeWith(ctx, gitrepo.OID(tree), []gitrepo.TreeEdit{{Path: dir, Remove: true}})
	return string(oid), err
}

// Has implements loop.Work. What is in no commit stays in the run's own repository for as
// long as the run: what has not passed its checks stays out of the source.
func (h *Host) Has(ctx context.Context, tree string) (bool, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return false, err
	}
	return repo.HasTree(ctx, gitrepo.OID(tree))
}

// Restore implements loop.Work.
func (h *Host) Restore(ctx context.Context, tree, from string, paths []string) (string, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return "", err
	}
	diff, err := repo.Diff(ctx, gitrepo.OID(tree), gitrepo.OID(from))
	if err != nil {
		return "", err
	}
	wanted := make(map[string]bool, len(paths))
	for _, p := range paths {
		wanted[p] = true
	}
	var edits []gitrepo.TreeEdit
	for _, c := range diff {
		if wanted[c.Path] {
			edits = append(edits, gitrepo.TreeEdit{
				Path: c.Path, Remove: c.Status == gitrepo.Deleted, Mode: c.NewMode, OID: c.NewOID,
			})
		}
	}
	oid, err := repo.TreeWith(ctx, gitrepo.OID(tree), edits)
	if err != nil {
		return "", err
	}
	return string(oid), nil
}
