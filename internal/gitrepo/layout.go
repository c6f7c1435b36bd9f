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

// fill lists the files of a submodule in the place of the submodule itself: none where the
// person has not checked it out, or not at that commit.
func (w *Worktree) fill(ctx context.Context, module entry) ([]entry, error) {
	s := w.submodule(module.Path)
	if s == nil || !exportable(module.Path) {
		return nil, nil
	}
	entries, err := s.listTree(ctx, module.OID)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	for i := range entries {
		entries[i].Path = module.Path + "/" + entries[i].Path
		entries[i].Submodule = module.Path
	}
	return entries, err
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
	_, err := from.find(ctx, kindBlob, string(e.OID), func(r io.Reader, size int64) error {
		e.Filled = false
		if from.lfs == "" || size > maxPointer || e.Mode == ModeSymlink {
			return do(r)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		large, err := from.largeFile(data)
		if large == nil || err != nil {
			return errors.Join(err, do(bytes.NewReader(data)))
		}
		defer func() { _ = large.Close() }()
		e.Filled = true
		return do(large)
	})
	return err
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
// of Git LFS, but those of submodules, that stay pointers, and submodules that stay empty.
func (r *Repo) Absent(ctx context.Context, tree OID) (pointers, submodules []string, err error) {
	w := &Worktree{repo: r, submodules: map[string]*store{}}
	entries, err := w.target(ctx, tree)
	if err != nil {
		return nil, nil, fmt.Errorf("look for what is absent: %w", err)
	}
	uses := false // Git LFS: all is looked through only then
	for _, e := range entries {
		_, name := splitPath(e.Path)
		switch {
		case e.Withheld && e.Mode == ModeSubmodule:
			submodules = append(submodules, e.Path)
		case !e.Withheld && !uses && name == attributesFile:
			rules, err := w.storeOf(e).read(ctx, kindBlob, string(e.OID), maxIgnoreSize)
			if err != nil && !errors.Is(err, ErrTooLarge) {
				return nil, nil, fmt.Errorf("read %s: %w", quotePath(e.Path), err)
			}
			uses = bytes.Contains(rules, []byte("filter=lfs"))
		}
	}
	if !uses {
		return nil, submodules, nil
	}
	found, err := r.call(ctx, call{
		args: []string{"grep", "-z", "--files-with-matches", "--fixed-strings", "-e", firstLine(pointerPrefix), string(tree)},
	})
	if err != nil && exitCode(err) != 1 { // 1: none
		return nil, nil, fmt.Errorf("look for what is absent: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(found), "\x00"), "\x00") {
		path := strings.TrimPrefix(name, string(tree)+":")
		data, err := r.ReadFile(ctx, tree, path, maxPointer)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrTooLarge) || !bytes.HasPrefix(data, []byte(pointerPrefix)) {
			continue
		}
		content, err := r.largeFile(data)
		if err != nil {
			return nil, nil, fmt.Errorf("look for what is absent: %w", err)
		}
		if content == nil {
			pointers = append(pointers, path)
			continue
		}
		_ = content.Close()
	}
	return pointers, submodules, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
