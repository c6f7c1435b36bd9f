package formats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// markdown is a task file in Markdown. Which check boxes are tasks, and what stands below
// them, is for progress.Doc to say, as for our own file.
type markdown struct {
	format Format
	name   string
	doc    *progress.Doc
	view   Plan
	// boxes are the tasks of doc that each task of the view is made of: one, but in plans
	// whose tasks are headings.
	boxes [][]int
}

func parseMarkdown(format Format, name string, src []byte) (*markdown, error) {
	if err := admit(name, src); err != nil {
		return nil, err
	}
	doc, err := progress.Parse(src)
	if err != nil {
		return nil, &run.UserError{
			Message: name + " cannot be read: " + strings.TrimPrefix(err.Error(), "progress: "),
			Hint:    "write it as plain Markdown text, with lists nested less deeply", Err: err,
		}
	}
	m := &markdown{format: format, name: name}
	m.index(doc)
	return m, nil
}

// index takes over a document.
func (m *markdown) index(doc *progress.Doc) {
	m.doc, m.boxes = doc, nil
	m.view = Plan{
		Title: m.title(), Status: doc.Status(), MarkedDone: doc.MarkedDone(),
		Patterns:  bullets(doc.Section(progress.SectionPatterns)),
		Learnings: bullets(doc.Section(progress.SectionLearnings)),
	}
	above, tasks := doc.Above(), doc.Tasks()
	var headed []run.Task
	if m.format == Ralphex {
		headed = doc.Headed()
	}
	for i, t := range tasks {
		task := Task{Task: t}
		switch m.format {
		case Ralphex:
			if m.step(i, task, above[i], headed[i]) {
				continue
			}
		case FixPlan:
			task.rank(above[i])
		case Portable:
			task.ID = task.peel(portableRE())
		case Specum:
			task.ID = task.peel(specumRE())
		case Progress, PRD, Checklist:
		}
		task.markers()
		m.view.Tasks, m.boxes = append(m.view.Tasks, task), append(m.boxes, []int{i})
	}
	if m.format == Ralphex {
		m.settle(tasks)
	}
}

var (
	// headTaskRE is a heading that is a task of a ralphex plan.
	headTaskRE = strs.Lazy(`(?i)^((?:task|iteration)[ \t]+\d+(?:\.\d+)*)[ \t]*[:.–—-][ \t]*(.*)$`)
	portableRE = strs.Lazy(`(?i)^\*{0,2}(task[ \t]+\d+)(?::\*{0,2}|\*{0,2}:)[ \t]*`)
	specumRE   = strs.Lazy(`^\*{0,2}(\d+(?:\.\d+)+|V\d+|VF)\*{0,2}[:.]?(?:[ \t]+|$)`)
	flagRE     = strs.Lazy(`^\[(P|VERIFY)\](?:[ \t]+|$)`)
	rankRE     = strs.Lazy(`^\(P([1-9])\)(?:[ \t]+|$)`)
	priorityRE = strs.Lazy(`(?i)^(high|medium|low)[ -]priority\b`)
	optionalRE = strs.Lazy(`(?i)^(?:optional|future(?: enhancements)?|nice[ -]to[ -]have)\b`)
)

// title is the heading of the document without what the system puts before it.
func (m *markdown) title() string {
	s := m.doc.Heading()
	for _, prefix := range []string{"Progress:", "Tasks:"} {
		if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
			return strings.TrimSpace(s[len(prefix):])
		}
	}
	return s
}

// step takes a box below a heading that is a task as one step of that.
func (m *markdown) step(i int, box Task, above []progress.Heading, head run.Task) bool {
	at := headTask(above)
	if at == nil {
		return false
	}
	id, last := strs.OneLine(at[1]), len(m.view.Tasks)-1
	if last < 0 || m.view.Tasks[last].ID != id {
		t := Task{Task: head}
		t.ID, t.Title = id, id
		if title := headTaskRE().FindStringSubmatch(head.Title); title != nil && title[2] != "" {
			t.Title = title[2]
		}
		m.view.Tasks, m.boxes = append(m.view.Tasks, t), append(m.boxes, nil)
		last++
	}
	t := &m.view.Tasks[last]
	t.Accept = append(append(t.Accept, box.Title), box.Accept...)
	t.Checks = append(t.Checks, box.Checks...)
	t.Steps, t.Files = append(t.Steps, box.Steps...), append(t.Files, box.Files...)
	t.DependsOn, t.Subject = append(t.DependsOn, box.DependsOn...), cmp.Or(t.Subject, box.Subject)
	m.boxes[last] = append(m.boxes[last], i)
	return true
}

