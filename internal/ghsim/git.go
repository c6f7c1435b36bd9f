package ghsim

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"crypto/sha1" // #nosec G505 -- git names objects by it
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/proc"
)

// The modes of a git tree entry.
const (
	modeFile = "100644"
	modeExec = "100755"
	modeLink = "120000"
	modeTree = "040000"
)

// zeroOID stands for "no object" in git's plumbing and in push events.
const zeroOID = "0000000000000000000000000000000000000000"

// errNoObject: a revision, path or object is not in the repository.
var errNoObject = errors.New("no such object")

// gitStore is one bare repository. Nobody else writes to it, so each object is in a file of its own, as
// git keeps new ones, and a git process, which costs a hundred times as much as reading or writing one, is
// asked for two things only: to merge, and to serve those who fetch. Its methods run with Sim.mu held.
type gitStore struct {
	git string // path of the program
	dir string
	// refs are the objects that full ref names point at; each is in a file, too.
	refs map[string]string
	// commits are those parsed before: an object never changes.
	commits map[string]*commitObject
}

// treeEntry is one line of a tree, or a file by its whole path.
type treeEntry struct{ Mode, OID, Path string }

// change is what becomes of a path: an empty OID deletes it.
type change struct{ Mode, OID, Path string }

// gitEnv is the environment of every git process: no configuration but the repository's own, no prompt, no
// locale.
func gitEnv(extra ...string) []string {
	return proc.ScrubbedEnv(append([]string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "HOME=" + os.DevNull,
	}, extra...)...)
}

func (g *gitStore) run(ctx context.Context, args ...string) ([]byte, error) {
	res, err := proc.Run(ctx, proc.Cmd{
		Path: g.git, Args: append([]string{"-C", g.dir}, args...), Env: gitEnv(), StdoutLimit: 1 << 20,
	})
	if err != nil {
		return res.Stdout, fmt.Errorf("git %s: %w", args[0], err)
	}
	return res.Stdout, nil
}

// initStore makes an empty bare repository that serves what GitHub serves.
func initStore(ctx context.Context, git, dir, defaultBranch string) (*gitStore, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make repository: %w", err)
	}
	g := &gitStore{
		git: git, dir: dir, refs: map[string]string{}, commits: map[string]*commitObject{},
	}
	if _, err := g.run(ctx, "init", "--quiet", "--bare", "--initial-branch="+defaultBranch); err != nil {
		return nil, err
	}
	return g, nil
}

// isOID says whether s is a whole object name, which needs no ref to resolve.
func isOID(s string) bool {
	return len(s) == len(zeroOID) && strings.Trim(s, "0123456789abcdef") == ""
}

// branch is the tip of a branch, or errNoObject.
func (g *gitStore) branch(name string) (string, error) {
	if oid := g.refs["refs/heads/"+name]; oid != "" {
		return oid, nil
	}
	return "", fmt.Errorf("branch %s: %w", name, errNoObject)
}

// resolve turns a branch, tag, ref or the name of a commit into a commit.
func (g *gitStore) resolve(rev string) (*commitObject, error) {
	for _, prefix := range []string{"refs/heads/", "refs/tags/", "refs/", ""} {
		if oid := g.refs[prefix+rev]; oid != "" {
			return g.commit(oid)
		}
	}
	return g.commit(rev)
}

// updateRef moves a ref from old to new; zeroOID means absent. A ref that is not at old is an error.
func (g *gitStore) updateRef(name, newOID, oldOID string) error {
	if is := cmp.Or(g.refs[name], zeroOID); is != oldOID {
		return fmt.Errorf("ref %s is at %s, not at %s", name, is, oldOID)
	}
	if newOID == zeroOID {
		delete(g.refs, name)
		err := os.Remove(filepath.Join(g.dir, name))
		// A directory left empty would be in the way of a ref of its name; one that is not stays.
		for dir := filepath.Dir(name); dir != "refs/heads" && dir != "." && err == nil; dir = filepath.Dir(dir) {
			if os.Remove(filepath.Join(g.dir, dir)) != nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("delete ref: %w", err)
		}
		return nil
	}
	if err := g.writeFile(name, []byte(newOID+"\n")); err != nil {
		return fmt.Errorf("move ref: %w", err)
	}
	g.refs[name] = newOID
	return nil
}

