package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
)

// tidy drops from the run's repository what its attempts have left, where that is much,
// and neither its state nor one of its work trees needs it.
func (h *Host) tidy(ctx context.Context, repo *gitrepo.Repo, s loop.State) error {
	if !repo.NeedsTidying() {
		return nil
	}
	needed, err := h.Needed(s)
	if err != nil {
		return fmt.Errorf("find out what the run needs: %w", err)
	}
	return repo.Tidy(ctx, needed)
}

// Needed lists the trees and commits that the state or the work trees name, whatever for.
func (h *Host) Needed(s loop.State) ([]gitrepo.OID, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var needed []gitrepo.OID
	lanes, err := filepath.Glob(filepath.Join(h.main().lanesDir(), "*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range append(lanes, h.main().cfg.Dir) {
		at := Host{cfg: Config{Dir: dir}}
		for _, file := range []string{at.indexFile(), at.checkIndex()} {
			tree, err := gitrepo.IndexTree(file)
			if err != nil {
				return nil, err
			}
			needed = append(needed, tree)
		}
		note, err := os.ReadFile(at.treeFile())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		text = append(append(text, ' '), note...)
	}
	for _, name := range regexp.MustCompile(`\b[0-9a-f]{40}\b`).FindAll(text, -1) {
		needed = append(needed, gitrepo.OID(name))
	}
	return needed, nil
}
