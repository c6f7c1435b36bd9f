package publish

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/redact"
)

// mask masks by pattern.
func mask(text string) string { return redact.New().Mask(text) }

func TestSpeak(t *testing.T) {
	t.Parallel()
	const z = zeroWidth
	cases := []struct {
		name, in string
		limit    int
		want     string
	}{
		{"plain", "Add a flag, then test it.", 100, "Add a flag, then test it."},
		{"snake case", "rename foo_bar to __init__", 100, `rename foo_bar to \_\_init\_\_`},
		{"code span", "run `go test ./...` twice", 100, "run `go test ./...` twice"},
		{"code span keeps quiet", "`@org/x #1`", 100, "`@" + z + "org/x #" + z + "1`"},
		{"lone backtick", "a ` b", 100, "a \\` b"},
		{"fence", "```sh rm```", 100, "\\`\\`\\`sh rm\\`\\`\\`"},
		{"mention", "ask @org/team", 100, "ask @" + z + "org/team"},
		{"mention by entity", "ask &#64;bob &commat;bob", 100, `ask \&#` + z + `64;bob \&commat;bob`},
		{
			"closing", "fixes #1, closes o/r#2, resolves GH-3", 100,
			"fixes #" + z + "1, closes o/r#" + z + "2, resolves GH" + z + "-3",
		},
		{
			"closing by address", "fixes https://github.com/o/r/issues/1", 100, "fixes https:" + z + "//github.com/o/r/issues/1",
		},
		{"www", "see www.evil.example", 100, "see www" + z + ".evil.example"},
		{"command", "/merge now", 100, `\/merge now`},
		{"path is no command", "read /etc/hosts", 100, "read /etc/hosts"},
		{"image", "![](https://evil.example/?q=1)", 100, `!\[\](https:` + z + `//evil.example/?q=1)`},
		{"html", "</details><img src=x>", 100, `\</details>\<img src=x>`},
		{"comparison", "a < b && c > d", 100, "a < b && c > d"},
		{"comment", "<!-- x -->", 100, "<" + z + "!-- x -->"},
		{"skip", "[skip ci] please", 100, `\[skip ci\] please`},
		{"list", "- [x] done", 100, `\- \[x\] done`},
		{"numbered", "1. first", 100, `1\. first`},
		{"version is no list", "go 1.26", 100, "go 1.26"},
		{"heading", "# big", 100, `\# big`},
		{"table and maths", "a | b $x$", 100, `a \| b \$x\$`},
		{"backslashes", `a\*b\`, 100, `a\\\*b\\`},
		{"lines", "one\ntwo\r\n\r\nthree\u2028four", 100, "one two three four"},
		{"hidden", "a\u200bb\u202ec\x1b[31md\x00e\U000e0041", 100, "abcde"},
		{"emoji and right to left stay", "👩‍👩‍👧 שלום", 100, "👩‍👩‍👧 שלום"},
		{"not UTF-8", "a\xffb", 100, "a\ufffdb"},
		{"secret", "key sk-ant-api03-" + strings.Repeat("x", 40), 100, `key \*\*\*`},
		{"secret with hidden characters", "ghs_" + strings.Repeat("aa\u200b", 20), 100, `\*\*\*`},
		{"exact", "abcdef", 6, "abcdef"},
		{"cut", "abcdefg", 6, "abc…"},
		{"cut in front of an escape", "abc*def", 6, "abc…"},
		{"cut between characters", "世世世", 8, "世…"},
		{"no room", "abc", 2, ""},
		{"empty", " \n ", 10, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, Speak(mask, c.in, c.limit)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzSpeak reads what Speak returns as GitHub would, in the places where it is
// put: nothing but text and code spans may come of it.
func FuzzSpeak(f *testing.F) {
	for _, s := range []string{
		"plain", "`a``b`", "``` x", "\\`", "`\\`", "<a href=`x`>", "[a]: b", "&lt;", "- a", "1) a", "=", "a\n===", "***",
		"~~a~~", "https://a.b/c",
		"a@b.example", "mailto:a@b.example", "www.a.example", "[x](y)", "![x](y)", "<https://a.b>", "`|`", "|", "$a$",
		"x_y_z", "_x_", "#1", "gh-1", "\u200d\ufe0f",
	} {
		f.Add(s, 200)
	}
	f.Fuzz(func(t *testing.T, in string, limit int) {
		if len(in) > 2000 || limit < 0 || limit > 5000 {
			return
		}
		out := Speak(mask, in, limit)
		if len(out) > limit {
			t.Fatalf("%d bytes, limit %d", len(out), limit)
		}
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\n\r\t\x00\x1b") {
			t.Fatalf("not one clean line: %q", out)
		}
		if hits := active(out); len(hits) > 0 {
			t.Fatalf("%q is active in %q", hits, out)
		}
		for _, place := range []struct {
			before, after string
			want          markup
		}{
			{"", "", markup{}},
			{"- [x] T1 ", "", markup{lists: 1, boxes: 1}},
			{"  - Accept: ", "", markup{lists: 1}},
			{"> ", "", markup{quotes: 1}},
		} {
			got := inspect(place.before + out + place.after)
			if len(got.links)+len(got.headings)+len(got.html)+got.images+got.code+got.breaks+got.emphasis+got.strikes+
				got.tables > 0 ||
				got.lists != place.want.lists || got.boxes != place.want.boxes || got.quotes != place.want.quotes && out != "" {
				t.Fatalf("%q behind %q is %+v", out, place.before, got)
			}
		}
	})
}

func TestPlain(t *testing.T) {
	t.Parallel()
	const z = zeroWidth
	cases := []struct {
		name, in string
		limit    int
		want     string
	}{
		{"as it is", "Add *bold* and [links](x)", 100, "Add *bold* and [links](x)"},
		{
			"mention and references", "@a fixes #1 GH-2 http://x", 100,
			"@" + z + "a fixes #" + z + "1 GH" + z + "-2 http:" + z + "//x",
		},
		{
			"skipping CI", "a [skip ci] [CI Skip] [no ci] [skip actions] [skip-ci] b", 100,
			"a (skip ci) (CI Skip) (no ci) (skip actions) (skip-ci) b",
		},
		{
			"trailers", "x\n\nCo-authored-by: v\nSigned-Off-By : w\nskip-checks: true\nRalph-Run: r", 100,
			"x Co-authored-by v Signed-Off-By w skip-checks true Ralph-Run r",
		},
		{"breaking", "BREAKING CHANGE: all", 100, "BREAKING CHANGE all"},
		{"cut at a word", "one two three four five", 16, "one two three…"},
		{"cut in a word", strings.Repeat("a", 30), 10, strings.Repeat("a", 9) + "…"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, Plain(mask, c.in, c.limit)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
