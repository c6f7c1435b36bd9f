package plan

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/strs"
)

// maxRounds bounds how often text is cleaned again because what was taken out
// brought the halves of something hidden together.
const maxRounds = 16

// maxValue bounds the value of an HTML attribute that is kept, in bytes. Sizes
// and alignments are short; sentences are not.
const maxValue = 12

// Sanitize removes from Markdown what GitHub does not show and a model would
// read: invisible characters (see progress.Clean), HTML comments and what
// browsers treat as such, HTML attributes, alternative texts and titles of
// images and links, and link definitions that nothing refers to. What stands
// in code is shown and stays. It returns how many characters went.
func Sanitize(s string) (clean string, removed int) {
	s, removed = progress.Clean(s)
	for range maxRounds {
		if _, err := progress.Parse([]byte(s)); err != nil {
			break // nested too deeply to be parsed in reasonable time
		}
		next, more := strip(s)
		if more == 0 {
			return s, removed
		}
		s, removed = next, removed+more
	}
	// Nobody writes this by accident. Without these characters there is no
	// HTML and no link to hide anything in.
	return strings.NewReplacer("<", "&lt;", "[", `\[`).Replace(s), removed
}

// span is a stretch of the source.
type span struct{ start, stop int }

// strip takes out what is hidden in s as it is now.
func strip(s string) (shown string, removed int) {
	src := []byte(s)
	root := parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewRawHTMLParser(), 200),
		),
	).Parse(text.NewReader(src))
	c := collector{src: src, used: usedLabels(s)}
	c.block(root)

	slices.SortFunc(c.hidden, func(a, b span) int { return a.start - b.start })
	var b strings.Builder
	at := 0
	for _, h := range c.hidden {
		if h.stop <= at {
			continue
		}
		b.WriteString(s[at:max(at, h.start)])
		removed += utf8.RuneCountInString(s[max(at, h.start):h.stop])
		at = h.stop
	}
	b.WriteString(s[at:])
	return b.String(), removed
}

// collector gathers the hidden spans of a document.
type collector struct {
	src    []byte
	used   map[string]bool
	hidden []span
}

// excerpt is text put together from lines of the source, which may have list
// or quote markers between them.
type excerpt struct {
	text string
	segs []text.Segment
	offs []int // where in text each of segs begins
}

func (c *collector) excerpt(segs []text.Segment) excerpt {
	e := excerpt{segs: segs}
	var b strings.Builder
	for _, s := range segs {
		e.offs = append(e.offs, b.Len())
		b.Write(c.src[s.Start:s.Stop])
	}
	e.text = b.String()
	return e
}

// hide marks e.text[start:stop] as hidden. A line break stays if a marker follows it: the
// next line's marker would else be text of this line.
func (c *collector) hide(e excerpt, start, stop int) {
	i, ok := slices.BinarySearch(e.offs, start)
	if !ok {
		i--
	}
	for ; i >= 0 && i < len(e.segs) && e.offs[i] < stop; i++ {
		s, at := e.segs[i], e.offs[i]
		from, to := s.Start+max(start-at, 0), min(s.Start+stop-at, s.Stop)
		if to == s.Stop && i+1 < len(e.segs) && e.segs[i+1].Start != s.Stop && to > from && c.src[to-1] == '\n' {
			to--
		}
		if from < to {
			c.hidden = append(c.hidden, span{from, to})
		}
	}
}

// block looks through the blocks below n.
func (c *collector) block(n ast.Node) {
	for b := n.FirstChild(); b != nil; b = b.NextSibling() {
		switch b := b.(type) {
		case *ast.HTMLBlock:
			segs := slices.Clone(b.Lines().Sliced(0, b.Lines().Len()))
			if b.HasClosure() {
				segs = append(segs, b.ClosureLine)
			}
			c.html(c.excerpt(segs), true)
		case *ast.Paragraph, *ast.TextBlock, *ast.Heading:
			c.prose(b)
		case *ast.List, *ast.ListItem, *ast.Blockquote:
			c.block(b)
		}
	}
}

// prose looks through a block of text: its raw HTML, its images and links, and
// the link definitions it begins with.
func (c *collector) prose(n ast.Node) {
	e := c.excerpt(n.Lines().Sliced(0, n.Lines().Len()))
	mask := []byte(e.text)
	blank := func(s text.Segment) { // what is in code or in a tag is no link
		i, ok := slices.BinarySearchFunc(e.segs, s.Start, func(l text.Segment, pos int) int { return l.Start - pos })
		if !ok {
			i--
		}
		if i >= 0 && s.Stop <= e.segs[i].Stop {
			at := e.offs[i] - e.segs[i].Start
			for k := s.Start; k < s.Stop; k++ {
				mask[at+k] = 'x'
			}
		}
	}
	for i := n.FirstChild(); i != nil; i = i.NextSibling() {
		switch i := i.(type) {
		case *ast.CodeSpan:
			for t := i.FirstChild(); t != nil; t = t.NextSibling() {
				if t, ok := t.(*ast.Text); ok {
					blank(t.Segment)
				}
			}
		case *ast.RawHTML:
			segs := i.Segments.Sliced(0, i.Segments.Len())
			for _, s := range segs {
				blank(s)
			}
			c.html(c.excerpt(segs), false)
		}
	}
	if n.Kind() != ast.KindHeading {
		c.definitions(e)
	}
	c.links(e, string(mask))
}

