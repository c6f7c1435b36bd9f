package loop

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// RuleTaskFile is the rule of findings about a plan's own file that could not be
// written.
const RuleTaskFile = "task-file"

// Work is what the run has done of its plan once l has landed.
func (l Landing) Work() plan.Work {
	text := l.State.Progress
	if p := l.State.Proposal; p != nil && l.Task.ID != "" {
		text = p.Progress
	}
	return l.State.work(text, l.Task.ID)
}

// work is what the run has done of its plan by the time a task lands, "" for
// none, with that text in progress.md. It follows from the state alone, so that
// a step that is repeated writes the same.
func (s *State) work(text, task string) plan.Work {
	w := plan.Work{Progress: text, Task: task, Files: s.Draft.Files, When: s.StartedAt}
	for _, c := range s.Commits {
		if c.TaskID != "" && c.TaskID != task {
			w.Written = append(w.Written, c.TaskID)
		}
	}
	if n := len(s.History); n > 0 {
		w.When = s.History[n-1].StartedAt.Add(s.History[n-1].Duration)
	}
	return w
}

// keepTaskFile gives tree with the plan's own file, and what is kept beside it,
// as they are on the branch. Only the host writes them: what an agent did to
// them is neither work nor a claim.
func (e *Engine) keepTaskFile(ctx context.Context, s *State, tree string) (string, error) {
	if len(s.Subject.HostFiles) == 0 {
		return tree, nil
	}
	kept, err := e.Work.Restore(ctx, tree, s.HeadTree, s.Subject.HostFiles)
	if err != nil {
		return "", fmt.Errorf("keep the plan's own file as it is on the branch: %w", err)
	}
	return kept, nil
}

// writeBack gives tree with what the run has done written into the file that its
// plan came from, once task has landed ("" for none), and the paths that it
// changed. A file that cannot be written is left alone, and people are told.
func (e *Engine) writeBack(
	ctx context.Context, s *State, tree string, doc *progress.Doc, task string,
) (with string, own []string, err error) {
	file := s.Subject.TaskFile
	if file == "" {
		return tree, nil, nil
	}
	src, ok, err := e.Work.File(ctx, tree, file, progress.MaxSize)
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", file, err)
	}
	if !ok {
		e.notWritten(s, "it is not a regular file on this branch")
		return tree, nil, nil
	}
	var notes []byte
	noted := false
	if s.Subject.TaskNotes != "" {
		if notes, noted, err = e.Work.File(ctx, tree, s.Subject.TaskNotes, progress.MaxSize); err != nil {
			return "", nil, fmt.Errorf("read %s: %w", s.Subject.TaskNotes, err)
		}
		if !noted {
			notes = nil
		}
	}
	written, err := plan.WriteBack(path.Base(file), src, notes, s.work(string(doc.Bytes()), task))
	if err != nil {
		e.notWritten(s, oneLine(err.Error(), 200))
		return tree, nil, nil
	}
	if err := e.tellOpen(s, doc, task, written); err != nil {
		return "", nil, err
	}
	with = tree
	for _, f := range []struct {
		path     string
		was, now []byte
		there    bool
	}{{file, src, written.File, true}, {s.Subject.TaskNotes, notes, written.Notes, noted}} {
		if f.path == "" || string(f.was) == string(f.now) {
			continue
		}
		whole, put, err := e.put(ctx, with, f.path, f.now, f.there)
		switch {
		case err != nil:
			return "", nil, err
		case put:
			with, own = whole, append(own, f.path)
		case f.path == file:
			e.notWritten(s, "it is not a regular file on this branch")
			return tree, nil, nil
		}
	}
	return with, own, nil
}

// tellOpen tells people of tasks that the file and the run do not agree on.
func (e *Engine) tellOpen(s *State, doc *progress.Doc, id string, w plan.Written) error {
	if w.Missing {
		task, err := findTask(doc, id)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s.Plan.Tasks, func(t run.Task) bool { return t.Title == task.Title }) {
			e.notWritten(s, fmt.Sprintf("it no longer has the task %q", oneLine(task.Title, 100)))
		}
	}
	if len(w.Open) > 0 {
		const shown = 5
		names := strings.Join(w.Open[:min(len(w.Open), shown)], ", ")
		e.notWritten(s, "the run is done, but these tasks in the file are not part of it: "+oneLine(names, 300))
	}
	return nil
}

// notWritten tells people once why the plan's own file is not up to date.
func (e *Engine) notWritten(s *State, why string) {
	file := s.Subject.TaskFile
	e.tell(s, run.EventPersonNotified, gate.Finding{Rule: RuleTaskFile, Path: file, Text: file + " was not updated: " + why})
}

// put gives tree with content as the file at path, where that changes nothing
// else: there says that a plain file stands at path. Without, nothing may. What
// would bring in a secret is not put either.
func (e *Engine) put(
	ctx context.Context, tree, path string, content []byte, there bool,
) (with string, put bool, err error) {
	if with, err = e.Work.With(ctx, tree, path, content); err != nil {
		return "", false, fmt.Errorf("write %s: %w", path, err)
	}
	changes, err := e.Work.Changes(ctx, tree, with)
	if err != nil {
		return "", false, fmt.Errorf("compare trees: %w", err)
	}
	if len(changes) != 1 || !there && changes[0].Status != "A" || there && changes[0].OldMode != changes[0].NewMode {
		return tree, false, nil
	}
	leaks, err := e.Work.Secrets(ctx, tree, with)
	if err != nil {
		return "", false, fmt.Errorf("look for secrets: %w", err)
	}
	if len(leaks) > 0 {
		return tree, false, nil
	}
	return with, true, nil
}
