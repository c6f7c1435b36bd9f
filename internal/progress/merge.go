package progress

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// Merged is what comes of a document that both the host and a person changed.
type Merged struct {
	Doc *Doc
	// Changes are what the person did.
	Changes []Change
	// Conflicts are sentences to the person, fit for a pull request, about what of either
	// side gave way.
	Conflicts []string
}

func (m *Merged) conflict(format string, args ...any) {
	m.Conflicts = append(m.Conflicts, fmt.Sprintf(format, args...))
}

// Sentences tell a person in full sentences what became of the edits.
func (m Merged) Sentences() []string {
	if len(m.Changes) == 0 {
		return m.Conflicts
	}
	return append([]string{"Taken in: " + list(m.Changes) + "."}, m.Conflicts...)
}

// Merge puts together a document that was base, that the host made host of and that a
// person made human of. It is human to the byte with what the host did since base done to
// it again: a task that the person left alone becomes what the host made of it, one that they
// changed gets the host's tick or mark, new tasks and rows of the log are added, and a section
// that the person left alone is the host's. Where both changed the same thing the person's
// stands, and a sentence says so.
func Merge(base, host, human *Doc) Merged {
	person := Diff(base, human)
	m := Merged{Doc: human.Clone(), Changes: person.Changes}
	switch string(human.src) {
	case string(base.src):
		m.Doc = host.Clone()
	case string(host.src):
	default:
		ours := diffTasks(base.tasks, host.tasks)
		m.mergeTasks(base, host, human, ours, person)
		if err := m.takeAdded(host, ours, person); err != nil {
			m.conflict("The tasks that the run added meanwhile could not be put into your version.")
		}
		m.mergeTexts(base, host, human)
	}
	return m
}

// hostEdit is what the host did to a task that is at place in the person's version: all
// its lines, or just its box and mark.
type hostEdit struct {
	place int
	lines string
	task  *task
}

// mergeTasks does to the tasks what the host did.
func (m *Merged) mergeTasks(base, host, human *Doc, ours, person Delta) {
	var edits []hostEdit
	for i := range base.tasks {
		if ours.to[i] < 0 || host.lines(ours.to[i]) == base.lines(i) {
			continue // the host removes no task of people's
		}
		b, h, place := &base.tasks[i], &host.tasks[ours.to[i]], person.to[i]
		if place < 0 {
			m.conflict("%s: you removed it while the run changed it; it stays removed, and what was done stays on the branch.",
				quote(b))
			continue
		}
		u := &human.tasks[place]
		switch {
		case human.lines(place) == base.lines(i): // the person left it alone
			edits = append(edits, hostEdit{place, host.lines(ours.to[i]), h})
		case h.Status != b.Status && u.Status == b.Status:
			edits = append(edits, hostEdit{place, "", h})
			if h.Status == run.TaskDone {
				m.conflict("%s: you changed it while it was being done; your wording was kept, and it counts as done.", quote(b))
			}
		case h.Status != u.Status && h.Status != b.Status || reworded(b, h):
			m.conflict("%s: you and the run changed it at the same time; yours was kept.", quote(b))
		}
	}
	if m.Doc.redo(edits...) == nil {
		return
	}
	for _, e := range edits {
		if err := m.Doc.redo(e); err != nil {
			m.conflict("%s: what the run did to it meanwhile could not be put into your version.", quote(e.task))
		}
	}
}

// redo makes edits of the host's in one go.
func (d *Doc) redo(edits ...hostEdit) error {
	var ps []Patch
	want := slices.Clone(d.tasks)
	for _, e := range edits {
		t := &want[e.place]
		if e.lines != "" {
			start, stop := d.block(e.place)
			ps = append(ps, Patch{start, stop, d.withEOL(e.lines)})
			t.ID, t.Title = e.task.ID, e.task.Title
		} else {
			box, mark := " ", ""
			if e.task.Status == run.TaskDone {
				box = "x"
			} else if e.task.mark != "" {
				mark = markText(e.task.mark, e.task.Reason)
			}
			ps = append(ps, Patch{t.box, t.box + 1, box}, Patch{t.suffix, t.textEnd, mark})
		}
		t.Status = e.task.Status
	}
	return d.changeTasks(want, ps...)
}

// lines are the lines of task i with plain newlines.
func (d *Doc) lines(i int) string {
	start, stop := d.block(i)
	return strings.TrimRight(strings.ReplaceAll(string(d.src[start:stop]), "\r\n", "\n"), "\n") + "\n"
}

// block is where task i stands: its first line, and the line after all that belongs to it.
func (d *Doc) block(i int) (start, stop int) {
	t := &d.tasks[i]
	return lineStart(d.src, t.item), max(lineEnd(d.src, max(t.textEnd-1, t.box)), t.end)
}

