package agent

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/strs"
)

const (
	maxActivityText = 400      // characters
	maxFinalText    = 64 << 10 // bytes
)

// escapes are terminal control sequences: CSI, and OSC with its end.
var escapes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)")

// clean takes out what could steer a terminal or hide text: escape sequences,
// control characters except newline and tab, bidirectional overrides, and bytes
// that are not UTF-8.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexByte(s, 0x1b) >= 0 {
		s = escapes.ReplaceAllString(s, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1
		default:
			return r
		}
	}, s)
}

// oneLine is clean text on one line, at most maxActivityText characters.
func oneLine(s string) string {
	// Four bytes a character at most, and escape sequences on top: the rest of a
	// megabyte need not be looked at.
	if len(s) > 16*maxActivityText {
		s = s[:16*maxActivityText]
	}
	s = strs.OneLine(clean(s))
	n := 0
	for i := range s {
		if n == maxActivityText-1 && utf8.RuneCountInString(s[i:]) > 1 {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// tail is clean text, of which the last maxFinalText bytes are kept.
func tail(s string) string {
	if len(s) > 2*maxFinalText {
		s = s[len(s)-2*maxFinalText:]
	}
	s = clean(s)
	if len(s) > maxFinalText {
		s = s[len(s)-maxFinalText:]
		for s != "" && !utf8.RuneStart(s[0]) {
			s = s[1:]
		}
	}
	return s
}
