package formats

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// maxPriority is the last priority that "(P9)" can say.
const maxPriority = 9

// Convert writes what from holds in another format: the new files by their
// names in one directory. lost says in words what they cannot hold; it is found
// by reading them back. when is the time new files say they were begun.
func Convert(from *File, to Format, when time.Time) (files map[string][]byte, lost []string, err error) {
	if to == from.format {
		return from.Files(), nil, nil
	}
	v := from.Plan()
	if v.Title == "" {
		base := path.Base(from.name)
		v.Title = strings.TrimSuffix(base, path.Ext(base))
	}
	name := to.FileName(v.Title)
	var src []byte
	if to == PRD {
		if src, err = renderPRD(v); err != nil {
			return nil, nil, err
		}
	} else {
		src = renderMarkdown(to, v)
	}
	f, err := Parse(to, name, src)
	if err != nil {
		return nil, nil, fmt.Errorf("convert %s to %s: %w", from.name, to, err)
	}
	f.keep(v.Sections)
	if err := f.AppendPatterns(when, v.Patterns...); err != nil {
		return nil, nil, err
	}
	if err := f.AppendLearnings(when, "", v.Learnings...); err != nil {
		return nil, nil, err
	}
	return f.Files(), losses(v, f.Plan()), nil
}

// keep puts sections that the format has a place for into the file. One that
// would change anything else, as a code fence that is not closed does, is left
// out, which the comparison afterwards tells.
func (f *File) keep(sections []Section) {
	m, ok := f.src.(*markdown)
	if !ok {
		return
	}
	for _, s := range sections {
		doc := m.doc.Clone()
		if !slices.Contains(f.format.keeps(), s.Name) || doc.SetSection(s.Name, s.Text) != nil {
			continue
		}
		old := *m
		before, has := m.plan(), append(m.plan().Sections, s)
		if m.replace(doc.Bytes()) != nil {
			continue
		}
		after := m.plan()
		whole := len(after.Sections) == len(has) &&
			!slices.ContainsFunc(has, func(s Section) bool { return !slices.Contains(after.Sections, s) })
		before.Sections, after.Sections = nil, nil
		if !whole || !reflect.DeepEqual(before, after) {
			*m = old
		}
	}
}

// writer writes Markdown of one format.
type writer struct {
	out    strings.Builder
	format Format
	used   map[string]bool // ids that are taken
	last   map[string]int  // number of the last id made, by its form
	next   int             // number of the next task
	phase  int             // number of the phase, in tasks.md
}

func (w *writer) line(parts ...string) { w.out.WriteString(strings.Join(parts, "") + "\n") }

// section begins a section.
func (w *writer) section(name string) { w.line("\n## ", name) }

// renderMarkdown writes a plan without what was learned.
func renderMarkdown(to Format, v Plan) []byte {
	w := &writer{format: to, used: make(map[string]bool), last: make(map[string]int)}
	title := oneLine(v.Title, maxText)
	switch to {
	case Progress, Portable, Rslph:
		title = "Progress: " + title
	case Specum:
		title = "Tasks: " + title
	case PRD, FixPlan, Ralphex, Checklist:
	}
	w.line("# ", title)
	if v.Branch != "" {
		w.line("\nBranch: ", v.Branch)
	}
	switch to {
	case Progress, Portable, Rslph:
		status := progress.StatusInProgress
		if v.Done() {
			status = progress.StatusDone
		}
		w.section(progress.SectionStatus)
		w.line(status)
		w.section(progress.SectionAnalysis)
	case Specum, Ralphex:
		w.section("Overview")
	case PRD, FixPlan, Checklist:
		w.line()
	}
	bullet := false
	for i, s := range v.Description {
		text, isBullet := strings.CutPrefix(s, "- ")
		if i > 0 && !(bullet && isBullet) {
			w.line()
		}
		if bullet = isBullet; bullet {
			w.line("- ", bulletText(text))
			continue
		}
		w.line(bulletText(text))
	}
	w.tasks(v.Tasks)
	if to == Progress {
		for _, name := range []string{
			progress.SectionTesting, progress.SectionPatterns, progress.SectionLearnings,
			progress.SectionCompleted, progress.SectionAttempts, progress.SectionLog,
		} {
			w.section(name)
		}
	}
	return []byte(w.out.String())
}

// tasks writes the tasks under the headings the format wants.
func (w *writer) tasks(tasks []Task) {
	for _, t := range tasks {
		w.used[t.Key()] = true
	}
	switch w.format {
	case Portable:
		w.section("Task List")
	case Progress, Rslph:
		w.section(progress.SectionTasks)
	case FixPlan:
		for p, name := range []string{"High Priority", "Medium Priority", "Low Priority", "Unsorted"} {
			if some := slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return fixPlanRank(t) != p }); len(some) > 0 {
				w.section(name)
				w.group(some, "### ")
			}
		}
		return
	case Specum:
		w.group(tasks, "\n## ")
		return
	case Ralphex:
		w.section("Implementation Steps")
	case PRD, Checklist:
		w.line()
	}
	w.group(tasks, "### ")
}

