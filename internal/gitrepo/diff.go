package gitrepo

import (
	"bufio"
	"context"
	"fmt"
	"io"
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
	if from == "" {
		empty, err := r.writeTree(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("diff: %w", err)
		}
		from = empty
	}
	var trees [2]OID
	for i, oid := range []OID{from, to} {
		if !oid.Valid() {
			return nil, fmt.Errorf("diff %s %s: %w", quote(string(from)), quote(string(to)), ErrNotFound)
		}
		var err error
		if trees[i], err = r.derive(ctx, kindTree, string(oid)+"^{tree}"); err != nil {
			return nil, fmt.Errorf("diff %s %s: %w", from, to, err)
		}
	}
	var changes []Change
	// What is no name of an object comes back as it is, after the answer.
	const end = "end\n"
	err := r.differ.ask(ctx, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s %s\n%s", trees[0], trees[1], end)
		return err
	}, func(in *bufio.Reader) error {
		if _, err := in.ReadString('\n'); err != nil { // the question
			return err
		}
		for {
			if next, err := in.Peek(1); err != nil || next[0] != ':' {
				_, err := in.ReadString('\n')
				return err
			}
			line, err := in.ReadString(0)
			if err != nil {
				return err
			}
			c, err := parseRaw(strings.TrimSuffix(line, "\x00"))
			if err != nil {
				return err
			}
			path, err := in.ReadString(0)
			if err != nil {
				return err
			}
			c.Path = strings.TrimSuffix(path, "\x00")
			changes = append(changes, c)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("diff %s %s: %w", from, to, err)
	}
	return changes, nil
}

// parseRaw reads ":100644 100644 <oid> <oid> M".
func parseRaw(line string) (Change, error) {
	broken := fmt.Errorf("git diff-tree: answered %s", quote(line))
	f := strings.Fields(strings.TrimPrefix(line, ":"))
	if len(f) != 5 || len(f[4]) != 1 {
		return Change{}, broken
	}
	oldMode, err1 := strconv.ParseUint(f[0], 8, 32)
	newMode, err2 := strconv.ParseUint(f[1], 8, 32)
	if err1 != nil || err2 != nil || !OID(f[2]).Valid() || !OID(f[3]).Valid() {
		return Change{}, broken
	}
	c := Change{
		Status: Status(f[4][0]), OldMode: uint32(oldMode), NewMode: uint32(newMode), OldOID: OID(f[2]), NewOID: OID(f[3]),
	}
	if c.OldOID == noOID {
		c.OldOID = ""
	}
	if c.NewOID == noOID {
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
	if !from.Valid() || !to.Valid() {
		return nil, fmt.Errorf("patch %s %s: %w", quote(string(from)), quote(string(to)), ErrNotFound)
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	out, err := r.call(bounded, call{
		args: append([]string{
			"diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none",
			"--submodule=short", "--diff-algorithm=histogram", "--patch", "--full-index", string(from), string(to), "--",
		}, paths...),
		limit: limit, env: []string{"GIT_LITERAL_PATHSPECS=1"},
		// What is larger counts as binary. To compare it line by line takes a hundred
		// times its size in memory.
		config: []string{fmt.Sprintf("core.bigFileThreshold=%d", maxCompared)},
	})
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("diff %s %s: takes longer than %s: %w", from, to, within, ErrTooLarge)
	}
	if err != nil {
		return out, fmt.Errorf("patch %s %s: %w", from, to, err)
	}
	return out, nil
}

// maxCompared is how large a file is at most that is compared line by line.
const maxCompared = 4 << 20
