package island

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	old, fresh := frame("old text\n"), frame("new text\n- [x] done\n")
	bareStart := old[:strings.Index(old, "-->")+3]
	noEnd := strings.TrimSuffix(old, islandEnd)
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	cases := []struct{ name, existing, want string }{
		{"nothing there", "", fresh},
		{"only the island", old, fresh},
		{
			"text around is kept to the byte", "Hello \t\r\n\n" + old + "\n\n  bye\x00 ",
			"Hello \t\r\n\n" + fresh + "\n\n  bye\x00 ",
		},
		{"a person's edit inside is replaced", "a\n" + strings.Replace(old, "old", "my", 1) + "\nb", "a\n" + fresh + "\nb"},
		{"no island", "my text", "my text\n\n" + fresh},
		{"no island, line ended", "my text\n", "my text\n\n" + fresh},
		{"no island, blank line", "my text\n\n", "my text\n\n" + fresh},
		{"end marker deleted", "a\n" + noEnd + "\nb", "a\n" + fresh + "\nb"},
		{"end marker deleted, line ends changed", "a\r\n" + crlf(noEnd) + "\r\nb", "a\r\n" + fresh + "\r\nb"},
		{
			"end marker deleted and text changed", "a\n" + strings.Replace(noEnd, "old", "my", 1),
			"a\n" + strings.Replace(noEnd, "old", "my", 1) + "\n" + fresh,
		},
		{
			"start marker deleted", "a\n" + strings.TrimPrefix(old, bareStart),
			"a\n" + strings.TrimPrefix(old, bareStart) + "\n\n" + fresh,
		},
		{"island twice: the first counts", old + "\n" + old, fresh + "\n" + old},
		{"end marker twice", old + "\n" + islandEnd, fresh + "\n" + islandEnd},
		{"start marker twice", bareStart + "\n" + old, bareStart + "\n" + fresh},
		{"line ends changed", crlf("a\n" + old + "\nb"), "a\r\n" + fresh + "\r\nb"},
		{
			"markers that only look alike", "<!-- ralph:island:start x -->\n<!--ralph:island:end-->",
			"<!-- ralph:island:start x -->\n<!--ralph:island:end-->\n\n" + fresh,
		},
		{
			"claims more than there is", islandStart + " size=9999999 sum=0123456789abcdef -->",
			islandStart + " size=9999999 sum=0123456789abcdef -->\n\n" + fresh,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Merge(c.existing, fresh)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := Merge(got, fresh); again != got {
				t.Errorf("merging again changed it:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

// FuzzMerge: whatever people made of the description, the island appears whole,
// nothing outside of an old one is lost, and merging again changes nothing.
func FuzzMerge(f *testing.F) {
	old := frame("old\n")
	for _, s := range []string{
		"", "text", old, "a" + old + "b", strings.TrimSuffix(old, islandEnd), islandEnd + old, old + old,
		islandEnd + islandStart, strings.ReplaceAll(old, "\n", "\r\n"),
	} {
		f.Add(s, "new")
	}
	f.Fuzz(func(t *testing.T, existing, content string) {
		if markerRE().MatchString(content) {
			return // Render makes none, see TestRenderIsInert
		}
		rendered := frame(content)
		got := Merge(existing, rendered)
		if !strings.Contains(got, rendered) {
			t.Fatalf("the island is not in %q", got)
		}
		if again := Merge(got, rendered); again != got {
			t.Fatalf("merging again: %q, then %q", got, again)
		}
		if from, to, ok := findIsland(existing); ok {
			if got != existing[:from]+rendered+existing[to:] {
				t.Fatalf("text outside of the island changed: %q to %q", existing, got)
			}
		} else if !strings.HasPrefix(got, existing) {
			t.Fatalf("text changed: %q to %q", existing, got)
		}
	})
}
