package island

import (
	"bytes"
	"regexp"
	"slices"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// markup is what a text turns into when it is read as GitHub's Markdown.
type markup struct {
	links, headings, html []string
	images, code, lists   int
	quotes, breaks, boxes int
	emphasis, strikes     int
	codeSpans             []string
	tables                int
}

// ourHeadings leaves out group names, which are text but shown as headings.
func (m markup) ourHeadings() []string {
	return slices.DeleteFunc(slices.Clone(m.headings), func(h string) bool { return len(h) > 20 })
}

func inspect(t *testing.T, source string) markup {
	t.Helper()
	src := []byte(source)
	doc := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(src))
	var m markup
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			m.links = append(m.links, string(n.Destination))
		case *ast.AutoLink:
			m.links = append(m.links, string(n.URL(src)))
		case *ast.Image:
			m.images++
		case *ast.Heading:
			m.headings = append(m.headings, string(inner(n, src)))
		case *ast.RawHTML:
			m.html = append(m.html, string(n.Segments.Value(src)))
		case *ast.HTMLBlock:
			m.html = append(m.html, string(n.Lines().Value(src)))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			m.code++
		case *ast.CodeSpan:
			m.codeSpans = append(m.codeSpans, string(inner(n, src)))
		case *ast.List:
			m.lists++
		case *ast.Blockquote:
			m.quotes++
		case *ast.ThematicBreak:
			m.breaks++
		case *ast.Emphasis:
			m.emphasis++
		case *east.Strikethrough:
			m.strikes++
		case *east.TaskCheckBox:
			m.boxes++
		case *east.Table:
			m.tables++
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func inner(n ast.Node, src []byte) []byte {
	var b bytes.Buffer
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if s, ok := c.(*ast.Text); ok {
			b.Write(s.Segment.Value(src))
			continue
		}
		b.Write(inner(c, src))
	}
	return b.Bytes()
}

// activeRE finds what GitHub, its search for closing keywords or other bots
// would act on in the raw text. "Closes #7" and "#7" are our own words.
var activeRE = regexp.MustCompile(`@[A-Za-z0-9]|(?i)\bgh-[0-9]|(?:fix|close|resolve)[a-z]* (?:[\w/-]+)?#[0-9]|\[(?:skip ci|ci skip|no ci|skip actions)\]|(?m:^\s*(?:[-*>] )?/[a-z])|://evil`)

func active(s string) []string {
	return slices.DeleteFunc(activeRE.FindAllString(s, -1), func(hit string) bool { return hit == "Closes #7" })
}
