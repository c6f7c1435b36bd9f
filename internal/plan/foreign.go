package plan

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// fromForeign makes a plan of a task file of another system: its tasks, with their ids there
// in brackets before the titles. The text is the file itself where that is Markdown, else
// what it says in words, with what was learned below.
func fromForeign(format formats.Format, name string, src, notes []byte) (Plan, error) {
	f, err := formats.Parse(format, name, src)
	if err != nil {
		return Plan{}, err
	}
	v := f.Plan()
	if len(v.Tasks) == 0 {
		return Plan{}, &run.UserError{
			Message: name + " has no tasks", Hint: "add tasks to it, or describe what to do in a Markdown file",
		}
	}
	text, removed := progress.Clean(f.Text())
	p := Plan{
		Title: cmp.Or(strs.OneLine(v.Title), strs.OneLine(stem(name))), Text: withoutBlankEnds(text),
		Tasks: v.RunTasks(), Removed: removed, Branch: v.Branch,
	}
	p.look(f.Unread())
	doc, err := progress.Parse([]byte(p.Text))
	if err != nil {
		return Plan{}, unreadable(fmt.Sprintf("The plan file %q", path.Base(name)), err)
	}
	p.NoCommit = doc.HasLine(noCommit)
	p.SHA256 = sum(p.Title, f.Unworked())
	if err := f.Attach(notes); err != nil {
		return Plan{}, err
	}
	all := f.Plan()
	p.append("Codebase Patterns", all.Patterns[len(v.Patterns):])
	p.append("Learnings", all.Learnings[len(v.Learnings):])
	return p, nil
}

// maxNotes bounds a section of what was learned elsewhere, in bytes: every
// prompt holds it.
const maxNotes = 8 << 10

// append puts a section at the end of the text: as many of the last lines as fit.
func (p *Plan) append(section string, lines []string) {
	from, size := len(lines), 0
	for from > 0 && size+len("\n- ")+len(lines[from-1]) <= maxNotes {
		from--
		size += len("\n- ") + len(lines[from])
	}
	if from == len(lines) {
		return
	}
	text, removed := progress.Clean("\n\n## " + section + "\n- " + strings.Join(lines[from:], "\n- "))
	p.Text += text
	p.Removed += removed
}
