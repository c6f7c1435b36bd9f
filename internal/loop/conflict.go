package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

const (
	// maxMerges bounds how often a run brings in its base branch.
	maxMerges = 2
	// maxConflicts bounds the files that a task names, and maxConflict the bytes
	// of one that is looked through for conflict markers.
	maxConflicts = 20
	maxConflict  = 4 << 20
)

// ErrUnrelated is returned by a Branch for a base branch that has nothing in
// common with the run's own.
var ErrUnrelated = errors.New("loop: the base branch has nothing in common with this one")

// ErrTooMuch is returned by a Branch that cannot be merged with its base branch in the
// time that a merge may take.
var ErrTooMuch = errors.New("loop: too much has changed to be merged")

// Merge is the base branch brought into the run's own, where the two conflict: a
// task for an agent, whose result the host makes a merge commit.
type Merge struct {
	// Parent is the tip of the base branch, ParentTree its tree.
	Parent, ParentTree string
	// Tree is what the agent starts from: both sides, with conflict markers in
	// Files.
	Tree  string
	Files []string

	// TaskID is the task of it, and HeadTree the tree of the run's own head:
	// while the task is worked, State.HeadTree is Tree, so that all that is asked
	// of a change is asked of what the agent did, and not of what the base brings.
	TaskID   string
	HeadTree string
}

// bringIn looks, at the end of the work, whether it still merges with the base
// branch. Where it does, nothing is to be done: a merge that nobody needs is one
// more commit to read. Where it does not, that becomes the last task.
func (e *Engine) bringIn(ctx context.Context, s *State) (again bool, err error) {
	if s.BaseBranch == "" || s.NoCommit || s.Head == s.Base || s.Merges >= maxMerges {
		return false, nil
	}
	m, err := e.Branch.Merge(ctx, *s)
	why := ""
	switch {
	case errors.Is(err, ErrUnrelated):
		why = fmt.Sprintf("%s no longer shares history with this branch; nothing was merged.", s.BaseBranch)
	case errors.Is(err, ErrTooMuch):
		why = fmt.Sprintf("Whether %s conflicts with this branch was not found out: too much has changed on both.", s.BaseBranch)
	}
	if why != "" {
		s.noteMerged([]string{why})
		s.Merges = maxMerges
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("merge with %s: %w", s.BaseBranch, err)
	}
	if m == nil {
		return false, nil
	}
	doc, err := s.document(s.Progress)
	if err != nil {
		return false, fmt.Errorf("read the accepted progress: %w", err)
	}
	task := run.Task{Title: fmt.Sprintf("Merge %s and resolve the conflicts with it", s.BaseBranch), Priority: 1}
	// Names that only the run's own branch has are an agent's words, and this is a task
	// that a person's approval covers.
	named, err := e.existing(ctx, m.ParentTree, m.Files[:min(len(m.Files), maxConflicts)])
	if err != nil {
		return false, err
	}
	for _, file := range named {
		task.Accept = append(task.Accept, fmt.Sprintf("%q keeps what both sides want, and holds no conflict marker "+
			"(<<<<<<<, =======, >>>>>>>)", file))
	}
	if rest := len(m.Files) - len(named); rest > 0 {
		task.Accept = append(task.Accept, fmt.Sprintf("So are the other %d files with conflict markers", rest))
	}
	if m.TaskID, err = doc.AddTask(task); err != nil {
		return false, fmt.Errorf("add the task of the merge: %w", err)
	}
	if err := e.layOut(ctx, s, m.Tree); err != nil {
		return false, err
	}
	m.HeadTree = s.HeadTree
	s.Merge, s.HeadTree = m, m.Tree
	s.Merges++
	if err := s.cover(doc); err != nil {
		return false, err
	}
	s.Progress = s.text(doc)
	s.TaskID, s.HintDone = m.TaskID, false // it comes next, whatever else there is
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	e.emit(run.Event{
		Kind: run.EventPersonNotified, TaskID: m.TaskID,
		Text: fmt.Sprintf("%s has moved on, and conflicts in %s", s.BaseBranch, oneLine(strings.Join(m.Files, ", "), 300)),
	}, s)
	return true, nil
}

// leaveMerge gives a merge up whose task is not the one at hand, or whose run
// ends: the branch is what it was without it.
func (e *Engine) leaveMerge(ctx context.Context, s *State, doc *progress.Doc, why string) error {
	m := s.Merge
	s.Merge, s.HeadTree = nil, m.HeadTree
	if t, ok := doc.Task(m.TaskID); ok && t.Actionable() {
		if err := doc.Skip(m.TaskID, why); err != nil {
			return fmt.Errorf("skip %s: %w", m.TaskID, err)
		}
		if err := s.cover(doc); err != nil {
			return err
		}
		s.Progress = s.text(doc)
	}
	if s.TaskID == m.TaskID {
		s.TaskID = ""
	}
	return e.layOut(ctx, s, s.HeadTree)
}

// dropMerge is leaveMerge where the progress file is not at hand.
func (e *Engine) dropMerge(ctx context.Context, s *State, why string) error {
	if s.Merge == nil {
		return nil
	}
	doc, err := s.document(s.Progress)
	if err != nil {
		return fmt.Errorf("read the accepted progress: %w", err)
	}
	return e.leaveMerge(ctx, s, doc, why)
}

// unresolved says which conflict a proposed merge still holds, "" for none.
func (e *Engine) unresolved(ctx context.Context, s *State, tree string) (string, error) {
	if s.Merge == nil {
		return "", nil
	}
	for _, file := range s.Merge.Files {
		text, ok, err := e.Trees.File(ctx, tree, file, maxConflict)
		if err != nil {
			return "", fmt.Errorf("read %q of the proposal: %w", file, err)
		}
		if !ok { // one side deleted it, or it is no text
			continue
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "<<<<<<< ") || strings.HasPrefix(line, ">>>>>>> ") {
				return fmt.Sprintf("%q still holds conflict markers: resolve every conflict in it.", file), nil
			}
		}
	}
	return "", nil
}

// unconflicted leaves out the files that a merge has to resolve: what they were
// before holds conflict markers, and is nothing to compare with.
func (s *State) unconflicted(code []Change) []Change {
	if s.Merge == nil {
		return code
	}
	return slices.DeleteFunc(slices.Clone(code), func(c Change) bool { return slices.Contains(s.Merge.Files, c.Path) })
}
