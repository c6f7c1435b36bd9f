package formats

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/progress"
)

// lastBranch is where ralph.sh keeps the branch of the PRD it worked last.
const lastBranch = ".last-branch"

// ArchiveDir is where snarktank/ralph puts a PRD that makes room for another:
// archive/YYYY-MM-DD-NAME/, the name being that of its branch without "ralph/".
func ArchiveDir(branch string, when time.Time) string {
	name := fileStem(strings.TrimPrefix(branch, "ralph/"))
	return "archive/" + when.Format(time.DateOnly) + "-" + name
}

// Archive makes room below root for a PRD of the branch next. Where prd.json
// there is finished, or of another branch, it and progress.txt are copied to
// ArchiveDir, progress.txt is removed, and .last-branch, if there is one, names
// the next branch, so that ralph.sh does not archive again. dir is where the
// copies are, "" where nothing had to be archived. A directory that is there
// already is never written to; a number behind the name tells them apart.
func Archive(root *os.Root, next string, when time.Time) (dir string, err error) {
	name := PRD.FileName("")
	src, err := readRegular(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	old, err := Parse(PRD, name, src)
	if err != nil {
		return "", err
	}
	p := old.Plan()
	last, err := readRegular(root, lastBranch)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	known := err == nil
	if branch := strings.TrimSpace(string(last)); branch != "" {
		p.Branch = branch // prd.json may have been exchanged by hand since
	}
	if !p.Done() && p.Branch == next {
		return "", nil
	}
	if dir, err = freshDir(root, ArchiveDir(p.Branch, when)); err != nil {
		return "", err
	}
	if err := writeNew(root, path.Join(dir, name), src); err != nil {
		return "", err
	}
	log := PRD.Companion()
	switch notes, err := readRegular(root, log); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", err
	default:
		if err := writeNew(root, path.Join(dir, log), notes); err != nil {
			return "", err
		}
		if err := root.Remove(log); err != nil {
			return "", fmt.Errorf("remove %s, which is archived: %w", log, err)
		}
	}
	if known {
		if err := root.Remove(lastBranch); err != nil {
			return "", fmt.Errorf("exchange %s: %w", lastBranch, err)
		}
		return dir, writeNew(root, lastBranch, []byte(next+"\n"))
	}
	return dir, nil
}

// maxArchives bounds how many archives of one day have the same name.
const maxArchives = 1000

// freshDir makes a directory that was not there. Its parent must be a real one.
func freshDir(root *os.Root, name string) (string, error) {
	parent := path.Dir(name)
	if err := root.Mkdir(parent, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make %s: %w", parent, err)
	}
	info, err := root.Lstat(parent)
	if err != nil {
		return "", fmt.Errorf("make %s: %w", parent, err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%w: %q is not a directory", progress.ErrNotRegular, parent)
	}
	for n := 1; n <= maxArchives; n++ {
		dir := name
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", name, n)
		}
		err := root.Mkdir(dir, 0o750)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("make %s: %w", dir, err)
		}
	}
	return "", fmt.Errorf("make %s: %w", name, fs.ErrExist)
}

// readRegular reads a regular file of at most progress.MaxSize bytes; a link
// is not followed and a pipe not waited for.
func readRegular(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %q", progress.ErrNotRegular, name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, progress.MaxSize+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, admit(name, b)
}

// writeNew writes a file that is not there yet.
func writeNew(root *os.Root, name string, b []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
