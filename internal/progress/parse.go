package progress

import (
	"bytes"
	"errors"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// ErrNoTask: the document has no task with that id.
var ErrNoTask = errors.New("progress: no such task")

// bom is the byte order mark some Windows editors put first.
const bom = "\ufeff"

// Doc is a parsed document. It owns its bytes. The zero value is not usable;
// make one with Parse or New. A Doc is not safe for concurrent use.
type Doc struct {
	prefix    string // byte order mark, or ""
	src       []byte // without prefix
	heads     []heading
	tasksHead int // index in heads of the Tasks section, or -1
	tasks     []task
	prose     []line
}

// heading is an ATX heading at the top level of the document. Setext headings
// are not counted: "IN_PROGRESS" over a rule of dashes is a status line and a
// separator to whoever wrote it.
type heading struct {
	level int
	text  string
	key   string // text, folded
	start int    // first byte of the heading's line
	body  int    // first byte after the heading's line
}

// line is one line of a paragraph or setext heading at the top level of the
// document, trimmed of white space.
type line span

// task is a run.Task and the places in the source an edit needs.
type task struct {
	run.Task
	mark run.TaskStatus // TaskBlocked or TaskSkipped where the text says so
	item int            // the bullet or number of the list item
	box  int            // the byte between the brackets
	// idStart and idEnd hold the id as written, also where it is a duplicate
	// and Task.ID therefore empty. Both are 0 when there is none.
	idStart, idEnd int
	title          int // where the title starts
	textEnd        int // end of the first paragraph, white space trimmed
	suffix         int // where "(blocked: …)" goes or is, with the space before it
	end            int // start of the line after the item and all below it
	// depends holds where the ids of DependsOn are written.
	depends []span
}

// Parse reads a document. It fails for what cannot be one: more than MaxSize
// bytes (ErrTooLarge), invalid UTF-8 or NUL (ErrEncoding), absurd nesting
// (ErrTooDeep). Any other text parses; it may just hold nothing of interest.
// The bytes are copied.
func Parse(src []byte) (*Doc, error) {
	if _, err := Check(src); err != nil {
		return nil, err
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
	ix := indexer{d: d, src: string(d.src)}
	root := blockTree(d.src)
	items := 0 // of lists at the top level, which tasks mostly are
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			if at := lineStart(d.src, h.Pos()); d.src[at+indent(d.src, h.Pos())] == '#' {
				text := ix.text(h)
				d.heads = append(d.heads, heading{
					level: h.Level, text: text, key: fold(text), start: at, body: lineEnd(d.src, h.Pos()),
				})
				continue
			}
		}
		ix.lines(n, &d.prose)
		if n.Kind() == ast.KindList {
			items += n.ChildCount()
		}
	}
	d.tasksHead = d.find(SectionTasks)
	d.tasks = make([]task, 0, items)
	ix.tasks(root)
}

// indexer finds in the blocks of a document what a Doc holds.
type indexer struct {
	d *Doc
	// src is the source once more. What is read from it shares its memory, and
	// the document's own bytes can change.
	src string
	// accept holds the acceptance criteria of all tasks, each of which has a
	// part of it.
	accept []string
}

// lines appends the lines of n, if it is a paragraph or setext heading.
func (ix *indexer) lines(n ast.Node, to *[]line) {
	if !isText(n) && n.Kind() != ast.KindHeading {
		return
	}
	for i := range n.Lines().Len() {
		seg := n.Lines().At(i)
		start, stop := trimSpan(ix.src, seg.Start, seg.Stop)
		*to = append(*to, line{start, stop})
	}
}

// isText says whether n is a paragraph; in a list without blank lines that is
// a text block.
func isText(n ast.Node) bool {
	k := n.Kind()
	return k == ast.KindTextBlock || k == ast.KindParagraph
}

