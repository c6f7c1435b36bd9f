package host

import (
	"context"
	"strings"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
)

// What steers an agent (instructions, hooks, tools; see publish.SteersAgents)
// comes from the default branch, whatever the branch that is worked on says.
// So the tree that an agent is given is not quite the one it stands for, and a
// snapshot of it is mapped back: what the agent left as it found it becomes what
// the branch has there, and only what it changed itself is a change.

// pin gives the agent the work as it stands, with what steers it as the default
// branch has it. The progress file is the branch's, too: the one that the agent is given
// is written over it. It may be cut off anywhere and begin again.
func (h *Host) pin(ctx context.Context, s loop.State, progressPath string, repo *gitrepo.Repo, wt *gitrepo.Worktree) error {
	p, err := h.treeNote()
	if err != nil {
		return err
	}
	snap, err := wt.Snapshot(ctx)
	if err != nil {
		return err
	}
	// An earlier agent may have left the tree without being judged.
	p.Real, err = replace(ctx, repo, snap.Tree, gitrepo.OID(s.HeadTree), func(path string) bool {
		return path == progressPath || publish.SteersAgents(path)
	})
	if err != nil {
		return err
	}
	if p.Given, err = replace(ctx, repo, p.Real, p.Default, publish.SteersAgents); err != nil {
		return err
	}
	if p.Given, err = h.hide(ctx, repo, p.Given); err != nil {
		return err
	}
	if err := h.setTreeNote(p); err != nil {
		return err
	}
	if p.Given != snap.Tree {
		if err := wt.Reset(ctx, p.Given, true); err != nil {
			return err
		}
	}
	return wt.Purge(ctx, func(path string) bool { // a nested repository would run what another agent wrote
		return publish.SteersAgents(path) || strings.HasSuffix(path, "/.git")
	})
}

// hide is tree without what the agent's command line would run whatever it is
// told, wherever it comes from.
func (h *Host) hide(ctx context.Context, repo *gitrepo.Repo, tree gitrepo.OID) (gitrepo.OID, error) {
	hides := h.cfg.Backend.About().Hides
	if len(hides) == 0 {
		return tree, nil
	}
	gone := make([]gitrepo.TreeEdit, len(hides))
	for i, name := range hides {
		gone[i] = gitrepo.TreeEdit{Path: name, Remove: true}
	}
	return repo.TreeWith(ctx, tree, gone)
}

// replace is tree with the paths that are picked as they are in from.
func replace(
	ctx context.Context, repo *gitrepo.Repo, tree, from gitrepo.OID, pick func(path string) bool,
) (gitrepo.OID, error) {
	diff, err := repo.Diff(ctx, tree, from)
	if err != nil {
		return "", err
	}
	return repo.TreeWith(ctx, tree, edits(diff, pick))
}

// mapBack is the tree that a snapshot of what agents were given stands for.
func (h *Host) mapBack(ctx context.Context, repo *gitrepo.Repo, tree gitrepo.OID) (gitrepo.OID, error) {
	p, err := h.treeNote()
	if err != nil || p.Given == p.Real {
		return tree, err
	}
	changed, err := repo.Diff(ctx, p.Given, tree)
	if err != nil {
		return "", err
	}
	own := map[string]bool{}
	for _, c := range changed {
		own[c.Path] = true
	}
	back, err := repo.Diff(ctx, p.Given, p.Real)
	if err != nil {
		return "", err
	}
	return repo.TreeWith(ctx, tree, edits(back, func(path string) bool { return !own[path] }))
}

// edits make of the old side of a difference the new one, as far as paths are
// picked.
func edits(diff []gitrepo.Change, pick func(path string) bool) []gitrepo.TreeEdit {
	var out []gitrepo.TreeEdit
	for _, c := range diff {
		if pick(c.Path) {
			out = append(out, gitrepo.TreeEdit{
				Path: c.Path, Remove: c.Status == gitrepo.Deleted, Mode: c.NewMode, OID: c.NewOID,
			})
		}
	}
	return out
}

// tellPinned says where the branch would steer agents in another way than the
// default branch, which is not followed.
func (h *Host) tellPinned(ctx context.Context, repo *gitrepo.Repo, head, def gitrepo.OID) error {
	diff, err := repo.Diff(ctx, def, head)
	if err != nil {
		return err
	}
	var names []string
	for _, c := range diff {
		if publish.SteersAgents(c.Path) {
			names = append(names, c.Path)
		}
	}
	if len(names) == 0 {
		return nil
	}
	h.tell(run.EventPersonNotified,
		"agents get these files from the default branch, not from this one: "+run.PrintableLine(some(names)))
	return nil
}
