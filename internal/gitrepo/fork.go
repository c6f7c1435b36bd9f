package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Fork is the repository with a bare repository of its own at dir for what is written
// from now on: that borrows all objects there are, and what it takes itself is seen by
// whoever reads through it and nobody else. What is worth keeping is brought over by
// [Repo.Take]; the rest goes with the directory. Refs are those of the repository.
func (r *Repo) Fork(dir string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	if err := borrow(dir, r.objects, r.view); err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	// Rules to ignore files are no part of what is borrowed.
	if err := ensureCopy(filepath.Join(dir, "info", "exclude"), filepath.Join(r.view, "info", "exclude")); err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	f := *r
	f.store = newStore(r.git, dir, filepath.Join(dir, "objects"))
	f.forked, f.lfs = true, r.lfs
	return &f, nil
}

// full says whether so many bytes more would take a fork beyond the limit.
func (r *Repo) full(more, limit int64) (bool, error) {
	if !r.forked {
		return false, nil
	}
	held, err := fileBytes(r.objects)
	return held+more > limit, err
}

// block is what a file takes on disk, however small it is: many small objects are most of
// what a fork holds.
const block = 4 << 10

// fileBytes adds up what the files of a directory of the host's own take on disk.
func fileBytes(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += max(info.Size(), block)
		} else if errors.Is(err, fs.ErrNotExist) { // of a git that works there
			err = nil
		}
		return err
	})
	return sum, err
}

// NeedsTidying says whether a fork holds half of what attempts may leave.
func (r *Repo) NeedsTidying() bool {
	full, err := r.full(0, DefaultMaxFork/2)
	return full || err != nil
}

// Tidy drops what a fork has taken and none of these objects needs.
func (r *Repo) Tidy(ctx context.Context, needed []OID) error {
	args := []string{"prune", "--expire=now", "--"}
	for _, oid := range needed {
		if !oid.Valid() {
			continue
		}
		// What is borrowed needs nothing of the fork.
		if _, err := os.Stat(filepath.Join(r.objects, string(oid[:2]), string(oid[2:]))); err == nil {
			args = append(args, string(oid))
		}
	}
	if _, err := r.call(ctx, call{args: args}); err != nil {
		return fmt.Errorf("tidy the fork: %w", err)
	}
	return nil
}

// Take brings a commit or tree, with all it needs, from a fork into the repository.
func (r *Repo) Take(ctx context.Context, from *Repo, oid OID) error {
	if !oid.Valid() {
		return fmt.Errorf("take %s: %w", quote(string(oid)), ErrNotFound)
	}
	_, err := r.refs(ctx, call{args: []string{
		"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance",
		"--update-shallow", "--refmap=", "--end-of-options", from.view, string(oid),
	}, config: []string{"protocol.file.allow=always"}})
	if err != nil {
		return fmt.Errorf("take %s: %w", oid, err)
	}
	return nil
}
