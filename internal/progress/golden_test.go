package progress

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// goldenFile is a document and what is read from it.
type goldenFile struct{ in, want string }

func golden(t *testing.T, name string) goldenFile {
	t.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Files) != 2 || a.Files[0].Name != "in.md" || a.Files[1].Name != "want" {
		t.Fatalf("%s holds other files than in.md and want", name)
	}
	return goldenFile{in: string(a.Files[0].Data), want: string(a.Files[1].Data)}
}

// describe says all that is read from a document.
func describe(d *Doc) string {
	var b strings.Builder
	fmt.Fprintf(&b, "title %q\nstatus %q done=%v\n", d.Title(), d.Status(), d.MarkedDone())
	for _, t := range d.Tasks() {
		fmt.Fprintf(&b, "task %q %s %q in %q P%d parallel=%v verify=%v\n", t.ID, t.Status, t.Title, t.Group, t.Priority,
			t.Parallel, t.Verify)
		for _, l := range []struct {
			name  string
			lines []string
		}{{"do", t.Steps}, {"file", t.Files}, {"accept", t.Accept}, {"check", t.Checks}} {
			for _, s := range l.lines {
				fmt.Fprintf(&b, "  %s %q\n", l.name, s)
			}
		}
		if t.Subject != "" {
			fmt.Fprintf(&b, "  subject %q\n", t.Subject)
		}
		if len(t.DependsOn) > 0 {
			fmt.Fprintf(&b, "  after %q\n", t.DependsOn)
		}
	}
	for _, name := range sectionOrder {
		if d.find(name) >= 0 {
			fmt.Fprintf(&b, "section %s %q\n", name, d.Section(name))
		}
	}
	for _, a := range d.Attempts() {
		fmt.Fprintf(&b, "attempt %d tried %q result %q next %q\n", a.Iteration, a.Tried, a.Result, a.Next)
	}
	for _, r := range d.Log() {
		fmt.Fprintf(&b, "log %d %s %q %q\n", r.Iteration, r.Duration, r.Completed, r.Notes)
	}
	return b.String()
}

// The documents of the systems this one comes from are understood, and not a
// byte of them changes unless somebody changes it.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			t.Parallel()
			g := golden(t, f)
			d := parse(t, g.in)
			if diff := cmp.Diff(g.want, describe(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, src := range []string{g.in, strings.ReplaceAll(g.in, "\n", "\r\n"), strings.TrimRight(g.in, "\n")} {
				d := parse(t, src)
				if string(d.Bytes()) != src {
					t.Error("the bytes changed")
				}
				if diff := cmp.Diff(parse(t, g.in).Tasks(), d.Tasks()); diff != "" {
					t.Errorf("other line endings, other tasks:\n%s", diff)
				}
				for _, task := range d.Tasks() {
					if task.ID == "" || task.Status != run.TaskOpen {
						continue
					}
					if err := errors.Join(d.Tick(task.ID), d.Reopen(task.ID)); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(src, string(d.Bytes())); diff != "" {
					t.Errorf("ticking and unticking is not the way back:\n%s", diff)
				}
			}
		})
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	const src = `## Recent Attempts
Some words.

### Iteration 4
- Tried: a
- Result: b - and c
- Next: d

### Iteration 5 (T2)
* **Tried:** wide
  text
* Result:

  ~~~text
  --- FAIL

  ~~~
* Next: e

### Notes
- Tried: nothing

### iteration 6:
1. Result: f
`
	want := []Attempt{
		{Iteration: 4, Tried: "a", Result: "b - and c", Next: "d"},
		{Iteration: 5, Tried: "wide\ntext", Result: "~~~text\n--- FAIL\n\n~~~", Next: "e"},
		{Iteration: 6, Result: "f"},
	}
	for _, s := range []string{src, strings.ReplaceAll(src, "\n", "\r\n")} {
		if diff := cmp.Diff(want, parse(t, s).Attempts()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := parse(t, "# x\n").Attempts(); got != nil {
		t.Errorf("%v without a section", got)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	src := "## Iteration Log\n\n| Iteration | Started | Duration | Tasks Completed | Notes |\n|---|:--|--:|---|---|\n" +
		"| 1 | 2026-01-02 03:04:05Z | 1m3s | T1 | a \\| b |\n|2|2026-01-02T04:04:05+01:00|soon||c&#124;d\n| x | y |\n| 3 |\n\ntext\n"
	want := []LogRow{
		{Iteration: 1, Duration: 63 * time.Second, Completed: "T1", Notes: "a | b"},
		{Iteration: 2, Notes: "c|d"},
		{Iteration: 3},
	}
	if diff := cmp.Diff(want, parse(t, src).Log()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := parse(t, "# x\n").Log(); got != nil {
		t.Errorf("%v without a section", got)
	}
}

// What was recorded is read again, but for what makes it safe on its line.
func TestRecordsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := mustParse(t, sample(rapid.Bool().Draw(t, "crlf")))
		attempts, log := d.Attempts(), d.Log()
		word := rapid.StringMatching(`[a-z(][a-z |:.]{0,30}[a-z.]`)
		a := Attempt{Iteration: 7, Tried: word.Draw(t, "tried"), Next: word.Draw(t, "next"),
			Result: strings.Join(rapid.SliceOfN(word, 1, 5).Draw(t, "result"), "\n")}
		r := LogRow{Iteration: 7, Started: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "started"), 0).UTC(),
			Duration: time.Duration(rapid.IntRange(0, 1e6).Draw(t, "took")) * time.Second, Completed: word.Draw(t, "completed"),
			Notes: word.Draw(t, "notes")}
		if err := d.RecordAttempt(a); err != nil {
			t.Fatal(err)
		}
		if err := d.AppendLog(r); err != nil {
			t.Fatal(err)
		}
		a.Tried, a.Result, a.Next = strs.OneLine(a.Tried), strs.OneLine(a.Result), strs.OneLine(a.Next)
		r.Started, r.Completed, r.Notes = time.Time{}, strs.OneLine(r.Completed), strs.OneLine(r.Notes)
		if diff := cmp.Diff(append(attempts, a), d.Attempts()); diff != "" {
			t.Fatalf("%s\n%s", diff, d.Bytes())
		}
		if diff := cmp.Diff(append(log, r), d.Log()); diff != "" {
			t.Fatalf("%s\n%s", diff, d.Bytes())
		}
	})
}
