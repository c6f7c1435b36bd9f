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

// submodule is where the objects of a submodule are read, nil where it is not checked out.
func (w *Worktree) submodule(path string) *store {
	if s, known := w.submodules[path]; known {
		return s
	}
	s := w.repo.openSubmodule(path)
	w.submodules[path] = s
	return s
}

func (r *Repo) openSubmodule(path string) *store {
	if r.top == "" {
		return nil
	}
	git := filepath.Join(r.top, filepath.FromSlash(path), ".git")
	if data, err := os.ReadFile(git); err == nil { // #nosec G304 -- the person's own
		git = absolute(filepath.Dir(git), strings.TrimSpace(strings.TrimPrefix(string(data), "gitdir: ")))
	}
	objects := filepath.Join(git, "objects")
	if info, err := os.Stat(objects); err != nil || !info.IsDir() { // #nosec G703 -- the person's own
		return nil
	}
	s := newStore(r.git, r.view, objects)
	s.lfs = filepath.Join(git, "lfs", "objects")
	return &s
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
		if from.lfs == "" || size > maxPointer || e.Mode == ModeSymlink {
			return do(r)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		content, err := from.largeFile(data)
		if content == nil || err != nil {
			return errors.Join(err, do(bytes.NewReader(data)))
		}
		defer func() { _ = content.Close() }()
		e.Filled = true
		return do(content)
	})
}

// What Git LFS stores in the place of a file: maxPointer bytes at most.
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
func (s *store) largeFile(pointer []byte) (*os.File, error) {
	rest, ok := strings.CutPrefix(string(pointer), pointerPrefix+"oid sha256:")
	name, _, _ := strings.Cut(rest, "\n")
	if sum, err := hex.DecodeString(name); s.lfs == "" || !ok || err != nil || len(sum) != sha256.Size {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(s.lfs, name[:2], name[2:4], name)) // #nosec G304 -- the person's own, by a checksum
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// Absent lists the paths of a tree that do not hold what they stand for where it is laid out: files
// of Git LFS that stay pointers, and submodules that stay empty.
func (r *Repo) Absent(ctx context.Context, tree OID) (pointers, submodules []string, err error) {
	w := &Worktree{repo: r, submodules: map[string]*store{}}
	entries, err := w.target(ctx, tree, newIndex(nil, "", instant{}))
	if err != nil {
		return nil, nil, fmt.Errorf("look for what is absent: %w", err)
	}
	uses := false // Git LFS: small files are read only then
	for _, e := range entries {
		_, name := splitPath(e.Path)
		switch {
		case e.Withheld && e.Mode == ModeSubmodule:
			submodules = append(submodules, e.Path)
		case !e.Withheld && !uses && name == attributesFile:
			data, err := w.small(ctx, e, maxIgnoreSize)
			if err != nil {
				return nil, nil, err
			}
			uses = bytes.Contains(data, []byte("filter=lfs"))
		}
	}
	for _, e := range entries {
		if !uses || e.Withheld || e.Mode&modeKind != ModeFile&modeKind {
			continue
		}
		data, err := w.small(ctx, e, maxPointer)
		if err != nil {
			return nil, nil, err
		}
		if !bytes.HasPrefix(data, []byte(pointerPrefix)) {
			continue
		}
		content, err := w.storeOf(e).largeFile(data)
		if err != nil {
			return nil, nil, fmt.Errorf("look for what is absent: %w", err)
		}
		if content == nil {
			pointers = append(pointers, e.Path)
			continue
		}
		_ = content.Close()
	}
	return pointers, submodules, nil
}

// small is the content of a file of at most so many bytes, nil for a larger one.
func (w *Worktree) small(ctx context.Context, e entry, limit int64) ([]byte, error) {
	data, err := w.storeOf(e).read(ctx, kindBlob, string(e.OID), limit)
	if errors.Is(err, ErrTooLarge) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", quotePath(e.Path), err)
	}
	return data, nil
}
