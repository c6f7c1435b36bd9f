package progress

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"

	"github.com/org/ralph-action/internal/strs"
)

// Severity says how bad a problem of a document is.
type Severity string

// Severities of problems.
const (
	// SeverityError: something is read in another way than it looks, or cannot
	// be read.
	SeverityError Severity = "error"
	// SeverityWarning: the document can be worked with; a person should look.
	SeverityWarning Severity = "warning"
)

// ProblemKind says what is wrong with a document.
type ProblemKind string

// What can be wrong with a document.
const (
	ProblemUnreadable    ProblemKind = "unreadable"
	ProblemNoSection     ProblemKind = "no_tasks_section"
	ProblemNoTask        ProblemKind = "no_task"
	ProblemEmptyBox      ProblemKind = "empty_box"
	ProblemMalformedBox  ProblemKind = "malformed_box"
	ProblemStrayBox      ProblemKind = "stray_box"
	ProblemDuplicateID   ProblemKind = "duplicate_id"
	ProblemUnclosed      ProblemKind = "unclosed"
	ProblemDuplicate     ProblemKind = "duplicate_section"
	ProblemStatus        ProblemKind = "unknown_status"
	ProblemMarker        ProblemKind = "marker"
	ProblemDependency    ProblemKind = "unknown_dependency"
	ProblemDependsInLoop ProblemKind = "dependency_circle"
	ProblemTitle         ProblemKind = "label_in_title"
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	// Line and Column count from 1, columns in characters.
	Line     int         `json:"line"`
	Column   int         `json:"column"`
	Severity Severity    `json:"severity"`
	Kind     ProblemKind `json:"kind"`
	// Message says what is wrong and Hint what to do, each in one line.
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// maxProblems bounds what Check reports of one document.
const maxProblems = 100

// Check says what is wrong with a document, in the order in which it stands
// there; nothing of one that is sound. At most 100 problems are told.
func Check(src []byte) []Problem {
	c := checker{src: src}
	if at, err := refuse(src); err != nil {
		c.unreadable(at, err)
		return c.sorted()
	}
	d, err := Parse(src)
	if err != nil {
		c.unreadable(0, err)
		return c.sorted()
	}
	c.src, c.d = d.src, d
	c.sections()
	c.status()
	c.tasks()
	c.dependencies()
	root := blockTree(d.src)
	c.boxes(root)
	c.blocks(root)
	return c.sorted()
}

type checker struct {
	src      []byte
	d        *Doc
	problems []located
}

// located is a problem whose place is still a byte.
type located struct {
	at int
	Problem
}

func (c *checker) add(at int, severity Severity, kind ProblemKind, message, hint string) {
	c.problems = append(c.problems, located{at, Problem{Severity: severity, Kind: kind, Message: message, Hint: hint}})
}

// sorted works out lines and columns in one pass over the source.
func (c *checker) sorted() []Problem {
	slices.SortStableFunc(c.problems, func(a, b located) int { return cmp.Compare(a.at, b.at) })
	c.problems = c.problems[:min(len(c.problems), maxProblems)]
	out := make([]Problem, 0, len(c.problems))
	line, start, at := 1, 0, 0
	for _, p := range c.problems {
		for i := bytes.IndexByte(c.src[at:p.at], '\n'); i >= 0; i = bytes.IndexByte(c.src[at:p.at], '\n') {
			line++
			at += i + 1
			start = at
		}
		p.Line, p.Column = line, 1+utf8.RuneCount(bytes.TrimPrefix(c.src[start:p.at], []byte(bom)))
		out = append(out, p.Problem)
	}
	return out
}

func (c *checker) unreadable(at int, err error) {
	message, hint := "the file cannot be read", "write it as plain Markdown text"
	switch {
	case errors.Is(err, ErrTooLarge):
		message = fmt.Sprintf("the file has %d bytes; at most %d are read", len(c.src), MaxSize)
		hint = "move old notes and finished tasks to another file"
	case errors.Is(err, ErrTooDeep):
		message, hint = "lists or quotes are nested too deeply", "start the line further to the left"
	case errors.Is(err, ErrEncoding):
		message, hint = fmt.Sprintf("byte 0x%02X is not UTF-8 text", c.src[at]), "save the file as UTF-8, without binary data"
	}
	c.add(at, SeverityError, ProblemUnreadable, message, hint)
}

// sections finds sections that are there twice, of which only the first is
// read. Tasks may stand in several.
func (c *checker) sections() {
	seen := make(map[string]bool)
	for _, h := range c.d.heads {
		name := Canonical(h.text)
		if h.level != 2 || name == SectionTasks || !slices.Contains(sectionOrder[:], name) {
			continue
		}
		if seen[h.key] {
			c.add(h.start, SeverityError, ProblemDuplicate, fmt.Sprintf("there is a section %s already", name),
				"put both under one heading; only the first is read")
		}
		seen[h.key] = true
	}
}

// status looks at the Status section and at markers anywhere.
func (c *checker) status() {
	lines := c.d.statusLines()
	for _, l := range lines {
		if !c.d.isMarker(l) {
			continue
		}
		open := 0
		for i := range c.d.tasks {
			if c.d.tasks[i].Actionable() {
				open++
			}
		}
		if open > 0 {
			tasks := "1 task is"
			if open > 1 {
				tasks = fmt.Sprintf("%d tasks are", open)
			}
			c.add(l.start, SeverityError, ProblemMarker, "the status is "+StatusDone+", but "+tasks+" open",
				"finish, skip or block them, or set the status to "+StatusInProgress)
		}
		break
	}
	if len(lines) > 0 && !knownStatus(c.d.Status()) {
		c.add(lines[0].start, SeverityWarning, ProblemStatus,
			fmt.Sprintf("the status %q is not one of ours", strs.Cut(c.d.Status(), maxQuote)), "write "+StatusInProgress+" or "+
				StatusDone+" on a line of its own")
	}
	body, end := 0, 0
	if i := c.d.find(SectionStatus); i >= 0 {
		body, end = c.d.heads[i].body, c.d.sectionEnd(i)
	}
	for _, l := range c.d.prose {
		if c.d.isMarker(l) && (l.start < body || l.start >= end) {
			c.add(l.start, SeverityWarning, ProblemMarker, "a completion marker outside the Status section has no effect",
				"move it to the Status section, or put it in a sentence")
		}
	}
}

// maxQuote bounds what a message quotes, in bytes.
const maxQuote = 60

// knownStatus takes the words we write, and the first of them also in other
// letters and with a remark behind it.
func knownStatus(s string) bool {
	rest, ok := strings.CutPrefix(strings.ToUpper(strings.NewReplacer(" ", "_", "-", "_").Replace(s)), StatusInProgress)
	return s == StatusDone || ok && (rest == "" || !isWord(rest) || rest[0] == '_')
}

// tasks looks at ids, and at whether there is anything to do at all.
func (c *checker) tasks() {
	d := c.d
	switch {
	case len(d.tasks) == 0 && d.tasksHead < 0:
		c.add(0, SeverityError, ProblemNoTask, "there is neither a Tasks section nor a check box",
			`write a heading "## Tasks" and below it one line "- [ ] …" for each task`)
	case len(d.tasks) == 0:
		c.add(d.heads[d.tasksHead].start, SeverityWarning, ProblemNoTask, "there is no task yet",
			`write one line "- [ ] …" for each task`)
	case d.tasksHead < 0:
		c.add(d.tasks[0].item, SeverityWarning, ProblemNoSection,
			"there is no Tasks section, so that every check box is a task", `write a heading "## Tasks" above the tasks`)
	}
	for i := range d.tasks {
		if t := &d.tasks[i]; t.ID == "" && t.idEnd > 0 {
			c.add(t.idStart, SeverityError, ProblemDuplicateID,
				fmt.Sprintf("another task is %s already", d.src[t.idStart:t.idEnd]), "remove the id; the task gets a new one")
		}
	}
}

// dependencies looks for tasks that wait for what never comes.
func (c *checker) dependencies() {
	d := c.d
	index := make(map[string]int, len(d.tasks))
	for i := range d.tasks {
		if id := d.tasks[i].ID; id != "" {
			index[id] = i
		}
	}
	for i := range d.tasks {
		for k, id := range d.tasks[i].DependsOn {
			if _, ok := index[id]; !ok {
				c.add(d.tasks[i].depends[k].start, SeverityError, ProblemDependency,
					fmt.Sprintf("there is no task %s to wait for", id), "name a task of this file, or remove the line")
			}
		}
	}
	// A task that is in no order after all that can be done is in a circle, or
	// waits for one.
	waits := make([]int, len(d.tasks))
	next := make([][]int, len(d.tasks))
	var free []int
	for i := range d.tasks {
		for _, id := range d.tasks[i].DependsOn {
			if k, ok := index[id]; ok {
				waits[i]++
				next[k] = append(next[k], i)
			}
		}
		if waits[i] == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		for _, k := range next[i] {
			if waits[k]--; waits[k] == 0 {
				free = append(free, k)
			}
		}
	}
	for i, n := range waits {
		if n > 0 {
			c.add(d.tasks[i].depends[0].start, SeverityError, ProblemDependsInLoop,
				"this task waits, by way of what it depends on, for itself or for tasks that wait for each other",
				"take one of the dependencies away")
		}
	}
}

// boxes looks at what stands where tasks are read, and at check boxes that do
// not.
func (c *checker) boxes(root ast.Node) {
	d := c.d
	ix := indexer{d: d, src: string(d.src)}
	in, other := d.tasksHead < 0, ""
	next := 0
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if next < len(d.heads) && n.Kind() == ast.KindHeading && n.Pos() >= d.heads[next].start &&
			n.Pos() < d.heads[next].body {
			h := d.heads[next]
			switch {
			case d.tasksHead < 0:
			case d.holdsTasks(next):
				in = true
			case h.level <= d.heads[d.tasksHead].level:
				in, other = false, Canonical(h.text)
			}
			next++
			continue
		}
		switch {
		case n.Kind() == ast.KindList && in:
			c.list(&ix, n)
		case n.Kind() == ast.KindList && other != SectionCompleted:
			c.stray(&ix, n)
		case isText(n) && in:
			c.noItem(&ix, n)
		case in && len(d.tasks) == 0:
			c.hidden(&ix, n)
		}
	}
}

