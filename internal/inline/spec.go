package inline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/run"
)

// Files that smart-ralph keeps beside the documents of a spec.
const (
	specNotes   = ".progress.md"
	specState   = ".ralph-state.json"
	specCurrent = ".current-spec"
)

// Spec is a folder of documents that lead to tasks, as smart-ralph has them. The zero
// value is none.
type Spec struct {
	// Folder is where it is, from the top of the repository.
	Folder string
	// Phase is the file that is written next, "" where there are tasks to work.
	Phase string

	dir string // on this machine
}

// File is the path of the file that is written next.
func (s Spec) File() string { return path.Join(s.Folder, s.Phase) }

// FindSpec is the spec that a person names in dir; none where they name no folder.
func FindSpec(ctx context.Context, git *gitrepo.Git, dir, named string) (Spec, error) {
	repo, err := git.OpenLocal(ctx, dir)
	if err != nil {
		return Spec{}, err
	}
	if !filepath.IsAbs(named) {
		named = filepath.Join(dir, named)
	}
	return findSpec(repo.Top(), named)
}

// findSpec looks at the folder; none where it is none, or holds nothing of a spec.
func findSpec(top, folder string) (Spec, error) {
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() {
		return Spec{}, nil //nolint:nilerr // no folder is no spec
	}
	if folder, err = currentSpec(top, folder); err != nil {
		return Spec{}, err
	}
	if folder, err = filepath.EvalSymlinks(folder); err != nil {
		return Spec{}, fmt.Errorf("read the folder of the spec: %w", err)
	}
	rel, inside := below(top, folder)
	if !inside || rel == "." {
		return Spec{}, nil
	}
	var there []string
	for _, name := range append(plan.SpecFiles(), specNotes, specState) {
		is, err := isSpecFile(folder, rel, name)
		if err != nil {
			return Spec{}, err
		}
		if is {
			there = append(there, name)
		}
	}
	if len(there) == 0 {
		return Spec{}, nil
	}
	s := Spec{Folder: rel, Phase: plan.NextPhase(there), dir: folder}
	return s, nil
}

// isSpecFile says whether a file of the spec is there. A link is refused: what it leads
// to would be told to agents, and might be no file of the repository.
func isSpecFile(folder, rel, name string) (bool, error) {
	info, err := os.Lstat(filepath.Join(folder, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the folder of the spec: %w", err)
	case !info.Mode().IsRegular():
		return false, &run.UserError{Message: path.Join(rel, name) + " is not a regular file", Hint: "put the file itself there"}
	}
	return true, nil
}

// currentSpec is the folder of the spec that people work on, where the folder of all
// of them says so.
func currentSpec(top, folder string) (string, error) {
	name := filepath.Join(folder, specCurrent)
	src, err := readText(name, specCurrent)
	if errors.Is(err, fs.ErrNotExist) {
		return folder, nil
	}
	if err != nil {
		return "", err
	}
	current := strings.TrimSpace(string(src))
	in := folder
	if strings.Contains(current, "/") {
		in = top
	}
	at := filepath.Join(in, current)
	if _, inside := below(top, at); current == "" || !inside {
		return "", errCurrent(name, current)
	}
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		return "", errCurrent(name, current)
	}
	return at, nil
}

func errCurrent(file, current string) error {
	return &run.UserError{
		Message: fmt.Sprintf("%s names %q, which is no folder of this repository", file, current),
		Hint:    "name the folder of the spec",
	}
}

// job is the plan of the spec's next step: of its tasks, or of the file that is
// missing. Both are one subject, so that they have one branch and progress file.
func (s Spec) job(top, dir, named string) (job, error) {
	tasks := filepath.Join(s.dir, plan.SpecTasks)
	if s.Phase == "" {
		j, err := readJob(top, dir, tasks)
		j.spec, j.subject.PlanFile = true, path.Join(s.Folder, plan.SpecTasks)
		return j, err
	}
	var written []plan.Document
	for _, name := range append([]string{specNotes}, plan.SpecFiles()...) {
		src, err := readText(filepath.Join(s.dir, name), path.Join(s.Folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return job{}, err
		}
		written = append(written, plan.Document{Name: name, Text: string(src)})
	}
	if len(written) == 0 {
		return job{}, &run.UserError{
			Message: named + " does not say what is to be built",
			Hint:    "write the goal into " + path.Join(s.Folder, specNotes),
		}
	}
	p, err := plan.FromPhase(s.Folder, s.Phase, written)
	if err != nil {
		return job{}, err
	}
	rel := path.Join(s.Folder, plan.SpecTasks)
	return job{plan: p, spec: true, writes: s.File(), subject: loop.Subject{
		Key: kindPlan + rel, Slug: plan.FileSlug(rel), Name: p.Title, PlanFile: s.Folder,
	}}, nil
}
