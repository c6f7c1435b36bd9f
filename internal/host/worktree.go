package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
)

// treeNote is what is remembered of the work tree across processes.
type treeNote struct {
	// LayOut is the tree that is to be laid out when something needs the files, "" once
	// that is done: a run that waits for its place holds none.
	LayOut gitrepo.OID `json:"lay_out,omitempty"`
	// Default is the tree that the agent's configuration is taken from.
	Default gitrepo.OID `json:"default,omitempty"`
	// Given is the tree that agents were given last, Real the one it stands
	// for. They are empty where the directory holds a tree as it is.
	Given gitrepo.OID `json:"given,omitempty"`
	Real  gitrepo.OID `json:"real,omitempty"`
	// History is how deep agents see the branch's history.
	History int `json:"history,omitempty"`
}

func (h *Host) treeFile() string { return filepath.Join(h.cfg.Dir, "tree.json") }

func (h *Host) treeNote() (n treeNote, err error) {
	_, err = fstree.ReadNote(h.treeFile(), &n)
	return n, err
}

func (h *Host) setTreeNote(n treeNote) error { return fstree.WriteNote(h.treeFile(), n) }

// noteTree notes what Open has found, for whichever process comes to the work tree.
func (h *Host) noteTree(ctx context.Context, repo *gitrepo.Repo, trees openedTrees, conf config.Repo) error {
	n := treeNote{LayOut: trees.head, Default: trees.def, History: defaultHistory}
	if conf.AgentHistory != nil {
		n.History = *conf.AgentHistory
	}
	if err := h.setTreeNote(n); err != nil {
		return err
	}
	h.mu.Lock()
	h.repo, h.tree = repo, nil
	h.mu.Unlock()
	return h.tellPinned(ctx, repo, trees.head, trees.def)
}

// plainNote is the note of a directory that holds a tree as it is. What steers the agents of a
// lane is what steers those of the run by now.
func (h *Host) plainNote(layOut gitrepo.OID) error {
	n, err := h.main().treeNote()
	if err != nil {
		return err
	}
	n.LayOut, n.Given, n.Real = layOut, "", ""
	return h.setTreeNote(n)
}

// worktree is the tree that Open found, laid out now at the latest. Where another process
// did that, it is taken up as it stands: an agent may be at work in it.
func (h *Host) worktree(ctx context.Context) (*gitrepo.Repo, *gitrepo.Worktree, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return nil, nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tree != nil {
		return repo, h.tree, nil
	}
	n, err := h.treeNote()
	if err != nil {
		return nil, nil, err
	}
	var tree *gitrepo.Worktree
	if n.LayOut == "" {
		tree, err = repo.Adopt(h.treeDir(), h.indexFile())
	} else { // it may be cut off anywhere and begin again
		err = os.MkdirAll(filepath.Dir(h.treeDir()), 0o700)
		if err == nil {
			tree, err = repo.Export(ctx, h.treeDir(), n.LayOut, h.indexFile())
		}
		if n.LayOut = ""; err == nil {
			err = h.setTreeNote(n)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("take up the work tree: %w", err)
	}
	h.tree = tree
	return repo, tree, nil
}

// Repo is the object store of the workspace. What the run writes is in a repository of
// its own, which goes with the run.
func (h *Host) Repo(ctx context.Context) (*gitrepo.Repo, error) {
	if h.of != nil {
		return h.of.Repo(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.repo != nil {
		return h.repo, nil
	}
	repo, err := h.cfg.Source.Repo(ctx)
	if err != nil {
		return nil, err
	}
	n, err := h.treeNote()
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(h.treeDir()); n.LayOut == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("take up the work tree: %w", loop.ErrNoWorkTree)
	}
	if repo, err = repo.Fork(h.forkDir()); err != nil {
		return nil, fmt.Errorf("take up the work tree: %w", err)
	}
	h.repo = repo
	return repo, nil
}

// Reset implements loop.Work. That of a lane begins with it.
func (h *Host) Reset(ctx context.Context, tree string) error {
	if h.of != nil {
		if begun, err := h.beginLane(gitrepo.OID(tree)); begun || err != nil {
			return err
		}
	}
	_, wt, err := h.worktree(ctx)
	if err != nil {
		return err
	}
	if err := wt.Reset(ctx, gitrepo.OID(tree), false); err != nil {
		return err
	}
	return h.plainNote("")
}

// root opens the work tree.
func (h *Host) root() (*os.Root, error) {
	root, err := os.OpenRoot(h.treeDir())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open the work tree: %w", loop.ErrNoWorkTree)
	case err != nil:
		return nil, fmt.Errorf("open the work tree: %w", err)
	}
	return root, nil
}

// writeProgress puts the document into the work tree, replacing whatever stands in its way.
func (h *Host) writeProgress(ctx context.Context, path string, d *progress.Doc) error {
	if _, _, err := h.worktree(ctx); err != nil {
		return err
	}
	root, err := h.root()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return progress.Restore(root, path, d)
}

// Snapshot implements loop.Work.
func (h *Host) Snapshot(ctx context.Context) (string, []loop.Refusal, error) {
	repo, wt, err := h.worktree(ctx)
	if err != nil {
		return "", nil, err
	}
	snap, err := wt.Snapshot(ctx)
	if err != nil {
		return "", nil, err
	}
	tree, err := h.mapBack(ctx, repo, snap.Tree)
	if err != nil {
		return "", nil, fmt.Errorf("tell the agent's changes: %w", err)
	}
	refused := make([]loop.Refusal, 0, len(snap.Refused)+len(snap.LeftOut))
	for _, r := range snap.Refused {
		refused = append(refused, loop.Refusal{Path: r.Path, Reason: r.Reason})
	}
	for _, r := range snap.LeftOut {
		refused = append(refused, loop.Refusal{Path: r.Path, Reason: r.Reason, LeftOut: true})
	}
	return string(tree), refused, nil
}
