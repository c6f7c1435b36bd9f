package progress

import (
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"

	"github.com/org/ralph-action/internal/strs"
)

// Criteria are what has to hold of the whole, each on one line: what stands below a heading
// or a label such as "Acceptance criteria" or "Done when", and lines that begin with such a
// label and belong to no task. tasks are the places in Tasks of check boxes among them.
func (d *Doc) Criteria() (all []string, tasks []int) {
	ix := criteria{indexer: indexer{d: d, src: string(d.src)}}
	level, label := 0, false // of the heading that they stand below, and whether a line says so
	for n := blockTree(d.src).FirstChild(); n != nil; n = n.NextSibling() {
		below := level > 0 || label
		label = false
		switch n := n.(type) {
		case *ast.Heading:
			if s := ix.text(n); isAccept(fold(s)) {
				level = n.Level
			} else if n.Level <= level {
				level = 0
			}
		case *ast.Paragraph:
			label = ix.prose(n, below)
		case *ast.List:
			ix.list(n, below)
		case *ast.FencedCodeBlock, *ast.CodeBlock: // scenarios, mostly
			if below {
				ix.add(string(n.Lines().Value(d.src)))
			}
		}
	}
	for i := range d.tasks {
		if _, is := slices.BinarySearch(ix.boxes, d.tasks[i].box); is {
			tasks = append(tasks, i)
		}
	}
	return ix.all, tasks
}

func isAccept(name string) bool { return anyFold(name, labels[lineAccept]...) }

// criteria gathers them, and where those are that have a box.
type criteria struct {
	indexer

	all   []string
	boxes []int
}

func (ix *criteria) add(s string) {
	if s = strs.OneLine(s); s != "" {
		ix.all = append(ix.all, s)
	}
}

// prose reads a paragraph, and says whether it announces criteria below it.
func (ix *criteria) prose(n ast.Node, below bool) (announces bool) {
	at := ix.extent(n)
	whole := ix.src[at.start:at.stop]
	first, rest, _ := strings.Cut(whole, "\n")
	kind, text := labelled(first)
	if kind == lineAccept && text == "" || emphasis(first) && isAccept(fold(first)) {
		ix.add(rest)
		return true
	}
	if below {
		ix.add(whole)
		return false
	}
	for l := range strings.Lines(whole) {
		if kind, text := labelled(strings.TrimSpace(l)); kind == lineAccept {
			ix.add(text)
		}
	}
	return false
}

// list reads the items of a list, and of those below it. One that only introduces others is
// left out, and a task where no criteria are expected, with all that is below it.
func (ix *criteria) list(list ast.Node, below bool) {
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		_, at, ok := ix.paragraph(item)
		s := ix.src[at.start:at.stop]
		box := ok && isBox(s)
		if box && !below {
			continue
		}
		if box {
			ix.boxes = append(ix.boxes, at.start+1)
			s = strings.TrimSpace(s[len("[ ]"):])
		}
		kind, text := labelled(s)
		switch introduces := item.ChildCount() > 1 && strings.HasSuffix(s, ":"); {
		case kind == lineAccept:
			ix.add(text)
		case below && !introduces:
			ix.add(s)
		}
		for c := item.FirstChild(); c != nil; c = c.NextSibling() {
			if c.Kind() == ast.KindList {
				ix.list(c, below)
			}
		}
	}
}
