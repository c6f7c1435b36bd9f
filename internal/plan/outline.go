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

// unboxed takes the check box off the start of an item.
func unboxed(s string) (rest string, box bool) {
	for _, b := range [...]string{"[ ]", "[x]", "[X]"} {
		if rest, ok := strings.CutPrefix(s, b); ok && (rest == "" || rest[0] == ' ') {
			return strings.TrimSpace(rest), true
		}
	}
	return s, false
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
// boxes are those that were written as check boxes. package progress has parsed the
// text before: so it is not nested too deeply.
func criteria(s string) (all []string, boxes map[string]bool) {
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
	src := []byte(s)
	root := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...)).Parse(text.NewReader(src))
	level := 0 // of the heading we are below; 0 is none
	label := false
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			label = false
			if acceptNames()[fold(strings.Join(words(n, src), " "))] {
				level = n.Level
			} else if n.Level <= level {
				level = 0
			}
		case *ast.Paragraph:
			lines := words(n, src)
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
		case *ast.List:
			texts, boxed := items(n, src)
			for _, it := range texts {
				title, box := unboxed(it)
				m := acceptRE().FindStringSubmatch(title)
				switch {
				case m != nil && (level > 0 || label || !boxed):
					add(m[1])
				case level > 0 || label:
					add(title)
					boxes[title] = box
				}
			}
			label = false
		case *ast.FencedCodeBlock, *ast.CodeBlock: // scenarios, mostly
			if level > 0 || label {
				add(strings.Join(words(n, src), " "))
			}
			label = false
		case *ast.HTMLBlock:
			label = false
		}
	}
	return all, boxes
}

// words are the lines of a block of text.
func words(n ast.Node, src []byte) (lines []string) {
	for i := range n.Lines().Len() {
		seg := n.Lines().At(i)
		lines = append(lines, strings.TrimRight(string(seg.Value(src)), "\r\n"))
	}
	return lines
}

// items are the texts of a list and of those below it, each on one line; one that only
// introduces others is left out. boxed: one of them has a check box.
func items(list ast.Node, src []byte) (texts []string, boxed bool) {
	for it := list.FirstChild(); it != nil; it = it.NextSibling() {
		first, lists := "", 0
		at := len(texts)
		for c := it.FirstChild(); c != nil; c = c.NextSibling() {
			switch k := c.Kind(); {
			case k == ast.KindList:
				below, more := items(c, src)
				texts, boxed = append(texts, below...), boxed || more
				lists++
			case c == it.FirstChild() && (k == ast.KindTextBlock || k == ast.KindParagraph):
				first = strs.OneLine(strings.Join(words(c, src), " "))
			}
		}
		_, box := unboxed(first)
		boxed = boxed || box
		if first != "" && (lists == 0 || !strings.HasSuffix(first, ":")) {
			texts = slices.Insert(texts, at, first)
		}
	}
	return texts, boxed
}

// isLabel says whether a line is a heading by another means: the name alone,
// bold or with a colon.
func isLabel(line string) bool {
	line = strings.TrimSpace(line)
	return acceptNames()[fold(line)] && (strings.HasSuffix(strings.TrimRight(line, "*_"), ":") ||
		strings.HasPrefix(line, "**") || strings.HasPrefix(line, "__"))
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
