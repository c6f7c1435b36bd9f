package formats

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// markdown is a task file in Markdown. Which check boxes are tasks is decided
// by progress.Doc, as for our own file, but in plans whose tasks are headings;
// what more a system says about its tasks is read from the list items around
// the boxes.
type markdown struct {
	format Format
	name   string
	src    []byte
	doc    *progress.Doc
	heads  []head
	items  []item
	prose  []prose
	boxes  map[int][]int // items under each heading, by its index
	view   Plan
	places []place // of view.Tasks
}

// head is an ATX heading at the top level.
type head struct {
	level   int
	text    string
	textEnd int
	kind    kind
}

// item is a list item with a check box.
type item struct {
	box     int // the byte between the brackets
	head    int // index of the heading it stands under, or -1
	text    string
	details []Detail
}

// prose is a paragraph or a bullet without a box, on one line.
type prose struct {
	head   int
	text   string
	bullet bool
}

// place is where the parts of a task stand that edits change.
type place struct {
	boxes       []int // what a tick changes
	suffix, end int   // what a mark replaces
}

func parseMarkdown(format Format, name string, src []byte) (*markdown, error) {
	m := &markdown{format: format, name: name, src: bytes.Clone(src)}
	doc, err := progress.Parse(src)
	if err != nil {
		return nil, &run.UserError{
			Message: name + " cannot be read: " + strings.TrimPrefix(err.Error(), "progress: "),
			Hint:    "write it as plain Markdown text, with lists nested less deeply", Err: err,
		}
	}
	m.doc = doc
	m.index()
	return m, nil
}

func (m *markdown) bytes() []byte { return m.src }

func (m *markdown) plan() Plan { return m.view.clone() }

// index fills what is derived from m.src.
func (m *markdown) index() {
	body := bytes.TrimPrefix(m.src, []byte(bom))
	w := walker{markdown: m, src: body, skip: len(m.src) - len(body)}
	// Only blocks are of interest; leaving out inline parsing leaves out most
	// of the ways in which hostile text is slow.
	p := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))
	w.blocks(p.Parse(text.NewReader(body)))
	for i := range m.heads {
		m.heads[i].kind = m.kind(i)
	}
	m.boxes = make(map[int][]int)
	for i, it := range m.items {
		m.boxes[it.head] = append(m.boxes[it.head], i)
	}
	m.view = Plan{Title: m.title(), Status: m.doc.Status(), MarkedDone: m.doc.MarkedDone()}
	if m.format == Ralphex {
		m.headingTasks()
	} else {
		m.boxTasks()
	}
	m.sections()
}

// walker collects headings, items and prose.
type walker struct {
	*markdown
	src  []byte
	skip int // what offsets are off by: the byte order mark
}

func (w *walker) blocks(root ast.Node) {
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		at := len(w.heads) - 1
		switch n.Kind() {
		case ast.KindHeading:
			h, ok := n.(*ast.Heading)
			if !ok || h.Lines().Len() == 0 {
				continue
			}
			seg := h.Lines().At(0)
			start := bytes.LastIndexByte(w.src[:seg.Start], '\n') + 1
			if bytes.TrimLeft(w.src[start:seg.Stop], " \t")[0] != '#' {
				continue // "IN_PROGRESS" over a rule of dashes is no heading
			}
			end := seg.Start + len(bytes.TrimRight(w.src[seg.Start:seg.Stop], " \t\r\n"))
			w.heads = append(w.heads, head{
				level: h.Level, text: strs.OneLine(string(w.src[seg.Start:end])), textEnd: end + w.skip,
			})
			continue
		case ast.KindList:
			w.list(n, false)
		case ast.KindParagraph, ast.KindTextBlock:
			w.prose = append(w.prose, prose{head: at, text: w.text(n)})
		}
	}
}

