package gitrepo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	// DefaultMaxQuarantine bounds what the attempts of a run leave in its quarantine
	// until it ends.
	DefaultMaxQuarantine = 2 << 30
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
	MaxFileSize, MaxNewBytes, MaxQuarantine int64
	MaxFiles, MaxNewFiles                   int
	// cached is what the index file holds, and seen its stamp.
	cached *index
	// ignores keeps parsed .gitignore files by the name of their content, and
	// ignoresSize says how much they hold.
	ignores     map[OID][]*ignoreRule
	ignoresSize int64
}

// Export makes dir hold exactly the files of tree, apart from files that its
// .gitignore rules exclude (build caches), which stay. indexPath names the
// host's index of the directory; it lies outside of dir and may be missing.
// What the directory holds already is not written again, whichever tree it
// held before and wherever an earlier call was cut off.
//
// Not exported, and out of an agent's reach in every snapshot, are symbolic
// links that lead out of the tree (or could), and names that are a git
// directory to some file system. Submodules are empty directories. Line ends,
// filters and other attributes have no effect: files are as git stores them.
func (r *Repo) Export(ctx context.Context, dir string, tree OID, indexPath string) (*Worktree, error) {
	w, err := r.worktree(dir, indexPath)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := w.prepare(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := w.sync(ctx, tree, true); err != nil {
		return nil, fmt.Errorf("export %s: %w", tree, err)
	}
	return w, nil
}

// worktree is a directory and its index, neither of which is looked at yet.
func (r *Repo) worktree(dir, indexPath string) (*Worktree, error) {
	w := &Worktree{
		repo: r, MaxFileSize: DefaultMaxFileSize, MaxFiles: DefaultMaxFiles,
		MaxNewFiles: DefaultMaxNewFiles, MaxNewBytes: DefaultMaxNewBytes, MaxQuarantine: DefaultMaxQuarantine,
		ignores: map[OID][]*ignoreRule{},
	}
	var err error
	if w.dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if w.index, err = filepath.Abs(indexPath); err != nil {
		return nil, err
	}
	if rel, err := filepath.Rel(w.dir, w.index); err != nil || (rel != ".." && !strings.HasPrefix(rel, "../")) {
		return nil, fmt.Errorf("the index %s is not outside of the directory", quotePath(w.index))
	}
	return w, nil
}

// prepare makes the directories.
func (w *Worktree) prepare() error {
	for _, d := range []string{filepath.Dir(w.dir), filepath.Dir(w.index)} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return err
		}
	}
	parent, err := os.Open(filepath.Dir(w.dir)) // #nosec G304 -- the host chose the directory
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	dir, err := makeDirAt(parent, filepath.Base(w.dir))
	if err != nil {
		return err
	}
	return dir.Close()
}

// Dir is the directory.
func (w *Worktree) Dir() string { return w.dir }

// Reset makes the directory exactly tree, removing everything else; ignored
// files only if keepIgnored is false. The agent's disposable .git goes in
// either case.
func (w *Worktree) Reset(ctx context.Context, tree OID, keepIgnored bool) error {
	if err := w.sync(ctx, tree, keepIgnored); err != nil {
		return fmt.Errorf("reset to %s: %w", tree, err)
	}
	return nil
}

// load returns the host's index.
func (w *Worktree) load() (*index, error) {
	if w.cached != nil {
		return w.cached, nil
	}
	x, err := readIndex(&w.repo.store, w.index)
	if err != nil {
		return nil, err
	}
	w.cached = x
	return x, nil
}

// save replaces the host's index. Where the paths are those of the index like,
// that spares work. Trees may be empty.
func (w *Worktree) save(entries []entry, tree OID, like *index, trees map[string]OID) error {
	w.cached = nil
	written, err := writeIndex(&w.repo.store, w.index, entries)
	if err != nil {
		return err
	}
	if like != nil {
		w.cached = like.with(entries, tree, written, trees)
		return nil
	}
	w.cached = newIndex(entries, tree, written)
	w.cached.trees = trees
	return nil
}

