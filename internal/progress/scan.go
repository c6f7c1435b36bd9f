package progress

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/strs"
)

// maxIDDigits bounds the number of a task, so that it always fits an int.
const maxIDDigits = 6

// isBox says whether s starts with a check box: GitHub wants one blank or x
// between the brackets and white space after them.
func isBox[T []byte | string](s T) bool {
	if len(s) < 3 || s[0] != '[' || s[2] != ']' {
		return false
	}
	switch s[1] {
	case ' ', '\t', 'x', 'X':
		return len(s) == 3 || isBlank(s[3])
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isBlank says whether c is white space as far as lists are concerned.
func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// idLen is the length of the task id that s starts with, or 0: a T and up to
// six digits.
func idLen(s string) int {
	if s == "" || s[0] != 'T' {
		return 0
	}
	n := 1
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	if n == 1 || n > 1+maxIDDigits {
		return 0
	}
	return n
}

// canonicalID is an id without leading zeros.
func canonicalID(id string) string {
	if id[1] != '0' {
		return id
	}
	n, _ := strconv.Atoi(id[1:]) // at most six digits
	return "T" + strconv.Itoa(n)
}

func emphasis(s string) bool { return strings.HasPrefix(s, "**") || strings.HasPrefix(s, "__") }

// maxLabel bounds the name of a label; "acceptance criteria" is the longest.
const maxLabel = 24

// label splits "Accept: text", "**Accept:** text" and "**Accept**: text".
func label(s string) (name, rest string, ok bool) {
	if emphasis(s) {
		s = s[len("**"):]
	}
	i := strings.IndexByte(s[:min(len(s), maxLabel+1)], ':')
	if i <= 0 {
		return "", "", false
	}
	name, rest = s[:i], s[i+1:]
	if n := len(name) - len("**"); n > 0 && emphasis(name[n:]) {
		name = name[:n]
	} else if emphasis(rest) {
		rest = rest[len("**"):]
	}
	return name, strings.TrimLeft(rest, " \t\r\n"), true
}

func anyFold(s string, names ...string) bool {
	for _, n := range names {
		if len(s) == len(n) && strings.EqualFold(s, n) {
			return true
		}
	}
	return false
}

// span is a stretch of the source.
type span struct{ start, stop int }

// leadingIDs finds the ids that s begins with, in a row with commas, "and" and
// the like between them.
func leadingIDs(s string) []span {
	var out []span
	for i := 0; ; {
		for i < len(s) && (isBlank(s[i]) || strings.IndexByte(",;&+", s[i]) >= 0) {
			i++
		}
		if len(out) > 0 && len(s) >= i+4 && strings.EqualFold(s[i:i+3], "and") && isBlank(s[i+3]) {
			i += len("and ")
			continue
		}
		n := idLen(s[i:])
		if n == 0 || i+n < len(s) && isWord(s[i+n:]) || i+n+1 < len(s) && s[i+n] == '.' && isDigit(s[i+n+1]) {
			return out // T1.3 is an id of somebody's own, and not T1
		}
		out = append(out, span{i, i + n})
		i += n
	}
}

// isWord says whether s starts with what would make a word longer.
func isWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// fold makes the name of a section comparable: lower case, one space between
// words, no emphasis, emoji, numbering or colon around it.
func fold(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
	return strings.ToLower(strs.OneLine(s))
}

// lineStart is the start of the line that pos is in.
func lineStart(src []byte, pos int) int { return bytes.LastIndexByte(src[:pos], '\n') + 1 }

// lineEnd is the start of the line after the one pos is in.
func lineEnd(src []byte, pos int) int {
	if i := bytes.IndexByte(src[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(src)
}

// indent counts the blanks at the start of the line that pos is in.
func indent(src []byte, pos int) int {
	rest := src[lineStart(src, pos):]
	return len(rest) - len(bytes.TrimLeft(rest, " \t"))
}

// trimSpan narrows src[start:stop] to what is not white space at its ends.
func trimSpan[T []byte | string](src T, start, stop int) (int, int) {
	for stop > start && isBlank(src[stop-1]) {
		stop--
	}
	for start < stop && isBlank(src[start]) {
		start++
	}
	return start, stop
}
