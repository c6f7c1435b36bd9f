package progress

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Merged is what comes of a document that both the host and a person changed.
type Merged struct {
	Doc *Doc
	// Changes are what the person did.
	Changes []Change
	// Ticked are the ids of the tasks that a person says are done, and the
	// host has not done meanwhile.
	Ticked []string
	// Conflicts are the places where the host had to give way.
	Conflicts []Conflict
}

// Conflict is a place that the host and a person changed at the same time. The
// person's version stands.
type Conflict struct {
	TaskID string // "" where it is not about a task
	// Text is a sentence to the person, fit for a pull request.
	Text string
}

// Merge puts together a document that was base, that the host made host of and
// that people made human of. It starts from the bytes of human and puts in
// what the host changed, so that what people wrote stays to the byte wherever
// the host changed nothing; where both changed the same thing, people win.
// Tasks are matched by title and id; see match. The order of tasks is that of
// human. The Iteration Log gets the rows of both. The word in Status is the
// host's where it changed it, and advice where a person did. Tasks that people
// added have the id they wrote, if it is free, or none: [Doc.AssignIDs] is for
// the caller.
func Merge(base, host, human *Doc) Merged {
	toHuman, added := match(base.tasks, human.tasks)
	m := merger{base: base, host: host, target: human, humanWins: true}
	m.out.Changes = personChanges(base.tasks, human.tasks, toHuman, added)
	m.out.Changes = append(m.out.Changes, statusChanges(base, human)...)
	m.out.Changes = append(m.out.Changes, sectionChanges(base, human, "tasks", fold(SectionStatus))...)
	toHost, hostAdded := match(base.tasks, host.tasks)
	m.out.Ticked = ticked(base.tasks, human.tasks, host.tasks, toHuman, toHost, added)
	switch {
	case bytes.Equal(host.src, base.src) || bytes.Equal(host.src, human.src):
		m.out.Doc = human.Clone()
		return m.out
	case bytes.Equal(human.src, base.src):
		m.out.Doc = host.Clone()
		return m.out
	}
	m.tasks(views(base), views(host), toHost, toHuman, hostAdded, added)
	m.sections()
	m.apply()
	return m.out
}

// MergeTasks puts into host what people did to a list of tasks that shows no
// more than titles, boxes, marks and order, such as that in a pull request:
// base is the list as it was shown, human what became of it. People win.
func MergeTasks(base, human []run.Task, host *Doc) Merged {
	was, now := bareTasks(base), bareTasks(once(human))
	toHuman, added := match(was, now)
	target := host.reordered(was, now, toHuman)
	m := merger{host: target, target: target, titles: true}
	m.out.Changes = personChanges(was, now, toHuman, added)
	toHost, hostAdded := match(was, target.tasks)
	m.out.Ticked = ticked(was, now, target.tasks, toHuman, toHost, nil)
	m.tasks(bareViews(was), bareViews(now), toHuman, toHost, added, hostAdded)
	m.apply()
	return m.out
}

// once leaves out copies: who pastes a list twice means it once.
func once(ts []run.Task) (out []run.Task) {
	type name struct{ id, title string }
	seen := make(map[name]bool, len(ts))
	for _, t := range ts {
		n := name{t.ID, t.Title}
		if t.ID == "" || !seen[n] {
			out = append(out, t)
		}
		seen[n] = true
	}
	return out
}

// bareTasks are tasks without a document. Two of one id are told apart by their
// titles.
func bareTasks(ts []run.Task) []task {
	out := make([]task, len(ts))
	seen := make(map[string]bool, len(ts))
	for i, t := range ts {
		if seen[t.ID] {
			t.ID = ""
		}
		seen[t.ID] = true
		out[i] = task{Task: t}
	}
	return out
}

// ticked are the tasks that are done for the person and for nobody else.
func ticked(base, human, host []task, toHuman, toHost, added []int) (ids []string) {
	for i := range base {
		if toHuman[i] < 0 || human[toHuman[i]].Status != run.TaskDone || base[i].Status == run.TaskDone {
			continue
		}
		if toHost[i] < 0 || host[toHost[i]].Status != run.TaskDone {
			ids = append(ids, human[toHuman[i]].ID)
		}
	}
	for _, i := range added {
		if human[i].Status == run.TaskDone && human[i].ID != "" {
			ids = append(ids, human[i].ID)
		}
	}
	return ids
}

