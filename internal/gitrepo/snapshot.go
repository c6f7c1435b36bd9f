package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/fstree"
)

// maxRefusals bounds Snapshot.Refused: more help nobody.
const maxRefusals = 100

// Refusal is something in a directory that cannot become part of a tree.
type Refusal struct {
	// Path is quoted where it is not plain printable text; it is safe to show.
	Path   string
	Reason string
}

// String is "path: reason".
func (r Refusal) String() string { return r.Path + ": " + r.Reason }

// Snapshot is what a directory holds as a tree.
type Snapshot struct {
	Tree OID
	// Refused lists what was left out. Where a refused thing stands in place of
	// a file of the tree before, that file is kept as it was. It is at most 100
	// long.
	Refused []Refusal
	// LeftOut are untracked directories that tools make: they are neither in the tree nor a
	// fault of the work. It is at most 100 long.
	LeftOut []Refusal
}

// Snapshot stores the directory's files as a tree. Untracked files that .gitignore, or on
// the command line the person's own rules, exclude are left out; the agent's own .git at
// the top is ignored, and so is that of a repository made further down. Where there are too
// many files, or too many bytes are new, nothing is stored: the tree is the one before and
// Refused says so.
func (w *Worktree) Snapshot(ctx context.Context) (_ Snapshot, err error) {
	old, err := w.load()
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	s := &snapper{
		w: w, old: old, found: make([]bool, len(old.entries)), entries: slices.Clone(old.entries),
		unseen: map[string]bool{}, wanted: map[string]bool{}, unruly: map[string]error{},
	}
	if s.rules, err = w.newRules(); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, s.rules.close()) }()
	tree, err := s.take(ctx)
	if tooMuch, ok := errors.AsType[tooMuchError](err); ok && ctx.Err() == nil {
		return Snapshot{Tree: old.tree, Refused: []Refusal{{".", string(tooMuch)}}}, nil
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	slices.SortFunc(s.leftOut, func(a, b Refusal) int { return strings.Compare(a.Path, b.Path) })
	return Snapshot{Tree: tree, Refused: s.refused, LeftOut: s.leftOut}, nil
}

