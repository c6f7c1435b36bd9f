package formats

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/strs"
)

// txtLog is snarktank/ralph's progress.txt: what holds everywhere under
// "## Codebase Patterns" at the top, then entries, each ended by a rule of
// dashes. Entries are only ever added.
type txtLog []byte

const (
	logTitle     = "# Ralph Progress Log"
	logPatterns  = "## Codebase Patterns"
	logLearnings = "**Learnings for future iterations:**"
	logRule      = "---"
	logTime      = "2006-01-02 15:04"
)

// newLog is the file as ralph.sh begins it.
func newLog(when time.Time) txtLog {
	return txtLog(logTitle + "\nStarted: " + when.Format(time.UnixDate) + "\n" + logRule + "\n")
}

var learningsRE = strs.Lazy(`(?i)^[-*+]?\s*[*_]*learnings for future iterations[*_]*:`)

// section is where the lines of the patterns stand; start is -1 where they have no section.
func (l txtLog) section() (start, end int) {
	start = -1
	at := 0
	for line := range bytes.Lines(l) {
		next := at + len(line)
		s := strings.TrimRight(string(line), " \t\r\n")
		switch {
		case start < 0 && strings.EqualFold(s, logPatterns):
			start, end = next, next
		case start >= 0 && (strings.HasPrefix(s, "#") || s == logRule):
			return start, end
		case start >= 0 && s != "":
			end = next
		}
		at = next
	}
	return start, end
}

func (l txtLog) patterns() []string {
	start, end := l.section()
	if start < 0 {
		return nil
	}
	return bullets(string(l[start:end]))
}

// learnings are the bullets below a line that announces them, up to a line
// that is indented no further.
func (l txtLog) learnings() []string {
	var out []string
	depth := -1
	for line := range strings.Lines(string(l)) {
		line = strings.TrimRight(line, " \t\r\n")
		text := strings.TrimLeft(line, " \t")
		if text == "" {
			continue
		}
		in := len(line) - len(text)
		switch {
		case learningsRE().MatchString(text):
			depth = in
		case in <= depth:
			depth = -1
		case depth >= 0:
			out = append(out, bullets(line)...)
		}
	}
	return out
}

// report is what is noted of tasks that were done at one time. Files and what was
// learned are told with the last of them.
type report struct {
	when                     time.Time
	tasks                    []Task
	files, patterns, learned []string
}

// maxFiles bounds the paths that an entry names.
const maxFiles = 20

// add writes down patterns, and an entry for each task, as snarktank/ralph asks its agents
// for, unless the same is there already. What was learned does not tell: the
// second time it is known.
func (l txtLog) add(s report) txtLog {
	nl := "\n"
	if i := bytes.IndexByte(l, '\n'); i > 0 && l[i-1] == '\r' {
		nl = "\r\n"
	}
	start, end := l.section()
	text := ""
	for _, p := range s.patterns {
		text += "- " + p + nl
	}
	if start < 0 && text != "" {
		text, end = logPatterns+nl+text+nl, 0
	}
	if end > 0 && l[end-1] != '\n' {
		text = nl + text
	}
	if len(s.patterns) > 0 {
		l = slices.Concat(l[:end], txtLog(text), l[end:])
	}
	for i, t := range s.tasks {
		entry := "## " + s.when.Format(logTime) + " - " + oneLine(nameOf(t)) + nl +
			"- Implemented: " + oneLine(t.Title) + nl
		last := i == len(s.tasks)-1
		if last && len(s.files) > 0 {
			var names []string
			for _, f := range s.files[:min(len(s.files), maxFiles)] {
				names = append(names, oneLine(f))
			}
			entry += "- Files changed: " + strings.Join(names, ", ") + nl
		}
		if bytes.Contains(l, []byte(entry)) {
			continue
		}
		if last && len(s.learned) > 0 {
			entry += "- " + logLearnings + nl + "  - " + strings.Join(s.learned, nl+"  - ") + nl
		}
		if len(l) > 0 && l[len(l)-1] != '\n' {
			entry = nl + entry
		}
		l = slices.Concat(l, txtLog(entry+logRule+nl))
	}
	return l
}
