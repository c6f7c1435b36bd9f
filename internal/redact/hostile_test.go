package redact

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"
)

// longKey is long enough to be looked for in parts.
const longKey = "kL9mN2oP5qR8sT1uV4wX7yZ0aB3cD6eF"

// allocated is how many bytes f allocates. Tests that ask for it are not parallel.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestKnownSecretsNeedNoMemory beside the text, which may have 64 MiB: in one that
// nearly holds a secret everywhere, in parts.
func TestKnownSecretsNeedNoMemory(t *testing.T) {
	m := New(longKey)
	text := bytes.Repeat([]byte(longKey[:30]+"-"), 4<<20/31)
	if n := allocated(func() { m.FindKnown(t.Context(), text) }); n > 4<<20 {
		t.Errorf("%d KiB for %d KiB", n>>10, len(text)>>10)
	}
}

// wordsOfAll is text that makes every form be looked for everywhere.
func wordsOfAll(size int) []byte {
	var all []byte
	for _, t := range tokens {
		all = append(all, t.prefix+" "...)
	}
	for _, r := range rules() {
		all = append(all, strings.Join(r.words, " ")+" "...)
	}
	return bytes.Repeat(all, size/len(all))
}

// TestSearchIsBounded: what was made to tire the search is not searched to its end,
// nor is what comes after it, and that is said.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	search := &Search{close: maxClose - 1<<20}
	text := append(wordsOfAll(1<<20), "\nghp_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7c\n"...)
	if found, whole := search.Find(t.Context(), text); whole || len(found) != 0 && found[0].Rule != "github_token" {
		t.Errorf("%d were found, whole: %t", len(found), whole)
	}
	if search.close > maxClose+len(rules())*(maxPiece+maxReach+1) {
		t.Errorf("%d KiB too much was looked at", (search.close-maxClose)>>10)
	}
	if _, whole := search.Find(t.Context(), []byte("a token: ghp_x")); whole {
		t.Error("it goes on afterwards")
	}
	if found, whole := new(Search).Find(t.Context(), text[len(text)-100:]); !whole || len(found) != 1 {
		t.Errorf("a new search: %+v, whole: %t", found, whole)
	}
}

// TestSearchHearsACancel: nothing is looked at any more, and it is not said that all
// of the text was searched.
func TestSearchHearsACancel(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	search := new(Search)
	text := append(wordsOfAll(256<<10), longKey...)
	found, whole := New(longKey).Search(cancelled, search, text)
	if whole || len(found) != 0 || search.close > len(rules())*(maxPiece+maxReach+1) {
		t.Errorf("%d were found in %d bytes, whole: %t", len(found), search.close, whole)
	}
}
