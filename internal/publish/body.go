package publish

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/org/ralph-action/internal/ghapp"
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

// escapedRE finds what Speak has escaped.
var escapedRE = strs.Lazy("\\\\([!-/:-@\\[-`{-~])")

// Notes gives the patterns and learnings that a description shows, as a list in which each
// is a line; "" where it shows none.
func Notes(body string) string {
	content := blockOf(body)
	var notes []string
	for _, title := range [...]string{titlePatterns, titleLearnings} {
		_, rest, _ := strings.Cut(content, "<summary>"+title+"</summary>")
		list, _, _ := strings.Cut(rest, "\n</details>\n")
		for line := range strings.Lines(list) {
			if text, ok := strings.CutPrefix(line, "- "); ok {
				text = escapedRE().ReplaceAllString(strings.ReplaceAll(text, zeroWidth, ""), "$1")
				notes = append(notes, "- "+strings.TrimSpace(text))
			}
		}
	}
	return strings.Join(notes, "\n")
}

// maxNoted is how many pull requests are read for notes.
const maxNoted = 5

// MergedNotes are what our own merged pull requests show of what was noted in their work,
// the newest first, by one call of GitHub.
func MergedNotes(ctx context.Context, repo *ghapp.Repo) (notes []string, err error) {
	merged, err := repo.MergedPRs(ctx)
	for _, pr := range merged {
		if text := Notes(pr.Body); text != "" && len(notes) < maxNoted {
			notes = append(notes, text)
		}
	}
	return notes, err
}

// saidRE is a line of what was said that leads to where it was, and became a task.
var saidRE = strs.Lazy("^\\| \\[(.*)\\]\\([^ )]*#(discussion_r|pullrequestreview-)([0-9]{1,18})\\) \\| (.*) \\| (T[0-9]{1,6}) \\| (.*) \\|$")

// commitRE is the link to a commit in such a line.
var commitRE = strs.Lazy(`/commit/([0-9a-f]{7,64})\)$`)

// SaidIn reads the list of what became a task of what people said, as a description shows
// it. A job of a workflow knows by it what earlier jobs have heard. Text of agents and
// issues begins no line with a bar, so that there is no other such list.
func SaidIn(body string) (said []Said) {
	_, list, ok := strings.Cut(blockOf(body), "\n"+saidHead+"\n")
	if !ok {
		return nil
	}
	for line := range strings.SplitSeq(list, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		m := saidRE().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		s := Said{By: uncode(m[4]), TaskID: m[5]}
		if m[1] != saidWhole {
			s.Where = uncode(m[1])
		}
		id, _ := strconv.ParseInt(m[3], 10, 64) // so many digits fit
		if m[2] == "discussion_r" {
			s.Comment = id
		} else {
			s.Review = id
		}
		if c := commitRE().FindStringSubmatch(m[6]); c != nil {
			s.OID = c[1]
		}
		said = append(said, s)
	}
	return said
}

// uncode undoes what cell and Code do, as far as that can be told.
func uncode(text string) string {
	text = strings.ReplaceAll(strings.Trim(text, "`"), `\|`, "|")
	if text == "–" {
		return ""
	}
	return text
}
