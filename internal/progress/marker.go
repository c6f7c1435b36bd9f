package progress

import (
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// The words of the Status section.
const (
	StatusInProgress = "IN_PROGRESS"
	// StatusDone is the completion marker. It is a hint: a run is complete
	// when every actionable task is ticked and the gates pass.
	StatusDone = "RALPH_DONE"
)

// bare takes white space, emphasis and code quotes off both ends of a line.
func bare(line string) string { return strings.Trim(line, " \t\r\n*`") }

// MarkedDone says whether the completion marker stands alone on a line of the
// Status section. White space, a carriage return and surrounding asterisks or
// backticks do not matter; a mention in a sentence, in a code block or in an
// HTML comment does not count.
func (d *Doc) MarkedDone() bool {
	return slices.ContainsFunc(d.statusLines(), d.isMarker)
}

func (d *Doc) isMarker(l line) bool { return bare(d.text(l)) == StatusDone }

// Status is the first line of the Status section without decoration, or "".
func (d *Doc) Status() string {
	lines := d.statusLines()
	if len(lines) == 0 {
		return ""
	}
	return bare(d.text(lines[0]))
}

// statusLines gives the lines of prose at the top level of the Status section.
func (d *Doc) statusLines() []line {
	i := d.find(SectionStatus)
	if i < 0 {
		return nil
	}
	body, end := d.heads[i].body, d.sectionEnd(i)
	var out []line
	for _, l := range d.prose {
		if l.start >= body && l.stop <= end && l.start < l.stop {
			out = append(out, l)
		}
	}
	return out
}

// HasLine says whether word stands alone on a line of prose anywhere in the
// document: not in a code block and not in an HTML comment. White space around
// it does not matter.
func (d *Doc) HasLine(word string) bool {
	ix := indexer{d: d, src: string(d.src)}
	var lines []line
	ix.prose(blockTree(d.src), &lines)
	return slices.ContainsFunc(lines, func(l line) bool { return d.text(l) == word })
}

// prose appends the lines of the paragraphs and setext headings below n.
func (ix *indexer) prose(n ast.Node, to *[]line) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c.Kind() {
		case ast.KindList, ast.KindListItem, ast.KindBlockquote:
			ix.prose(c, to)
		default:
			ix.lines(c, to)
		}
	}
}

func (d *Doc) text(l line) string { return string(d.src[l.start:l.stop]) }
