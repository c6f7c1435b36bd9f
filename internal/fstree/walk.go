package fstree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// MaxDepth is how many directories below the root a walk goes: people nest a few
// dozen. What lies deeper is not visited.
const MaxDepth = 256

// batch is how many names are read at once.
const batch = 1024

// Entry is something that a walk comes across.
type Entry struct {
	// Dir is the open directory that holds the entry; it is not to be closed.
	Dir  *os.File
	Name string
	// Path is below the root, with slashes.
	Path string
	// Stat describes the entry itself, not what a link leads to.
	Stat unix.Stat_t
}

// IsDir says whether the entry is a directory.
func (e Entry) IsDir() bool { return kind(&e.Stat) == unix.S_IFDIR }

// IsRegular says whether the entry is a regular file.
func (e Entry) IsRegular() bool { return kind(&e.Stat) == unix.S_IFREG }

// IsLink says whether the entry is a symbolic link.
func (e Entry) IsLink() bool { return kind(&e.Stat) == unix.S_IFLNK }

// Perm is the entry's permissions.
func (e Entry) Perm() uint32 { return perm(&e.Stat) }

// The types of the fields differ between systems.
func kind(st *unix.Stat_t) uint32 { return uint32(st.Mode) & unix.S_IFMT }
func perm(st *unix.Stat_t) uint32 { return uint32(st.Mode) & 0o7777 }

// Walk visits everything below dir down to MaxDepth, a directory before what it
// holds and in no certain order. Visit may change the entry, and must not add or
// remove any; fs.SkipDir keeps the walk out of a directory. What goes away
// meanwhile is passed over.
func Walk(ctx context.Context, dir string, visit func(Entry) error) error {
	root, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0) // #nosec G304 -- the host chose it
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return walk(ctx, root, "", visit, 0)
}

func walk(ctx context.Context, dir *os.File, prefix string, visit func(Entry) error, depth int) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		names, err := dir.Readdirnames(batch)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("list a directory: %w", err)
		}
		for i, stat := range LstatAll(dir, names) {
			if stat.Err != nil {
				if err := ignoreGone(stat.Err); err != nil {
					return err
				}
				continue
			}
			e := Entry{Dir: dir, Name: names[i], Path: prefix + names[i], Stat: stat.Stat_t}
			if err := step(ctx, e, visit, depth); err != nil {
				return err
			}
		}
		if len(names) == 0 {
			return nil
		}
	}
}

// step visits one entry and what it holds.
func step(ctx context.Context, e Entry, visit func(Entry) error, depth int) error {
	err := visit(e)
	if errors.Is(err, fs.SkipDir) || err == nil && (!e.IsDir() || depth == MaxDepth) {
		return nil
	}
	if err != nil {
		return err
	}
	sub, err := OpenDirAt(e.Dir, e.Name)
	if err != nil {
		return ignoreGone(err)
	}
	defer func() { _ = sub.Close() }()
	return walk(ctx, sub, e.Path+"/", visit, depth+1)
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
