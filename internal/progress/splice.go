package progress

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Patch replaces src[Start:Stop] of a text. Where Start equals Stop, Text is put in.
type Patch struct {
	Start, Stop int
	Text        string
}

// patch makes many replacements in one go and parses the result once. The
// ranges are those of the document as it is, in any order; insertions at one
// place come out in the order they are given, and before a replacement that
// starts there. Ranges that overlap or lie outside are an error. On error d is
// as before.
func (d *Doc) patch(ps ...Patch) error {
	return d.change(func(*Doc) error { return nil }, ps...)
}

// change is patch where the outcome is not an error of accept, which is given
// the document to be.
func (d *Doc) change(accept func(*Doc) error, ps ...Patch) error {
	if len(ps) == 0 {
		return nil
	}
	src, err := Splice(d.src, ps)
	if err != nil {
		return err
	}
	n, err := Parse(slices.Concat([]byte(d.prefix), src))
	if err != nil {
		return err
	}
	if err := accept(n); err != nil {
		return err
	}
	*d = *n
	return nil
}

// Splice is src with the replacements made. Their ranges are those of src, in any order; those
// that overlap or lie outside are an error.
func Splice(src []byte, ps []Patch) ([]byte, error) {
	ps = slices.Clone(ps)
	slices.SortStableFunc(ps, func(a, b Patch) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return a.Stop - b.Stop
	})
	size, at := len(src), 0
	for _, p := range ps {
		if p.Start < at || p.Stop < p.Start || p.Stop > len(src) {
			return nil, fmt.Errorf("progress: patch of bytes %d to %d behind byte %d of %d", p.Start, p.Stop, at, len(src))
		}
		size += len(p.Text) - (p.Stop - p.Start)
		at = p.Stop
	}
	out := make([]byte, 0, size)
	at = 0
	for _, p := range ps {
		out = append(append(out, src[at:p.Start]...), p.Text...)
		at = p.Stop
	}
	return append(out, src[at:]...), nil
}

// place says where a section that is missing belongs, before the first one that
// comes after it, else at the end, and what goes before and after it to keep it
// apart from its neighbours.
func (d *Doc) place(name string) (at int, before, after string) {
	at = len(d.src)
	if k := slices.Index(sectionOrder[:], name); k >= 0 {
		for _, next := range sectionOrder[k+1:] {
			if i := d.find(next); i >= 0 {
				at = d.heads[i].start
				break
			}
		}
	}
	eol := d.eol()
	if at < len(d.src) {
		after = eol
	}
	switch {
	case at == 0:
	case d.src[at-1] != '\n':
		before = eol + eol
	case len(bytes.TrimSpace(d.src[lineStart(d.src, at-1):at])) > 0:
		before = eol
	}
	return at, before, after
}

// tailPatch adds text, without a final newline, to the end of the stretch
// src[body:end] that a heading owns. A blank line goes between it and what was
// there.
func (d *Doc) tailPatch(body, end int, text string) Patch {
	eol := d.eol()
	text += eol
	content := bytes.TrimRight(d.src[body:end], " \t\r\n")
	at := body
	if len(content) > 0 {
		at = lineEnd(d.src, body+len(content)-1)
		text = eol + text
	}
	if at > 0 && d.src[at-1] != '\n' {
		text = eol + text
	}
	if at < len(d.src) && len(bytes.TrimSpace(d.src[at:lineEnd(d.src, at)])) > 0 {
		text += eol
	}
	return Patch{at, at, text}
}

// contentPatch makes the section with heading i hold content and leaves the
// blank lines around it alone; with i negative the section is made where it
// belongs. There may be nothing to change.
func (d *Doc) contentPatch(name string, i int, content string) (_ Patch, change bool) {
	content = d.withEOL(strings.Trim(content, "\r\n"))
	if i < 0 {
		at, before, after := d.place(name)
		if content != "" {
			content += d.eol()
		}
		return Patch{at, at, before + "## " + name + d.eol() + content + after}, true
	}
	body, end := d.heads[i].body, d.sectionEnd(i)
	first, last := trimSpan(d.src, body, end)
	switch {
	case first == last && content == "":
		return Patch{}, false
	case first == last:
		return d.tailPatch(body, end, content), true
	case content == "":
		return Patch{body, min(end, lineEnd(d.src, last-1)), ""}, true
	}
	return Patch{lineStart(d.src, first), last, content}, true
}

// numbers hands out ids of tasks that are not in use.
type numbers struct {
	used map[string]bool
	last int
}

// newNumbers starts above the ids of the tasks of d, and uses none that it mentions.
func newNumbers(d *Doc) *numbers {
	n := &numbers{used: make(map[string]bool)}
	for i := range d.tasks {
		// Ids far beyond any real plan would leave no room above them.
		if k, err := strconv.Atoi(strings.TrimPrefix(d.tasks[i].ID, "T")); err == nil && k < 100_000 {
			n.last = max(n.last, k)
		}
	}
	n.mentioned(d.src)
	return n
}

var idsRE = strs.Lazy(`T0*([1-9]\d{0,5})`)

// mentioned keeps the ids in a text from being handed out.
func (n *numbers) mentioned(text []byte) {
	for _, m := range idsRE().FindAllSubmatch(text, -1) {
		n.used["T"+string(m[1])] = true
	}
}

func (n *numbers) next() string {
	for {
		n.last++
		if id := "T" + strconv.Itoa(n.last); !n.used[id] {
			return id
		}
	}
}

// named opens tasks and gives them ids that are free in d. What they depend on among each other they name
// by the ids that they bring.
func (d *Doc) named(tasks ...run.Task) (named []run.Task, ids []string) {
	n := newNumbers(d)
	now := make(map[string]string, len(tasks))
	for _, t := range tasks {
		brought := t.ID
		t.ID, t.Status = "", run.TaskOpen
		n.mentioned([]byte(renderTask(t)))
		named, ids = append(named, t), append(ids, brought)
	}
	for i := range named {
		named[i].ID = n.next()
		if ids[i] != "" {
			now[ids[i]] = named[i].ID
		}
		ids[i] = named[i].ID
	}
	for i := range named {
		deps := slices.Clone(named[i].DependsOn)
		for k, id := range deps {
			deps[k] = cmp.Or(now[id], id)
		}
		named[i].DependsOn = deps
	}
	return named, ids
}

// idPatches give each task without an id of its own the next one.
func (d *Doc) idPatches(n *numbers) (ps []Patch) {
	for i := range d.tasks {
		t := &d.tasks[i]
		switch {
		case t.ID != "":
		case t.idEnd > 0:
			ps = append(ps, Patch{t.idStart, t.idEnd, n.next()})
		default:
			at := t.box + len(" ]")
			ps = append(ps, Patch{at, at, " " + n.next()})
		}
	}
	return ps
}