// list collects the items of a list; below says that an item with a box is
// around it.
func (w *walker) list(list ast.Node, below bool) {
	for li := list.FirstChild(); li != nil; li = li.NextSibling() {
		it, boxed := w.item(li)
		if boxed {
			w.items = append(w.items, it)
		} else if s := w.text(li.FirstChild()); s != "" && !below {
			w.prose = append(w.prose, prose{head: len(w.heads) - 1, text: s, bullet: true})
		}
		at := len(w.items) - 1
		for c := li.FirstChild(); c != nil; c = c.NextSibling() {
			if c.Kind() != ast.KindList {
				continue
			}
			if boxed && !below {
				w.details(c, at)
			}
			w.list(c, below || boxed)
		}
	}
}

// details reads what the list below an item with a box says about it. Boxes
// there are criteria, which progress.Doc reads.
func (w *walker) details(list ast.Node, of int) {
	for li := list.FirstChild(); li != nil; li = li.NextSibling() {
		s := w.text(li.FirstChild())
		if _, boxed := w.item(li); boxed || s == "" {
			continue
		}
		if emphasised := strings.Trim(s, "_"); len(s) == len(emphasised)+2 && s[0] == '_' {
			s = emphasised
		}
		d := Detail{}
		if m := labelRE().FindStringSubmatch(s); m != nil {
			d.Label, s = m[1], m[2]
		}
		if s != "" {
			d.Lines = append(d.Lines, s)
		}
		for c := li.FirstChild(); c != nil; c = c.NextSibling() {
			for sub := c.FirstChild(); sub != nil && c.Kind() == ast.KindList; sub = sub.NextSibling() {
				if _, boxed := w.item(sub); boxed {
					continue
				}
				if s := w.text(sub.FirstChild()); s != "" {
					d.Lines = append(d.Lines, s)
				}
			}
		}
		if len(d.Lines) > 0 {
			w.items[of].details = append(w.items[of].details, d)
		}
	}
}

// item reads a list item that begins with a check box.
func (w *walker) item(li ast.Node) (item, bool) {
	par := li.FirstChild()
	if par == nil || par.Kind() != ast.KindParagraph && par.Kind() != ast.KindTextBlock || par.Lines().Len() == 0 {
		return item{}, false
	}
	seg := par.Lines().At(0)
	start := seg.Stop - len(bytes.TrimLeft(w.src[seg.Start:seg.Stop], " \t"))
	m := boxRE().FindIndex(w.src[start:seg.Stop])
	if m == nil {
		return item{}, false
	}
	return item{
		box: start + 1 + w.skip, head: len(w.heads) - 1,
		text: strs.OneLine(strings.TrimPrefix(w.text(par), string(w.src[start:start+3]))),
	}, true
}

// text is a paragraph on one line, or "" for any other node.
func (w *walker) text(n ast.Node) string {
	if n == nil || n.Kind() != ast.KindParagraph && n.Kind() != ast.KindTextBlock {
		return ""
	}
	var b strings.Builder
	for i := range n.Lines().Len() {
		seg := n.Lines().At(i)
		b.Write(w.src[seg.Start:seg.Stop])
		b.WriteByte(' ')
	}
	return plainText(oneLine(b.String(), maxText))
}

var (
	boxRE   = strs.Lazy(`^\[[ \txX]\](?:[ \t\r\n]|$)`)
	labelRE = strs.Lazy(`^[*_]{0,2}([A-Z][A-Za-z]*(?: [A-Za-z]+){0,3})(?::[*_]{0,2}|[*_]{1,2}:)(?:\s+(.*))?$`)
	// headTaskRE is a heading that is a task of a ralphex plan.
	headTaskRE = strs.Lazy(`(?i)^((?:task|iteration)[ \t]+\d+(?:\.\d+)*)[ \t]*[:.–—-][ \t]*(.*)$`)
	portableRE = strs.Lazy(`(?i)^\*{0,2}(task[ \t]+\d+)(?::\*{0,2}|\*{0,2}:)[ \t]*`)
	specumRE   = strs.Lazy(`^\*{0,2}(\d+(?:\.\d+)+|V\d+|VF)\*{0,2}[:.]?(?:[ \t]+|$)`)
	originRE   = strs.Lazy(`^\[([A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,38}[A-Za-z0-9])?)\][ \t]+`)
	flagRE     = strs.Lazy(`^\[(P|VERIFY)\](?:[ \t]+|$)`)
	branchRE   = strs.Lazy("^Branch: `?([^`\\s]+)`?$")
	priorityRE = strs.Lazy(`(?i)^(high|medium|low)[ -]priority\b`)
	optionalRE = strs.Lazy(`(?i)^(?:optional|future(?: enhancements)?|nice[ -]to[ -]have)\b`)
	rankRE     = strs.Lazy(`^\(P(\d)\)(?:[ \t]+|$)`)
	markRE     = strs.Lazy(` ?\((blocked|skipped): ([^()]*)\)$`)
)

