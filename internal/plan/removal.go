package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/progress"
)

// Kind names something hidden, as people are told of it.
type Kind string

// What may be hidden in a text. The first six count characters, the others
// occurrences.
const (
	KindZeroWidth  Kind = "zero-width character"
	KindBidi       Kind = "bidirectional control"
	KindTag        Kind = "tag character"
	KindVariation  Kind = "variation selector"
	KindControl    Kind = "control character" // with the rest of a terminal sequence
	KindInvisible  Kind = "other invisible character"
	KindComment    Kind = "HTML comment"
	KindMarkup     Kind = "hidden HTML tag"
	KindAttribute  Kind = "HTML attribute"
	KindAlt        Kind = "alternative text"
	KindTitle      Kind = "link title"
	KindDefinition Kind = "unused link definition"
)

// Removal is what was taken out of a text.
type Removal struct {
	// Characters is the number of characters that went, of all kinds.
	Characters int
	// Kinds counts them by kind; nil where nothing went.
	Kinds map[Kind]int
}

func (r *Removal) count(k Kind, n int) {
	if n == 0 {
		return
	}
	if r.Kinds == nil {
		r.Kinds = map[Kind]int{}
	}
	r.Kinds[k] += n
}

func (r *Removal) add(o Removal) {
	r.Characters += o.Characters
	for k, n := range o.Kinds {
		r.count(k, n)
	}
}

// String lists the kinds for a sentence: "12 zero-width characters, 1 HTML
// comment". It is "" where nothing went.
func (r Removal) String() string {
	kinds := slices.SortedFunc(maps.Keys(r.Kinds), func(a, b Kind) int {
		return cmp.Or(cmp.Compare(r.Kinds[b], r.Kinds[a]), cmp.Compare(a, b))
	})
	parts := make([]string, 0, len(kinds))
	for _, k := range kinds {
		plural := "s"
		if r.Kinds[k] == 1 {
			plural = ""
		}
		parts = append(parts, fmt.Sprintf("%d %s%s", r.Kinds[k], k, plural))
	}
	return strings.Join(parts, ", ")
}

// clean is progress.Clean with a count by kind: what is missing of each after
// it.
func clean(s string) (string, Removal) {
	out, n := progress.Clean(s)
	if n == 0 {
		return out, Removal{}
	}
	r := Removal{Characters: n}
	before, after := census(s), census(out)
	for k, n := range before {
		r.count(k, n-after[k])
	}
	return out, r
}

// census counts the characters of a text by the kind they would be if they were
// removed.
func census(s string) map[Kind]int {
	n := map[Kind]int{}
	for _, r := range strings.ToValidUTF8(s, string(utf8.RuneError)) {
		n[kindOf(r)]++
	}
	return n
}

func kindOf(r rune) Kind {
	switch {
	case r < 0x80:
		// Printable characters go as part of a terminal sequence only.
		return KindControl
	case r >= 0xe0000 && r <= 0xe007f:
		return KindTag
	case unicode.Is(unicode.Variation_Selector, r):
		return KindVariation
	case r == '\u061c', r == '\u200e', r == '\u200f', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
		return KindBidi
	case r == '\u00ad', r == '\ufeff', r >= '\u200b' && r <= '\u200d', r >= '\u2060' && r <= '\u2064':
		return KindZeroWidth
	case unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point):
		return KindInvisible
	}
	return KindControl
}
