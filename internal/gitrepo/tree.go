package gitrepo

import (
	"bytes"
	"context"
	"crypto/sha1" // #nosec G505 -- git's object names are SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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

func parseTree(data []byte) ([]treeItem, error) {
	var items []treeItem
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, ok2 := strings.Cut(string(head), " ")
		if !ok || !ok2 || name == "" || strings.Contains(name, "/") || len(rest) < sha1.Size {
			return nil, errors.New("the tree object is broken")
		}
		m, err := strconv.ParseUint(mode, 8, 32)
		if err != nil {
			return nil, fmt.Errorf("the tree object is broken: mode %s", quote(mode))
		}
		items = append(items, treeItem{mode: uint32(m), name: name, oid: OID(hex.EncodeToString(rest[:sha1.Size]))})
		data = rest[sha1.Size:]
	}
	return items, nil
}

// entry is one file of a whole tree, and what the host knows of its copy on
// disk. The names of the fields are written to the file of an index.
type entry struct {
	Path string
	Mode uint32
	OID  OID
	// Withheld entries are part of the tree and never of the directory.
	Withheld bool
	// Submodule is the path of the one that the file is of, "" for none.
	Submodule string
	// Filled: the copy holds what Git LFS keeps for the file.
	Filled bool
	Stat   fileStamp
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
		if !ok || len(fields) != 3 || !OID(fields[2]).Valid() {
			return nil, fmt.Errorf("git ls-tree: answered %s", quote(record))
		}
		mode, err := strconv.ParseUint(fields[0], 8, 32)
		if err != nil {
			return nil, fmt.Errorf("git ls-tree: answered %s", quote(record))
		}
		entries = append(entries, entry{Path: path, Mode: uint32(mode), OID: OID(fields[2])})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
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
		if e.Mode&modeKind == ModeFile&modeKind {
			paths = append(paths, e.Path)
		}
	}
	return paths, nil
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
// Directories left empty disappear. An empty base is the empty tree.
func (r *Repo) TreeWith(ctx context.Context, base OID, edits []TreeEdit) (OID, error) {
	root := &treeNode{item: treeItem{mode: modeDir, oid: base}}
	if err := r.open(ctx, root); err != nil {
		return "", fmt.Errorf("edit tree %s: %w", base, err)
	}
	for _, e := range edits {
		if err := r.apply(ctx, root, e); err != nil {
			return "", fmt.Errorf("edit tree %s: %s: %w", base, quotePath(e.Path), err)
		}
	}
	oid, err := r.seal(ctx, root)
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

// open reads the items of a directory.
func (r *Repo) open(ctx context.Context, n *treeNode) error {
	n.loaded = true
	n.children = map[string]*treeNode{}
	if n.item.oid == "" {
		n.changed = true
		return nil
	}
	items, err := r.items(ctx, n.item.oid)
	if err != nil {
		return err
	}
	for _, item := range items {
		n.children[item.name] = &treeNode{item: item}
	}
	return nil
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
			if err := r.open(ctx, n); err != nil {
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
	} else if !oid.Valid() {
		return fmt.Errorf("%s is not an object name here", quote(string(oid)))
	}
	dir.children[name] = &treeNode{item: treeItem{mode: mode, name: name, oid: oid}}
	return nil
}

// seal writes the changed trees, deepest first.
func (r *Repo) seal(ctx context.Context, n *treeNode) (OID, error) {
	if !n.changed {
		return n.item.oid, nil
	}
	items := make([]treeItem, 0, len(n.children))
	for name, child := range n.children {
		if child.item.isDir() {
			oid, err := r.seal(ctx, child)
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
	return r.writeTree(ctx, items)
}

// WriteBlob stores data and returns its name.
func (r *Repo) WriteBlob(ctx context.Context, data []byte) (OID, error) {
	return r.writeBlob(ctx, bytes.NewReader(data), int64(len(data)))
}

// items lists a tree or that of a commit.
func (s *store) items(ctx context.Context, treeish OID) ([]treeItem, error) {
	if !treeish.Valid() {
		return nil, fmt.Errorf("tree %s: %w", quote(string(treeish)), ErrNotFound)
	}
	data, err := s.read(ctx, kindTree, string(treeish)+"^{tree}", maxTree)
	if err != nil {
		return nil, err
	}
	return parseTree(data)
}

// lookup finds what a tree or commit has at a path. ErrNotFound where that is nothing.
func (s *store) lookup(ctx context.Context, treeish OID, path string) (treeItem, error) {
	if err := cleanPath(path); err != nil {
		return treeItem{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if !treeish.Valid() {
		return treeItem{}, ErrNotFound
	}
	dir, name := splitPath(path)
	data, err := s.read(ctx, kindTree, string(treeish)+":"+dir, maxTree)
	if err != nil {
		return treeItem{}, err
	}
	items, err := parseTree(data)
	if err != nil {
		return treeItem{}, err
	}
	at := slices.IndexFunc(items, func(i treeItem) bool { return i.name == name })
	if at < 0 {
		return treeItem{}, ErrNotFound
	}
	return items[at], nil
}
