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
// it again: a task that the person left alone becomes what the host made of it, or goes with
// the host's, one that they changed gets the host's tick or mark, new tasks and rows of the
// log are added, and a section that the person left alone is the host's. Where both changed
// the same thing the person's stands, and a sentence says so.
func Merge(base, host, human *Doc) Merged {
	person := Diff(base, human)
	m := Merged{Changes: person.Changes}
	switch string(human.src) {
	case string(base.src):
		m.Doc = host.Clone()
	case string(host.src):
		m.Doc = human.Clone()
	default:
		ours := diffTasks(base.tasks, host.tasks)
		human = m.removeTasks(base, human, ours, person)
		m.Doc, person = human.Clone(), Diff(base, human)
		m.mergeTasks(base, host, human, ours, person)
		m.addTasks(host, ours, person)
		m.mergeTexts(base, host, human)
	}
	return m
}

// removeTasks gives human without the tasks that the host removed and the person left alone.
func (m *Merged) removeTasks(base, human *Doc, ours, person Delta) *Doc {
	gone := make(map[int]bool)
	var ps []Patch
	for i := range base.tasks {
		b, k := &base.tasks[i], person.to[i]
		switch {
		case ours.to[i] >= 0 || k < 0:
		case human.lines(k) != base.lines(i) || human.tasks[k].Group != b.Group:
			m.conflict("%s: the run removed it while you changed it; yours was kept.", quote(b))
		default:
			gone[k] = true
			start, stop := human.block(k)
			ps = append(ps, Patch{start, stop, ""})
		}
	}
	var want []task
	for k := range human.tasks {
		if !gone[k] {
			want = append(want, human.tasks[k])
		}
	}
	left := human.Clone()
	if left.changeTasks(want, ps...) != nil {
		m.conflict("The tasks that the run removed meanwhile could not be taken out of your version.")
	}
	return left
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
		if ours.to[i] < 0 {
			continue // see removeTasks
		}
		b, h := &base.tasks[i], &host.tasks[ours.to[i]]
		was, now := base.lines(i), host.lines(ours.to[i])
		if was == now {
			continue
		}
		if person.to[i] < 0 {
			m.conflict("%s: you removed it while the run changed it; it stays removed, and what was done stays on the branch.",
				quote(b))
			continue
		}
		e := hostEdit{place: person.to[i], task: h}
		u := &human.tasks[e.place]
		switch {
		case human.lines(e.place) == was: // the person left it alone
			e.lines = now
			edits = append(edits, e)
		case h.Status == b.Status || h.Status == u.Status:
			if reworded(b, h) {
				m.conflict("%s: you and the run changed it at the same time; yours was kept.", quote(b))
			}
		case u.Status != b.Status:
			m.conflict("%s: the run had it as %s while you had it as %s; yours was kept.", quote(b), h.Status, u.Status)
		default:
			edits = append(edits, e)
			if h.Status == run.TaskDone {
				m.conflict("%s: you changed it while it was being done; your wording was kept, and it counts as done.", quote(b))
			}
		}
	}
	if m.Doc.redo(edits) == nil {
		return
	}
	for _, e := range edits {
		if err := m.Doc.redo([]hostEdit{e}); err != nil {
			m.conflict("%s: what the run did to it meanwhile could not be put into your version.", quote(e.task))
		}
	}
}

