package gitrepo

import (
	"bufio"
	"context"
	"fmt"
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
	changes, err := r.diff(ctx, from, to)
	if err != nil {
		return nil, fmt.Errorf("diff %s %s: %w", quotePath(string(from)), quotePath(string(to)), err)
	}
	return changes, nil
}

func (s *store) diff(ctx context.Context, from, to OID) (changes []Change, err error) {
	if from == to {
		return nil, nil
	}
	if from == "" {
		from = emptyTree
	}
	var trees [2]OID
	for i, oid := range []OID{from, to} {
		if !oid.Valid() {
			return nil, ErrNotFound
		}
		if trees[i], err = s.find(ctx, kindTree, string(oid)+"^{tree}", nil); err != nil {
			return nil, err
		}
	}
	// What is no name of an object comes back as it is, after the answer.
	question := fmt.Appendf(nil, "%s %s\nend\n", trees[0], trees[1])
	err = s.differ.ask(ctx, question, func(in *bufio.Reader) error {
		_, err := in.ReadString('\n') // the question
		for err == nil {
			next, peekErr := in.Peek(1)
			if peekErr != nil || next[0] != ':' {
				_, err = in.ReadString('\n')
				return err
			}
			var c Change
			if c, err = readChange(in); err == nil {
				changes = append(changes, c)
			}
		}
		return err
	})
	return changes, err
}

// readChange reads ":100644 100644 <oid> <oid> M", a zero byte, the path and a zero byte.
func readChange(in *bufio.Reader) (c Change, err error) {
	line, err := in.ReadString(0)
	if err == nil {
		c.Path, err = in.ReadString(0)
	}
	if err != nil {
		return c, err
	}
	c.Path = strings.TrimSuffix(c.Path, "\x00")
	f := strings.Fields(strings.Trim(line, ":\x00"))
	if len(f) != 5 {
		return c, fmt.Errorf("answered %s", quote(line))
	}
	for i, mode := range []*uint32{&c.OldMode, &c.NewMode} {
		m, err := strconv.ParseUint(f[i], 8, 32)
		if err != nil {
			return c, fmt.Errorf("answered %s", quote(line))
		}
		*mode = uint32(m)
	}
	c.Status = Status(f[4][0])
	for i, oid := range []*OID{&c.OldOID, &c.NewOID} {
		if *oid = OID(f[2+i]); *oid == noOID {
			*oid = ""
		}
	}
	return c, nil
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

// listTree lists every file of a tree or commit, sorted by path.
func (s *store) listTree(ctx context.Context, tree OID) ([]entry, error) {
	changes, err := s.diff(ctx, emptyTree, tree)
	entries := make([]entry, len(changes))
	for i, c := range changes {
		entries[i] = entry{Path: c.Path, Mode: c.NewMode, OID: c.NewOID}
	}
	return entries, err
}

// costly runs git with a bound on its time for work whose cost grows faster than its input.
// It is ErrTooLarge where that is not enough.
func (s *store) costly(ctx context.Context, within time.Duration, c call) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	out, err := s.call(bounded, c)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("git %s takes longer than %s: %w", c.args[0], within, ErrTooLarge)
	}
	return out, err
}

// patchTime is what a patch may take. Two files of 4 MiB can be written such that
// git compares them for 20 seconds.
const patchTime = 30 * time.Second

// maxCompared is how large a file is at most that is compared line by line.
const maxCompared = 4 << 20

// Patch is the difference between two trees or commits as text, of the given
// paths or of all. Binary files, and those too large to be compared cheaply, are only
// named. Where it is larger than limit bytes, the first limit bytes come with
// ErrTooLarge; where it takes longer than patchTime to make, nothing does.
func (r *Repo) Patch(ctx context.Context, from, to OID, paths []string, limit int64) ([]byte, error) {
	return r.patch(ctx, from, to, paths, limit, patchTime)
}

func (r *Repo) patch(
	ctx context.Context, from, to OID, paths []string, limit int64, within time.Duration,
) ([]byte, error) {
	if from == to {
		return nil, nil
	}
	if !from.Valid() || !to.Valid() {
		return nil, fmt.Errorf("patch %s %s: %w", quote(string(from)), quote(string(to)), ErrNotFound)
	}
	out, err := r.costly(ctx, within, call{
		args: append([]string{
			"diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none",
			"--submodule=short", "--diff-algorithm=histogram", "--patch", "--full-index", string(from), string(to), "--",
		}, paths...),
		limit: limit, env: []string{"GIT_LITERAL_PATHSPECS=1"},
		// What is larger counts as binary. To compare it line by line takes a hundred
		// times its size in memory.
		config: []string{fmt.Sprintf("core.bigFileThreshold=%d", maxCompared)},
	})
	if err != nil {
		return out, fmt.Errorf("patch %s %s: %w", from, to, err)
	}
	return out, nil
}

// mergeTime is what a merge may take, and renamesCompared how many files that are gone are
// looked for among those that are new: that work is the square of it.
const (
	mergeTime       = 30 * time.Second
	renamesCompared = 1000
)

// Merge is what comes of bringing two trees together.
type Merge struct {
	// Tree is the result, whole where nothing conflicts.
	Tree OID
	// Conflicts are the paths that have to be resolved, none where it is clean.
	Conflicts []string
}

// Merge3 merges what theirs changed of base into ours, which are trees, as `git merge`
// would, in the object store alone: there is no work tree, no index and no ref that
// changes. It is ErrTooLarge where that takes longer than mergeTime.
func (r *Repo) Merge3(ctx context.Context, base, ours, theirs OID) (Merge, error) {
	var commits [3]OID
	for i, tree := range []OID{base, ours, theirs} {
		// git before 2.45 merges commits only. These are in no history.
		spec := CommitSpec{Tree: tree, Message: "merge", Author: Person{Name: "nobody"}, When: time.Unix(0, 0).UTC()}
		if i > 0 {
			spec.Parents = commits[:1]
		}
		oid, err := r.CommitTree(ctx, spec)
		if err != nil {
			return Merge{}, fmt.Errorf("merge trees: %w", err)
		}
		commits[i] = oid
	}
	return r.merge(ctx, commits[1], commits[2], mergeTime)
}

func (r *Repo) merge(ctx context.Context, ours, theirs OID, within time.Duration) (Merge, error) {
	out, err := r.costly(ctx, within, call{
		config: []string{fmt.Sprintf("merge.renameLimit=%d", renamesCompared)},
		args:   []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", string(ours), string(theirs)},
	})
	// It exits with 1 where there are conflicts, and has written them down.
	fields := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if err != nil && exitCode(err) != 1 || !OID(fields[0]).Valid() {
		return Merge{}, fmt.Errorf("merge %s and %s: answered %s: %w", ours, theirs, quote(fields[0]), err)
	}
	return Merge{Tree: OID(fields[0]), Conflicts: fields[1:]}, nil
}