// hidden looks for check boxes where there is no task, but tasks belong, that
// Markdown takes for code or for a quotation.
func (c *checker) hidden(ix *indexer, n ast.Node) {
	why, hint := "", ""
	switch n.Kind() {
	case ast.KindCodeBlock:
		why, hint = "four blanks in front of it make it code", "begin the line further to the left"
	case ast.KindBlockquote:
		why, hint = "it stands in a quotation", "take the > away"
		if n = n.FirstChild(); n == nil || n.Kind() != ast.KindList {
			return
		}
		if n = n.FirstChild().FirstChild(); n == nil {
			return
		}
	default:
		return
	}
	if n.Lines().Len() == 0 {
		return
	}
	at := ix.extent(n)
	s := ix.src[at.start:at.stop]
	if n.Kind() == ast.KindCodeBlock {
		s = strings.TrimLeft(s[min(len(s), markerLen(s+"\n")):], " \t")
	}
	if isBox(s) {
		c.add(at.start, SeverityWarning, ProblemStrayBox, "a check box that is no task: "+why, hint)
	}
}

// list looks at the items of a list of tasks.
func (c *checker) list(ix *indexer, list ast.Node) {
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		_, at, ok := ix.paragraph(item)
		s := ix.src[at.start:at.stop]
		if ok && isBox(s) {
			if c.isTask(at.start + 1) {
				c.swallowed(span{at.start, ix.paragraphUntilLabel(at)})
				continue // what is below it is its own
			}
			if strings.TrimSpace(s[len("[ ]"):]) == "" {
				c.add(at.start, SeverityWarning, ProblemEmptyBox, "a check box without text is no task",
					"say what is to be done, or remove the line")
			}
		} else if ok && malformed(s) {
			c.malformed(at.start)
		}
		if !ok && item.FirstChild() == nil {
			continue
		}
		for n := item.FirstChild(); n != nil; n = n.NextSibling() {
			if n.Kind() == ast.KindList {
				c.list(ix, n)
			}
		}
	}
}

