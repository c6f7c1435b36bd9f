package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/fstree"
)

// Limits of a snapshot, unless the Worktree says otherwise.
const (
	// DefaultMaxFileSize is GitHub's recommended limit of 50 MiB a file; it
	// refuses files over 100 MiB.
	DefaultMaxFileSize = 50 << 20
	// DefaultMaxFiles bounds the files of a tree.
	DefaultMaxFiles = 200_000
	// DefaultMaxNewFiles and DefaultMaxNewBytes bound what a snapshot adds to the
	// tree before. A commit through GitHub's API takes 35 MiB.
	DefaultMaxNewFiles = 50_000
	DefaultMaxNewBytes = 256 << 20
	// DefaultMaxFork bounds what attempts leave in the fork of a run until it is tidied.
	DefaultMaxFork = 2 << 30
)

// maxDepth bounds how deep directories may nest. What a repository has deeper is
// withheld.
const maxDepth = 128

// Worktree is a directory that an agent may write, and the host's index of it.
// Its methods must not run at the same time as each other or as a program that
// writes the directory: they are safe then, but may see half a change.
type Worktree struct {
	repo  *Repo
	dir   string
	index string
	// MaxFileSize is in bytes.
	MaxFileSize, MaxNewBytes, MaxFork int64
	MaxFiles, MaxNewFiles             int
	// MaxRuleTime is how long a snapshot of a directory with rules may take.
	MaxRuleTime time.Duration
	// submodules are the stores of those that were looked for.
	submodules map[string]*store
	// cached is what the index file holds.
	cached *index
}

// Export makes dir hold exactly the files of tree. indexPath names the
// host's index of the directory; it lies outside of dir and may be missing.
// What the directory holds already is not written again, whichever tree it
// held before and wherever an earlier call was cut off.
//
// Not exported, and out of an agent's reach in every snapshot, are symbolic
// links that lead out of the tree (or could), and names that are a git
// directory to some file system. Submodules hold what the person has checked out of them,
// and are empty directories else; files of Git LFS hold what they stand for where the person
// has that. Line ends and other attributes have no effect: files are as git stores them.
func (r *Repo) Export(ctx context.Context, dir string, tree OID, indexPath string) (*Worktree, error) {
	w, err := r.worktree(dir, indexPath)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(w.index), 0o750), makeRoot(w.dir))
	}
	if err == nil {
		err = w.sync(ctx, tree, false)
	}
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", quotePath(string(tree)), err)
	}
	return w, nil
}

// worktree is a directory and its index, neither of which is looked at yet.
func (r *Repo) worktree(dir, indexPath string) (*Worktree, error) {
	w := &Worktree{
		repo: r, MaxFileSize: DefaultMaxFileSize, MaxFiles: DefaultMaxFiles,
		MaxNewFiles: DefaultMaxNewFiles, MaxNewBytes: DefaultMaxNewBytes, MaxFork: DefaultMaxFork,
		MaxRuleTime: DefaultMaxRuleTime, submodules: map[string]*store{},
	}
	var err1, err2 error
	w.dir, err1 = filepath.Abs(dir)
	w.index, err2 = filepath.Abs(indexPath)
	return w, errors.Join(err1, err2)
}

// makeRoot makes a directory of the host's choice.
func makeRoot(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(path)) // #nosec G304 -- the host chose the directory
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	dir, err := makeDirAt(parent, filepath.Base(path))
	if err != nil {
		return err
	}
	return dir.Close()
}

// Dir is the directory.
func (w *Worktree) Dir() string { return w.dir }