// fixPlanRank is the section a task goes to: 0 is high, 3 is none.
func fixPlanRank(t Task) int {
	if t.Priority == 0 {
		return 3
	}
	return min(t.Priority, 3) - 1
}

// group writes tasks below headings for their groups.
func (w *writer) group(tasks []Task, heading string) {
	group := ""
	for i, t := range tasks {
		g := oneLine(t.Group, maxText)
		if g == "" && (group != "" || w.format == Rslph || w.format == Specum) {
			g = "Other"
			if i == 0 {
				g = "Phase 1: Tasks" // where the system counts only what stands in a phase
			}
			if strings.HasPrefix(group, "Phase 1: Tasks") {
				g = group
			}
		}
		if g != group && w.format != Ralphex {
			if i > 0 && heading[0] != '\n' {
				w.line()
			}
			w.line(heading, g)
			group = g
			w.phase++
			w.next = 0
			if w.format != Specum {
				w.next = i
			}
		}
		w.next++
		w.task(t)
	}
}

// task writes one task.
func (w *writer) task(t Task) {
	var b strings.Builder
	key, id := t.Key(), ""
	switch w.format {
	case Progress:
		id = key
		if !ownRE().MatchString(key) {
			id = w.fresh("T%d")
		}
		b.WriteString(id + " ")
	case Portable, Ralphex:
		id = key
		if !portableRE().MatchString(key + ":") {
			id = w.fresh("Task %d")
		}
		b.WriteString(id + ": ")
	case Specum:
		id = key
		if !specumRE().MatchString(key) {
			id = w.fresh(fmt.Sprintf("%d.%%d", max(w.phase, 1)))
		}
		b.WriteString(id + " ")
	case PRD, Rslph, FixPlan, Checklist:
		if ownRE().MatchString(key) {
			id = key
			b.WriteString(id + " ")
		}
	}
	if t.Priority > 0 && (w.format != FixPlan || t.Priority > 3) {
		fmt.Fprintf(&b, "(P%d) ", min(t.Priority, maxPriority))
	}
	if t.Parallel {
		b.WriteString("[P] ")
	}
	if t.Verify {
		b.WriteString("[VERIFY] ")
	}
	if key != id && isOrigin(key) {
		b.WriteString("[" + key + "] ")
	}
	b.WriteString(oneLine(t.Title, maxText))
	if t.Status == run.TaskBlocked || t.Status == run.TaskSkipped {
		b.WriteString(markText(t.Status, t.Reason))
	}
	if w.format == Ralphex {
		w.heading(t, b.String())
		return
	}
	w.line("- ", box(t.Status == run.TaskDone), " ", b.String())
	w.below(t, "  ")
}

// heading writes a task that is a heading with its criteria as boxes. It has
// at least one, since a task there is its boxes.
func (w *writer) heading(t Task, text string) {
	w.line("\n### ", text, "\n")
	boxes := t.Accept
	if len(boxes) == 0 {
		boxes = []string{t.Title}
	}
	t.Accept = nil
	w.below(t, "")
	for _, s := range boxes {
		w.line("- ", box(t.Status == run.TaskDone), " ", oneLine(s, maxText))
	}
}

// below writes criteria and details of a task.
func (w *writer) below(t Task, indent string) {
	label := func(s string) string {
		if w.format == Specum {
			return "**" + s + "**: "
		}
		return s + ": "
	}
	for _, l := range progress.Lines(t.Task) {
		if l.Label == labelAccept && w.format == Specum {
			l.Label = "Done when"
			if rest, ok := strings.CutPrefix(l.Text, labelVerify+": "); ok && !isCheck(l.Text) {
				l.Label, l.Text = labelVerify, rest
			}
		}
		switch {
		case len(l.Items) == 0:
			w.line(indent, "- ", label(l.Label), l.Text)
		case w.format == Ralphex: // below a heading a list has no items of items
			for _, item := range l.Items {
				w.line(indent, "- ", label(l.Label), item)
			}
		default:
			w.line(indent, "- ", strings.TrimSpace(label(l.Label)))
			for _, item := range l.Items {
				w.line(indent, "  - ", item)
			}
		}
	}
	if len(t.DependsOn) > 0 {
		w.line(indent, "- ", label(labelDepends), strings.Join(t.DependsOn, ", "))
	}
	if t.Priority > maxPriority {
		w.line(indent, "- ", label(labelPriority), fmt.Sprint(t.Priority))
	}
	for _, d := range t.Details {
		switch {
		case d.Label == "":
			for _, l := range d.Lines {
				w.line(indent, "- ", bulletText(l))
			}
		case len(d.Lines) == 1:
			w.line(indent, "- ", label(d.Label), oneLine(d.Lines[0], maxText))
		default:
			w.line(indent, "- ", strings.TrimSpace(label(d.Label)))
			for _, l := range d.Lines {
				w.line(indent, "  - ", bulletText(l))
			}
		}
	}
}

