package progress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// Caps on what is taken over from an agent, so that a document stays far below
// MaxSize and a plan stays a plan.
const (
	maxTasks       = 500
	maxNewTasks    = 25
	maxSection     = 64 << 10
	maxLearnings   = 128 << 10
	maxTaskSection = 256 << 10
)

// ViolationKind says which rule an agent broke.
type ViolationKind string

// The rules an agent can break in its progress file.
const (
	ViolationTickedOther  ViolationKind = "ticked_other"
	ViolationUnticked     ViolationKind = "unticked"
	ViolationRemoved      ViolationKind = "removed"
	ViolationReworded     ViolationKind = "reworded"
	ViolationForgedStatus ViolationKind = "forged_status"
	ViolationForgedLog    ViolationKind = "forged_log"
	ViolationLearnings    ViolationKind = "rewrote_learnings"
	ViolationPremature    ViolationKind = "premature_done"
	ViolationUnreadable   ViolationKind = "unreadable"
	ViolationTooMuch      ViolationKind = "too_much"
)

// Violation is one broken rule.
type Violation struct {
	Kind ViolationKind
	// Text is one sentence to the agent, fit for its next prompt: it holds no
	// completion marker, and quotes from the document are on one line.
	Text string
}

// Verdict is what is left of an agent's version of the document.
type Verdict struct {
	// Accepted is the host's version with what the agent may add.
	Accepted *Doc
	// TickedAssigned: the agent says that it did the task it was given. The
	// box is not ticked in Accepted; that is for the host, after the gates.
	TickedAssigned bool
	// ClaimedDone: the agent put the completion marker.
	ClaimedDone bool
	Violations  []Violation
}

