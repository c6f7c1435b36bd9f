package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Bounds of what agents are told of earlier work: of how many pieces of work, and how
// much in bytes, of one and of all.
const (
	MaxNoted      = 5
	maxNotesOfOne = 1 << 10
	maxNotes      = 4 << 10
)

// mergedNotes are the patterns and learnings that earlier work noted, the newest first.
// Only merged work counts: whoever can have a run begun must not have its agent brief the
// next one. So the files are those of the default branch, and of no branch that runs write to
// themselves. What cannot be read costs the notes and not the run.
func (h *Host) mergedNotes(ctx context.Context, at Location) string {
	var notes []string
	if at.Reviewed {
		found, err := notesInFiles(ctx, at.Repo, at.Default)
		if err != nil {
			h.tell(run.EventTrouble, unreadNotes+err.Error())
		}
		notes = found
	}
	if h.cfg.MergedNotes != nil {
		more, err := h.cfg.MergedNotes(ctx)
		if err != nil {
			h.tell(run.EventTrouble, unreadNotes+err.Error())
		}
		notes = append(notes, more...)
	}
	var b strings.Builder
	seen := map[string]bool{} // one work may be in a file and in its pull request
	for _, text := range notes[:min(len(notes), 2*MaxNoted)] {
		for line := range strings.Lines(strs.Cut(text, maxNotesOfOne)) {
			line = strings.TrimRight(line, " \t\r\n")
			if line == "" || seen[line] || b.Len()+len(line) >= maxNotes {
				continue
			}
			seen[line] = true
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

const unreadNotes = "what earlier work noted could not be read: "

// notesInFiles are those of the progress files that a commit holds.
func notesInFiles(ctx context.Context, repo *gitrepo.Repo, commit gitrepo.OID) (notes []string, err error) {
	names, err := repo.NamesIn(ctx, commit, ".ralph")
	if err != nil {
		return nil, fmt.Errorf("list .ralph: %w", err)
	}
	for _, name := range slices.Backward(names) {
		if len(notes) == MaxNoted {
			return notes, nil
		}
		if !strings.HasSuffix(name, "/") {
			continue
		}
		src, err := repo.ReadFile(ctx, commit, ".ralph/"+name+"progress.md", progress.MaxSize)
		if errors.Is(err, gitrepo.ErrNotFound) || errors.Is(err, gitrepo.ErrTooLarge) {
			continue
		}
		if err != nil {
			return notes, err
		}
		if doc, err := progress.Parse(src); err == nil { // anybody may have written it
			notes = append(notes, doc.Notes())
		}
	}
	return notes, nil
}