// personChanges lists what was done to tasks.
func personChanges(base, human []task, to, added []int) (cs []Change) {
	for i := range base {
		b := &base[i]
		if to[i] < 0 {
			cs = append(cs, change(ChangeRemoved, b.ID, b.Title))
			continue
		}
		u := &human[to[i]]
		switch {
		case u.Status == b.Status:
		case u.Status == run.TaskDone:
			cs = append(cs, change(ChangeTicked, b.ID, b.Title))
		case b.Status == run.TaskDone && u.Status == run.TaskOpen:
			cs = append(cs, change(ChangeUnticked, b.ID, b.Title))
		default:
			cs = append(cs, change(marked(u.Status), b.ID, b.Title))
		}
		if reworded(&b.Task, &u.Task) {
			cs = append(cs, change(ChangeReworded, b.ID, u.Title))
		}
		if u.ID != b.ID && u.idEnd > 0 {
			cs = append(cs, change(ChangeRenumbered, b.ID, b.Title))
		}
	}
	cs = append(cs, orderChanges(base, human, to)...)
	for _, i := range added {
		cs = append(cs, change(ChangeAdded, human[i].ID, human[i].Title))
	}
	return cs
}

// Sentences tell a person in full sentences what became of the edits.
func (m Merged) Sentences() []string {
	out := make([]string, 0, 1+len(m.Conflicts))
	if len(m.Changes) > 0 {
		parts := make([]string, 0, len(m.Changes))
		for i, c := range m.Changes {
			if i == maxAlike {
				parts = append(parts, fmt.Sprintf("%d more", len(m.Changes)-i))
				break
			}
			parts = append(parts, c.String())
		}
		out = append(out, "Taken in: "+strings.Join(parts, "; ")+".")
	}
	for _, c := range m.Conflicts {
		out = append(out, c.Text)
	}
	return out
}

func statusChanges(base, human *Doc) []Change {
	if sameText(base.Section(SectionStatus), human.Section(SectionStatus)) {
		return nil
	}
	return []Change{change(ChangeStatus, "", human.Status())}
}

// view is a task with what is written of it.
type view struct {
	*task
	words string // from the box to the mark, without the id
	raw   string // the same as written
	below []string
	block string // all its lines
}

func views(d *Doc) []view {
	out := make([]view, len(d.tasks))
	for i := range d.tasks {
		t := &d.tasks[i]
		start, body, stop := d.block(i)
		words := string(d.src[t.box+len(" ]") : t.suffix])
		out[i] = view{task: t, raw: words, below: textLines(string(d.src[body:stop])), block: string(d.src[start:stop])}
		if t.idEnd > 0 {
			words = string(d.src[t.box+len(" ]"):t.idStart]) + string(d.src[t.idEnd:t.suffix])
		}
		out[i].words = strs.OneLine(words)
	}
	return out
}

func bareViews(ts []task) []view {
	out := make([]view, len(ts))
	for i := range ts {
		out[i] = view{task: &ts[i], words: strs.OneLine(ts[i].Title)}
	}
	return out
}

// block is where task i stands: its first line, the line after its text, and
// the line after all that belongs to it.
func (d *Doc) block(i int) (start, body, stop int) {
	t := &d.tasks[i]
	body = lineEnd(d.src, max(t.textEnd-1, t.box))
	return lineStart(d.src, t.item), body, max(body, t.end)
}

// edit is one thing to be put into a document, and what that does to the
// number of its tasks, of those done, and of its sections.
type edit struct {
	patches            []patch
	tasks, done, heads int
	gone, come         []string // titles, where they are known
	id, what           string   // for whom it concerns, should it be refused
}

// merger puts what the other side changed of base into target.
type merger struct {
	base, host, target *Doc
	// humanWins: target is the person's; else the other side is.
	humanWins bool
	// titles: the other side knows nothing of a task but its title and box.
	titles bool
	edits  []edit
	out    Merged
}