// tasks finds the tasks: the check boxes of the Tasks sections or, in a
// document without such a section, all that stand at the top level.
func (ix *indexer) tasks(root ast.Node) {
	d := ix.d
	all, level := d.tasksHead < 0, 0
	if !all {
		level = d.heads[d.tasksHead].level
	}
	in, group, next := all, "", 0
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if next < len(d.heads) && n.Kind() == ast.KindHeading && n.Pos() >= d.heads[next].start &&
			n.Pos() < d.heads[next].body {
			h := d.heads[next]
			switch {
			case d.holdsTasks(next):
				in, group = true, ""
			case h.level == 1:
				in, group = all, ""
			default:
				in, group = in && h.level > level || all, h.text
			}
			next++
			continue
		}
		if in && n.Kind() == ast.KindList {
			ix.list(n, group)
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

// list appends the tasks of one list. An item without a check box may hold a
// list of tasks; check boxes below a task belong to that task.
func (ix *indexer) list(list ast.Node, group string) {
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		if ix.task(item, group) {
			continue
		}
		for c := item.FirstChild(); c != nil; c = c.NextSibling() {
			if c.Kind() == ast.KindList {
				ix.list(c, group)
			}
		}
	}
}

// paragraph gives the paragraph that item begins with, and where it stands.
func (ix *indexer) paragraph(item ast.Node) (par ast.Node, at span, ok bool) {
	par = item.FirstChild()
	if par == nil || !isText(par) {
		return nil, span{}, false
	}
	return par, ix.extent(par), true
}

// extent is where the lines of a leaf block stand, without the white space
// around them.
func (ix *indexer) extent(n ast.Node) span {
	lines := n.Lines()
	first := lines.At(0)
	stop := first.Stop
	if k := lines.Len(); k > 1 {
		stop = lines.At(k - 1).Stop
	}
	start, stop := trimSpan(ix.src, first.Start, stop)
	return span{start, stop}
}

// task appends a list item to the tasks, if it is one.
func (ix *indexer) task(item ast.Node, group string) bool {
	par, at, ok := ix.paragraph(item)
	if !ok || !isBox(ix.src[at.start:at.stop]) {
		return false
	}
	whole := at.stop
	at.stop = ix.paragraphUntilLabel(at)
	n := len(ix.d.tasks)
	ix.d.tasks = append(ix.d.tasks, task{item: ix.marker(at.start), box: at.start + 1, textEnd: at.stop})
	t := &ix.d.tasks[n] // filled in place: there can be many, and they are large
	t.Group, t.Status = group, run.TaskOpen
	pos := at.start + len("[ ]")
	line := at.stop
	if i := strings.IndexByte(ix.src[pos:at.stop], '\n'); i >= 0 {
		line = pos + i
	}
	pos += t.tags(ix.src[pos:line], pos)
	cut := at.stop
	if at, mark, reason := suffix(ix.src[pos:at.stop]); mark != "" {
		cut, t.mark, t.Reason = pos+at, mark, reason
		t.Status = mark
	}
	if c := ix.src[t.box]; c == 'x' || c == 'X' {
		t.Status = run.TaskDone
	}
	_, end := trimSpan(ix.src, pos, cut)
	t.title, t.suffix = pos, max(pos, end)
	t.Title = visible(ix.src[pos:t.suffix])
	if t.Title == "" && t.idEnd == 0 {
		// An empty box, as templates have; GitHub shows it as text.
		ix.d.tasks = ix.d.tasks[:n]
		return false
	}
	from, listed := len(ix.accept), lineOther
	if start, _ := trimSpan(ix.src, at.stop, whole); start < whole {
		listed = ix.note(t, span{start, whole}, lineOther)
	}
	t.end = ix.below(t, par, listed)
	if to := len(ix.accept); to > from {
		t.Accept = ix.accept[from:to:to]
	}
	return true
}

var commentRE = strs.Lazy(`<!--.*?-->`)

// visible is text on one line and without comments.
func visible(s string) string {
	s = strs.OneLine(s)
	if !strings.Contains(s, "<!--") {
		return s
	}
	return strs.OneLine(commentRE().ReplaceAllString(s, " "))
}

// tagRE is an id in front of a title, which may be emphasised without the title or with it, a
// priority, a marker, or a dash between them.
var tagRE = strs.Lazy(`^(?:(\*\*|__)?(T\d{1,6})[:.)]?(\*\*|__)?[:.)]?|\([Pp](\d)\)|\[(P|VERIFY)\]|([-–—]))(?:[ \t\r\n]+|$)`)

// tags reads id, priority and markers from the start of s, in any order and with one dash
// among them, and returns where the title starts. s stands at byte base of the document.
func (t *task) tags(s string, base int) (title int) {
	for dash := false; ; {
		title += len(s[title:]) - len(strings.TrimLeft(s[title:], " \t\r\n"))
		m := tagRE().FindStringSubmatchIndex(s[title:])
		if m == nil {
			return title
		}
		word := func(n int) string { return s[title+m[2*n] : title+m[2*n+1]] }
		open := false
		switch {
		case m[4] >= 0 && t.idEnd == 0:
			t.ID = canonicalID(word(2))
			t.idStart, t.idEnd = base+title+m[4], base+title+m[5]
			open = m[2] >= 0 && m[6] < 0 // the emphasis goes on
		case m[8] >= 0 && t.Priority == 0:
			t.Priority = int(word(4)[0] - '0')
		case m[10] >= 0:
			t.Verify, t.Parallel = t.Verify || word(5) == "VERIFY", t.Parallel || word(5) == "P"
		case m[12] >= 0 && !dash && title+m[1] < len(s):
			dash = true
		default:
			return title
		}
		if title += m[1]; open {
			return title
		}
	}
}

// ReadTags takes priority and markers off the start of t's title, which is never left empty.
func ReadTags(t *run.Task) {
	tagged := task{Task: *t, idEnd: 1} // an id is part of the title
	if at := tagged.tags(t.Title, 0); at < len(t.Title) {
		*t, t.Title = tagged.Task, t.Title[at:]
	}
}

// suffix finds "(blocked: reason)" or "(skipped: reason)" at the end of a
// task's text: where it starts, which of the two, and the reason. Behind a
// backslash it is text.
func suffix(s string) (at int, mark run.TaskStatus, reason string) {
	if !strings.HasSuffix(s, ")") {
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
		if i > 0 && s[i-1] == '\\' {
			break
		}
		for _, mark := range [...]run.TaskStatus{run.TaskBlocked, run.TaskSkipped} {
			if rest, ok := strings.CutPrefix(s[i+1:len(s)-1], string(mark)+":"); ok {
				return i, mark, strs.OneLine(rest)
			}
		}
		break
	}
	return 0, "", ""
}

// below reads what stands in a task's list item after its first paragraph, and
// returns where the item ends. listed is what the end of that paragraph announces.
func (ix *indexer) below(t *task, par ast.Node, listed lineKind) (end int) {
	last := par
	for c := par.NextSibling(); c != nil; c = c.NextSibling() {
		last = c
		switch {
		case c.Kind() == ast.KindList:
			ix.notes(t, c, listed)
			listed = lineOther
		case isText(c):
			listed = ix.note(t, ix.extent(c), lineOther)
		default:
			listed = lineOther
		}
	}
	return ix.blockEnd(last, t.item)
}

// notes reads a list below a task, of which a line before it may have said what
// its items are.
func (ix *indexer) notes(t *task, list ast.Node, in lineKind) {
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		announced := lineOther
		if _, at, ok := ix.paragraph(item); ok {
			announced = ix.note(t, at, in)
		}
		for c := item.FirstChild(); c != nil; c = c.NextSibling() {
			if c.Kind() == ast.KindList {
				ix.notes(t, c, announced)
			}
		}
	}
}

