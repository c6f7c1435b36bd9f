package publish

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

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
	tables, groups        int
}

// groupLevel is the level of the headings that name groups of tasks.
const groupLevel = 4

func inspect(source string) markup {
	src := []byte(source)
	doc := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(src))
	var m markup
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
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
			if n.Level == groupLevel {
				m.groups++
				break
			}
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
var activeRE = regexp.MustCompile(`@[A-Za-z0-9]|(?i)\bgh-[0-9]|(?:fix|close|resolve)[a-z]* (?:[\w/-]+)?#[0-9]|\[(?:skip ci|ci skip|no ci|skip actions)\]|(?m:^\s*(?:[-*>] )?/[a-z])|(?m:^(?:co-authored|signed-off)-by:)|://evil|www\.evil`)

func active(s string) []string {
	return slices.DeleteFunc(activeRE.FindAllString(s, -1), func(hit string) bool { return hit == "Closes #7" })
}

// fataler is what tests, fuzz targets and properties have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// ourMarkup is all the HTML that we write.
var ourMarkup = regexp.MustCompile(`<!-- ralph:(?:begin|end) -->|</?details>|<summary>(?:Analysis|Testing Strategy|Codebase Patterns|Learnings|Iteration Log)</summary>|\n`)

// checkInert reads a body as GitHub would, and fails for whatever is not ours.
func checkInert(t fataler, v View, body string) {
	t.Helper()
	found := inspect(body)
	for _, link := range found.links {
		if !strings.HasPrefix(link, v.RepoURL+"/commit") && !slices.ContainsFunc(v.Said, func(s Said) bool {
			return link == fmt.Sprintf("%s/pull/%d#discussion_r%d", v.RepoURL, v.PullNumber, s.Comment)
		}) {
			t.Fatalf("a link to %q in\n%s", link, body)
		}
	}
	code := 0
	for _, g := range v.Gates {
		if !g.Passed && oneLine(g.Output) != "" {
			code++
		}
	}
	if found.images != 0 || found.code > min(code, maxGates) || found.code != strings.Count(body, "```text\n") {
		t.Fatalf("%d images, %d blocks of code for %d failed checks in\n%s", found.images, found.code, code, body)
	}
	ours := []string{"Tasks", "Review", "Other commits", "Checks"}
	for _, heading := range found.headings {
		if len(ours) == 0 || !slices.Contains(ours, heading) {
			t.Fatalf("a heading %q in\n%s", heading, body)
		}
		ours = ours[slices.Index(ours, heading)+1:] // each once, in this order
	}
	if found.groups > len(v.Tasks) || found.boxes > len(v.Tasks) {
		t.Fatalf("%d groups and %d boxes for %d tasks in\n%s", found.groups, found.boxes, len(v.Tasks), body)
	}
	for _, html := range found.html {
		if rest := ourMarkup.ReplaceAllString(html, ""); rest != "" {
			t.Fatalf("HTML %q in\n%s", rest, body)
		}
	}
	if strings.Count(body, "<!--") != 2 {
		t.Fatalf("a comment that is not ours in\n%s", body)
	}
	if hits := active(body); len(hits) > 0 {
		t.Fatalf("%q acts in\n%s", hits, body)
	}
	if strings.Contains(body, "\nCloses #") && !v.End.Complete() {
		t.Fatalf("closes the issue in\n%s", body)
	}
}
