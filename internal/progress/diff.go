package progress

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// ChangeKind says what was done to a document.
type ChangeKind string

// What an agent or a person can do to a document.
const (
	ChangeTicked   ChangeKind = "ticked"
	ChangeUnticked ChangeKind = "unticked"
	ChangeBlocked  ChangeKind = "blocked"
	ChangeSkipped  ChangeKind = "skipped"
	ChangeReopened ChangeKind = "reopened" // no longer blocked or skipped
	ChangeRemoved  ChangeKind = "removed"
	ChangeReworded ChangeKind = "reworded" // title, id, priority, markers or lines below
	ChangeMoved    ChangeKind = "moved"    // to another group
	ChangeOrder    ChangeKind = "order"    // of the tasks
	ChangeAdded    ChangeKind = "added"
	ChangeSection  ChangeKind = "changed" // the text of a section
)

// Change is one thing that was done to a document.
type Change struct {
	Kind   ChangeKind
	TaskID string // "" where it is not about a task, or the task has no id
	// Text is the title of the task or the name of the section, on one line that acts
	// neither on a prompt nor on GitHub.
	Text string
}

// String is the change as half a sentence for people: `T3 "Wire it" ticked`.
func (c Change) String() string {
	what := strconv.QuoteToGraphic(c.Text)
	switch {
	case c.Kind == ChangeOrder:
		return "the order of the tasks changed"
	case c.Kind == ChangeSection:
		what = "section " + what
	case c.TaskID != "":
		what = c.TaskID + " " + what
	}
	return what + " " + string(c.Kind)
}

// maxListed bounds the changes that one sentence lists.
const maxListed = 8

// list names changes for a sentence.
func list(cs []Change) string {
	var parts []string
	for i, c := range cs {
		if i == maxListed {
			parts = append(parts, fmt.Sprintf("%d more", len(cs)-i))
			break
		}
		parts = append(parts, c.String())
	}
	return strings.Join(parts, "; ")
}

// Delta is what lies between two versions of a document.
type Delta struct {
	// Changes are those to tasks in their order, then the tasks that are new, then the
	// sections.
	Changes []Change

	to    []int // where each task of the first version is in the second, or -1
	added []int // the tasks that only the second has
}

// Diff compares two versions of a document, in time linear in their size. The Tasks
// section is compared task by task; every other one is a text.
func Diff(was, now *Doc) Delta {
	d := diffTasks(was.tasks, now.tasks)
	names, before := was.texts()
	more, after := now.texts()
	for _, name := range more {
		if !sameText(string(before[name]), string(after[name])) {
			d.add(ChangeSection, "", name)
		}
	}
	for _, name := range names {
		if _, has := after[name]; !has && !sameText(string(before[name]), "") {
			d.add(ChangeSection, "", name)
		}
	}
	return d
}

// diffTasks compares two lists of tasks.
func diffTasks(was, now []task) (d Delta) {
	d.to, d.added = match(was, now)
	last, order := -1, true
	for i := range was {
		b := &was[i]
		if d.to[i] < 0 {
			d.add(ChangeRemoved, b.ID, b.Title)
			continue
		}
		a := &now[d.to[i]]
		if a.Status != b.Status {
			d.add(statusChange(b.Status, a.Status), b.ID, b.Title)
		}
		if reworded(b, a) {
			d.add(ChangeReworded, b.ID, b.Title)
		}
		if a.Group != b.Group {
			d.add(ChangeMoved, b.ID, b.Title)
		}
		order = order && d.to[i] > last
		last = d.to[i]
	}
	if !order {
		d.add(ChangeOrder, "", "")
	}
	for _, i := range d.added {
		d.add(ChangeAdded, now[i].ID, now[i].Title)
	}
	return d
}

func (d *Delta) add(kind ChangeKind, id, text string) {
	d.Changes = append(d.Changes, Change{Kind: kind, TaskID: id, Text: plain(text)})
}

// statusChange names the step from one status of a task to another.
func statusChange(was, now run.TaskStatus) ChangeKind {
	switch {
	case now == run.TaskDone:
		return ChangeTicked
	case now == run.TaskBlocked:
		return ChangeBlocked
	case now == run.TaskSkipped:
		return ChangeSkipped
	case was == run.TaskDone:
		return ChangeUnticked
	}
	return ChangeReopened
}

// reworded says whether two tasks ask for different things. An id that is lost does no
// harm: the host puts it back.
func reworded(a, b *task) bool {
	return a.Title != b.Title || a.Priority != b.Priority || a.Parallel != b.Parallel || a.Verify != b.Verify ||
		a.ID != b.ID && b.idEnd > 0 ||
		!slices.Equal(a.Accept, b.Accept) || !slices.Equal(a.DependsOn, b.DependsOn) ||
		!slices.Equal(a.Checks, b.Checks) || a.Subject != b.Subject || !slices.Equal(a.Files, b.Files) ||
		!slices.Equal(a.Steps, b.Steps)
}

