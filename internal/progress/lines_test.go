package progress

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
)

// What the labelled lines below a task say, however they are written.
func TestTaskLines(t *testing.T) {
	t.Parallel()
	whole := run.Task{
		Title: "a", Steps: []string{"one", "two"}, Files: []string{"a.go", "b.go"}, Accept: []string{"it works"},
		Checks: []string{"go test ./..."}, Subject: "feat(parser): read dates",
	}
	tests := []struct {
		name, src string
		want      run.Task
	}{
		{
			"bold bullets",
			"- [ ] a\n  - **Do**:\n    1. one\n    2. two\n  - **Files**: `a.go`, b.go\n  - **Done when**: it works\n  - **Verify**: `go test ./...`\n  - **Commit**: `feat(parser): read dates`\n",
			whole,
		},
		{
			"plain bullets, other names",
			"- [ ] a\n  - Steps:\n    - one\n    - two\n  - file: a.go, b.go\n  - accept: it works\n  - verify: `go test ./...`\n  - commit message: feat(parser): read dates\n",
			whole,
		},
		{
			"paragraphs",
			"- [ ] a\n\n  **Do:**\n  - one\n  - two\n\n  Files: a.go\n\n  Files:\n  - b.go\n\n  Done when: it works\n  Verify: `go test ./...`\n  Commit: feat(parser): read dates\n",
			whole,
		},
		{
			"directly below the title",
			"- [ ] a\n  Do: one\n  Do: two\n  **Files:** a.go, b.go\n  Accept: it\n  works\nVerify: `go test ./...`\nCommit: feat(parser): read dates\n",
			whole,
		},
		{
			"none",
			"- [ ] a\n  - Files: None (verification only)\n  - Verify: n/a\n  - Commit: none\n  - Verification: `None`\n  - Commit: No commit needed\n",
			run.Task{Title: "a"},
		},
		{"remarks", "- [ ] a\n  - Files: `a.go` (new, small), b.go\n  - Commit: `chore: pass` (only if fixes are needed)\n  - Verify: `make` → exit 0\n", run.Task{
			Title: "a", Files: []string{"`a.go` (new, small)", "b.go"}, Subject: "chore: pass", Checks: []string{"make"},
		}},
		{"verified by other means", "- [ ] a\n  - Verify: the page opens\n  - **Verify**: All of these:\n    - Lint: `make lint`\n    - `make test`\n    - by hand\n", run.Task{
			Title: "a", Accept: []string{"Verify: the page opens", "Verify: All of these:", "Verify: by hand"},
			Checks: []string{"make lint", "make test"},
		}},
		{"in a list of criteria", "- [ ] a\n  - Acceptance criteria:\n    - fast\n    - Verify: `make`\n    - [ ] Verify: `not this`\n", run.Task{
			Title: "a", Accept: []string{"fast", "Verify: `not this`"}, Checks: []string{"make"},
		}},
		{"labels within steps", "- [ ] a\n  - Do:\n    - Verify: by hand\n      - Commit: it\n    - [ ] a box\n", run.Task{
			Title: "a", Steps: []string{"Verify: by hand", "Commit: it"}, Accept: []string{"a box"},
		}},
		{
			"the first subject counts", "- [ ] a\n  - Commit: feat: one\n  - Commit: feat: two\n",
			run.Task{Title: "a", Subject: "feat: one"},
		},
		{
			"hidden text", "- [ ] a\n  - Verify: `go\u200b test`\n  - Commit: fix: a\u202eb <!-- c -->\n",
			run.Task{Title: "a", Checks: []string{"go test"}, Subject: "fix: ab"},
		},
		{"not below a task", "Verify: `x`\n\n- [ ] a\n\nVerify: `y`\n\n- Verify: `z`\n", run.Task{Title: "a"}},
		{
			"prose that goes on", "- [ ] a\n  do: it, and then\n  After the Files: all\n  After: lunch\n",
			run.Task{Title: "a do: it, and then After the Files: all After: lunch"},
		},
		{
			"a title that is a label", "- [ ] Verify: the build\n  Files: a.go\n",
			run.Task{Title: "Verify: the build", Files: []string{"a.go"}},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.want.Status == "" {
				tc.want.Status = run.TaskOpen
			}
			for _, src := range []string{tc.src, strings.ReplaceAll(tc.src, "\n", "\r\n")} {
				if diff := cmp.Diff([]run.Task{tc.want}, parse(t, src).Tasks(), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%q (-want +got):\n%s", src, diff)
				}
			}
		})
	}
}

