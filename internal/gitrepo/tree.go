package gitrepo

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1" // #nosec G505 -- git's object names are SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
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
		m, err := strconv.ParseUint(mode, 8, 32)
		if !ok || !ok2 || err != nil || name == "" || strings.Contains(name, "/") || len(rest) < sha1.Size {
			return nil, errors.New("the tree object is broken")
		}
		items = append(items, treeItem{mode: uint32(m), name: name, oid: OID(hex.EncodeToString(rest[:sha1.Size]))})
		data = rest[sha1.Size:]
	}
	return items, nil
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
	at := treeItem{mode: modeDir, oid: treeish}
	for name := range strings.SplitSeq(path, "/") {
		if !at.isDir() {
			return treeItem{}, ErrNotFound
		}
		items, err := s.items(ctx, at.oid)
		if err != nil {
			return treeItem{}, err
		}
		i := slices.IndexFunc(items, func(i treeItem) bool { return i.name == name })
		if i < 0 {
			return treeItem{}, ErrNotFound
		}
		at = items[i]
	}
	return at, nil
}

// ReadFile returns the content of the regular file at path in a commit or
// tree. ErrNotFound where there is none (a directory, link or submodule is
// none), ErrTooLarge where it is larger than limit bytes.
func (r *Repo) ReadFile(ctx context.Context, treeish OID, path string, limit int64) (data []byte, err error) {
	item, err := r.lookup(ctx, treeish, path)
	if err == nil && item.mode&modeKind != ModeFile&modeKind {
		err = ErrNotFound
	}
	if err == nil {
		data, err = r.Blob(ctx, item.oid, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", quotePath(path), err)
	}
	return data, nil
}

// Names lists what lies directly in a tree, in git's order; names of directories end
// in "/".
func (r *Repo) Names(ctx context.Context, tree OID) ([]string, error) {
	items, err := r.items(ctx, tree)
	if err != nil {
		return nil, fmt.Errorf("list a tree: %w", err)
	}
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.name
		if item.isDir() {
			names[i] += "/"
		}
	}
	return names, nil
}

// NamesIn is [Repo.Names] of a directory in a commit or tree; it has none where there is
// no such directory.
func (r *Repo) NamesIn(ctx context.Context, treeish OID, dir string) ([]string, error) {
	item, err := r.lookup(ctx, treeish, dir)
	if errors.Is(err, ErrNotFound) || err == nil && !item.isDir() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r.Names(ctx, item.oid)
}

// ModeOf is the mode of what a tree or commit has at a path: that of a file, or 040000 for a
// directory. ErrNotFound where there is nothing.
func (r *Repo) ModeOf(ctx context.Context, treeish OID, path string) (uint32, error) {
	item, err := r.lookup(ctx, treeish, path)
	return item.mode, err
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
	edits = slices.Clone(edits)
	for i, e := range edits {
		err := cleanPath(e.Path)
		if err == nil && !e.Remove {
			edits[i], err = r.stored(ctx, e)
		}
		if err != nil {
			return "", fmt.Errorf("edit tree %s: %s: %w", base, quotePath(e.Path), err)
		}
	}
	tree, err := r.edit(ctx, base, edits)
	if err != nil {
		return "", fmt.Errorf("edit tree %s: %w", base, err)
	}
	return tree, nil
}

// edit is TreeWith of edits that are stored.
func (r *Repo) edit(ctx context.Context, base OID, edits []TreeEdit) (OID, error) {
	items := map[string]treeItem{}
	if base != "" {
		all, err := r.items(ctx, base)
		if err != nil || len(edits) == 0 {
			return base, err
		}
		for _, item := range all {
			items[item.name] = item
		}
	}
	below := map[string][]TreeEdit{}
	for _, e := range edits {
		name, rest, deeper := strings.Cut(e.Path, "/")
		was := items[name]
		switch {
		case deeper && e.Remove && !was.isDir() && below[name] == nil:
		case deeper:
			e.Path = rest
			below[name] = append(below[name], e)
		default:
			delete(below, name)
			delete(items, name)
			if e.Mode == 0 && was.mode == ModeExecutable {
				e.Mode = was.mode
			}
			if !e.Remove {
				items[name] = treeItem{mode: cmp.Or(e.Mode, ModeFile), name: name, oid: e.OID}
			}
		}
	}
	for name, edits := range below {
		dir := treeItem{mode: modeDir, name: name}
		if was := items[name]; was.isDir() {
			dir = was
		}
		oid, err := r.edit(ctx, dir.oid, edits)
		if err != nil {
			return "", err
		}
		if dir.oid = oid; oid == emptyTree {
			delete(items, name)
		} else {
			items[name] = dir
		}
	}
	return r.writeTree(ctx, slices.Collect(maps.Values(items)))
}

// stored is an edit whose content is stored.
func (r *Repo) stored(ctx context.Context, e TreeEdit) (_ TreeEdit, err error) {
	switch e.Mode {
	case 0, ModeFile, ModeExecutable, ModeSymlink, ModeSubmodule:
	default:
		return e, fmt.Errorf("mode %o is not one of a file", e.Mode)
	}
	if e.OID == "" {
		e.OID, err = r.WriteBlob(ctx, e.Data)
	} else if !e.OID.Valid() {
		err = fmt.Errorf("%s is not an object name here", quote(string(e.OID)))
	}
	return e, err
}

// writeTree stores a tree of these items, in whatever order.
func (s *store) writeTree(ctx context.Context, items []treeItem) (OID, error) {
	var b bytes.Buffer
	for _, i := range items {
		kind := kindBlob
		switch {
		case i.isDir():
			kind = kindTree
		case i.mode == ModeSubmodule:
			kind = kindCommit
		}
		fmt.Fprintf(&b, "%o %s %s\t%s\x00", i.mode, kind, i.oid, i.name)
	}
	b.WriteByte(0) // an empty line ends a tree
	return writeWith(ctx, s.trees, b.Bytes())
}