// syncer makes a directory hold a tree.
type syncer struct {
	w      *Worktree
	old    *index
	target *index
	// done marks the entries of the target that are on disk already.
	done []bool
	// extra are untracked files and directories, to be judged by the rules of
	// the target's .gitignore files once those are on disk.
	extra []string
	// more: there are others than extra holds.
	more        bool
	keepIgnored bool
}

func (w *Worktree) sync(ctx context.Context, tree OID, keepIgnored bool) error {
	old, err := w.load()
	if err != nil {
		return err
	}
	target := old
	if old.tree != tree {
		entries, err := w.target(ctx, tree, old)
		if err != nil {
			return err
		}
		target = newIndex(entries, tree, instant{})
	}
	root, err := openDir(w.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	s := &syncer{w: w, old: old, target: target, done: make([]bool, len(target.entries)), keepIgnored: keepIgnored}
	// Copied, since stamps are set and the old ones are still needed.
	entries := slices.Clone(target.entries)
	changed, err := s.dir(ctx, root, "", entries, 0)
	if err != nil {
		return err
	}
	wrote, err := s.write(ctx, root, entries)
	if err != nil {
		return err
	}
	for _, path := range s.extra {
		if err := s.removeExtra(ctx, root, path); err != nil {
			return err
		}
	}
	if changed || wrote || target != old {
		if err := w.save(entries, tree, target, target.trees); err != nil {
			return err
		}
	}
	if s.more {
		return w.sync(ctx, tree, false)
	}
	return nil
}

// target lists the tree and decides what is withheld.
func (w *Worktree) target(ctx context.Context, tree OID, old *index) ([]entry, error) {
	if !w.repo.algo.owns(tree) {
		return nil, fmt.Errorf("tree %s: %w", quote(string(tree)), ErrNotFound)
	}
	entries, err := w.repo.listTree(ctx, tree)
	if err != nil {
		return nil, err
	}
	var links []OID
	var at []int
	for i := range entries {
		e := &entries[i]
		if !exportable(e.path) {
			e.withheld = true
			continue
		}
		switch e.mode & modeKind {
		case ModeFile & modeKind:
		case ModeSubmodule:
			e.withheld = true
		case ModeSymlink:
			if j, known := old.byPath[e.path]; known && old.entries[j].mode == e.mode && old.entries[j].oid == e.oid {
				e.withheld = old.entries[j].withheld
				continue
			}
			links = append(links, e.oid)
			at = append(at, i)
		default:
			return nil, fmt.Errorf("tree %s holds %s with mode %o", tree, quotePath(e.path), e.mode)
		}
	}
	err = w.repo.readEach(ctx, links, func(i int, size int64, r io.Reader) error {
		target, err := io.ReadAll(io.LimitReader(r, 4097))
		e := &entries[at[i]]
		e.withheld = size > 4096 || badTarget(e.path, string(target)) != ""
		return err
	})
	return entries, err
}

// exportable says whether a path of a tree can be one of a directory.
func exportable(path string) bool {
	return cleanPath(path) == nil && strings.Count(path, "/") <= maxDepth
}

// dir compares one directory with the target, keeps what is right, and removes
// what is in the way. It says whether a stamp changed.
func (s *syncer) dir(
	ctx context.Context, dir *os.File, prefix string, entries []entry, depth int,
) (changed bool, err error) {
	names, err := s.wanted(ctx, dir, prefix)
	if err != nil {
		return false, err
	}
	for i, stat := range fstree.LstatAll(dir, names) {
		name := names[i]
		path := prefix + name
		if path == ".git" {
			if err := fstree.RemoveAt(ctx, dir, name); err != nil {
				return changed, err
			}
			continue
		}
		at, isFile := s.target.byPath[path]
		info, err := makeInfo(&stat.Stat_t), stat.Err
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return changed, err
		}
		if isFile {
			kept, restamped, err := s.keep(dir, name, &entries[at], info)
			if err != nil {
				return changed, err
			}
			changed = changed || restamped
			s.done[at] = kept
			if !kept {
				if err := fstree.RemoveAt(ctx, dir, name); err != nil {
					return changed, err
				}
			}
			continue
		}
		if !info.isDir() || depth == maxDepth {
			if err := fstree.RemoveAt(ctx, dir, name); err != nil {
				return changed, err
			}
			continue
		}
		sub, err := s.enter(dir, name, info)
		if err != nil {
			return changed, err
		}
		subChanged, err := s.dir(ctx, sub, path+"/", entries, depth+1)
		_ = sub.Close()
		if err != nil {
			return changed, err
		}
		changed = changed || subChanged
	}
	return changed, nil
}