// title is the first heading without what the system puts before it.
func (m *markdown) title() string {
	if len(m.heads) == 0 {
		return ""
	}
	s := m.heads[0].text
	for _, prefix := range []string{"Progress:", "Tasks:"} {
		if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
			return strings.TrimSpace(s[len(prefix):])
		}
	}
	return s
}

// boxTasks takes over the tasks that progress.Doc finds.
func (m *markdown) boxTasks() {
	at := make(map[int]int, len(m.items))
	for i, it := range m.items {
		at[it.box] = i
	}
	places := m.doc.Places()
	var sections []fixSection
	if m.format == FixPlan {
		sections = m.fixPlan()
	}
	for i, t := range m.doc.Tasks() {
		p := places[i]
		task := Task{Task: t}
		if n, ok := at[p.Box]; ok {
			if head := m.items[n].head; head >= 0 && head < len(sections) {
				sections[head].apply(&task)
			}
			m.enrich(&task, m.items[n])
		}
		m.identify(&task)
		m.view.Tasks = append(m.view.Tasks, task)
		m.places = append(m.places, place{boxes: []int{p.Box}, suffix: p.Suffix, end: p.TextEnd})
	}
}

func (m *markdown) ticked(box int) bool { return m.src[box] == 'x' || m.src[box] == 'X' }

// enrich adds what the file says around the box of a task.
func (m *markdown) enrich(t *Task, it item) {
	criteria := make(map[string]bool, len(t.Accept))
	for _, a := range t.Accept {
		criteria[a] = true
	}
	for _, d := range it.details {
		switch {
		case readBelow(t, d), !slices.ContainsFunc(d.Lines, func(l string) bool { return !criteria[l] }):
			// progress.Doc has read it.
		case d.Label == labelPriority && t.Priority == maxPriority && len(d.Lines) == 1:
			if _, err := fmt.Sscanf(d.Lines[0], "%7d", &t.Priority); err != nil {
				t.Details = append(t.Details, d)
			}
		default:
			t.Details = append(t.Details, d)
		}
	}
}

// readBelow says whether progress.Doc has read a detail as a line below the task.
func readBelow(t *Task, d Detail) bool {
	if progress.IsDepends(d.Label) {
		return len(t.DependsOn) > 0
	}
	return progress.IsLabelled(d.Label+":") || d.Label == "" && len(d.Lines) > 0 && progress.IsLabelled(d.Lines[0])
}

// fixPlan reads off the headings of a fix plan what they say about the tasks
// below: a priority from 1, and whether they are for the loop at all.
func (m *markdown) fixPlan() []fixSection {
	out := make([]fixSection, len(m.heads))
	var open []int // the headings around the one at hand
	for i, h := range m.heads {
		for len(open) > 0 && m.heads[open[len(open)-1]].level >= h.level {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			out[i] = out[open[len(open)-1]]
		}
		open = append(open, i)
		out[i].own = false
		if at := priorityRE().FindStringSubmatch(h.text); at != nil {
			out[i].priority = 1 + slices.Index([]string{"high", "medium", "low"}, strings.ToLower(at[1]))
			out[i].own = true
		}
		if optionalRE().MatchString(h.text) {
			out[i].optional = h.text
		}
	}
	return out
}

// fixSection is what a heading of a fix plan says.
type fixSection struct {
	priority int
	optional string // the heading of what may be done one day
	own      bool   // the heading itself names the priority
}

// apply gives a task what its heading says.
func (s fixSection) apply(t *Task) {
	if t.Priority == 0 {
		t.Priority = s.priority
	}
	if s.own {
		t.Group = ""
	}
	if s.optional != "" && t.Status == run.TaskOpen {
		t.Status, t.Reason = run.TaskSkipped, "it stands under "+s.optional
	}
}

