package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/blob"
	"github.com/org/ralph-action/internal/blob/blobtest"
	"github.com/org/ralph-action/internal/run"
)

const (
	keyA = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	keyB = "//79/Pv6+fj39vX08/Lx8O/u7ezr6uno5+bl5OPi4eA="
)

// memory keeps blobs as they were put there.
type memory struct {
	mu  sync.Mutex
	all map[string][]byte
}

func newMemory() *memory { return &memory{all: map[string][]byte{}} }

func (m *memory) Put(ctx context.Context, name string, r io.Reader) error {
	b, err := io.ReadAll(r)
	if err := errors.Join(err, ctx.Err(), blob.CheckName(name)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[name] = b
	return nil
}

func (m *memory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.all[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (m *memory) Delete(_ context.Context, names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		delete(m.all, name)
	}
	return nil
}

func (m *memory) List(_ context.Context, prefix string) (all []blob.Info, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.all)) {
		if strings.HasPrefix(name, prefix) {
			all = append(all, blob.Info{Name: name, Size: int64(len(m.all[name])), Put: time.Unix(1, 0)})
		}
	}
	return all, nil
}

func keys(t *testing.T, texts ...string) blob.Keys {
	t.Helper()
	k, err := blob.ParseKeys(texts...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func put(t *testing.T, s blob.Store, name, text string) {
	t.Helper()
	if err := s.Put(t.Context(), name, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, s blob.Store, name string) (string, error) {
	t.Helper()
	r, err := s.Open(t.Context(), name)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	return string(b), errors.Join(err, r.Close())
}

func TestSealed(t *testing.T) {
	t.Parallel()
	t.Run("Hashed", func(t *testing.T) {
		t.Parallel()
		blobtest.Run(t, func(*testing.T) blob.Store { return blob.Seal(newMemory(), nil) })
	})
	t.Run("Encrypted", func(t *testing.T) {
		t.Parallel()
		blobtest.Run(t, func(t *testing.T) blob.Store { return blob.Seal(newMemory(), keys(t, keyA)) })
	})
}

// The sizes of a header and of chunks, as they are stored.
const (
	header         = 32
	hashedChunk    = blob.ChunkSize + 32
	encryptedChunk = blob.ChunkSize + 28
)

// TestTampered: whatever is done to what is stored is found, and of the chunk in question
// nothing is given out.
func TestTampered(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", blob.ChunkSize) + strings.Repeat("b", blob.ChunkSize) + strings.Repeat("c", blob.ChunkSize)
	for name, how := range map[string]struct {
		keys  blob.Keys
		chunk int
	}{"hashed": {nil, hashedChunk}, "encrypted": {keys(t, keyA), encryptedChunk}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMemory()
			s := blob.Seal(m, how.keys)
			put(t, s, "a", text)
			put(t, s, "other", text)
			first := m.all["a"]
			put(t, s, "a", strings.ToUpper(text))
			second, other := m.all["a"], m.all["other"]
			if len(first) != header+3*how.chunk {
				t.Fatalf("%d bytes are stored", len(first))
			}
			at := func(b []byte, n int) []byte { return b[header+n*how.chunk : header+(n+1)*how.chunk] }
			flipped := bytes.Clone(first)
			flipped[header+how.chunk+5] ^= 0x80
			for what, tt := range map[string]struct {
				stored []byte
				// good is how much may be given out before it is found.
				good int
			}{
				"empty":                    {nil, 0},
				"part of a header":         {first[:header-1], 0},
				"header alone":             {first[:header], 0},
				"cut off in a chunk":       {first[:len(first)-1], 2},
				"cut off behind a chunk":   {first[:header+how.chunk], 0},
				"last chunk is gone":       {first[:header+2*how.chunk], 1},
				"first chunk is gone":      {slices.Concat(first[:header], at(first, 1), at(first, 2)), 0},
				"chunks exchanged":         {slices.Concat(first[:header], at(first, 1), at(first, 0), at(first, 2)), 0},
				"chunk twice":              {slices.Concat(first[:header+how.chunk], at(first, 0), at(first, 2)), 1},
				"more behind":              {slices.Concat(first, []byte("x")), 2},
				"chunk behind":             {slices.Concat(first, at(first, 2)), 2},
				"bit turned over":          {flipped, 1},
				"another version's chunk":  {slices.Concat(first[:header+how.chunk], at(second, 1), at(first, 2)), 1},
				"another version's header": {slices.Concat(second[:header], first[header:]), 0},
				"another blob":             {other, 0},
				"another mark":             {slices.Concat([]byte("R"), first[1:]), 0},
				"another kind":             {slices.Concat(first[:7], []byte("x"), first[8:]), 0},
			} {
				m.all["a"] = tt.stored
				got, err := read(t, s, "a")
				if !errors.Is(err, blob.ErrDamaged) {
					t.Errorf("%s: %v", what, err)
				}
				if got != text[:tt.good*blob.ChunkSize] {
					t.Errorf("%s: %d bytes were given out", what, len(got))
				}
			}
			m.all["a"] = first
			if got, err := read(t, s, "a"); err != nil || got != text {
				t.Errorf("as it was: %d bytes, %v", len(got), err)
			}
		})
	}
}

// TestEncrypted: nothing of the text is in what is stored, and the same text is never
// stored as the same bytes.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	m := newMemory()
	s := blob.Seal(m, keys(t, keyA))
	put(t, s, "a", "the password is hunter2")
	first := m.all["a"]
	put(t, s, "a", "the password is hunter2")
	if bytes.Contains(first, []byte("hunter2")) || bytes.Equal(first[header:], m.all["a"][header:]) {
		t.Errorf("%q", first)
	}
}