// maxExtra bounds the untracked files that are noted. The rest has its turn when
// these are gone, and is then removed even where it is ignored.
const maxExtra = 100_000

// wanted lists what a directory has of the target, or needs for it, and notes the
// rest as extra. Files are removed only after the directory has been read.
func (s *syncer) wanted(ctx context.Context, dir *os.File, prefix string) ([]string, error) {
	var wanted []string
	err := eachBatch(ctx, dir, func(names []string) error {
		for _, name := range names {
			path := prefix + name
			_, isFile := s.target.byPath[path]
			_, isDir := s.target.dirs[path]
			switch {
			case isFile || isDir || path == ".git":
				wanted = append(wanted, name)
			case len(s.extra) < maxExtra:
				s.extra = append(s.extra, path)
			default:
				s.more = true
			}
		}
		return nil
	})
	return wanted, err
}

// enter opens a directory of the target and gives it usual permissions.
func (s *syncer) enter(parent *os.File, name string, info fileInfo) (*os.File, error) {
	if info.perm == 0o755 {
		return fstree.OpenDirAt(parent, name)
	}
	// It may be another user's, and usable all the same.
	chmodErr := fstree.ChmodAt(parent, name, 0o755)
	d, err := fstree.OpenDirAt(parent, name)
	if err != nil {
		return nil, errors.Join(err, chmodErr)
	}
	return d, nil
}

// keep says whether what is on disk is the entry's file already, and whether
// its stamp had to be taken anew.
func (s *syncer) keep(dir *os.File, name string, e *entry, info fileInfo) (kept, restamped bool, err error) {
	if e.withheld {
		if e.mode == ModeSubmodule && info.isDir() {
			kept, err = s.emptyDir(dir, name, info)
			return kept, false, err
		}
		return false, false, nil
	}
	i, known := s.old.byPath[e.path]
	if !known || info.gitMode() != modeOnDisk(e.mode) || (!info.isRegular() && !info.isLink()) || info.links != 1 {
		return false, false, nil
	}
	if info.isRegular() && info.perm != permOf(e.mode) {
		return false, false, nil
	}
	was := s.old.entries[i]
	if was.oid != e.oid || modeOnDisk(was.mode) != modeOnDisk(e.mode) {
		return false, false, nil
	}
	if s.old.fresh(was, info) {
		e.stat = info.stamp
		return true, false, nil
	}
	if was.stat.size != info.stamp.size {
		return false, false, nil
	}
	// Touched, moved or of another owner: the content decides, so that a file
	// that is right keeps its time.
	oid, after, err := s.w.hashAt(dir, name, info, e.oid, nil)
	if errors.Is(err, errChanged) || errors.Is(err, fs.ErrPermission) {
		return false, false, nil
	}
	if err != nil || oid != e.oid {
		return false, false, err
	}
	e.stat = after.stamp
	return true, true, nil
}

// emptyDir says whether a directory is empty.
func (s *syncer) emptyDir(parent *os.File, name string, info fileInfo) (bool, error) {
	sub, err := s.enter(parent, name, info)
	if err != nil {
		return false, err
	}
	defer func() { _ = sub.Close() }()
	names, err := sub.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return len(names) == 0 && err == nil, err
}

// write puts the entries on disk that are missing there.
func (s *syncer) write(ctx context.Context, root *os.File, entries []entry) (wrote bool, err error) {
	var oids []OID
	var at []int
	if err := s.emptyDirs(root, entries); err != nil {
		return false, err
	}
	for i := range entries {
		if !s.done[i] && !entries[i].withheld {
			oids = append(oids, entries[i].oid)
			at = append(at, i)
		}
	}
	parts := max(1, min(crewSize(), len(oids)/perWriter))
	c := newCrew()
	for part := range parts {
		from, to := len(oids)*part/parts, len(oids)*(part+1)/parts
		c.do(func() error { return s.writePart(ctx, root, entries, oids[from:to], at[from:to]) })
	}
	return len(oids) > 0, c.wait()
}