// take walks the directory, reads what may have changed, and then makes the tree of it.
func (s *snapper) take(ctx context.Context) (OID, error) {
	root, err := openDir(s.w.dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	err = s.readRules(root, "")
	if err == nil {
		err = fstree.Walk(ctx, s.w.dir, func(e fstree.Entry) error { return s.visit(ctx, e) })
	}
	if err == nil {
		err = s.sift(ctx)
	}
	full := false
	if err == nil && len(s.unread) > 0 {
		full, err = s.w.repo.full(s.newBytes+int64(s.newFiles)*block, s.w.MaxFork)
	}
	if full {
		err = tooMuchError(fmt.Sprintf("more than %d MiB in what this run has kept of its attempts", s.w.MaxFork>>20))
	}
	if err == nil {
		err = s.readAll(ctx, root)
	}
	if err != nil {
		return "", err
	}
	return s.finish(ctx)
}

// tooMuchError says why the walk gave up.
type tooMuchError string

func (e tooMuchError) Error() string { return string(e) }

// snapper is one walk.
type snapper struct {
	w   *Worktree
	old *index
	// entries are the old ones with their new content and stamps; found says which of them
	// are on disk.
	entries []entry
	found   []bool
	added   []entry
	// restamped: some entry has another stamp.
	restamped bool
	refused   []Refusal
	leftOut   []Refusal
	// unseen are the files and directories of the tree that were refused: they are kept, with
	// all below.
	unseen map[string]bool
	seen   int
	// fresh are untracked files of which it is open whether they are ignored.
	fresh []foundFile
	// unread are the files to read once the walk has shown that they are not too
	// many; newFiles and newBytes are what they would add.
	unread     []foundFile
	newFiles   int
	newBytes   int64
	rules      *ruleFiles
	attributes map[string]attributes
	// wanted are the directories that the rules take back in, and what lies below them.
	wanted map[string]bool
	// unruly says why rules in a file are not followed.
	unruly map[string]error
}

// foundFile is a file that is new or may have changed; i is its place in the old
// index if it is tracked.
type foundFile struct {
	path    string
	i       int
	tracked bool
	info    fileInfo
}

func (s *snapper) refuse(path, reason string) {
	_, isFile := s.old.byPath[path]
	if _, isDir := s.old.dirs[path]; isDir || isFile {
		s.unseen[path] = true
	}
	switch {
	case len(s.refused) < maxRefusals-1:
		s.refused = append(s.refused, Refusal{quotePath(path), reason})
	case len(s.refused) == maxRefusals-1:
		s.refused = append(s.refused, Refusal{".", "more was refused than is listed here"})
	}
}

// cacheTag is how the file CACHEDIR.TAG of a directory of caches begins; see bford.info/cachedir.
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55"

// madeByTools says what a directory is that tools make and nobody commits, or "".
func madeByTools(dir *os.File, name string) string {
	switch name {
	case "node_modules", "bower_components":
		return "installed packages"
	case "__pycache__":
		return "compiled Python"
	}
	if info, err := lstatAt(dir, "pyvenv.cfg"); err == nil && info.isRegular() {
		for _, programs := range []string{"bin", "Scripts"} {
			if info, err := lstatAt(dir, programs); err == nil && info.isDir() {
				return "a virtual environment"
			}
		}
	}
	info, err := lstatAt(dir, "CACHEDIR.TAG")
	if err != nil || !info.isRegular() {
		return ""
	}
	f, _, err := contentAt(dir, "CACHEDIR.TAG", info)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	begin := make([]byte, len(cacheTag))
	if _, err := io.ReadFull(f, begin); err != nil || string(begin) != cacheTag {
		return ""
	}
	return "a cache"
}

// visit decides what becomes of something on disk.
func (s *snapper) visit(ctx context.Context, e fstree.Entry) error {
	if e.Path == ".git" {
		return fs.SkipDir
	}
	if s.seen++; s.seen > s.w.MaxFiles {
		return tooMuchError(fmt.Sprintf("more than %d files", s.w.MaxFiles))
	}
	info := makeInfo(&e.Stat)
	i, tracked := s.old.byPath[e.Path]
	f := foundFile{e.Path, i, tracked, info}
	switch {
	case isDotGit(e.Name):
		// What git init, clone and worktree leave in a directory is none of its files. Whatever else
		// some file system takes for that is refused, as is what stands in place of a .git of the tree.
		ofTree := tracked || len(s.old.below(e.Path)) > 0
		if ofTree || e.Name != ".git" || !e.IsDir() && !e.IsRegular() {
			s.refuse(e.Path, "nested git repository")
		}
		return fs.SkipDir
	case tracked && s.old.entries[i].Withheld:
		if err := s.withheld(e, s.old.entries[i]); err != nil {
			return err
		}
		return fs.SkipDir
	case tracked && s.old.fresh(s.old.entries[i], info):
		s.found[i] = true
	case info.isDir():
		return s.dir(ctx, e)
	case tracked:
		return s.later(f)
	default:
		if s.fresh = append(s.fresh, f); len(s.fresh) == maxFresh {
			return s.sift(ctx)
		}
	}
	return nil
}

// maxFresh is of how many files at once it is found out whether they are ignored.
const maxFresh = 4096

// sift drops from the new files what is ignored or cannot be taken.
func (s *snapper) sift(ctx context.Context) error {
	fresh := slices.DeleteFunc(s.fresh, func(f foundFile) bool { return s.badPath(f.path) })
	s.fresh = nil
	paths := make([]string, len(fresh))
	for i, f := range fresh {
		paths[i] = f.path
	}
	ignored, err := s.rules.ignores(ctx, paths)
	if err != nil {
		return err
	}
	for _, f := range fresh {
		switch {
		case ignored[f.path] || s.badNew(f.path):
		case s.old.inModule(f.path):
			s.refuse(f.path, inSubmodule)
		case slices.ContainsFunc(s.old.below(f.path), func(e entry) bool { return e.Withheld || e.Submodule != "" }):
			s.refuse(f.path, "stands in the way of a file that is kept")
		default:
			if err := s.later(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// badPath refuses a new path that is too long.
func (s *snapper) badPath(path string) bool {
	if len(path) <= maxPathLength {
		return false
	}
	s.refuse(path, fmt.Sprintf("path longer than %d bytes", maxPathLength))
	return true
}

// badNew refuses a new file or directory with a name that cannot be taken.
func (s *snapper) badNew(path string) bool {
	_, name := splitPath(path)
	reason := badName(name)
	if reason != "" {
		s.refuse(path, reason)
	}
	return reason != ""
}

// dir decides whether a directory is entered.
func (s *snapper) dir(ctx context.Context, e fstree.Entry) error {
	_, tracked := s.old.dirs[e.Path]
	if !tracked {
		if s.badPath(e.Path) {
			return fs.SkipDir
		}
		ignored, err := s.rules.ignores(ctx, []string{e.Path + "/"})
		if err != nil {
			return err
		}
		leave, ruled := ignored[e.Path+"/"]
		if leave || s.badNew(e.Path) {
			return fs.SkipDir
		}
		if parent, _ := splitPath(e.Path); ruled || s.wanted[parent] {
			s.wanted[e.Path] = true
		}
	}
	if strings.Count(e.Path, "/") == maxDepth {
		s.refuse(e.Path, fmt.Sprintf("nested deeper than %d directories", maxDepth))
		return fs.SkipDir
	}
	sub, err := fstree.OpenDirAt(e.Dir, e.Name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		s.refuse(e.Path, "is not readable")
		return fs.SkipDir
	case err != nil:
		return err
	}
	defer func() { _ = sub.Close() }()
	if !tracked && !s.wanted[e.Path] {
		if what := madeByTools(sub, e.Name); what != "" {
			if len(s.leftOut) < maxRefusals {
				s.leftOut = append(s.leftOut, Refusal{quotePath(e.Path), what})
			}
			return fs.SkipDir
		}
	}
	return s.readRules(sub, e.Path+"/")
}

// readRules reads a directory's files of rules. One that cannot be followed is
// refused, unless it is the repository's own.
func (s *snapper) readRules(dir *os.File, prefix string) error {
	for _, name := range []string{ignoreFile, attributesFile} {
		err := s.rules.follow(dir, prefix, name)
		if _, tooMuch := errors.AsType[tooMuchError](err); tooMuch {
			return err
		}
		if err != nil {
			s.unruly[prefix+name] = err
		}
	}
	return nil
}

// later notes a file to be read after the walk.
func (s *snapper) later(f foundFile) error {
	switch {
	case f.info.stamp.Size > s.w.MaxFileSize: // refused, or as it was
	case !f.tracked:
		s.newFiles++
		s.newBytes += f.info.stamp.Size
	case s.old.entries[f.i].Stat.Size != f.info.stamp.Size:
		s.newBytes += f.info.stamp.Size
	}
	switch {
	case s.newFiles > s.w.MaxNewFiles:
		return tooMuchError(fmt.Sprintf("more than %d new files", s.w.MaxNewFiles))
	case s.newBytes > s.w.MaxNewBytes:
		return tooMuchError(fmt.Sprintf("more than %d MiB of new files", s.w.MaxNewBytes>>20))
	}
	s.unread = append(s.unread, f)
	return nil
}

// readAll reads what the walk has noted.
func (s *snapper) readAll(ctx context.Context, root *os.File) (err error) {
	// In order, so that each directory is opened once.
	slices.SortFunc(s.unread, func(a, b foundFile) int { return strings.Compare(a.path, b.path) })
	paths := make([]string, len(s.unread))
	for i, f := range s.unread {
		paths[i] = f.path
	}
	if s.attributes, err = s.rules.attributesOf(ctx, paths); err != nil {
		return err
	}
	stack := &dirStack{root: root}
	defer func() { stack.cut(0) }()
	for _, f := range s.unread {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		parent, name := splitPath(f.path)
		dir, err := stack.find(parent)
		if err != nil {
			s.refuse(f.path, errChanged.Error())
			continue
		}
		if err := s.read(ctx, dir, name, f); err != nil {
			return err
		}
	}
	return nil
}

const inSubmodule = "files within a submodule"

// withheld refuses what stands in the place of an entry that is never on disk.
func (s *snapper) withheld(e fstree.Entry, was entry) error {
	switch {
	case was.Mode != ModeSubmodule:
		s.refuse(e.Path, "stands where the repository has a link that is not exported")
	case !e.IsDir():
		s.refuse(e.Path, "stands in place of a submodule")
	default:
		empty, err := emptyDir(e.Dir, e.Name)
		if errors.Is(err, fs.ErrPermission) {
			s.refuse(e.Path, "is not readable")
		} else if err != nil {
			return err
		} else if !empty {
			s.refuse(e.Path, inSubmodule)
		}
	}
	return nil
}

// keeps says whether an entry that was not found is kept: it is never on disk, it is not the
// run's to remove, or it lies where something was refused.
func (s *snapper) keeps(e entry) bool {
	if e.Withheld || e.Submodule != "" {
		return true
	}
	for path := range prefixes(e.Path) {
		if s.unseen[path] {
			return true
		}
	}
	return false
}

// finish makes the tree of what the walk found.
func (s *snapper) finish(ctx context.Context) (OID, error) {
	result := make([]entry, 0, len(s.entries)+len(s.added))
	var removed, put []TreeEdit // a file may go where a directory comes
	for i, e := range s.entries {
		was := s.old.entries[i]
		switch {
		case s.found[i]:
			result = append(result, e)
			if e.OID != was.OID || e.Mode != was.Mode {
				put = append(put, TreeEdit{Path: e.Path, Mode: e.Mode, OID: e.OID})
			}
		case s.keeps(was):
			result = append(result, was)
		default:
			removed = append(removed, TreeEdit{Path: e.Path, Remove: true})
		}
	}
	s.dropTwins(result)
	for _, e := range s.added {
		put = append(put, TreeEdit{Path: e.Path, Mode: e.Mode, OID: e.OID})
	}
	edits := append(removed, put...)
	if len(edits) == 0 && s.old.tree != "" && !s.restamped {
		return s.old.tree, nil
	}
	result = append(result, s.added...)
	slices.SortFunc(result, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	tree, err := s.w.repo.TreeWith(ctx, s.old.tree, edits)
	if err != nil {
		return "", err
	}
	return tree, s.w.save(result, tree)
}
