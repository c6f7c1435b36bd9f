package inline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
)

// taskFiles are the file that a plan came from and what its system keeps beside
// it.
type taskFiles struct{ plan, notes taskFile }

// paths are where they are in the repository.
func (f taskFiles) paths() []string {
	return slices.DeleteFunc([]string{f.plan.path, f.notes.path}, func(path string) bool { return path == "" })
}

// taskFile is a file that a run keeps up to date.
type taskFile struct {
	// path is where it is in the repository, "" for a file that is not written.
	path string
	// inCommit: it is part of the commits. Otherwise it is written in the
	// checkout: it is not tracked, or has changes that are not committed.
	inCommit bool
}

// committed is the path of a file that is part of the commits, or "".
func (f taskFile) committed() string {
	if f.inCommit {
		return f.path
	}
	return ""
}

// locate says where the plan's own files are written. One outside the repository
// is not, nor what belongs to runs or to git.
func locate(ctx context.Context, repo *gitrepo.Repo, j job) (taskFiles, error) {
	file := writable(repo.Top(), j.file)
	if file == "" {
		return taskFiles{}, nil
	}
	dirty, err := repo.Dirty(ctx)
	if err != nil {
		return taskFiles{}, err
	}
	_, head, err := repo.Head(ctx)
	if err != nil {
		return taskFiles{}, err
	}
	tracked := func(file string) (bool, error) {
		_, err := repo.ReadFile(ctx, head, file, progress.MaxSize)
		if errors.Is(err, gitrepo.ErrNotFound) || errors.Is(err, gitrepo.ErrTooLarge) {
			return false, nil
		}
		return err == nil, err
	}
	known, err := tracked(file)
	if err != nil {
		return taskFiles{}, err
	}
	out := taskFiles{plan: taskFile{path: file, inCommit: known && !slices.Contains(dirty, file)}}
	notes := writable(repo.Top(), j.companion)
	if notes == "" {
		return out, nil
	}
	if known, err = tracked(notes); err != nil {
		return taskFiles{}, err
	}
	clean := known && !slices.Contains(dirty, notes)
	if clean && !out.plan.inCommit {
		return out, nil // writing it would leave a change behind that nobody commits
	}
	out.notes = taskFile{path: notes, inCommit: clean}
	if _, err := os.Lstat(filepath.Join(repo.Top(), filepath.FromSlash(notes))); !known && errors.Is(err, fs.ErrNotExist) {
		ignored, err := repo.Ignored(ctx, notes)
		if err != nil {
			return taskFiles{}, err
		}
		out.notes.inCommit = out.plan.inCommit && !ignored
	}
	return out, nil
}

// writable is the path of a file in the repository at top, "" where it is outside
// or in a folder that no run writes to for its plan.
func writable(top, file string) string {
	if file == "" {
		return ""
	}
	rel, ok := below(top, file)
	if first, _, _ := strings.Cut(rel, "/"); !ok || first == ".ralph" || first == ".git" {
		return ""
	}
	return rel
}

// follow brings the plan's own files up to date that are no part of the commits.
// Repeating it changes nothing.
func (c *checkout) follow(l loop.Landing) error {
	file, notesFile := c.files.plan, c.files.notes
	all := file.committed() == file.path && notesFile.committed() == notesFile.path
	if all || l.Task.ID == "" && !l.Recorded {
		return nil
	}
	root, err := os.OpenRoot(c.repo.Top())
	if err != nil {
		return fmt.Errorf("open the checkout: %w", err)
	}
	defer func() { _ = root.Close() }()
	src, err := progress.ReadBytes(root, file.path)
	if errors.Is(err, fs.ErrNotExist) && file.inCommit {
		return nil // the run has told of it
	}
	if err != nil {
		return err
	}
	var notes []byte
	if notesFile.path != "" {
		if notes, err = progress.ReadBytes(root, notesFile.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	w, err := plan.WriteBack(path.Base(file.path), src, notes, l.Work())
	if err != nil && file.inCommit {
		return nil // the run has told of it
	}
	if err != nil {
		return err
	}
	// The notes first: a box that is ticked tells that they are there.
	if notesFile.path != "" && !notesFile.inCommit && w.Notes != nil {
		if err := progress.Write(root, notesFile.path, w.Notes); err != nil {
			return err
		}
	}
	if file.inCommit {
		return nil
	}
	return progress.Write(root, file.path, w.File)
}
