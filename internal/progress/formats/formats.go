package formats

import (
	"errors"
	"fmt"
	"path"
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
	// FixPlan is frankbria/ralph-claude-code's fix_plan.md.
	FixPlan Format = "fix-plan"
	// Ralphex is a plan of ralphex: a task is a heading, its boxes are steps.
	Ralphex Format = "ralphex"
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
func (t Task) Key() string {
	if t.Origin != "" {
		return t.Origin
	}
	return t.ID
}

var (
	ownRE    = strs.Lazy(`^T[1-9]\d{0,5}$`)
	originRE = strs.Lazy(`^\[([A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,38}[A-Za-z0-9])?)\][ \t]+`)
)

// isOrigin says whether s can stand in brackets before a title and be told from a marker
// there: it holds a digit.
func isOrigin(s string) bool {
	return strings.ContainsAny(s, "0123456789") && originRE().MatchString("["+s+"] ")
}

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
		if r.Priority = min(r.Priority, maxPriority); r.Status == run.TaskInProgress {
			r.Status = run.TaskOpen
		}
		if r.Status != run.TaskBlocked && r.Status != run.TaskSkipped {
			r.Reason = ""
		}
		out = append(out, r)
	}
	return out
}

// maxPriority is the last priority that a task of a run can have.
const maxPriority = 9

// Counts of a plan's tasks by status. Open includes those in progress.
type Counts struct{ Total, Done, Open, Blocked, Skipped int }

// Counts counts the tasks.
func (p *Plan) Counts() Counts {
	c := Counts{Total: len(p.Tasks)}
	for _, t := range p.Tasks {
		switch t.Status {
		case run.TaskDone:
			c.Done++
		case run.TaskBlocked:
			c.Blocked++
		case run.TaskSkipped:
			c.Skipped++
		case run.TaskOpen, run.TaskInProgress, run.TaskInReview:
			c.Open++
		}
	}
	return c
}

// Done says whether there are tasks and each of them is done or skipped.
func (p *Plan) Done() bool {
	c := p.Counts()
	return c.Total > 0 && c.Done+c.Skipped == c.Total
}

// source is a task file of one kind.
type source interface {
	bytes() []byte
	plan() Plan
	// text is what an agent reads of it.
	text() string
	// apply makes changes, all or none.
	apply(changes []progress.Mark) error
}

// File is a task file that was read, with its companion if it has one. It is
// not safe for concurrent use.
type File struct {
	name   string
	format Format
	src    source
	// notes is the companion: nil where the format has none or it was not
	// attached.
	notes []byte
}

// Parse reads src as a file of that format; name is used in messages. What
// cannot be worked with is a *run.UserError that says where and what to do.
func Parse(format Format, name string, src []byte) (*File, error) {
	f := &File{name: name, format: format}
	var err error
	switch format {
	case PRD:
		f.src, err = parsePRD(name, src)
	case Progress, Portable, Specum, FixPlan, Ralphex, Checklist:
		f.src, err = parseMarkdown(format, name, src)
	default:
		err = fmt.Errorf("formats: %q is not a format", format)
	}
	if err != nil {
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
func (f *File) Bytes() []byte { return slices.Clone(f.src.bytes()) }

// Text is what an agent reads of the file: the file itself, or a prd.json in words.
func (f *File) Text() string { return f.src.text() }

// Unread is what looks like work in a file in Markdown and is not read as such.
func (f *File) Unread() []progress.Unread {
	if m, ok := f.src.(*markdown); ok {
		return m.doc.Unread()
	}
	return nil
}

// Files are the task file and its companion as they are now, by their names in
// one directory.
func (f *File) Files() map[string][]byte {
	files := map[string][]byte{path.Base(f.name): f.Bytes()}
	if f.notes != nil {
		files[f.format.Companion()] = slices.Clone(f.notes)
	}
	return files
}

// Plan is the view of f as it is now.
func (f *File) Plan() Plan {
	p := f.src.plan()
	switch f.format {
	case PRD:
		log := txtLog(f.notes)
		p.Patterns, p.Learnings = log.patterns(), log.learnings()
	case Specum:
		if doc, err := progress.Parse(f.notes); err == nil {
			p.Patterns = append(p.Patterns, bullets(doc.Section(progress.SectionPatterns))...)
			p.Learnings = append(p.Learnings, bullets(doc.Section(progress.SectionLearnings))...)
		}
	case Progress, Portable, FixPlan, Ralphex, Checklist:
	}
	return p
}

// ErrNoTask: the file has no such task.
var ErrNoTask = errors.New("formats: no such task")

// Apply makes many changes, at most one a task, by the places in Plan.Tasks, and reads the file once. On
// error nothing is changed. An index without a task is ErrNoTask.
func (f *File) Apply(changes ...progress.Mark) error {
	n, seen := len(f.src.plan().Tasks), make(map[int]bool, len(changes))
	for _, c := range changes {
		switch {
		case c.Task < 0 || c.Task >= n:
			return fmt.Errorf("%w: number %d of %d", ErrNoTask, c.Task+1, n)
		case seen[c.Task]:
			return errors.New("formats: two changes of one task")
		}
		seen[c.Task] = true
	}
	if len(changes) == 0 {
		return nil
	}
	return f.src.apply(changes)
}

// errDone is the answer to marking a task that is done.
func errDone(t Task) error {
	return &run.UserError{Message: fmt.Sprintf("%q is done", t.Title), Hint: "untick it first"}
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
