package gitrepo

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
)

// A pack of few objects is written here, in git's own format (gitformat-pack(5)): what
// is in it takes less time than a git process, and than as many files.

// maxFewBytes bounds a pack of few objects, and each of them: it is made in memory.
const maxFewBytes = 4 << 20

const (
	packSignature  = "PACK\x00\x00\x00\x02"
	packHeaderSize = 12
	idxSignature   = "\xfftOc\x00\x00\x00\x02"
	idxHeaderSize  = 8 + 256*4
)

var errBrokenPack = errors.New("the agent's pack is broken")

// fewPack is a pack that grows.
type fewPack struct {
	algo algo
	// body is the pack without its checksum.
	body    []byte
	objects []packedObject
}

type packedObject struct {
	oid     OID
	crc, at uint32
}

func newFewPack(a algo) *fewPack {
	return &fewPack{algo: a, body: append([]byte(packSignature), 0, 0, 0, 0)}
}

// readFewPack reads what finish made.
func readFewPack(a algo, pack, idx []byte) (*fewPack, error) {
	count, err := packCount(a, idx)
	if err != nil {
		return nil, err
	}
	crcs := idxHeaderSize + count*a.size
	offsets := crcs + count*4
	if len(pack) < packHeaderSize+a.size || len(idx) < offsets+count*4 {
		return nil, errBrokenPack
	}
	f := &fewPack{algo: a, body: pack[:len(pack)-a.size]}
	for i := range count {
		name := idx[idxHeaderSize+i*a.size:]
		f.objects = append(f.objects, packedObject{
			OID(hex.EncodeToString(name[:a.size])),
			binary.BigEndian.Uint32(idx[crcs+4*i:]), binary.BigEndian.Uint32(idx[offsets+4*i:]),
		})
	}
	return f, nil
}

// add takes in an object that it does not have. ErrTooLarge where that is too much.
func (f *fewPack) add(oid OID, kind string, data []byte) error {
	if len(f.body)+len(data) > maxFewBytes {
		return ErrTooLarge
	}
	at := len(f.body)
	code := map[string]byte{kindCommit: 1, kindTree: 2, kindBlob: 3}[kind]
	size := len(data)
	next := code<<4 | byte(size&0xf) // #nosec G115 -- four bits
	for size >>= 4; size > 0; size >>= 7 {
		f.body = append(f.body, next|0x80)
		next = byte(size & 0x7f) // #nosec G115 -- seven bits
	}
	b := bytes.NewBuffer(append(f.body, next))
	if err := compress(b, nil, int64(len(data)), bytes.NewReader(data)); err != nil {
		return err
	}
	f.body = b.Bytes()
	f.objects = append(f.objects, packedObject{oid, crc32.ChecksumIEEE(f.body[at:]), uint32(at)}) // #nosec G115 -- bounded
	return nil
}

// finish gives the files of the pack, and its name.
func (f *fewPack) finish() (name string, pack, idx []byte) {
	binary.BigEndian.PutUint32(f.body[8:], uint32(len(f.objects))) // #nosec G115 -- few
	sum := f.checksum(f.body)
	slices.SortFunc(f.objects, func(a, b packedObject) int { return strings.Compare(string(a.oid), string(b.oid)) })
	var fanout [256]uint32
	var names, crcs, offsets []byte
	for _, o := range f.objects {
		raw := len(names)
		names = o.oid.appendRaw(names)
		for i := int(names[raw]); i < len(fanout); i++ {
			fanout[i]++
		}
		crcs = binary.BigEndian.AppendUint32(crcs, o.crc)
		offsets = binary.BigEndian.AppendUint32(offsets, o.at)
	}
	idx = []byte(idxSignature)
	for _, n := range fanout {
		idx = binary.BigEndian.AppendUint32(idx, n)
	}
	idx = slices.Concat(idx, names, crcs, offsets, sum)
	return hex.EncodeToString(sum), slices.Concat(f.body, sum), append(idx, f.checksum(idx)...)
}

func (f *fewPack) checksum(data []byte) []byte {
	h := f.algo.new()
	_, _ = h.Write(data) // a hash never fails
	return h.Sum(nil)
}

// packCount is how many objects the index of a pack names.
func packCount(a algo, idx []byte) (int, error) {
	if len(idx) < idxHeaderSize || string(idx[:8]) != idxSignature {
		return 0, fmt.Errorf("its index: %w", errBrokenPack)
	}
	count := int(binary.BigEndian.Uint32(idx[idxHeaderSize-4:]))
	if count > (len(idx)-idxHeaderSize)/a.size {
		return 0, fmt.Errorf("its index: %w", errBrokenPack)
	}
	return count, nil
}
