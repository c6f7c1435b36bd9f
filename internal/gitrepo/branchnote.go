package gitrepo

import (
	"context"
	"fmt"
	"strings"
)

// BranchNote is what the command line keeps of a branch in the repository's own
// configuration. git renames and removes it with the branch.
type BranchNote struct {
	// Plan is the key of the plan that is worked on the branch.
	Plan string
	// Base is the branch that it was begun from, "" where that had no name.
	Base string
}

const (
	notePlan = "ralph-plan"
	noteBase = "ralph-base"
)

// BranchNotes gives what was noted, by branch. A branch may be gone by now.
func (r *Repo) BranchNotes(ctx context.Context) (map[string]BranchNote, error) {
	notes := map[string]BranchNote{}
	out, err := r.refs(ctx, call{
		args: []string{"config", "--local", "-z", "--get-regexp", `^branch\..*\.(` + notePlan + "|" + noteBase + ")$"},
	})
	if exitCode(err) == 1 {
		return notes, nil // none
	}
	if err != nil {
		return nil, fmt.Errorf("read the notes on branches: %w", err)
	}
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		key, value, _ := strings.Cut(record, "\n")
		at := strings.LastIndexByte(key, '.')
		branch, ok := strings.CutPrefix(key[:max(at, 0)], "branch.")
		if !ok || !ValidBranch(branch) {
			continue
		}
		note := notes[branch]
		if key[at+1:] == notePlan {
			note.Plan = value
		} else {
			note.Base = value
		}
		notes[branch] = note
	}
	return notes, nil
}

// NoteBranch keeps a note on a branch, in the place of an earlier one.
func (r *Repo) NoteBranch(ctx context.Context, branch string, note BranchNote) error {
	if !ValidBranch(branch) || note.Base != "" && !ValidBranch(note.Base) {
		return fmt.Errorf("note on %s: not a branch name", quote(branch))
	}
	for _, kv := range [][2]string{{notePlan, note.Plan}, {noteBase, note.Base}} {
		if kv[1] == "" {
			continue
		}
		_, err := r.refs(ctx, call{
			args: []string{"config", "--local", "--replace-all", "branch." + branch + "." + kv[0], kv[1]},
		})
		if err != nil {
			return fmt.Errorf("note on %s: %w", branch, err)
		}
	}
	return nil
}
