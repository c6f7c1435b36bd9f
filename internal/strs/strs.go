// Package strs makes text fit for one line of a message, counts nouns, and compiles regular
// expressions when they are first used.
//
// Its job: be the one copy of what nearly every package needs. It is pure and
// knows nothing of ours, so that any package may use it.
package strs

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// OneLine is s with one space for each run of white space, and none at its ends.
func OneLine(s string) string {
	if single(s) {
		return s
	}
	return strings.Join(strings.Fields(s), " ")
}

// single says whether OneLine leaves s as it is.
func single(s string) bool {
	blank := true // at the start a space is one too many
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ' ':
			if blank {
				return false
			}
			blank = true
			continue
		case c >= '\t' && c <= '\r':
			return false
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			if unicode.IsSpace(r) {
				return false
			}
			i += n - 1
		}
		blank = false
	}
	return s == "" || !blank
}

// Cut is s, or its start and an ellipsis in at most limit bytes, never the half
// of a character.
func Cut(s string, limit int) string {
	const more = "…"
	if len(s) <= limit {
		return s
	}
	end := limit - len(more)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}

// Count is n of what noun names: "1 task", "2 tasks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Lazy is a regular expression that is compiled when it is first used. The same
// program is the shim of every agent and check, which needs none of them and
// must come up fast.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
