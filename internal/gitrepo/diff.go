package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Status says what happened to a path.
type Status byte

// The states of a changed path. TypeChanged is a file that became a symbolic
// link, or such.
const (
	Added       Status = 'A'
	Modified    Status = 'M'
	Deleted     Status = 'D'
	TypeChanged Status = 'T'
)

// String is git's letter.
func (s Status) String() string { return string(rune(s)) }

// Change is one path that differs between two trees. Modes are 0 and names
// empty on the side where there is nothing.
type Change struct {
	Path             string
	Status           Status
	OldMode, NewMode uint32
	OldOID, NewOID   OID
}

// Diff compares two trees or commits, file by file and by name only: a moved
// file is one deleted and one added. An empty from means the empty tree.
func (r *Repo) Diff(ctx context.Context, from, to OID) ([]Change, error) {
	if from == to {
		return nil, nil
	}
	changes, err := r.diffLoose(ctx, from, to)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return changes, err
	}
	out, err := r.diffTree(ctx, from, to, 0, "--raw", "--no-abbrev", "-z")
	if err != nil {
		return nil, err
	}
	changes = nil
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		c, err := r.parseRaw(fields[i])
		if err != nil {
			return nil, err
		}
		c.Path = fields[i+1]
		changes = append(changes, c)
	}
	return changes, nil
}