func (m *merger) conflict(id, format string, args ...any) {
	m.out.Conflicts = append(m.out.Conflicts, Conflict{TaskID: id, Text: fmt.Sprintf(format, args...)})
}

// tasks merges those of other. toOther and toTarget say where those of base
// are; added and own are what is new in other and in target.
func (m *merger) tasks(base, other []view, toOther, toTarget, added, own []int) {
	target := views(m.target)
	where := make(map[int]int, len(other)) // from other to target
	for i, b := range base {
		o, t := toOther[i], toTarget[i]
		switch {
		case o >= 0 && t >= 0:
			where[o] = t
			m.task(b, other[o], target[t], t)
		case o >= 0: // gone from target
			if m.humanWins && changedTask(b, other[o]) {
				m.removedMeanwhile(b, other[o])
			}
		case t >= 0: // gone from other
			if m.humanWins && changedTask(b, target[t]) {
				m.conflict(b.ID, "%s: the run dropped it while you changed it; it stays as you have it.", quote(b.Task))
				continue
			}
			if !m.humanWins && target[t].Status != b.Status {
				m.removedMeanwhile(b, target[t])
			}
			start, _, stop := m.target.block(t)
			e := edit{
				patches: []patch{{start, stop, ""}}, tasks: -1, gone: []string{target[t].Title}, id: b.ID, what: quote(b.Task),
			}
			if target[t].Status == run.TaskDone {
				e.done = -1
			}
			m.edits = append(m.edits, e)
		}
	}
	m.added(other, target, added, own, where)
}

func changedTask(a, b view) bool {
	return a.Status != b.Status || a.words != b.words || !slices.Equal(a.below, b.below)
}

func (m *merger) removedMeanwhile(b, now view) {
	if now.Status == run.TaskDone && b.Status != run.TaskDone {
		m.conflict(b.ID, "%s: you removed it while it was being done; it stays removed, and the work stays on the branch.",
			quote(b.Task))
		return
	}
	m.conflict(b.ID, "%s: you removed it while the run changed it; it stays removed.", quote(b.Task))
}

// task merges one task: at is its index in target.
func (m *merger) task(b, o, t view, at int) {
	e := edit{id: b.ID, what: quote(b.Task)}
	human, host := t, o
	if !m.humanWins {
		human, host = o, t
	}
	if was, is := m.state(b), m.state(t); m.state(o) != was && m.state(o) != is {
		if is != was {
			m.conflict(b.ID, "%s: the run had it as %s while you had it as %s; yours was kept.", quote(b.Task), host.Status,
				human.Status)
		}
		if is == was || !m.humanWins {
			m.setState(&e, o, t)
		}
	}
	if o.words != b.words && o.words != t.words {
		own := !m.titles && t.words != b.words // a title may be shown as other than it is
		if own {
			m.conflict(b.ID, "%s: you and the run reworded it at the same time; your wording was kept.", quote(b.Task))
		}
		if !own || !m.humanWins {
			e.patches = append(e.patches, m.wording(o, t))
			e.gone = append(e.gone, t.Title)
			if !m.titles { // what people type into a title may read as more than that
				e.come = append(e.come, o.Title)
			}
		}
	}
	if human.words != b.words && host.Status == run.TaskDone && b.Status != run.TaskDone {
		m.conflict(b.ID, "%s: you reworded it while it was being done; your wording was kept, and it counts as done.",
			quote(human.Task))
	}
	if !slices.Equal(o.below, b.below) && !slices.Equal(o.below, t.below) {
		lines, clash := merge3(b.below, o.below, t.below)
		if clash {
			m.conflict(b.ID, "%s: you and the run changed the same lines below it; yours were kept.", quote(b.Task))
		}
		if !slices.Equal(lines, t.below) {
			_, body, stop := m.target.block(at)
			text := strings.Join(lines, m.target.eol()) + m.target.eol()
			if body > 0 && m.target.src[body-1] != '\n' {
				text = m.target.eol() + text
			}
			e.patches = append(e.patches, patch{body, stop, text})
		}
	}
	if len(e.patches) > 0 {
		m.edits = append(m.edits, e)
	}
}

