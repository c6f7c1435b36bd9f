package progress

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
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
	maxLearnings   = 128 << 10
	maxTaskSection = 256 << 10
	// maxAlike bounds the violations of one kind: they all go into a prompt.
	maxAlike = 8
)

// ViolationKind says which rule an agent broke.
type ViolationKind string

// The rules an agent can break in its progress file.
const (
	ViolationTickedOther  ViolationKind = "ticked_other"
	ViolationUnticked     ViolationKind = "unticked"
	ViolationRemoved      ViolationKind = "removed"
	ViolationReworded     ViolationKind = "reworded"
	ViolationReordered    ViolationKind = "reordered"
	ViolationIDs          ViolationKind = "changed_ids"
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
	// completion marker, and what it quotes from the document is on one line
	// and acts neither on a prompt nor on GitHub.
	Text string
}

// ChangeKind says what was done to a document.
type ChangeKind string

// What can be done to a document, by an agent or by a person.
const (
	ChangeTicked         ChangeKind = "ticked"
	ChangeUnticked       ChangeKind = "unticked"
	ChangeBlocked        ChangeKind = "blocked"
	ChangeSkipped        ChangeKind = "skipped"
	ChangeReopened       ChangeKind = "reopened" // no longer blocked or skipped
	ChangeRemoved        ChangeKind = "removed"
	ChangeReworded       ChangeKind = "reworded" // title, priority, markers or lines below
	ChangeReordered      ChangeKind = "reordered"
	ChangeMoved          ChangeKind = "moved" // to another group
	ChangeRenumbered     ChangeKind = "renumbered"
	ChangeAdded          ChangeKind = "added"
	ChangeRepeated       ChangeKind = "repeated" // a task that is there written once more
	ChangeStatus         ChangeKind = "status"
	ChangeMarker         ChangeKind = "marker" // the completion marker put
	ChangeLog            ChangeKind = "log"
	ChangeLearned        ChangeKind = "learned" // added to the Learnings
	ChangeSection        ChangeKind = "section"
	ChangeSectionAdded   ChangeKind = "section_added"
	ChangeSectionRemoved ChangeKind = "section_removed"
	ChangeUnreadable     ChangeKind = "unreadable"
)

// Change is one thing that was done to a document.
type Change struct {
	Kind   ChangeKind
	TaskID string // "" where it is not about a task, or the task has no id
	// Text is the title of the task or the name of the section, on one line.
	Text string
}

// String is the change as half a sentence for people: `T3 "Wire it" ticked`.
func (c Change) String() string {
	if c.Kind == ChangeStatus {
		return "Status set to " + strconv.QuoteToGraphic(c.Text)
	}
	what := strconv.QuoteToGraphic(c.Text)
	switch c.Kind { //nolint:exhaustive // the others are about tasks
	case ChangeSection, ChangeLog, ChangeLearned, ChangeMarker:
		return "section " + what + " changed"
	case ChangeSectionAdded:
		return "section " + what + " added"
	case ChangeSectionRemoved:
		return "section " + what + " removed"
	case ChangeUnreadable:
		return "file unreadable"
	}
	if c.TaskID != "" {
		what = c.TaskID + " " + what
	}
	if c.Kind == ChangeMoved {
		return what + " moved to another group"
	}
	return what + " " + string(c.Kind)
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
	// Violations are what the next prompt is told.
	Violations []Violation
	// Changes are all that the agent did to the document, allowed or not.
	Changes []Change
}