func (v *Verdict) add(kind ViolationKind, format string, args ...any) {
	v.Violations = append(v.Violations, Violation{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// Judge compares the document before an iteration with what the agent left,
// where assigned is the id of the task it was given. Taken over are Analysis,
// Testing Strategy, Codebase Patterns and Recent Attempts as they are, what
// was added to Learnings, and new tasks, open and with ids of the host's.
// Everything else is as before; sections the format does not know and Completed
// This Iteration are put back without a word. after is nil if the file is gone
// or could not be read.
func Judge(before, after *Doc, assigned string) Verdict {
	v := Verdict{Accepted: before.Clone()}
	if after == nil {
		v.unreadable()
		return v
	}
	v.ClaimedDone = after.MarkedDone()
	added := v.compareTasks(before, after, assigned)
	v.compareStatus(before, after, assigned)
	v.takeNotes(before, after)
	v.takeTasks(added)
	return v
}

// JudgePlan is Judge for plan mode, where writing the tasks is the work: the
// Tasks section is taken from after, with all boxes open and an id on each
// task. Claiming completion is a violation.
func JudgePlan(before, after *Doc) Verdict {
	v := Verdict{Accepted: before.Clone()}
	if after == nil {
		v.unreadable()
		return v
	}
	if v.ClaimedDone = after.MarkedDone(); v.ClaimedDone {
		v.add(ViolationPremature, "A planning iteration never marks the work as complete; the Status section was put back.")
	} else if !sameText(before.Section(SectionStatus), after.Section(SectionStatus)) {
		v.add(ViolationForgedStatus, "The Status section belongs to the host; it was put back.")
	}
	v.compareLog(before, after)
	v.takeNotes(before, after)
	v.takePlan(after)
	return v
}

func (v *Verdict) unreadable() {
	v.add(ViolationUnreadable, "The progress file was removed or could not be read; it was put back. Edit it in place and keep it plain Markdown.")
}

// quote names a task for a sentence.
func quote(t run.Task) string {
	title := cut(squeeze(t.Title), 120)
	if t.ID == "" {
		return fmt.Sprintf("%q", title)
	}
	return fmt.Sprintf("%s %q", t.ID, title)
}

func sameText(a, b string) bool {
	return strings.TrimSpace(strings.ReplaceAll(a, "\r\n", "\n")) == strings.TrimSpace(strings.ReplaceAll(b, "\r\n", "\n"))
}

// compareTasks reports what was done to the tasks of before, and returns those
// that are new.
func (v *Verdict) compareTasks(before, after *Doc, assigned string) (added []run.Task) {
	byID, byTitle := make(map[string]int), make(map[string]int)
	for i, t := range after.tasks {
		if t.ID != "" {
			byID[t.ID] = i
		}
		if _, ok := byTitle[t.Title]; !ok {
			byTitle[t.Title] = i
		}
	}
	known := make(map[int]bool)
	titles := make(map[string]bool)
	for _, b := range before.tasks {
		titles[b.Title] = true
		i, ok := byID[b.ID]
		if !ok {
			// The id alone being lost does no harm: the host puts it back.
			if i, ok = byTitle[b.Title]; ok && (known[i] || after.tasks[i].ID != "") {
				ok = false
			}
		}
		if !ok {
			v.add(ViolationRemoved, "Task %s was removed; it was put back. Tasks are never deleted.", quote(b.Task))
			continue
		}
		known[i] = true
		v.compareTask(b.Task, after.tasks[i].Task, assigned)
	}
	for i, t := range after.tasks {
		if known[i] || titles[t.Title] {
			continue
		}
		if t.Status == run.TaskDone {
			v.add(ViolationTickedOther, "Task %s was added with its box ticked; it was kept as open.", quote(run.Task{Title: t.Title}))
		}
		t.ID, t.Status = "", run.TaskOpen
		added = append(added, t.Task)
	}
	return added
}

// compareTask reports what was done to one task.
func (v *Verdict) compareTask(b, a run.Task, assigned string) {
	doneBefore, doneAfter := b.Status == run.TaskDone, a.Status == run.TaskDone
	switch {
	case doneAfter && !doneBefore && b.ID == assigned && assigned != "":
		v.TickedAssigned = true
	case doneAfter && !doneBefore:
		v.add(ViolationTickedOther, "Task %s was ticked, but it was not the task of this iteration; it was unticked. Work on one task only.", quote(b))
	case doneBefore && !doneAfter:
		v.add(ViolationUnticked, "Task %s was unticked; it was ticked again. If it has to be done over, add a new task that says why.", quote(b))
	case a.Status != b.Status && !doneAfter:
		v.add(ViolationForgedStatus, "Task %s was marked as %s; that is for the host to decide. Say under %s what stands in the way.", quote(b), a.Status, SectionAttempts)
	}
	if a.Title != b.Title || a.Priority != b.Priority || a.Parallel != b.Parallel || a.Verify != b.Verify || !slices.Equal(a.Accept, b.Accept) {
		v.add(ViolationReworded, "Task %s or its acceptance criteria were changed; the original was put back. If the task is wrong, add a new task that says so.", quote(b))
	}
}

// compareStatus reports changes to the sections that are the host's.
func (v *Verdict) compareStatus(before, after *Doc, assigned string) {
	open := 0
	for _, t := range before.tasks {
		if t.Actionable() && (t.ID != assigned || !v.TickedAssigned) {
			open++
		}
	}
	switch {
	case v.ClaimedDone && open > 0:
		v.add(ViolationPremature, "The Status section was set to complete while %d of the tasks are open; it was put back. The host sets it when all tasks are done and the checks pass.", open)
	case !v.ClaimedDone && !sameText(before.Section(SectionStatus), after.Section(SectionStatus)):
		v.add(ViolationForgedStatus, "The Status section belongs to the host; it was put back.")
	}
	v.compareLog(before, after)
}

func (v *Verdict) compareLog(before, after *Doc) {
	if !sameText(before.Section(SectionLog), after.Section(SectionLog)) {
		v.add(ViolationForgedLog, "The Iteration Log belongs to the host; it was put back.")
	}
}

// takeNotes takes over the sections that are the agent's.
func (v *Verdict) takeNotes(before, after *Doc) {
	for _, name := range [...]string{SectionAnalysis, SectionTesting, SectionPatterns, SectionAttempts} {
		if after.find(name) < 0 || sameText(before.Section(name), after.Section(name)) {
			continue // an empty section is the agent's right, a missing one an accident
		}
		v.take(name, after.Section(name), maxSection)
	}
	old, now := before.Section(SectionLearnings), after.Section(SectionLearnings)
	if sameText(old, now) {
		return
	}
	more, kept := appended(old, now)
	if !kept {
		v.add(ViolationLearnings, "Learnings were changed or removed; they were put back. Only add to that section, at its end.")
	}
	if strings.TrimSpace(more) == "" {
		return
	}
	v.take(SectionLearnings, strings.TrimRight(strings.ReplaceAll(old, "\r\n", "\n"), " \t\n")+"\n"+strings.TrimPrefix(more, "\n"), maxLearnings)
}

// appended gives what now holds beyond old, and whether all of old is still
// there.
func appended(old, now string) (more string, kept bool) {
	old = strings.TrimRight(strings.ReplaceAll(old, "\r\n", "\n"), " \t\n")
	now = strings.ReplaceAll(now, "\r\n", "\n")
	if rest, ok := strings.CutPrefix(now, old); ok && (old == "" || strings.HasPrefix(rest, "\n")) {
		return rest, true
	}
	have, want := make(map[string]int), 0
	for l := range strings.Lines(old) {
		if l = strings.TrimSpace(l); l != "" {
			have[l]++
			want++
		}
	}
	var b strings.Builder
	for l := range strings.Lines(now) {
		key := strings.TrimSpace(l)
		switch {
		case key == "":
		case have[key] > 0:
			have[key]--
			want--
		default:
			b.WriteString(strings.TrimRight(l, "\n") + "\n")
		}
	}
	return b.String(), want == 0
}

// take puts content into a section of Accepted, unless that would change
// anything else of the document.
func (v *Verdict) take(name, content string, limit int) {
	if len(content) > limit {
		v.add(ViolationTooMuch, "The section %s was longer than %d KiB; what it held before was put back. Keep it short.", name, limit>>10)
		return
	}
	c := v.Accepted.Clone()
	err := c.setSection(name, content)
	if err != nil || !contained(content) || !sameTasks(v.Accepted.tasks, c.tasks) || !sameOutline(v.Accepted, c, name) {
		v.add(ViolationUnreadable, "The section %s held an unclosed code fence or comment, or headings of its own; what it held before was put back.", name)
		return
	}
	v.Accepted = c
}

// contained says whether content ends what it begins, so that a heading after
// it is a heading, and brings no section of its own.
func contained(content string) bool {
	const probe = "## end"
	c, err := Parse([]byte(content + "\n\n" + probe + "\n"))
	if err != nil {
		return false
	}
	sections := 0
	for _, h := range c.heads {
		if h.level <= 2 {
			sections++
		}
	}
	return sections == 1 && c.find("end") == len(c.heads)-1
}

func sameTasks(a, b []task) bool {
	return slices.EqualFunc(a, b, func(x, y task) bool {
		return x.ID == y.ID && x.Title == y.Title && x.Status == y.Status
	})
}

// sameOutline says whether two documents have the same sections, but for one
// that may be new in b.
func sameOutline(a, b *Doc, name string) bool {
	outline := func(d *Doc) []string {
		var out []string
		for _, h := range d.heads {
			if h.level <= 2 && fold(h.text) != fold(name) {
				out = append(out, h.text)
			}
		}
		return out
	}
	return slices.Equal(outline(a), outline(b))
}

// takeTasks adds new tasks to Accepted.
func (v *Verdict) takeTasks(added []run.Task) {
	for i, t := range added {
		if i == maxNewTasks || len(v.Accepted.tasks) >= maxTasks || len(v.Accepted.Section(SectionTasks)) > maxTaskSection {
			v.add(ViolationTooMuch, "%d new tasks were left out: at most %d are taken from one iteration, and %d in all. Plan in larger steps.", len(added)-i, maxNewTasks, maxTasks)
			break
		}
		c := v.Accepted.Clone()
		if err := c.addTask(t); err != nil || len(c.tasks) != len(v.Accepted.tasks)+1 {
			v.add(ViolationUnreadable, "The new task %s could not be taken over; write it as one line with a check box.", quote(t))
			continue
		}
		v.Accepted = c
	}
	v.Accepted.AssignIDs()
}

// addTask puts a task at the end of its group, or of the Tasks section, where
// a group that is new gets its heading.
func (d *Doc) addTask(t run.Task) error {
	return d.atomically(func(d *Doc) error {
		i, err := d.section(SectionTasks)
		if err != nil {
			return err
		}
		text := strings.TrimSuffix(renderTask(t, ""), "\n")
		end := d.sectionEnd(i)
		for k := i + 1; k < len(d.heads) && d.heads[k].start < end; k++ {
			if t.Group != "" && d.heads[k].text == t.Group {
				stop := end
				if k+1 < len(d.heads) {
					stop = min(stop, d.heads[k+1].start)
				}
				return d.tail(d.heads[k].body, stop, d.heads[k].listLast, d.withEOL(text))
			}
		}
		joined := d.listAtEnd(i)
		if t.Group != "" {
			text, joined = groupHeading(t.Group)+text, false
		}
		return d.tail(d.heads[i].body, end, joined, d.withEOL(text))
	})
}

// takePlan takes the tasks over from a plan. Its section comes over as
// written, for the detail below a task that run.Task does not hold.
func (v *Verdict) takePlan(after *Doc) {
	plan := after.Clone()
	for i := range plan.tasks {
		plan.setBox(&plan.tasks[i], false)
	}
	content := plan.Section(SectionTasks)
	if len(plan.tasks) > maxTasks || len(content) > maxTaskSection {
		v.add(ViolationTooMuch, "The plan has %d tasks in %d bytes; at most %d tasks in %d KiB are taken. Plan in larger steps.", len(plan.tasks), len(content), maxTasks, maxTaskSection>>10)
		return
	}
	c := v.Accepted.Clone()
	err := c.setSection(SectionTasks, content)
	if err != nil || !contained(content) || !sameTasks(plan.tasks, c.tasks) || !sameOutline(v.Accepted, c, SectionTasks) {
		// Tasks outside a Tasks section, in two of them, or in one that does
		// not end: write what was understood.
		c = v.Accepted.Clone()
		if err := c.SetTasks(plan.Tasks()); err != nil {
			v.add(ViolationUnreadable, "The tasks could not be taken over; write each as one line with a check box in the Tasks section.")
			return
		}
	}
	c.AssignIDs()
	v.Accepted = c
}
