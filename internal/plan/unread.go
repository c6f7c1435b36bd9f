package plan

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// unchecked says that lines which ask for a check name no command.
func (p *Plan) unchecked() {
	first, n := "", 0
	for _, t := range p.Tasks {
		for _, a := range t.Accept {
			if strings.HasPrefix(a, "Verify: ") {
				n++
				first = cmp.Or(first, a)
			}
		}
	}
	if n > 0 && len(p.Findings) < maxFindings {
		p.Findings = append(p.Findings, fmt.Sprintf("%s without a command in backticks, “%s” the first: the agent is told, and nothing is run.",
			strs.Count(n, "Verify line"), strs.Cut(run.PrintableLine(first), 100)))
	}
}

// A box that is no task may be work that somebody means: another mark than a blank or an x,
// none at all, no blank behind it, a box in a heading.
var (
	oddBoxRE     = strs.Lazy(`^\[(?:[^\pL\pN\s]|\s{2,})?\](?:\s|$)|^\[[ xX]\][^\s(\[:]`)
	headingBoxRE = strs.Lazy(`^(?:\d+[.)]?\s+)?\[[^\pL\pN]?\]\s|^(?:\d+[.)]?\s+)?\[[ xX]\]\s`)
	doneBoxRE    = strs.Lazy(`^\[[xX]\]\s`)
	openBoxRE    = strs.Lazy(`^\[ \]\s`)
)

// unread names by line what looks like a box in a text and is no task: nothing that somebody
// may have meant as work is dropped without a word.
func (p *Plan) unread(src string) {
	u := unreader{plan: p, src: []byte(src)}
	u.walk(parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...)).Parse(text.NewReader(u.src)), false)
}

type unreader struct {
	plan *Plan
	src  []byte
}

// walk looks at the blocks below n; done says that they stand below a ticked box.
func (u *unreader) walk(n ast.Node, done bool) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c.Kind() {
		case ast.KindHeading:
			if line := u.line(c); headingBoxRE().MatchString(line) {
				u.tell(c, "is a box in a heading, which is not a task; write it as an item of a list")
			}
		case ast.KindList:
			u.walk(c, done)
		case ast.KindListItem:
			u.item(c, done)
		}
	}
}

func (u *unreader) item(n ast.Node, done bool) {
	first := n.FirstChild()
	if first == nil {
		return
	}
	line := u.line(first)
	switch {
	case oddBoxRE().MatchString(line):
		u.tell(first, "is a box with a mark that is not read: [ ] is open, [x] is done")
	case done && openBoxRE().MatchString(line):
		u.tell(first, "is open, and stands below a box that is ticked; untick that, or tick this")
	}
	u.walk(n, done || doneBoxRE().MatchString(line))
}

// line is the first line of a block, "" for one without text.
func (u *unreader) line(n ast.Node) string {
	if n.Type() != ast.TypeBlock || n.Lines().Len() == 0 {
		return ""
	}
	seg := n.Lines().At(0)
	return string(bytes.TrimSpace(seg.Value(u.src)))
}

// tell names a box that may be open work.
func (u *unreader) tell(n ast.Node, what string) {
	at := 1 + bytes.Count(u.src[:n.Lines().At(0).Start], []byte("\n"))
	u.plan.Unread++
	if len(u.plan.Findings) < maxFindings {
		u.plan.Findings = append(u.plan.Findings,
			fmt.Sprintf("Line %d, “%s”, %s.", at, strs.Cut(run.PrintableLine(u.line(n)), 100), what))
	}
}
