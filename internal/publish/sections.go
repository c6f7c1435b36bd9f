package publish

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/strs"
)

// Limits of one point of a section, in bytes, and of a line of code, in characters.
const (
	maxPoint    = 1000
	maxCodeLine = 200
)

// folds shows what else progress.md says.
func (r *renderer) folds() string {
	if !r.d.folds {
		return ""
	}
	return fold(progress.SectionAnalysis, r.mirror(r.v.Analysis)) + fold(progress.SectionTesting, r.mirror(r.v.Testing)) +
		fold(progress.SectionPatterns, r.mirror(r.v.Patterns)) + fold(progress.SectionLearnings, r.mirror(r.v.Learnings)) +
		fold(progress.SectionLog, r.log())
}

// fold is a block that opens, "" for one without content.
func fold(title, content string) string {
	if content == "" {
		return ""
	}
	return fmt.Sprintf("\n<details>\n<summary>%s</summary>\n\n%s\n\n</details>\n", title, content)
}

// bulletRE finds the marker of a list item.
var bulletRE = strs.Lazy(`^(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+|$)`)

// mirror is a section of progress.md line by line, of at most about maxSection bytes: of its Markdown its lists stay,
// and its other lines become one.
func (r *renderer) mirror(text string) string {
	text, _ = progress.Clean(text)
	if r.v.Mask != nil {
		text = r.v.Mask(text) // before the lines go: a private key has some
	}
	var s section
	fence, begins := false, true // whether the next line begins a point
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		marker := bulletRE().FindString(line)
		heading := strings.HasPrefix(line, "#")
		switch {
		case strings.HasPrefix(line, "```"), strings.HasPrefix(line, "~~~"):
			fence, begins = !fence, true
			continue
		case fence:
			line, begins = code(r.v.Mask, line, maxCodeLine), true
		default:
			begins = begins || marker != "" || heading
			line = r.speak(strings.TrimLeft(line[len(marker):], "# "), maxPoint)
		}
		switch {
		case line == "": // an empty item would make a heading of the line above
		case s.size()+len(line) > maxSection:
			s.line("- …")
			return strings.TrimSuffix(s.text(), "\n")
		case begins:
			s.line("- %s", line)
		default:
			s.line("  %s", line)
		}
		begins = line == "" || heading || fence
	}
	return strings.TrimSuffix(s.text(), "\n")
}

// log shows the Iteration Log; the newest rows where not all fit.
func (r *renderer) log() string {
	var s section
	for _, row := range r.v.Log[max(len(r.v.Log)-maxLog, 0):] {
		line := fmt.Sprintf("- Iteration %d", row.Iteration)
		if row.Duration > 0 {
			line += fmt.Sprintf(" (%s)", row.Duration.Round(time.Second))
		}
		if done := r.speak(row.Completed, maxReason); done != "" {
			line += " completed " + done
		}
		if notes := r.speak(row.Notes, maxReason); notes != "" {
			line += ": " + notes
		}
		s.line("%s", line)
	}
	return strings.TrimSuffix(s.text(), "\n")
}

// escapedRE finds what Speak has escaped.
var escapedRE = strs.Lazy("\\\\([!-/:-@\\[-`{-~])")

// Notes gives the patterns and learnings that a description shows, as a list in which each
// is a line; "" where it shows none.
func Notes(body string) string {
	content := blockOf(body)
	var notes []string
	for _, title := range [...]string{progress.SectionPatterns, progress.SectionLearnings} {
		_, rest, _ := strings.Cut(content, "<summary>"+title+"</summary>")
		list, _, _ := strings.Cut(rest, "\n</details>\n")
		for line := range strings.Lines(list) {
			text := escapedRE().ReplaceAllString(strings.ReplaceAll(strings.TrimPrefix(line, "- "), zeroWidth, ""), "$1")
			if text = strings.TrimSpace(text); text != "" {
				notes = append(notes, "- "+text)
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
