package publish

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/strs"
)

// Limits of one point of a section, in bytes, and of a line of code, in characters.
const (
	maxPoint    = 1000
	maxCodeLine = 200
)

// What opens to what was noted. Notes finds it by that.
const (
	titlePatterns  = "Codebase patterns"
	titleLearnings = "Learnings"
)

// folds shows what else progress.md says.
func (r *renderer) folds() string {
	if !r.d.folds {
		return ""
	}
	return r.fold("Analysis", r.v.Analysis) + r.fold("Testing strategy", r.v.Testing) +
		r.fold(titlePatterns, r.v.Patterns) + r.fold(titleLearnings, r.v.Learnings) + r.log()
}

// fold shows a section of progress.md as a block that opens: a list of its points,
// of at most about maxSection bytes. It is "" where there are none.
func (r *renderer) fold(title, text string) string {
	var lines []string
	size := 0
	for _, point := range r.points(text) {
		if size += len(point) + len("- \n"); size > maxSection {
			lines = append(lines, "- …")
			break
		}
		lines = append(lines, "- "+point)
	}
	return foldOf(title, strings.Join(lines, "\n"))
}

// foldOf is a block that opens, "" for one without content.
func foldOf(title, content string) string {
	if content == "" {
		return ""
	}
	return fmt.Sprintf("\n<details>\n<summary>%s</summary>\n\n%s\n\n</details>\n", title, content)
}

// bulletRE finds the marker of a list item.
var bulletRE = strs.Lazy(`^(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+|$)`)

// points gives the bullets, paragraphs, headings and lines of code of a section,
// each on a line of its own, and nothing else of its Markdown.
func (r *renderer) points(text string) (points []string) {
	text, _ = progress.Clean(text)
	if r.v.Mask != nil {
		text = r.v.Mask(text) // before the lines go: a private key has some
	}
	var open []string // lines of the point that is being read
	end := func() {
		if point := r.speak(strings.Join(open, " "), maxPoint); point != "" {
			points = append(points, point)
		}
		open = nil
	}
	fence := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		marker := bulletRE().FindString(line)
		heading := strings.TrimLeft(line, "#")
		switch {
		case strings.HasPrefix(line, "```"), strings.HasPrefix(line, "~~~"):
			end()
			fence = !fence
		case fence:
			if span := code(r.v.Mask, line, maxCodeLine); span != "" {
				points = append(points, span)
			}
		case heading != line:
			end()
			open = []string{strings.TrimSpace(heading)}
			end()
		case line == "", marker != "", line[0] == '|':
			end()
			open = append(open, line[len(marker):])
		default:
			open = append(open, line)
		}
	}
	end()
	return points
}

// log shows the Iteration Log; the newest rows where not all fit.
func (r *renderer) log() string {
	rows := r.v.Log
	hidden := max(len(rows)-maxLog, 0)
	if len(rows) == 0 {
		return ""
	}
	var s section
	if hidden > 0 {
		s.line("The %d newest of %d:\n", len(rows)-hidden, len(rows))
	}
	s.add("| Iteration | Started | Took | Completed | Notes |\n|:--|:--|:--|:--|:--|")
	for _, row := range rows[hidden:] {
		started, took := "–", "–"
		if !row.Started.IsZero() {
			started = row.Started.UTC().Format("2006-01-02 15:04:05")
		}
		if row.Duration > 0 {
			took = row.Duration.Round(time.Second).String()
		}
		s.add(fmt.Sprintf("\n| %d | %s | %s | %s | %s |", row.Iteration, started, took,
			cmp.Or(cell(r.speak(row.Completed, maxReason)), "–"), cell(r.speak(row.Notes, maxReason))))
	}
	return foldOf("Iteration log", s.text())
}