func (v *Verdict) add(kind ViolationKind, format string, args ...any) {
	v.Violations = append(v.Violations, Violation{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

func (v *Verdict) changed(kind ChangeKind, id, text string) {
	v.Changes = append(v.Changes, change(kind, id, text))
}

func change(kind ChangeKind, id, text string) Change {
	return Change{Kind: kind, TaskID: id, Text: plain(text)}
}

// Judge compares the document before an iteration with what the agent left,
// where assigned is the id of the task it was given. Taken over are Analysis,
// Testing Strategy, Codebase Patterns and Recent Attempts as they are, what
// was added to Learnings, and new tasks, open and with ids of the host's.
// Everything else is as before; sections the format does not know, the title
// and Completed This Iteration are put back without a word, and so is the
// order of tasks, unless it is that of tasks still to do: which of them comes
// next is for the host to say. after is nil if the file is gone or could not
// be read.
func Judge(before, after *Doc, assigned string) Verdict {
	if after == nil {
		return unreadable(before)
	}
	var v Verdict
	v.ClaimedDone = after.MarkedDone()
	added := v.compareTasks(before, after, assigned)
	v.compareStatus(before, after, assigned)
	v.Changes = append(v.Changes, sectionChanges(before, after, "tasks", fold(SectionStatus), fold(SectionLog),
		fold(SectionLearnings))...)
	ts := v.notes(before, after)
	full := len(before.Section(SectionTasks)) > maxTaskSection
	for i, t := range added {
		if full || i == maxNewTasks || len(before.tasks)+i >= maxTasks {
			v.add(ViolationTooMuch, "%d new tasks were ignored: at most %d are taken from one iteration, and %d in "+
				"all. Plan in larger steps.", len(added)-i, maxNewTasks, maxTasks)
			break
		}
		ts = append(ts, taking{task: &t})
	}
	v.takeAll(before, ts)
	v.fewer()
	return v
}

// JudgePlan is Judge for plan mode, where writing the tasks is the work: the
// Tasks section is taken from after, with all boxes open and an id on each
// task. Claiming completion is a violation.
func JudgePlan(before, after *Doc) Verdict {
	if after == nil {
		return unreadable(before)
	}
	var v Verdict
	if v.ClaimedDone = after.MarkedDone(); v.ClaimedDone && !before.MarkedDone() {
		v.changed(ChangeMarker, "", SectionStatus)
		v.add(ViolationPremature, "A planning iteration never marks the work as complete; the Status section was restored.")
	} else if !sameText(before.Section(SectionStatus), after.Section(SectionStatus)) {
		v.changed(ChangeStatus, "", after.Status())
		v.add(ViolationForgedStatus, "The Status section belongs to the host; it was restored.")
	}
	v.compareLog(before, after)
	v.Changes = append(v.Changes, sectionChanges(before, after, "tasks", fold(SectionStatus), fold(SectionLog), fold(SectionLearnings))...)
	for _, t := range after.tasks {
		v.changed(ChangeAdded, t.ID, t.Title)
	}
	ts := v.notes(before, after)
	plan, ok := v.plan(before, after)
	if ok {
		ts = append(ts, plan)
	}
	v.takeAll(before, ts)
	return v
}

func unreadable(before *Doc) Verdict {
	v := Verdict{Accepted: before.Clone()}
	v.changed(ChangeUnreadable, "", "")
	v.add(ViolationUnreadable, "The progress file was removed or could not be read; it was restored. Edit it in "+
		"place and keep it plain Markdown.")
	return v
}

// fewer leaves a few violations of each kind and says how many more there
// were.
func (v *Verdict) fewer() {
	count := make(map[ViolationKind]int)
	kept := v.Violations[:0]
	var left []ViolationKind
	for _, x := range v.Violations {
		if count[x.Kind]++; count[x.Kind] <= maxAlike {
			kept = append(kept, x)
		} else if count[x.Kind] == maxAlike+1 {
			left = append(left, x.Kind)
		}
	}
	v.Violations = kept
	for _, kind := range left {
		v.add(kind, "The same was found at %d more tasks, and restored there too.", count[kind]-maxAlike)
	}
}

// actsRE finds what starts a mention, a reference or a link on GitHub.
var actsRE = strs.Lazy(`(?i)[@#]\b|\bgh-\b|://\b|\bwww\.\b`)

// quoted takes from a text what could end a wrapper around it: tags and
// borders, code quotes, and any completion marker.
var quoted = strings.NewReplacer("<", "‹", ">", "›", "`", "'", "-----", "-", "=====", "=", "~~~", "~",
	hints[0], "(marker)", hints[1], "(marker)")

// plain makes text from a document fit to be quoted: one short line, nothing
// invisible, nothing that acts on a prompt or on GitHub.
func plain(s string) string {
	s, _ = Clean(s)
	s = quoted.Replace(strs.Cut(strs.OneLine(s), 120))
	return actsRE().ReplaceAllString(s, "$0 ")
}

// quote names a task for a sentence.
func quote(t run.Task) string {
	title := strconv.QuoteToGraphic(plain(t.Title))
	if t.ID == "" {
		return title
	}
	return t.ID + " " + title
}

func sameText(a, b string) bool {
	return a == b || strings.TrimSpace(strings.ReplaceAll(a, "\r\n", "\n")) == strings.TrimSpace(strings.ReplaceAll(b,
		"\r\n", "\n"))
}

// match says for each task of a which one of b it is, or -1, and which of b
// are no task of a. The same id and title are the same task; then titles count
// before ids: who renumbers a list means its tasks, not its numbers. It takes
// time linear in the number of tasks.
func match(a, b []task) (to []int, others []int) {
	to = make([]int, len(a))
	taken := make([]bool, len(b))
	n := 0 // up to here nothing was changed
	for n < len(a) && n < len(b) && a[n].ID == b[n].ID && a[n].Title == b[n].Title {
		to[n], taken[n] = n, true
		n++
	}
	byID, byTitle := make(map[string]int), make(map[string][]int)
	for i := n; i < len(b); i++ {
		if b[i].ID != "" {
			byID[b[i].ID] = i
		}
	}
	for i := n; i < len(a); i++ {
		to[i] = -1
		if k, ok := byID[a[i].ID]; ok && b[k].Title == a[i].Title {
			to[i], taken[k] = k, true
		}
	}
	for i := n; i < len(b); i++ {
		if !taken[i] {
			byTitle[b[i].Title] = append(byTitle[b[i].Title], i)
		}
	}
	for i := n; i < len(a); i++ {
		if ks := byTitle[a[i].Title]; to[i] < 0 && len(ks) > 0 {
			to[i], taken[ks[0]] = ks[0], true
			byTitle[a[i].Title] = ks[1:]
		}
	}
	for i := n; i < len(a); i++ {
		if k, ok := byID[a[i].ID]; to[i] < 0 && ok && !taken[k] {
			to[i], taken[k] = k, true
		}
	}
	for i := n; i < len(b); i++ {
		if !taken[i] {
			others = append(others, i)
		}
	}
	return to, others
}

// rising picks a longest rising subsequence of seq, without its negative
// members: what of a list was left in its order. It says for each member
// whether it belongs to it.
func rising(seq []int) []bool {
	in := make([]bool, len(seq))
	var ends []int // ends[n] is where the best run of n+1 members ends
	prev := make([]int, len(seq))
	for i, x := range seq {
		if x < 0 {
			continue
		}
		n := len(ends)
		if n > 0 && seq[ends[n-1]] > x {
			n, _ = slices.BinarySearchFunc(ends, x, func(e, x int) int { return seq[e] - x })
		}
		prev[i] = -1
		if n > 0 {
			prev[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	if len(ends) > 0 {
		for i := ends[len(ends)-1]; i >= 0; i = prev[i] {
			in[i] = true
		}
	}
	return in
}

// compareTasks reports what was done to the tasks of before, and returns those
// that are new.
func (v *Verdict) compareTasks(before, after *Doc, assigned string) (added []run.Task) {
	to, others := match(before.tasks, after.tasks)
	v.compareIDs(before, after, to)
	for i, b := range before.tasks {
		if to[i] < 0 {
			v.changed(ChangeRemoved, b.ID, b.Title)
			v.add(ViolationRemoved, "Task %s was removed; it was restored. Tasks are never deleted.", quote(b.Task))
			continue
		}
		v.compareTask(&b, &after.tasks[to[i]], assigned)
	}
	v.compareOrder(before, after, to)
	titles := make(map[string]bool)
	if len(others) > 0 {
		for _, b := range before.tasks {
			titles[b.Title] = true
		}
	}
	for _, i := range others {
		t := after.tasks[i].Task
		if cutOff(before, after, i, to) {
			continue // what became of the task it was is said already
		}
		if titles[t.Title] {
			v.changed(ChangeRepeated, t.ID, t.Title)
			continue
		}
		v.changed(ChangeAdded, "", t.Title)
		if t.Status == run.TaskDone {
			v.add(ViolationTickedOther, "Task %s was added with its box ticked; it was kept as open.",
				quote(run.Task{Title: t.Title}))
		}
		t.ID, t.Status = "", run.TaskOpen
		for at, mark, _ := suffix(t.Title); mark != ""; at, mark, _ = suffix(t.Title) {
			t.Title = strings.TrimSpace(t.Title[:at]) // else it would be read as a mark of the host's
		}
		added = append(added, t)
	}
	return added
}

// cutOff says whether task i of after is no new one but all that is left of the last
// task in a file that was cut off within its line: the file ends with it, and a task
// that is gone begins like it.
func cutOff(before, after *Doc, i int, to []int) bool {
	rest := bytes.TrimRight(after.src[after.tasks[i].item:], "\r\n")
	if i < len(after.tasks)-1 || bytes.ContainsAny(rest, "\r\n") {
		return false
	}
	for k, b := range before.tasks {
		if to[k] < 0 && bytes.HasPrefix(before.src[b.item:], rest) {
			return true
		}
	}
	return false
}

// compareIDs reports ids that were given anew or twice. One that was lost does
// no harm: the host puts it back.
func (v *Verdict) compareIDs(before, after *Doc, to []int) {
	n := len(v.Changes)
	for i, b := range before.tasks {
		if to[i] >= 0 && after.tasks[to[i]].ID != b.ID && after.tasks[to[i]].idEnd > 0 {
			v.changed(ChangeRenumbered, b.ID, b.Title)
		}
	}
	if len(v.Changes) > n {
		v.add(ViolationIDs, "The number of task %s was changed or given twice; the numbers belong to the host and "+
			"were restored.", v.Changes[n].TaskID)
	}
}

// compareTask reports what was done to one task.
func (v *Verdict) compareTask(b, a *task, assigned string) {
	doneBefore, doneAfter := b.Status == run.TaskDone, a.Status == run.TaskDone
	switch {
	case doneAfter && !doneBefore && b.ID == assigned && assigned != "":
		v.changed(ChangeTicked, b.ID, b.Title)
		v.TickedAssigned = true
	case doneAfter && !doneBefore:
		v.changed(ChangeTicked, b.ID, b.Title)
		v.add(ViolationTickedOther, "Task %s was ticked, but it was not the task of this iteration; it was unticked. "+
			"Work on one task only.", quote(b.Task))
	case doneBefore && !doneAfter:
		v.changed(ChangeUnticked, b.ID, b.Title)
		v.add(ViolationUnticked, "Task %s was unticked; it was ticked again. To redo it, add a new task that says why.",
			quote(b.Task))
	case a.Status != b.Status && !doneAfter:
		v.changed(marked(a.Status), b.ID, b.Title)
		v.add(ViolationForgedStatus, "Task %s was marked as %s; only the host decides that. Say under %s what the "+
			"problem is.", quote(b.Task), a.Status, SectionAttempts)
	}
	if reworded(&b.Task, &a.Task) {
		v.changed(ChangeReworded, b.ID, b.Title)
		v.add(ViolationReworded, "Task %s or the lines below it (acceptance criteria, Verify, Commit, Files, Do) were changed; "+
			"the original was restored. If the task is wrong, add a new task that says so.", quote(b.Task))
	}
}

// marked names the change to a status that is not done.
func marked(s run.TaskStatus) ChangeKind {
	switch s {
	case run.TaskBlocked:
		return ChangeBlocked
	case run.TaskSkipped:
		return ChangeSkipped
	case run.TaskOpen, run.TaskInProgress, run.TaskInReview, run.TaskDone:
	}
	return ChangeReopened
}

// reworded says whether two tasks ask for different things.
func reworded(a, b *run.Task) bool {
	return a.Title != b.Title || a.Priority != b.Priority || a.Parallel != b.Parallel || a.Verify != b.Verify ||
		!slices.Equal(a.Accept, b.Accept) || !slices.Equal(a.DependsOn, b.DependsOn) ||
		!slices.Equal(a.Checks, b.Checks) || a.Subject != b.Subject || !slices.Equal(a.Files, b.Files) ||
		!slices.Equal(a.Steps, b.Steps)
}

// orderChanges lists the tasks that stand elsewhere.
func orderChanges(a, b []task, to []int) (cs []Change) {
	stayed := rising(to)
	for i := range a {
		switch {
		case to[i] < 0:
		case a[i].Group != b[to[i]].Group:
			cs = append(cs, change(ChangeMoved, a[i].ID, a[i].Title))
		case !stayed[i]:
			cs = append(cs, change(ChangeReordered, a[i].ID, a[i].Title))
		}
	}
	return cs
}

// compareOrder reports tasks that stand elsewhere, where that matters.
func (v *Verdict) compareOrder(before, after *Doc, to []int) {
	v.Changes = append(v.Changes, orderChanges(before.tasks, after.tasks, to)...)
	last := -1
	for i := range before.tasks {
		b := &before.tasks[i]
		if to[i] < 0 || !b.Actionable() {
			continue
		}
		if to[i] < last || b.Group != after.tasks[to[i]].Group {
			v.add(ViolationReordered, "The open tasks were put in another order or under other headings, and were "+
				"restored. The host decides what comes next; to propose another order, say why under %s.", SectionAnalysis)
			return
		}
		last = to[i]
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
	case sameText(before.Section(SectionStatus), after.Section(SectionStatus)):
	case v.ClaimedDone:
		v.changed(ChangeMarker, "", SectionStatus)
		if open > 0 && !before.MarkedDone() {
			v.add(ViolationPremature, "The Status section was set to complete while %d of the tasks are open; it was "+
				"restored. The host sets it when all tasks are done and the checks pass.", open)
		}
	default:
		v.changed(ChangeStatus, "", after.Status())
		v.add(ViolationForgedStatus, "The Status section belongs to the host; it was restored.")
	}
	v.compareLog(before, after)
}

func (v *Verdict) compareLog(before, after *Doc) {
	if !sameText(before.Section(SectionLog), after.Section(SectionLog)) {
		v.changed(ChangeLog, "", SectionLog)
		v.add(ViolationForgedLog, "The Iteration Log belongs to the host; it was restored.")
	}
}

// sectionChanges lists what was done to all sections but those named, and to
// what stands before them.
func sectionChanges(before, after *Doc, but ...string) (cs []Change) {
	a, b := segments(before), segments(after)
	was := make(map[string]segment, len(a))
	for _, s := range a {
		was[s.key] = s
	}
	for _, s := range b {
		old, ok := was[s.key]
		delete(was, s.key)
		switch {
		case slices.Contains(but, s.name):
		case !ok:
			cs = append(cs, change(ChangeSectionAdded, "", s.title))
		case !sameText(before.body(old), after.body(s)):
			cs = append(cs, change(ChangeSection, "", s.title))
		}
	}
	for _, s := range a {
		if _, ok := was[s.key]; ok && !slices.Contains(but, s.name) {
			cs = append(cs, change(ChangeSectionRemoved, "", s.title))
		}
	}
	return cs
}

// segment is a stretch of a document: what stands before the first heading of
// level 1 or 2, or what such a heading owns. Segments cover the document.
type segment struct {
	key   string // of all segments of a document, different
	name  string // our own for it, folded
	title string
	head  int // in Doc.heads, or -1
	start int
	body  int
	stop  int
}

// segments divides a document.
func segments(d *Doc) []segment {
	out := []segment{{head: -1, stop: len(d.src)}}
	seen := make(map[string]int)
	for i, h := range d.heads {
		if h.level > 2 {
			continue
		}
		out[len(out)-1].stop = h.start
		name := fold(Canonical(h.text))
		if h.level == 1 && len(seen) == 0 {
			name = "" // the title may change; it is the title
		}
		seen[name]++
		out = append(out, segment{
			key: strconv.Itoa(h.level) + " " + strconv.Itoa(seen[name]) + " " + name, name: name, title: h.text,
			head: i, start: h.start, body: h.body, stop: len(d.src),
		})
	}
	return out
}

// body is a segment without the line of its heading, but for a title.
func (d *Doc) body(s segment) string { return string(d.src[d.bodyStart(s):s.stop]) }

func (d *Doc) bodyStart(s segment) int {
	if s.head >= 0 && d.heads[s.head].level == 1 {
		return s.start
	}
	return s.body
}

// notes are what is to be taken over of the sections that are the agent's.
func (v *Verdict) notes(before, after *Doc) (ts []taking) {
	for _, name := range [...]string{SectionAnalysis, SectionTesting, SectionPatterns, SectionAttempts} {
		if after.find(name) < 0 || sameText(before.Section(name), after.Section(name)) {
			continue // an empty section is the agent's right, a missing one an accident
		}
		ts = v.note(ts, name, after.Section(name), maxSection)
	}
	old, now := before.Section(SectionLearnings), after.Section(SectionLearnings)
	if sameText(old, now) {
		return ts
	}
	more, kept := appended(old, now)
	if !kept {
		v.changed(ChangeSection, "", SectionLearnings)
		v.add(ViolationLearnings, "Learnings were changed or removed; they were restored. Only add to that section, at its end.")
	}
	if strings.TrimSpace(more) == "" {
		return ts
	}
	v.changed(ChangeLearned, "", SectionLearnings)
	return v.note(ts, SectionLearnings, strings.TrimRight(strings.ReplaceAll(old, "\r\n", "\n"), " \t\n")+"\n"+
		strings.TrimPrefix(more, "\n"), maxLearnings)
}

func (v *Verdict) note(ts []taking, name, content string, limit int) []taking {
	if len(content) > limit {
		v.add(ViolationTooMuch, "The section %s was longer than %d KiB; what it held before was restored. Keep it short.",
			name, limit>>10)
		return ts
	}
	return append(ts, taking{section: name, content: content})
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

// taking is one thing to be taken over from an agent: the content of a
// section, or a new task.
type taking struct {
	section, content string
	task             *run.Task
	// plan marks the Tasks section of a plan, and tasks are those in it.
	plan  bool
	tasks []task
}

// takeAll takes over what can be, mostly all in one go. Where that would
// change anything else of the document, halves are tried, so that what is to
// blame stays out and the rest comes in.
func (v *Verdict) takeAll(before *Doc, ts []taking) {
	var kept []taking
	var admit func(ts []taking)
	admit = func(ts []taking) {
		if len(ts) == 0 {
			return
		}
		all := slices.Concat(kept, ts)
		if d, ok := before.taken(all); ok {
			v.Accepted, kept = d, all
			return
		}
		if len(ts) == 1 {
			if t, ok := v.refuse(ts[0]); ok {
				admit([]taking{t})
			}
			return
		}
		admit(ts[:len(ts)/2])
		admit(ts[len(ts)/2:])
	}
	admit(ts)
	if v.Accepted == nil {
		v.Accepted = before.Clone()
	}
	if slices.ContainsFunc(v.Accepted.tasks, func(t task) bool { return t.ID == "" }) {
		v.Accepted.AssignIDs()
	}
}

// refuse says why something was not taken over, or what to take in its place.
func (v *Verdict) refuse(t taking) (instead taking, ok bool) {
	switch {
	case t.plan && t.tasks != nil:
		// Tasks outside a Tasks section, in two of them, or in one that does
		// not end: write what was understood.
		tasks := make([]run.Task, len(t.tasks))
		for i := range t.tasks {
			tasks[i] = t.tasks[i].Task
		}
		scratch := New("", Binding{})
		if err := scratch.SetTasks(tasks); err == nil {
			return taking{section: SectionTasks, content: scratch.Section(SectionTasks), plan: true}, true
		}
		t.tasks = nil
		return v.refuse(t)
	case t.plan:
		v.add(ViolationUnreadable, "The tasks could not be taken over; write each as one line with a check box in "+
			"the Tasks section.")
	case t.task != nil:
		v.add(ViolationUnreadable, "The new task %s could not be taken over; write it as one line with a check box.",
			quote(*t.task))
	default:
		v.add(ViolationUnreadable, "The section %s held an unclosed code fence or comment, or headings of its own; "+
			"what it held before was restored.", t.section)
	}
	return taking{}, false
}

// taken is the document with all of ts in it. It is not ok where that changed
// more than was meant to: see unharmed.
func (d *Doc) taken(ts []taking) (_ *Doc, ok bool) {
	var ps []patch
	var fresh []string // sections to be made
	content := make(map[string]string)
	var ids *numbers
	var tasks additions
	for _, t := range ts {
		if t.task != nil {
			if ids == nil {
				ids = d.numbersBeside(ts)
			}
			nt := *t.task
			nt.ID = ids.next()
			tasks.add(d, nt.Group, strings.TrimSuffix(renderTask(nt), "\n"))
			continue
		}
		i := d.find(t.section)
		if i < 0 {
			fresh, content[t.section] = append(fresh, t.section), t.content
			continue
		}
		if p, change := d.contentPatch(t.section, i, t.content); change {
			if d.sectionEnd(i) == len(d.src) && !contained(t.content) {
				return nil, false // nothing follows that would tell
			}
			ps = append(ps, p)
		}
	}
	ps = append(ps, tasks.patches(d)...)
	if tasks.made.Len() > 0 {
		fresh, content[SectionTasks] = append(fresh, SectionTasks), tasks.made.String()
	}
	// What goes to one place goes there in the order of the sections.
	slices.SortFunc(fresh, func(a, b string) int {
		return slices.Index(sectionOrder[:], a) - slices.Index(sectionOrder[:], b)
	})
	for _, name := range fresh {
		p, _ := d.contentPatch(name, -1, content[name])
		if p.start == len(d.src) && !contained(content[name]) {
			return nil, false
		}
		ps = append(ps, p)
	}
	src, err := patched(d.src, ps)
	if err != nil {
		return nil, false
	}
	c, err := Parse(append([]byte(d.prefix), src...))
	if err != nil {
		return nil, false
	}
	return c, d.unharmed(c, ts, fresh)
}

// numbersBeside are free in d and in what is taken over.
func (d *Doc) numbersBeside(ts []taking) *numbers {
	n := newNumbers(d)
	n.mentioned(string(d.src))
	for _, t := range ts {
		n.mentioned(t.content)
		if t.task != nil {
			n.mentioned(t.task.Title + strings.Join(slices.Concat(t.task.Accept, t.task.Steps, t.task.Files, t.task.Checks),
				" "))
		}
	}
	return n
}

// unharmed says whether c is d with ts taken over and nothing else changed:
// the same sections in the same order and the fresh ones, the same tasks
// in the same order and as many new ones, all open.
func (d *Doc) unharmed(c *Doc, ts []taking, fresh []string) bool {
	added, next := 0, 0
	var planned []task
	isPlan := false
	for _, t := range ts {
		if t.task != nil {
			added++
		}
		if t.plan {
			isPlan, planned = true, t.tasks
		}
	}
	heads := 0
	for _, h := range c.heads {
		if h.level > 2 {
			continue
		}
		for next < len(d.heads) && d.heads[next].level > 2 {
			next++
		}
		if next < len(d.heads) && d.heads[next].level == h.level && d.heads[next].text == h.text {
			next++
			continue
		}
		if h.level != 2 || !slices.Contains(fresh, h.text) {
			return false
		}
		heads++
	}
	if heads != len(fresh) || slices.ContainsFunc(d.heads[next:], func(h heading) bool { return h.level <= 2 }) {
		return false
	}
	if d.MarkedDone() != c.MarkedDone() {
		return false
	}
	if isPlan {
		return planned == nil && len(c.tasks) > 0 || planned != nil && sameTasks(planned, c.tasks)
	}
	return len(c.tasks) == len(d.tasks)+added && keptTasks(d.tasks, c.tasks)
}

// keptTasks says whether b holds the tasks of a as they are and in their
// order, and besides them none but open ones.
func keptTasks(a, b []task) bool {
	i := 0
	for k := range b {
		t := &b[k]
		if i < len(a) && t.ID == a[i].ID && t.Title == a[i].Title && t.Group == a[i].Group {
			if t.Status != a[i].Status || reworded(&t.Task, &a[i].Task) {
				return false
			}
			i++
			continue
		}
		if t.Status != run.TaskOpen || t.ID == "" {
			return false
		}
	}
	return i == len(a)
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

// additions collects new tasks by the place they go to.
type additions struct {
	order []*addition // as they come up
	at    map[int]*addition
	// groups are the places of the groups there are; "" is the end of the
	// Tasks section.
	groups map[string]addition
	// made is what goes into a Tasks section that is missing, and group the
	// last one in it.
	made  strings.Builder
	group string
}

type addition struct {
	body, end int
	at        int  // where text goes
	joined    bool // to the list that ends there
	text      strings.Builder
	group     string // of the last task
}

// add puts the lines of a task at the end of its group, or of the Tasks section, where a
// group that is new gets its heading.
func (a *additions) add(d *Doc, group, text string) {
	i := d.find(SectionTasks)
	if i < 0 {
		if group != a.group {
			a.group = group
			text = "\n" + d.groupHeading(group) + text
		}
		a.made.WriteString(text + "\n")
		return
	}
	if a.at == nil {
		a.at, a.groups = make(map[int]*addition), d.groupPlaces(i)
	}
	place, known := a.groups[group]
	if !known {
		place = a.groups[""]
	}
	p := a.at[place.at]
	switch {
	case p == nil:
		p = &place
		a.at[place.at] = p
		a.order = append(a.order, p)
		if !known {
			p.joined = false
			text = d.groupHeading(group) + text
		}
		p.group = group
	case !known && p.group != group:
		text = "\n\n" + d.groupHeading(group) + text
		p.group = group
	default:
		text = "\n" + text
	}
	p.text.WriteString(text)
}

// groupPlaces is where a task of each group goes that stands under heading i.
func (d *Doc) groupPlaces(i int) map[string]addition {
	end := d.sectionEnd(i)
	places := map[string]addition{"": {body: d.heads[i].body, end: end, joined: d.listAtEnd(i)}}
	for k := i + 1; k < len(d.heads) && d.heads[k].start < end; k++ {
		h := d.heads[k]
		if _, ok := places[h.text]; ok {
			continue
		}
		p := addition{body: h.body, end: end, joined: h.listLast}
		if k+1 < len(d.heads) {
			p.end = min(end, d.heads[k+1].start)
		}
		places[h.text] = p
	}
	for group, p := range places {
		p.at = d.tailPatch(p.body, p.end, p.joined, "").start
		places[group] = p
	}
	return places
}

// patches are what puts the tasks in, but for those of a section to be made.
func (a *additions) patches(d *Doc) (ps []patch) {
	for _, p := range a.order {
		ps = append(ps, d.tailPatch(p.body, p.end, p.joined, d.withEOL(p.text.String())))
	}
	return ps
}

// plan is the Tasks section of after, as written, for the detail below a task
// that run.Task does not hold; but with all boxes open and an id for each.
func (v *Verdict) plan(before, after *Doc) (taking, bool) {
	if len(after.tasks) == 0 {
		return taking{}, false
	}
	if n := len(after.Section(SectionTasks)); len(after.tasks) > maxTasks || n > maxTaskSection {
		v.add(ViolationTooMuch, "The plan has %d tasks in %d bytes; at most %d tasks in %d KiB are taken. Plan in "+
			"larger steps.", len(after.tasks), n, maxTasks, maxTaskSection>>10)
		return taking{}, false
	}
	n := newNumbers(after)
	n.mentioned(string(before.src))
	n.mentioned(string(after.src))
	ps := after.idPatches(n)
	tasks := slices.Clone(after.tasks)
	ids := ps
	for i := range tasks {
		t := &tasks[i]
		if t.ID == "" {
			t.ID = strings.TrimSpace(ids[0].text)
			ids = ids[1:]
		}
		if t.Status == run.TaskDone {
			ps = append(ps, patch{t.box, t.box + 1, " "})
			t.Status = run.TaskOpen
			if t.mark != "" {
				t.Status = t.mark
			}
		}
	}
	content := ""
	if i := after.find(SectionTasks); i >= 0 {
		body, end := after.heads[i].body, after.sectionEnd(i)
		inside := make([]patch, 0, len(ps))
		for _, p := range ps {
			if p.start >= body && p.stop <= end {
				inside = append(inside, patch{p.start - body, p.stop - body, p.text})
			}
		}
		src, err := patched(after.src[body:end], inside)
		if err != nil {
			return taking{}, false
		}
		content = string(src)
	}
	return taking{section: SectionTasks, content: content, plan: true, tasks: tasks}, true
}
