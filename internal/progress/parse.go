package progress

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/org/ralph-action/internal/run"
)

// MaxSize is the largest document read or written, in bytes. An agent can make
// its file any size; ours stay far below.
const MaxSize = 1 << 20

const (
	// maxMarkers and maxIndent bound how deep block quotes and lists nest.
	// The time goldmark takes grows with the square of the depth: a megabyte
	// of ">" alone keeps it busy for minutes.
	maxMarkers = 32
	maxIndent  = 256
	// tabWidth is the width of a tab stop in CommonMark.
	tabWidth = 4
)

// Errors of Parse. Each of them means "not a document we work with".
var (
	ErrTooLarge = errors.New("progress: document is too large")
	ErrEncoding = errors.New("progress: document is not plain UTF-8 text")
	ErrTooDeep  = errors.New("progress: document is nested too deeply")
)

// ErrNoTask: the document has no task with that id.
var ErrNoTask = errors.New("progress: no such task")

// Names of the sections, in the order of a fresh document.
const (
	SectionStatus    = "Status"
	SectionAnalysis  = "Analysis"
	SectionTasks     = "Tasks"
	SectionTesting   = "Testing Strategy"
	SectionPatterns  = "Codebase Patterns"
	SectionLearnings = "Learnings"
	SectionCompleted = "Completed This Iteration"
	SectionAttempts  = "Recent Attempts"
	SectionLog       = "Iteration Log"
)

// sectionOrder is where a section that is missing belongs.
var sectionOrder = [...]string{
	SectionStatus, SectionAnalysis, SectionTasks, SectionTesting, SectionPatterns,
	SectionLearnings, SectionCompleted, SectionAttempts, SectionLog,
}

// bom is the byte order mark some Windows editors put first.
const bom = "\ufeff"

// Doc is a parsed document. It owns its bytes. The zero value is not usable;
// make one with Parse or New. A Doc is not safe for concurrent use.
type Doc struct {
	prefix string // byte order mark, or ""
	src    []byte // without prefix
	heads  []heading
	tasks  []task
	prose  []line // lines of paragraphs, outside code and raw HTML
}

// heading is an ATX heading at the top level of the document. Setext headings
// are not counted: "IN_PROGRESS" over a rule of dashes is a status line and a
// separator to whoever wrote it.
type heading struct {
	level int
	text  string
	start int // first byte of the heading's line
	body  int // first byte after the heading's line
	// listLast says that the last block before the next heading is a list, so
	// that a bullet can be added to it without a blank line.
	listLast bool
}

// line is one line of prose, trimmed of white space.
type line struct {
	start, stop int
	top         bool // in a block at the top level of the document
}

// task is a run.Task and the places in the source an edit needs.
type task struct {
	run.Task
	mark   run.TaskStatus // TaskBlocked or TaskSkipped where the text says so
	reason string         // of the mark
	box    int            // the byte between the brackets
	// idStart and idEnd hold the id as written, also where it is a duplicate
	// and Task.ID therefore empty. Both are 0 when there is none.
	idStart, idEnd int
	textEnd        int // end of the first paragraph, white space trimmed
	suffix         int // where "(blocked: …)" goes or is, with the space before it
}

// Parse reads a document. It fails for what cannot be one: more than MaxSize
// bytes (ErrTooLarge), invalid UTF-8 or NUL (ErrEncoding), absurd nesting
// (ErrTooDeep). Any other text parses; it may just hold nothing of interest.
// The bytes are copied.
func Parse(src []byte) (*Doc, error) {
	if len(src) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(src), MaxSize)
	}
	if !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0 {
		return nil, ErrEncoding
	}
	for l := range bytes.Lines(src) {
		if tooDeep(l) {
			return nil, ErrTooDeep
		}
	}
	d := &Doc{}
	if bytes.HasPrefix(src, []byte(bom)) {
		d.prefix = bom
		src = src[len(bom):]
	}
	d.src = bytes.Clone(src)
	d.index()
	return d, nil
}

