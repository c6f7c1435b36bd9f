package gitrepo

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// index is what the host knows of a directory: the tree it holds and the
// stamps of its files.
type index struct {
	// entries are sorted by path.
	entries []entry
	// tree is the tree of the entries, and stored.
	tree OID
	// written is when the index was: a file stamped then or later may have
	// changed since unnoticed.
	written int64
	byPath  map[string]int
	// dirs holds every directory that the entries need on disk.
	dirs map[string]struct{}
	// modules are the submodules whose files the entries hold.
	modules map[string]bool
}

// inModule says whether a path is one within such a submodule.
func (x *index) inModule(path string) bool {
	for dir := range prefixes(path) {
		if x.modules[dir] {
			return true
		}
	}
	return false
}

func newIndex(entries []entry, tree OID, written int64) *index {
	x := &index{
		entries: entries, tree: tree, written: written,
		byPath: make(map[string]int, len(entries)),
		dirs:   make(map[string]struct{}, len(entries)/8+1), modules: map[string]bool{},
	}
	for i, e := range entries {
		x.byPath[e.Path] = i
		if e.Submodule != "" {
			x.modules[e.Submodule] = true
		}
		if e.Withheld && (e.Mode != ModeSubmodule || !exportable(e.Path)) {
			continue // nothing of it is on disk, not even the way to it
		}
		for dir, _ := splitPath(e.Path); dir != ""; dir, _ = splitPath(dir) {
			if _, known := x.dirs[dir]; known {
				break
			}
			x.dirs[dir] = struct{}{}
		}
	}
	return x
}

// fresh says whether the file with this stamp is the one the entry describes,
// unchanged.
func (x *index) fresh(e entry, info fileInfo) bool {
	return info.gitMode() == e.Mode && e.Stat == info.stamp && !e.Stat.after(x.written)
}

// indexFile is what the file of an index holds.
type indexFile struct {
	Tree    OID
	Entries []entry
}

// readIndex reads the host's index file. One that is missing or broken is
// empty: it only ever saves work.
func readIndex(path string) (*index, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- the host's own file
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read index: %w", err)
	}
	var f indexFile
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&f); err != nil {
		return newIndex(nil, "", 0), nil //nolint:nilerr // not there, cut, or not ours
	}
	written, err := changedAt(path)
	return newIndex(f.Entries, f.Tree, written), err
}

// writeIndex replaces the index file and returns when that was.
func writeIndex(path string, entries []entry, tree OID) (int64, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(indexFile{tree, entries})
	if err == nil {
		err = replaceFile(path, b.Bytes())
	}
	if err != nil {
		return 0, fmt.Errorf("write index: %w", err)
	}
	return changedAt(path)
}

// changedAt is when a file of the host's own was written, by the clock of its file system.
func changedAt(path string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("look at the index: %w", err)
	}
	return makeInfo(&st).stamp.Modified, nil
}

// below are the entries below a directory.
func (x *index) below(dir string) []entry {
	from, _ := slices.BinarySearchFunc(x.entries, dir+"/", func(e entry, p string) int { return strings.Compare(e.Path, p) })
	to := from
	for to < len(x.entries) && strings.HasPrefix(x.entries[to].Path, dir+"/") {
		to++
	}
	return x.entries[from:to]
}