// note reads a paragraph below a task, which may hold several labelled lines. It
// says what the items of a list below it are.
func (ix *indexer) note(t *task, at span, in lineKind) (announces lineKind) {
	switch s := ix.src[at.start:at.stop]; {
	case isBox(s):
		start, _ := trimSpan(ix.src, at.start+len("[ ]"), at.stop)
		return ix.line(t, span{start, at.stop}, lineAccept, true)
	case in == lineDo || in == lineFiles || in == lineVerify:
		ix.accept = append(ix.accept, addLine(&t.Task, in, s)...)
		return in
	}
	for at.start < at.stop {
		end := ix.paragraphUntilLabel(at)
		announces = ix.line(t, span{at.start, end}, in, false)
		at.start, _ = trimSpan(ix.src, end, at.stop)
	}
	return announces
}

// line reads a paragraph below a task, or the part of one that a label begins.
// Behind a check box it is a criterion.
func (ix *indexer) line(t *task, at span, in lineKind, box bool) (announces lineKind) {
	s := ix.src[at.start:at.stop]
	kind, rest := labelled(s)
	switch {
	case box && kind != lineAccept && kind != lineDepends, kind == lineOther:
		kind, rest = in, s
	case kind == lineDepends && ix.depends(t, at.stop-len(rest), rest):
		return lineOther
	case kind == lineDepends:
		kind, rest = in, s
	case kind == lineAccept && rest == "":
		return lineAccept
	}
	if kind == lineOther {
		return lineOther
	}
	ix.accept = append(ix.accept, addLine(&t.Task, kind, rest)...)
	if kind == lineDo || kind == lineFiles || kind == lineVerify && (rest == "" || strings.HasSuffix(rest, ":")) {
		return kind
	}
	return lineOther
}

