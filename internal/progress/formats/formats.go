package formats

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// Format names the way a task file is written.
type Format string

// The formats. Their names are those of the command line.
const (
	// Progress is our own progress.md.
	Progress Format = "progress"
	// PRD is snarktank/ralph's prd.json, with progress.txt beside it.
	PRD Format = "prd"
	// Portable is portableralph's NAME_PROGRESS.md.
	Portable Format = "portableralph"
	// Rslph is rslph's progress.md.
	Rslph Format = "rslph"
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
	switch f {
	case PRD:
		return "progress.txt"
	case Specum:
		return ".progress.md"
	case Progress, Portable, Rslph, FixPlan, Ralphex, Checklist:
	}
	return ""
}

// Plan is what every format has in common.
type Plan struct {
	Title string
	// Description is prose about the whole, a paragraph or bullet a line.
	Description []string
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

// Task is a task with what other systems say about it. The ID is the one it
// has in its file, as "US-001" or "1.2", and "" where it has none. Check boxes
// below a task are acceptance criteria; where a task is nothing but its boxes
// and some are ticked, it is in progress.
type Task struct {
	run.Task
	// Origin is the id the task has in the file it was converted from.
	Origin string
	// Details are labelled lines about the task that are no criteria.
	Details []Detail
}

// Detail is what is said about one aspect of a task, such as "Files".
type Detail struct {
	Label string
	Lines []string
}

// Key is the id that a task keeps across conversions: Origin, else ID.
func (t Task) Key() string {
	if t.Origin != "" {
		return t.Origin
	}
	return t.ID
}

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

// source is a task file of one kind: its bytes, the view of them, and the
// edits in place. Tasks go by their index in the plan.
type source interface {
	bytes() []byte
	plan() Plan
	// edits are the replacements that make one change; none where nothing
	// is to be changed.
	edits(c StatusChange) ([]patch, error)
	// replace takes over new bytes, if they read as a file of this kind.
	replace(src []byte) error
}

// StatusChange asks for a new status of a task of a plan.
type StatusChange struct {
	// Task is the index in Plan.Tasks.
	Task int
	// Status is TaskOpen, TaskDone, TaskBlocked or TaskSkipped.
	Status run.TaskStatus
	// Reason says why a task is blocked or skipped.
	Reason string
}

// patch replaces src[start:stop] by text.
type patch struct {
	start, stop int
	text        string
}

// File is a task file that was read, with its companion if it has one. It is
// not safe for concurrent use.
type File struct {
	name   string
	format Format
	src    source
	// notes is the companion: nil where the format has none or it was not
	// attached.
	notes notebook
}

// notebook is a companion file.
type notebook interface {
	bytes() []byte
	patterns() []string
	learnings() []string
}

// Parse reads src as a file of that format; name is used in messages. What
// cannot be worked with is a *run.UserError that says where and what to do.
func Parse(format Format, name string, src []byte) (*File, error) {
	f := &File{name: name, format: format}
	if err := admit(name, src); err != nil {
		return nil, err
	}
	var err error
	switch format {
	case PRD:
		f.src, err = parsePRD(name, src)
	case Progress, Portable, Rslph, Specum, FixPlan, Ralphex, Checklist:
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
	name := f.format.Companion()
	if name == "" {
		return nil
	}
	if err := admit(name, src); err != nil {
		return err
	}
	var err error
	if f.format == PRD {
		f.notes = parseLog(src)
	} else {
		f.notes, err = parseNotes(name, src)
	}
	return err
}

// Name is the name f was read under.
func (f *File) Name() string { return f.name }

// Format is how f is written.
func (f *File) Format() Format { return f.format }

// Bytes is the task file as it is now.
func (f *File) Bytes() []byte { return slices.Clone(f.src.bytes()) }

// Files are the task file and its companion as they are now, by their names in
// one directory.
func (f *File) Files() map[string][]byte {
	files := map[string][]byte{path.Base(f.name): f.Bytes()}
	if f.notes != nil {
		files[f.format.Companion()] = slices.Clone(f.notes.bytes())
	}
	return files
}

// Plan is the view of f as it is now.
func (f *File) Plan() Plan {
	p := f.src.plan()
	if f.notes != nil {
		p.Patterns = append(p.Patterns, f.notes.patterns()...)
		p.Learnings = append(p.Learnings, f.notes.learnings()...)
	}
	return p
}

// ErrNoTask: the file has no such task.
var ErrNoTask = errors.New("formats: no such task")

// Apply makes many changes, at most one a task, and reads the file once. On
// error nothing is changed. An index without a task is ErrNoTask.
func (f *File) Apply(changes ...StatusChange) error {
	var patches []patch
	for _, c := range changes {
		p, err := f.src.edits(c)
		if err != nil {
			return err
		}
		patches = append(patches, p...)
	}
	if len(patches) == 0 {
		return nil
	}
	slices.SortFunc(patches, func(a, b patch) int { return a.start - b.start })
	src := f.src.bytes()
	var out []byte
	at := 0
	for _, p := range patches {
		if p.start < at {
			return errors.New("formats: two changes of one task")
		}
		out = append(append(out, src[at:p.start]...), p.text...)
		at = p.stop
	}
	return f.src.replace(append(out, src[at:]...))
}

// admit refuses what no format can be: the limits are those of progress.md.
func admit(name string, src []byte) error {
	if len(src) > progress.MaxSize {
		return &run.UserError{
			Message: fmt.Sprintf("%s has %d bytes, and at most %d are read", name, len(src), progress.MaxSize),
			Hint:    "split the plan", Err: progress.ErrTooLarge,
		}
	}
	if at := badByte(src); at >= 0 {
		return failAt(name, src, at, "not plain UTF-8 text", "save the file as UTF-8 without NUL bytes")
	}
	return nil
}

// detail appends a labelled detail unless it is empty.
func detail(to []Detail, label string, lines []string) []Detail {
	if len(lines) == 0 {
		return to
	}
	return append(to, Detail{Label: label, Lines: lines})
}

// clone copies the slices of a plan, so that callers can change them.
func (p *Plan) clone() Plan {
	c := *p
	c.Description = slices.Clone(p.Description)
	c.Tasks = slices.Clone(p.Tasks)
	c.Patterns, c.Learnings = slices.Clone(p.Patterns), slices.Clone(p.Learnings)
	return c
}

// errDone is the answer to marking a task that is done.
func errDone(t Task) error {
	return &run.UserError{Message: fmt.Sprintf("%q is done", t.Title), Hint: "untick it first"}
}

func noTask(i, n int) error { return fmt.Errorf("%w: number %d of %d", ErrNoTask, i+1, n) }

// failAt is an error a person can fix, at a byte of src.
func failAt(name string, src []byte, at int, message, hint string) error {
	line, column := position(src, at)
	return &run.UserError{Message: fmt.Sprintf("%s:%d:%d: %s", name, line, column, message), Hint: hint}
}