// swallowed looks for a label in the title of a task, which goes on until there
// is a bullet or a blank line.
func (c *checker) swallowed(at span) {
	for pos := lineEnd(c.src, at.start); pos < at.stop; pos = lineEnd(c.src, pos) {
		start, stop := trimSpan(c.src, pos, lineEnd(c.src, pos))
		name, _, _ := label(string(c.src[start:stop]))
		if kindOf(name) != lineOther {
			c.add(start, SeverityWarning, ProblemTitle, "this line belongs to the title of the task above it",
				`write it as an item below the task: "  - `+name+`: …"`)
		}
	}
}

func (c *checker) malformed(at int) {
	c.add(at, SeverityError, ProblemMalformedBox, "this looks like a check box but is not one",
		`write "- [ ] text" or "- [x] text": one blank or x between the brackets, and a blank behind them`)
}

// isTask says whether a box belongs to a task.
func (c *checker) isTask(box int) bool {
	_, ok := slices.BinarySearchFunc(c.d.tasks, box, func(t task, box int) int { return cmp.Compare(t.box, box) })
	return ok
}

// malformed says whether a list item begins with what somebody meant to be a
// check box.
func malformed(s string) bool {
	end := strings.IndexByte(s[:min(len(s), 6)], ']')
	if s == "" || s[0] != '[' || end < 0 || strings.Trim(s[1:end], " \txX-~*✓✔") != "" {
		return false
	}
	if rest := s[end+1:]; rest != "" && strings.IndexByte("([:", rest[0]) >= 0 {
		return false // a link
	}
	return !isBox(s)
}

