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
	// Run is the run that works there, as long as it has not ended; From the branch
	// that was checked out before it, "" for this one; Made is where a run that has not
	// ended made the branch, "" where none did.
	Run, From string
	Made      OID
}

const (
	notePlan = "ralph-plan"
	noteBase = "ralph-base"
	noteRun  = "ralph-run"
	noteFrom = "ralph-from"
	noteMade = "ralph-made"
)

// BranchNotes gives what was noted, by branch. A branch may be gone by now.
func (r *Repo) BranchNotes(ctx context.Context) (map[string]BranchNote, error) {
	notes := map[string]BranchNote{}
	out, err := r.refs(ctx, call{
		args: []string{
			"config", "--local", "-z", "--get-regexp",
			`^branch\..*\.(` + notePlan + "|" + noteBase + "|" + noteRun + "|" + noteFrom + "|" + noteMade + ")$",
		},
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
		switch key[at+1:] {
		case notePlan:
			note.Plan = value
		case noteBase:
			note.Base = value
		case noteRun:
			note.Run = value
		case noteFrom:
			note.From = value
		case noteMade:
			note.Made = OID(value)
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
	for _, kv := range [][2]string{
		{notePlan, note.Plan}, {noteBase, note.Base}, {noteRun, note.Run}, {noteFrom, note.From}, {noteMade, string(note.Made)},
	} {
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

// KeepBranch forgets which run works there, and where it came from: the branch stays
// as it is.
func (r *Repo) KeepBranch(ctx context.Context, branch string) error {
	for _, key := range []string{noteRun, noteFrom, noteMade} {
		_, err := r.refs(ctx, call{args: []string{"config", "--local", "--unset-all", "branch." + branch + "." + key}})
		if err != nil && exitCode(err) != 5 { // 5: there is none
			return fmt.Errorf("note on %s: %w", branch, err)
		}
	}
	return nil
}

// RemoveBranch removes a branch that is still at that commit, with what is noted of it.
// ErrStale where it has moved.
func (r *Repo) RemoveBranch(ctx context.Context, branch string, at OID) error {
	if !ValidBranch(branch) || at == "" {
		return fmt.Errorf("remove branch %s: not a branch name, or no commit", quote(branch))
	}
	if err := r.UpdateRef(ctx, branchRef(branch), "", at); err != nil {
		return err
	}
	_, err := r.refs(ctx, call{args: []string{"config", "--local", "--remove-section", "branch." + branch}})
	if err != nil && exitCode(err) != 128 { // 128: there is none
		return fmt.Errorf("remove the notes on %s: %w", branch, err)
	}
	return nil
}