// tooDeep says whether the block quote and list markers a line starts with
// nest further than anybody writes by hand.
func tooDeep[T []byte | string](l T) bool {
	markers, col := 0, 0
	for i := 0; i < len(l); {
		switch c := l[i]; {
		case c == ' ':
			col++
			i++
		case c == '\t':
			col += tabWidth
			i++
		case c == '>':
			markers++
			col++
			i++
		default:
			n := markerLen(l[i:])
			if n == 0 {
				return false
			}
			markers++
			col += n
			i += n
		}
		if markers > maxMarkers || markers > 0 && col > maxIndent {
			return true
		}
	}
	return false
}

// markerLen is the length of the list marker at the start of s, or 0. A marker
// is followed by white space or the end of the line.
func markerLen[T []byte | string](s T) int {
	n := 0
	switch c := s[0]; {
	case c == '-' || c == '*' || c == '+':
		n = 1
	case c >= '0' && c <= '9':
		for n < len(s) && n < 10 && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		if n == len(s) || s[n] != '.' && s[n] != ')' {
			return 0
		}
		n++
	default:
		return 0
	}
	if n < len(s) && s[n] != ' ' && s[n] != '\t' && s[n] != '\n' && s[n] != '\r' {
		return 0
	}
	return n
}

// blockTree parses the block structure only. Check boxes, headings and
// paragraphs need no inline parsing, and leaving it out leaves out most of the
// ways in which hostile text is slow to parse.
func blockTree(src []byte) ast.Node {
	// A parser is cheap to make and this keeps the package free of state.
	p := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))
	return p.Parse(text.NewReader(src))
}

// index fills everything of d that is derived from d.src.
func (d *Doc) index() {
	d.heads, d.tasks, d.prose = nil, nil, nil
	root := blockTree(d.src)
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && d.src[lineStart(d.src, h.Pos())+indent(d.src, h.Pos())] == '#' {
			d.heads = append(d.heads, heading{
				level: h.Level,
				text:  d.nodeText(h),
				start: lineStart(d.src, h.Pos()),
				body:  lineEnd(d.src, h.Pos()),
			})
			continue
		}
		if len(d.heads) > 0 {
			d.heads[len(d.heads)-1].listLast = n.Kind() == ast.KindList
		}
	}
	d.indexProse(root, true)
	d.indexTasks(root)
}

// indexProse collects the lines of paragraphs and setext headings below n.
func (d *Doc) indexProse(n ast.Node, top bool) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c.Kind() {
		case ast.KindParagraph, ast.KindTextBlock, ast.KindHeading:
			for i := range c.Lines().Len() {
				seg := c.Lines().At(i)
				start, stop := trimSpan(d.src, seg.Start, seg.Stop)
				d.prose = append(d.prose, line{start: start, stop: stop, top: top})
			}
		case ast.KindList, ast.KindListItem, ast.KindBlockquote:
			d.indexProse(c, false)
		}
	}
}

// indexTasks finds the tasks: the check boxes of the Tasks sections or, in a
// document without such a section, all that stand at the top level.
func (d *Doc) indexTasks(root ast.Node) {
	level := 0 // of the Tasks heading; level 2 goes before others
	for _, h := range d.heads {
		if isTasks(h.text) && (level == 0 || h.level == 2) {
			level = h.level
		}
	}
	in, group, next := level == 0, "", 0
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if next < len(d.heads) && n.Kind() == ast.KindHeading && n.Pos() >= d.heads[next].start && n.Pos() < d.heads[next].body {
			h := d.heads[next]
			next++
			switch {
			case level > 0 && h.level == level && isTasks(h.text):
				in, group = true, ""
			case h.level == 1:
				in, group = level == 0, ""
			default:
				in, group = in && h.level > level || level == 0, h.text
			}
			continue
		}
		if in && n.Kind() == ast.KindList {
			d.listTasks(n, group)
		}
	}
	seen := make(map[string]bool, len(d.tasks))
	for i := range d.tasks {
		t := &d.tasks[i]
		if seen[t.ID] {
			t.ID = ""
		}
		seen[t.ID] = true
	}
}