// perWriter is how many files are worth a git process of their own, and a
// processor.
const perWriter = 500

// emptyDirs makes the directories that stand for submodules.
func (s *syncer) emptyDirs(root *os.File, entries []entry) error {
	stack := &dirStack{root: root}
	defer func() { stack.cut(0) }()
	for i := range entries {
		if s.done[i] || entries[i].mode != ModeSubmodule || !exportable(entries[i].path) {
			continue
		}
		if _, err := stack.at(entries[i].path); err != nil {
			return err
		}
	}
	return nil
}

// writePart writes the entries at some places, whose contents are the oids.
func (s *syncer) writePart(ctx context.Context, root *os.File, entries []entry, oids []OID, at []int) error {
	stack := &dirStack{root: root}
	defer func() { stack.cut(0) }()
	return s.w.repo.readEach(ctx, oids, func(i int, _ int64, r io.Reader) error {
		e := &entries[at[i]]
		dirPath, name := splitPath(e.path)
		dir, err := stack.at(dirPath)
		if err != nil {
			return fmt.Errorf("write %s: %w", quotePath(e.path), err)
		}
		if e.stat, err = s.w.writeAt(dir, name, e.mode, r); err != nil {
			return fmt.Errorf("write %s: %w", quotePath(e.path), err)
		}
		return nil
	})
}

