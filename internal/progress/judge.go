package progress

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Caps on what is taken over from an agent, so that a document stays far below
// MaxSize and a plan stays a plan.
const (
	maxTasks       = 500
	maxNewTasks    = 25
	maxSection     = 64 << 10
	maxTaskSection = 256 << 10
)

// Verdict is what is left of an agent's version of the document.
type Verdict struct {
	// Accepted is the host's version with what the agent may add.
	Accepted *Doc
	// Added are the new tasks, as far as they are taken. Judge has put them into Accepted.
	Added []run.Task
	// TickedAssigned: the agent says that it did the task it was given. The
	// box is not ticked in Accepted; that is for the host, after the gates.
	TickedAssigned bool
	// ClaimedDone: the agent put the completion marker.
	ClaimedDone bool
	// Violations are sentences to the agent about what was put back, fit for its next
	// prompt: they hold no completion marker, and what they quote is on one line and acts
	// neither on a prompt nor on GitHub.
	Violations []string
}

func (v *Verdict) tell(format string, args ...any) {
	v.Violations = append(v.Violations, fmt.Sprintf(format, args...))
}

// Judge takes over what an agent may do to the document, where assigned is the id of the task
// it was given: the text of Analysis, Testing Strategy, Codebase Patterns and Recent Attempts,
// what was added to Learnings, and new tasks, open and at most 25. Everything else stays as it
// was, and one sentence says so. found is what the agent began with, before is what others have
// made of that since, and after what the agent left: nil if the file is gone or could not be read.
func Judge(found, before, after *Doc, assigned string) Verdict {
	v := judge(found, before, after, assigned)
	if len(v.Added) == 0 {
		return v
	}
	ids, err := v.Accepted.AddTasks(v.Added...)
	if err != nil {
		v.tell("The new tasks could not be taken over: write each as one line with a check box in the Tasks section.")
		v.Added = nil
	}
	for i := range ids {
		v.Added[i].ID = ids[i]
	}
	return v
}

// JudgeAdded is Judge for a call that was to write tasks and nothing else: the new tasks
// are not put into Accepted. Where they belong is for the caller to say.
func JudgeAdded(found, before, after *Doc) Verdict { return judge(found, before, after, "") }

func judge(found, before, after *Doc, assigned string) Verdict {
	v := Verdict{Accepted: before.Clone()}
	if after == nil {
		v.tell("The progress file was removed or could not be read; it was restored. Edit it in place and keep it " +
			"plain Markdown.")
		return v
	}
	delta := Diff(found, after)
	v.ClaimedDone = after.MarkedDone()
	ticks := func(c Change) bool { return c.Kind == ChangeTicked && c.TaskID == assigned && assigned != "" }
	v.TickedAssigned = slices.ContainsFunc(delta.Changes, ticks)
	v.Added = v.newTasks(found, before, after, delta)
	taken := v.takeTexts(found, before, after)
	if v.ClaimedDone && !slices.ContainsFunc(before.tasks, func(t task) bool {
		return t.Actionable() && (t.ID != assigned || !v.TickedAssigned)
	}) {
		taken = append(taken, SectionStatus) // the claim is true
	}
	back := slices.DeleteFunc(slices.Clone(delta.Changes), func(c Change) bool {
		return ticks(c) || c.Kind == ChangeAdded || c.Kind == ChangeSection && slices.Contains(taken, c.Text)
	})
	if len(back) > 0 {
		v.tell("Some of your changes to the progress file were put back: %s. Tick no box but that of your task, add to "+
			"%s at its end, and never change, move or remove a task: add a new one that says why. The host writes the rest.",
			list(back), SectionLearnings)
	}
	return v
}

// newTasks are the tasks that only after has, without what only the host decides.
func (v *Verdict) newTasks(found, before, after *Doc, delta Delta) (added []run.Task) {
	known := make(map[string]bool)
	for _, t := range slices.Concat(found.tasks, before.tasks) {
		known[t.Title] = true
	}
	ignored := 0
	full := len(before.Section(SectionTasks)) > maxTaskSection
	for _, i := range delta.added {
		t := after.tasks[i].copy()
		switch {
		case known[t.Title]: // a copy of a task that is there
		case cutOff(found, after, i, delta.to):
		case full || len(added) == maxNewTasks || len(before.tasks)+len(added) >= maxTasks:
			ignored++
		default:
			t.Status, t.Reason, t.Title = run.TaskOpen, "", strs.Cut(t.Title, maxTitle)
			added = append(added, t)
		}
	}
	if ignored > 0 {
		v.tell("%d new tasks were ignored: at most %d are taken from one iteration, and %d in all. Plan in larger steps.",
			ignored, maxNewTasks, maxTasks)
	}
	return added
}

