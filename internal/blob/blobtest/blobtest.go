// Package blobtest is what every blob.Store has to pass.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/blob"
)

// Run runs the suite; open gives a store with nothing in it.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	t.Helper()
	for _, tc := range []struct {
		name string
		test func(*testing.T, blob.Store)
	}{
		{"Sizes", sizes},
		{"Replace", replace},
		{"BrokenOff", brokenOff},
		{"Cancelled", cancelled},
		{"Missing", missing},
		{"Names", names},
		{"List", list},
		{"ManyNames", manyNames},
		{"ReplacedWhileRead", replacedWhileRead},
		{"SeveralWriters", severalWriters},
		{"Sealed", sealedIn},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.test(t, open(t))
		})
	}
}

func put(t *testing.T, s blob.Store, name string, data []byte) {
	t.Helper()
	if err := s.Put(t.Context(), name, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, s blob.Store, name string) []byte {
	t.Helper()
	b, err := readAll(t.Context(), s, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readAll(ctx context.Context, s blob.Store, name string) ([]byte, error) {
	r, err := s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

func listed(t *testing.T, s blob.Store, prefix string) []string {
	t.Helper()
	all, err := s.List(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}

// random is data that nothing can make smaller.
func random(seed uint64, n int) []byte {
	var s [32]byte
	s[0], s[1] = byte(seed), byte(seed>>8)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(s).Read(b) // it never fails
	return b
}

func sizes(t *testing.T, s blob.Store) {
	for i, n := range []int{0, 1, blob.ChunkSize - 1, blob.ChunkSize, blob.ChunkSize + 1, 3*blob.ChunkSize + 7} {
		name, want := fmt.Sprintf("a/%d", n), random(uint64(i), n)
		put(t, s, name, want)
		if got := read(t, s, name); !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back as %d others", n, len(got))
		}
		all, err := s.List(t.Context(), name)
		if err != nil || len(all) == 0 || all[0].Size < int64(n) || all[0].Put.IsZero() {
			t.Errorf("%d bytes are listed as %v, %v", n, all, err)
		}
	}
}

// replace: of the longer blob that was there nothing is left.
func replace(t *testing.T, s blob.Store) {
	put(t, s, "a", random(1, 2*blob.ChunkSize))
	put(t, s, "a", []byte("short"))
	if got := read(t, s, "a"); string(got) != "short" {
		t.Errorf("%d bytes", len(got))
	}
	if diff := cmp.Diff([]string{"a"}, listed(t, s, "")); diff != "" {
		t.Error(diff)
	}
}

// brokenOff: what could not be read to its end is not there, and what was there stays.
func brokenOff(t *testing.T, s blob.Store) {
	gone := errors.New("gone")
	half := func() io.Reader {
		return io.MultiReader(bytes.NewReader(random(1, 2*blob.ChunkSize)), broken{gone})
	}
	put(t, s, "old", []byte("old"))
	for _, name := range []string{"new", "old"} {
		if err := s.Put(t.Context(), name, half()); !errors.Is(err, gone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff([]string{"old"}, listed(t, s, "")); diff != "" {
		t.Error(diff)
	}
	if got := read(t, s, "old"); string(got) != "old" {
		t.Errorf("%d bytes", len(got))
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// cancelled: nor is what was given up in the middle.
func cancelled(t *testing.T, s blob.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := s.Put(ctx, "a", io.MultiReader(bytes.NewReader(random(1, 2*blob.ChunkSize)), ender(cancel),
		bytes.NewReader(random(2, 2*blob.ChunkSize))))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if got := listed(t, s, ""); len(got) > 0 {
		t.Errorf("there is %v", got)
	}
}

// ender calls a function when it is read, and is at its end then.
type ender func()

func (e ender) Read([]byte) (int, error) {
	e()
	return 0, io.EOF
}

func missing(t *testing.T, s blob.Store) {
	if _, err := readAll(t.Context(), s, "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	put(t, s, "a", []byte("a"))
	put(t, s, "b", []byte("b"))
	put(t, s, "c", []byte("c"))
	for range 2 {
		if err := s.Delete(t.Context(), "a", "none", "c"); err != nil {
			t.Error(err)
		}
	}
	if err := s.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := readAll(t.Context(), s, "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleted: %v", err)
	}
	if diff := cmp.Diff([]string{"b"}, listed(t, s, "")); diff != "" {
		t.Error(diff)
	}
}

func names(t *testing.T, s blob.Store) {
	for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a b", "a\x00", "ä", strings.Repeat("a", 600)} {
		if err := s.Put(t.Context(), name, strings.NewReader("")); err == nil {
			t.Errorf("%q can be put", name)
		}
		if _, err := s.Open(t.Context(), name); err == nil {
			t.Errorf("%q can be opened", name)
		}
	}
	for _, name := range []string{"a", "A", "a.b_c-d/0001-x.zip"} {
		put(t, s, name, []byte(name))
	}
	if got := read(t, s, "A"); string(got) != "A" {
		t.Errorf("%q", got)
	}
}

func list(t *testing.T, s blob.Store) {
	for _, name := range []string{"runs/b/1", "runs/a-1/1", "runs/a/2", "runs/a/1", "runs/a.b/1", "other/a"} {
		put(t, s, name, nil)
	}
	for prefix, want := range map[string][]string{
		"":        {"other/a", "runs/a-1/1", "runs/a.b/1", "runs/a/1", "runs/a/2", "runs/b/1"},
		"runs/a/": {"runs/a/1", "runs/a/2"},
		"runs/a":  {"runs/a-1/1", "runs/a.b/1", "runs/a/1", "runs/a/2"},
		"none/":   {},
	} {
		if diff := cmp.Diff(want, listed(t, s, prefix)); diff != "" {
			t.Errorf("%q: %s", prefix, diff)
		}
	}
}

// manyNames: more than a store gives at once.
func manyNames(t *testing.T, s blob.Store) {
	const n = 1100
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprintf("n/%05d", i)
	}
	var all sync.WaitGroup
	for part := range slices.Chunk(want, n/8) {
		all.Go(func() {
			for _, name := range part {
				if err := s.Put(t.Context(), name, strings.NewReader("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff(want, listed(t, s, "n/")); diff != "" {
		t.Error(diff)
	}
	if err := s.Delete(t.Context(), want...); err != nil {
		t.Error(err)
	}
	if got := listed(t, s, ""); len(got) > 0 {
		t.Errorf("%d are left", len(got))
	}
}

// replacedWhileRead: a reader gets one or the other, or fails; never some of each.
func replacedWhileRead(t *testing.T, s blob.Store) {
	old, next := random(1, 3*blob.ChunkSize), random(2, 3*blob.ChunkSize)
	put(t, s, "a", old)
	r, err := s.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	got := make([]byte, blob.ChunkSize/2)
	if _, err := io.ReadFull(r, got); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", next)
	rest, err := io.ReadAll(r)
	got = append(got, rest...)
	if err == nil && !bytes.Equal(got, old) || !bytes.HasPrefix(old, got) {
		t.Errorf("%d bytes that are not of the old one, %v", len(got), err)
	}
	if got := read(t, s, "a"); !bytes.Equal(got, next) {
		t.Error("the new one is not there")
	}
}

// severalWriters: the last one wins, and there is no mixture.
func severalWriters(t *testing.T, s blob.Store) {
	const n = 4
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := s.Put(t.Context(), "a", bytes.NewReader(random(uint64(i), 2*blob.ChunkSize+i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := read(t, s, "a")
	for i := range n {
		if bytes.Equal(got, random(uint64(i), 2*blob.ChunkSize+i)) {
			return
		}
	}
	t.Errorf("%d bytes that nobody wrote", len(got))
}

// sealedIn: what goes around a store fits this one, and what is done to a blob in it is found.
func sealedIn(t *testing.T, s blob.Store) {
	keys, err := blob.ParseKeys("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		t.Fatal(err)
	}
	for i, keys := range []blob.Keys{nil, keys} {
		around, name := blob.Seal(s, keys), fmt.Sprintf("a/%d", i)
		want := random(7, 2*blob.ChunkSize+5)
		put(t, around, name, want)
		if got := read(t, around, name); !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back", len(got))
		}
		raw := read(t, s, name)
		raw[len(raw)-1] ^= 1
		put(t, s, name, raw)
		if _, err := readAll(t.Context(), around, name); !errors.Is(err, blob.ErrDamaged) {
			t.Errorf("with a bit turned over: %v", err)
		}
	}
}