// diffLoose is Diff of trees that are not packed, as the newest ones are, and
// costs no process. It returns fs.ErrNotExist where one is packed.
func (r *Repo) diffLoose(ctx context.Context, from, to OID) ([]Change, error) {
	if !r.algo.owns(from) || !r.algo.owns(to) {
		return nil, fs.ErrNotExist
	}
	var roots [2]treeItem
	for i, oid := range []OID{from, to} {
		kind, data, err := r.readLoose(oid, maxCommit)
		if errors.Is(err, ErrTooLarge) {
			return nil, fs.ErrNotExist
		}
		if err != nil {
			return nil, err
		}
		if kind == kindCommit {
			info, err := parseCommit(oid, data)
			if err != nil {
				return nil, err
			}
			oid = info.Tree
		}
		roots[i] = treeItem{mode: modeDir, oid: oid}
	}
	var changes []Change
	if err := r.diffItems(ctx, "", roots[0], roots[1], &changes); err != nil {
		return nil, err
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return changes, nil
}

// diffItems compares what two trees have at one path. A mode of 0 is nothing.
func (r *Repo) diffItems(ctx context.Context, path string, was, is treeItem, changes *[]Change) error {
	if was.mode == is.mode && was.oid == is.oid {
		return nil
	}
	c := Change{Path: path}
	if was.mode != 0 && !was.isDir() {
		c.OldMode, c.OldOID, c.Status = was.mode, was.oid, Deleted
	}
	if is.mode != 0 && !is.isDir() {
		c.NewMode, c.NewOID = is.mode, is.oid
		switch {
		case c.Status == 0:
			c.Status = Added
		case was.mode&modeKind != is.mode&modeKind:
			c.Status = TypeChanged
		default:
			c.Status = Modified
		}
	}
	if c.Status != 0 {
		*changes = append(*changes, c)
	}
	if !was.isDir() && !is.isDir() {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("compare trees: %w", context.Cause(ctx))
	}
	old, err := r.looseItems(was)
	if err != nil {
		return err
	}
	items, err := r.looseItems(is)
	if err != nil {
		return err
	}
	if path != "" {
		path += "/"
	}
	for name, item := range items {
		if err := r.diffItems(ctx, path+name, old[name], item, changes); err != nil {
			return err
		}
		delete(old, name)
	}
	for name, item := range old {
		if err := r.diffItems(ctx, path+name, item, treeItem{}, changes); err != nil {
			return err
		}
	}
	return nil
}

// looseItems reads a tree that is not packed; of anything else it has none.
func (r *Repo) looseItems(dir treeItem) (map[string]treeItem, error) {
	if !dir.isDir() {
		return nil, nil
	}
	kind, data, err := r.readLoose(dir.oid, maxTree)
	if err != nil {
		return nil, err
	}
	if kind != kindTree {
		return nil, fs.ErrNotExist
	}
	list, err := parseTree(r.algo, data)
	if err != nil {
		return nil, err
	}
	items := make(map[string]treeItem, len(list))
	for _, item := range list {
		items[item.name] = item
	}
	return items, nil
}

// parseRaw reads ":100644 100644 <oid> <oid> M".
func (r *Repo) parseRaw(line string) (Change, error) {
	broken := fmt.Errorf("git diff-tree: answered %s", quote(line))
	f := strings.Fields(strings.TrimPrefix(line, ":"))
	if len(f) != 5 || len(f[4]) != 1 {
		return Change{}, broken
	}
	oldMode, err1 := strconv.ParseUint(f[0], 8, 32)
	newMode, err2 := strconv.ParseUint(f[1], 8, 32)
	if err1 != nil || err2 != nil || !r.algo.owns(OID(f[2])) || !r.algo.owns(OID(f[3])) {
		return Change{}, broken
	}
	c := Change{
		Status: Status(f[4][0]), OldMode: uint32(oldMode), NewMode: uint32(newMode), OldOID: OID(f[2]), NewOID: OID(f[3]),
	}
	if c.OldOID == r.algo.zero() {
		c.OldOID = ""
	}
	if c.NewOID == r.algo.zero() {
		c.NewOID = ""
	}
	return c, nil
}

// Patch is the difference between two trees or commits as text, of the given
// paths or of all. Binary files, and those too large to be compared cheaply, are only
// named. Where it is larger than limit bytes, the first limit bytes come with
// ErrTooLarge; where it takes longer than patchTime to make, nothing does.
func (r *Repo) Patch(ctx context.Context, from, to OID, paths []string, limit int64) ([]byte, error) {
	return r.patch(ctx, from, to, paths, limit, patchTime)
}

// patchTime is what a patch may take. Two files of 4 MiB can be written such that
// git compares them for 20 seconds.
const patchTime = 30 * time.Second

func (r *Repo) patch(
	ctx context.Context, from, to OID, paths []string, limit int64, within time.Duration,
) ([]byte, error) {
	if from == to {
		return nil, nil
	}
	for _, p := range paths {
		if err := cleanPath(p); err != nil {
			return nil, fmt.Errorf("patch: %w", err)
		}
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	out, err := r.diffTree(bounded, from, to, limit, append([]string{"--patch", "--full-index", "--"}, paths...)...)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("diff %s %s: takes longer than %s: %w", from, to, within, ErrTooLarge)
	}
	return out, err
}

// maxCompared is how large a file is at most that is compared line by line.
const maxCompared = 4 << 20

// diffTree runs git diff-tree with options that make it run nothing else.
// Options may end in "--" and paths.
func (r *Repo) diffTree(ctx context.Context, from, to OID, limit int64, options ...string) ([]byte, error) {
	if from == "" {
		empty, err := r.write(kindTree, nil)
		if err != nil {
			return nil, fmt.Errorf("diff: %w", err)
		}
		from = empty
	}
	if !r.algo.owns(from) || !r.algo.owns(to) {
		return nil, fmt.Errorf("diff %s %s: %w", quote(string(from)), quote(string(to)), ErrNotFound)
	}
	args := []string{
		"diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
		"--ignore-submodules=none", "--submodule=short", "--diff-algorithm=histogram",
	}
	// The trees go before "--" and after all options.
	for _, o := range options {
		if o == "--" {
			break
		}
		args = append(args, o)
	}
	args = append(args, string(from), string(to))
	for i, o := range options {
		if o == "--" {
			args = append(args, options[i:]...)
			break
		}
	}
	out, err := r.call(ctx, call{
		args: args, limit: limit, env: []string{"GIT_LITERAL_PATHSPECS=1"},
		// What is larger counts as binary. To compare it line by line takes a hundred
		// times its size in memory.
		config: []string{fmt.Sprintf("core.bigFileThreshold=%d", maxCompared)},
	})
	if err != nil {
		return out, fmt.Errorf("diff %s %s: %w", from, to, err)
	}
	return out, nil
}
