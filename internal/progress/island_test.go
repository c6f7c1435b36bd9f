package progress

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
)

func TestIslandTasks(t *testing.T) {
	t.Parallel()
	d := parse(t, "## Tasks\n- [x] T1 a\n- [ ] b\n### One\n- [ ] T2 (P1) c\n  - Accept: d\n- [ ] T3 e (blocked: @me #1)\n### Two & @three\n- [ ] T4 f (skipped: g)\n")
	want := "- [x] **T1** a\n- [ ] b\n\n### One\n- [ ] **T2** c\n- [ ] **T3** e (blocked: `@me` `#1`)\n\n### Two &amp; `@three`\n- [ ] **T4** ~~f~~ (skipped: g)\n"
	if diff := cmp.Diff(want, IslandTasks(d)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := IslandTasks(parse(t, "")); got != "" {
		t.Errorf("no tasks: %q", got)
	}
}

// E1 and E2 for titles.
func TestIslandText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"plain", "Add a flag, e.g. `--json`.", "Add a flag, e.g. `--json`."},
		{"mention", "ask @octo-cat and @org/team", "ask `@octo-cat` and `@org/team`"},
		{"mail", "write to a.b@example.com", "write to `a.b@example.com`"},
		{"closing", "Fixes #12, closes o/r#3, resolves GH-4", "Fixes `#12`, closes `o/r#3`, resolves `GH-4`"},
		{"closing by address", "Fixes https://github.com/o/r/issues/1", "Fixes `https://github.com/o/r/issues/1`"},
		{"beacon", "![x](https://evil/?q=1)", "!\\[x\\](`https://evil/?q=1)`"},
		{"link", "[x](javascript:1) www.evil.com", "\\[x\\](javascript:1) `www.evil.com`"},
		{"html", "<img src=x> </details> <!-- x --> &#64;me", "&lt;img src=x&gt; &lt;/details&gt; &lt;!-- x --&gt; &amp;`#64`;me"},
		{"emphasis", "**a** _b_ ~~c~~ a|b", `\*\*a\*\* \_b\_ \~\~c\~\~ a\|b`},
		{"escapes", `\@me \[x](y) \`, "\\\\`@me` \\\\\\[x\\](y) \\\\"},
		{"open code", "`@me", "\\` `@me`"},
		{"code beside a mention", "``x``@me ``@me", "``x`` `@me` \\`\\` `@me`"},
		{"mention in code", "`@me #1`", "`@me #1`"},
		{"lines", "a\n\n## b\r\n- [ ] c", `a ## b - \[ \] c`},
		{"invisible", "a\u202e\u200b@\u200bme", "`a@me`"},
	}
	for _, tc := range tests {
		if got := islandText(tc.in); got != tc.want {
			t.Errorf("%s: %q became %q, want %q", tc.name, tc.in, got, tc.want)
		}
	}
}

// Parsed as GitHub would, no text makes anything but text and code.
func TestIslandTextIsInert(t *testing.T) {
	t.Parallel()
	// goldmark, unlike GitHub, takes a backtick for a part of a mail address.
	noMail := extension.NewLinkify(extension.WithLinkifyEmailRegexp(regexp.MustCompile(`^\b$`)))
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList, noMail))
	tokens := rapid.SampledFrom([]string{
		"@me", "@", "#1", "#", "o/r", "`", "``", "```", "\\", "[", "]", "(", ")", "!", "<", ">", "<a>", "<!--", "-->", "https://e.x", "www.e.x", "*", "_",
		"~~", "|", " ", "a", "&", ";", "&#64;", "fixes ", "GH-1", "e@x.y", "\n", "é", "\u200b", ":",
	})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(tokens, 0, 25).Draw(t, "text"), "")
		src := []byte("- [ ] **T1** " + islandText(in) + "\n")
		root := md.Parser().Parse(text.NewReader(src))
		var prose strings.Builder
		err := ast.Walk(root, func(n ast.Node, enter bool) (ast.WalkStatus, error) {
			if !enter {
				return ast.WalkContinue, nil
			}
			switch n := n.(type) {
			case *ast.Link, *ast.Image, *ast.AutoLink, *ast.RawHTML, *ast.HTMLBlock, *ast.Heading:
				return ast.WalkStop, fmt.Errorf("a %s", n.Kind())
			case *ast.CodeSpan:
				prose.WriteByte(' ')
				return ast.WalkSkipChildren, nil
			case *ast.Text:
				prose.Write(n.Segment.Value(src))
			}
			return ast.WalkContinue, nil
		})
		if err != nil {
			t.Fatalf("%q became %q: %v", in, src, err)
		}
		shown := html.UnescapeString(regexp.MustCompile(`\\([[:punct:]])`).ReplaceAllString(prose.String(), "$1"))
		if m := activeRE().FindString(shown); m != "" {
			t.Fatalf("%q became %q, where %q is not code", in, src, m)
		}
	})
}

func TestIslandIsCapped(t *testing.T) {
	t.Parallel()
	var tasks []run.Task
	for i := range 400 {
		tasks = append(tasks, run.Task{ID: fmt.Sprintf("T%d", i+1), Title: strings.Repeat("é ", 100)})
	}
	d := New("x", Binding{})
	if err := d.SetTasks(tasks); err != nil {
		t.Fatal(err)
	}
	got := IslandTasks(d)
	if len(got) > maxIsland+100 {
		t.Errorf("%d bytes", len(got))
	}
	shown := bytes.Count([]byte(got), []byte("- [ ] "))
	if !strings.HasSuffix(got, fmt.Sprintf("… and %d more tasks.\n", 400-shown)) || shown < 50 {
		t.Errorf("%d shown, ends with %q", shown, got[len(got)-60:])
	}
}
