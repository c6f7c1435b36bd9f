package progress

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// errOtherTasks: an edit would have done more to the tasks than it was asked
// to. The document was left alone.
var errOtherTasks = errors.New("progress: the edit would change other tasks")

// taskIndex gives the index in d.tasks of a task, or -1 and ErrNoTask.
func (d *Doc) taskIndex(id string) (int, error) {
	for i := range d.tasks {
		if id != "" && d.tasks[i].ID == id {
			return i, nil
		}
	}
	return -1, fmt.Errorf("%w: %q", ErrNoTask, id)
}

// task finds a task by its id.
func (d *Doc) task(id string) (*task, error) {
	i, err := d.taskIndex(id)
	if err != nil {
		return nil, err
	}
	return &d.tasks[i], nil
}

// Tick marks a task done. It changes one byte, or none where the task is done.
// Without such a task the error is ErrNoTask.
func (d *Doc) Tick(id string) error { return d.setMark(id, run.TaskDone, "") }

// Block notes behind a task's text why it cannot be done for now; the task is
// then blocked. A reason that was there is replaced. A task that is done
// cannot be blocked.
func (d *Doc) Block(id, reason string) error { return d.setMark(id, run.TaskBlocked, reason) }

// Skip notes behind a task's text why it will not be done; the task is then
// skipped. Otherwise it is like Block.
func (d *Doc) Skip(id, reason string) error { return d.setMark(id, run.TaskSkipped, reason) }

func (d *Doc) setMark(id string, status run.TaskStatus, reason string) error {
	i, err := d.taskIndex(id)
	if err != nil {
		return err
	}
	return d.Mark(Mark{Task: i, Status: status, Reason: reason})
}

// Reopen makes a task open, whatever it was: its box is emptied, and the note
// that it is blocked or skipped goes.
func (d *Doc) Reopen(id string) error { return d.setMark(id, run.TaskOpen, "") }

// Mark is what a task is to be.
type Mark struct {
	Task   int // its place in Tasks
	Status run.TaskStatus
	Reason string // of one that is blocked or skipped
}

// Mark marks many tasks in one go. What is done keeps the note that it was blocked or
// skipped, and cannot become that; what is open loses it. There is at most one mark a task.
func (d *Doc) Mark(marks ...Mark) error {
	want := slices.Clone(d.tasks)
	var ps []Patch
	for _, m := range marks {
		t := &want[m.Task]
		box, done := Patch{t.box, t.box + 1, " "}, t.Status == run.TaskDone
		switch {
		case m.Status == run.TaskBlocked || m.Status == run.TaskSkipped:
			if done {
				return fmt.Errorf("progress: %s cannot be %s: it is done", t.ID, m.Status)
			}
			ps = append(ps, Patch{t.suffix, t.textEnd, markText(m.Status, m.Reason)})
		case m.Status == run.TaskDone && !done:
			box.Text = "x"
			ps = append(ps, box)
		case m.Status == run.TaskOpen:
			if done {
				ps = append(ps, box)
			}
			if t.mark != "" {
				ps = append(ps, Patch{t.suffix, t.textEnd, ""})
			}
		}
		t.Status = m.Status
	}
	return d.changeTasks(want, ps...)
}

// markText is the suffix of a blocked or skipped task; suffix reads it back.
func markText(mark run.TaskStatus, reason string) string {
	reason, _ = Clean(reason)
	reason = strs.Cut(strs.OneLine(strings.ReplaceAll(reason, "<!--", "&lt;!--")), maxCell)
	if reason == "" {
		reason = "no reason given"
	}
	if !paired(reason) { // it could not be read to its end
		reason = strings.NewReplacer("(", "[", ")", "]").Replace(reason)
	}
	return " (" + string(mark) + ": " + reason + ")"
}

// paired says whether each parenthesis of s has its partner.
func paired(s string) bool {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth < 0 {
			return false
		}
	}
	return depth == 0
}