// identify takes the id off the front of a title where the format, or a
// conversion to it, puts one, and the markers behind it.
func (m *markdown) identify(t *Task) {
	peel := func(re *regexp.Regexp) string {
		at := re.FindStringSubmatchIndex(t.Title)
		if at == nil || at[1] == len(t.Title) {
			return ""
		}
		word := t.Title[at[2]:at[3]]
		t.Title = t.Title[at[1]:]
		return word
	}
	id := ""
	switch m.format {
	case Portable:
		id = peel(portableRE())
	case Specum:
		id = peel(specumRE())
	case Progress, PRD, Rslph, FixPlan, Ralphex, Checklist:
	}
	if id != "" {
		t.ID = strs.OneLine(id)
	}
	for more := true; more; {
		switch more = false; peel(flagRE()) {
		case "P":
			t.Parallel, more = true, true
		case "VERIFY":
			t.Verify, more = true, true
		}
		if t.Priority == 0 {
			if s := peel(rankRE()); s != "" && s != "0" {
				t.Priority, more = int(s[0]-'0'), true
			}
		}
	}
	if at := originRE().FindStringSubmatch(t.Title); at != nil && isOrigin(at[1]) {
		t.Origin = peel(originRE())
	}
}

// isOrigin says whether s can stand in brackets before a title and be told
// from a marker there: it holds a digit.
func isOrigin(s string) bool {
	return strings.ContainsAny(s, "0123456789") && originRE().MatchString("["+s+"] ")
}

// headingTasks reads a plan whose tasks are headings with boxes below.
func (m *markdown) headingTasks() {
	next := 0 // of m.prose
	for i, h := range m.heads {
		at := headTaskRE().FindStringSubmatchIndex(h.text)
		if at == nil || h.level < 3 {
			continue
		}
		t := Task{Task: run.Task{ID: strs.OneLine(h.text[at[2]:at[3]]), Title: h.text[at[4]:at[5]], Status: run.TaskDone}}
		p, ticked := place{suffix: h.textEnd, end: h.textEnd}, 0
		for _, n := range m.boxes[i] {
			it := m.items[n]
			// A box whose text shows boxes describes a format.
			if strings.Contains(it.text, "[ ]") || strings.Contains(it.text, "[x]") {
				continue
			}
			p.boxes = append(p.boxes, it.box)
			t.Accept = append(t.Accept, it.text)
			if m.ticked(it.box) {
				ticked++
			}
		}
		switch {
		case ticked == 0:
			t.Status = run.TaskOpen
		case ticked < len(p.boxes):
			t.Status = run.TaskInProgress
		}
		if len(p.boxes) == 0 {
			continue
		}
		for ; next < len(m.prose) && m.prose[next].head <= i; next++ {
			if m.prose[next].head == i {
				m.aside(&t, m.prose[next])
			}
		}
		if at := markRE().FindStringSubmatchIndex(t.Title); at != nil {
			p.suffix -= len(t.Title) - at[0]
			if t.Status != run.TaskDone {
				t.Status, t.Reason = run.TaskStatus(t.Title[at[2]:at[3]]), t.Title[at[4]:at[5]]
			}
			t.Title = t.Title[:at[0]]
		}
		m.identify(&t)
		if t.Title == "" {
			t.Title = t.ID
		}
		if len(t.Accept) == 1 && t.Accept[0] == t.Title {
			t.Accept = nil // the box that a task needs, and no more
		}
		m.view.Tasks = append(m.view.Tasks, t)
		m.places = append(m.places, p)
	}
}

// aside reads a paragraph or bullet below a heading that is a task.
func (m *markdown) aside(t *Task, p prose) {
	d := Detail{Lines: []string{p.text}}
	if at := labelRE().FindStringSubmatch(p.text); at != nil && at[2] != "" {
		d.Label, d.Lines[0] = at[1], at[2]
	}
	if d.Label != "" && progress.AddLine(&t.Task, p.text) {
		return
	}
	t.Details = append(t.Details, d)
}

// kind says what a section is to the view.
type kind int

