package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrUnrelated: two commits have no history in common.
var ErrUnrelated = errors.New("gitrepo: unrelated histories")

// Merge is what comes of bringing two commits together.
type Merge struct {
	// Tree is the result. Where it conflicts, the files hold both sides between
	// conflict markers.
	Tree OID
	// Conflicts are the paths that have to be resolved, none where it is clean.
	Conflicts []string
}

// MergeTrees brings theirs into ours as `git merge` would, in the object store
// alone: there is no work tree, no index and no ref that changes.
func (r *Repo) MergeTrees(ctx context.Context, ours, theirs OID) (Merge, error) {
	if !r.algo.owns(ours) || !r.algo.owns(theirs) {
		return Merge{}, fmt.Errorf("merge %s and %s: %w", quote(string(ours)), quote(string(theirs)), ErrNotFound)
	}
	return r.mergeTree(ctx, ours, theirs)
}

// Merge3 merges what theirs changed of base into ours, which are trees.
func (r *Repo) Merge3(ctx context.Context, base, ours, theirs OID) (Merge, error) {
	var commits [3]OID
	for i, tree := range []OID{base, ours, theirs} {
		if !r.algo.owns(tree) {
			return Merge{}, fmt.Errorf("merge tree %s: %w", quote(string(tree)), ErrNotFound)
		}
		// git before 2.45 merges commits only. These are in no history; the same trees
		// make the same ones.
		text := fmt.Sprintf("tree %s\n", tree)
		if i > 0 {
			text += fmt.Sprintf("parent %s\n", commits[0])
		}
		const nobody = "nobody <> 0 +0000"
		oid, err := r.write(kindCommit, []byte(text+"author "+nobody+"\ncommitter "+nobody+"\n\n"))
		if err != nil {
			return Merge{}, fmt.Errorf("merge trees: %w", err)
		}
		commits[i] = oid
	}
	return r.mergeTree(ctx, commits[1], commits[2])
}

func (r *Repo) mergeTree(ctx context.Context, ours, theirs OID) (Merge, error) {
	out, err := r.call(ctx, call{
		args: []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", string(ours), string(theirs)},
	})
	// It exits with 1 where there are conflicts, and has written them down.
	if exitCode(err) == 1 && len(out) > 0 {
		err = nil
	}
	if strings.Contains(stderrOf(err), "unrelated histories") {
		return Merge{}, fmt.Errorf("merge %s and %s: %w", ours, theirs, ErrUnrelated)
	}
	if err != nil {
		return Merge{}, fmt.Errorf("merge %s and %s: %w", ours, theirs, err)
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	m := Merge{Tree: OID(fields[0])}
	if !r.algo.owns(m.Tree) {
		return Merge{}, fmt.Errorf("git merge-tree: answered %s", quote(fields[0]))
	}
	for _, path := range fields[1:] {
		if path != "" {
			m.Conflicts = append(m.Conflicts, path)
		}
	}
	return m, nil
}
