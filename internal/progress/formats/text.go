package formats

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/strs"
)

// Caps on one line of text that is written, in bytes.
const (
	maxID   = 40
	maxText = 2000
)

// bom is the byte order mark some editors put first.
const bom = "\ufeff"

// oneLine makes s a single line of what a person can see, of at most limit
// bytes.
func oneLine(s string, limit int) string {
	s, _ = progress.Clean(s)
	return strs.Cut(strings.ReplaceAll(strs.OneLine(s), "<!--", "&lt;!--"), limit)
}

var blockStartRE = strs.Lazy("^(?:#{1,6}(?:[ \t]|$)|[-+*>](?:[ \t]|$)|>|\\d{1,9}[.)](?:[ \t]|$)|`{3}|~{3}|-{3}|\\*{3}|_{3}|\\[[ xX]\\]|<)")

// bulletText is oneLine for a place directly behind a bullet, where the first
// characters could begin a heading, a list or a check box.
func bulletText(s string) string {
	s = oneLine(s, maxText)
	if m := blockStartRE().FindString(s); m != "" {
		if c := m[0]; c >= '0' && c <= '9' {
			n := len(strings.TrimRight(m, " \t")) - 1
			return s[:n] + `\` + s[n:]
		}
		return `\` + s
	}
	return s
}

// plainText takes back what bulletText did.
func plainText(s string) string {
	if rest, ok := strings.CutPrefix(s, `\`); ok && blockStartRE().MatchString(rest) {
		return rest
	}
	if i := strings.IndexByte(s, '\\'); i > 0 && i < 10 && blockStartRE().MatchString(s[:i]+s[i+1:]) {
		return s[:i] + s[i+1:]
	}
	return s
}

// fold makes the name of a section comparable.
func fold(s string) string {
	return strings.ToLower(strs.OneLine(strings.Trim(s, "#*_:` \t\r\n")))
}

// badByte is the place of the first NUL or invalid UTF-8 byte, or -1.
func badByte(src []byte) int {
	if utf8.Valid(src) {
		return bytes.IndexByte(src, 0)
	}
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == 0 || r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// position gives line and column of a byte, both from 1; columns count
// characters.
func position(src []byte, at int) (line, column int) {
	at = min(at, len(src))
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	return 1 + bytes.Count(src[:at], []byte("\n")), 1 + utf8.RuneCount(bytes.TrimPrefix(src[start:at], []byte(bom)))
}

// eol is the line ending of src, judged by its first line.
func eol(src []byte) string {
	if i := bytes.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// splice is src with src[start:stop] replaced.
func splice(src []byte, start, stop int, text string) []byte {
	return slices.Concat(src[:start], []byte(text), src[stop:])
}

// lines splits text into lines that are not blank, each as oneLine makes it.
func lines(s string) []string {
	var out []string
	for l := range strings.Lines(s) {
		if l = oneLine(l, maxText); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// box is a check box.
func box(done bool) string {
	if done {
		return "[x]"
	}
	return "[ ]"
}

// reasonText makes a reason fit for the inside of parentheses.
func reasonText(s string) string {
	const limit = 300
	if s = oneLine(s, limit); s == "" {
		s = "no reason given"
	}
	return strings.NewReplacer("(", "[", ")", "]").Replace(s)
}

// bullets makes texts fit for one bullet each, and leaves out empty ones.
func bullets(texts []string) []string {
	var out []string
	for _, s := range texts {
		if s = bulletText(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
