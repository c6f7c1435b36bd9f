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

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/fstree"
)

// maxRefusals bounds Snapshot.Refused: more help nobody.
const maxRefusals = 100

// maxNested bounds Snapshot.Nested; a .git beyond it is refused.
const maxNested = 1000

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
	// Nested are the directories that have a .git of their own. It is not part of
	// the tree; the rest of what they hold is.
	Nested []string
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
	root, err := openDir(w.dir)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	defer func() { _ = root.Close() }()
	s := &snapper{
		w: w, old: old,
		state: make([]entryState, len(old.entries)), entries: slices.Clone(old.entries),
		wanted: map[string]bool{},
	}
	if s.rules, err = w.newRules(); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, s.rules.close()) }()
	tree, err := s.take(ctx, root)
	if tooMuch, ok := errors.AsType[tooMuchError](err); ok && ctx.Err() == nil {
		return Snapshot{Tree: old.tree, Refused: []Refusal{{".", string(tooMuch)}}}, nil
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	slices.SortFunc(s.leftOut, func(a, b Refusal) int { return strings.Compare(a.Path, b.Path) })
	return Snapshot{Tree: tree, Refused: s.refused, LeftOut: s.leftOut, Nested: s.nested}, nil
}

// take walks the directory, and then makes the tree of what it found.
func (s *snapper) take(ctx context.Context, root *os.File) (OID, error) {
	if err := s.dir(ctx, root, "", 0); err != nil {
		return "", err
	}
	full, err := s.w.repo.full(s.newBytes+int64(s.newFiles)*block, s.w.MaxFork)
	if full && err == nil {
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

// entryState is what the walk found out about an entry of the old index.
type entryState uint8

const (
	// gone: not on disk.
	gone entryState = iota
	// found: on disk, the same or changed.
	found
	// held: kept as it was, whatever is on disk.
	held
)

// snapper is one walk.
type snapper struct {
	w   *Worktree
	old *index
	// entries are the old ones with their new content and stamps; state says
	// which of them remain.
	entries []entry
	state   []entryState
	added   []entry
	// restamped: some entry has another stamp.
	restamped bool
	refused   []Refusal
	leftOut   []Refusal
	// refusedDirs are the directories of the tree that were not entered.
	refusedDirs []string
	nested      []string
	seen        int
	// unread are the files to read once the walk has shown that they are not too
	// many; newFiles and newBytes are what they would add.
	unread     []unreadFile
	newFiles   int
	newBytes   int64
	rules      *ruleFiles
	attributes map[string]attributes
	// unfollowed are the files of rules that were refused.
	unfollowed map[string]bool
	// wanted are the directories that the rules take back in, and what lies below them.
	wanted map[string]bool
}

// unreadFile is a file that is new or may have changed; i is its place in the old
// index if it is tracked.
type unreadFile struct {
	path    string
	i       int
	tracked bool
	info    fileInfo
}

func (s *snapper) refuse(path, reason string) {
	if _, isDir := s.old.dirs[path]; isDir {
		s.refusedDirs = append(s.refusedDirs, path)
	}
	switch {
	case len(s.refused) < maxRefusals-1:
		s.refused = append(s.refused, Refusal{quotePath(path), reason})
	case len(s.refused) == maxRefusals-1:
		s.refused = append(s.refused, Refusal{".", "more was refused than is listed here"})
	}
}

func (s *snapper) leaveOut(path, what string) {
	if len(s.leftOut) < maxRefusals {
		s.leftOut = append(s.leftOut, Refusal{quotePath(path), what})
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
	f, _, err := openAt(dir, "CACHEDIR.TAG", info)
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

func (s *snapper) dir(ctx context.Context, dir *os.File, prefix string, depth int) error {
	first := true
	return eachBatch(ctx, dir, func(names []string) error {
		for _, file := range []string{ignoreFile, attributesFile} {
			// In a directory of more than one batch it may be in another one.
			if first && (len(names) == batchSize || slices.Contains(names, file)) {
				if err := s.readRules(dir, prefix, file); err != nil {
					return err
				}
			}
		}
		first = false
		if s.seen += len(names); s.seen > s.w.MaxFiles {
			return tooMuchError(fmt.Sprintf("more than %d files", s.w.MaxFiles))
		}
		stats := fstree.LstatAll(dir, names)
		ignored, err := s.ignored(ctx, prefix, names, stats)
		if err != nil {
			return err
		}
		for i, stat := range stats {
			if errors.Is(stat.Err, fs.ErrNotExist) || (prefix == "" && names[i] == ".git") {
				continue
			}
			if stat.Err != nil {
				return stat.Err
			}
			if err := s.name(ctx, dir, prefix, names[i], makeInfo(&stat.Stat_t), ignored, depth); err != nil {
				return err
			}
		}
		return nil
	})
}

// readRules reads a file of rules. One that cannot be followed is
// refused, unless it is the repository's own.
func (s *snapper) readRules(dir *os.File, prefix, name string) error {
	err := s.rules.follow(dir, prefix, name)
	if _, tooMuch := errors.AsType[tooMuchError](err); tooMuch || err == nil {
		return err
	}
	path := prefix + name
	i, tracked := s.old.byPath[path]
	if !tracked || !s.unchanged(dir, name, s.old.entries[i]) {
		s.refuseAt(path, fmt.Sprintf("its rules are not followed: %v", err), i, tracked)
		if s.unfollowed == nil {
			s.unfollowed = map[string]bool{}
		}
		s.unfollowed[path] = true
	}
	return nil
}

// ignored asks which of the untracked names of a directory are ignored; see [ruleFiles.ignores].
func (s *snapper) ignored(
	ctx context.Context, prefix string, names []string, stats []fstree.Stat,
) (map[string]bool, error) {
	var paths []string
	for i, name := range names {
		info := makeInfo(&stats[i].Stat_t)
		path := prefix + name
		if stats[i].Err == nil && s.untracked(path, info) && !isDotGit(name) && len(path) <= maxPathLength {
			paths = append(paths, slashed(path, info))
		}
	}
	return s.rules.ignores(ctx, paths)
}

// slashed is a path that ends in a slash if it is that of a directory.
func slashed(path string, info fileInfo) string {
	if info.isDir() {
		return path + "/"
	}
	return path
}

func (s *snapper) untracked(path string, info fileInfo) bool {
	_, tracked := s.old.byPath[path]
	if info.isDir() {
		_, tracked = s.old.dirs[path]
	}
	return !tracked
}

// unchanged says whether a file has the content of an entry.
func (s *snapper) unchanged(dir *os.File, name string, e entry) bool {
	info, err := lstatAt(dir, name)
	if err != nil || !info.isRegular() || info.stamp.Size != e.Stat.Size {
		return false
	}
	oid, _, err := hashAt(dir, name, info)
	return err == nil && oid == e.OID
}

func (s *snapper) name(
	ctx context.Context, dir *os.File, prefix, name string, info fileInfo, ignored map[string]bool, depth int,
) error {
	path := prefix + name
	i, tracked := s.old.byPath[path]
	if s.unfollowed[path] {
		return nil
	}
	if len(s.nested) < maxNested && s.nestedGit(prefix, name, info) {
		s.nested = append(s.nested, strings.TrimSuffix(prefix, "/"))
		return nil
	}
	if isDotGit(name) {
		s.refuseAt(path, "nested git repository", i, tracked)
		return nil
	}
	if tracked && s.old.entries[i].Withheld {
		return s.withheld(dir, path, name, i, info)
	}
	if tracked && s.old.fresh(s.old.entries[i], info) {
		s.state[i] = found
		return nil
	}
	if s.untracked(path, info) {
		if leave, ruled := ignored[slashed(path, info)]; leave {
			return nil
		} else if parent, _ := splitPath(path); info.isDir() && (ruled || s.wanted[parent]) {
			s.wanted[path] = true
		}
		if reason := badName(name); reason != "" {
			s.refuse(path, reason)
			return nil
		}
		if len(path) > maxPathLength {
			s.refuse(path, fmt.Sprintf("path longer than %d bytes", maxPathLength))
			return nil
		}
	}
	if info.isDir() {
		return s.subdir(ctx, dir, path, name, depth)
	}
	if reason := s.badFile(dir, path, name, info); reason != "" {
		s.refuseAt(path, reason, i, tracked)
		return nil
	}
	if !tracked && s.old.inModule(path) {
		s.refuse(path, inSubmodule)
		return nil
	}
	return s.later(unreadFile{path, i, tracked, info})
}

// later notes a file to be read after the walk.
func (s *snapper) later(f unreadFile) error {
	switch {
	case f.info.size > s.w.MaxFileSize: // refused, or as it was
	case !f.tracked:
		s.newFiles++
		s.newBytes += f.info.size
	case s.old.entries[f.i].Stat.Size != f.info.stamp.Size:
		s.newBytes += f.info.size
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
	slices.SortFunc(s.unread, func(a, b unreadFile) int { return strings.Compare(a.path, b.path) })
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
			s.refuseAt(f.path, errChanged.Error(), f.i, f.tracked)
			continue
		}
		if err := s.read(ctx, dir, name, f); err != nil {
			return err
		}
	}
	return nil
}

// nestedGit says whether name is what git init, git clone or git worktree leave
// in a directory. Whatever else some file system takes for that is refused, as
// is what stands in place of a .git of the tree.
func (s *snapper) nestedGit(prefix, name string, info fileInfo) bool {
	if name != ".git" || !info.isDir() && !info.isRegular() {
		return false
	}
	_, file := s.old.byPath[prefix+name]
	from, to := sortedBelow(s.old.entries, prefix+name)
	return !file && from == to
}

const inSubmodule = "files within a submodule"

// withheld deals with an entry that is never on disk.
func (s *snapper) withheld(dir *os.File, path, name string, i int, info fileInfo) error {
	s.state[i] = held
	if s.old.entries[i].Mode != ModeSubmodule {
		s.refuse(path, "stands where the repository has a link that is not exported")
		return nil
	}
	if !info.isDir() {
		s.refuse(path, "stands in place of a submodule")
		return nil
	}
	sub, err := fstree.OpenDirAt(dir, name)
	if errors.Is(err, fs.ErrPermission) {
		s.refuse(path, "is not readable")
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	if names, _ := sub.Readdirnames(1); len(names) > 0 {
		s.refuse(path, inSubmodule)
	}
	return nil
}

func (s *snapper) subdir(ctx context.Context, dir *os.File, path, name string, depth int) error {
	if depth == maxDepth {
		s.refuse(path, fmt.Sprintf("nested deeper than %d directories", maxDepth))
		return nil
	}
	sub, err := fstree.OpenDirAt(dir, name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		s.refuse(path, "is not readable")
		return nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, fs.ErrNotExist):
		s.refuse(path, errChanged.Error())
		return nil
	case err != nil:
		return err
	}
	defer func() { _ = sub.Close() }()
	if _, tracked := s.old.dirs[path]; !tracked && !s.wanted[path] {
		if what := madeByTools(sub, name); what != "" {
			s.leaveOut(path, what)
			return nil
		}
	}
	return s.dir(ctx, sub, path+"/", depth+1)
}

// badFile says why a file cannot be taken, or "".
func (s *snapper) badFile(dir *os.File, path, name string, info fileInfo) string {
	switch {
	case info.isLink():
		target, err := readlinkAt(dir, name)
		if err != nil {
			return errChanged.Error()
		}
		return badTarget(path, target)
	case !info.isRegular():
		return info.kindName()
	case info.links > 1:
		return "hard link: its content may lie outside of the tree"
	default:
		return ""
	}
}

func (s *snapper) tooLarge(info fileInfo) string {
	return fmt.Sprintf("%d bytes; the limit is %d", info.size, s.w.MaxFileSize)
}

// refuseAt refuses what stands at the path of an entry, if it is tracked, and
// keeps the entry.
func (s *snapper) refuseAt(path, reason string, i int, tracked bool) {
	s.refuse(path, reason)
	if tracked {
		s.state[i] = held
	}
}

// finish makes the tree of what the walk found.
func (s *snapper) finish(ctx context.Context) (OID, error) {
	// What lies below something refused was not seen, and is kept.
	for _, path := range s.refusedDirs {
		from, to := sortedBelow(s.old.entries, path)
		for i := from; i < to; i++ {
			if s.state[i] == gone {
				s.state[i] = held
			}
		}
	}
	for i, e := range s.old.entries {
		if e.Withheld || e.Submodule != "" && s.state[i] == gone {
			s.state[i] = held
		}
	}
	s.dropConflicts()
	s.dropTwins()

	result := make([]entry, 0, len(s.entries)+len(s.added))
	var removed, put []TreeEdit // a file may go where a directory comes
	for i, e := range s.entries {
		was := s.old.entries[i]
		switch s.state[i] {
		case gone:
			removed = append(removed, TreeEdit{Path: e.Path, Remove: true})
		case held:
			result = append(result, was)
		case found:
			result = append(result, e)
			if e.OID != was.OID || e.Mode != was.Mode {
				put = append(put, TreeEdit{Path: e.Path, Mode: e.Mode, OID: e.OID})
			}
		}
	}
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

// dropConflicts refuses new files that stand where a kept one needs a
// directory, and those below a kept file.
func (s *snapper) dropConflicts() {
	if len(s.added) == 0 {
		return
	}
	kept := map[string]bool{}  // kept files
	needs := map[string]bool{} // the directories they lie in
	for i, state := range s.state {
		if state != held {
			continue
		}
		path := s.old.entries[i].Path
		kept[path] = true
		for dir, _ := splitPath(path); dir != "" && !needs[dir]; dir, _ = splitPath(dir) {
			needs[dir] = true
		}
	}
	if len(kept) == 0 {
		return
	}
	s.added = slices.DeleteFunc(s.added, func(e entry) bool {
		clash := needs[e.Path]
		for dir, _ := splitPath(e.Path); dir != "" && !clash; dir, _ = splitPath(dir) {
			clash = kept[dir]
		}
		if clash {
			s.refuse(e.Path, "stands in the way of a file that is kept")
		}
		return clash
	})
}
