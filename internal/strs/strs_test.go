package strs_test

import (
	"flag"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/strs"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

func TestOneLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", " ": "", "a": "a", "a b": "a b", " a b": "a b", "a b ": "a b", "a  b": "a b", "a\nb": "a b",
		"a\u00a0b": "a b", "ä\t\r\n ö": "ä ö", "a\x85b": "a\x85b",
	} {
		if got := strs.OneLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.SampledFrom([]rune(" ab\n\tä\u2028\x7f"))).Draw(t, "text")
		if got, want := strs.OneLine(s), strings.Join(strings.Fields(s), " "); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	})
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s     string
		limit int
		want  string
	}{
		{"", 5, ""}, {"abcde", 5, "abcde"}, {"abcdef", 5, "ab…"}, {"ääää", 7, "ää…"}, {"ääää", 6, "ä…"}, {"äääää", 3, "…"},
	} {
		if got := strs.Cut(tt.s, tt.limit); got != tt.want || len(got) > max(tt.limit, 0) || !utf8.ValidString(got) {
			t.Errorf("%q in %d bytes: %q, want %q", tt.s, tt.limit, got, tt.want)
		}
	}
}

func TestLazy(t *testing.T) {
	t.Parallel()
	broken := strs.Lazy("(") // nobody uses it
	defer func() {
		if recover() == nil {
			t.Error("a broken expression was compiled")
		}
	}()
	if re := strs.Lazy("^a+$")(); !re.MatchString("aaa") || re.MatchString("ab") {
		t.Error("a+")
	}
	broken()
}
