package plan

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Bounds on the acceptance criteria of a plan. More are read by nobody, and
// they stand in the text as well.
const (
	maxCriteria  = 50
	maxCriterion = 500 // bytes
)

type blockKind int

const (
	blockHeading blockKind = iota
	blockProse
	blockList
	blockCode
	blockHTML
)

// block is one block at the top level of a text; what stands in a quote counts
// as standing there.
type block struct {
	kind  blockKind
	level int      // of a heading
	lines []string // of everything but a list
	items []item   // of a list
	quote bool
}

// item is one item of a list.
type item struct {
	text     string // its first paragraph, on one line, without a check box
	box      bool
	children []item
}

// outline reads the blocks of a text, which package progress has parsed before:
// so it is not nested too deeply.
func outline(s string) []block {
	src := []byte(s)
	o := outliner{src: src}
	o.walk(parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...)).Parse(text.NewReader(src)), false)
	return o.blocks
}

type outliner struct {
	src    []byte
	blocks []block
}

func (o *outliner) walk(n ast.Node, quote bool) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		b := block{quote: quote}
		switch c := c.(type) {
		case *ast.Heading:
			b.kind, b.level, b.lines = blockHeading, c.Level, []string{strs.OneLine(strings.Join(o.lines(c), " "))}
		case *ast.Paragraph, *ast.TextBlock:
			b.kind, b.lines = blockProse, o.lines(c)
		case *ast.List:
			b.kind, b.items = blockList, o.items(c)
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			b.kind, b.lines = blockCode, o.lines(c)
		case *ast.HTMLBlock:
			b.kind, b.lines = blockHTML, o.lines(c)
		case *ast.Blockquote:
			o.walk(c, true)
			continue
		default:
			continue
		}
		o.blocks = append(o.blocks, b)
	}
}

func (o *outliner) lines(n ast.Node) []string {
	out := make([]string, 0, n.Lines().Len())
	for i := range n.Lines().Len() {
		seg := n.Lines().At(i)
		out = append(out, strings.TrimRight(string(seg.Value(o.src)), "\r\n"))
	}
	return out
}

func (o *outliner) items(list ast.Node) []item {
	var out []item
	for n := list.FirstChild(); n != nil; n = n.NextSibling() {
		var it item
		first := n.FirstChild()
		if first != nil && (first.Kind() == ast.KindTextBlock || first.Kind() == ast.KindParagraph) {
			it.text = strs.OneLine(strings.Join(o.lines(first), " "))
			it.text, it.box = unboxed(it.text)
		}
		for c := first; c != nil; c = c.NextSibling() {
			if c.Kind() == ast.KindList {
				it.children = append(it.children, o.items(c)...)
			}
		}
		out = append(out, it)
	}
	return out
}

// unboxed takes the check box off the start of an item.
func unboxed(s string) (rest string, box bool) {
	for _, b := range [...]string{"[ ]", "[x]", "[X]"} {
		if rest, ok := strings.CutPrefix(s, b); ok && (rest == "" || rest[0] == ' ') {
			return strings.TrimSpace(rest), true
		}
	}
	return s, false
}

// flat lists the texts of items and of what is nested in them. An item that only
// introduces others is left out.
func flat(items []item) []item {
	var out []item
	for _, it := range items {
		if it.text != "" && (len(it.children) == 0 || !strings.HasSuffix(it.text, ":")) {
			out = append(out, it)
		}
		out = append(out, flat(it.children)...)
	}
	return out
}

// acceptNames are what people call the list of what has to hold at the end.
var acceptNames = set(
	"acceptance criteria", "acceptance criterion", "acceptance", "accept", "acceptance tests", "done when",
	"definition of done", "dod",
	"success criteria", "exit criteria", "criteria for acceptance",
)

// acceptRE is a criterion on a line of its own.
var acceptRE = strs.Lazy(`(?i)^(?:\*\*|__)?(?:accept|acceptance|acceptance criteri(?:a|on)|done when|definition of done)(?::(?:\*\*|__)?|(?:\*\*|__):)\s*(\S.*)$`)

