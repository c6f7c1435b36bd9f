package plan

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
)

// fromForeign makes a plan of a task file of another system: its tasks are
// those of the check list it converts to, with their ids there in brackets
// before the titles. The text is the file itself where that is Markdown, else
// the check list.
func fromForeign(format formats.Format, name string, src []byte) (Plan, error) {
	f, err := formats.Parse(format, name, src)
	if err != nil {
		return Plan{}, err
	}
	files, _, err := formats.Convert(f, formats.Checklist, time.Time{})
	if err != nil {
		return Plan{}, err
	}
	v := f.Plan()
	if len(v.Tasks) == 0 {
		return Plan{}, &run.UserError{Message: name + " has no tasks", Hint: "write them into it, or describe what is to be done in a Markdown file"}
	}
	p := Plan{Title: oneLine(v.Title)}
	for _, list := range files { // one: a check list has no companion
		doc, err := progress.Parse(list)
		if err != nil {
			return Plan{}, fmt.Errorf("read the tasks of %s: %w", name, err)
		}
		p.Tasks = doc.Tasks()
		if format == formats.PRD {
			src = list
		}
	}
	text, removed := clean(string(src))
	p.Text, p.Removed, p.Kinds = strings.TrimSpace(text), removed.Characters, removed.Kinds
	if p.Title == "" {
		p.Title = oneLine(stem(name))
	}
	doc, err := progress.Parse([]byte(p.Text))
	if err != nil {
		return Plan{}, unreadable(fmt.Sprintf("The plan file %q", path.Base(name)), err)
	}
	p.NoCommit = doc.HasLine(noCommit)
	p.SHA256 = sum(p.Title, p.Text)
	return p, nil
}
