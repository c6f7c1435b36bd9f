package progress

import (
	"bytes"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// Bytes is the document as it would be written to disk.
func (d *Doc) Bytes() []byte { return append([]byte(d.prefix), d.src...) }

// Clone returns an independent copy.
func (d *Doc) Clone() *Doc {
	c := *d
	c.src = bytes.Clone(d.src)
	c.heads = slices.Clone(d.heads)
	c.prose = slices.Clone(d.prose)
	c.tasks = slices.Clone(d.tasks)
	return &c
}

// Heading is the text of the first level-1 heading, or "".
func (d *Doc) Heading() string {
	for _, h := range d.heads {
		if h.level == 1 {
			return h.text
		}
	}
	return ""
}

// Title is Heading without the "Progress:" that ours begin with.
func (d *Doc) Title() string {
	return strings.TrimSpace(strings.TrimPrefix(d.Heading(), titlePrefix))
}

// titlePrefix starts the level-1 heading of our own documents.
const titlePrefix = "Progress:"

// Tasks lists the tasks in document order. A task whose id another task before
// it has already taken has none, as has one without.
func (d *Doc) Tasks() []run.Task {
	out := make([]run.Task, len(d.tasks))
	for i := range d.tasks {
		out[i] = d.tasks[i].copy()
	}
	return out
}

// copy is the task with slices of its own.
func (t *task) copy() run.Task {
	c := t.Task
	c.Steps, c.Files, c.Accept = slices.Clone(t.Steps), slices.Clone(t.Files), slices.Clone(t.Accept)
	c.Checks, c.DependsOn = slices.Clone(t.Checks), slices.Clone(t.DependsOn)
	return c
}

// Task gives the task with that id, if there is one.
func (d *Doc) Task(id string) (run.Task, bool) {
	t, err := d.task(id)
	if err != nil {
		return run.Task{}, false
	}
	return t.copy(), true
}

// Counts says how many of the tasks that are to be done are done. Skipped ones
// do not count, blocked ones do.
func Counts(tasks []run.Task) (done, total int) {
	for _, t := range tasks {
		switch t.Status {
		case run.TaskSkipped:
		case run.TaskDone:
			done++
			total++
		case run.TaskOpen, run.TaskInProgress, run.TaskInReview, run.TaskBlocked:
			total++
		}
	}
	return done, total
}