// cutOff says whether task i of after is all that is left of one in a file that was cut off
// within its line: the file ends with it, and a task that is gone begins like it.
func cutOff(found, after *Doc, i int, to []int) bool {
	rest := bytes.TrimRight(after.src[after.tasks[i].item:], "\r\n")
	if i < len(after.tasks)-1 || bytes.ContainsAny(rest, "\r\n") {
		return false
	}
	for k := range found.tasks {
		if to[k] < 0 && bytes.HasPrefix(found.src[found.tasks[k].item:], rest) {
			return true
		}
	}
	return false
}

// takeTexts takes over the sections that are the agent's, and names them. An empty
// section is the agent's right, a missing one an accident. Learnings, and what others wrote
// meanwhile, are only added to.
func (v *Verdict) takeTexts(found, before, after *Doc) (taken []string) {
	for _, name := range [...]string{
		SectionAnalysis, SectionTesting, SectionPatterns, SectionLearnings, SectionAttempts,
	} {
		was, text, present := found.Section(name), after.Section(name), before.Section(name)
		if after.find(name) < 0 || sameText(was, text) {
			continue
		}
		more, kept := appended(was, text)
		kept = kept || name != SectionLearnings
		if name == SectionLearnings || !sameText(was, present) {
			if text = strings.TrimSpace(strings.TrimRight(present, " \t\r\n") + "\n" + more); sameText(text, present) {
				continue
			}
		}
		err := errOpenBlock
		if len(text) <= maxSection {
			err = v.Accepted.setText(name, text)
		}
		switch {
		case err != nil:
			v.tell("The section %s was put back: it was longer than %d KiB, held headings of its own, or a code fence or "+
				"comment that does not end.", name, maxSection>>10)
			taken = append(taken, name) // as far as the other sentence goes
		case kept:
			taken = append(taken, name)
		}
	}
	return taken
}

// JudgePlan is Judge for plan mode, where writing the tasks is the work: the Tasks section
// is taken from after, with all boxes open and an id on each task.
func JudgePlan(before, after *Doc) Verdict {
	v := Verdict{Accepted: before.Clone()}
	switch {
	case after == nil:
		return judge(before, before, nil, "")
	case after.MarkedDone() && !before.MarkedDone():
		v.tell("A planning iteration never marks the work as complete; the Status section was restored.")
	}
	v.takeTexts(before, before, after)
	if len(after.tasks) == 0 {
		return v
	}
	if n := len(after.src); len(after.tasks) > maxTasks || n > maxTaskSection {
		v.tell("The plan has %d tasks in %d bytes; at most %d tasks in %d KiB are taken. Plan in larger steps.",
			len(after.tasks), n, maxTasks, maxTaskSection>>10)
		return v
	}
	plan := after.Clone()
	var open []Mark
	for i, t := range plan.tasks {
		if t.Status == run.TaskDone {
			open = append(open, Mark{Task: i, Status: run.TaskOpen})
		}
	}
	err := plan.Mark(open...)
	plan.AssignIDs()
	if err == nil {
		err = v.Accepted.setPlan(plan)
	}
	if err != nil {
		v.tell("The tasks could not be taken over; write each as one line with a check box in the Tasks section.")
	}
	return v
}

// setPlan gives d the tasks of plan: its Tasks section as it is written, for the detail
// below a task that run.Task does not hold, or what was understood where that stands
// elsewhere or does not end.
func (d *Doc) setPlan(plan *Doc) error {
	c := d.Clone()
	err := c.SetSection(SectionTasks, plan.Section(SectionTasks))
	elsewhere := func(c Change) bool { return c.Kind == ChangeSection }
	if err == nil && len(diffTasks(plan.tasks, c.tasks).Changes) == 0 && !slices.ContainsFunc(Diff(d, c).Changes, elsewhere) {
		*d = *c
		return nil
	}
	return d.SetTasks(plan.Tasks())
}