const (
	kindOther kind = iota
	kindAbout
	kindLearnings
	kindPatterns
)

// kind tells what the section under heading i is by its name.
func (m *markdown) kind(i int) kind {
	switch h := m.heads[i]; fold(h.text) {
	case "status", "tasks", "task list", "tasks completed":
		return kindOther
	case "analysis", "overview":
		return kindAbout
	case "learnings":
		return kindLearnings
	case "notes":
		if m.notes() {
			return kindLearnings
		}
	case "codebase patterns":
		return kindPatterns
	}
	if i == 0 {
		return kindAbout // what stands before the first section
	}
	return kindOther
}

// notes says whether what was learned goes into the Notes of the file.
func (m *markdown) notes() bool { return m.format == Portable || m.format == FixPlan }

// Words before a line in files whose system knows no section for it.
const (
	prefixLearned = "Learned: "
	prefixPattern = "Pattern: "
)

// sections reads what stands beside the tasks.
func (m *markdown) sections() {
	for _, p := range m.prose {
		switch m.kindOf(p.head) {
		case kindAbout:
			m.about(p)
		case kindLearnings, kindPatterns:
			m.note(p)
		case kindOther:
		}
	}
}

// kindOf is the kind of a section, or of what stands before any heading.
func (m *markdown) kindOf(head int) kind {
	if head < 0 {
		return kindAbout
	}
	return m.heads[head].kind
}

// about reads prose that describes the plan.
func (m *markdown) about(p prose) {
	switch {
	case p.bullet && m.format == Rslph && (strings.HasPrefix(p.text, prefixLearned) ||
		strings.HasPrefix(p.text, prefixPattern)):
		m.note(p)
	case p.bullet:
		m.view.Description = append(m.view.Description, "- "+p.text)
	case branchRE().MatchString(p.text) && m.view.Branch == "":
		m.view.Branch = branchRE().FindStringSubmatch(p.text)[1]
	default:
		m.view.Description = append(m.view.Description, p.text)
	}
}

// note reads a bullet of what was learned. Paragraphs there are placeholders
// more often than not.
func (m *markdown) note(p prose) {
	if !p.bullet {
		return
	}
	if s, ok := strings.CutPrefix(p.text, prefixPattern); ok || m.kindOf(p.head) == kindPatterns {
		m.view.Patterns = append(m.view.Patterns, s)
		return
	}
	m.view.Learnings = append(m.view.Learnings, strings.TrimPrefix(p.text, prefixLearned))
}

// replace takes over new bytes if they read as a task file.
func (m *markdown) replace(src []byte) error {
	if err := admit(m.name, src); err != nil {
		return err
	}
	n, err := parseMarkdown(m.format, m.name, src)
	if err != nil {
		return err
	}
	*m = *n
	return nil
}

func (m *markdown) edits(c StatusChange) ([]patch, error) {
	if c.Task < 0 || c.Task >= len(m.places) {
		return nil, noTask(c.Task, len(m.places))
	}
	p, t := m.places[c.Task], m.view.Tasks[c.Task]
	if c.Status == run.TaskBlocked || c.Status == run.TaskSkipped {
		if t.Status == run.TaskDone {
			return nil, errDone(t)
		}
		return []patch{{p.suffix, p.end, markText(c.Status, c.Reason)}}, nil
	}
	done, to := c.Status == run.TaskDone, " "
	if done {
		to = "x"
	}
	var out []patch
	for _, at := range p.boxes {
		if done != m.ticked(at) {
			out = append(out, patch{at, at + 1, to})
		}
	}
	return out, nil
}

func markText(status run.TaskStatus, reason string) string {
	return " (" + string(status) + ": " + reasonText(reason) + ")"
}

// mdNotes is smart-ralph's .progress.md: Markdown with sections for what was
// learned.
type mdNotes struct{ *markdown }

func parseNotes(name string, src []byte) (mdNotes, error) {
	m, err := parseMarkdown(Checklist, name, src)
	return mdNotes{m}, err
}

func (n mdNotes) patterns() []string  { return n.view.Patterns }
func (n mdNotes) learnings() []string { return n.view.Learnings }