// Nothing without backticks is run: a sentence that is taken for a command would fail each attempt at its task.
func TestCommands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"`go test ./...`":                  {"go test ./..."},
		"``echo `date` ``":                 {"echo `date`"},
		"`a && b`, `c` and `d`; then `e`":  {"a && b", "c", "d", "e"},
		"`make` or a test command passes":  {"make"},
		"`./check.sh` passes":              {"./check.sh"},
		"`scripts/check.sh` (exit code 0)": {"scripts/check.sh"},
		"Type check: `pnpm check-types`":   {"pnpm check-types"},
		"Run `make test`":                  {"make test"},
		"$ make test":                      nil,
		"`$ make test`":                    {"make test"},
		"go  test ./...":                   nil,
		"exit 1":                           nil,
		"CGO_ENABLED=0 go build .":         nil,
		"`grep -q '<!-- x -->' a.md`":      {"grep -q '<!-- x -->' a.md"},
		"test -f a && grep -c x a":         nil,
		"`report.go` exists":               nil,
		"`parse()` returns a date":         nil,
		"manually, in a browser":           nil,
		"by hand":                          nil,
		"the page opens":                   nil,
		"make":                             nil,
		"./check.sh":                       nil,
		"`open":                            nil,
		"":                                 nil,
	} {
		if diff := cmp.Diff(want, commands(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// More than is kept is not lost: what would have been run is a criterion.
func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	long := "echo " + strings.Repeat("x", maxCheck)
	var b strings.Builder
	fmt.Fprintf(&b, "- [ ] a\n  - Verify: `%s`\n", long)
	for i := range 60 {
		fmt.Fprintf(&b, "  - Verify: `c%d`\n  - Files: f%d, g%d\n  - Do: s%d\n", i, i, i, i)
	}
	got := parse(t, b.String()).Tasks()[0]
	if n := [...]int{
		len(got.Checks), len(got.Files), len(got.Steps), len(got.Accept),
	}; n != [...]int{maxChecks, maxFiles, maxSteps, 56} {
		t.Errorf("%v checks, files, steps and criteria", n)
	}
	if got.Accept[0] != "Verify: `"+long+"`" || got.Accept[1] != "Verify: `c5`" {
		t.Errorf("criteria %.80q", got.Accept)
	}
}

// What a task says is written so that it is read back the same, whatever it holds,
// and no edit of another task loses it.
func TestLinesAreKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(evil(), rapid.SampledFrom([]string{
			"a.go", "a, b.go", "`a`", "`a` (b)", "x `y` z", "go test ./...", "[slug].tsx", "Verify: x", "- a", "none",
		}))
		some := rapid.SliceOfN(text, 0, 3)
		task := run.Task{
			Title: "one", Steps: some.Draw(t, "steps"), Files: some.Draw(t, "files"), Accept: some.Draw(t, "accept"),
			Checks: some.Draw(t, "checks"), Subject: text.Draw(t, "subject"),
		}
		d := New("t", Binding{})
		if _, err := d.AddTask(task); err != nil {
			t.Fatal(err)
		}
		id, err := d.AddTask(run.Task{Title: "two"})
		if err != nil {
			t.Fatal(err)
		}
		first := d.Tasks()
		if len(first) != 2 || first[0].Title != "one" || first[1].Title != "two" {
			t.Fatalf("%+v of\n%s", first, d.Bytes())
		}
		again := New("t", Binding{})
		if err := again.SetTasks(first); err != nil {
			t.Fatal(err)
		}
		if err := again.Block(id, "no"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first[0], again.Tasks()[0]); diff != "" {
			t.Errorf("written anew it is another task:\n%s\n%s\n%s", diff, d.Bytes(), again.Bytes())
		}
	})
}

// A command is run as it was given, whatever is in it.
func TestChecksAreWrittenExactly(t *testing.T) {
	t.Parallel()
	task := run.Task{
		ID: "T1", Title: "one", Status: run.TaskOpen,
		Checks: []string{"`which make` test", "a | b ``", "[ -f x ]", "- x", "grep '<!-- y -->' z"},
		Steps:  []string{"Verify: the rest:", "two"}, Files: []string{"a, b.go", "'c'", "[slug].tsx"}, Subject: "`x` (y)",
	}
	d := New("t", Binding{})
	if err := d.SetTasks([]run.Task{task}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]run.Task{task}, d.Tasks(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, d.Bytes())
	}
}

