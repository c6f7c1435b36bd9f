package claim

import (
	"strings"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// A line is one line of a message that is the agent's own words.
type line struct {
	text string // without list marker, heading marks and surrounding space
	kind lineKind
	box  byte // of a list item with a check box: ' ' or 'x'; 0 for none
	// loose says that the line stands behind a code fence that nobody closed. It
	// may be code, so that it never claims that the task is done.
	loose bool
	at    int // its number in the message
}

type lineKind int

const (
	blank lineKind = iota // also stands for code, quotes and comments left out
	plain
	item
	heading
	row // of a table
)

// message is what is read of an agent's last message.
type message struct {
	lines []line
	raw   []string // every line, trimmed, code and quotes included
	// promise are the words that the agent was asked to claim its task with, "" for none.
	promise string
}

var (
	listMarker  = strs.Lazy(`^(?:[-*+•–]|\d{1,3}[.)])[ \t]+`)
	checkBox    = strs.Lazy(`^\[([ xX])\][ \t]+`)
	headingMark = strs.Lazy(`^#{1,6}[ \t]+`)
	tableRule   = strs.Lazy(`^\|?[ \t:|-]*-{2,}[ \t:|-]*$`)
	comment     = strs.Lazy(`(?s)<!--.*?(?:-->|$)`)
)

// parse splits the end of a message into lines and leaves out what is not the
// agent's own words: code blocks, quotes and comments.
func parse(final string) message {
	before, end := cut(final)
	fences := fenced(before, run.Printable(end))
	var m message
	inComment, inCode, inList := false, false, false
	for i, f := range fences {
		m.raw = append(m.raw, strings.TrimSpace(f.text))
		text := f.text
		text, inComment = uncomment(text, inComment)
		trimmed := strings.TrimSpace(text)
		indented := strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "    ")
		l := line{at: i, loose: f.loose}
		switch {
		case f.code || trimmed == "" || strings.HasPrefix(trimmed, ">"):
			inCode = inCode && trimmed == ""
			m.lines = append(m.lines, l)
			continue
		case indented && !inList && !listMarker().MatchString(trimmed) && (inCode || i == 0 || m.lines[i-1].kind == blank):
			inCode = true
			m.lines = append(m.lines, l)
			continue
		}
		inCode = false
		l.read(trimmed)
		inList = l.kind == item || inList && indented
		m.lines = append(m.lines, l)
	}
	return m
}

// read takes the line's markup apart.
func (l *line) read(text string) {
	l.kind = plain
	switch mark := listMarker().FindString(text); {
	case mark != "":
		l.kind, text = item, text[len(mark):]
		if box := checkBox().FindStringSubmatch(text); box != nil {
			l.box, text = strings.ToLower(box[1])[0], text[len(box[0]):]
		}
	case headingMark().MatchString(text):
		l.kind, text = heading, strings.TrimRight(headingMark().ReplaceAllString(text, ""), "# ")
	case tableRule().MatchString(text):
		l.kind, text = blank, ""
	case strings.HasPrefix(text, "|"):
		l.kind, text = row, cells(text)
	}
	l.text = strings.TrimSpace(text)
}

// cells writes a row of a table as a sentence: "Tests: 3 failed".
func cells(text string) string {
	var parts []string
	for cell := range strings.SplitSeq(strings.Trim(text, "| \t"), "|") {
		parts = append(parts, strings.TrimSpace(cell))
	}
	return strings.Join(parts, ": ")
}

// cut takes a message apart into what is read, its end, and what comes before.
func cut(final string) (before, end string) {
	at := len(final) - maxMessage
	if at <= 0 {
		return "", final
	}
	if eol := strings.IndexByte(final[at:], '\n'); eol >= 0 {
		at += eol + 1
	}
	for at < len(final) && !utf8.RuneStart(final[at]) {
		at++
	}
	return final[:at], final[at:]
}

type fencedLine struct {
	text        string
	code, loose bool
}

// fenced splits the end of a message into lines and marks those of fenced code
// blocks, fences included. A fence that nobody closes is taken for a slip: what
// stands behind it is read, but loose.
func fenced(before, end string) []fencedLine {
	open := ""
	for l := range strings.Lines(before) {
		open, _ = fence(open, strings.TrimSpace(l))
	}
	var out []fencedLine
	opened := 0
	for l := range strings.Lines(end) {
		was := open
		isCode := false
		open, isCode = fence(open, strings.TrimSpace(l))
		if was == "" && open != "" {
			opened = len(out)
		}
		out = append(out, fencedLine{text: strings.TrimRight(l, "\r\n"), code: isCode})
	}
	if open == "" {
		return out
	}
	for i := opened; i < len(out); i++ {
		out[i].code, out[i].loose = fenceMark(strings.TrimSpace(out[i].text)) == open, true
	}
	return out
}

// fence says which fence is open behind a line, given the one before it, and
// whether the line is code or a fence.
func fence(open, text string) (still string, code bool) {
	mark := fenceMark(text)
	switch {
	case open == "" && mark != "" && !strings.Contains(text[len(mark):], "`"):
		return mark, true
	case open != "" && mark == text && mark != "" && mark[0] == open[0] && len(mark) >= len(open):
		return "", true
	}
	return open, open != ""
}

// fenceMark is the run of backticks or tildes that a line begins with, if it is
// long enough for a fence.
func fenceMark(text string) string {
	if text == "" || text[0] != '`' && text[0] != '~' {
		return ""
	}
	mark := text[:len(text)-len(strings.TrimLeft(text, text[:1]))]
	if len(mark) < 3 {
		return ""
	}
	return mark
}

// uncomment takes HTML comments out of a line; in says whether the line begins
// within one.
func uncomment(text string, in bool) (out string, still bool) {
	if in {
		_, rest, closed := strings.Cut(text, "-->")
		if !closed {
			return "", true
		}
		text = rest
	}
	still = strings.LastIndex(text, "<!--") > strings.LastIndex(text, "-->")
	return comment().ReplaceAllString(text, ""), still
}
