package gitrepo

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// The host's index of a directory is a file in git's own format (version 3,
// gitformat-index(5)): a copy of it serves the agent's disposable repository.
const (
	indexSignature  = "DIRC"
	indexVersion    = 3
	indexHeaderSize = 12
	indexFixedSize  = 40 // of an entry, up to its object name

	flagNameMask     = 0x0fff
	flagStageMask    = 0x3000
	flagExtended     = 0x4000
	flagSkipWorktree = 0x4000 // in the extended flags
)

// errBrokenIndex: the file is not an index of ours, or was cut.
var errBrokenIndex = errors.New("the index is broken")

func encodeIndex(a algo, entries []entry) []byte {
	buf := make([]byte, 0, indexHeaderSize+len(entries)*128)
	buf = append(buf, indexSignature...)
	buf = binary.BigEndian.AppendUint32(buf, indexVersion)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(entries))) // #nosec G115 -- bounded by the limit of files
	for _, e := range entries {
		start := len(buf)
		s := e.stat
		for _, v := range [...]uint32{
			s.ctimeS, s.ctimeN, s.mtimeS, s.mtimeN, s.dev, s.ino, e.mode, s.uid, s.gid, s.size,
		} {
			buf = binary.BigEndian.AppendUint32(buf, v)
		}
		buf = e.oid.appendRaw(buf)
		flags := uint16(min(len(e.path), flagNameMask)) // #nosec G115 -- at most 12 bits
		if e.withheld {
			flags |= flagExtended
		}
		buf = binary.BigEndian.AppendUint16(buf, flags)
		if e.withheld {
			buf = binary.BigEndian.AppendUint16(buf, flagSkipWorktree)
		}
		buf = append(buf, e.path...)
		// One to eight NULs, up to a multiple of eight.
		buf = append(buf, make([]byte, 8-(len(buf)-start)%8)...)
	}
	h := a.new()
	_, _ = h.Write(buf) // a hash never fails
	return h.Sum(buf)
}

func decodeIndex(a algo, data []byte) ([]entry, error) {
	if len(data) < indexHeaderSize+a.size || string(data[:4]) != indexSignature ||
		binary.BigEndian.Uint32(data[4:]) != indexVersion {
		return nil, errBrokenIndex
	}
	body, sum := data[:len(data)-a.size], data[len(data)-a.size:]
	h := a.new()
	_, _ = h.Write(body) // a hash never fails
	if !bytes.Equal(h.Sum(nil), sum) {
		return nil, errBrokenIndex
	}
	count := int(binary.BigEndian.Uint32(data[8:]))
	if count > len(body)/(indexFixedSize+a.size) {
		return nil, errBrokenIndex
	}
	entries := make([]entry, 0, count)
	rest := body[indexHeaderSize:]
	for range count {
		e, size, ok := decodeEntry(a, rest)
		if !ok || (len(entries) > 0 && entries[len(entries)-1].path >= e.path) {
			return nil, errBrokenIndex
		}
		entries = append(entries, e)
		rest = rest[size:]
	}
	return entries, nil
}

func decodeEntry(a algo, data []byte) (e entry, size int, ok bool) {
	head := indexFixedSize + a.size + 2
	if len(data) < head+1 {
		return entry{}, 0, false
	}
	u := func(i int) uint32 { return binary.BigEndian.Uint32(data[4*i:]) }
	e.stat = fileStamp{
		ctimeS: u(0), ctimeN: u(1), mtimeS: u(2), mtimeN: u(3), dev: u(4), ino: u(5), uid: u(7), gid: u(8), size: u(9),
	}
	e.mode = u(6)
	e.oid = OID(hex.EncodeToString(data[indexFixedSize : indexFixedSize+a.size]))
	flags := binary.BigEndian.Uint16(data[head-2:])
	if flags&flagStageMask != 0 {
		return entry{}, 0, false
	}
	if flags&flagExtended != 0 {
		if len(data) < head+3 {
			return entry{}, 0, false
		}
		e.withheld = binary.BigEndian.Uint16(data[head:])&flagSkipWorktree != 0
		head += 2
	}
	end := bytes.IndexByte(data[head:], 0)
	if end <= 0 {
		return entry{}, 0, false
	}
	e.path = string(data[head : head+end])
	size = (head + end + 8) / 8 * 8
	return e, size, size <= len(data)
}

