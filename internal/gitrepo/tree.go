package gitrepo

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// The modes of tree entries.
const (
	ModeFile       uint32 = 0o100644
	ModeExecutable uint32 = 0o100755
	ModeSymlink    uint32 = 0o120000
	ModeSubmodule  uint32 = 0o160000
	modeDir        uint32 = 0o040000
	modeKind       uint32 = 0o170000
)

// treeItem is one line of one tree object.
type treeItem struct {
	mode uint32
	name string
	oid  OID
}

func (i treeItem) isDir() bool { return i.mode&modeKind == modeDir }

// sortKey orders a tree: directories as if their name ended in a slash.
func (i treeItem) sortKey() string {
	if i.isDir() {
		return i.name + "/"
	}
	return i.name
}

func parseTree(a algo, data []byte) ([]treeItem, error) {
	var items []treeItem
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, ok2 := strings.Cut(string(head), " ")
		if !ok || !ok2 || name == "" || strings.Contains(name, "/") || len(rest) < a.size {
			return nil, errors.New("the tree object is broken")
		}
		m, err := strconv.ParseUint(mode, 8, 32)
		if err != nil {
			return nil, fmt.Errorf("the tree object is broken: mode %s", quote(mode))
		}
		items = append(items, treeItem{mode: uint32(m), name: name, oid: OID(hex.EncodeToString(rest[:a.size]))})
		data = rest[a.size:]
	}
	return items, nil
}

func appendItem(buf []byte, i treeItem) []byte {
	buf = strconv.AppendUint(buf, uint64(i.mode), 8)
	buf = append(buf, ' ')
	buf = append(buf, i.name...)
	buf = append(buf, 0)
	return i.oid.appendRaw(buf)
}

// entry is one file of a whole tree, and what the host knows of its copy on
// disk.
type entry struct {
	path string
	mode uint32
	oid  OID
	// withheld entries are part of the tree and never of the directory.
	withheld bool
	stat     fileStamp
}

// listTree lists every file of a tree, sorted by path.
func (s *store) listTree(ctx context.Context, tree OID) ([]entry, error) {
	out, err := s.call(ctx, call{args: []string{"ls-tree", "-r", "-z", "--full-tree", string(tree)}})
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, bytes.Count(out, []byte{0}))
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if record == "" {
			continue
		}
		head, path, ok := strings.Cut(record, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) != 3 || !s.algo.owns(OID(fields[2])) {
			return nil, fmt.Errorf("git ls-tree: answered %s", quote(record))
		}
		mode, err := strconv.ParseUint(fields[0], 8, 32)
		if err != nil {
			return nil, fmt.Errorf("git ls-tree: answered %s", quote(record))
		}
		entries = append(entries, entry{path: path, mode: uint32(mode), oid: OID(fields[2])})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return entries, nil
}

// Files lists the paths of the regular files of a tree, in order.
func (r *Repo) Files(ctx context.Context, tree OID) ([]string, error) {
	entries, err := r.listTree(ctx, tree)
	if err != nil {
		return nil, fmt.Errorf("list the files of a tree: %w", err)
	}
	paths := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.mode&modeKind == ModeFile&modeKind {
			paths = append(paths, e.path)
		}
	}
	return paths, nil
}