// state is where a task stands, with the reason where that is shown.
func (m *merger) state(v view) string {
	if m.titles {
		return string(v.Status)
	}
	if v.Status == run.TaskBlocked || v.Status == run.TaskSkipped {
		return string(v.Status) + " " + v.Reason
	}
	return string(v.Status)
}

// setState gives t the box and the mark of o.
func (m *merger) setState(e *edit, o, t view) {
	box := " "
	if o.Status == run.TaskDone {
		box = "x"
		e.done++
	}
	if t.Status == run.TaskDone {
		e.done--
	}
	if (o.Status == run.TaskDone) != (t.Status == run.TaskDone) {
		e.patches = append(e.patches, patch{t.box, t.box + 1, box})
	}
	switch {
	case o.Status == run.TaskDone:
	case o.Status == run.TaskBlocked || o.Status == run.TaskSkipped:
		reason := o.Reason
		if reason == "" && m.titles {
			reason = "by a person"
		}
		e.patches = append(e.patches, patch{t.suffix, t.textEnd, markText(o.Status, reason)})
	case t.mark != "":
		e.patches = append(e.patches, patch{t.suffix, t.textEnd, ""})
	}
}

// wording gives t the words of o.
func (m *merger) wording(o, t view) patch {
	if !m.titles {
		return patch{t.box + len(" ]"), t.suffix, m.target.withEOL(o.raw)}
	}
	return patch{t.title, t.suffix, cleanTitle(o.Title)}
}

// cleanTitle is a title that a person wrote elsewhere.
func cleanTitle(s string) string {
	line := strings.TrimSuffix(renderTask(run.Task{Title: s}), "\n")
	return strings.TrimPrefix(line, "- [ ] ")
}

// added puts in the tasks that are new in other, each behind the one it
// follows there.
func (m *merger) added(other, target []view, added, own []int, where map[int]int) {
	if len(added) == 0 {
		return
	}
	mine := make(map[string]int, len(own))
	for _, t := range slices.Backward(own) {
		mine[target[t].Title] = t
	}
	free := newNumbers(m.target)
	free.mentioned(string(m.target.src))
	free.mentioned(string(m.host.src))
	for _, v := range other {
		free.mentioned(v.ID + " ")
	}
	byID := make(map[string]int, len(target))
	for t := range target {
		if target[t].ID != "" {
			byID[target[t].ID] = t
		}
	}
	var ends additions
	endTasks := edit{what: "new tasks"}
	before, seen := -1, 0 // the last task of other[:seen] that has a place in target
	for _, o := range added {
		v := other[o]
		e := edit{id: v.ID, what: quote(v.Task), tasks: 1}
		if t, ok := mine[v.Title]; ok { // both sides thought of it
			delete(mine, v.Title)
			where[o] = t
			e.tasks = 0
			if m.humanWins && target[t].ID == "" && target[t].idEnd == 0 && v.ID != "" {
				e.patches = append(e.patches, patch{target[t].box + len(" ]"), target[t].box + len(" ]"), " " + v.ID})
			}
			if v.Status == run.TaskDone && target[t].Status == run.TaskOpen {
				m.setState(&e, v, target[t])
			}
			if len(e.patches) > 0 {
				m.edits = append(m.edits, e)
			}
			continue
		}
		if v.Status == run.TaskDone {
			e.done = 1
		}
		if t, taken := byID[v.ID]; taken && m.humanWins {
			// The host's task is known by it; the person's gets another.
			e.patches = append(e.patches, patch{target[t].idStart, target[t].idEnd, free.next()})
		}
		text := m.target.withEOL(v.block)
		if !m.titles {
			e.come = []string{v.Title}
		} else {
			nt := v.Task
			nt.ID, nt.Group = free.next(), ""
			text = m.target.withEOL(renderTask(nt))
		}
		text = strings.TrimRight(text, "\r\n")
		for ; seen < o; seen++ {
			if contains(where, seen) {
				before = seen
			}
		}
		switch {
		case before >= 0 && (m.titles || target[where[before]].Group == v.Group):
			where[o] = where[before]
			_, _, stop := m.target.block(where[before])
			e.patches = append(e.patches, m.target.linePatch(stop, text))
		case m.titles && len(target) > 0:
			start, _, _ := m.target.block(0)
			e.patches = append(e.patches, m.target.linePatch(start, text))
		default:
			ends.add(m.target, v.Group, text)
			endTasks.tasks++
			endTasks.done += e.done
			endTasks.come = append(endTasks.come, e.come...)
			endTasks.patches = append(endTasks.patches, e.patches...)
			continue
		}
		m.edits = append(m.edits, e)
	}
	endTasks.patches = append(endTasks.patches, ends.patches(m.target)...)
	if ends.made.Len() > 0 {
		p, _ := m.target.contentPatch(SectionTasks, -1, ends.made.String())
		endTasks.heads, endTasks.patches = 1, append(endTasks.patches, p)
	}
	if endTasks.tasks > 0 {
		m.edits = append(m.edits, endTasks)
	}
}

