package formats

import (
	"bytes"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/strs"
)

// txtLog is snarktank/ralph's progress.txt: what holds everywhere under
// "## Codebase Patterns" at the top, then entries, each ended by a rule of
// dashes. Entries are only ever added.
type txtLog struct{ src []byte }

const (
	logTitle     = "# Ralph Progress Log"
	logPatterns  = "## Codebase Patterns"
	logLearnings = "**Learnings for future iterations:**"
	logRule      = "---"
	logTime      = "2006-01-02 15:04"
)

func parseLog(src []byte) *txtLog { return &txtLog{src: bytes.Clone(src)} }

// newLog is the file as ralph.sh begins it.
func newLog(when time.Time) *txtLog {
	return &txtLog{src: []byte(logTitle + "\nStarted: " + when.Format(time.UnixDate) + "\n" + logRule + "\n")}
}

func (l *txtLog) bytes() []byte { return l.src }

var (
	learningsRE = strs.Lazy(`(?i)^[-*+]?\s*[*_]*learnings for future iterations[*_]*:`)
	bulletRE    = strs.Lazy(`^([ \t]*)[-*+][ \t]+(\S.*)$`)
)

func (l *txtLog) patterns() []string {
	var out []string
	in := false
	for line := range strings.Lines(string(l.src)) {
		switch line = strings.TrimRight(line, " \t\r\n"); {
		case strings.HasPrefix(line, "#"):
			in = strings.EqualFold(line, logPatterns)
		case line == logRule:
			in = false
		case in:
			if m := bulletRE().FindStringSubmatch(line); m != nil {
				out = append(out, plainText(oneLine(m[2], maxText)))
			}
		}
	}
	return out
}

// learnings are the bullets below a line that announces them, up to a line
// that is indented no further.
func (l *txtLog) learnings() []string {
	var out []string
	depth := -1
	for line := range strings.Lines(string(l.src)) {
		line = strings.TrimRight(line, " \t\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		in := len(line) - len(strings.TrimLeft(line, " \t"))
		switch {
		case learningsRE().MatchString(strings.TrimSpace(line)):
			depth = in
		case in <= depth:
			depth = -1
		case depth >= 0:
			if m := bulletRE().FindStringSubmatch(line); m != nil {
				out = append(out, plainText(oneLine(m[2], maxText)))
			}
		}
	}
	return out
}

// report is what is noted of tasks that were done at one time. Files and what was
// learned are told with the last of them.
type report struct {
	when           time.Time
	tasks          []Task
	files, learned []string
}

// maxFiles bounds the paths that an entry names.
const maxFiles = 20

// addStories adds an entry for each task, as snarktank/ralph asks its agents
// for, unless the same is there already. What was learned does not tell: the
// second time it is known.
func (l *txtLog) addStories(s report) error {
	var fresh strings.Builder
	for i, t := range s.tasks {
		about := []string{"Implemented: " + oneLine(t.Title, maxText)}
		var learned []string
		if i == len(s.tasks)-1 {
			learned = s.learned
			if n := len(s.files); n > 0 {
				names := make([]string, 0, maxFiles)
				for _, f := range s.files[:min(n, maxFiles)] {
					names = append(names, oneLine(f, maxText))
				}
				about = append(about, "Files changed: "+strings.Join(names, ", "))
			}
		}
		head := oneLine(nameOf(t), maxText)
		begun := strings.TrimSuffix(l.entry(s.when, head, about, nil), logRule+eol(l.src))
		if !bytes.Contains(l.src, []byte(begun)) {
			fresh.WriteString(l.entry(s.when, head, about, learned))
		}
	}
	return l.add(fresh.String())
}

// entry is one entry of the log; all but head is for one line each.
func (l *txtLog) entry(when time.Time, head string, about, learned []string) string {
	nl := eol(l.src)
	var b strings.Builder
	b.WriteString("## " + when.Format(logTime) + " - " + head + nl)
	for _, line := range about {
		b.WriteString("- " + line + nl)
	}
	if len(learned) > 0 {
		b.WriteString("- " + logLearnings + nl + "  - " + strings.Join(learned, nl+"  - ") + nl)
	}
	return b.String() + logRule + nl
}

// add puts text at the end.
func (l *txtLog) add(text string) error {
	if text == "" {
		return nil
	}
	return l.replace(append(bytes.Clone(l.src), l.line(len(l.src), eol(l.src), text)...))
}

// addPatterns puts lines at the end of the patterns; the section, where it is
// missing, goes below the head of the file.
func (l *txtLog) addPatterns(texts []string) error {
	nl := eol(l.src)
	text := "- " + strings.Join(texts, nl+"- ") + nl
	at, head, found := 0, 0, false
	pos, top := 0, true
	for line := range bytes.Lines(l.src) {
		s := strings.TrimRight(string(line), " \t\r\n")
		isHead := strings.HasPrefix(s, "#")
		if found && (isHead || s == logRule) {
			break
		}
		top = top && (pos > 0 || strings.HasPrefix(s, "# ")) && s != "" && s != logRule && !strings.HasPrefix(s, "## ")
		pos += len(line)
		switch {
		case strings.EqualFold(s, logPatterns):
			found, at = true, pos
		case found && s != "":
			at = pos
		case top:
			head = pos
		}
	}
	if found {
		return l.replace(splice(l.src, at, at, l.line(at, nl, text)))
	}
	section := logPatterns + nl + text
	if head > 0 {
		section = nl + section
	}
	if rest := l.src[head:]; len(rest) > 0 && rest[0] != '\n' && rest[0] != '\r' {
		section += nl
	}
	return l.replace(splice(l.src, head, head, l.line(head, nl, section)))
}

// line puts a line break before text where the byte before at is none.
func (l *txtLog) line(at int, nl, text string) string {
	if at > 0 && l.src[at-1] != '\n' {
		return nl + text
	}
	return text
}

func (l *txtLog) replace(src []byte) error {
	if err := admit(PRD.Companion(), src); err != nil {
		return err
	}
	l.src = src
	return nil
}
