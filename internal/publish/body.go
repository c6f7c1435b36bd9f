package publish

import (
	"errors"
	"strings"
	"unicode/utf16"

	"github.com/org/ralph-action/internal/strs"
)

// maxDescription is what GitHub takes as a description, with a little to spare, in UTF-16
// units, of which there are never more than bytes of UTF-8.
const maxDescription = 65_500

// ErrNoRoom: people's text leaves no room for ours.
var ErrNoRoom = errors.New("publish: the description is full")

// The markers around our part of a description. They count only in a pull request of our
// own; text from an agent or an issue cannot contain one, for Speak shows "<" as what it is.
const (
	blockBegin = "<!-- ralph:begin -->"
	blockEnd   = "<!-- ralph:end -->"
)

var markerRE = strs.Lazy(`<!-- ralph:(?:begin|end) -->`)

// Body puts the state into an existing description, in the place of what stands between the
// markers or else at the end. What people wrote outside is kept to the byte. It fails with
// ErrNoRoom where that leaves no room.
func Body(existing string, v View) (string, error) {
	before, after := existing, ""
	if from, to, ok := findBlock(existing); ok {
		before, after = existing[:from], existing[to:]
	} else if existing != "" {
		before = strings.TrimRight(existing, "\n") + "\n\n"
	}
	begin, end := blockBegin+"\n", blockEnd
	room := maxDescription - units(before) - units(after) - len(begin) - len(end)
	text := describe(v, max(room, 0))
	if units(text) > room {
		return "", ErrNoRoom
	}
	return before + begin + text + end + after, nil
}

// units is the length of s in UTF-16, which is what GitHub counts.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// findBlock finds the first begin marker that is directly followed by an end marker. Without
// one, what is left of our text is the person's now.
func findBlock(body string) (from, to int, ok bool) {
	marks := markerRE().FindAllStringIndex(body, -1)
	for i := 1; i < len(marks); i++ {
		a, b := marks[i-1], marks[i]
		if body[a[0]:a[1]] == blockBegin && body[b[0]:b[1]] == blockEnd {
			return a[0], b[1], true
		}
	}
	return 0, 0, false
}

// blockOf is our part of a description, with line ends as we write them: GitHub's editor
// makes each CRLF.
func blockOf(body string) string {
	from, to, ok := findBlock(body)
	if !ok {
		return ""
	}
	return strings.ReplaceAll(body[from+len(blockBegin):to-len(blockEnd)], "\r\n", "\n")
}

// boxRE finds the box of a task. Text of an agent or an issue begins no line with one.
var boxRE = strs.Lazy(`(?m)^- \[([ xX])\] (T[0-9]{1,6}) `)

// Ticks are the boxes that people ticked or emptied between two states of a description, by
// the id of the task.
func Ticks(was, now string) map[string]bool {
	if was == now {
		return nil
	}
	boxes := func(body string) map[string]bool {
		out := map[string]bool{}
		for _, m := range boxRE().FindAllStringSubmatch(blockOf(body), -1) {
			out[m[2]] = m[1] != " "
		}
		return out
	}
	before, ticks := boxes(was), map[string]bool{}
	for id, ticked := range boxes(now) {
		if was, shown := before[id]; shown && was != ticked {
			ticks[id] = ticked
		}
	}
	return ticks
}
