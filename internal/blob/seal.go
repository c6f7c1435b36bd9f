package blob

import (
	"bufio"
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A sealed blob is a header and chunks. The header is the mark, a byte for how it is
// sealed, the id of the key (zeros where there is none) and 16 random bytes. A chunk is
// ChunkSize bytes, of the last one what is left, as the AEAD seals them. Header, number,
// whether it is the last, and the name of the blob are the additional data of each chunk:
// one of another place, another blob or another version of this one does not fit.
const (
	mark       = "ralphb1"
	randomSize = 16
	headerSize = len(mark) + 1 + idSize + randomSize
)

// How a blob is sealed.
const (
	hashed    = 'h'
	encrypted = 'e'
)

type sealed struct {
	Store
	keys Keys
}

// Seal has all that is put into a store encrypted with the first key, or hashed where there
// are no keys. What it reads may be sealed either way, and with any of the keys.
func Seal(in Store, keys Keys) Store { return sealed{in, keys} }

// Put implements Store.
func (s sealed) Put(ctx context.Context, name string, r io.Reader) error {
	header := append(make([]byte, 0, headerSize), mark...)
	seal := cipher.AEAD(digest{})
	if len(s.keys) > 0 {
		seal = s.keys[0].aead
		header = append(append(header, encrypted), s.keys[0].id[:]...)
	} else {
		header = append(append(header, hashed), make([]byte, idSize)...)
	}
	random := make([]byte, randomSize)
	if _, err := rand.Read(random); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	header = append(header, random...)
	return s.Store.Put(ctx, name, &chunks{
		from: bufio.NewReaderSize(r, ChunkSize+1), size: ChunkSize, out: bytes.Clone(header),
		turn: func(chunk []byte, n uint64, last bool) ([]byte, error) {
			return seal.Seal(nil, nil, chunk, additional(header, name, n, last)), nil
		},
	})
}

// Open implements Store.
func (s sealed) Open(ctx context.Context, name string) (_ io.ReadCloser, err error) {
	in, err := s.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open %s: %w", name, err), in.Close())
		}
	}()
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(in, header); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, ErrDamaged
	} else if err != nil {
		return nil, err
	}
	how, found := bytes.CutPrefix(header, []byte(mark))
	if !found {
		return nil, ErrDamaged
	}
	var open cipher.AEAD
	switch how[0] {
	case hashed:
		open = digest{}
	case encrypted:
		if open, err = s.keys.find(how[1 : 1+idSize]); err != nil {
			return nil, err
		}
	default:
		return nil, ErrDamaged
	}
	size := ChunkSize + open.Overhead()
	return &opened{Closer: in, chunks: chunks{
		from: bufio.NewReaderSize(in, size+1), size: size,
		turn: func(chunk []byte, n uint64, last bool) ([]byte, error) {
			plain, err := open.Open(nil, nil, chunk, additional(header, name, n, last))
			if err != nil {
				return nil, fmt.Errorf("read %s: %w at chunk %d", name, ErrDamaged, n)
			}
			return plain, nil
		},
	}}, nil
}

func additional(header []byte, name string, n uint64, last bool) []byte {
	out := binary.BigEndian.AppendUint64(bytes.Clone(header), n)
	if last {
		return append(append(out, 1), name...)
	}
	return append(append(out, 0), name...)
}

type opened struct {
	chunks
	io.Closer
}

// chunks reads from one reader, in chunks of a size, what turn makes of each.
type chunks struct {
	from *bufio.Reader
	size int
	turn func(chunk []byte, n uint64, last bool) ([]byte, error)
	out  []byte
	n    uint64
	done bool
	err  error
}

// Read implements io.Reader.
func (c *chunks) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		if c.err == nil && c.done {
			c.err = io.EOF
		}
		if c.err != nil {
			return 0, c.err
		}
		c.out, c.err = c.next()
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

func (c *chunks) next() ([]byte, error) {
	// One byte more says whether it is the last.
	b, err := c.from.Peek(c.size + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	c.done = err != nil
	chunk := b[:min(len(b), c.size)]
	out, err := c.turn(chunk, c.n, c.done)
	if err != nil {
		return nil, err
	}
	c.n++
	_, err = c.from.Discard(len(chunk))
	return out, err
}

// digest seals with a hash: it hides nothing, and finds what was damaged.
type digest struct{}

var errHash = errors.New("the hash does not fit")

// NonceSize implements cipher.AEAD.
func (digest) NonceSize() int { return 0 }

// Overhead implements cipher.AEAD.
func (digest) Overhead() int { return sha256.Size }

func (digest) sum(text, additional []byte) []byte {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(additional))))
	h.Write(additional)
	h.Write(text)
	return h.Sum(nil)
}

// Seal implements cipher.AEAD.
func (d digest) Seal(dst, _, text, additional []byte) []byte {
	return append(append(dst, text...), d.sum(text, additional)...)
}

// Open implements cipher.AEAD.
func (d digest) Open(dst, _, chunk, additional []byte) ([]byte, error) {
	at := len(chunk) - sha256.Size
	if at < 0 || subtle.ConstantTimeCompare(chunk[at:], d.sum(chunk[:at], additional)) != 1 {
		return nil, errHash
	}
	return append(dst, chunk[:at]...), nil
}
