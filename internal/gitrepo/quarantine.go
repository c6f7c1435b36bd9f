package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

// Quarantine is the repository with a place of its own for what is written from
// now on: objects go to the directory dir and are seen by whoever reads through
// it, and nobody else. What is worth keeping is admitted; the rest goes with the
// directory.
func (r *Repo) Quarantine(dir string) (*Repo, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("quarantine: %w", err)
	}
	held, err := fileBytes(dir)
	if err != nil {
		return nil, fmt.Errorf("quarantine: %w", err)
	}
	q := *r
	q.quarantine, q.quarantined = dir, new(atomic.Int64)
	q.quarantined.Store(held)
	return &q, nil
}

// fileBytes adds up the files of a directory of the host's own.
func fileBytes(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum += info.Size()
		return nil
	})
	return sum, err
}

// Admit moves a tree, with all it consists of, out of the quarantine and into
// the repository. What is there already stays.
func (r *Repo) Admit(ctx context.Context, tree OID) error {
	if r.quarantine == "" || !r.algo.owns(tree) {
		return nil
	}
	if err := r.admit(ctx, tree, kindTree); err != nil {
		return fmt.Errorf("admit tree %s: %w", tree, err)
	}
	return nil
}

// admit moves what an object consists of before the object itself: what is in the
// repository is there whole, wherever a move was cut off.
func (r *Repo) admit(ctx context.Context, oid OID, kind string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	from := loosePath(r.quarantine, oid)
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another name of the same content was admitted, or it never was new
	}
	if err != nil {
		return err
	}
	if kind == kindTree {
		_, data, err := r.readLoose(oid, maxTree)
		if err != nil {
			return err
		}
		items, err := parseTree(r.algo, data)
		if err != nil {
			return err
		}
		for _, item := range items {
			kind := kindBlob
			if item.isDir() {
				kind = kindTree
			}
			if err := r.admit(ctx, item.oid, kind); err != nil {
				return err
			}
		}
	}
	to := loosePath(r.objects, oid)
	if err := os.Rename(from, to); err == nil {
		r.quarantined.Add(-info.Size())
		return nil
	}
	// The directory is not there yet, or on another file system.
	err = r.place(to, func(w io.Writer) error {
		f, err := os.Open(from) // #nosec G304 -- the host's own objects
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, err = io.Copy(w, f)
		return err
	})
	if err != nil {
		return err
	}
	r.quarantined.Add(-info.Size())
	return os.Remove(from)
}

// alternates names the directories that hold the repository's objects, for git.
func (s *store) alternates() string {
	list := strconv.Quote(s.objects)
	if s.quarantine != "" {
		list += string(os.PathListSeparator) + strconv.Quote(s.quarantine)
	}
	return list
}

func loosePath(dir string, oid OID) string {
	return filepath.Join(dir, string(oid[:2]), string(oid[2:]))
}
