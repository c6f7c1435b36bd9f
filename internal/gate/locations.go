package gate

import (
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/strs"
)

// Location is a place in a file that a check complains about.
type Location struct {
	// Path is plain and relative to the work tree: no "..", no link is followed.
	// Whether there is such a file is not known.
	Path string
	// Line counts from 1, and so does Column, which is 0 where none is told.
	Line, Column int
	// Message is one line, as the tool has put it.
	Message string
}

const (
	// maxLocations bounds what one output may bring.
	maxLocations = 200
	maxLocPath   = 400
	maxLocText   = 500
	// containerDir is where containers have the work tree: some tools name files
	// by their whole path.
	containerDir = "/workspace/"
	locPath      = `([^\s:()"'<>|*?` + "`" + `\\]+)`
)

var (
	// Go, gcc, clang, eslint's unix format, pytest, and tsc where it is pretty:
	// "a/b.go:3:2: …", "a.py:3: …", "a.ts:3:2 - …".
	locColon = strs.Lazy(`^(?:vet: )?` + locPath + `:(\d{1,7})(?::(\d{1,7}))?(?::| -)\s+(\S.*)$`)
	// tsc and MSBuild: "a.ts(3,2): …".
	locParen = strs.Lazy(`^` + locPath + `\((\d{1,7})(?:,(\d{1,7}))?\)\s*:\s+(\S.*)$`)
	// rustc and vitest, which name the place below the message.
	locArrow = strs.Lazy(`^\s*(?:-->|❯)\s+` + locPath + `:(\d{1,7})(?::(\d{1,7}))?\s*$`)
	locSaid  = strs.Lazy(`^\s*((?:error|warning)(?:\[\w+\])?: \S.*|\w*(?:Error|Exception): \S.*)$`)
)

// Locations reads the places that the output of a check names, each once, in
// its order. Lines that are indented are not places: Go's tests, say, name a
// file there without its directory. What a place says is the tool's word: the
// file may be missing, or shorter.
func Locations(output string) []Location {
	var out []Location
	seen := make(map[Location]bool)
	said := ""
	for line := range strings.Lines(output) {
		if len(line) > maxLine {
			line = line[:maxLine]
		}
		line = strings.TrimRight(plain(strings.TrimRight(line, "\r\n")), " \t\r")
		if m := locSaid().FindStringSubmatch(line); m != nil {
			said = m[1]
		}
		at, ok := location(line, said)
		if !ok || seen[at] {
			continue
		}
		seen[at] = true
		if out = append(out, at); len(out) == maxLocations {
			break
		}
	}
	return out
}

// location is the place that one line names; said is the last message above it.
func location(line, said string) (Location, bool) {
	var m []string
	for _, form := range []func() *regexp.Regexp{locColon, locParen} {
		if m = form().FindStringSubmatch(line); m != nil {
			break
		}
	}
	if m == nil {
		if m = locArrow().FindStringSubmatch(line); m != nil {
			m = append(m, said)
		}
	}
	if m == nil {
		return Location{}, false
	}
	at := Location{Message: cutText(strings.TrimSpace(m[4]), maxLocText)}
	var err error
	if at.Line, err = strconv.Atoi(m[2]); err != nil || at.Line < 1 {
		return Location{}, false
	}
	if m[3] != "" {
		if at.Column, err = strconv.Atoi(m[3]); err != nil {
			return Location{}, false
		}
	}
	file, ok := plainPath(m[1])
	at.Path = file
	return at, ok && at.Message != ""
}

// plainPath is a path within the work tree, as git writes it.
func plainPath(p string) (string, bool) {
	p = strings.TrimPrefix(strings.TrimPrefix(p, containerDir), "./")
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(p) > maxLocPath || !fs.ValidPath(p) || strings.ContainsFunc(p, odd) ||
		!strings.ContainsFunc(p, unicode.IsLetter) {
		return "", false
	}
	return p, true
}

// cutText keeps at most limit bytes of a text, in whole characters that can be
// seen.
func cutText(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return strings.TrimSpace(s)
}
