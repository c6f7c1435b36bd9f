package progress

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// errOpenBlock: something before the place of the edit never ends, so what is
// added would be part of it.
var errOpenBlock = errors.New("progress: a code fence or comment in the document is never closed")

// New makes a fresh document with all sections, bound to b.
func New(title string, b Binding) *Doc {
	var s strings.Builder
	s.WriteString(b.comment() + "\n# " + titlePrefix + " " + orUntitled(inline(title, maxTitle)) + "\n")
	for _, name := range sectionOrder {
		s.WriteString("\n## " + name + "\n")
		switch name {
		case SectionStatus:
			s.WriteString(StatusInProgress + "\n")
		case SectionLog:
			s.WriteString(logHeader)
		}
	}
	d := &Doc{src: []byte(s.String())}
	d.index()
	return d
}

func orUntitled(s string) string {
	if s == "" {
		return "(untitled)"
	}
	return s
}

// eol is the line ending of the document, judged by its first line.
func (d *Doc) eol() string {
	if i := bytes.IndexByte(d.src, '\n'); i > 0 && d.src[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// withEOL gives s, which has plain newlines or CRLF, the document's ending.
func (d *Doc) withEOL(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if d.eol() == "\n" {
		return s
	}
	return strings.ReplaceAll(s, "\n", d.eol())
}

// appendTo adds a block to the end of a section, which is made if it is missing.
func (d *Doc) appendTo(name, text string) error {
	i := d.find(name)
	if i < 0 {
		return d.SetSection(name, text)
	}
	return d.patch(d.tailPatch(d.heads[i].body, d.sectionEnd(i), text))
}

// SetSection replaces what is in a section and leaves the blank lines around
// it alone. A section that is missing is made.
func (d *Doc) SetSection(name, content string) error {
	p, change := d.contentPatch(name, d.find(name), content)
	if !change {
		return nil
	}
	return d.change(func(n *Doc) error {
		if n.find(name) < 0 {
			return errOpenBlock
		}
		return nil
	}, p)
}

// ClearSection takes out what is in a section. The heading stays; a section
// that is missing stays missing.
func (d *Doc) ClearSection(name string) error {
	if d.find(name) < 0 {
		return nil
	}
	return d.SetSection(name, "")
}

// AssignIDs gives an id to each task that has none of its own. It never uses
// one that occurs anywhere in the document, so that the log of a task since
// removed is not read as that of a new one.
func (d *Doc) AssignIDs() {
	if !slices.ContainsFunc(d.tasks, func(t task) bool { return t.ID == "" }) {
		return
	}
	n := newNumbers(d)
	// A few bytes a task cannot make a document unreadable that was not; one
	// that is full to the last byte keeps its tasks without id.
	_ = d.patch(d.idPatches(n)...)
}

var statusRE = strs.Lazy(`^[A-Z][A-Z_]{0,62}$`)

// SetStatus sets the word of the Status section and takes out any completion
// marker there besides. Other text of the section stays. The word is made of
// capitals and underscores.
func (d *Doc) SetStatus(s string) error {
	if !statusRE().MatchString(s) {
		return fmt.Errorf("progress: %q is not a status", s)
	}
	i := d.find(SectionStatus)
	if i < 0 {
		return d.SetSection(SectionStatus, s)
	}
	lines := d.statusLines()
	if len(lines) == 0 {
		return d.patch(d.tailPatch(d.heads[i].body, d.sectionEnd(i), s))
	}
	ps := []Patch{{lines[0].start, lines[0].stop, s}}
	for _, l := range lines[1:] {
		if d.isMarker(l) {
			ps = append(ps, Patch{lineStart(d.src, l.start), lineEnd(d.src, l.start), ""})
		}
	}
	return d.patch(ps...)
}

// SetCompleted replaces the bullets of Completed This Iteration.
func (d *Doc) SetCompleted(lines []string) error {
	var b strings.Builder
	for _, l := range lines {
		if l = inline(l, maxLine); l != "" {
			b.WriteString("- " + l + "\n")
		}
	}
	if b.Len() == 0 {
		return d.ClearSection(SectionCompleted)
	}
	return d.SetSection(SectionCompleted, b.String())
}