// match says for each task of a which one of b it is, or -1, and which of b are no task
// of a. The same id and title are the same task; then titles count before ids: whoever
// renumbers a list means its tasks, not its numbers.
func match(a, b []task) (to, others []int) {
	to = Match(a, b,
		func(t *task) string { return t.ID + " " + t.Title },
		func(t *task) string { return " " + t.Title },
		func(t *task) string { return t.ID },
	)
	taken := make([]bool, len(b))
	for _, k := range to {
		if k >= 0 {
			taken[k] = true
		}
	}
	for i := range b {
		if !taken[i] {
			others = append(others, i)
		}
	}
	return to, others
}

// Match says for each of a which of b it is, or -1: the first that is left with the same key,
// by one kind of key after the other. Nothing is found by an empty one.
func Match[T any](a, b []T, keys ...func(*T) string) []int {
	to, taken := slices.Repeat([]int{-1}, len(a)), make([]bool, len(b))
	for _, key := range keys {
		at := make(map[string][]int)
		for i := range b {
			if k := key(&b[i]); !taken[i] && k != "" {
				at[k] = append(at[k], i)
			}
		}
		for i := range a {
			k := key(&a[i])
			if is := at[k]; to[i] < 0 && len(is) > 0 {
				to[i], taken[is[0]] = is[0], true
				at[k] = is[1:]
			}
		}
	}
	return to
}

// texts are the sections that hold no tasks: what a heading of level 1 or 2 owns, or what
// stands before the first. Those of one name are one.
func (d *Doc) texts() (names []string, text map[string][]byte) {
	text = make(map[string][]byte)
	start, name, next := 0, "top", 0 // next is the first task behind start
	end := func(stop int) {
		from := next
		for next < len(d.tasks) && d.tasks[next].box < stop {
			next++
		}
		if next > from || name == SectionTasks {
			return
		}
		if _, has := text[name]; !has {
			names = append(names, name)
		}
		text[name] = append(text[name], d.src[start:stop]...)
	}
	for _, h := range d.heads {
		if h.level > 2 {
			continue
		}
		end(h.start)
		start, name = h.body, Canonical(h.text)
		if h.level == 1 {
			start, name = h.start, "title"
		}
	}
	end(len(d.src))
	return names, text
}

func sameText(a, b string) bool {
	lf := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return a == b || lf(a) == lf(b)
}

// appended gives what now holds beyond old, and whether all of old is still there.
func appended(old, now string) (more string, kept bool) {
	lf := func(s string) string { return strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), " \t\n") }
	old, now = lf(old), lf(now)
	if rest, ok := strings.CutPrefix(now, old); ok && (old == "" || rest == "" || rest[0] == '\n') {
		return strings.TrimPrefix(rest, "\n"), true
	}
	left := make(map[string]int)
	for l := range strings.Lines(old) {
		left[strings.TrimSpace(l)]++
	}
	var lines []string
	for l := range strings.Lines(now) {
		if key := strings.TrimSpace(l); left[key] > 0 {
			left[key]--
		} else if key != "" {
			lines = append(lines, strings.TrimRight(l, "\n"))
		}
	}
	kept = true
	for key, n := range left {
		kept = kept && (n == 0 || key == "")
	}
	return strings.Join(lines, "\n"), kept
}

// setText is SetSection for a text that others wrote. It fails, and does nothing, where
// that would change anything else of d: because the text does not end what it begins,
// holds sections of its own, or would be read as tasks.
func (d *Doc) setText(name, content string) error {
	const end = "## end of the section"
	probe, err := Parse([]byte(content + "\n" + end + "\n"))
	if err != nil {
		return err
	}
	n := len(probe.heads)
	if n == 0 || probe.heads[n-1].text != end[len("## "):] || slices.ContainsFunc(probe.heads[:n-1], func(h heading) bool { return h.level <= 2 }) {
		return errOpenBlock
	}
	c := d.Clone()
	if err := c.SetSection(name, content); err != nil {
		return err
	}
	if c.MarkedDone() != d.MarkedDone() || len(diffTasks(d.tasks, c.tasks).Changes) > 0 {
		return errOtherTasks
	}
	*d = *c
	return nil
}

// actsRE finds what starts a mention, a reference or a link on GitHub.
var actsRE = strs.Lazy(`(?i)[@#]\b|\bgh-\b|://\b|\bwww\.\b`)

// quoted takes from a text what could end a wrapper around it: tags and
// borders, code quotes, and any completion marker.
var quoted = strings.NewReplacer("<", "‹", ">", "›", "`", "'", "-----", "-", "=====", "=", "~~~", "~",
	StatusDone, "(marker)", "ALL_TASKS_COMPLETE", "(marker)")

// plain makes text from a document fit to be quoted: one short line, nothing
// invisible, nothing that acts on a prompt or on GitHub.
func plain(s string) string {
	s, _ = Clean(s)
	s = quoted.Replace(strs.Cut(strs.OneLine(s), 120))
	return actsRE().ReplaceAllString(s, "$0 ")
}
