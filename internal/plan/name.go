package plan

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
)

// generic are the short names of files that every project calls the same: the
// folder they lie in says what they are about.
var generic = []string{
	"fix-plan", "implementation-plan", "plan", "prd", "progress", "prompt", "spec", "task", "tasks", "todo",
}

// FileSlug is the short name of a plan file, by its path below the top of the
// repository: that of the file, or of its folder where the file has a name that
// says nothing, such as specs/login/tasks.md. A hidden folder says nothing
// either.
func FileSlug(name string) string {
	base := path.Base(name)
	slug := Slug(strings.TrimSuffix(base, path.Ext(base)))
	folder := path.Base(path.Dir(name))
	if !slices.Contains(generic, slug) || strings.HasPrefix(folder, ".") || folder == "/" {
		return slug
	}
	return Slug(folder)
}

// slugWords is how many of its first words name a plan that has no file.
const slugWords = 6

// TextSlug is the short name of a plan that was given in words.
func TextSlug(text string) string {
	words := strings.Fields(strings.ReplaceAll(text, "/", " "))
	return Slug(strings.Join(words[:min(len(words), slugWords)], " "))
}

// FromText makes a plan of the words of a person. It fails as FromFile does.
func FromText(text string) (Plan, error) {
	text, removed := progress.Clean(text)
	p := Plan{Text: strings.TrimSpace(text), Removed: removed}
	if p.Text == "" {
		return Plan{}, ErrEmpty
	}
	doc, err := progress.Parse([]byte(p.Text))
	if err != nil {
		return Plan{}, unreadable("The plan", err)
	}
	p.Title = firstLine(p.Text)
	p.fill(doc)
	return p, nil
}

// FromPrompt makes a plan of one prompt that is given to every call: it is one task, and
// its boxes are none. promise is how its end is claimed; the same text with another is
// another plan. It fails as FromFile does.
func FromPrompt(text, promise string) (Plan, error) {
	p, err := FromText(text)
	if err != nil {
		return Plan{}, err
	}
	p.Tasks = []run.Task{{ID: "T1", Title: p.Title, Status: run.TaskOpen}}
	p.Accept, p.Findings, p.Unread = nil, nil, 0
	p.SHA256 = sum(p.Title, p.Text+"\x00"+promise)
	return p, nil
}

// FromProgress makes a plan of the progress file of a run whose plan is gone:
// its tasks are in that file already, and sum is the hash of what they were made
// of.
func FromProgress(doc *progress.Doc, sum string) Plan {
	return Plan{Title: cmp.Or(doc.Title(), "(untitled)"), SHA256: sum}
}

// Companion is the name of the file that keeps what was learned beside a plan
// file of that name and content, or "". Beside a plain plan NAME.md it is the
// NAME_PROGRESS.md of portableralph, which also has the tasks.
func Companion(name string, src []byte) string {
	format, _ := formats.Detect(name, src)
	switch base := path.Base(name); {
	case format.Foreign():
		return format.Companion()
	case format != formats.Progress && stem(base) != base:
		return stem(base) + progressSuffix
	}
	return ""
}

// progressSuffix ends the name of the file that portableralph keeps the tasks of a
// plan in.
const progressSuffix = "_PROGRESS.md"

// KeepsTasks says whether the companion of that name holds the tasks of its plan, and
// not only what was learned.
func KeepsTasks(companion string) bool { return strings.HasSuffix(companion, progressSuffix) }

// attach takes the tasks and notes of a plan's NAME_PROGRESS.md. The plan is
// still the same one: its hash is not changed.
func (p *Plan) attach(name string, notes []byte) error {
	f, err := formats.Parse(formats.Portable, name, notes)
	if err != nil {
		return err
	}
	v := f.Plan()
	if len(v.Tasks) > 0 {
		p.Tasks = v.RunTasks()
	}
	p.append("Codebase Patterns", v.Patterns)
	p.append("Learnings", v.Learnings)
	return nil
}