func contains(m map[int]int, k int) bool { _, ok := m[k]; return ok }

// linePatch puts lines in at the start of a line, or at the end of a document
// that does not end with one.
func (d *Doc) linePatch(at int, text string) patch {
	text += d.eol()
	if at > 0 && d.src[at-1] != '\n' {
		text = d.eol() + text
	}
	return patch{at, at, text}
}

// reordered is d with its tasks in the order in which people have put them: to
// says where the tasks of base are in human. Tasks that were not moved stay.
func (d *Doc) reordered(base, human []task, to []int) *Doc {
	inHost, _ := match(base, d.tasks)
	hostOf := make(map[int]int, len(base)) // from human to d
	for i := range base {
		if to[i] >= 0 && inHost[i] >= 0 {
			hostOf[to[i]] = inHost[i]
		}
	}
	moved := make(map[int]bool)
	for i, stayed := range rising(to) {
		if to[i] >= 0 && inHost[i] >= 0 && !stayed {
			moved[to[i]] = true
		}
	}
	first := -1 // where tasks go that now come before all others
	for i := range human {
		if t, ok := hostOf[i]; ok && !moved[i] {
			first, _, _ = d.block(t)
			break
		}
	}
	if len(moved) == 0 || first < 0 {
		return d.Clone()
	}
	var ps []patch
	at := first
	for i := range human {
		t, ok := hostOf[i]
		if !ok {
			continue
		}
		start, _, stop := d.block(t)
		if !moved[i] {
			at = stop
			continue
		}
		ps = append(ps, patch{start, stop, ""}, d.linePatch(at, strings.TrimRight(string(d.src[start:stop]), "\r\n")))
	}
	if c, ok := d.edited([]edit{{patches: ps}}); ok {
		return c
	}
	return d.Clone() // in a document like that they stay where they are
}

// sections merges all but the tasks. Those with tasks in them are the human's,
// but for the tasks.
func (m *merger) sections() {
	was, now := bySegment(m.base), bySegment(m.target)
	tasks := make(map[string]bool)
	for _, d := range []*Doc{m.base, m.host, m.target} {
		d.taskSegments(tasks)
	}
	var fresh []edit // they go behind all that goes to the same place
	for _, h := range segments(m.host) {
		if tasks[h.key] {
			continue
		}
		b, had := was[h.key]
		u, has := now[h.key]
		base := ""
		if had {
			base = m.base.body(b)
		}
		ours := m.host.body(h)
		if had && sameText(base, ours) {
			continue
		}
		e := edit{what: "the section " + plain(h.title)}
		switch {
		case !has && had:
			m.conflict("", "%s: you removed this section while the run wrote into it; it stays removed.", plain(h.title))
			continue
		case !has:
			p, _ := m.target.contentPatch(h.title, -1, strings.Trim(ours, "\r\n"))
			e.heads, e.patches = 1, []patch{p}
			fresh = append(fresh, e)
			continue
		case h.name == fold(SectionLog):
			e.patches = m.logRows(base, ours, u)
		case h.name == fold(SectionStatus):
			if p, change := m.target.fillPatch(u.body, u.stop, ours); change {
				e.patches = []patch{p}
			}
		default:
			lines, clash := merge3(textLines(base), textLines(ours), textLines(m.target.body(u)))
			if clash {
				m.conflict("", "%s: you and the run changed the same lines; yours were kept.", plain(h.title))
			}
			if slices.Equal(lines, textLines(m.target.body(u))) {
				continue
			}
			if p, change := m.target.fillPatch(m.target.bodyStart(u), u.stop, strings.Join(lines, "\n")); change {
				e.patches = []patch{p}
			}
		}
		if len(e.patches) > 0 {
			m.edits = append(m.edits, e)
		}
	}
	m.edits = append(m.edits, fresh...)
}