// definitionRE is a link definition at the start of a paragraph: label,
// destination, and a title that may run over several lines.
var definitionRE = strs.Lazy(`(?s)\A[ \t]*\[((?:[^\[\]\\]|\\.)+)\]:[ \t]*\n?[ \t]*(?:<[^<>\n]*>|[^\s<]\S*)` +
	`(` + blanks + title + `)?[ \t\r]*(?:\n|\z)`)

// titleRE is the end of a link that has a title.
var titleRE = strs.Lazy(`(?s)\]\([ \t\r\n]*(?:<[^<>\n]*>|[^\s<]\S*)?(` + spaces + title + `)[ \t\r\n]*\)`)

const (
	blanks = `(?:[ \t]+|[ \t]*\n[ \t]*)`
	spaces = `[ \t\r\n]+`
	title  = `(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\))`
)

// definitions hides link definitions, or the titles of those that are used.
func (c *collector) definitions(e excerpt) {
	for at := 0; at < len(e.text); {
		m := definitionRE().FindStringSubmatchIndex(e.text[at:])
		if m == nil {
			return
		}
		if !c.used[label(e.text[at+m[2]:at+m[3]])] {
			c.hide(e, at, at+m[1])
		} else if m[4] >= 0 {
			c.hide(e, at+m[4], at+m[5])
		}
		at += m[1]
	}
}

var labelRE = strs.Lazy(`\[((?:[^\[\]\\]|\\.)+)\](:?)`)

// usedLabels finds what could refer to a link definition.
func usedLabels(s string) map[string]bool {
	used := make(map[string]bool)
	for _, m := range labelRE().FindAllStringSubmatch(s, -1) {
		if m[2] == "" {
			used[label(m[1])] = true
		}
	}
	return used
}

func label(s string) string { return strings.ToLower(strs.OneLine(s)) }

// links hides alternative texts of images, and titles of images and links.
// mask is e.text with code and tags blanked.
func (c *collector) links(e excerpt, mask string) {
	for _, m := range titleRE().FindAllStringSubmatchIndex(mask, -1) {
		c.hide(e, m[2], m[3])
	}
	var open []int // brackets
	for i := 0; i < len(mask); i++ {
		switch mask[i] {
		case '\\':
			i++
		case '[':
			open = append(open, i)
		case ']':
			if len(open) == 0 {
				continue
			}
			at := open[len(open)-1]
			open = open[:len(open)-1]
			if at > 0 && mask[at-1] == '!' && i+1 < len(mask) && (mask[i+1] == '(' || mask[i+1] == '[') {
				c.hide(e, at+1, i)
			}
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// html hides the comments and the attributes in raw HTML, as a browser reads it. In a block,
// a comment that is left open hides what follows it, as it does there.
func (c *collector) html(e excerpt, block bool) {
	z := html.NewTokenizer(strings.NewReader(e.text))
	for at := 0; ; {
		kind := z.Next()
		z.NextIsNotRawText() // GitHub shows no element in which tags are text
		end := at + len(z.Raw())
		switch kind {
		case html.ErrorToken: // what is left is a tag that does not end
			c.hide(e, at, len(e.text))
			return
		case html.CommentToken, html.DoctypeToken:
			c.hide(e, at, end)
			if block && end == len(e.text) && e.text[end-1] != '>' && len(e.segs) > 0 {
				c.hidden = append(c.hidden, span{e.segs[len(e.segs)-1].Stop, len(c.src)})
			}
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			c.tag(e, at, end)
		case html.TextToken:
		}
		at = end
	}
}

var attributeRE = strs.Lazy(`\A[\s/]*([^\s/>=]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+))?`)

// tag hides the attributes of the tag e.text[at:end] that say something to a
// reader of the source only.
func (c *collector) tag(e excerpt, at, end int) {
	s := e.text[:end]
	i := at + 1
	for i < end && (i == at+1 || !isSpace(s[i]) && s[i] != '>' && s[i] != '/') {
		i++ // the name, with a slash in front if it closes
	}
	for i < end && s[i] != '>' {
		m := attributeRE().FindStringSubmatchIndex(s[i:])
		if m == nil {
			i++ // white space or a slash before the end
			continue
		}
		value := ""
		if m[4] >= 0 {
			value = strings.Trim(s[i+m[4]:i+m[5]], `"'`)
		}
		if !shown(strings.ToLower(s[i+m[2]:i+m[3]]), value) {
			c.hide(e, i, i+m[1])
		}
		i += m[1]
	}
}

// shown says whether an attribute has an effect people see.
func shown(name, value string) bool {
	switch name {
	case "href", "src":
		return true
	case "width", "height", "align", "colspan", "rowspan", "open":
		return len(value) <= maxValue
	}
	return false
}