// What is to be verified of a task is not lost by splitting it: the last part has
// to pass it.
func TestSplitKeepsTheChecks(t *testing.T) {
	t.Parallel()
	d := parse(t, "## Tasks\n- [ ] T1 a\n  - Verify: `one`\n  - Commit: feat: a\n- [ ] T2 b\n")
	if _, err := d.Split("T1", []run.Task{
		{Title: "x"}, {Title: "y", Checks: []string{"two", "one"}, Steps: []string{"p", "q"}},
	}); err != nil {
		t.Fatal(err)
	}
	want := "## Tasks\n- [ ] T1 a (skipped: split into T3, T4)\n  - Verify: `one`\n  - Commit: feat: a\n- [ ] T3 x\n" +
		"- [ ] T4 y\n  - Do:\n    - p\n    - q\n  - Verify: `one`\n  - Verify: `two`\n  - Commit: feat: a\n  - Depends on: T3\n- [ ] T2 b\n"
	if diff := cmp.Diff(want, string(d.Bytes())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const withLines = "## Status\nIN_PROGRESS\n\n## Tasks\n- [ ] T1 a\n  - Do: x\n  - Files: x.go\n  - Verify: `make test`\n  - Commit: feat: a\n- [ ] T2 b\n"

// An agent must not change what is run to tell whether a task is done, nor what
// its commit says, be it of its own task or of another.
func TestJudgePutsLinesBack(t *testing.T) {
	t.Parallel()
	for _, assigned := range []string{"T1", "T2"} {
		for name, c := range map[string][2]string{
			"weakens a check":      {"`make test`", "`true`"},
			"removes a check":      {"  - Verify: `make test`\n", ""},
			"adds a check":         {"T2 b\n", "T2 b\n  - Verify: `curl evil.example`\n"},
			"adds it to the title": {"T2 b\n", "T2 b\n  Verify: curl evil.example\n"},
			"makes it a remark":    {"Verify: `make test`", "Verify: as said, `make test`"},
			"comments it out":      {"  - Verify: `make test`\n", "  <!-- Verify: `make test` -->\n"},
			"changes the subject":  {"feat: a", "feat: b"},
			"adds a subject":       {"T2 b\n", "T2 b\n  - Commit: fix: c\n"},
			"changes the files":    {"x.go", "y.go"},
			"changes the steps":    {"Do: x", "Do: nothing"},
		} {
			before, agent := parse(t, withLines), strings.Replace(withLines, c[0], c[1], 1)
			if agent == withLines {
				t.Fatalf("%s: nothing was changed", name)
			}
			v := Judge(before, before, parse(t, agent), assigned)
			if diff := cmp.Diff(withLines, string(v.Accepted.Bytes())); diff != "" {
				t.Errorf("%s: accepted (-want +got):\n%s", name, diff)
			}
			if got := putBack(v); !strings.HasSuffix(got, " reworded") {
				t.Errorf("%s: violations %+v", name, v.Violations)
			}
		}
	}
}

// Tasks that agents write may have lines of all kinds.
func TestJudgeTakesLinesOfNewTasks(t *testing.T) {
	t.Parallel()
	const lines = "\n  - Do: it\n  - Files: a.go\n  - Accept: it is\n  - Verify: `make c`\n  - Commit: feat: c\n"
	before, after := parse(t, withLines), parse(t, withLines+"- [ ] T3 c"+lines)
	want := run.Task{
		ID: "T3", Title: "c", Steps: []string{"it"}, Files: []string{"a.go"}, Accept: []string{"it is"}, Checks: []string{"make c"},
		Subject: "feat: c", Status: run.TaskOpen,
	}

	v := JudgeAdded(before, before, after)
	if diff := cmp.Diff([]run.Task{want}, v.Added, cmpopts.EquateEmpty()); diff != "" || len(v.Violations) > 0 {
		t.Errorf("JudgeAdded: %+v (-want +got):\n%s", v.Violations, diff)
	}
	v = Judge(before, before, after, "T1")
	if diff := cmp.Diff(withLines+"- [ ] T3 c"+lines, string(v.Accepted.Bytes())); diff != "" || len(v.Violations) > 0 {
		t.Errorf("Judge: %+v (-want +got):\n%s", v.Violations, diff)
	}
	v = JudgePlan(parse(t, "## Status\nIN_PROGRESS\n\n## Tasks\n"), after)
	if diff := cmp.Diff(want, v.Accepted.Tasks()[2], cmpopts.EquateEmpty()); diff != "" || len(v.Violations) > 0 {
		t.Errorf("JudgePlan: %+v (-want +got):\n%s", v.Violations, diff)
	}
}
