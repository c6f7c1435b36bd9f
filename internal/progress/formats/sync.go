package formats

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Work is what a run has done of the plan that a file holds.
type Work struct {
	// Progress is the run's progress.md.
	Progress string
	// Task is the id there of the task that lands, "" for none; Files are the
	// paths that changed for it.
	Task  string
	Files []string
	// Written are the ids of tasks that were written back when they landed. They
	// are left alone: whoever unticked one since meant it.
	Written []string
	// When the work was done.
	When time.Time
}

// Followed is what bringing a file up to date came to.
type Followed struct {
	// Missing: the file does not have the task that lands.
	Missing bool
	// Open names the tasks of the file that are neither done nor skipped where the run's own are
	// all done, by their ids, or by their titles where they have none.
	Open []string
}

// Follow brings the file that a run's plan came from up to date with the run's
// progress.md: what is done is ticked, what people skipped is skipped, and the
// status says so when the run and the file are both done. Each story of a PRD
// that was done gets an entry in progress.txt. Following twice changes nothing
// the second time.
func (f *File) Follow(w Work) (c Followed, err error) {
	own, err := Parse(Progress, "progress.md", []byte(w.Progress))
	if err != nil {
		return Followed{}, fmt.Errorf("read the run's progress: %w", err)
	}
	ours, theirs := own.view, f.Plan()
	came := outcomes(ours.Tasks)
	var changes []progress.Mark
	var done, landed []Task
	for i, at := range pair(ours.Tasks, theirs.Tasks) {
		t := ours.Tasks[i]
		lands := t.ID == w.Task && w.Task != ""
		switch {
		case at < 0:
			c.Missing = c.Missing || lands
			continue
		case lands:
			landed = []Task{theirs.Tasks[at]}
		case slices.Contains(w.Written, t.ID):
			continue
		}
		was := theirs.Tasks[at].Status
		if was == came[i] || was == run.TaskDone || came[i] != run.TaskDone && came[i] != run.TaskSkipped {
			continue
		}
		changes = append(changes, progress.Mark{Task: at, Status: came[i], Reason: t.Reason})
		if came[i] == run.TaskDone && !lands {
			done = append(done, theirs.Tasks[at])
		}
	}
	if err := f.Apply(changes...); err != nil {
		return Followed{}, err
	}
	if ours.MarkedDone {
		for _, t := range f.view.Tasks {
			if t.Status != run.TaskDone && t.Status != run.TaskSkipped {
				c.Open = append(c.Open, nameOf(t))
			}
		}
		if err := f.markDone(); err != nil {
			return Followed{}, err
		}
	}
	if done = append(done, landed...); f.format != PRD || len(done) == 0 {
		return c, nil
	}
	log := f.notes
	if log == nil {
		log = newLog(w.When)
	}
	nl := "\n"
	if line, _, _ := bytes.Cut(log, []byte("\n")); bytes.HasSuffix(line, []byte("\r")) {
		nl = "\r\n"
	}
	log = addPatterns(log, added(theirs.Patterns, ours.Patterns), nl)
	return c, f.Attach(addEntries(log, done, w, added(theirs.Learnings, ours.Learnings), nl))
}

// outcomes says of each task whether it is done, blocked, skipped or still
// open. One that was split is done when all of its parts are.
func outcomes(tasks []Task) []run.TaskStatus {
	byID := make(map[string]int, len(tasks))
	for i, t := range tasks {
		byID[t.ID] = i
	}
	out := make([]run.TaskStatus, len(tasks))
	var settle func(i int) run.TaskStatus
	settle = func(i int) run.TaskStatus {
		if out[i] != "" {
			return out[i]
		}
		parts := progress.Parts(tasks[i].Task)
		if len(parts) == 0 {
			out[i] = tasks[i].Status
			return out[i]
		}
		out[i] = run.TaskOpen // also for parts that name each other in a circle
		for _, id := range parts {
			k, known := byID[id] // else somebody removed it
			if known && settle(k) != run.TaskDone && out[k] != run.TaskSkipped {
				return out[i]
			}
		}
		out[i] = run.TaskDone
		return out[i]
	}
	for i := range tasks {
		settle(i)
	}
	return out
}

// pair finds for each of our tasks the same one among theirs, -1 where there is
// none. What was reworded is found by the id it has elsewhere.
func pair(ours, theirs []Task) []int {
	title := func(t *Task) string { return oneLine(t.Title) }
	return progress.Match(ours, theirs, func(t *Task) string { return t.Key() + "\n" + title(t) }, title,
		func(t *Task) string {
			if ownRE().MatchString(t.Key()) {
				return "" // numbers of this file, which mean nothing in another
			}
			return t.Key()
		})
}

// added are the lines that are not among the old ones.
func added(old, lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return slices.Contains(old, l) })
}

// maxName bounds a title that stands for a name, in bytes.
const maxName = 40

// nameOf is what a task is called where its file is followed.
func nameOf(t Task) string {
	if t.Key() != "" {
		return t.Key()
	}
	return fmt.Sprintf("%q", strs.Cut(oneLine(t.Title), maxName))
}