// noItem looks for boxes behind something that begins no list item.
func (c *checker) noItem(ix *indexer, par ast.Node) {
	for i := range par.Lines().Len() {
		seg := par.Lines().At(i)
		start, stop := trimSpan(ix.src, seg.Start, seg.Stop)
		s := ix.src[start:stop]
		if s == "" {
			continue
		}
		if rest := strings.TrimLeft(s, "-*+"); len(rest) < len(s) && (isBox(rest) || malformed(rest)) || isBox(s) {
			c.malformed(start)
		}
	}
}

// stray reports boxes below another heading than that of the tasks.
func (c *checker) stray(ix *indexer, list ast.Node) {
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		if _, at, ok := ix.paragraph(item); ok && isBox(ix.src[at.start:at.stop]) {
			c.add(at.start, SeverityWarning, ProblemStrayBox, "a check box outside the Tasks section is no task",
				"move it below the heading of the tasks, or write it without a box")
		}
		for n := item.FirstChild(); n != nil; n = n.NextSibling() {
			if n.Kind() == ast.KindList {
				c.stray(ix, n)
			}
		}
	}
}

// blocks looks for fences and comments that do not end: what follows is part
// of them, up to the end of the list item or quote they are in, or of the file.
func (c *checker) blocks(n ast.Node) {
	for b := n.FirstChild(); b != nil; b = b.NextSibling() {
		what, at := "", 0
		switch b := b.(type) {
		case *ast.FencedCodeBlock:
			if at = c.start(b, "`~"); !c.fenceEnds(b, at) {
				what = "code fence"
			}
		case *ast.HTMLBlock:
			if at = c.start(b, "<"); !c.htmlEnds(b, at) {
				what = "comment or HTML block"
			}
		case *ast.List, *ast.ListItem, *ast.Blockquote:
			c.blocks(b)
		}
		if what != "" {
			c.add(at, SeverityError, ProblemUnclosed, "this "+what+" is never closed, so that what follows belongs to it",
				"close it where it ends")
		}
	}
}

// start is where a block begins, which it does with one of chars. The parser's
// own position is too far to the right where there are tabs.
func (c *checker) start(b ast.Node, chars string) int {
	at := min(max(b.Pos(), 0), len(c.src)-1)
	for at > 0 && strings.IndexByte(chars, c.src[at]) < 0 {
		at--
	}
	for at > 0 && c.src[at-1] == c.src[at] {
		at--
	}
	return at
}

// fenceEnds says whether there is a line that closes the fence that begins at
// byte at. The parser does not keep it, so it is the one behind the fence's
// content.
func (c *checker) fenceEnds(b *ast.FencedCodeBlock, at int) bool {
	open := c.src[at:lineEnd(c.src, at)]
	run := longestPrefix(open, open[0])
	if n := b.Lines().Len(); n > 0 {
		at = b.Lines().At(n - 1).Start
	}
	at = lineEnd(c.src, at)
	rest := bytes.TrimLeft(c.src[at:lineEnd(c.src, at)], " \t>")
	n := longestPrefix(rest, open[0])
	return n >= run && len(bytes.TrimSpace(rest[n:])) == 0
}

// longestPrefix counts the bytes c that s starts with.
func longestPrefix(s []byte, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

// htmlEnds says whether the HTML block that begins at byte at ends by itself, be
// it with the blank line that ends most kinds of them.
func (c *checker) htmlEnds(b *ast.HTMLBlock, at int) bool {
	stop := b.ClosureLine.Stop
	if n := b.Lines().Len(); n > 0 {
		stop = max(stop, b.Lines().At(n-1).Stop)
	}
	text := strings.ToLower(string(c.src[at:max(stop, at)]))
	switch b.HTMLBlockType {
	case ast.HTMLBlockType1:
		return slices.ContainsFunc([]string{"</script>", "</pre>", "</style>", "</textarea>"},
			func(end string) bool { return strings.Contains(text, end) })
	case ast.HTMLBlockType2:
		return strings.Contains(text, "-->")
	case ast.HTMLBlockType3:
		return strings.Contains(text, "?>")
	case ast.HTMLBlockType4:
		return strings.Contains(text, ">")
	case ast.HTMLBlockType5:
		return strings.Contains(text, "]]>")
	case ast.HTMLBlockType6, ast.HTMLBlockType7:
	}
	return true
}
