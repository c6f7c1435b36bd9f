package progress

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxSize is the largest document read or written, in bytes. An agent can make
// its file any size; ours stay far below.
const MaxSize = 1 << 20

const (
	// maxMarkers and maxIndent bound how deep block quotes and lists nest.
	// The time goldmark takes grows with the square of the depth: a megabyte
	// of ">" alone keeps it busy for minutes.
	maxMarkers = 32
	maxIndent  = 256
	// tabWidth is the width of a tab stop in CommonMark.
	tabWidth = 4
)

// Errors of Parse. Each of them means "not a document we work with".
var (
	ErrTooLarge = errors.New("progress: document is too large")
	ErrEncoding = errors.New("progress: document is not plain UTF-8 text")
	ErrTooDeep  = errors.New("progress: document is nested too deeply")
)

// Check says what keeps src from being a document, and at which byte.
func Check(src []byte) (at int, err error) {
	if len(src) > MaxSize {
		return MaxSize, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(src), MaxSize)
	}
	if at = bytes.IndexByte(src, 0); at >= 0 {
		return at, ErrEncoding
	}
	if !utf8.Valid(src) {
		return invalid(src), ErrEncoding
	}
	for at = 0; at < len(src); at = lineEnd(src, at) {
		if tooDeep(src[at:]) {
			return at, ErrTooDeep
		}
	}
	return 0, nil
}

// invalid gives the first byte that is not UTF-8.
func invalid(src []byte) int {
	at := 0
	for at < len(src) {
		r, n := utf8.DecodeRune(src[at:])
		if r == utf8.RuneError && n <= 1 {
			break
		}
		at += n
	}
	return at
}

// tooDeep says whether the block quote and list markers that the first line of
// l starts with nest further than anybody writes by hand.
func tooDeep[T []byte | string](l T) bool {
	markers, col := 0, 0
	for i := 0; i < len(l); {
		switch c := l[i]; {
		case c == ' ':
			col++
			i++
		case c == '\t':
			col += tabWidth
			i++
		case c == '>':
			markers++
			col++
			i++
		default:
			n := markerLen(l[i:])
			if n == 0 {
				return false
			}
			markers++
			col += n
			i += n
		}
		if markers > maxMarkers || markers > 0 && col > maxIndent {
			return true
		}
	}
	return false
}

// markerLen is the length of the list marker at the start of s, or 0. A marker
// is followed by white space or the end of the line.
func markerLen[T []byte | string](s T) int {
	n := 0
	switch c := s[0]; {
	case c == '-' || c == '*' || c == '+':
		n = 1
	case c >= '0' && c <= '9':
		for n < len(s) && n < 10 && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		if n == len(s) || s[n] != '.' && s[n] != ')' {
			return 0
		}
		n++
	default:
		return 0
	}
	if n < len(s) && s[n] != ' ' && s[n] != '\t' && s[n] != '\n' && s[n] != '\r' {
		return 0
	}
	return n
}
