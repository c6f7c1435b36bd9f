package progress

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// errOpenBlock: something before the place of the edit never ends, so what is
// added would be part of it.
var errOpenBlock = errors.New("progress: a code fence or comment in the document is never closed")

// logHeader starts the table of the Iteration Log.
const logHeader = "| Iteration | Started | Duration | Tasks Completed | Notes |\n" +
	"|-----------|---------|----------|-----------------|-------|\n"

// New makes a fresh document with all sections, bound to b.
func New(title string, b Binding) *Doc {
	var s strings.Builder
	s.WriteString(b.comment() + "\n# " + titlePrefix + " " + orUntitled(inline(title, maxTitle)) + "\n")
	for _, name := range sectionOrder {
		s.WriteString("\n## " + name + "\n")
		switch name {
		case SectionStatus:
			s.WriteString(StatusInProgress + "\n")
		case SectionLog:
			s.WriteString(logHeader)
		}
	}
	d := &Doc{src: []byte(s.String())}
	d.index()
	return d
}

func orUntitled(s string) string {
	if s == "" {
		return "(untitled)"
	}
	return s
}

// splice replaces src[start:end] by text and parses the result. On error d is
// as before.
func (d *Doc) splice(start, end int, text string) error {
	src := slices.Concat(d.src[:start], []byte(text), d.src[end:])
	return d.replace(src)
}

func (d *Doc) replace(src []byte) error {
	n, err := Parse(slices.Concat([]byte(d.prefix), src))
	if err != nil {
		return err
	}
	*d = *n
	return nil
}

// atomically runs f on a copy and takes the copy over if f succeeds.
func (d *Doc) atomically(f func(*Doc) error) error {
	c := d.Clone()
	if err := f(c); err != nil {
		return err
	}
	*d = *c
	return nil
}

