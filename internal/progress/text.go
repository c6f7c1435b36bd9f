package progress

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/strs"
)

// Caps on what the host writes into a document for others, in bytes.
const (
	maxTitle = 500
	maxLine  = 2000
	maxCell  = 300
)

// ansiRE finds terminal escape sequences: CSI, and OSC that ends on its line.
var ansiRE = strs.Lazy("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b\r\n]*(?:\x07|\x1b\\\\)")

// Clean removes what a person does not see and a model would read: control
// characters and terminal sequences, zero-width and bidirectional controls,
// tag characters, variation selectors and other invisible ones. Invalid UTF-8
// becomes U+FFFD, Unicode line separators become newlines. Joiners stay where
// a script or an emoji sequence needs them. It returns how many characters
// went.
func Clean(s string) (clean string, removed int) {
	if plainASCII(s) {
		return s, 0 // as most text is; looking up each character takes time
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	s = ansiRE().ReplaceAllStringFunc(s, func(seq string) string {
		removed += utf8.RuneCountInString(seq)
		return ""
	})
	var b strings.Builder
	b.Grow(len(s))
	prev := rune(0) // last character kept
	for i, r := range s {
		next, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
		switch {
		case r == '\u2028' || r == '\u2029' || r == '\u0085':
			r = '\n'
		case (r == zwj || r == zwnj) && joins(prev, r, next), (r == vs15 || r == vs16) && (picture(prev) || keycap(prev)):
		case hidden(r):
			removed++
			continue
		}
		b.WriteRune(r)
		prev = r
	}
	return b.String(), removed
}

// plainASCII says whether s holds nothing but ASCII that shows, and white space.
func plainASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' && c != '\r' || c >= 0x7f {
			return false
		}
	}
	return true
}

const (
	zwnj = '\u200c'
	zwj  = '\u200d'
	vs15 = '\ufe0e' // text presentation
	vs16 = '\ufe0f' // emoji presentation
)

// hidden says whether r shows nothing by itself.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return false
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7f
	case unicode.IsControl(r):
		return true
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false // Arabic number signs: format characters that show
	case r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe:
		return true // not characters at all
	}
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// joins says whether a joiner between prev and next means something: between
// letters of a script that uses it, or inside an emoji sequence.
func joins(prev, joiner, next rune) bool {
	if joiner == zwj && (picture(prev) || prev == vs16) && picture(next) {
		return true
	}
	joined := []*unicode.RangeTable{
		unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian, unicode.Devanagari, unicode.Bengali,
		unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
		unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar,
	}
	return unicode.In(prev, joined...) && !hidden(next) && (unicode.In(next, joined...) || unicode.IsSpace(next))
}

// picture says whether r can be part of an emoji sequence. The ranges cover
// Unicode's Extended_Pictographic, which the standard library lacks.
func picture(r rune) bool {
	switch {
	case r == 0xa9, r == 0xae, r >= 0x1f000 && r <= 0x1faff:
		return true
	case r >= 0x203c && r <= 0x3299:
		return unicode.In(r, unicode.So, unicode.Sm, unicode.Po, unicode.Pd)
	}
	return false
}

// keycap says whether r can carry an emoji presentation as a keycap does.
func keycap(r rune) bool { return r >= '0' && r <= '9' || r == '#' || r == '*' }

// inline makes s safe to stand behind a bullet, a check box or a label on one
// line of a document: no line break, nothing invisible, no HTML comment, and
// at the start nothing that Markdown takes for the begin of a block. It is cut
// to at most limit bytes. What is safe already stays as it is.
func inline(s string, limit int) string { return strs.Cut(escapeStart(uncommented(s)), limit) }

// behind is inline for a place behind a label, where no block can begin.
func behind(s string, limit int) string { return strs.Cut(uncommented(s), limit) }

// uncommented is s on one line, without what nobody sees and without comments.
func uncommented(s string) string { return strings.ReplaceAll(oneClean(s), "<!--", "&lt;!--") }

// escapeStart keeps a line from beginning a block.
func escapeStart(s string) string {
	if s == "" {
		return ""
	}
	n := markerLen(s)
	switch c := s[0]; {
	case c == '<':
		return "&lt;" + s[1:]
	case n > 1: // "1." or "1)"
		return s[:n-1] + `\` + s[n-1:]
	case n == 1, strings.IndexByte("#>[|=_", c) >= 0,
		strings.HasPrefix(s, "```"), strings.HasPrefix(s, "~~~"), strings.HasPrefix(s, "---"), strings.HasPrefix(s, "***"):
		return `\` + s
	}
	return s
}

// cell makes s safe for a cell of a table. The bar becomes an entity: a
// backslash before it could itself be escaped.
func cell(s string) string {
	return strings.ReplaceAll(inline(s, maxCell), "|", "&#124;")
}

// longestRun is the length of the longest run of c in s.
func longestRun(s string, c byte) int {
	longest, n := 0, 0
	for i := range len(s) {
		if s[i] != c {
			n = 0
			continue
		}
		n++
		longest = max(longest, n)
	}
	return longest
}
