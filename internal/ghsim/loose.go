package ghsim

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1" // #nosec G505 -- git names objects by it
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A git process costs some hundred times as much as what most of them are asked for here: to
// read or to write one small object, or to list a few refs. So these are read and written as
// git itself keeps them at first, each in a file of its own. Whatever stands elsewhere, such as
// in the pack of a large push, git is asked for.

// objectFile is where git keeps an object that is in no pack.
func (g *gitStore) objectFile(oid string) string {
	return filepath.Join(g.dir, "objects", oid[:2], oid[2:])
}

// readLoose reads an object that is in a file of its own; ok is false where there is none.
func (g *gitStore) readLoose(oid string) (typ string, data []byte, ok bool, err error) {
	packed, err := os.ReadFile(g.objectFile(oid)) // #nosec G304 G703 -- the name of an object
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, false, nil
	}
	if err != nil {
		return "", nil, false, fmt.Errorf("read object: %w", err)
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", nil, false, fmt.Errorf("read object %s: %w", oid, err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return "", nil, false, fmt.Errorf("read object %s: %w", oid, err)
	}
	head, data, _ := bytes.Cut(raw, []byte{0})
	typ, size, _ := strings.Cut(string(head), " ")
	if size != strconv.Itoa(len(data)) {
		return "", nil, false, fmt.Errorf("object %s: %d bytes and the head %q", oid, len(data), head)
	}
	return typ, data, true, nil
}

