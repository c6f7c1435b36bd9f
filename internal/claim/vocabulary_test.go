package claim

import (
	"io/fs"
	"testing"
)

func TestWordFilesAreRead(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(wordFiles, "words/*.txt")
	if err != nil || len(files) != len(vocabulary()) {
		t.Fatalf("%d languages of %v, %v", len(vocabulary()), files, err)
	}
	for _, file := range files {
		text, err := wordFiles.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		l, err := newLanguage(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, r := range l.rules {
			if r.finder.MatchString("") {
				t.Errorf("%s: a rule finds something in nothing: %s", file, r.finder)
			}
		}
	}
}

func TestWordFilesWithMistakes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"[rules]\npartial: nonsense\n  x", "[rules]\ndone: things\n  x", "[rules]\npartial\n  x",
		"[rules]\npartial: things\n  (",
		"[rules]\npartial: things\n  {nobody}", "[guards]\nunknown:\n  x", "[innocent]\n(",
	} {
		if _, err := newLanguage(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// A finder that skips a text must not lose what the expression would find.
func TestNeedlesLoseNothing(t *testing.T) {
	t.Parallel()
	for expr, text := range map[string]string{
		`a(?:bc|de)f?`: "ade", `x*y+z?`: "y", `(?:ab){2,3}`: "abab", `(?:ab)?c`: "c", `[ab]c`: "bc", `(?i)AB`: "ab", `^$`: "",
		`ab|c?`: "",
	} {
		f, err := newFinder(expr)
		if err != nil {
			t.Fatal(err)
		}
		if !f.MatchString(text) {
			t.Errorf("%s does not find %q; needles %q", expr, text, f.needles)
		}
	}
	for _, s := range parse(ours(t)["../prompt/PROMPT_build.md"]).sentences() {
		for _, l := range vocabulary() {
			for _, r := range l.rules {
				if r.finder.Regexp.MatchString(s.plain) != r.finder.MatchString(s.plain) {
					t.Fatalf("%q is skipped by %s", s.plain, r.finder)
				}
			}
		}
	}
}