// settle says how the tasks stand by their boxes: done once all are ticked, blocked or skipped where
// all others or the heading say so, else in progress once one is ticked.
func (m *markdown) settle(boxes []run.Task) {
	for i := range m.view.Tasks {
		t := &m.view.Tasks[i]
		var left []run.Task
		for _, box := range m.boxes[i] {
			if boxes[box].Status != run.TaskDone {
				left = append(left, boxes[box])
			}
		}
		marked := func(status run.TaskStatus) bool { return status == run.TaskBlocked || status == run.TaskSkipped }
		alike := len(left) > 0 &&
			!slices.ContainsFunc(left, func(b run.Task) bool { return b.Status != left[0].Status })
		switch {
		case len(left) == 0:
			t.Status, t.Reason = run.TaskDone, ""
		case alike && marked(left[0].Status):
			t.Status, t.Reason = left[0].Status, left[0].Reason
		case marked(t.Status): // by its heading
		case alike && len(left) == len(m.boxes[i]):
			t.Status = run.TaskOpen
		default:
			t.Status = run.TaskInProgress
		}
	}
}

// headTask takes apart the heading that is a task of a ralphex plan, nil for any other.
func headTask(above []progress.Heading) []string {
	if len(above) == 0 || above[len(above)-1].Level < 3 {
		return nil
	}
	return headTaskRE().FindStringSubmatch(above[len(above)-1].Text)
}

// rank gives a task of a fix plan what the headings above it say: a priority from 1, and
// whether it is for the loop at all.
func (t *Task) rank(above []progress.Heading) {
	for i, heading := range above {
		if at := priorityRE().FindStringSubmatch(heading.Text); at != nil {
			t.Priority = 1 + slices.Index([]string{"high", "medium", "low"}, strings.ToLower(at[1]))
			if i == len(above)-1 {
				t.Group = ""
			}
		}
		if optionalRE().MatchString(heading.Text) && t.Status == run.TaskOpen {
			t.Status, t.Reason = run.TaskSkipped, "it stands under "+heading.Text
		}
	}
}

// markers takes off the front of a title what stands between an id and the title.
func (t *Task) markers() {
	t.ID = strs.OneLine(t.ID)
	for more := true; more; {
		switch more = false; t.peel(flagRE()) {
		case "P":
			t.Parallel, more = true, true
		case "VERIFY":
			t.Verify, more = true, true
		}
		if t.Priority == 0 {
			if s := t.peel(rankRE()); s != "" {
				t.Priority, more = int(s[0]-'0'), true
			}
		}
	}
	if at := originRE().FindStringSubmatch(t.Title); at != nil && isOrigin(at[1]) {
		t.Origin = t.peel(originRE())
	}
}

func (m *markdown) bytes() []byte { return m.doc.Bytes() }

func (m *markdown) text() string { return string(m.doc.Bytes()) }

func (m *markdown) plan() Plan {
	p := m.view
	p.Tasks = slices.Clone(p.Tasks)
	return p
}

// apply changes the boxes of tasks, and notes behind them why they are blocked or skipped.
func (m *markdown) apply(changes []progress.Mark) error {
	var marks []progress.Mark
	tasks := m.doc.Tasks()
	for _, c := range changes {
		if noted := c.Status == run.TaskBlocked || c.Status == run.TaskSkipped; noted {
			if t := m.view.Tasks[c.Task]; t.Status == run.TaskDone {
				return errDone(t)
			}
		}
		for _, box := range m.boxes[c.Task] {
			if c.Status == run.TaskDone || c.Status == run.TaskOpen || tasks[box].Status != run.TaskDone {
				marks = append(marks, progress.Mark{Task: box, Status: c.Status, Reason: c.Reason})
			}
		}
	}
	doc := m.doc.Clone()
	if err := doc.Mark(marks...); err != nil {
		return fmt.Errorf("change %s: %w", m.name, err)
	}
	m.index(doc)
	return nil
}

// markDone sets the status of a file whose system waits for it, once all of its
// tasks are done.
func (m *markdown) markDone() error {
	if m.format != Progress && m.format != Portable || !m.view.Done() || m.view.MarkedDone {
		return nil
	}
	return m.setStatus(progress.StatusDone)
}

func (m *markdown) setStatus(word string) error {
	doc := m.doc.Clone()
	if err := doc.SetStatus(word); err != nil {
		return fmt.Errorf("set the status of %s: %w", m.name, err)
	}
	m.index(doc)
	return nil
}

// Unworked is the text of f as it would be if nothing of it had been worked, so that a plan
// which a run ticks is still the same plan.
func (f *File) Unworked() string {
	m, ok := f.src.(*markdown)
	if !ok {
		return f.Text() // which says nothing of that
	}
	fresh := *m
	var open []progress.Mark
	for i := range m.view.Tasks {
		open = append(open, progress.Mark{Task: i, Status: run.TaskOpen})
	}
	if fresh.apply(open) != nil {
		return m.text()
	}
	if m.format != Checklist && m.view.Status != "" && fresh.setStatus(progress.StatusInProgress) != nil {
		return m.text()
	}
	return fresh.text()
}