// AddTask is AddTasks for one.
func (d *Doc) AddTask(t run.Task) (id string, err error) {
	ids, err := d.AddTasks(t)
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// AddTasks puts open tasks at the end of their groups, all or none, and returns the ids they
// got; those that they bring tell what they depend on among each other. A group
// that is new comes last and gets a heading; without a group a task goes after the
// last one there is. In a document without a Tasks section groups are ignored,
// and one without any task gets that section.
func (d *Doc) AddTasks(tasks ...run.Task) (ids []string, err error) {
	tasks, ids = d.named(tasks...)
	if err := d.appendTasks(tasks...); err != nil {
		return nil, err
	}
	return ids, nil
}

// appendTasks puts tasks that have ids at the end of their groups.
func (d *Doc) appendTasks(tasks ...run.Task) error {
	c := d.Clone()
	for len(tasks) > 0 {
		n := 1
		for n < len(tasks) && tasks[n].Group == tasks[0].Group {
			n++
		}
		if err := c.appendGroup(tasks[:n]); err != nil {
			return err
		}
		tasks = tasks[n:]
	}
	*d = *c
	return nil
}

// appendGroup puts tasks of one group at its end.
func (d *Doc) appendGroup(tasks []run.Task) error {
	group := tasks[0].Group
	for i := range slices.Backward(d.tasks) {
		if group == "" || d.tasks[i].Group == group || d.tasksHead < 0 {
			return d.insert(i, tasks...)
		}
	}
	var b strings.Builder
	heading := ""
	if group != "" && d.tasksHead >= 0 {
		heading = d.groupHeading(group)
		b.WriteString(heading)
	}
	want := slices.Clone(d.tasks)
	for _, t := range tasks {
		t.Group = strings.TrimSpace(strings.TrimLeft(heading, "#"))
		b.WriteString(renderTask(t))
		want = append(want, task{Task: t})
	}
	if d.tasksHead < 0 {
		p, _ := d.contentPatch(SectionTasks, -1, b.String())
		return d.changeTasks(want, p)
	}
	body, end := d.heads[d.tasksHead].body, d.sectionEnd(d.tasksHead)
	return d.changeTasks(want, d.tailPatch(body, end,
		d.withEOL(strings.TrimSuffix(b.String(), "\n"))))
}

// InsertAfter puts an open task behind another one, as the next item of its
// list, and returns the id it got, as AddTask does. The group is that of the
// task before it.
func (d *Doc) InsertAfter(after string, t run.Task) (id string, err error) {
	i, err := d.taskIndex(after)
	if err != nil {
		return "", err
	}
	named, ids := d.named(t)
	return ids[0], d.insert(i, named...)
}

// insert puts tasks behind task i.
func (d *Doc) insert(i int, tasks ...run.Task) error {
	return d.changeTasks(d.inserted(slices.Clone(d.tasks), i, tasks), d.itemPatch(&d.tasks[i], tasks))
}

// inserted puts tasks, of the group of task i, behind that into want.
func (d *Doc) inserted(want []task, i int, tasks []run.Task) []task {
	add := make([]task, len(tasks))
	for k, t := range tasks {
		t.Group = d.tasks[i].Group
		add[k].Task = t
	}
	return slices.Insert(want, i+1, add...)
}

// itemPatch puts tasks behind another, as items of the same list.
func (d *Doc) itemPatch(t *task, tasks []run.Task) Patch {
	margin := []byte(string(d.src[lineStart(d.src, t.item):t.item]))
	for i, c := range margin {
		if c != '\t' {
			margin[i] = ' ' // for the bullets of lists around it on the same line
		}
	}
	marker := string(d.src[t.item : t.item+markerLen(d.src[t.item:])])
	var b strings.Builder
	for _, t := range tasks {
		for i, l := range strings.Split(strings.TrimSuffix(renderTask(t), "\n"), "\n") {
			b.Write(margin)
			if i == 0 {
				b.WriteString(marker + l[len("-"):])
			} else {
				b.WriteString(strings.Repeat(" ", len(marker)+1) + l[len("  "):])
			}
			b.WriteString("\n")
		}
	}
	text := d.withEOL(b.String())
	if t.end > 0 && d.src[t.end-1] != '\n' {
		text = d.eol() + text
	}
	return Patch{t.end, t.end, text}
}

// splitInto begins the reason why a task that was split is skipped.
const splitInto = "split into "

// Parts are the ids of the tasks that a task was split into, nil where it was
// not. Its reason says so.
func Parts(t run.Task) []string {
	ids, split := strings.CutPrefix(t.Reason, splitInto)
	if !split || t.Status != run.TaskSkipped {
		return nil
	}
	return strings.Split(ids, ", ")
}

// Split replaces a task by smaller ones: these stand behind it, and it is
// skipped. They get ids, which are returned, and take over the priority where
// they have none. Each depends on what the task depended on, unless it says what it
// depends on; what depended on the task now depends on all of them. They are worked
// in their order, but one that is set aside holds no other up. The last has to pass
// the checks of the task, too, and waits for the others if there are any; it has the
// task's commit subject unless it brings its own. A task that is done cannot be split.
func (d *Doc) Split(id string, parts []run.Task) (ids []string, err error) {
	i, err := d.taskIndex(id)
	if err != nil {
		return nil, err
	}
	t := &d.tasks[i]
	switch {
	case t.Status == run.TaskDone:
		return nil, fmt.Errorf("progress: split %s: it is done", id)
	case len(parts) < 2:
		return nil, fmt.Errorf("progress: split %s: %d is not several parts", id, len(parts))
	}
	parts, ids = d.named(parts...)
	for k := range parts {
		p := &parts[k]
		if p.Priority == 0 {
			p.Priority = t.Priority
		}
		switch {
		case len(p.DependsOn) > 0:
		case k == len(parts)-1 && len(t.Checks) > 0:
			p.DependsOn = ids[:k]
		default:
			p.DependsOn = t.DependsOn
		}
	}
	last := &parts[len(parts)-1]
	last.Checks = slices.Concat(t.Checks, slices.DeleteFunc(slices.Clone(last.Checks),
		func(c string) bool { return slices.Contains(t.Checks, c) }))
	last.Subject = cmp.Or(last.Subject, t.Subject)
	ps := []Patch{
		{t.suffix, t.textEnd, markText(run.TaskSkipped, splitInto+strings.Join(ids, ", "))},
		d.itemPatch(t, parts),
	}
	for k := range d.tasks {
		for n, other := range d.tasks[k].DependsOn {
			if other == id && k != i {
				at := d.tasks[k].depends[n]
				ps = append(ps, Patch{at.start, at.stop, strings.Join(ids, ", ")})
			}
		}
	}
	want := slices.Clone(d.tasks)
	want[i].Status = run.TaskSkipped
	if err := d.changeTasks(d.inserted(want, i, parts), ps...); err != nil {
		return nil, err
	}
	return ids, nil
}

// changeTasks patches d if its tasks then are those of want. Titles of new
// tasks, which those without a place in the source are, need not be the same.
func (d *Doc) changeTasks(want []task, ps ...Patch) error {
	return d.change(func(n *Doc) error {
		same := slices.EqualFunc(want, n.tasks, func(w, t task) bool {
			return w.ID == t.ID && w.Group == t.Group && w.Status == t.Status && (w.box == 0 || w.Title == t.Title)
		})
		if !same {
			return errOtherTasks
		}
		return nil
	}, ps...)
}

// SetTasks replaces the content of the Tasks section. Groups become level-3
// headings in the order in which they come.
func (d *Doc) SetTasks(tasks []run.Task) error {
	var b strings.Builder
	group := ""
	for _, t := range tasks {
		if t.Group != group {
			group = t.Group
			if b.Len() > 0 {
				b.WriteString("\n")
			}
			b.WriteString(d.groupHeading(group))
		}
		b.WriteString(renderTask(t))
	}
	return d.SetSection(SectionTasks, b.String())
}

// groupHeading is a heading one level below that of the tasks.
func (d *Doc) groupHeading(group string) string {
	level := 2
	if d.tasksHead >= 0 {
		level = d.heads[d.tasksHead].level
	}
	if group = inline(group, maxTitle); group == "" {
		group = "Other"
	}
	return strings.Repeat("#", min(level+1, 6)) + " " + group + "\n"
}

// renderTask writes a task as lines of a document.
func renderTask(t run.Task) string {
	var b strings.Builder
	b.WriteString("- [ ]")
	if t.Status == run.TaskDone {
		b.Reset()
		b.WriteString("- [x]")
	}
	if t.ID != "" {
		b.WriteString(" " + t.ID)
	}
	if t.Priority > 0 {
		fmt.Fprintf(&b, " (P%d)", min(t.Priority, 9))
	}
	if t.Parallel {
		b.WriteString(" [P]")
	}
	if t.Verify {
		b.WriteString(" [VERIFY]")
	}
	b.WriteString(" " + titleText(t.Title))
	if t.Status == run.TaskBlocked || t.Status == run.TaskSkipped {
		b.WriteString(markText(t.Status, t.Reason))
	}
	b.WriteString("\n")
	for l := range strings.Lines(Below(t)) {
		b.WriteString("  " + l)
	}
	var ids []string
	for _, id := range t.DependsOn {
		if n := idLen(id); n > 0 && n == len(id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		b.WriteString("  - Depends on: " + strings.Join(ids, ", ") + "\n")
	}
	return b.String()
}

// titleText makes s safe to stand behind a check box, where no block can begin,
// but what looks like a priority, a marker or a mark of the host's would be
// read as one. Of a backslash before it, Markdown shows nothing.
func titleText(s string) string {
	s, _ = Clean(s)
	s = strs.OneLine(strings.ReplaceAll(s, "<!--", "&lt;!--"))
	if at, mark, _ := suffix(s); mark != "" {
		s = s[:at] + `\` + s[at:]
	}
	if m := tagRE().FindStringSubmatchIndex(s + " "); m != nil && m[4] < 0 { // a mark may follow
		s = `\` + s
	}
	return orUntitled(s)
}