// redo makes edits of the host's in one go.
func (d *Doc) redo(edits []hostEdit) error {
	var ps []Patch
	want := slices.Clone(d.tasks)
	for _, e := range edits {
		t := &want[e.place]
		if e.lines == "" {
			ps = append(ps, t.statusPatches(e.task)...)
			t.Status = e.task.Status
			continue
		}
		start, stop := d.block(e.place)
		ps = append(ps, Patch{start, stop, d.withEOL(e.lines)})
		t.ID, t.Title, t.Status = e.task.ID, e.task.Title, e.task.Status
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

// statusPatches give t the box and the mark of another.
func (t *task) statusPatches(from *task) []Patch {
	box, mark := " ", ""
	if from.Status == run.TaskDone {
		box = "x"
	} else if from.mark != "" {
		mark = markText(from.mark, from.Reason)
	}
	return []Patch{{t.box, t.box + 1, box}, {t.suffix, t.textEnd, mark}}
}

// addTasks puts in the tasks that are new in host, each behind the one it follows there.
// One that the person thought of, too, gets the id that the host knows it by, and where a
// new task of theirs has such an id it gets another.
func (m *Merged) addTasks(host *Doc, ours, person Delta) {
	if len(ours.added) == 0 {
		return
	}
	titles, ids := make(map[string]string), make(map[string]bool) // of the host's
	for _, i := range ours.added {
		titles[host.tasks[i].Title] = host.tasks[i].ID
		ids[host.tasks[i].ID] = true
	}
	free := newNumbers(m.Doc)
	free.mentioned(string(m.Doc.src))
	free.mentioned(string(host.src))
	var ps []Patch
	both := make(map[string]bool)
	for _, i := range person.added {
		t := &m.Doc.tasks[i] // no task has come or gone since
		id, known := titles[t.Title]
		both[t.Title] = known
		switch {
		case known && id != t.ID && t.idEnd > 0:
			ps = append(ps, Patch{t.idStart, t.idEnd, id})
		case known && id != t.ID:
			ps = append(ps, Patch{t.box + len(" ]"), t.box + len(" ]"), " " + id})
		case !known && ids[t.ID] && t.ID != "":
			ps = append(ps, Patch{t.idStart, t.idEnd, free.next()})
		}
	}
	var fresh []run.Task
	for _, i := range ours.added {
		if !both[host.tasks[i].Title] {
			fresh = append(fresh, host.tasks[i].copy())
		}
	}
	if m.Doc.patch(ps...) != nil || m.Doc.putBehind(host, fresh) != nil && m.Doc.appendTasks(fresh...) != nil {
		m.conflict("The tasks that the run added meanwhile could not be put into your version.")
	}
}

// putBehind puts tasks of host, each behind the one of d that it follows there, or at the
// end of its group.
func (d *Doc) putBehind(host *Doc, fresh []run.Task) error {
	at := make(map[string]int, len(d.tasks))
	for i := range d.tasks {
		at[d.tasks[i].ID] = i
	}
	behind := make(map[int][]run.Task)
	var last []run.Task
	place := -1
	for i := range host.tasks {
		t := &host.tasks[i]
		if len(fresh) == 0 {
			break
		}
		if t.ID != fresh[0].ID || t.Title != fresh[0].Title {
			if k, ok := at[t.ID]; ok {
				place = k
			}
			continue
		}
		if place >= 0 && d.tasks[place].Group == t.Group {
			behind[place] = append(behind[place], fresh[0])
		} else {
			last = append(last, fresh[0])
		}
		fresh = fresh[1:]
	}
	var ps []Patch
	var want []task
	for i := range d.tasks {
		want = append(want, d.tasks[i])
		if ts := behind[i]; len(ts) > 0 {
			want = d.inserted(want, i, len(want), ts)
			ps = append(ps, d.itemPatch(&d.tasks[i], ts))
		}
	}
	c := d.Clone()
	if err := c.changeTasks(want, ps...); err != nil {
		return err
	}
	if err := c.appendTasks(last...); err != nil {
		return err
	}
	*d = *c
	return nil
}

// mergeTexts does to the sections what the host did.
func (m *Merged) mergeTexts(base, host, human *Doc) {
	for _, name := range sectionOrder {
		was, ours, theirs := base.Section(name), host.Section(name), human.Section(name)
		if name == SectionTasks || sameText(was, ours) || sameText(ours, theirs) {
			continue
		}
		var err error
		switch more, kept := appended(was, ours); {
		case human.find(name) < 0 && base.find(name) >= 0:
			m.conflict("%s: you removed this section while the run wrote into it; it stays removed.", name)
		case sameText(was, theirs):
			err = m.Doc.setText(name, ours)
		case name == SectionStatus && statusRE().MatchString(host.Status()):
			err = m.Doc.SetStatus(host.Status())
		case kept && more != "" && (name == SectionLog || name == SectionLearnings):
			err = m.Doc.setText(name, strings.TrimRight(theirs, " \t\r\n")+"\n"+more)
		default:
			m.conflict("%s: you and the run changed it at the same time; yours was kept.", name)
		}
		if err != nil {
			m.conflict("%s: what the run wrote meanwhile could not be put into your version.", name)
		}
	}
}

// MergeTicks puts into host the boxes that people ticked or emptied where its tasks are
// shown, such as in a pull request, by the ids of the tasks. A task whose box was emptied
// is open again.
func MergeTicks(host *Doc, ticks map[string]bool) Merged {
	m := Merged{Doc: host.Clone()}
	for _, t := range host.tasks {
		want, shown := ticks[t.ID]
		if !shown || want == (t.Status == run.TaskDone) {
			continue
		}
		kind, edit := ChangeUnticked, m.Doc.Reopen
		if want {
			kind, edit = ChangeTicked, m.Doc.Tick
		}
		if err := edit(t.ID); err != nil {
			m.conflict("%s could not be %s.", quote(&t), kind)
			continue
		}
		m.Changes = append(m.Changes, Change{kind, t.ID, plain(t.Title)})
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