// Files is [Repo.Files] for who has a tree much like it in a directory: it starts with
// what that holds.
func (w *Worktree) Files(ctx context.Context, tree OID) ([]string, error) {
	x, err := w.load()
	if err != nil {
		return nil, fmt.Errorf("list the files of a tree: %w", err)
	}
	if x.tree == "" {
		return w.repo.Files(ctx, tree)
	}
	diff, err := w.repo.Diff(ctx, x.tree, tree)
	if err != nil {
		return nil, fmt.Errorf("list the files of a tree: %w", err)
	}
	paths := make([]string, 0, len(x.entries)+len(diff))
	differ := make(map[string]bool, len(diff))
	for _, c := range diff {
		differ[c.Path] = true
		if c.NewMode&modeKind == ModeFile&modeKind {
			paths = append(paths, c.Path)
		}
	}
	for _, e := range x.entries {
		if e.mode&modeKind == ModeFile&modeKind && !differ[e.path] {
			paths = append(paths, e.path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// treeBuilder makes tree objects from sorted entries.
type treeBuilder struct {
	store *store
	// stored says that the tree object of a directory is there already, so that
	// only its name is needed. Nil means none is.
	stored func(dir string) bool
	// trees holds the names of directories' trees. What is in it is taken from
	// it, the rest is added.
	trees map[string]OID
}

func (b *treeBuilder) build(entries []entry) (OID, error) { return b.dir(entries, "") }

// dir builds the tree of the directory with this prefix ("" or "a/b/").
func (b *treeBuilder) dir(entries []entry, prefix string) (OID, error) {
	path := strings.TrimSuffix(prefix, "/")
	if oid, known := b.trees[path]; known {
		return oid, nil
	}
	buf := make([]byte, 0, 48*min(len(entries), 1000))
	for i := 0; i < len(entries); {
		name := entries[i].path[len(prefix):]
		slash := strings.IndexByte(name, '/')
		if slash < 0 {
			buf = appendItem(buf, treeItem{entries[i].mode, name, entries[i].oid})
			i++
			continue
		}
		sub := entries[i].path[:len(prefix)+slash+1]
		end := i + sort.Search(len(entries)-i, func(n int) bool { return !strings.HasPrefix(entries[i+n].path, sub) })
		oid, err := b.dir(entries[i:end], sub)
		if err != nil {
			return "", err
		}
		buf = appendItem(buf, treeItem{modeDir, name[:slash], oid})
		i = end
	}
	oid := b.store.algo.sum(kindTree, buf)
	if b.stored == nil || !b.stored(path) {
		if _, err := b.store.write(kindTree, buf); err != nil {
			return "", err
		}
	}
	b.trees[path] = oid
	return oid, nil
}

// TreeEdit puts one file into a tree or takes a file or directory out of it.
type TreeEdit struct {
	Path string
	// Remove takes Path out, with all that is below it; what is not there is
	// no error. The other fields then have no meaning.
	Remove bool
	// Mode, where it is 0, is that of the plain file which is there, or ModeFile.
	Mode uint32
	// OID names a stored blob; where it is empty, Data is stored as one.
	OID  OID
	Data []byte
}

// TreeWith returns the tree that base becomes by the edits, applied in order.
// A file put where a directory is replaces it, and the other way round.
// Directories left empty disappear.
func (r *Repo) TreeWith(ctx context.Context, base OID, edits []TreeEdit) (OID, error) {
	root := &treeNode{item: treeItem{mode: modeDir, oid: base}}
	if err := r.prefetch(ctx, root, edits); err != nil {
		return "", fmt.Errorf("edit tree %s: %w", base, err)
	}
	for _, e := range edits {
		if err := r.apply(ctx, root, e); err != nil {
			return "", fmt.Errorf("edit tree %s: %s: %w", base, quotePath(e.Path), err)
		}
	}
	oid, err := r.seal(root)
	if err != nil {
		return "", fmt.Errorf("edit tree %s: %w", base, err)
	}
	return oid, nil
}

// treeNode is a tree that is being edited. Children are nil until it is read.
type treeNode struct {
	item     treeItem
	loaded   bool
	changed  bool
	children map[string]*treeNode
}

func (n *treeNode) load(a algo, data []byte) error {
	items, err := parseTree(a, data)
	if err != nil {
		return err
	}
	n.loaded = true
	n.children = make(map[string]*treeNode, len(items))
	for _, item := range items {
		n.children[item.name] = &treeNode{item: item}
	}
	return nil
}

// prefetch reads the directories on the way to the edits, with at most one git
// process.
func (r *Repo) prefetch(ctx context.Context, root *treeNode, edits []TreeEdit) error {
	base := root.item.oid
	if !r.algo.owns(base) {
		return fmt.Errorf("tree %s: %w", quote(string(base)), ErrNotFound)
	}
	// Loose trees are read when they are needed, without a process.
	if _, _, err := r.readLoose(base, maxTree); err == nil {
		return nil
	}
	dirs := []string{""}
	for _, e := range edits {
		if err := cleanPath(e.Path); err != nil {
			return err
		}
		for i := range len(e.Path) {
			if e.Path[i] == '/' {
				dirs = append(dirs, e.Path[:i])
			}
		}
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	names := make([]string, len(dirs))
	for i, d := range dirs {
		names[i] = string(base) + ":" + d
	}
	return r.batch(ctx, names, func(i int, o object) error {
		if o.kind != kindTree {
			if dirs[i] == "" {
				return fmt.Errorf("tree %s: %w", base, ErrNotFound)
			}
			return nil // a file, or nothing: the edit makes it
		}
		data, err := o.bytes(maxTree)
		if err != nil {
			return err
		}
		// Sorted order brings each directory after its parent.
		n := root
		if dirs[i] != "" {
			for part := range strings.SplitSeq(dirs[i], "/") {
				if n = n.children[part]; n == nil {
					return nil
				}
			}
		}
		return n.load(r.algo, data)
	})
}

func (r *Repo) apply(ctx context.Context, root *treeNode, e TreeEdit) error {
	if err := cleanPath(e.Path); err != nil {
		return err
	}
	parts := strings.Split(e.Path, "/")
	n := root
	for i, part := range parts {
		n.changed = true
		if !n.loaded {
			data, err := r.read(ctx, kindTree, n.item.oid, maxTree)
			if err != nil {
				return err
			}
			if err := n.load(r.algo, data); err != nil {
				return err
			}
		}
		child := n.children[part]
		if i == len(parts)-1 {
			return r.edit(ctx, n, part, e)
		}
		if child == nil || !child.item.isDir() {
			if e.Remove {
				return nil
			}
			child = &treeNode{item: treeItem{mode: modeDir, name: part}, loaded: true, children: map[string]*treeNode{}}
			n.children[part] = child
		}
		n = child
	}
	return nil
}

func (r *Repo) edit(ctx context.Context, dir *treeNode, name string, e TreeEdit) error {
	if e.Remove {
		delete(dir.children, name)
		return nil
	}
	mode := e.Mode
	switch mode {
	case 0:
		mode = ModeFile
		if was := dir.children[name]; was != nil && was.item.mode == ModeExecutable {
			mode = ModeExecutable
		}
	case ModeFile, ModeExecutable, ModeSymlink, ModeSubmodule:
	default:
		return fmt.Errorf("mode %o is not one of a file", mode)
	}
	oid := e.OID
	if oid == "" {
		var err error
		if oid, err = r.WriteBlob(ctx, e.Data); err != nil {
			return err
		}
	} else if !r.algo.owns(oid) {
		return fmt.Errorf("%s is not an object name here", quote(string(oid)))
	}
	dir.children[name] = &treeNode{item: treeItem{mode: mode, name: name, oid: oid}}
	return nil
}

// seal writes the changed trees, deepest first.
func (r *Repo) seal(n *treeNode) (OID, error) {
	if !n.changed && n.item.oid != "" {
		return n.item.oid, nil
	}
	items := make([]treeItem, 0, len(n.children))
	for name, child := range n.children {
		if child.item.isDir() {
			oid, err := r.seal(child)
			if err != nil {
				return "", err
			}
			if child.loaded && len(child.children) == 0 {
				delete(n.children, name) // so that n, too, is seen to be empty
				continue
			}
			child.item.oid = oid
		}
		items = append(items, child.item)
	}
	slices.SortFunc(items, func(a, b treeItem) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	var buf []byte
	for _, item := range items {
		buf = appendItem(buf, item)
	}
	return r.write(kindTree, buf)
}

// WriteBlob stores data and returns its name.
func (r *Repo) WriteBlob(ctx context.Context, data []byte) (OID, error) {
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	return r.write(kindBlob, data)
}

// lookup walks from a tree to a path, reading loose trees only. It returns
// fs.ErrNotExist when one is packed.
func (s *store) lookup(tree OID, path string) (treeItem, error) {
	item := treeItem{mode: modeDir, oid: tree}
	for part := range strings.SplitSeq(path, "/") {
		if !item.isDir() {
			return treeItem{}, ErrNotFound
		}
		kind, data, err := s.readLoose(item.oid, maxTree)
		if err != nil {
			return treeItem{}, err
		}
		if kind != kindTree {
			return treeItem{}, fs.ErrNotExist
		}
		items, err := parseTree(s.algo, data)
		if err != nil {
			return treeItem{}, err
		}
		at := slices.IndexFunc(items, func(i treeItem) bool { return i.name == part })
		if at < 0 {
			return treeItem{}, ErrNotFound
		}
		item = items[at]
	}
	return item, nil
}
