package tui

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// Bounds of what is kept to scroll through.
const (
	maxLines = 5000
	maxLine  = 2000 // columns of one line
)

// pane is a list of lines of which a part is shown.
type pane struct {
	lines []string
	rows  []string // the lines, broken where they are wider than width
	width int
	// up is how many rows lie below the part that is shown; 0 follows the end.
	up int
}

// add appends a line. What is shown stays where a person has scrolled to.
func (p *pane) add(line string) {
	line = runewidth.Truncate(line, maxLine, "…")
	p.lines = append(p.lines, line)
	rows := broken(line, p.width)
	p.rows = append(p.rows, rows...)
	if p.up > 0 {
		p.up += len(rows)
	}
	if len(p.lines) > maxLines {
		p.lines = append([]string(nil), p.lines[maxLines/10:]...)
		p.fit(p.width)
	}
}

// fit breaks all lines for another width.
func (p *pane) fit(width int) {
	p.width, p.rows = max(width, 1), nil
	for _, line := range p.lines {
		p.rows = append(p.rows, broken(line, p.width)...)
	}
	p.up = min(p.up, max(len(p.rows)-1, 0))
}

// broken is a line in rows of at most that many columns.
func broken(line string, width int) []string {
	indent := ""
	if n := len(line) - len(strings.TrimLeft(line, " ")); n+10 < width {
		indent = line[:n]
	}
	var rows []string
	for first := true; first || line != ""; first = false {
		room := width
		if !first {
			room -= len(indent)
		}
		end := fits(line, room)
		row := line[:end]
		if !first {
			row = indent + row
		}
		rows, line = append(rows, row), line[end:]
	}
	return rows
}

// fits is how many bytes of text take at most that many columns; one character at least.
func fits(text string, columns int) int {
	used := 0
	for i, r := range text {
		w := runewidth.RuneWidth(r)
		if used+w > columns && i > 0 {
			return i
		}
		used += w
	}
	return len(text)
}

// cut is the beginning of text that fits that many columns.
func cut(text string, columns int) string {
	if width(text) <= columns {
		return text
	}
	if columns < 2 {
		return strings.Repeat("~", max(columns, 0))
	}
	return text[:fits(text, columns-1)] + "~"
}

// width is how many columns text takes, as terminals count: one character at a time.
func width(text string) int {
	n := 0
	for _, r := range text {
		n += runewidth.RuneWidth(r)
	}
	return n
}

// scroll moves what is shown up by that many rows, down where it is negative.
func (p *pane) scroll(rows, height int) {
	p.up = min(max(p.up+rows, 0), max(len(p.rows)-height, 0))
}

// shown are the rows that are to be seen, height of them at most.
func (p *pane) shown(height int) []string {
	end := max(len(p.rows)-p.up, min(height, len(p.rows)))
	return p.rows[max(end-height, 0):end]
}