// eol is the line ending of the document, judged by its first line.
func (d *Doc) eol() string {
	if i := bytes.IndexByte(d.src, '\n'); i > 0 && d.src[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// withEOL gives s, which has plain newlines or CRLF, the document's ending.
func (d *Doc) withEOL(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if d.eol() == "\n" {
		return s
	}
	return strings.ReplaceAll(s, "\n", d.eol())
}

// section gives the index in d.heads of a section, which it makes if missing:
// before the first section that belongs after it, else at the end.
func (d *Doc) section(name string) (int, error) {
	if i := d.find(name); i >= 0 {
		return i, nil
	}
	at, before, after := d.place(name)
	if err := d.splice(at, at, before+"## "+name+d.eol()+after); err != nil {
		return 0, err
	}
	i := d.find(name)
	if i < 0 {
		return 0, errOpenBlock
	}
	return i, nil
}

// tail adds text to the end of a stretch; see tailPatch.
func (d *Doc) tail(body, end int, joined bool, text string) error {
	p := d.tailPatch(body, end, joined, text)
	return d.splice(p.start, p.stop, p.text)
}

// listAtEnd says whether the section under heading i ends with a list.
func (d *Doc) listAtEnd(i int) bool {
	end := d.sectionEnd(i)
	for i+1 < len(d.heads) && d.heads[i+1].start < end {
		i++
	}
	return d.heads[i].listLast
}

// appendTo adds a bullet or another block to the end of a section.
func (d *Doc) appendTo(name, text string, bullet bool) error {
	return d.atomically(func(d *Doc) error {
		i, err := d.section(name)
		if err != nil {
			return err
		}
		return d.tail(d.heads[i].body, d.sectionEnd(i), bullet && d.listAtEnd(i), text)
	})
}

// setSection replaces what is in a section and leaves the blank lines around
// it alone.
func (d *Doc) setSection(name, content string) error {
	content = d.withEOL(strings.Trim(content, "\r\n"))
	return d.atomically(func(d *Doc) error {
		i, err := d.section(name)
		if err != nil {
			return err
		}
		body, end := d.heads[i].body, d.sectionEnd(i)
		first, last := trimSpan(d.src, body, end)
		switch {
		case first == last && content == "":
			return nil
		case first == last:
			return d.tail(body, end, true, content)
		case content == "":
			return d.splice(body, min(end, lineEnd(d.src, last-1)), "")
		}
		return d.splice(lineStart(d.src, first), last, content)
	})
}

// task finds a task by its id.
func (d *Doc) task(id string) (*task, error) {
	for i := range d.tasks {
		if id != "" && d.tasks[i].ID == id {
			return &d.tasks[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrNoTask, id)
}

// Tick marks a task done. It changes one byte, or none where the task is done.
// Without such a task the error is ErrNoTask.
func (d *Doc) Tick(id string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	d.setBox(t, true)
	return nil
}

// Untick marks a task as not done, as Tick does the reverse.
func (d *Doc) Untick(id string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	d.setBox(t, false)
	return nil
}

// setBox needs no new parse: blank and x make the same document.
func (d *Doc) setBox(t *task, done bool) {
	switch {
	case done == (t.Status == run.TaskDone):
	case done:
		d.src[t.box], t.Status = 'x', run.TaskDone
	default:
		d.src[t.box], t.Status = ' ', run.TaskOpen
		if t.mark != "" {
			t.Status = t.mark
		}
	}
}

// Block notes behind a task's text why it cannot be done for now; the task is
// then blocked. A reason that was there is replaced. A task that is done
// cannot be blocked.
func (d *Doc) Block(id, reason string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if t.Status == run.TaskDone {
		return fmt.Errorf("progress: block %s: the task is done", id)
	}
	return d.splice(t.suffix, t.textEnd, markText(run.TaskBlocked, reason))
}

// markText is the suffix of a blocked or skipped task. Parentheses inside a
// reason would make its end ambiguous.
func markText(mark run.TaskStatus, reason string) string {
	reason = inline(reason, maxCell)
	if reason == "" {
		reason = "no reason given"
	}
	return " (" + string(mark) + ": " + strings.NewReplacer("(", "[", ")", "]").Replace(reason) + ")"
}

// AssignIDs gives an id to each task that has none of its own. It never uses
// one that occurs anywhere in the document, so that the log of a task since
// removed is not read as that of a new one.
func (d *Doc) AssignIDs() {
	if !slices.ContainsFunc(d.tasks, func(t task) bool { return t.ID == "" }) {
		return
	}
	n := newNumbers(d)
	n.mentioned(string(d.src))
	// A few bytes a task cannot make a document unreadable that was not; one
	// that is full to the last byte keeps its tasks without id.
	_ = d.patch(d.idPatches(n)...)
}

var statusRE = lazy(`^[A-Z][A-Z_]{0,62}$`)

// SetStatus sets the word of the Status section and takes out any completion
// marker there besides. Other text of the section stays. The word is made of
// capitals and underscores.
func (d *Doc) SetStatus(s string) error {
	if !statusRE().MatchString(s) {
		return fmt.Errorf("progress: %q is not a status", s)
	}
	return d.atomically(func(d *Doc) error {
		i, err := d.section(SectionStatus)
		if err != nil {
			return err
		}
		lines := d.statusLines()
		if len(lines) == 0 {
			return d.tail(d.heads[i].body, d.sectionEnd(i), false, s)
		}
		src := d.src
		for k := len(lines) - 1; k > 0; k-- {
			if l := lines[k]; d.isMarker(l) {
				src = slices.Concat(src[:lineStart(src, l.start)], src[lineEnd(src, l.start):])
			}
		}
		return d.replace(slices.Concat(src[:lines[0].start], []byte(s), src[lines[0].stop:]))
	})
}

// SetTasks replaces the content of the Tasks section. Groups become level-3
// headings in the order in which they come.
func (d *Doc) SetTasks(tasks []run.Task) error {
	reasons := make(map[string]string)
	for _, t := range d.tasks {
		if t.ID != "" {
			reasons[t.ID] = t.reason
		}
	}
	var b strings.Builder
	group := ""
	for _, t := range tasks {
		if t.Group != group {
			group = t.Group
			if b.Len() > 0 {
				b.WriteString("\n")
			}
			b.WriteString(groupHeading(group))
		}
		b.WriteString(renderTask(t, reasons[t.ID]))
	}
	return d.setSection(SectionTasks, b.String())
}

func groupHeading(group string) string {
	if group = inline(group, maxTitle); group == "" {
		group = "Other"
	}
	return "### " + group + "\n"
}

// renderTask writes a task as lines of a document.
func renderTask(t run.Task, reason string) string {
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
	title, _ := Clean(t.Title) // behind the box nothing can begin a block
	b.WriteString(" " + orUntitled(cut(squeeze(strings.ReplaceAll(title, "<!--", "&lt;!--")), maxTitle)))
	if t.Status == run.TaskBlocked || t.Status == run.TaskSkipped {
		b.WriteString(markText(t.Status, reason))
	}
	b.WriteString("\n")
	for _, a := range t.Accept {
		if a = inline(a, maxLine); a != "" {
			b.WriteString("  - Accept: " + a + "\n")
		}
	}
	if ids := slices.DeleteFunc(slices.Clone(t.DependsOn), func(id string) bool { return id == "" || idLen(id) != len(id) }); len(ids) > 0 {
		b.WriteString("  - Depends on: " + strings.Join(ids, ", ") + "\n")
	}
	return b.String()
}

// AppendLearning adds one bullet to the Learnings.
func (d *Doc) AppendLearning(text string) error {
	text = inline(text, maxLine)
	if text == "" {
		return nil
	}
	return d.appendTo(SectionLearnings, "- "+text, true)
}

// Attempt is what one iteration tried at a task and why that was not enough.
type Attempt struct {
	Iteration int
	// Tried and Next are one line each. Result may be many, as a gate prints
	// them; the middle is left out if it is long.
	Tried, Result, Next string
}

// RecordAttempt adds an attempt to Recent Attempts.
func (d *Doc) RecordAttempt(a Attempt) error {
	eol := d.eol()
	var b strings.Builder
	fmt.Fprintf(&b, "### Iteration %d", a.Iteration)
	if s := inline(a.Tried, maxLine); s != "" {
		b.WriteString(eol + "- Tried: " + s)
	}
	switch result := strings.TrimSpace(a.Result); {
	case strings.ContainsAny(result, "\r\n"):
		b.WriteString(eol + "- Result:" + eol + eol + fenced(a.Result, eol))
	case result != "":
		b.WriteString(eol + "- Result: " + inline(result, maxLine))
	}
	if s := inline(a.Next, maxLine); s != "" {
		b.WriteString(eol + "- Next: " + s)
	}
	return d.appendTo(SectionAttempts, b.String(), false)
}

// ClearAttempts empties Recent Attempts.
func (d *Doc) ClearAttempts() error { return d.clear(SectionAttempts) }

// clear empties a section; one that is missing stays missing.
func (d *Doc) clear(name string) error {
	if d.find(name) < 0 {
		return nil
	}
	return d.setSection(name, "")
}

// LogRow is one line of the Iteration Log.
type LogRow struct {
	Iteration int
	Started   time.Time
	Duration  time.Duration
	Completed string // ids of the tasks completed
	Notes     string
}

// AppendLog adds a row to the Iteration Log, after its table's last row.
func (d *Doc) AppendLog(r LogRow) error {
	row := fmt.Sprintf("| %d | %s | %s | %s | %s |", r.Iteration,
		r.Started.UTC().Format("2006-01-02 15:04:05Z"), r.Duration.Round(time.Second), cell(r.Completed), cell(r.Notes))
	return d.atomically(func(d *Doc) error {
		i, err := d.section(SectionLog)
		if err != nil {
			return err
		}
		body, end := d.heads[i].body, d.sectionEnd(i)
		for _, l := range slices.Backward(d.prose) {
			if l.start >= body && l.stop <= end && l.start < l.stop && d.src[l.start] == '|' {
				at := lineEnd(d.src, l.start)
				if d.src[at-1] != '\n' {
					return d.splice(at, at, d.eol()+row+d.eol())
				}
				return d.splice(at, at, row+d.eol())
			}
		}
		return d.tail(body, end, false, d.withEOL(logHeader+row))
	})
}

// SetCompleted replaces the bullets of Completed This Iteration.
func (d *Doc) SetCompleted(lines []string) error {
	var b strings.Builder
	for _, l := range lines {
		if l = inline(l, maxLine); l != "" {
			b.WriteString("- " + l + "\n")
		}
	}
	if b.Len() == 0 {
		return d.clear(SectionCompleted)
	}
	return d.setSection(SectionCompleted, b.String())
}
