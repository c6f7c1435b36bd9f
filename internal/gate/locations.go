package gate

import (
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"unicode"

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
	locations = []func() *regexp.Regexp{
		// Go, gcc, clang, eslint's unix format, pytest, and tsc where it is pretty:
		// "a/b.go:3:2: …", "a.py:3: …", "a.ts:3:2 - …".
		strs.Lazy(`^(?:vet: )?` + locPath + `:(\d{1,7})(?::(\d{1,7}))?(?::| -)\s+(\S.*)$`),
		// tsc and MSBuild: "a.ts(3,2): …".
		strs.Lazy(`^` + locPath + `\((\d{1,7})(?:,(\d{1,7}))?\)\s*:\s+(\S.*)$`),
		// rustc and vitest, which name the place below the message.
		strs.Lazy(`^\s*(?:-->|❯)\s+` + locPath + `:(\d{1,7})(?::(\d{1,7}))?()\s*$`),
	}
	locMessage = strs.Lazy(`^\s*((?:error|warning)(?:\[\w+\])?: \S.*|\w*(?:Error|Exception): \S.*)$`)
)

// Locations reads the places that the output of a check names, each once, in
// its order. Lines that are indented are not places: Go's tests, say, name a
// file there without its directory. What a place says is the tool's word: the
// file may be missing, or shorter.
func Locations(output string) []Location {
	var out []Location
	seen := make(map[Location]bool)
	message := ""
	for _, line := range logLines(output) {
		if m := locMessage().FindStringSubmatch(line); m != nil {
			message = m[1]
		}
		for _, form := range locations {
			m := form().FindStringSubmatch(line)
			if m == nil {
				continue
			}
			if m[4] == "" {
				m[4] = message
			}
			at := Location{Message: oneLine(m[4], maxLocText)}
			at.Path = strings.TrimPrefix(strings.TrimPrefix(m[1], containerDir), "./")
			at.Line, _ = strconv.Atoi(m[2])
			at.Column, _ = strconv.Atoi(m[3]) // 0 where there is none
			if at.Line > 0 && at.Message != "" && plainPath(at.Path) && !seen[at] && len(out) < maxLocations {
				seen[at] = true
				out = append(out, at)
			}
			break
		}
	}
	return out
}

// plainPath says whether a path is within the work tree, as git writes it.
func plainPath(p string) bool {
	return len(p) <= maxLocPath && fs.ValidPath(p) && strings.ContainsFunc(p, unicode.IsLetter) &&
		!strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) })
}

// oneLine keeps at most limit bytes of a text, in whole characters that can be seen.
func oneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(cut(s, limit))
}
