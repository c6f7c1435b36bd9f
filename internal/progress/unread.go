package progress

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"

	"github.com/org/ralph-action/internal/strs"
)

// Unread is a line that somebody may have meant as work, or as an order of tasks, and that is
// not read as such.
type Unread struct {
	Line int // from 1
	Text string
	// Why ends the sentence that begins with the line.
	Why string
	// Box: it may be open work.
	Box bool
}

// A box that is no task may be work that somebody means: another mark than a blank or an x,
// none at all, no blank behind it, a box in a heading.
var (
	oddBoxRE     = strs.Lazy(`^\[(?:[^\pL\pN\s]|\s{2,})?\](?:\s|$)|^\[[ xX]\][^\s(\[:]`)
	headingBoxRE = strs.Lazy(`^(?:\d+[.)]?\s+)?\[[^\pL\pN]?\]\s|^(?:\d+[.)]?\s+)?\[[ xX]\]\s`)
)

// Unread finds what looks like a box and is no task, open boxes below a ticked one, and
// dependencies that name no task: nothing that somebody may have meant is dropped without a
// word.
func (d *Doc) Unread() []Unread {
	u := unreader{ix: indexer{d: d, src: string(d.src)}}
	u.walk(blockTree(d.src), false, false)
	return u.found
}

type unreader struct {
	ix    indexer
	found []Unread
	at    int // what is counted: lines up to this byte
	lines int
}

// walk looks at the blocks below n. box and done say that they stand below a box, and below
// one that is ticked.
func (u *unreader) walk(n ast.Node, box, done bool) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c.Kind() {
		case ast.KindHeading:
			if s := u.line(c); headingBoxRE().MatchString(s) {
				u.tell(c, s, "is a box in a heading, which is not a task; write it as an item of a list", true)
			}
		case ast.KindList:
			u.walk(c, box, done)
		case ast.KindListItem:
			u.item(c, box, done)
		}
	}
}

func (u *unreader) item(n ast.Node, box, done bool) {
	par, at, ok := u.ix.paragraph(n)
	if !ok {
		u.walk(n, box, done)
		return
	}
	s := u.line(par)
	kind, on := labelled(u.ix.src[at.start:at.stop])
	switch name, _, _ := label(s); {
	case oddBoxRE().MatchString(s):
		u.tell(par, s, "is a box with a mark that is not read: [ ] is open, [x] is done", true)
	case done && isBox(s) && s[1] == ' ':
		u.tell(par, s, "is open, and stands below a box that is ticked; untick that, or tick this", true)
	case box && kind == lineDepends && on != "" && !strings.EqualFold(name, "after") && !onlyIDs(on):
		u.tell(par, s, "names something that is not the id of a task; that part is ignored", false)
	}
	u.walk(n, isBox(s), done || isBox(s) && s[1] != ' ' && s[1] != '\t')
}

// onlyIDs says whether a list of what a task depends on holds nothing that is no id, but for
// a remark at its end.
func onlyIDs(on string) bool {
	ids := leadingIDs(on)
	return len(ids) > 0 && !strings.HasPrefix(strings.TrimLeft(on[ids[len(ids)-1].stop:], " \t"), ",")
}

// line is the first line of a block, "" for one without text.
func (u *unreader) line(n ast.Node) string {
	if n.Lines().Len() == 0 {
		return ""
	}
	seg := n.Lines().At(0)
	return strings.TrimSpace(u.ix.src[seg.Start:seg.Stop])
}

func (u *unreader) tell(n ast.Node, s, why string, box bool) {
	at := n.Lines().At(0).Start
	u.lines += bytes.Count(u.ix.d.src[u.at:at], []byte("\n"))
	u.at = at
	u.found = append(u.found, Unread{Line: 1 + u.lines, Text: s, Why: why, Box: box})
}
