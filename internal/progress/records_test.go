package progress

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/strs"
)

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