// criteria collects the acceptance criteria of the whole: what stands below a
// heading or a label that says so, and the lines that begin with such a word.
// Those of single tasks are nested below their check boxes and stay with them.
// boxes are those that were written as check boxes.
func criteria(blocks []block) (all []string, boxes map[string]bool) {
	boxes = map[string]bool{}
	seen := map[string]bool{}
	add := func(s string) {
		s = strs.Cut(strs.OneLine(s), maxCriterion)
		if s == "" || blank(s) || seen[s] || len(all) == maxCriteria {
			return
		}
		seen[s] = true
		all = append(all, s)
	}
	level := 0 // of the heading we are below; 0 is none
	label := false
	for _, b := range blocks {
		if b.quote {
			continue
		}
		switch b.kind {
		case blockHeading:
			label = false
			if acceptNames()[fold(b.lines[0])] {
				level = b.level
			} else if b.level <= level {
				level = 0
			}
		case blockProse:
			lines := b.lines
			if label = isLabel(lines[0]); label {
				lines = lines[1:]
			}
			if (level > 0 || label) && len(lines) > 0 {
				add(strings.Join(lines, " "))
				continue
			}
			for _, l := range lines {
				if m := acceptRE().FindStringSubmatch(strings.TrimSpace(l)); m != nil {
					add(m[1])
				}
			}
		case blockList:
			for _, it := range flat(b.items) {
				m := acceptRE().FindStringSubmatch(it.text)
				switch {
				case m != nil && (level > 0 || label || !hasBox(b.items)):
					add(m[1])
				case level > 0 || label:
					add(it.text)
					boxes[it.text] = it.box
				}
			}
			label = false
		case blockCode: // scenarios, mostly
			if level > 0 || label {
				add(strings.Join(b.lines, " "))
			}
			label = false
		case blockHTML:
			label = false
		}
	}
	return all, boxes
}

// isLabel says whether a line is a heading by another means: the name alone,
// bold or with a colon.
func isLabel(line string) bool {
	line = strings.TrimSpace(line)
	return acceptNames()[fold(line)] && (strings.HasSuffix(strings.TrimRight(line, "*_"), ":") ||
		strings.HasPrefix(line, "**") || strings.HasPrefix(line, "__"))
}

// hasBox says whether a list is one of tasks.
func hasBox(items []item) bool {
	return slices.ContainsFunc(items, func(it item) bool { return it.box || hasBox(it.children) })
}

// notWork are headings of forms below which boxes say something about the
// issue, not what to do.
var notWork = set(
	"code of conduct", "before submitting", "prerequisites", "preflight checklist", "pre-flight checklist",
	"operating system", "operating systems",
	"os", "platform", "platforms", "environment", "browser", "browsers", "what browsers are you seeing the problem on",
	"type of change",
	"type of issue", "issue type", "component", "components", "affected versions", "severity", "priority",
)

// declarationRE is a box by which people confirm something about themselves.
var declarationRE = strs.Lazy(`(?i)^(?:yes,? )?(?:I|I'm|I’m|I've|I’ve|I'd|I’d|ich|je|j'ai|j’ai) |^by submitting`)

// tasks gives what is to be done among the check boxes of a text: no criteria of
// the whole, nothing that people confirm about themselves in a form, and nothing
// twice under one heading.
func tasks(found []run.Task, criteria map[string]bool) []run.Task {
	type key struct{ group, title string }
	seen := map[key]bool{}
	var out []run.Task
	for _, t := range found {
		t.Title = cmp.Or(t.Title, t.ID) // a number alone; what it means may stand below it
		k := key{t.Group, strings.ToLower(t.Title)}
		if seen[k] || criteria[t.Title] || notWork()[fold(t.Group)] || declarationRE().MatchString(t.Title) {
			continue
		}
		seen[k] = true
		out = append(out, t)
	}
	return out
}

// blank says whether a line is what forms and templates leave where nobody
// wrote anything.
func blank(s string) bool { return placeholderRE().MatchString(strings.TrimSpace(s)) }

var placeholderRE = strs.Lazy(`(?i)^[^\pL\pN]*(?:no response|n/?a|none|nothing|tbd|tba|todo|fixme|` +
	`a clear and concise description of.*|if applicable, add.*|add any other context.*|steps to reproduce(?: the behaviou?r)?|` +
	`go to '\.*'.*|click on '\.*'.*|scroll down to '\.*'.*|see error|ex\. i'm always frustrated when.*|` +
	`(?:please )?(?:describe|explain|provide|fill in|write|enter|insert) (?:the|your|a|an|any|here|what|this)\b.*(?:here|below|…|\.\.\.)|` +
	`(?:[a-z ]+:? *)?\[(?:e\.g\.|z\.b\.).*\])?[^\pL\pN]*$`)

// fold makes the name of a heading comparable.
func fold(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
	return strings.ReplaceAll(strings.ToLower(strs.OneLine(s)), "’", "'")
}

// set is a set of words that is made when it is first used.
func set(words ...string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		m := make(map[string]bool, len(words))
		for _, w := range words {
			m[w] = true
		}
		return m
	})
}
