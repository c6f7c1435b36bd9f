package formats

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

var (
	portableRE = strs.Lazy(`(?i)^\*{0,2}(task[ \t]+\d+)(?::\*{0,2}|\*{0,2}:)[ \t]*`)
	specumRE   = strs.Lazy(`^\*{0,2}(\d+(?:\.\d+)+|V\d+|VF)\*{0,2}[:.]?(?:[ \t]+|$)`)
)

// markdownIDs are the formats in Markdown, with what the ids look like that their tasks have
// besides those of progress.md, nil where they have none. Which boxes are tasks, and what
// stands below them, is for progress.Doc to say.
var markdownIDs = map[Format]func() *regexp.Regexp{
	Progress: nil, Portable: portableRE, Specum: specumRE, Checklist: nil,
}

// readMarkdown takes over a document.
func (f *File) readMarkdown(src []byte) error {
	doc, err := progress.Parse(src)
	if err != nil {
		return &run.UserError{
			Message: f.name + " cannot be read: " + strings.TrimPrefix(err.Error(), "progress: "),
			Hint:    "write it as plain Markdown text, with lists nested less deeply", Err: err,
		}
	}
	f.setDoc(doc)
	return nil
}

func (f *File) setDoc(doc *progress.Doc) {
	f.doc = doc
	f.view = Plan{Title: title(doc), Status: doc.Status(), MarkedDone: doc.MarkedDone()}
	f.view.learn(doc)
	for _, t := range doc.Tasks() {
		task := Task{Task: t}
		if id := markdownIDs[f.format]; id != nil {
			task.ID = strs.OneLine(task.peel(id()))
		}
		progress.ReadTags(&task.Task)
		if at := originRE().FindStringSubmatch(task.Title); at != nil && isOrigin(at[1]) {
			task.Origin = task.peel(originRE())
		}
		f.view.Tasks = append(f.view.Tasks, task)
	}
}

// learn adds the patterns and learnings that a document lists.
func (p *Plan) learn(doc *progress.Doc) {
	p.Patterns = append(p.Patterns, bullets(doc.Section(progress.SectionPatterns))...)
	p.Learnings = append(p.Learnings, bullets(doc.Section(progress.SectionLearnings))...)
}

// title is the heading of the document without what the system puts before it.
func title(doc *progress.Doc) string {
	s := doc.Heading()
	for _, prefix := range []string{"Progress:", "Tasks:"} {
		if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
			return strings.TrimSpace(s[len(prefix):])
		}
	}
	return s
}

// edit makes changes to a copy of the document and takes it over.
func (f *File) edit(changes ...func(*progress.Doc) error) error {
	doc := f.doc.Clone()
	for _, change := range changes {
		if err := change(doc); err != nil {
			return fmt.Errorf("change %s: %w", f.name, err)
		}
	}
	f.setDoc(doc)
	return nil
}

// markDone sets the status of a file whose system waits for it, once all of its
// tasks are done.
func (f *File) markDone() error {
	if f.format != Progress && f.format != Portable || !f.view.Done() || f.view.MarkedDone {
		return nil
	}
	return f.edit(func(d *progress.Doc) error { return d.SetStatus(progress.StatusDone) })
}

// Unread is what looks like work in a file in Markdown and is not read as such.
func (f *File) Unread() []progress.Unread {
	if f.doc == nil {
		return nil
	}
	return f.doc.Unread()
}

// Unworked is the text of f as it would be if nothing of it had been worked, so that a plan
// which a run ticks is still the same plan.
func (f *File) Unworked() string {
	if f.doc == nil {
		return f.Text() // which says nothing of that
	}
	doc := f.doc.Clone()
	var open []progress.Mark
	for i := range f.view.Tasks {
		open = append(open, progress.Mark{Task: i, Status: run.TaskOpen})
	}
	err := doc.Mark(open...)
	if err == nil && f.format != Checklist && f.view.Status != "" {
		err = doc.SetStatus(progress.StatusInProgress)
	}
	if err != nil {
		return f.Text()
	}
	return string(doc.Bytes())
}