// permOf is the permissions of an exported file.
func permOf(mode uint32) uint32 {
	if mode&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

// writeAt makes one file or link and returns its stamp.
func (w *Worktree) writeAt(dir *os.File, name string, mode uint32, r io.Reader) (fileStamp, error) {
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

// removeExtra removes an untracked file or directory, or what of it is not
// ignored. The path consists of real directories: the walk came along it.
func (s *syncer) removeExtra(ctx context.Context, root *os.File, path string) error {
	parts := strings.Split(path, "/")
	dir := root
	scope := newScope()
	if s.keepIgnored {
		scope.rules = s.rules(root, "")
	}
	for _, part := range parts[:len(parts)-1] {
		sub, err := fstree.OpenDirAt(dir, part)
		if dir != root {
			_ = dir.Close()
		}
		if err != nil {
			return err
		}
		dir = sub
		scope = scope.below(part)
		if s.keepIgnored {
			scope.rules = s.rules(dir, scope.dir)
		}
	}
	if dir != root {
		defer func() { _ = dir.Close() }()
	}
	_, err := s.clean(ctx, dir, parts[len(parts)-1], scope, len(parts))
	return err
}

// clean removes name unless it is ignored, and says whether something stayed.
func (s *syncer) clean(
	ctx context.Context, dir *os.File, name string, scope *ignoreScope, depth int,
) (stayed bool, err error) {
	if !s.keepIgnored || depth > maxDepth || isDotGit(name) {
		return false, fstree.RemoveAt(ctx, dir, name)
	}
	info, err := lstatAt(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if scope.ignores(name, info.isDir()) {
		return true, nil
	}
	if !info.isDir() {
		return false, fstree.RemoveAt(ctx, dir, name)
	}
	sub, err := fstree.EnterAt(dir, name, info.perm)
	if err != nil {
		return false, err
	}
	defer func() { _ = sub.Close() }()
	// An untracked .gitignore is the agent's: it does not get a say.
	inner := scope.below(name)
	err = eachBatch(ctx, sub, func(names []string) error {
		for _, n := range names {
			kept, err := s.clean(ctx, sub, n, inner, depth+1)
			if err != nil {
				return err
			}
			stayed = stayed || kept
		}
		return nil
	})
	if err != nil || stayed {
		return stayed, err
	}
	return false, fstree.RemoveAt(ctx, dir, name)
}

// rules reads the target's .gitignore in a directory, which is on disk by now.
func (s *syncer) rules(dir *os.File, path string) []*ignoreRule {
	name := strings.TrimPrefix(path+"/.gitignore", "/")
	if _, tracked := s.target.byPath[name]; !tracked {
		return nil
	}
	rules, _, err := s.w.ignoreRules(dir)
	if err != nil {
		return nil
	}
	return rules
}

// ignoreRules reads the .gitignore in a directory, of size bytes. None, or one
// that is not a regular file, has no rules, as with git.
func (w *Worktree) ignoreRules(dir *os.File) (rules []*ignoreRule, size int64, err error) {
	info, err := lstatAt(dir, ".gitignore")
	if err != nil || !info.isRegular() {
		return nil, 0, nil
	}
	f, err := openFileAt(dir, ".gitignore")
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	if info, err = fstat(f); err != nil || !info.isRegular() {
		return nil, 0, err
	}
	if info.size > maxIgnoreSize {
		return nil, 0, errIgnoreSize
	}
	data, err := io.ReadAll(io.LimitReader(f, maxIgnoreSize))
	if err != nil {
		return nil, 0, err
	}
	size = int64(len(data))
	oid := w.repo.algo.sum(kindBlob, data)
	if rules, known := w.ignores[oid]; known {
		return rules, size, nil
	}
	if rules, err = parseIgnore(data); err != nil {
		return nil, size, err
	}
	if w.ignoresSize += size; w.ignoresSize > maxIgnoreTree {
		clear(w.ignores)
		w.ignoresSize = size
	}
	w.ignores[oid] = rules
	return rules, size, nil
}

// errChanged: a file was not what it had been a moment before.
var errChanged = errors.New("changed while it was read")

// hashAt reads a regular file or link that lstatAt described and names its
// content as a blob. Content of another name than known is given to store,
// where set; it is then held in memory.
func (w *Worktree) hashAt(
	dir *os.File, name string, info fileInfo, known OID, store func(OID, []byte),
) (OID, fileInfo, error) {
	if info.isLink() {
		target, err := readlinkAt(dir, name)
		if err != nil {
			return "", info, err
		}
		oid := w.repo.algo.sum(kindBlob, []byte(target))
		if store != nil && oid != known {
			store(oid, []byte(target))
		}
		return oid, info, nil
	}
	f, err := openFileAt(dir, name)
	if errors.Is(err, unix.ELOOP) {
		err = errChanged
	}
	if err != nil {
		return "", info, err
	}
	defer func() { _ = f.Close() }()
	opened, err := fstat(f)
	if err != nil {
		return "", info, err
	}
	if !opened.isRegular() || opened.stamp.ino != info.stamp.ino || opened.size != info.size || opened.links != 1 {
		return "", info, errChanged
	}
	if store == nil {
		h := w.repo.algo.new()
		_, _ = h.Write(objectHeader(kindBlob, opened.size)) // a hash never fails
		if _, err := io.CopyN(h, f, opened.size); err != nil {
			return "", info, errChanged
		}
		return OID(hex.EncodeToString(h.Sum(nil))), opened, nil
	}
	data := make([]byte, opened.size)
	if _, err := io.ReadFull(f, data); err != nil {
		return "", info, errChanged
	}
	oid := w.repo.algo.sum(kindBlob, data)
	if oid != known {
		store(oid, data)
	}
	return oid, opened, nil
}

// maxHeld is how large a file is at most that is held in memory as a whole.
const maxHeld = 1 << 20

// storeLarge stores a file that is too large to be held in memory, which hashAt
// has named. The name is right for what it reads now, too, or nothing is stored.
func (w *Worktree) storeLarge(dir *os.File, name string, oid OID, size int64) error {
	f, err := openFileAt(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	h := w.repo.algo.new()
	_, _ = h.Write(objectHeader(kindBlob, size)) // a hash never fails
	r := &checkedReader{r: io.TeeReader(io.LimitReader(f, size), h), left: size, end: func() error {
		if OID(hex.EncodeToString(h.Sum(nil))) != oid {
			return errChanged
		}
		return nil
	}}
	return w.repo.putFrom(oid, kindBlob, size, r)
}

// checkedReader is asked for its verdict with the last byte.
type checkedReader struct {
	r    io.Reader
	left int64
	end  func() error
}

// Read implements io.Reader.
func (c *checkedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left == 0 && n > 0 {
		if bad := c.end(); bad != nil {
			return 0, bad
		}
	}
	return n, err
}