// isCheck says whether a line would be read as a command to run.
func isCheck(line string) bool {
	var t run.Task
	return progress.AddLine(&t, line) && len(t.Checks) > 0
}

var ownRE = strs.Lazy(`^T[1-9]\d{0,5}$`)

// fresh makes an id that no task has.
func (w *writer) fresh(format string) string {
	for n := max(w.next, w.last[format]+1); ; n++ {
		if id := fmt.Sprintf(format, n); !w.used[id] {
			w.used[id], w.last[format] = true, n
			return id
		}
	}
}

// losses says what of a plan is missing in what it was converted to.
func losses(from, to Plan) []string {
	var lost []string
	say := func(format string, args ...any) { lost = append(lost, fmt.Sprintf(format, args...)) }
	if from.Title != "" && from.Title != to.Title {
		say("the title reads %q", to.Title)
	}
	if from.Branch != "" && from.Branch != to.Branch {
		say("the branch %s", from.Branch)
	}
	if n := missing(from.Description, to.Description); n > 0 {
		say("%s of the description", strs.Count(n, "line"))
	}
	if n := missing(from.Patterns, to.Patterns); n > 0 {
		say("%s of the codebase patterns", strs.Count(n, "line"))
	}
	if n := missing(from.Learnings, to.Learnings); n > 0 {
		say("%s of what was learned", strs.Count(n, "line"))
	}
	for _, s := range from.Sections {
		if !slices.Contains(to.Sections, s) {
			say("%s", s.Name)
		}
	}
	if len(from.Other) > 0 {
		say("%s", strings.Join(from.Other, ", "))
	}
	if len(from.Tasks) != len(to.Tasks) {
		say("tasks: %d were read back, of %d", len(to.Tasks), len(from.Tasks))
		return lost
	}
	return append(lost, taskLosses(from.Tasks, to.Tasks)...)
}

// taskLosses compares tasks, which may have been put into another order.
func taskLosses(from, to []Task) []string {
	index := make(map[string]int, len(to))
	for i, t := range slices.Backward(to) {
		index[t.Key()+"\n"+t.Title] = i
		index[t.Title] = i
	}
	hit := make(map[string][]string)
	note := func(what string, yes bool, t Task) {
		if yes {
			hit[what] = append(hit[what], nameOf(t))
		}
	}
	aspects := []string{
		"title", "id", "status", "reason", "priority", "group", "marker", "dependencies", "steps", "files", "criteria",
		"checks", "commit subject", "details",
	}
	for _, a := range from {
		i, ok := index[a.Key()+"\n"+a.Title]
		if !ok {
			i, ok = index[a.Title]
		}
		if !ok {
			note("title", true, a)
			continue
		}
		b := to[i]
		note("id", a.Key() != "" && a.Key() != b.Key(), a)
		note("status", a.Status != b.Status, a)
		note("reason", a.Reason != "" && a.Status == b.Status && a.Reason != b.Reason, a)
		note("priority", a.Priority > 0 && a.Priority != b.Priority, a)
		note("group", a.Group != "" && a.Group != b.Group, a)
		note("marker", a.Parallel && !b.Parallel || a.Verify && !b.Verify, a)
		note("dependencies", missing(a.DependsOn, b.DependsOn) > 0, a)
		note("steps", missing(a.Steps, b.Steps) > 0, a)
		note("files", missing(a.Files, b.Files) > 0, a)
		note("criteria", missing(a.Accept, b.Accept) > 0, a)
		note("checks", !slices.Equal(a.Checks, b.Checks), a)
		note("commit subject", a.Subject != b.Subject, a)
		note("details", missing(texts(a.Details), texts(b.Details)) > 0, a)
	}
	var lost []string
	for _, what := range aspects {
		if names := hit[what]; len(names) > 0 {
			const shown = 5
			more := ""
			if len(names) > shown {
				more = fmt.Sprintf(" and %d more", len(names)-shown)
			}
			lost = append(lost, fmt.Sprintf("%s of %s%s", what, strings.Join(names[:min(len(names), shown)], ", "), more))
		}
	}
	return lost
}

func nameOf(t Task) string {
	if t.Key() != "" {
		return t.Key()
	}
	return fmt.Sprintf("%q", oneLine(t.Title, maxID))
}

// texts are the lines of details, without their labels.
func texts(details []Detail) []string {
	var out []string
	for _, d := range details {
		out = append(out, d.Lines...)
	}
	return out
}

// missing counts the lines that are none of the others, nor what is left of
// one of them without its label.
func missing(lines, others []string) int {
	have := make(map[string]bool, len(others))
	for _, l := range others {
		have[l] = true
		for _, sep := range []string{": ", "] "} {
			if _, rest, ok := strings.Cut(l, sep); ok {
				have[rest] = true
			}
		}
	}
	n := 0
	for _, l := range lines {
		if !have[oneLine(l, maxText)] {
			n++
		}
	}
	return n
}