// setRef sets a ref, whatever it is.
func (g *gitStore) setRef(name, oid string) error {
	return g.updateRef(name, oid, cmp.Or(g.refs[name], zeroOID))
}

// writeFile writes a file of the repository whole, so that those who fetch see all of it or nothing.
func (g *gitStore) writeFile(name string, data []byte) error {
	file := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(file+".lock", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".lock", file)
}

// object reads an object of a type, or errNoObject.
func (g *gitStore) object(oid, wantType string) ([]byte, error) {
	missing := fmt.Errorf("%s %q: %w", wantType, oid, errNoObject)
	if !isOID(oid) {
		return nil, missing
	}
	packed, err := os.ReadFile(g.objectFile(oid)) // #nosec G304 G703 -- named after an object
	if errors.Is(err, os.ErrNotExist) {
		return nil, missing
	}
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", oid, err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", oid, err)
	}
	head, data, _ := bytes.Cut(raw, []byte{0})
	if typ, _, _ := strings.Cut(string(head), " "); typ != wantType {
		return nil, missing
	}
	return data, nil
}

func (g *gitStore) objectFile(oid string) string {
	return filepath.Join(g.dir, "objects", oid[:2], oid[2:])
}

// writeObject stores an object and returns its name.
func (g *gitStore) writeObject(typ string, data []byte) (string, error) {
	raw := append([]byte(typ+" "+strconv.Itoa(len(data))+"\x00"), data...)
	sum := sha1.Sum(raw) //nolint:gosec // git names objects by it
	oid := hex.EncodeToString(sum[:])
	if _, err := os.Stat(g.objectFile(oid)); err == nil {
		return oid, nil
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, err := z.Write(raw)
	if err = errors.Join(err, z.Close()); err == nil {
		err = g.writeFile(filepath.Join("objects", oid[:2], oid[2:]), packed.Bytes())
	}
	if err != nil {
		return "", fmt.Errorf("write object: %w", err)
	}
	return oid, nil
}

// commit reads and parses a commit, or errNoObject.
func (g *gitStore) commit(oid string) (*commitObject, error) {
	if c := g.commits[oid]; c != nil {
		return c, nil
	}
	data, err := g.object(oid, "commit")
	if err != nil {
		return nil, err
	}
	c := parseCommit(oid, data)
	g.commits[oid] = c
	return c, nil
}

// log lists commits, each before its parents: those reachable from tip and not from the excluded ones.
func (g *gitStore) log(tip string, exclude ...string) ([]*commitObject, error) {
	without, err := g.parentsFirst(nil, exclude...)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, c := range without {
		known[c.OID] = true
	}
	list, err := g.parentsFirst(known, tip)
	slices.Reverse(list)
	return list, err
}

// parentsFirst lists the commits that can be reached from some, without those that are known.
func (g *gitStore) parentsFirst(known map[string]bool, from ...string) ([]*commitObject, error) {
	seen := maps.Clone(known)
	if seen == nil {
		seen = map[string]bool{}
	}
	var list []*commitObject
	type step struct {
		c    *commitObject
		next int // the parent to go to
	}
	for _, oid := range from {
		var stack []*step // a history is too deep for recursion
		visit := func(oid string) error {
			if seen[oid] {
				return nil
			}
			seen[oid] = true
			c, err := g.commit(oid)
			stack = append(stack, &step{c: c})
			return err
		}
		if err := visit(oid); err != nil {
			return nil, err
		}
		for len(stack) > 0 {
			top := stack[len(stack)-1]
			if top.next == len(top.c.Parents) {
				list, stack = append(list, top.c), stack[:len(stack)-1]
				continue
			}
			top.next++
			if err := visit(top.c.Parents[top.next-1]); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// isAncestor says whether a is reachable from b.
func (g *gitStore) isAncestor(a, b string) (bool, error) {
	left, err := g.log(a, b)
	return len(left) == 0, err
}

// tree lists one tree.
func (g *gitStore) tree(oid string) (entries []treeEntry, err error) {
	data, err := g.object(oid, "tree")
	for len(data) > 0 && err == nil {
		head, rest, found := bytes.Cut(data, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		if !found || !spaced || len(rest) < sha1.Size {
			return nil, fmt.Errorf("tree %s is broken", oid)
		}
		entries = append(entries, treeEntry{
			Mode: fmt.Sprintf("%06s", mode), Path: name, OID: hex.EncodeToString(rest[:sha1.Size]),
		})
		data = rest[sha1.Size:]
	}
	return entries, err
}

// entry looks one path up in a tree, or errNoObject.
func (g *gitStore) entry(tree, path string) (treeEntry, error) {
	first, rest, deeper := strings.Cut(path, "/")
	entries, err := g.tree(tree)
	if err != nil {
		return treeEntry{}, err
	}
	e, ok := find(entries, func(e treeEntry) bool { return e.Path == first })
	switch {
	case !ok || deeper && e.Mode != modeTree:
		return treeEntry{}, fmt.Errorf("path %q: %w", path, errNoObject)
	case deeper:
		return g.entry(e.OID, rest)
	}
	return e, nil
}

// files are what is in a tree and in those below, by path; "" is the empty tree.
func (g *gitStore) files(tree string) (map[string]treeEntry, error) {
	files := map[string]treeEntry{}
	if tree == "" {
		return files, nil
	}
	return files, g.addFiles(files, "", tree)
}

func (g *gitStore) addFiles(files map[string]treeEntry, under, tree string) error {
	entries, err := g.tree(tree)
	for _, e := range entries {
		if e.Path = under + e.Path; e.Mode != modeTree {
			files[e.Path] = e
		} else if err == nil {
			err = g.addFiles(files, e.Path+"/", e.OID)
		}
	}
	return err
}

// blobAt reads a file of a commit, or errNoObject.
func (g *gitStore) blobAt(commit, path string) ([]byte, error) {
	c, err := g.commit(commit)
	if err != nil {
		return nil, err
	}
	e, err := g.entry(c.Tree, path)
	if err != nil {
		return nil, err
	}
	data, err := g.object(e.OID, "blob")
	return data, err
}

// additions stores files, each with a mode.
func (g *gitStore) additions(files map[string]string, mode func(path string) string) ([]change, error) {
	var changes []change
	for _, path := range sortedKeys(files) {
		oid, err := g.writeObject("blob", []byte(files[path]))
		if err != nil {
			return nil, err
		}
		changes = append(changes, change{Mode: mode(path), Path: path, OID: oid})
	}
	return changes, nil
}

// writeTree applies changes to a tree ("" is the empty one) and returns the new tree.
func (g *gitStore) writeTree(base string, changes []change) (string, error) {
	files, err := g.files(base)
	if err != nil {
		return "", err
	}
	// Deletions first: a file may make place for a directory of its name.
	for _, c := range changes {
		if c.OID == "" {
			delete(files, c.Path)
		}
	}
	for _, c := range changes {
		if c.OID == "" {
			continue
		}
		// As in git's index, a file takes the place of a directory of its name, and the other way around.
		for path := range files {
			if strings.HasPrefix(path, c.Path+"/") || strings.HasPrefix(c.Path, path+"/") {
				delete(files, path)
			}
		}
		files[c.Path] = treeEntry(c)
	}
	return g.writeFiles(files, "")
}

// writeFiles writes the tree of all that is below a path.
func (g *gitStore) writeFiles(files map[string]treeEntry, under string) (string, error) {
	entries := map[string]treeEntry{} // by what git sorts them by: a directory's name ends in "/"
	for path, f := range files {
		rest, below := strings.CutPrefix(path, under)
		if !below {
			continue
		}
		if dir, _, deeper := strings.Cut(rest, "/"); deeper {
			entries[dir+"/"] = treeEntry{Mode: modeTree}
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

// mergeTrees merges two commits and returns the tree, "" where they conflict.
func (g *gitStore) mergeTrees(ctx context.Context, ours, theirs string) (string, error) {
	if straight, err := g.isAncestor(ours, theirs); err != nil {
		return "", err
	} else if straight { // nothing is to be merged
		c, err := g.commit(theirs)
		if err != nil {
			return "", err
		}
		return c.Tree, nil
	}
	b, err := g.run(ctx, "merge-tree", "--write-tree", ours, theirs)
	tree, _, _ := strings.Cut(string(b), "\n")
	if exit := new(proc.ExitError); errors.As(err, &exit) && exit.Code == 1 {
		return "", nil
	}
	return tree, err
}
