package formats

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Format names the way a task file is written.
type Format string

// The formats. Their names are those of the command line.
const (
	// Progress is our own progress.md, and rslph's.
	Progress Format = "progress"
	// PRD is snarktank/ralph's prd.json, with progress.txt beside it.
	PRD Format = "prd"
	// Portable is portableralph's NAME_PROGRESS.md.
	Portable Format = "portableralph"
	// Specum is smart-ralph's tasks.md, with .progress.md beside it.
	Specum Format = "smart-ralph"
	// Checklist is any text with check boxes, such as an issue.
	Checklist Format = "checklist"
)

// Foreign says whether f is read by rules that a plain plan file is not.
func (f Format) Foreign() bool { return f != "" && f != Progress && f != Checklist }

// Companion is the name of the file that keeps what was learned where the tasks
// are in another, or "".
func (f Format) Companion() string {
	return map[Format]string{PRD: "progress.txt", Specum: ".progress.md"}[f]
}

// Plan is what every format has in common.
type Plan struct {
	Title string
	// Branch is the git branch the plan is worked on, or "".
	Branch string
	// Status is the word of the Status section, or "".
	Status string
	// MarkedDone: the file carries the completion marker of its system.
	MarkedDone bool
	// Tasks are in the order in which they are to be worked, but for what
	// their priorities say.
	Tasks []Task
	// Patterns and Learnings are what earlier iterations wrote down.
	Patterns  []string
	Learnings []string
}

// Task is a task of a file. The ID is the one it has there, as "US-001" or "1.2", and ""
// where it has none.
type Task struct {
	run.Task
	// Origin is the id that a task of our own progress.md has in the file it came from.
	Origin string
}

// Key is the id of a task in the file that it came from: Origin, else ID.
func (t *Task) Key() string { return cmp.Or(t.Origin, t.ID) }

var (
	ownRE    = strs.Lazy(`^T[1-9]\d{0,5}$`)
	originRE = strs.Lazy(`^\[([A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,38}[A-Za-z0-9])?)\][ \t]+`)
)

// isOrigin says whether s can stand in brackets before a title and be told from a marker
// there: it holds a digit.
func isOrigin(s string) bool {
	return strings.ContainsAny(s, "0123456789") && originRE().MatchString("["+s+"] ")
}

// peel takes off the front of a title what an expression finds there, and gives its first
// group. A title is never left empty.
func (t *Task) peel(re *regexp.Regexp) string {
	at := re.FindStringSubmatchIndex(t.Title)
	if at == nil || at[1] == len(t.Title) {
		return ""
	}
	word := t.Title[at[2]:at[3]]
	t.Title = t.Title[at[1]:]
	return word
}

// maxPriority is the last priority that a task of a run can have.
const maxPriority = 9

// RunTasks are the tasks as a run has them: the id that one has in its file stands in
// brackets before the title.
func (p *Plan) RunTasks() []run.Task {
	var out []run.Task
	for _, t := range p.Tasks {
		r := t.Task
		r.ID = ""
		switch key := t.Key(); {
		case ownRE().MatchString(key):
			r.ID = key
		case isOrigin(key):
			r.Title = "[" + key + "] " + r.Title
		}
		r.Priority = min(r.Priority, maxPriority)
		if r.Status != run.TaskBlocked && r.Status != run.TaskSkipped {
			r.Reason = ""
		}
		out = append(out, r)
	}
	return out
}

// Counts is how many of a plan's tasks there are of each status.
func (p *Plan) Counts() map[run.TaskStatus]int {
	c := make(map[run.TaskStatus]int)
	for _, t := range p.Tasks {
		c[t.Status]++
	}
	return c
}

// Done says whether there are tasks and each of them is done or skipped.
func (p *Plan) Done() bool {
	c := p.Counts()
	return len(p.Tasks) > 0 && c[run.TaskDone]+c[run.TaskSkipped] == len(p.Tasks)
}

// File is a task file that was read, with its companion if it has one. It is
// not safe for concurrent use.
type File struct {
	name   string
	format Format
	doc    *progress.Doc // of a file in Markdown
	prd    *prd          // of any other
	view   Plan
	// notes is the companion: nil where the format has none or it was not
	// attached.
	notes []byte
}

// Parse reads src as a file of that format; name is used in messages. What
// cannot be worked with is a *run.UserError that says where and what to do.
func Parse(format Format, name string, src []byte) (*File, error) {
	f := &File{name: name, format: format}
	read := f.readMarkdown
	if format == PRD {
		read = f.readPRD
	} else if _, known := markdownIDs[format]; !known {
		return nil, fmt.Errorf("formats: %q is not a format", format)
	}
	if err := admit(name, src); err != nil {
		return nil, err
	}
	if err := read(src); err != nil {
		return nil, err
	}
	return f, nil
}

// Attach gives f the content of its companion. A format without one ignores
// it.
func (f *File) Attach(src []byte) error {
	if f.format.Companion() == "" {
		return nil
	}
	f.notes = slices.Clone(src)
	return admit(f.format.Companion(), src)
}

// Name is the name f was read under.
func (f *File) Name() string { return f.name }

// Format is how f is written.
func (f *File) Format() Format { return f.format }

// Bytes is the task file as it is now.
func (f *File) Bytes() []byte {
	if f.doc != nil {
		return f.doc.Bytes()
	}
	return slices.Clone(f.prd.src)
}

// Notes is the companion as it is now, nil for none.
func (f *File) Notes() []byte { return f.notes }

// Text is what an agent reads of the file: the file itself, or a prd.json in words.
func (f *File) Text() string {
	if f.doc != nil {
		return string(f.doc.Bytes())
	}
	return f.prd.text(f.view)
}

// Plan is the view of f as it is now.
func (f *File) Plan() Plan {
	p := f.view
	p.Tasks = slices.Clone(p.Tasks)
	if f.format == PRD {
		if start, end := patterns(f.notes); start >= 0 {
			p.Patterns = bullets(string(f.notes[start:end]))
		}
		p.Learnings = learnings(f.notes)
	} else if doc, err := progress.Parse(f.notes); err == nil {
		p.learn(doc)
	}
	return p
}

// ErrNoTask: the file has no such task.
var ErrNoTask = errors.New("formats: no such task")

// Apply makes many changes, at most one a task, by the places in Plan.Tasks, and reads the file once. On
// error nothing is changed. An index without a task is ErrNoTask.
func (f *File) Apply(changes ...progress.Mark) error {
	n, seen := len(f.view.Tasks), make(map[int]bool, len(changes))
	for _, c := range changes {
		switch {
		case c.Task < 0 || c.Task >= n:
			return fmt.Errorf("%w: number %d of %d", ErrNoTask, c.Task+1, n)
		case seen[c.Task]:
			return errors.New("formats: two changes of one task")
		case (c.Status == run.TaskBlocked || c.Status == run.TaskSkipped) && f.view.Tasks[c.Task].Status == run.TaskDone:
			return &run.UserError{Message: fmt.Sprintf("%q is done", f.view.Tasks[c.Task].Title), Hint: "untick it first"}
		}
		seen[c.Task] = true
	}
	switch {
	case len(changes) == 0:
		return nil
	case f.doc != nil:
		return f.edit(func(d *progress.Doc) error { return d.Mark(changes...) })
	}
	src, err := f.prd.apply(changes, f.view.Tasks)
	if err != nil {
		return err
	}
	return f.readPRD(src)
}