// depends reads the ids at the start of rest, which stands at byte base. It says
// whether there are any.
func (ix *indexer) depends(t *task, base int, rest string) bool {
	ids := leadingIDs(rest)
	for _, id := range ids {
		t.DependsOn = append(t.DependsOn, canonicalID(rest[id.start:id.stop]))
		t.depends = append(t.depends, span{base + id.start, base + id.stop})
	}
	return len(ids) > 0
}

// paragraphUntilLabel is the end of the lines of a paragraph before the next that
// begins with a label, without the white space there. A label has a capital there,
// and text behind it or blanks before it: else it is rather prose that goes on.
func (ix *indexer) paragraphUntilLabel(at span) int {
	for pos := lineEnd(ix.d.src, at.start); pos < at.stop; pos = lineEnd(ix.d.src, pos) {
		start, stop := trimSpan(ix.src, pos, min(lineEnd(ix.d.src, pos), at.stop))
		s := ix.src[start:stop]
		kind, rest := labelled(s)
		if kind == lineOther || rest == "" && start == pos || kind == lineDepends && len(leadingIDs(rest)) == 0 {
			continue
		}
		if c := strings.TrimLeft(s, "*_"); c[0] >= 'A' && c[0] <= 'Z' {
			_, end := trimSpan(ix.src, at.start, pos)
			return end
		}
	}
	return at.stop
}

// marker is where the bullet or number of the list item whose text starts at
// byte text stands. The parser's own position is off where there are tabs.
func (ix *indexer) marker(text int) int {
	at := len(strings.TrimRight(ix.src[:text], " \t\r\n")) - 1
	for at > 0 && (ix.src[at] == '.' || ix.src[at] == ')' || isDigit(ix.src[at])) && isDigit(ix.src[at-1]) {
		at--
	}
	return at
}

// blockEnd is the start of the line after a block and all in it. The block is
// in the list item that begins at byte item.
func (ix *indexer) blockEnd(n ast.Node, item int) int {
	for c := n.LastChild(); c != nil && c.Type() == ast.TypeBlock; c = n.LastChild() {
		n = c
	}
	at := 0
	if k := n.Lines().Len(); k > 0 {
		at = n.Lines().At(k - 1).Start
	} else {
		at = min(max(n.Pos(), item), len(ix.src)) // with tabs it can be too far
	}
	switch n := n.(type) {
	case *ast.HTMLBlock:
		if n.HasClosure() {
			at = max(at, n.ClosureLine.Start)
		}
	case *ast.FencedCodeBlock:
		// The parser does not keep the line that closes a fence.
		next := lineEnd(ix.d.src, at)
		rest := strings.TrimLeft(ix.src[next:lineEnd(ix.d.src, next)], " \t")
		if (strings.HasPrefix(rest, "```") || strings.HasPrefix(rest, "~~~")) &&
			indent(ix.d.src, next) > indent(ix.d.src, item) {
			at = next
		}
	}
	return lineEnd(ix.d.src, at)
}

// text is the source of a leaf block on one line.
func (ix *indexer) text(n ast.Node) string {
	if n.Lines().Len() == 0 {
		return ""
	}
	at := ix.extent(n)
	return strs.OneLine(ix.src[at.start:at.stop])
}