// TestRotation: a new key takes over, what the old one encrypted stays readable as long as
// that is known, and so does what was stored before there was any.
func TestRotation(t *testing.T) {
	t.Parallel()
	m := newMemory()
	put(t, blob.Seal(m, nil), "plain", "plain")
	put(t, blob.Seal(m, keys(t, keyA)), "old", "old")
	both := blob.Seal(m, keys(t, keyB, keyA))
	put(t, both, "new", "new")
	for _, name := range []string{"plain", "old", "new"} {
		if got, err := read(t, both, name); err != nil || got != name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	only := blob.Seal(m, keys(t, keyB))
	if got, err := read(t, only, "new"); err != nil || got != "new" {
		t.Errorf("the first key has not encrypted it: %q, %v", got, err)
	}
	for want, s := range map[string]blob.Store{
		"encrypted with another key": only, "the configuration has no key": blob.Seal(m, nil),
	} {
		_, err := read(t, s, "old")
		user, ok := errors.AsType[*run.UserError](err)
		if !ok || !strings.Contains(user.Message, want) || user.Hint == "" {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestParseKeys: what is no key is refused, and not shown.
func TestParseKeys(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "hunter2hunter2hunter2hunter2hun!", keyA[:20], keyA + keyA, "YQ=="} {
		_, err := blob.ParseKeys(keyB, text)
		user, ok := errors.AsType[*run.UserError](err)
		if !ok || !strings.Contains(user.Message, "key 2 ") || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if got, err := blob.ParseKeys(); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestNamesOfRuns(t *testing.T) {
	t.Parallel()
	if id, file, ok := blob.Run(blob.OfRun("r-1") + "0001-a.zip"); !ok || id != "r-1" || file != "0001-a.zip" {
		t.Errorf("%q, %q, %v", id, file, ok)
	}
	for _, name := range []string{"", "runs/r-1", "other/r-1/a"} {
		if _, _, ok := blob.Run(name); ok {
			t.Errorf("%q is of a run", name)
		}
	}
}

// FuzzOpen: whatever is stored, it is read as what was put there or is an error.
func FuzzOpen(f *testing.F) {
	k, err := blob.ParseKeys(keyA)
	if err != nil {
		f.Fatal(err)
	}
	for _, keys := range []blob.Keys{nil, k} {
		m := newMemory()
		if err := blob.Seal(m, keys).Put(f.Context(), "a", strings.NewReader("text")); err != nil {
			f.Fatal(err)
		}
		f.Add(m.all["a"])
	}
	f.Add([]byte("ralphb1e"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		m := newMemory()
		m.all["a"] = stored
		s := blob.Seal(m, k)
		text, err := read(t, s, "a")
		if err != nil {
			return
		}
		// Only the hash can be made without the key.
		if stored[7] != 'h' && text != "text" {
			t.Errorf("%q was read as %q", stored, text)
		}
	})
}