// index is what the host knows of a directory: the tree it holds and the
// stamps of its files.
type index struct {
	// entries are sorted by path.
	entries []entry
	// tree is the tree of the entries. Its objects are stored.
	tree OID
	// written is when the index was: a file stamped then or later may have
	// changed since unnoticed.
	written instant
	byPath  map[string]int
	// dirs holds every directory that the entries need on disk.
	dirs map[string]struct{}
	// trees names the tree of every directory; it may be empty.
	trees map[string]OID
}

func newIndex(entries []entry, tree OID, written instant) *index {
	x := &index{
		entries: entries, tree: tree, written: written,
		byPath: make(map[string]int, len(entries)),
		dirs:   make(map[string]struct{}, len(entries)/8+1),
		trees:  map[string]OID{},
	}
	last := ""
	for i, e := range entries {
		x.byPath[e.path] = i
		if e.withheld && (e.mode != ModeSubmodule || !exportable(e.path)) {
			continue // nothing of it is on disk, not even the way to it
		}
		dir, _ := splitPath(e.path)
		if dir == last {
			continue
		}
		last = dir
		for dir != "" {
			if _, known := x.dirs[dir]; known {
				break
			}
			x.dirs[dir] = struct{}{}
			dir, _ = splitPath(dir)
		}
	}
	return x
}

// fresh says whether the file with this stamp is the one the entry describes,
// unchanged.
func (x *index) fresh(e entry, info fileInfo) bool {
	return info.gitMode() == modeOnDisk(e.mode) && e.stat == info.stamp && !e.stat.after(x.written)
}

// modeOnDisk is the mode that a file of this tree mode has when it lies in a
// directory; old trees hold others, such as 0664.
func modeOnDisk(mode uint32) uint32 {
	if mode&modeKind != ModeFile&modeKind {
		return mode
	}
	if mode&0o100 != 0 {
		return ModeExecutable
	}
	return ModeFile
}

// readIndex reads the host's index file. One that is missing or broken is
// empty: it only ever saves work.
func readIndex(s *store, path string) (*index, error) {
	f, err := os.Open(path) // #nosec G304 -- the host's own file
	if errors.Is(err, fs.ErrNotExist) {
		return newIndex(nil, "", instant{}), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	entries, err := decodeIndex(s.algo, data)
	if err != nil {
		return newIndex(nil, "", instant{}), nil
	}
	info, err := fstat(f)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	x := newIndex(entries, "", instant{info.stamp.mtimeS, info.stamp.mtimeN})
	if err := x.nameTrees(s); err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	x.tree = x.trees[""]
	return x, nil
}

// nameTrees fills in the names of the directories' trees. The objects are
// there, see index.tree.
func (x *index) nameTrees(s *store) error {
	if len(x.trees) > 0 {
		return nil
	}
	builder := treeBuilder{store: s, stored: func(string) bool { return true }, trees: x.trees}
	_, err := builder.build(x.entries)
	return err
}

// with is the index that x becomes when entries have another content or stamp,
// but the same paths.
func (x *index) with(entries []entry, tree OID, written instant, trees map[string]OID) *index {
	y := *x
	y.entries, y.tree, y.written, y.trees = entries, tree, written, trees
	return &y
}

// writeIndex replaces the index file and returns when that was.
func writeIndex(s *store, path string, entries []entry) (instant, error) {
	if err := replaceFile(path, encodeIndex(s.algo, entries)); err != nil {
		return instant{}, fmt.Errorf("write index: %w", err)
	}
	f, err := os.Open(path) // #nosec G304 -- the host's own file
	if err != nil {
		return instant{}, fmt.Errorf("write index: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := fstat(f)
	if err != nil {
		return instant{}, fmt.Errorf("write index: %w", err)
	}
	return instant{info.stamp.mtimeS, info.stamp.mtimeN}, nil
}

// sortedBelow returns the range of entries below a directory.
func sortedBelow(entries []entry, dir string) (from, to int) {
	prefix := dir + "/"
	from, _ = slices.BinarySearchFunc(entries, prefix, func(e entry, p string) int { return strings.Compare(e.path, p) })
	for to = from; to < len(entries) && strings.HasPrefix(entries[to].path, prefix); {
		to++
	}
	return from, to
}
