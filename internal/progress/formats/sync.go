package formats

import (
	"slices"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// Carry brings into a file what another one of the same plan has come to since:
// tasks that are done, blocked or skipped, and what was learned. Nothing else
// is changed, and no tick is taken back. Tasks are the same that have the same
// id, or the same title where there is none. It returns the keys of the tasks
// that changed, and of those that into does not have.
func Carry(from, into *File, when time.Time) (changed, unknown []string, err error) {
	index := make(map[string]int)
	theirs := into.Plan()
	for i, t := range slices.Backward(theirs.Tasks) {
		index["title "+t.Title] = i
		for _, id := range []string{t.ID, t.Origin} {
			if id != "" {
				index["id "+id] = i
			}
		}
	}
	ours := from.Plan()
	asked := make(map[int]bool)
	var changes []Change
	for _, t := range ours.Tasks {
		i, ok := index["id "+t.Key()]
		if !ok {
			i, ok = index["title "+t.Title]
		}
		if !ok {
			unknown = append(unknown, nameOf(t))
			continue
		}
		old := theirs.Tasks[i]
		same := old.Status == t.Status && old.Reason == t.Reason
		if asked[i] || same || t.Actionable() || old.Status == run.TaskDone {
			continue
		}
		asked[i] = true
		changed = append(changed, nameOf(t))
		changes = append(changes, Change{Task: i, Status: t.Status, Reason: t.Reason})
	}
	if err := into.Apply(changes...); err != nil {
		return nil, nil, err
	}
	if err := into.AppendPatterns(when, added(theirs.Patterns, ours.Patterns)...); err != nil {
		return nil, nil, err
	}
	return changed, unknown, into.AppendLearnings(when, "", added(theirs.Learnings, ours.Learnings)...)
}

// added are the lines that are not among the old ones.
func added(old, lines []string) []string {
	have := make(map[string]bool, len(old))
	for _, l := range old {
		have[l] = true
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return have[l] })
}
