package loop

import (
	"fmt"
	"slices"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// Ahead is what is in front of a run that was opened: the tasks in the order in
// which they would be worked if each succeeded, and all of them, done or not.
func Ahead(s State) (order, all []run.Task, err error) {
	doc, err := progress.Parse([]byte(s.Progress))
	if err != nil {
		return nil, nil, fmt.Errorf("read the progress of the run: %w", err)
	}
	all = doc.Tasks()
	left := slices.Clone(all)
	for range left {
		t, ok := choose(left, &s, nil)
		if !ok {
			break
		}
		order = append(order, t)
		s.TaskID = ""
		left[slices.IndexFunc(left, func(o run.Task) bool { return o.ID == t.ID })].Status = run.TaskDone
	}
	return order, all, nil
}

// Checks are the gates of a run: those asked for, else those that were found.
func (s State) Checks() []gate.Gate {
	if len(s.Gates) > 0 {
		return s.Gates
	}
	return s.DetectedGates
}
