package plan

import (
	"path"

	"github.com/org/ralph-action/internal/progress/formats"
)

// Work is what a run has done of a plan, for the file that the plan came from.
type Work = formats.Work

// Written is a plan file after a run's work was written back.
type Written struct {
	formats.Followed

	// File is its content, Notes that of its companion, nil where it has none.
	File, Notes []byte
}

// WriteBack brings a plan file of that name, and notes, which is what its
// Companion holds or nil, up to date with a run. All else in them stays to the
// byte. Writing the same work twice changes nothing the second time.
func WriteBack(name string, src, notes []byte, w Work) (Written, error) {
	file, err := formats.Parse(detect(name, src), name, src)
	if err != nil {
		return Written{}, err
	}
	beside := Companion(name, src)
	apart := notes != nil && KeepsTasks(beside)
	if notes != nil && !apart {
		if err := file.Attach(notes); err != nil {
			return Written{}, err
		}
	}
	followed, err := file.Follow(w)
	if err != nil || !apart {
		return Written{Followed: followed, File: file.Bytes(), Notes: file.Notes()}, err
	}
	tasks, err := formats.Parse(formats.Portable, beside, notes)
	if err != nil {
		return Written{}, err
	}
	followed, err = tasks.Follow(w)
	return Written{Followed: followed, File: file.Bytes(), Notes: tasks.Bytes()}, err
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