// writeObject stores an object and returns its name.
func (g *gitStore) writeObject(typ string, data []byte) (_ string, err error) {
	raw := append([]byte(typ+" "+strconv.Itoa(len(data))+"\x00"), data...)
	sum := sha1.Sum(raw) // #nosec G401 -- git names objects by it
	oid := hex.EncodeToString(sum[:])
	file := g.objectFile(oid)
	if _, err := os.Stat(file); err == nil {
		return oid, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return "", fmt.Errorf("write object: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), "tmp_obj_") // which git leaves alone
	if err != nil {
		return "", fmt.Errorf("write object: %w", err)
	}
	z := zlib.NewWriter(f)
	_, err = z.Write(raw)
	if err = errors.Join(err, z.Close(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return "", fmt.Errorf("write object: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return oid, nil
}

// looseRefs lists all refs in the order of their names; ok is false where some of them, or of
// what they point at, are not in a file of their own, or change meanwhile.
func (g *gitStore) looseRefs(ctx context.Context) (refs []gitRef, ok bool) {
	if _, err := os.Lstat(filepath.Join(g.dir, "packed-refs")); !errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	root, err := os.OpenRoot(g.dir)
	if err != nil {
		return nil, false
	}
	defer func() { ok = errors.Join(root.Close(), ctx.Err()) == nil && ok }()
	err = fs.WalkDir(root.FS(), "refs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, ".lock") { // one that git is just writing
			return err
		}
		b, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		oid := strings.TrimSuffix(string(b), "\n")
		if !isOID(oid) {
			return fmt.Errorf("%s: %w", name, errNoObject)
		}
		typ, _, found, err := g.readLoose(oid)
		if err == nil && !found {
			err = fmt.Errorf("%s: %w", name, errNoObject)
		}
		refs = append(refs, gitRef{Name: name, OID: oid, Type: typ})
		return err
	})
	if err != nil {
		return nil, false
	}
	slices.SortFunc(refs, func(a, b gitRef) int { return strings.Compare(a.Name, b.Name) })
	return refs, true
}

// reachable are the commits that can be reached from some, with these.
func (g *gitStore) reachable(ctx context.Context, from ...string) (map[string]bool, error) {
	all := map[string]bool{}
	for len(from) > 0 {
		oid := from[len(from)-1]
		from = from[:len(from)-1]
		if all[oid] {
			continue
		}
		all[oid] = true
		c, err := g.commit(ctx, oid)
		if err != nil {
			return nil, err
		}
		from = append(from, c.Parents...)
	}
	return all, nil
}

// line is log where no commit that it lists is a merge, so that there is but one order; ok is
// false elsewhere.
func (g *gitStore) line(
	ctx context.Context, tip string, limit int, exclude ...string,
) (commits []*commitObject, ok bool, err error) {
	if !isOID(tip) || slices.ContainsFunc(exclude, func(e string) bool { return !isOID(e) }) {
		return nil, false, nil
	}
	without, err := g.reachable(ctx, exclude...)
	if err != nil {
		return nil, false, err
	}
	for !without[tip] && (limit == 0 || len(commits) < limit) {
		c, err := g.commit(ctx, tip)
		if err != nil || len(c.Parents) > 1 {
			return nil, false, err
		}
		commits = append(commits, c)
		if len(c.Parents) == 0 {
			break
		}
		tip = c.Parents[0]
	}
	return commits, true, nil
}

// readLooseTree reads one tree; ok is false where it is in no file of its own.
func (g *gitStore) readLooseTree(oid string) (entries []treeEntry, ok bool, err error) {
	typ, data, ok, err := g.readLoose(oid)
	if !ok || err != nil || typ != "tree" {
		return nil, false, err
	}
	for len(data) > 0 {
		head, rest, found := bytes.Cut(data, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		if !found || !spaced || len(rest) < sha1.Size {
			return nil, false, fmt.Errorf("tree %s is broken", oid)
		}
		entries = append(entries, treeEntry{
			Mode: fmt.Sprintf("%06s", mode), Path: name, OID: hex.EncodeToString(rest[:sha1.Size]),
		})
		data = rest[sha1.Size:]
	}
	return entries, true, nil
}

// files are what is in a tree, or in a commit's, and in the trees below, by path; ok is false
// where one of the trees is in no file of its own.
func (g *gitStore) files(ctx context.Context, treeish string) (_ map[string]change, ok bool, err error) {
	if !isOID(treeish) {
		return nil, false, nil
	}
	typ, _, ok, err := g.readLoose(treeish)
	if !ok || err != nil {
		return nil, false, err
	}
	if typ == "commit" {
		c, err := g.commit(ctx, treeish)
		if err != nil {
			return nil, false, err
		}
		treeish = c.Tree
	}
	files := map[string]change{}
	ok, err = g.addFiles(files, "", treeish)
	return files, ok, err
}

func (g *gitStore) addFiles(files map[string]change, under, tree string) (ok bool, err error) {
	entries, ok, err := g.readLooseTree(tree)
	for _, e := range entries {
		switch {
		case e.Mode != modeTree:
			files[under+e.Path] = change{Mode: e.Mode, OID: e.OID, Path: under + e.Path}
		case ok && err == nil:
			ok, err = g.addFiles(files, under+e.Path+"/", e.OID)
		}
	}
	return ok, err
}

// writeLooseTree is writeTree where the tree is in files of its own, and no change is a tree.
func (g *gitStore) writeLooseTree(ctx context.Context, base string, changes []change) (_ string, ok bool, err error) {
	files := map[string]change{}
	if slices.ContainsFunc(changes, func(c change) bool { return c.Mode == modeTree }) {
		return "", false, nil
	}
	if base != "" {
		if files, ok, err = g.files(ctx, base); !ok || err != nil {
			return "", false, err
		}
	}
	for _, c := range changes {
		if c.OID == "" {
			delete(files, c.Path)
		}
	}
	for _, c := range changes {
		if c.OID == "" {
			continue
		}
		// As in git's index, a file takes the place of a directory of its name, and the other
		// way around.
		for path := range files {
			if strings.HasPrefix(path, c.Path+"/") || strings.HasPrefix(c.Path, path+"/") {
				delete(files, path)
			}
		}
		files[c.Path] = c
	}
	tree, err := g.writeFiles(files, "")
	return tree, err == nil, err
}

// writeFiles writes the tree of all that is below a path.
func (g *gitStore) writeFiles(files map[string]change, under string) (string, error) {
	entries := map[string]change{} // by what git sorts them by: a directory's name ends in "/"
	for path, f := range files {
		rest, below := strings.CutPrefix(path, under)
		if !below {
			continue
		}
		if dir, _, deeper := strings.Cut(rest, "/"); deeper {
			entries[dir+"/"] = change{Mode: modeTree}
			continue
		}
		entries[rest] = f
	}
	var data []byte
	for _, name := range sortedKeys(entries) {
		e := entries[name]
		if e.Mode == modeTree {
			oid, err := g.writeFiles(files, under+name)
			if err != nil {
				return "", err
			}
			e.OID = oid
		}
		oid, err := hex.DecodeString(e.OID)
		if err != nil {
			return "", fmt.Errorf("write tree: %w", err)
		}
		data = append(data, strings.TrimLeft(e.Mode, "0")+" "+strings.TrimSuffix(name, "/")+"\x00"...)
		data = append(data, oid...)
	}
	return g.writeObject("tree", data)
}

// setRef sets a ref, whatever it is.
func (g *gitStore) setRef(ctx context.Context, name, oid string) error {
	refs, ok := g.looseRefs(ctx)
	if !ok {
		_, err := g.run(ctx, nil, nil, "update-ref", name, oid)
		return err
	}
	old := zeroOID
	if i := slices.IndexFunc(refs, func(r gitRef) bool { return r.Name == name }); i >= 0 {
		old = refs[i].OID
	}
	return g.updateRef(ctx, name, oid, old)
}

// moveLooseRef is updateRef for refs in files of their own, locked as git locks them; ok is
// false where git is to do it, also to say what is wrong.
func (g *gitStore) moveLooseRef(name, newOID, oldOID string) (ok bool, err error) {
	if newOID == zeroOID || !strings.HasPrefix(name, "refs/") || !filepath.IsLocal(name) {
		return false, nil
	}
	if _, _, found, err := g.readLoose(newOID); !found || err != nil {
		return false, err
	}
	root, err := os.OpenRoot(g.dir)
	if err != nil {
		return false, fmt.Errorf("move ref: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if _, err := root.Lstat("packed-refs"); !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if oldOID == zeroOID {
		if err := root.MkdirAll(path.Dir(name), 0o750); err != nil {
			return false, nil //nolint:nilerr // there is a ref of that name
		}
	}
	locked := name + ".lock"
	lock, err := root.OpenFile(locked, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, nil //nolint:nilerr // git waits for it, or says what is wrong
	}
	is, err := root.ReadFile(name)
	same := strings.TrimSuffix(string(is), "\n") == oldOID || oldOID == zeroOID && errors.Is(err, fs.ErrNotExist)
	_, err = lock.WriteString(newOID + "\n")
	if err = errors.Join(err, lock.Close()); err == nil && same {
		if err = root.Rename(locked, name); err == nil {
			return true, nil
		}
	}
	return false, root.Remove(locked)
}
