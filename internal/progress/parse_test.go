package progress

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/run"
)

func parse(t testing.TB, s string) *Doc {
	t.Helper()
	d, err := Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sample is the document of the format's description, with CRLF if asked.
func sample(crlf bool) string {
	s := `<!-- ralph:progress key=issue:I_kwDOA%2F1 plan=0a1b -->
# Progress: Add a --json flag

## Status
IN_PROGRESS

## Analysis
Some prose.

## Tasks
### Phase 1: Output
- [x] T1 (P1) Serialise the report
  - Accept: ` + "`report --json | jq .`" + ` works
- [ ] T2 (P1) Wire the flag
- [ ] T3 (P2) [VERIFY] Run the whole suite

## Testing Strategy

## Codebase Patterns

## Learnings
- one

## Completed This Iteration

## Recent Attempts
### Iteration 4
- Tried: a
- Result: b
- Next: c

## Iteration Log
| Iteration | Started | Duration | Tasks Completed | Notes |
|-----------|---------|----------|-----------------|-------|
| 1 | 2026-11-20 10:00:00Z | 1m0s | T1 | |
`
	if crlf {
		s = strings.ReplaceAll(s, "\n", "\r\n")
	}
	return s
}

func TestParseSample(t *testing.T) {
	t.Parallel()
	for _, crlf := range []bool{false, true} {
		for _, prefix := range []string{"", bom} {
			d := parse(t, prefix+sample(crlf))
			if got := string(d.Bytes()); got != prefix+sample(crlf) {
				t.Errorf("bytes changed: %q", got)
			}
			want := []run.Task{
				{
					ID: "T1", Title: "Serialise the report", Priority: 1, Group: "Phase 1: Output",
					Accept: []string{"`report --json | jq .` works"}, Status: run.TaskDone,
				},
				{ID: "T2", Title: "Wire the flag", Priority: 1, Group: "Phase 1: Output", Status: run.TaskOpen},
				{ID: "T3", Title: "Run the whole suite", Priority: 2, Group: "Phase 1: Output", Verify: true, Status: run.TaskOpen},
			}
			if diff := cmp.Diff(want, d.Tasks()); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
			if b, ok := d.Binding(); !ok || b != (Binding{Key: "issue:I_kwDOA/1", PlanSHA256: "0a1b"}) {
				t.Errorf("binding %+v, %v", b, ok)
			}
			if d.Title() != "Add a --json flag" || d.Status() != "IN_PROGRESS" || d.MarkedDone() {
				t.Errorf("title %q, status %q, done %v", d.Title(), d.Status(), d.MarkedDone())
			}
			if got := d.Section("learnings"); got != "- one" {
				t.Errorf("learnings %q", got)
			}
			if got := d.Section("Notes"); got != "- one" {
				t.Errorf("learnings by another name: %q", got)
			}
			if got := d.Section("Mine"); got != "" {
				t.Errorf("missing section %q", got)
			}
			if done, total := Counts(d.Tasks()); done != 1 || total != 3 {
				t.Errorf("counts %d of %d", done, total)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, src string
		want      error
	}{
		{"too large", strings.Repeat("x", MaxSize+1), ErrTooLarge},
		{"NUL", "a\x00b", ErrEncoding},
		{"Latin-1", "caf\xe9", ErrEncoding},
		{"surrogate", "\xed\xa0\x80", ErrEncoding},
		{"quotes", strings.Repeat(">", 40) + "x", ErrTooDeep},
		{"lists", strings.Repeat("- ", 40) + "x", ErrTooDeep},
		{"numbers", strings.Repeat("1. ", 40) + "x", ErrTooDeep},
		{"far right", strings.Repeat("\t", 80) + "- - x", ErrTooDeep},
		{"largest", strings.Repeat("x", MaxSize), nil},
		{"empty", "", nil},
		{"rule", strings.Repeat("-", 200), nil},
		{"deep enough", strings.Repeat("> ", 20) + "- x", nil},
		{"indented code", strings.Repeat(" ", 4000) + "x", nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse([]byte(tc.src)); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// Attack case D5: what only looks like a task.
func TestAttackD5NoTasks(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"fence":            "```\n- [ ] a\n```",
		"fence of tildes":  "~~~~ md\n- [ ] a\n~~~\n- [ ] b\n~~~~",
		"open fence":       "```\n- [ ] a\n## Tasks\n- [ ] b",
		"fence in an item": "- a\n  ```\n  - [ ] b\n  ```",
		"indented code":    "text\n\n    - [ ] a",
		"quote":            "> - [ ] a\n> > - [ ] b",
		"quote in an item": "- a\n  > - [ ] b",
		"comment":          "<!-- - [ ] a -->\n<!--\n- [ ] b\n\n- [ ] c\n-->",
		"open comment":     "<!--\n\n- [ ] a",
		"html":             "<div>\n- [ ] a\n</div>",
		"script":           "<script>\n\n- [ ] a\n\n</script>",
		"pre":              "<pre>\n\n- [ ] a\n</pre>",
		"code span":        "- `[ ] a`\n- `` `[ ]` `` b",
		"escaped":          "- \\[ ] a\n\\- [ ] b",
		"entity":           "- &#91; ] a",
		"link":             "- [x](u)\n- [ ](u)",
		"heading":          "# [ ] a\n## - [ ] b",
		"table":            "| - [ ] a |\n|---|",
		"paragraph":        "[ ] a\ntext - [ ] b",
	} {
		for _, s := range []string{src, "## Tasks\n" + src, strings.ReplaceAll(src, "\n", "\r\n")} {
			if got := parse(t, s).Tasks(); len(got) > 0 {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}

// The worst is parsed in a moment; the deadline of the test run is the judge.
func TestParseHostile(t *testing.T) {
	t.Parallel()
	const size = MaxSize / 8 // time must not grow with the square; at full size the race detector takes minutes
	var stairs strings.Builder
	for i := 0; stairs.Len() < size; i++ {
		stairs.WriteString(strings.Repeat("  ", i%120) + "- a\n")
	}
	for name, src := range map[string]string{
		"stairs":    stairs.String(),
		"quotes":    strings.Repeat(strings.Repeat(">", 32)+"\n", size/33),
		"deep list": strings.Repeat("- ", 32) + "x\n" + strings.Repeat(strings.Repeat(" ", 250)+"x\n", size/260),
		"headings":  strings.Repeat("## Tasks\n", size/9),
		"groups":    strings.Repeat("## Tasks\n### a\n- [ ] b\n", size/23),
		"boxes":     strings.Repeat("- [ ] a\n", size/8),
		"same ids":  "## Tasks\n" + strings.Repeat("- [ ] T1 a\n", size/11-1),
		"lists":     strings.Repeat("- [ ] a\n\n* [ ] a\n\n", size/18),
		"marks":     strings.Repeat("- [ ] a (blocked: ((((((()\n", size/27),
		"one mark":  "- [ ] " + strings.Repeat("(blocked: ", size/10-1) + ")",
		"refs":      strings.Repeat("[a]: b\n", size/7),
		"statuses":  "## Status\n" + strings.Repeat("RALPH_DONE\n", size/11-1),
		"fences":    strings.Repeat("```\n", size/4),
		"comments":  strings.Repeat("<!--\n", size/5),
		"subheads":  "## Status\n" + strings.Repeat("### a\nb\n", size/8),
		"rows":      "## Iteration Log\n" + strings.Repeat("|\n", size/2-10),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Parse([]byte(src))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(d.Bytes()); got != src {
				t.Error("bytes changed")
			}
			d.MarkedDone()
			d.Tasks()
			d.AssignIDs()
		})
	}
}

// Which check boxes are tasks, and what is read from them.
func TestTasks(t *testing.T) {
	t.Parallel()
	open := func(id, title string) run.Task { return run.Task{ID: id, Title: title, Status: run.TaskOpen} }
	tests := []struct {
		name, src string
		want      []run.Task
	}{
		{
			"markers of lists", "- [ ] a\n\n* [ ] b\n\n+ [ ] c\n\n1. [ ] d\n\n7) [ ] e",
			[]run.Task{open("", "a"), open("", "b"), open("", "c"), open("", "d"), open("", "e")},
		},
		{
			"tabs", "-\t[ ]\ta\n\t- [ ] child\n-\t[\t] b",
			[]run.Task{{Title: "a", Accept: []string{"child"}, Status: run.TaskOpen}, open("", "b")},
		},
		{"done", "- [x] a\n- [X] b", []run.Task{{Title: "a", Status: run.TaskDone}, {Title: "b", Status: run.TaskDone}}},
		{"comment", "<!--\n- [ ] a\n-->\n\n- <!-- [ ] b -->\n\n- [ ] c <!-- note --> d", []run.Task{open("", "c d")}},
		{"html", "<div>\n- [ ] a\n</div>\n\n<details>\n\n- [ ] b\n\n</details>", []run.Task{open("", "b")}},
		{
			"nested boxes belong to the parent", "- [ ] a\n  - [x] b\n    - [ ] c\n- [ ] d",
			[]run.Task{{Title: "a", Accept: []string{"b", "c"}, Status: run.TaskOpen}, open("", "d")},
		},
		{
			"boxes below plain items", "- Phase\n  - [ ] a\n  - b\n    - [x] c\n- - [ ] d",
			[]run.Task{open("", "a"), {Title: "c", Status: run.TaskDone}, open("", "d")},
		},
		{"loose list", "- [ ] a\n\n- [ ] b\n\n  more\n\n- [ ] c", []run.Task{open("", "a"), open("", "b"), open("", "c")}},
		{"more lines", "- [ ] T1 a\n  b\nc\n- [ ] d", []run.Task{open("T1", "a b c"), open("", "d")}},
		{"ids", "- [ ] T1 a\n- [ ] T2: b\n- [ ] **T3** c\n- [ ] **T4:** d\n- [ ] **T5**: e\n- [ ] **T6: f** g\n- [ ] T7 - h\n- [ ] T008 i\n- [ ] T9", []run.Task{
			open("T1", "a"), open("T2", "b"), open("T3", "c"), open("T4", "d"), open("T5", "e"), open("T6", "f** g"),
			open("T7", "h"), open("T8", "i"), open("T9", ""),
		}},
		{"foreign ids", "- [ ] Task 1: a\n- [ ] 1.1 b\n- [ ] US-001 c\n- [ ] t2 d\n- [ ] T1a e\n- [ ] T12345678 f\n- [ ] TTL g", []run.Task{
			open("", "Task 1: a"), open("", "1.1 b"), open("", "US-001 c"), open("", "t2 d"), open("", "T1a e"),
			open("", "T12345678 f"), open("", "TTL g"),
		}},
		{
			"doubled ids", "- [ ] T1 a\n- [ ] T1 b\n- [ ] T01 c\n- [ ] T2 d",
			[]run.Task{open("T1", "a"), open("", "b"), open("", "c"), open("T2", "d")},
		},
		{"flags", "- [ ] T1 (P1) [P] [VERIFY] a\n- [ ] [P] (p9) T2 b [P] (P1)\n- [ ] [p] c\n- [ ] (P12) d\n- [ ] (P1)", []run.Task{
			{ID: "T1", Title: "a", Priority: 1, Parallel: true, Verify: true, Status: run.TaskOpen},
			{ID: "T2", Title: "b [P] (P1)", Priority: 9, Parallel: true, Status: run.TaskOpen},
			open("", "[p] c"), open("", "(P12) d"),
		}},
		{"marks", "- [ ] a (blocked: no key)\n- [ ] b (skipped: old (v1) api)\n- [x] c (blocked: was)\n- [ ] d (blocked)\n- [ ] e (blocked: x) and (y)\n- [ ] f\n  (skipped:\n  two lines)\n- [ ] g (blocked: )x", []run.Task{
			{Title: "a", Status: run.TaskBlocked, Reason: "no key"},
			{Title: "b", Status: run.TaskSkipped, Reason: "old (v1) api"}, {Title: "c", Status: run.TaskDone, Reason: "was"},
			open("", "d (blocked)"), open("", "e (blocked: x) and (y)"),
			{Title: "f", Status: run.TaskSkipped, Reason: "two lines"}, open("", "g (blocked: )x"),
		}},
		{"criteria", "- [ ] a\n  - Accept: one\n  - **Acceptance:** two\n  - [ ] accept: three\n  - Do: no criterion\n  - Done when:\n    - four\n    - five\n  - Acceptance criteria: six\n    seven\n", []run.Task{
			{
				Title: "a", Steps: []string{"no criterion"}, Accept: []string{"one", "two", "three", "four", "five", "six seven"},
				Status: run.TaskOpen,
			},
		}},
		{"criteria below a paragraph", "- [ ] a\n\n  **Acceptance Criteria:**\n\n  - one\n  - [x] two\n\n  Notes:\n  - three", []run.Task{
			{Title: "a", Accept: []string{"one", "two"}, Status: run.TaskOpen},
		}},
		{"criteria of a list of boxes", "- [ ] a\n  - Acceptance Criteria:\n    - [ ] one <!-- x -->\n    - [x] **Done when:** two\n", []run.Task{
			{Title: "a", Accept: []string{"one", "two"}, Status: run.TaskOpen},
		}},
		{"dependencies", "- [ ] T1 a\n  - Depends on: T2, T03 and T4;T5 (the rest)\n  - Accept: b\n- [ ] T2 c\n  - **After:** `T1`\n  - After: the release\n  - after: T9x\n- [ ] T3 d\n\n  Depends: T1\n  T2\n", []run.Task{
			{ID: "T1", Title: "a", Accept: []string{"b"}, DependsOn: []string{"T2", "T3", "T4", "T5"}, Status: run.TaskOpen},
			{ID: "T2", Title: "c", Status: run.TaskOpen},
			{ID: "T3", Title: "d", DependsOn: []string{"T1", "T2"}, Status: run.TaskOpen},
		}},
		{"sections", "- [ ] before\n\n## tasks:\n\n- [ ] a\n\n### One\n- [ ] b\n\n#### Two\n- [ ] c\n\n## Other\n- [ ] after", []run.Task{
			open("", "a"), {Title: "b", Group: "One", Status: run.TaskOpen}, {Title: "c", Group: "Two", Status: run.TaskOpen},
		}},
		{"synonym and decoration", "## 📋 **Task List** ##\n- [ ] a\n## Notes\n- [ ] b", []run.Task{open("", "a")}},
		{"synonyms", "## Notes\n- [ ] a\n## TODO:\n- [ ] b\n## Other\n- [ ] c", []run.Task{open("", "b")}},
		{
			"our own name goes first", "## TODO\n- [ ] a\n## Tasks\n- [ ] b\n## Implementation Tasks\n- [ ] c",
			[]run.Task{open("", "b")},
		},
		{
			"a title is no section", "# Tasks: all\n- [ ] a\n# Tasks\n## Phase 1\n- [ ] b",
			[]run.Task{open("", "a"), {Title: "b", Group: "Phase 1", Status: run.TaskOpen}},
		},
		{"two sections", "## Tasks\n- [ ] a\n## Other\n- [ ] b\n## Tasks\n- [ ] c", []run.Task{open("", "a"), open("", "c")}},
		{
			"deeper heading", "### Description\n- [ ] a\n### Tasks\n- [ ] b\n#### G\n- [ ] c\n### Terms\n- [x] d",
			[]run.Task{open("", "b"), {Title: "c", Group: "G", Status: run.TaskOpen}},
		},
		{"level 2 goes first", "### Tasks\n- [ ] a\n## Tasks\n- [ ] b", []run.Task{open("", "b")}},
		{
			"no section", "# Title\n- [ ] a\n## G\n- [ ] b\n# Next\n- [ ] c",
			[]run.Task{open("", "a"), {Title: "b", Group: "G", Status: run.TaskOpen}, open("", "c")},
		},
		{"rule below text is no section", "## Tasks\nIntro\n---\n- [ ] a\n", []run.Task{open("", "a")}},
		{
			"heading in a fence is no section", "## Tasks\n- [ ] a\n\n```\n## Other\n```\n\n- [ ] b",
			[]run.Task{open("", "a"), open("", "b")},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, src := range []string{tc.src, strings.ReplaceAll(tc.src, "\n", "\r\n")} {
				if diff := cmp.Diff(tc.want, parse(t, src).Tasks(), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%q (-want +got):\n%s", src, diff)
				}
			}
		})
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	var tasks []run.Task
	for _, s := range []run.TaskStatus{
		run.TaskDone, run.TaskDone, run.TaskOpen, run.TaskInProgress, run.TaskBlocked, run.TaskSkipped,
	} {
		tasks = append(tasks, run.Task{Status: s})
	}
	if done, total := Counts(tasks); done != 2 || total != 5 {
		t.Errorf("%d of %d, want 2 of 5", done, total)
	}
}

// The rows of the marker truth table: which forms end other systems, and ours.
func TestMarkerTruthTable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, status string
		done         bool
	}{
		{"alone", "RALPH_DONE", true},
		{"in a sentence", "I will NOT print RALPH_DONE yet", false},
		{"at the end of a sentence", "Status: RALPH_DONE", false},
		{"in a fence", "```\nRALPH_DONE\n```", false},
		{"in an open fence", "~~~\nRALPH_DONE", false},
		{"carriage return", "RALPH_DONE\r", true},
		{"trailing blanks", "RALPH_DONE   ", true},
		{"leading blanks", "  RALPH_DONE", true},
		{"bold", "**RALPH_DONE**", true},
		{"emphasis", "*RALPH_DONE*", true},
		{"code", "`RALPH_DONE`", true},
		{"bold code", "**`RALPH_DONE`**", true},
		{"followed by text", "RALPH_DONE\ntests failed", true},
		{"after text", "All tasks are ticked.\n\nRALPH_DONE\n\n", true},
		{"lower case", "ralph_done", false},
		{"longer word", "RALPH_DONE_NOT", false},
		{"full stop", "RALPH_DONE.", false},
		{"quoted", "> RALPH_DONE", false},
		{"bullet", "- RALPH_DONE", false},
		{"comment", "<!-- RALPH_DONE -->", false},
		{"comment over lines", "<!--\nRALPH_DONE\n-->", false},
		{"over a rule", "RALPH_DONE\n---", true},
		{"after a fence", "```\nx\n```\nRALPH_DONE", true},
		{"promise with blanks", "<promise> COMPLETE </promise>", false},
		{"whole text is the promise's word", "COMPLETE", false},
		{"nothing", "", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, eol := range []string{"\n", "\r\n"} {
				src := strings.ReplaceAll("# Progress: x\n\n## Status\n"+tc.status+"\n", "\n", eol)
				if !strings.Contains(tc.name, "open") {
					src += "\n## Analysis\nRALPH_DONE\n"
				}
				d := parse(t, src)
				if d.MarkedDone() != tc.done {
					t.Errorf("%q: MarkedDone %v", src, d.MarkedDone())
				}
			}
		})
	}
	if parse(t, "RALPH_DONE\n\n# Status\nRALPH_DONE\n").MarkedDone() {
		t.Error("a marker outside the Status section counts")
	}
}

// Nothing that we write ourselves says that the work is done: not a line of it,
// wherever it ends up.
func TestTemplatesAreNoMarkers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../prompt/*.md")
	if err != nil || len(files) < 2 {
		t.Fatalf("templates %v, %v", files, err)
	}
	texts := map[string]string{"a fresh document": string(New("x", Binding{Key: "plan:x"}).Bytes())}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[f] = string(b)
	}
	for name, text := range texts {
		if parse(t, text).MarkedDone() || parse(t, "## Status\n"+text).MarkedDone() {
			t.Errorf("%s is taken for done", name)
		}
		for l := range strings.Lines(text) {
			if parse(t, "## Status\n"+l).MarkedDone() {
				t.Errorf("%s: %q is taken for done", name, l)
			}
		}
	}
}

func TestBinding(t *testing.T) {
	t.Parallel()
	for _, b := range []Binding{
		{Key: "issue:I_kwDOABC=", PlanSHA256: "00ff"},
		{Key: "plan:add-json"},
		{Key: "plan:--> <x> y%20\n", PlanSHA256: "-->"},
	} {
		d := New("t", b)
		if got, ok := d.Binding(); !ok || got != b {
			t.Errorf("%+v came back as %+v, %v", b, got, ok)
		}
		if d.Title() != "t" {
			t.Errorf("%+v broke the document: %s", b, d.Bytes())
		}
	}
	for _, src := range []string{
		"", "# x\n" + Binding{Key: "k"}.comment(), "<!-- ralph:progress key= plan= -->",
		"<!-- ralph:progress key=%zz plan= -->", "<!-- other -->",
	} {
		if b, ok := parse(t, src).Binding(); ok {
			t.Errorf("%q is bound to %+v", src, b)
		}
	}
}

// FuzzParse holds for any bytes: no panic, not a byte lost, and no more memory
// than a multiple of what was read.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sample(false)))
	f.Add([]byte(sample(true)))
	f.Fuzz(func(t *testing.T, src []byte) {
		// The parser alone takes about 300 bytes for a byte of a list. Other
		// tests do not run at the same time as a fuzz target.
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, err := Parse(src)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(len(src))*2000+1<<17; got > most {
			t.Errorf("%d bytes were allocated for %d", got, len(src))
		}
		if err != nil {
			return
		}
		if string(d.Bytes()) != string(src) {
			t.Fatal("bytes changed")
		}
		again, err := Parse(d.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d.Tasks(), again.Tasks()); diff != "" {
			t.Fatal(diff)
		}
		d.Binding()
		d.Attempts()
		d.Log()
		d.HasLine("x")
		sum := d.PlanSHA256()
		for _, task := range d.Tasks() {
			if task.ID == "" {
				continue
			}
			if err := d.Tick(task.ID); err != nil {
				t.Fatal(err)
			}
		}
		again, err = Parse(d.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d.Tasks(), again.Tasks()); diff != "" {
			t.Fatalf("ticking without parsing differs from parsing: %s", diff)
		}
		if d.PlanSHA256() != sum {
			t.Fatal("ticking made another plan")
		}
	})
}

const plan = `## Tasks
### Phase 1
- [ ] T1 (P1) [P] Write it
  - Accept: it runs
  - [ ] it is tested
- [ ] T2 Wire it
  - Depends on: T1

  Mind the gap.
### Phase 2
- [ ] T3 [VERIFY] Try it
`

// What is another plan, and what is the same one further on or written
// otherwise.
func TestPlanSHA256(t *testing.T) {
	t.Parallel()
	base := parse(t, plan).PlanSHA256()
	if len(base) != 64 {
		t.Fatalf("hash %q", base)
	}
	tests := []struct {
		name, old, now string
		same           bool
	}{
		{"tick", "[ ] T1", "[x] T1", true},
		{"tick below", "[ ] it is", "[X] it is", true},
		{"block", "Wire it", "Wire it (blocked: no key)", true},
		{"skip", "Try it", "Try it (skipped: later)", true},
		{"windows", "\n", "\r\n", true},
		{"bullets", "- ", "* ", true},
		{"tabs", "[ ] T", "[ ]\tT", true},
		{"blank lines", "\n### Phase 2", "\n\n\n### Phase 2", true},
		{"order of tags", "T1 (P1) [P]", "[P] (P1) **T1:**", true},
		{"other sections", "## Tasks", "# Title\n\n## Status\nRALPH_DONE\n\n## Analysis\nx\n\n## Tasks", true},
		{"learnings", "Try it\n", "Try it\n\n## Learnings\n- x\n", true},
		{"other ids", "T1", "T11", true},
		{"title", "Wire it", "Wire them", false},
		{"case", "Wire it", "wire it", false},
		{"priority", "(P1)", "(P2)", false},
		{"no priority", "(P1) ", "", false},
		{"marker", "[P]", "[VERIFY]", false},
		{"criterion", "it runs", "it is there", false},
		{"criterion below", "it is tested", "it is not tested", false},
		{"criterion gone", "  - Accept: it runs\n", "", false},
		{"dependency", "Depends on: T1", "Depends on: T3", false},
		{"dependency on nothing", "Depends on: T1", "Depends on: T9", false},
		{"dependency gone", "  - Depends on: T1\n", "", false},
		{"text below", "Mind the gap.", "Jump.", false},
		{"group", "Phase 2", "Phase 3", false},
		{"moved to another group", "### Phase 2\n- [ ] T3", "- [ ] T3", false},
		{"one more", "Try it", "Try it\n- [ ] T4 More", false},
		{"one less", "- [ ] T3 [VERIFY] Try it", "", false},
		{"order", "T1 (P1) [P] Write it\n  - Accept: it runs\n  - [ ] it is tested\n- [ ] T2", "T2", false},
		{"title into criterion", "Wire it", "Wire it\n  - it", false},
	}
	for _, tc := range tests {
		src := strings.ReplaceAll(plan, tc.old, tc.now)
		if src == plan {
			t.Fatalf("%s: nothing changed", tc.name)
		}
		if got := parse(t, src).PlanSHA256() == base; got != tc.same {
			t.Errorf("%s: same plan %v, want %v", tc.name, got, tc.same)
		}
	}
}
