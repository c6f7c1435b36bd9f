package progress

import "github.com/org/ralph-action/internal/run"

// JudgeAdded is Judge for a call that was to write tasks and nothing else: the
// notes are taken over, and the new tasks, at most 25, are returned instead of
// being put into Accepted. Where they belong is for the caller to say.
func JudgeAdded(before, after *Doc) (Verdict, []run.Task) {
	if after == nil {
		return unreadable(before), nil
	}
	var v Verdict
	v.ClaimedDone = after.MarkedDone()
	added := v.compareTasks(before, after, "")
	v.compareStatus(before, after, "")
	v.Changes = append(v.Changes, sectionChanges(before, after, "tasks", fold(SectionStatus), fold(SectionLog),
		fold(SectionLearnings))...)
	v.takeAll(before, v.notes(before, after))
	v.fewer()
	return v, added[:min(len(added), maxNewTasks)]
}