func isTasks(heading string) bool {
	k := fold(heading)
	return k == "tasks" || k == "task list"
}

// listTasks appends the tasks of one list. An item without a check box may
// hold a list of tasks; check boxes below a task belong to that task.
func (d *Doc) listTasks(list ast.Node, group string) {
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		if t, ok := d.parseTask(item); ok {
			t.Group = group
			d.tasks = append(d.tasks, t)
			continue
		}
		for c := item.FirstChild(); c != nil; c = c.NextSibling() {
			if c.Kind() == ast.KindList {
				d.listTasks(c, group)
			}
		}
	}
}

// parseTask reads a list item as a task.
func (d *Doc) parseTask(item ast.Node) (task, bool) {
	par := item.FirstChild()
	if par == nil || par.Kind() != ast.KindTextBlock && par.Kind() != ast.KindParagraph {
		return task{}, false
	}
	first, last := par.Lines().At(0), par.Lines().At(par.Lines().Len()-1)
	start, _ := trimSpan(d.src, first.Start, first.Stop)
	if !isBox(d.src[start:first.Stop]) {
		return task{}, false
	}
	_, end := trimSpan(d.src, last.Start, last.Stop)
	t := task{box: start + 1, textEnd: end}
	t.Status = run.TaskOpen
	pos := d.readTags(&t, start+len("[ ]"), min(first.Stop, end))
	cut := end
	if at, mark, reason := suffix(d.src[pos:end]); mark != "" {
		cut, t.mark, t.reason = pos+at, mark, reason
		t.Status = mark
	}
	if c := d.src[t.box]; c == 'x' || c == 'X' {
		t.Status = run.TaskDone
	}
	t.suffix = max(pos, len(bytes.TrimRight(d.src[:cut], " \t\r\n")))
	t.Title = squeeze(commentRE().ReplaceAllString(squeeze(string(d.src[pos:cut])), " "))
	if t.Title == "" && t.idEnd == 0 {
		return task{}, false // an empty box, as templates have; GitHub shows it as text
	}
	for c := par.NextSibling(); c != nil; c = c.NextSibling() {
		if c.Kind() == ast.KindList {
			t.Accept = append(t.Accept, d.criteria(c)...)
		}
	}
	return t, true
}

var (
	commentRE = lazy(`<!--.*?-->`)
	// idRE takes "T12", "T12:", "**T12**", "**T12:**" and, with the emphasis
	// left open, "**T12: title**".
	idRE       = lazy(`^(\*\*|__)?T(\d{1,6})(?:[:.)]?(\*\*|__)[:.)]?|[:.)])?(?:[ \t]+|$)`)
	priorityRE = lazy(`^\([Pp](\d)\)(?:[ \t]+|$)`)
	dashRE     = lazy(`^[-–—][ \t]+`)
	flagRE     = lazy(`^\[(P|VERIFY)\](?:[ \t]+|$)`)
	acceptRE   = lazy(`(?i)^(?:\*\*|__)?(?:accept|acceptance|acceptance criteria|done when)(?::(?:\*\*|__)?|(?:\*\*|__):)\s*(.*)$`)
)

// readTags reads id, priority and markers from src[pos:end], in any order and
// with one dash among them, and returns where the title starts.
func (d *Doc) readTags(t *task, pos, end int) int {
	for dash := false; ; {
		for pos < end && (d.src[pos] == ' ' || d.src[pos] == '\t') {
			pos++
		}
		s := d.src[pos:end]
		if m := idRE().FindSubmatchIndex(s); m != nil && t.idEnd == 0 {
			t.idStart, t.idEnd = pos+m[4]-1, pos+m[5]
			n, _ := strconv.Atoi(string(s[m[4]:m[5]])) // at most six digits
			t.ID = "T" + strconv.Itoa(n)
			pos += m[1]
			if m[2] >= 0 && m[6] < 0 { // emphasis goes on into the title
				return pos
			}
			continue
		}
		if m := priorityRE().FindSubmatchIndex(s); m != nil && t.Priority == 0 {
			t.Priority = int(s[m[2]] - '0')
			pos += m[1]
			continue
		}
		if m := flagRE().FindSubmatchIndex(s); m != nil {
			if string(s[m[2]:m[3]]) == "P" {
				t.Parallel = true
			} else {
				t.Verify = true
			}
			pos += m[1]
			continue
		}
		if m := dashRE().FindIndex(s); m != nil && !dash {
			dash = true
			pos += m[1]
			continue
		}
		return pos
	}
}