func bySegment(d *Doc) map[string]segment {
	out := make(map[string]segment)
	for _, s := range segments(d) {
		out[s.key] = s
	}
	return out
}

// taskSegments marks the segments of d that hold tasks.
func (d *Doc) taskSegments(in map[string]bool) {
	ss := segments(d)
	k := 0
	for _, t := range d.tasks {
		for k+1 < len(ss) && ss[k].stop <= t.box {
			k++
		}
		in[ss[k].key] = true
	}
}

// logRows are the rows of the host's log that neither base nor the person's
// log has, put behind the last row of the latter.
func (m *merger) logRows(base, ours string, u segment) []patch {
	d := m.target
	have := make(map[string]bool)
	for _, l := range slices.Concat(textLines(base), textLines(d.body(u))) {
		have[l] = true
	}
	var rows []string
	for _, l := range textLines(ours) {
		if strings.HasPrefix(l, "|") && !have[l] {
			rows = append(rows, l)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	text := strings.Join(rows, d.eol())
	for _, l := range slices.Backward(d.prose) {
		if l.start >= u.body && l.stop <= u.stop && l.start < l.stop && d.src[l.start] == '|' {
			return []patch{d.linePatch(lineEnd(d.src, l.start), text)}
		}
	}
	if !strings.HasPrefix(rows[0], "| Iteration |") {
		text = d.withEOL(logHeader) + text
	}
	return []patch{d.tailPatch(u.body, u.stop, false, text)}
}

// apply puts the edits into the target, mostly all in one go. What would do
// more to the document than it is meant to is left out, and said.
func (m *merger) apply() {
	var kept []edit
	m.out.Doc = m.target.Clone()
	var admit func(es []edit)
	admit = func(es []edit) {
		if len(es) == 0 {
			return
		}
		all := slices.Concat(kept, es)
		if d, ok := m.target.edited(all); ok {
			m.out.Doc, kept = d, all
			return
		}
		if len(es) == 1 {
			m.conflict(es[0].id, "What changed meanwhile of %s could not be put into the other version.", es[0].what)
			return
		}
		admit(es[:len(es)/2])
		admit(es[len(es)/2:])
	}
	admit(m.edits)
}

// edited is d with all edits made. It is not ok where the numbers of tasks, of
// those done and of sections are not what they have to be, or a title is not.
func (d *Doc) edited(es []edit) (_ *Doc, ok bool) {
	var ps []patch
	tasks, done, titles := tally(d)
	heads := len(segments(d))
	for _, e := range es {
		ps = append(ps, e.patches...)
		tasks, done, heads = tasks+e.tasks, done+e.done, heads+e.heads
		for _, t := range e.gone {
			titles[t]--
		}
		for _, t := range e.come {
			titles[t]++
		}
	}
	c := d.Clone()
	if err := c.patch(ps...); err != nil {
		return nil, false
	}
	gotTasks, gotDone, got := tally(c)
	for t, n := range titles {
		if got[t] < n {
			return nil, false
		}
	}
	return c, gotTasks == tasks && gotDone == done && len(segments(c)) == heads
}

func tally(d *Doc) (tasks, done int, titles map[string]int) {
	titles = make(map[string]int, len(d.tasks))
	for i := range d.tasks {
		titles[d.tasks[i].Title]++
		if d.tasks[i].Status == run.TaskDone {
			done++
		}
	}
	return len(d.tasks), done, titles
}
