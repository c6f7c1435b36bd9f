package plan

import (
	"strings"
	"testing"
)

// What looks like a box and is no task is named with its line; what is none stays unnamed.
func TestUnreadBoxesAreNamed(t *testing.T) {
	t.Parallel()
	const src = "\n# Plan\n\n- [x] T1.1 a\n- [~] T1.2 b\n- [!] c\n- [-] d\n- [] e\n- [ ]f\n- [  ] g\n- [✓] h\n### 1. [ ] i\n" +
		"- [x] parent\n  - [ ] child\n    - [ ] its own\n- [ ] open\n  - [ ] its criterion\n"
	p, err := FromFile("PLAN.md", []byte(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(p.Findings, "\n")
	for _, want := range []string{
		"Line 5, “[~] T1.2 b”", "Line 6, “[!] c”", "Line 7, “[-] d”", "Line 8, “[] e”", "Line 9, “[ ]f”", "Line 10, “[  ] g”",
		"Line 11, “[✓] h”", "Line 12, “1. [ ] i”, is a box in a heading", "Line 14, “[ ] child”, is open",
		"Line 15, “[ ] its own”, is open",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said in:\n%s", want, said)
		}
	}
	if p.Unread != 10 {
		t.Errorf("%d boxes, want 10:\n%s", p.Unread, said)
	}
	for _, text := range []string{
		"- [x](u) link\n", "- [2026-01-29] dated\n", "- [1] a note\n", "- [y] a letter\n", "- [a]: u\n", "- [x][r]\n\n[r]: u\n",
		"```\n- [~] code\n```\n", "> - [~] quoted\n", "[~] no item\n", "# [link](u)\n", "- [ ] open\n  - [x] done\n", "- [ ](u)\n",
		"# About [x] and [ ]\n",
	} {
		if p, err := FromFile("PLAN.md", []byte("Do it.\n\n"+text), nil); err != nil || p.Unread != 0 || len(p.Findings) != 0 {
			t.Errorf("%q: %q, %v", text, p.Findings, err)
		}
	}
}

// A check that nobody can run is named: it is not passed over in silence.
func TestUncheckedLinesAreNamed(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, "t", "- [ ] a\n  - Verify: make test\n- [ ] b\n  - Verify: by hand\n- [ ] c\n  - Verify: `make`\n  - Verify: none\n")
	const want = "2 Verify lines without a command in backticks, “Verify: make test” the first: the agent is told, and nothing is run."
	if len(p.Findings) != 1 || p.Findings[0] != want {
		t.Errorf("%q", p.Findings)
	}
	if p := mustPlan(t, "t", "- [ ] a\n  - Verify: `make`\n"); len(p.Findings) > 0 {
		t.Errorf("%q", p.Findings)
	}
}