// takeAdded puts in the tasks that are new in host, those in a row behind the one that they
// follow there, or else at the end of their group. A new task of a person that has the id of
// one of them gets another: the host's is in its log. One that has the title and group of the host's
// and all that it asks for is the host's, which has landed before the host knew.
func (m *Merged) takeAdded(host *Doc, ours, person Delta) error {
	c, taken := m.Doc.Clone(), make(map[string]bool)
	pick := func(d *Doc, is []int) (tasks []task) {
		for _, i := range is {
			tasks = append(tasks, d.tasks[i])
		}
		return tasks
	}
	mine, theirs := pick(host, ours.added), pick(c, person.added) // no task has come or gone since
	for i := range mine {
		taken[mine[i].ID] = true
	}
	free := newNumbers(c)
	free.mentioned(host.src)
	var ps []Patch
	var changes []Change
	same := Match(theirs, mine, func(t *task) string { return t.Group + "\n" + t.Title })
	for i, k := range same {
		if k >= 0 && !holdsAll(theirs[i].Task, mine[k].Task) {
			same[i] = -1
		}
	}
	added := 0
	for _, change := range m.Changes {
		if change.Kind == ChangeAdded {
			t, id := &theirs[added], ""
			switch k := same[added]; {
			case k >= 0:
				id = mine[k].ID
			case t.ID != "" && taken[t.ID]:
				id = free.next()
				change.TaskID = id
			}
			switch {
			case id == "" || id == t.ID:
			case t.idEnd > 0:
				ps = append(ps, Patch{t.idStart, t.idEnd, id})
			default:
				at := t.box + len(" ]")
				ps = append(ps, Patch{at, at, " " + id})
			}
			if added++; same[added-1] >= 0 {
				continue
			}
		}
		changes = append(changes, change)
	}
	if err := c.patch(ps...); err != nil {
		return err
	}
	var left []int // of ours
	there := make(map[int]bool)
	for _, i := range same {
		there[i] = true
	}
	for i, at := range ours.added {
		if !there[i] {
			left = append(left, at)
		}
	}
	for from := 0; from < len(left); {
		first := left[from]
		var row []run.Task
		for k := first; from < len(left) && left[from] == k && host.tasks[k].Group == host.tasks[first].Group; k++ {
			row = append(row, host.tasks[k].copy())
			from++
		}
		var err error
		at := -1
		if first > 0 {
			at = slices.IndexFunc(c.tasks, func(t task) bool { return t.ID == host.tasks[first-1].ID && t.Group == row[0].Group })
		}
		if at >= 0 {
			err = c.insert(at, row...)
		} else {
			err = c.appendTasks(row...)
		}
		if err != nil {
			return err
		}
	}
	m.Doc, m.Changes = c, changes
	return nil
}

// holdsAll says whether t asks for all that other asks for.
func holdsAll(t, other run.Task) bool {
	for _, want := range [][2][]string{
		{other.Accept, t.Accept}, {other.Checks, t.Checks}, {other.DependsOn, t.DependsOn},
	} {
		if slices.ContainsFunc(want[0], func(s string) bool { return !slices.Contains(want[1], s) }) {
			return false
		}
	}
	return true
}

// mergeTexts does to the sections what the host did.
func (m *Merged) mergeTexts(base, host, human *Doc) {
	for _, name := range sectionOrder {
		was, ours, theirs := base.Section(name), host.Section(name), human.Section(name)
		if name == SectionTasks || sameText(was, ours) || sameText(ours, theirs) {
			continue
		}
		removed := human.find(name) < 0 && base.find(name) >= 0
		err := errOpenBlock
		switch more, kept := appended(was, ours); {
		case removed:
		case sameText(was, theirs):
			err = m.Doc.setText(name, ours)
		case name == SectionStatus && statusRE().MatchString(host.Status()):
			err = m.Doc.SetStatus(host.Status())
		case kept && more != "" && (name == SectionLog || name == SectionLearnings):
			err = m.Doc.setText(name, strings.TrimRight(theirs, " \t\r\n")+"\n"+more)
		}
		if err != nil {
			m.conflict("%s: you and the run changed it at the same time; yours was kept.", name)
		}
	}
}

// MergeTicks puts into host the boxes that people ticked or emptied where its tasks are
// shown, such as in a pull request, by the ids of the tasks. A task whose box was emptied
// is open again.
func MergeTicks(host *Doc, ticks map[string]bool) Merged {
	m := Merged{Doc: host.Clone()}
	var marks []Mark
	for i := range host.tasks {
		t := &host.tasks[i]
		want, shown := ticks[t.ID]
		if !shown || want == (t.Status == run.TaskDone) {
			continue
		}
		kind, status := ChangeUnticked, run.TaskOpen
		if want {
			kind, status = ChangeTicked, run.TaskDone
		}
		marks = append(marks, Mark{Task: i, Status: status})
		m.Changes = append(m.Changes, Change{kind, t.ID, plain(t.Title)})
	}
	if err := m.Doc.Mark(marks...); err != nil {
		m.Changes = nil
		m.conflict("The boxes that you changed could not be taken over.")
	}
	return m
}

// quote names a task for a sentence.
func quote(t *task) string {
	title := strconv.QuoteToGraphic(plain(t.Title))
	if t.ID == "" {
		return title
	}
	return t.ID + " " + title
}