// isBox says whether s starts with a check box: GitHub wants one blank or x
// between the brackets and white space after them.
func isBox(s []byte) bool {
	return len(s) >= 3 && s[0] == '[' && bytes.IndexByte([]byte(" \txX"), s[1]) >= 0 && s[2] == ']' &&
		(len(s) == 3 || bytes.IndexByte([]byte(" \t\r\n"), s[3]) >= 0)
}

// suffix finds "(blocked: reason)" or "(skipped: reason)" at the end of a
// task's text: where it starts, which of the two, and the reason.
func suffix(s []byte) (at int, mark run.TaskStatus, reason string) {
	if !bytes.HasSuffix(s, []byte(")")) {
		return 0, "", ""
	}
	for depth, i := 0, len(s)-1; i >= 0; i-- {
		switch s[i] {
		case ')':
			depth++
		case '(':
			depth--
		}
		if depth > 0 {
			continue
		}
		for _, mark := range [...]run.TaskStatus{run.TaskBlocked, run.TaskSkipped} {
			if rest, ok := bytes.CutPrefix(s[i+1:len(s)-1], []byte(mark+":")); ok {
				return i, mark, squeeze(string(rest))
			}
		}
		break
	}
	return 0, "", ""
}

// criteria collects the acceptance criteria of a list nested below a task.
func (d *Doc) criteria(list ast.Node) []string {
	var out []string
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		m := acceptRE().FindStringSubmatch(d.itemText(item))
		if m == nil {
			continue
		}
		if m[1] != "" {
			out = append(out, m[1])
			continue
		}
		for c := item.FirstChild(); c != nil; c = c.NextSibling() {
			if c.Kind() != ast.KindList {
				continue
			}
			for sub := c.FirstChild(); sub != nil; sub = sub.NextSibling() {
				if s := d.itemText(sub); s != "" {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// itemText is the first paragraph of a list item on one line, without a check
// box in front.
func (d *Doc) itemText(item ast.Node) string {
	par := item.FirstChild()
	if par == nil || par.Kind() != ast.KindTextBlock && par.Kind() != ast.KindParagraph {
		return ""
	}
	s := d.nodeText(par)
	if isBox([]byte(s)) {
		s = s[len("[ ]"):]
	}
	return squeeze(s)
}

// nodeText is the source of a leaf block on one line.
func (d *Doc) nodeText(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		seg := n.Lines().At(i)
		b.Write(d.src[seg.Start:seg.Stop])
		b.WriteByte(' ')
	}
	return squeeze(b.String())
}

// sectionEnd is where the section under heading i ends: at the next heading of
// its own or a higher level, or at the end of the document.
func (d *Doc) sectionEnd(i int) int {
	for _, h := range d.heads[i+1:] {
		if h.level <= d.heads[i].level {
			return h.start
		}
	}
	return len(d.src)
}

// find gives the index in d.heads of a level-2 section, or -1. Names compare
// without case, decoration and trailing colon.
func (d *Doc) find(name string) int {
	want := fold(name)
	return slices.IndexFunc(d.heads, func(h heading) bool {
		if h.level != 2 {
			return false
		}
		return fold(h.text) == want || want == "tasks" && isTasks(h.text)
	})
}

// Section is the content of a level-2 section without the blank lines around
// it, or "" where there is none.
func (d *Doc) Section(name string) string {
	i := d.find(name)
	if i < 0 {
		return ""
	}
	return strings.Trim(string(d.src[d.heads[i].body:d.sectionEnd(i)]), "\r\n")
}

// Bytes is the document as it would be written to disk.
func (d *Doc) Bytes() []byte { return append([]byte(d.prefix), d.src...) }

// Clone returns an independent copy.
func (d *Doc) Clone() *Doc {
	c := *d
	c.src = bytes.Clone(d.src)
	c.heads = slices.Clone(d.heads)
	c.prose = slices.Clone(d.prose)
	c.tasks = slices.Clone(d.tasks)
	return &c
}

// Heading is the text of the first level-1 heading, or "".
func (d *Doc) Heading() string {
	for _, h := range d.heads {
		if h.level == 1 {
			return h.text
		}
	}
	return ""
}

// Title is Heading without the "Progress:" that ours begin with.
func (d *Doc) Title() string {
	return strings.TrimSpace(strings.TrimPrefix(d.Heading(), titlePrefix))
}

// titlePrefix starts the level-1 heading of our own documents.
const titlePrefix = "Progress:"

// Tasks lists the tasks in document order. A task whose id another task before
// it has already taken has none, as has one without.
func (d *Doc) Tasks() []run.Task {
	out := make([]run.Task, len(d.tasks))
	for i, t := range d.tasks {
		out[i] = t.Task
		out[i].Accept = slices.Clone(t.Accept)
	}
	return out
}

// Counts says how many of the tasks that are to be done are done. Skipped ones
// do not count, blocked ones do.
func Counts(tasks []run.Task) (done, total int) {
	for _, t := range tasks {
		switch t.Status {
		case run.TaskSkipped:
		case run.TaskDone:
			done++
			total++
		case run.TaskOpen, run.TaskInProgress, run.TaskBlocked:
			total++
		}
	}
	return done, total
}

// Binding says what a document belongs to, so that a file left by another
// issue or plan is not taken for ours.
type Binding struct {
	// Key is "issue:<node id>" or "plan:<slug>".
	Key string
	// PlanSHA256 is the hash of the plan the tasks were made from, in hex.
	PlanSHA256 string
}

var bindingRE = lazy(`^<!-- ralph:progress key=(\S+) plan=(\S*) -->[ \t\r]*(?:\n|$)`)

// Binding reads the comment on the first line.
func (d *Doc) Binding() (Binding, bool) {
	m := bindingRE().FindSubmatch(d.src)
	if m == nil {
		return Binding{}, false
	}
	key, err := url.PathUnescape(string(m[1]))
	if err != nil {
		return Binding{}, false
	}
	sum, err := url.PathUnescape(string(m[2]))
	if err != nil {
		return Binding{}, false
	}
	return Binding{Key: key, PlanSHA256: sum}, true
}

func (b Binding) comment() string {
	return "<!-- ralph:progress key=" + url.PathEscape(b.Key) + " plan=" + url.PathEscape(b.PlanSHA256) + " -->"
}

// fold makes the name of a section comparable: lower case, one space between
// words, no emphasis, emoji, numbering or colon around it.
func fold(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
	return strings.ToLower(squeeze(s))
}

// squeeze trims s and makes every run of white space one space.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// lineStart is the start of the line that pos is in.
func lineStart(src []byte, pos int) int { return bytes.LastIndexByte(src[:pos], '\n') + 1 }

// lineEnd is the start of the line after the one pos is in.
func lineEnd(src []byte, pos int) int {
	if i := bytes.IndexByte(src[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(src)
}

// indent counts the blanks at the start of the line that pos is in.
func indent(src []byte, pos int) int {
	rest := src[lineStart(src, pos):]
	return len(rest) - len(bytes.TrimLeft(rest, " \t"))
}

// trimSpan narrows src[start:stop] to what is not white space at its ends.
func trimSpan(src []byte, start, stop int) (int, int) {
	s := src[start:stop]
	stop -= len(s) - len(bytes.TrimRight(s, " \t\r\n"))
	start += len(s) - len(bytes.TrimLeft(s, " \t\r\n"))
	return min(start, stop), stop
}
