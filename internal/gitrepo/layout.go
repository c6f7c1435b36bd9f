package gitrepo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// What the person's checkout has besides the objects of the repository, a directory gets as
// well: the files of submodules, as far as these are checked out, and the contents that Git
// LFS keeps. Neither is part of the tree, so that a change of it is refused.

// submoduleObjects is the directory of the objects of the submodule that the person has at a
// path, "" for none.
func (r *Repo) submoduleObjects(path string) string {
	if r.top == "" {
		return ""
	}
	git := filepath.Join(r.top, filepath.FromSlash(path), ".git")
	if data, err := os.ReadFile(git); err == nil { // #nosec G304 -- the person's own
		git = absolute(filepath.Dir(git), strings.TrimSpace(strings.TrimPrefix(string(data), "gitdir: ")))
	}
	objects := filepath.Join(git, "objects")
	if info, err := os.Stat(objects); err != nil || !info.IsDir() { // #nosec G703 -- the person's own
		return ""
	}
	return objects
}

// submodule is where the objects of a submodule are read, nil where it is not checked out.
func (w *Worktree) submodule(path string) *store {
	if s, known := w.submodules[path]; known {
		return s
	}
	var s *store
	if objects := w.repo.submoduleObjects(path); objects != "" {
		opened := newStore(w.repo.git, w.repo.view, objects)
		s = &opened
	}
	w.submodules[path] = s
	return s
}

// fill lists the files of a submodule in the place of the submodule itself. It is false where
// the person has not checked it out, or not at that commit.
func (w *Worktree) fill(ctx context.Context, module entry) ([]entry, bool, error) {
	s := w.submodule(module.Path)
	if s == nil || !exportable(module.Path) {
		return nil, false, nil
	}
	if _, err := s.find(ctx, kindCommit, string(module.OID)); errors.Is(err, ErrNotFound) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	entries, err := s.listTree(ctx, module.OID)
	for i := range entries {
		entries[i].Path = module.Path + "/" + entries[i].Path
		entries[i].Submodule = module.Path
	}
	return entries, err == nil && len(entries) > 0, err
}

// storeOf is where the content of an entry is read.
func (w *Worktree) storeOf(e entry) *store {
	if e.Submodule == "" {
		return &w.repo.store
	}
	return w.submodule(e.Submodule)
}

// contents hands over what a file of the directory holds.
func (w *Worktree) contents(ctx context.Context, e *entry, do func(r io.Reader) error) error {
	from := w.storeOf(*e)
	if from == nil {
		return fmt.Errorf("the submodule %s is gone", quotePath(e.Submodule))
	}
	return from.contents(ctx, string(e.OID), func(r io.Reader, size int64) error {
		e.Filled = false
		if w.repo.lfs == "" || size > maxPointer || e.Mode == ModeSymlink {
			return do(r)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		content, err := w.repo.largeFile(data)
		if content == nil || err != nil {
			return errors.Join(err, do(bytes.NewReader(data)))
		}
		defer func() { _ = content.Close() }()
		e.Filled = true
		return do(content)
	})
}

// What Git LFS stores in the place of a file.
const (
	maxPointer    = 1024
	pointerPrefix = "version https://git-lfs.github.com/spec/v1\n"
)

// pointerTo is what Git LFS stores of a content.
func pointerTo(content io.Reader) ([]byte, error) {
	sum := sha256.New()
	size, err := io.Copy(sum, content)
	return fmt.Appendf(nil, "%soid sha256:%x\nsize %d\n", pointerPrefix, sum.Sum(nil), size), err
}

// largeFile opens what a pointer of Git LFS stands for, nil where it is none, or the person
// does not have that.
func (r *Repo) largeFile(pointer []byte) (*os.File, error) {
	rest, ok := strings.CutPrefix(string(pointer), pointerPrefix+"oid sha256:")
	name, _, _ := strings.Cut(rest, "\n")
	if sum, err := hex.DecodeString(name); !ok || err != nil || len(sum) != sha256.Size {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(r.lfs, name[:2], name[2:4], name)) // #nosec G304 -- the person's own, by a checksum
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// HasSubmodule says whether a directory gets the files of the submodule at a path.
func (r *Repo) HasSubmodule(path string) bool { return r.submoduleObjects(path) != "" }

// HasLargeFiles says whether directories get what Git LFS keeps.
func (r *Repo) HasLargeFiles() bool {
	_, err := os.Stat(r.lfs)
	return r.lfs != "" && err == nil
}
