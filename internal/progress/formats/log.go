package formats

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/strs"
)

// snarktank/ralph's progress.txt has what holds everywhere under "## Codebase Patterns" at
// the top, then entries, each ended by a rule of dashes. Entries are only ever added.
const (
	logPatterns  = "## Codebase Patterns"
	logLearnings = "**Learnings for future iterations:**"
	logRule      = "---"
	logTime      = "2006-01-02 15:04"
)

// newLog is the file as ralph.sh begins it.
func newLog(when time.Time) []byte {
	return []byte("# Ralph Progress Log\nStarted: " + when.Format(time.UnixDate) + "\n" + logRule + "\n")
}

var learningsRE = strs.Lazy(`(?i)^[-*+]?\s*[*_]*learnings for future iterations[*_]*:`)

// learnings are the bullets below a line that announces them, up to a line
// that is indented no further.
func learnings(log []byte) (out []string) {
	depth := -1
	for line := range strings.Lines(string(log)) {
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

// patterns is where the lines of the patterns stand; start is -1 where they have no section.
func patterns(log []byte) (start, end int) {
	start = -1
	at := 0
	for line := range bytes.Lines(log) {
		at += len(line)
		s := strings.TrimRight(string(line), " \t\r\n")
		switch {
		case start < 0 && strings.EqualFold(s, logPatterns):
			start, end = at, at
		case start >= 0 && (strings.HasPrefix(s, "#") || s == logRule):
			return start, end
		case start >= 0 && s != "":
			end = at
		}
	}
	return start, end
}

// addPatterns puts lines at the end of the patterns, which come first in a log without any.
func addPatterns(log []byte, lines []string, nl string) []byte {
	if len(lines) == 0 {
		return log
	}
	text := "- " + strings.Join(lines, nl+"- ") + nl
	start, end := patterns(log)
	switch {
	case start < 0:
		text = logPatterns + nl + text + nl
	case log[end-1] != '\n':
		text = nl + text
	}
	return slices.Concat(log[:end], []byte(text), log[end:])
}

// maxFiles bounds the paths that an entry names.
const maxFiles = 20

// addEntries writes down each task that was done, as snarktank/ralph asks its agents to, unless
// the same is there already. Files and what was learned are told with the last of them; what was
// learned does not tell: the second time it is known.
func addEntries(log []byte, tasks []Task, w Work, learned []string, nl string) []byte {
	for i, t := range tasks {
		entry := "## " + w.When.Format(logTime) + " - " + oneLine(nameOf(t)) + nl + "- Implemented: " + oneLine(t.Title) + nl
		last := i == len(tasks)-1
		if last && len(w.Files) > 0 {
			var names []string
			for _, f := range w.Files[:min(len(w.Files), maxFiles)] {
				names = append(names, oneLine(f))
			}
			entry += "- Files changed: " + strings.Join(names, ", ") + nl
		}
		if bytes.Contains(log, []byte(entry)) {
			continue
		}
		if last && len(learned) > 0 {
			entry += "- " + logLearnings + nl + "  - " + strings.Join(learned, nl+"  - ") + nl
		}
		if len(log) > 0 && log[len(log)-1] != '\n' {
			entry = nl + entry
		}
		log = slices.Concat(log, []byte(entry+logRule+nl))
	}
	return log
}