// Adopt takes up a directory that Export filled, as it stands now: nothing in
// it is read or changed, so that an agent may be at work there. os.ErrNotExist
// where there is no such directory.
func (r *Repo) Adopt(dir, indexPath string) (*Worktree, error) {
	w, err := r.worktree(dir, indexPath)
	if err == nil {
		_, err = os.Lstat(w.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("adopt: %w", err)
	}
	return w, nil
}

// Reset makes the directory hold exactly the tree. Where untracked files are kept, those
// stay that are neither of it nor of the tree before. The agent's disposable .git goes in
// either case.
func (w *Worktree) Reset(ctx context.Context, tree OID, keepUntracked bool) error {
	if err := w.sync(ctx, tree, keepUntracked); err != nil {
		return fmt.Errorf("reset to %s: %w", tree, err)
	}
	return nil
}

// load returns the host's index.
func (w *Worktree) load() (*index, error) {
	if w.cached != nil {
		return w.cached, nil
	}
	x, err := readIndex(w.index)
	if err != nil {
		return nil, err
	}
	w.cached = x
	return x, nil
}

// IndexTree is the tree that an index file speaks of, "" for none.
func IndexTree(path string) (OID, error) {
	x, err := readIndex(path)
	if err != nil {
		return "", err
	}
	return x.tree, nil
}

// save replaces the host's index.
func (w *Worktree) save(entries []entry, tree OID) error {
	w.cached = nil
	written, err := writeIndex(w.index, entries, tree)
	if err != nil {
		return err
	}
	w.cached = newIndex(entries, tree, written)
	return nil
}

// syncer makes a directory hold a tree.
type syncer struct {
	w           *Worktree
	old, target *index
	// entries are those of the target with their stamps; done marks the ones that are on disk
	// already, and restamped says that one of these was touched.
	entries       []entry
	done          []bool
	restamped     bool
	keepUntracked bool
}

func (w *Worktree) sync(ctx context.Context, tree OID, keepUntracked bool) error {
	old, err := w.load()
	if err != nil {
		return err
	}
	target := old
	if old.tree != tree {
		entries, err := w.target(ctx, tree)
		if err != nil {
			return err
		}
		target = newIndex(entries, tree, 0)
	}
	s := &syncer{
		w: w, old: old, target: target, entries: slices.Clone(target.entries), done: make([]bool, len(target.entries)),
		keepUntracked: keepUntracked,
	}
	for more := true; more; {
		if more, err = s.clear(ctx); err != nil {
			return err
		}
	}
	wrote, err := s.write(ctx)
	if err == nil && (wrote || s.restamped || target != old) {
		err = w.save(s.entries, tree)
	}
	return err
}

// target lists the tree and decides what is withheld.
func (w *Worktree) target(ctx context.Context, tree OID) ([]entry, error) {
	listed, err := w.repo.listTree(ctx, tree)
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(listed))
	for len(listed) > 0 {
		e := listed[0]
		listed = listed[1:]
		if e.Mode == ModeSubmodule {
			files, err := w.fill(ctx, e)
			if err != nil {
				return nil, err
			}
			if len(files) > 0 {
				listed = append(files, listed...)
				continue
			}
		}
		if e.Withheld, err = w.withholds(ctx, e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	return entries, nil
}

// withholds says whether an entry of a tree is never in the directory.
func (w *Worktree) withholds(ctx context.Context, e entry) (bool, error) {
	if !exportable(e.Path) || e.Mode != ModeSymlink {
		return !exportable(e.Path) || e.Mode == ModeSubmodule, nil
	}
	link, err := w.storeOf(e).read(ctx, kindBlob, string(e.OID), maxLink)
	if errors.Is(err, ErrTooLarge) {
		return true, nil
	}
	return badTarget(e.Path, string(link)) != "", err
}

// maxLink is how long the target of a symbolic link is at most.
const maxLink = 4096

// exportable says whether a path of a tree can be one of a directory.
func exportable(path string) bool {
	return cleanPath(path) == nil && strings.Count(path, "/") <= maxDepth
}

// maxWrong bounds the paths to remove that are held at once, errMore says that there are more.
const maxWrong = 4096

var errMore = errors.New("more is to be removed")

// clear finds out what is on disk as it is to be, and removes the rest, or as much of it as is
// held at once.
func (s *syncer) clear(ctx context.Context) (more bool, err error) {
	var wrong, left []string
	err = fstree.Walk(ctx, s.w.dir, func(e fstree.Entry) error {
		_, isDir := s.target.dirs[e.Path]
		_, wasDir := s.old.dirs[e.Path]
		_, wasFile := s.old.byPath[e.Path]
		at, isFile := s.target.byPath[e.Path]
		switch {
		case e.Path == ".git":
		case isFile:
			kept, err := s.keep(e, &s.entries[at])
			if s.done[at] = kept; kept || err != nil {
				return err
			}
		case isDir && e.IsDir():
			if e.Perm() != 0o755 { // it may be another user's, and usable all the same
				_ = fstree.ChmodAt(e.Dir, e.Name, 0o755)
			}
			return nil
		case isDir || !s.keepUntracked || wasFile:
		case wasDir && e.IsDir():
			left = append(left, e.Path)
			return nil
		default:
			return fs.SkipDir
		}
		if wrong = append(wrong, e.Path); len(wrong) == maxWrong {
			return errMore
		}
		return fs.SkipDir
	})
	if more = errors.Is(err, errMore); err != nil && !more {
		return false, err
	}
	if err := s.w.remove(ctx, wrong); err != nil {
		return false, err
	}
	root, err := os.OpenRoot(s.w.dir)
	if err != nil {
		return false, err
	}
	defer func() { _ = root.Close() }()
	for _, dir := range slices.Backward(left) {
		_ = root.Remove(dir) // it stays where something untracked is in it
	}
	return more, nil
}

// keep says whether what is on disk is the entry's file already.
func (s *syncer) keep(found fstree.Entry, e *entry) (bool, error) {
	info := makeInfo(&found.Stat)
	i, known := s.old.byPath[e.Path]
	switch {
	case e.Withheld:
		if e.Mode != ModeSubmodule || !info.isDir() {
			return false, nil
		}
		return emptyDir(found.Dir, found.Name)
	case !known || info.gitMode() != e.Mode || !info.isRegular() && !info.isLink() || info.links != 1,
		info.isRegular() && info.perm != permOf(e.Mode):
		return false, nil
	}
	was := s.old.entries[i]
	if was.OID != e.OID || was.Mode != e.Mode || was.Stat.Size != info.stamp.Size {
		return false, nil
	}
	if s.old.fresh(was, info) {
		e.Stat, e.Filled = info.stamp, was.Filled
		return true, nil
	}
	// Touched, moved or of another owner: the content decides, so that a file
	// that is right keeps its time.
	content, info, err := contentAt(found.Dir, found.Name, info)
	if err != nil {
		return false, nil //nolint:nilerr // it is written anew
	}
	defer func() { _ = content.Close() }()
	oid, err := content.name()
	if err != nil || oid != e.OID {
		return false, nil //nolint:nilerr // it is written anew
	}
	e.Stat, s.restamped = info.stamp, true
	return true, nil
}

// write puts the entries on disk that are missing there, and empty directories in the
// place of submodules.
func (s *syncer) write(ctx context.Context) (wrote bool, err error) {
	root, err := openDir(s.w.dir)
	if err != nil {
		return false, err
	}
	stack := &dirStack{root: root}
	defer func() { stack.cut(0); _ = root.Close() }()
	for i := range s.entries {
		e := &s.entries[i]
		switch {
		case s.done[i], e.Withheld && (e.Mode != ModeSubmodule || !exportable(e.Path)):
		case e.Withheld:
			if _, err := stack.at(e.Path); err != nil {
				return false, err
			}
		default:
			wrote = true
			dirPath, name := splitPath(e.Path)
			dir, err := stack.at(dirPath)
			if err == nil {
				err = s.w.contents(ctx, e, func(r io.Reader) error {
					e.Stat, err = writeAt(dir, name, e.Mode, r)
					return err
				})
			}
			if err != nil {
				return false, fmt.Errorf("write %s: %w", quotePath(e.Path), err)
			}
		}
	}
	return wrote, nil
}

// permOf is the permissions of an exported file.
func permOf(mode uint32) uint32 {
	if mode&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

// writeAt makes one file or link and returns its stamp.
func writeAt(dir *os.File, name string, mode uint32, r io.Reader) (fileStamp, error) {
	if mode == ModeSymlink {
		target, err := io.ReadAll(io.LimitReader(r, 4097))
		if err != nil {
			return fileStamp{}, err
		}
		if err := fstree.Retry(func() error { return unix.Symlinkat(string(target), int(dir.Fd()), name) }); err != nil {
			return fileStamp{}, err
		}
		info, err := lstatAt(dir, name)
		return info.stamp, err
	}
	perm := permOf(mode)
	f, err := createFileAt(dir, name, perm)
	if err != nil {
		return fileStamp{}, err
	}
	_, err = io.Copy(f, r)
	// The umask of the host is not for the agent's tree.
	err = errors.Join(err, fstree.Retry(func() error { return unix.Fchmod(int(f.Fd()), perm) }))
	info, statErr := fstat(f)
	return info.stamp, errors.Join(err, statErr, f.Close())
}
