package plan

import (
	"flag"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

// invisible says whether a clean text must not hold r. Joiners and emoji
// selectors may stay where they mean something; see TestAttackD6.
func invisible(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\r' || r == '\u200c' || r == '\u200d' || r == '\ufe0e' || r == '\ufe0f':
		return false
	case unicode.IsControl(r), r == '\u00ad', r == '\ufeff', r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0',
		r >= '\u200b' && r <= '\u200f', r >= '\u2028' && r <= '\u202e', r >= '\u2060' && r <= '\u206f',
		r >= '\ufe00' && r <= '\ufe0d', r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}

// checkSanitize holds a cleaned text against what is promised of every one.
func checkSanitize(t interface{ Errorf(string, ...any) }, s string) string {
	got, removed := Sanitize(s)
	if again, more := Sanitize(got); again != got || more != 0 {
		t.Errorf("not idempotent:\n%q\n%q\n%q", s, got, again)
	}
	if i := strings.IndexFunc(got, invisible); i >= 0 || !utf8.ValidString(got) {
		t.Errorf("something invisible at %d of %q", i, got)
	}
	// A broken byte becomes a character of three bytes, "<" an entity of four.
	if len(got) > 4*len(s) {
		t.Errorf("%d bytes grew to %d", len(s), len(got))
	}
	if removed < 0 || removed > utf8.RuneCountInString(s) {
		t.Errorf("removed %d of %d characters", removed, utf8.RuneCountInString(s))
	}
	return got
}

func FuzzSanitize(f *testing.F) {
	f.Add("a <!-- b --> [c](d \"e\") ![f](g)\n\n[h]: i 'j'\n<p data-x=\"y\">")
	f.Fuzz(func(t *testing.T, s string) { checkSanitize(t, s) })
}

func FuzzFromIssue(f *testing.F) {
	f.Add("title", "- [ ] a\n  - Accept: b\n")
	f.Add("title", "- [ ] a\n  Verify: `b <!-- c -->`\n  Commit: d\n  Files: `e, f\n  **Do**:\n  - Done when: g\n")
	f.Fuzz(func(t *testing.T, title, body string) {
		p, err := FromIssue(title, body)
		if err != nil {
			return
		}
		if p.Title == "" || strings.ContainsAny(p.Title, "\r\n") || p.Words() == "" || p.Text != withoutBlankEnds(p.Text) {
			t.Errorf("%+v", p)
		}
		again, err := FromIssue(p.Title, p.Text)
		if err != nil || again.SHA256 != p.SHA256 || again.Removed != 0 {
			t.Errorf("again: %v\n%+v\n%+v", err, p, again)
		}
		if len(p.Accept) > maxCriteria {
			t.Errorf("%d criteria", len(p.Accept))
		}
		for _, a := range p.Accept {
			if strings.TrimSpace(a) == "" || strings.ContainsAny(a, "\r\n") || len(a) > maxCriterion || !utf8.ValidString(a) {
				t.Errorf("criterion %q", a)
			}
		}
		for _, task := range p.Tasks {
			if strings.TrimSpace(task.Title) == "" {
				t.Errorf("a task without a title: %+v", task)
			}
		}
	})
}

// TestSanitizeKeepsCode: whatever stands in a fence comes out as it went in, and
// so does what people see around it.
func TestSanitizeKeepsCode(t *testing.T) {
	t.Parallel()
	hidden := rapid.SampledFrom([]string{
		"<!-- evil -->", "\n\n<!--\nevil\n-->\n\n", "<b title=\"evil\">", "![evil](u)", "[a](u \"evil\")", "\u200b", "\u202e",
		"\U000e0041", "\x1b[31m", "\n\n[evil]: # (evil)\n\n",
	})
	// It begins with a letter: a line that begins with a tag is another thing.
	seen := rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9 .,!?]{0,20}`)
	codeLine := rapid.StringMatching("[a-zA-Z0-9 <>!\\-\\[\\]()\"'&;#*_=/{}]{0,30}")
	rapid.Check(t, func(t *rapid.T) {
		var in strings.Builder
		in.WriteString(seen.Draw(t, "before"))
		for range rapid.IntRange(0, 4).Draw(t, "hidden") {
			in.WriteString(hidden.Draw(t, "what"))
			in.WriteString(seen.Draw(t, "text"))
		}
		lines := rapid.SliceOfN(codeLine, 0, 6).Draw(t, "code")
		fence := rapid.SampledFrom([]string{"```", "~~~~"}).Draw(t, "fence")
		code := "\n\n" + fence + "go\n" + strings.Join(lines, "\n") + "\n" + fence + "\n"
		in.WriteString(code)
		in.WriteString("\n" + seen.Draw(t, "after"))
		got := checkSanitize(t, in.String())
		if !strings.Contains(got, code) {
			t.Errorf("the code\n%q\nis not in\n%q", code, got)
		}
		if strings.Contains(got, "evil") && !strings.Contains(strings.Join(lines, "\n"), "evil") {
			t.Errorf("what was hidden came through:\n%q\n%q", in.String(), got)
		}
	})
}

func FuzzSlug(f *testing.F) {
	f.Add("Add --json.md")
	f.Fuzz(func(t *testing.T, name string) {
		s := Slug(name)
		if s == "" || len(s) > maxSlug || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
			strings.Trim(s, "-") != s {
			t.Errorf("Slug(%q) = %q", name, s)
		}
	})
}

func mustPlan(t *testing.T, title, body string) Plan {
	t.Helper()
	p, err := FromIssue(title, body)
	if err != nil {
		t.Fatalf("%q: %v", title, err)
	}
	return p
}
