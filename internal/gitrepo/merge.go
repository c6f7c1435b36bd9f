package gitrepo

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// mergeTime is what a merge may take, and renamesCompared how many files that are gone are
// looked for among those that are new: that work is the square of it.
const (
	mergeTime       = 30 * time.Second
	renamesCompared = 1000
)

// Merge is what comes of bringing two trees together.
type Merge struct {
	// Tree is the result, whole where nothing conflicts.
	Tree OID
	// Conflicts are the paths that have to be resolved, none where it is clean.
	Conflicts []string
}

// Merge3 merges what theirs changed of base into ours, which are trees, as `git merge`
// would, in the object store alone: there is no work tree, no index and no ref that
// changes. It is ErrTooLarge where that takes longer than mergeTime.
func (r *Repo) Merge3(ctx context.Context, base, ours, theirs OID) (Merge, error) {
	var commits [3]OID
	for i, tree := range []OID{base, ours, theirs} {
		// git before 2.45 merges commits only. These are in no history.
		spec := CommitSpec{Tree: tree, Message: "merge", Author: Person{Name: "nobody"}, When: time.Unix(0, 0).UTC()}
		if i > 0 {
			spec.Parents = commits[:1]
		}
		oid, err := r.CommitTree(ctx, spec)
		if err != nil {
			return Merge{}, fmt.Errorf("merge trees: %w", err)
		}
		commits[i] = oid
	}
	return r.mergeTree(ctx, commits[1], commits[2], mergeTime)
}

func (r *Repo) mergeTree(ctx context.Context, ours, theirs OID, within time.Duration) (Merge, error) {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	out, err := r.call(bounded, call{
		config: []string{fmt.Sprintf("merge.renameLimit=%d", renamesCompared)},
		args:   []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", string(ours), string(theirs)},
	})
	// It exits with 1 where there are conflicts, and has written them down.
	if exitCode(err) == 1 && len(out) > 0 {
		err = nil
	}
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return Merge{}, fmt.Errorf("merge %s and %s: takes longer than %s: %w", ours, theirs, within, ErrTooLarge)
	}
	if err != nil {
		return Merge{}, fmt.Errorf("merge %s and %s: %w", ours, theirs, err)
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	m := Merge{Tree: OID(fields[0])}
	if !m.Tree.Valid() {
		return Merge{}, fmt.Errorf("git merge-tree: answered %s", quote(fields[0]))
	}
	for _, path := range fields[1:] {
		if path != "" {
			m.Conflicts = append(m.Conflicts, path)
		}
	}
	return m, nil
}
