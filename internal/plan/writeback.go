package plan

import (
	"fmt"
	"path"
	"time"

	"github.com/org/ralph-action/internal/progress/formats"
)

// Work is what a run has done of a plan, for the file that the plan came from.
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

// Written is a plan file after a run's work was written back.
type Written struct {
	// File is its content, Notes that of its companion, nil where it has none.
	File, Notes []byte
	// Missing: it does not have the task that landed.
	Missing bool
	// Open names its open tasks where the run's own are all done.
	Open []string
}

// WriteBack brings a plan file of that name, and notes, which is what its
// Companion holds or nil, up to date with a run. All else in them stays to the
// byte. Writing the same work twice changes nothing the second time.
func WriteBack(name string, src, notes []byte, w Work) (Written, error) {
	format := detect(name, src)
	file, err := formats.Parse(format, name, src)
	if err != nil {
		return Written{}, err
	}
	beside := Companion(name, src)
	if notes != nil && !KeepsTasks(beside) {
		if err := file.Attach(notes); err != nil {
			return Written{}, err
		}
	}
	own, err := formats.Parse(formats.Progress, "progress.md", []byte(w.Progress))
	if err != nil {
		return Written{}, fmt.Errorf("read the run's progress: %w", err)
	}
	landed := formats.Landed{Task: w.Task, Files: w.Files, Written: w.Written, When: w.When}
	carried, err := formats.Follow(own, file, landed)
	if err != nil {
		return Written{}, err
	}
	out := Written{File: file.Bytes(), Missing: carried.Missing}
	if format.Companion() != "" {
		out.Notes = file.Notes()
	}
	if own.Plan().MarkedDone {
		out.Open = carried.Open
	}
	if notes == nil || !KeepsTasks(beside) {
		return out, nil
	}
	tasks, err := formats.Parse(formats.Portable, beside, notes)
	if err != nil {
		return Written{}, err
	}
	if carried, err = formats.Follow(own, tasks, landed); err != nil {
		return Written{}, err
	}
	out.Notes, out.Missing = tasks.Bytes(), carried.Missing
	if own.Plan().MarkedDone {
		out.Open = carried.Open
	}
	return out, nil
}

// unworked is the text of a plan file as it would be if none of its tasks were
// done, so that a plan which a run ticks is still the same plan.
func unworked(format formats.Format, name, text string) string {
	file, err := formats.Parse(format, path.Base(name), []byte(text))
	if err != nil {
		return text
	}
	return file.Unworked()
}
