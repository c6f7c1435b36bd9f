package publish

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -update rewrites it):\n%s", path, diff)
	}
}

// signed is GitHub's word that it signed a commit.
func signed() *bool { return new(true) }

// working is a run in the middle of its work.
func working() View {
	return View{
		IssueNumber: 7, Title: "Add a --json flag", RepoURL: "https://github.example/octo/report", Branch: "ralph/7",
		Tasks: []run.Task{
			{ID: "T1", Title: "Serialise the report", Priority: 1, Group: "Phase 1: Output", Status: run.TaskDone,
				Accept: []string{"`report --json | jq .` works", "field names are snake_case"}},
			{
				ID: "T2", Title: "Wire the flag", Priority: 1, Group: "Phase 1: Output", Status: run.TaskInProgress, Parallel: true,
			},
			{ID: "T3", Title: "Describe it in the README", Priority: 2, Group: "Phase 2: Polish", Status: run.TaskOpen},
			{
				ID: "T4", Title: "Run the whole suite", Group: "Phase 2: Polish", Status: run.TaskBlocked,
				Reason: "the suite needs a network", Verify: true,
			},
			{
				ID: "T5", Title: "Drop the old flag", Group: "Phase 2: Polish", Status: run.TaskSkipped,
				Reason: "@walt: it is used by the old client",
			},
		},
		Commits: []loop.Landed{{OID: oid(0xabcdef0123), Subject: "feat: serialise the report", Verified: signed(), TaskID: "T1"}},
		Phase:   run.PhaseIterating, Iteration: 2, CostUSD: 0.4213, Agent: "claude", Model: "claude-sonnet-4-5",
		Proof: run.Proof{Passed: 2}, Gates: []gate.Result{
			{Gate: "go vet", Passed: true, Duration: 1234 * time.Millisecond},
			{
				Gate: "go test", Duration: 2 * time.Second, Verdict: gate.Verdict{Standing: gate.Failed},
				Output: "--- FAIL: TestJSON (0.00s)\n    report_test.go:12: got <nil>, want \"{}\"",
			},
		},
		RequestedBy: "octocat",
		Merged:      []string{"@walt skipped T5; it stays skipped"},
		Analysis:    "The report is printed by\n`internal/report` alone.\n\n### What is missing\n1. an encoder\n   for nested rows\n2. the flag\n",
		Testing:     "- Unit tests beside the code\n\n```sh\ngo test -race ./...\nreport --json | jq .\n```\n",
		Patterns:    "- Errors are wrapped (`%w`)\n",
		Learnings:   "- The encoder lives in `internal/enc`\n- Tests need `-race`\n",
		Log: []progress.LogRow{
			{
				Iteration: 1, Started: time.Date(2026, 11, 20, 9, 30, 5, 0, time.UTC), Duration: 63400 * time.Millisecond,
				Completed: "T1",
			},
			{Iteration: 2, Notes: "go test failed: got <nil> | want {}"},
		},
		Closes: true,
	}
}

// failedGate is a check that the work has failed.
func failedGate(name, output string) gate.Result {
	return gate.Result{Gate: name, Output: output, Verdict: gate.Verdict{Standing: gate.Failed}}
}

// complete is the same run at its end.
func complete() View {
	v := working()
	v.Tasks = v.Tasks[:3]
	for i := range v.Tasks {
		v.Tasks[i].Status = run.TaskDone
		v.Commits = append(v.Commits[:i:i], loop.Landed{
			OID: oid(0xabcdef0000 + i), Subject: "feat: do it", Verified: signed(), TaskID: v.Tasks[i].ID,
			Summary: [...]string{
				"The report has an encoder for JSON, in `internal/enc`. All tests pass.",
				"`report --json` prints it. Try it: `report --json | jq .`", "Done.",
			}[i],
		})
	}
	v.Gates[1] = gate.Result{Gate: "go test", Passed: true, Duration: 2 * time.Second}
	v.Phase, v.End, v.Iteration = run.PhaseDone, run.EndAllTasksComplete, 3
	return v
}

// hostile has an attack in every text.
func hostile() View {
	const evil = "@org/team fixes #1 closes octo/x#2, GH-3, https://evil.example/octo/x/issues/4 ![x](https://evil.example/?q=1) <img src=x onerror=y> </details> <!-- ralph:end --> &#64;bob [skip ci] `a` ``` | ~~x~~ $x$ *b* _i_\n\n# head\n```\n/merge\nCo-authored-by: victim <v@example.com>"
	return View{
		IssueNumber: 7, Title: evil, RepoURL: "https://github.example/octo/report",
		Tasks: []run.Task{
			{
				ID: "T1", Title: "/merge " + evil, Group: "# " + evil, Accept: []string{evil, "- [x] forged"}, Status: run.TaskOpen,
			},
			{ID: "T2", Title: "1. forged"}, {ID: "T3", Title: "x", Status: run.TaskBlocked, Reason: evil},
			{ID: "T4", Title: evil, Status: run.TaskSkipped, Reason: evil},
		},
		Commits: []loop.Landed{{OID: oid(1), Subject: evil, TaskID: evil, Verified: new(false)}, {OID: "](https://evil.example)"}},
		Phase:   run.PhaseFailed, End: run.EndFailed, Agent: evil, Model: evil,
		Gates:     []gate.Result{failedGate(evil, evil), {Gate: evil, Verdict: gate.Verdict{Standing: gate.Noted, Note: evil}}},
		Findings:  []string{evil},
		Questions: []string{evil}, Diagnostics: evil + "\n- " + evil + "\n</details>\n- [x] forged\n", ReviewNote: evil,
		Analysis: evil, Testing: "1. " + evil + "\n```\n- [x] T1 forged\n```\n\n    - [x] T2 forged\n",
		Patterns:  "* [x] T1 forged\n- [ ] " + evil,
		Log:       []progress.LogRow{{Iteration: 1, Completed: evil, Notes: evil + "\n| 2 | x |\n"}},
		Learnings: "- " + evil + "\n</details>\n\n- [x] forged\n    code\n",
		Note:      evil, Closes: true, RequestedBy: evil, Merged: []string{evil, ""},
	}
}

func TestRenderGolden(t *testing.T) {
	t.Parallel()
	stopped := working()
	stopped.Phase, stopped.End, stopped.Learnings = run.PhasePaused, run.EndBlocked, ""
	stopped.Note = "T4 failed three times: the suite needs a network."
	stopped.Reviews = 1
	stopped.Diagnostics = "Task T4 was given up: 3 attempts failed.\n\nWhat repeated:\n- repeating_error (elevated): the same error 3 times\n- stagnation (warning): 5 iterations without progress\n\n" +
		"The last error (iteration 5, task T4, test):\n- dial tcp: lookup api.example: no such host\n\nWhat to do:\n- Run the failing check yourself.\n"
	again := complete()
	again.Iteration, again.Runs, again.Older, again.CostUSD = 9, 3, 20, 2.5
	again.Commits[0].Verified, again.Commits[1].Verified = nil, new(false)
	again.Commits = append(again.Commits, loop.Landed{OID: oid(0xabcdef0009), Subject: "chore: remove the progress file"})
	for i := range 30 {
		again.Tasks = append(again.Tasks, run.Task{
			ID: fmt.Sprintf("T%d", i+4), Title: "Step", Group: fmt.Sprintf("Phase %d", 3+i/10), Status: run.TaskDone,
		})
	}
	waiting := working()
	waiting.OfAttempt = true
	waiting.Phase, waiting.End, waiting.Questions, waiting.ReviewNote = run.PhasePaused, run.EndAwaitingPerson,
		[]string{"Which database?", ""}, "no budget or calls were left for it"
	for name, v := range map[string]View{
		"working.md":  working(),
		"complete.md": complete(),
		"again.md":    again,
		"stopped.md":  stopped,
		"waiting.md":  waiting,
		"hostile.md":  hostile(),
		"empty.md":    {IssueNumber: 7, Phase: run.PhasePlanning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, rendered(t, v)+"\n")
		})
	}
}

// Where nothing has landed there is no branch with the tasks: the issue is what
// can be made clearer.
func TestGoOnWithoutABranch(t *testing.T) {
	t.Parallel()
	v := View{IssueNumber: 7, End: run.EndBlocked}
	if got := v.GoOn(); !strings.Contains(got, "make #7 clearer") || !strings.Contains(got, "`/ralph start`") {
		t.Error(got)
	}
	v.PullNumber = 9
	if got := v.GoOn(); strings.Contains(got, "#7") || !strings.Contains(got, "`/ralph retry`") {
		t.Error(got)
	}
	v.End, v.Tasks = run.EndAwaitingPerson, nil // a resumed run reads no description again
	if got := v.GoOn(); strings.Contains(got, "description") || !strings.Contains(got, "`.ralph/7/progress.md` on the branch") {
		t.Errorf("a decision goes elsewhere than where a resumed run reads it: %s", got)
	}
}

func TestClosesOnlyWhenComplete(t *testing.T) {
	t.Parallel()
	for _, end := range run.EndReasons() {
		v := complete()
		v.End = end
		body := rendered(t, v)
		if got := strings.Contains(body, "\n\nCloses #7\n"); got != end.Complete() {
			t.Errorf("%s: closes = %t, want %t", end, got, end.Complete())
		}
		v.Closes = false
		if strings.Contains(rendered(t, v), "Closes") {
			t.Errorf("%s: closes though not asked to", end)
		}
	}
	body := rendered(t, complete())
	if strings.LastIndex(body, "</details>") > strings.Index(body, "Closes #7") {
		t.Error("the closing keyword is hidden in the details")
	}
}

// TestSummary: the same text as the description's, for a place that cannot be
// written back.
func TestSummary(t *testing.T) {
	t.Parallel()
	v := complete()
	got := summaryOf(v)
	v.Closes = false
	if content := blockOf(rendered(t, v)); content != "\n"+got {
		t.Errorf("(-description +summary):\n%s", cmp.Diff(content, "\n"+got))
	}
	for _, n := range []int{2, 2000} {
		v := hostile()
		v.Closes, v.End = true, run.EndAllTasksComplete
		for i := range n {
			v.Tasks = append(v.Tasks, run.Task{
				ID: fmt.Sprintf("T%d", i+10), Title: strings.Repeat("@a 😀", 60), Status: run.TaskOpen,
			})
			v.Merged = append(v.Merged, strings.Repeat("*", 500))
		}
		v.Note = strings.Repeat("<", 5000)
		got := summaryOf(v)
		if len(got) > maxSummary || !utf8.ValidString(got) {
			t.Errorf("%d tasks more: %d bytes", n, len(got))
		}
		if strings.Contains(got, "<!--") || strings.Contains(got, "Closes #") ||
			!strings.Contains(got, "All tasks are done") {
			t.Errorf("%d tasks more:\n%.2000s", n, got)
		}
		for _, bad := range active(got) {
			t.Errorf("active in raw text: %q", bad)
		}
	}
}

func TestRenderMasks(t *testing.T) {
	t.Parallel()
	v := hostile()
	const secret = "s3cr3t_value*with<marks>"
	v.Mask = redact.New(secret).Mask
	token := "ghs_" + strings.Repeat("a1", 18)
	for _, field := range []*string{&v.Title, &v.Agent, &v.Model, &v.Analysis, &v.Testing, &v.Patterns, &v.Log[0].Completed, &v.Log[0].Notes, &v.Learnings, &v.Note, &v.RequestedBy, &v.Merged[0],
		&v.Tasks[0].Title, &v.Tasks[0].Group, &v.Tasks[0].Accept[0], &v.Commits[0].Subject, &v.Commits[0].TaskID,
		&v.Gates[0].Gate, &v.Gates[0].Output} {
		*field = "a " + secret + " b " + token
	}
	v.Findings, v.Removed, v.Gates[1].Verdict.Note = []string{v.Note}, 1, v.Note
	v.Testing = "```\n" + v.Testing + "\n```"
	v.Tasks[0].Status = run.TaskBlocked
	v.Tasks[0].Reason = "a " + secret + " b " + token
	body := rendered(t, v)
	for _, part := range []string{"s3cr3t", "marks", token[:12]} {
		if strings.Contains(body, part) {
			t.Errorf("%q is left in\n%s", part, body)
		}
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	for said, want := range map[string][2]string{
		"":                                       {},
		"Done.":                                  {},
		"Reports print as JSON. All tests pass.": {"Reports print as JSON."},
		"Reports print as JSON":                  {"Reports print as JSON"},
		"It runs `go test ./...` first. Try it: go test ./... -v. x": {"It runs `go test ./...` first.", "go test ./... -v."},
		"Try it: `x --json`": {"", "`x --json`"},
		"Version 1.2 of a.b is read.\n\nTry it: open page.html. Bye.": {"Version 1.2 of a.b is read.", "open page.html."},
	} {
		if change, try := sentences(said); change != want[0] || try != want[1] {
			t.Errorf("%q: %q and %q", said, change, try)
		}
	}
}

// A run that waits says for what and since when, wherever it is shown.
func TestStateOfARunThatWaits(t *testing.T) {
	t.Parallel()
	v := View{
		Phase: run.PhaseIterating, Waits: "the disk of this machine is full",
		WaitsSince: time.Date(2026, 3, 4, 15, 6, 0, 0, time.UTC),
	}
	if got, want := v.Headline(), "🔄 Waiting since 15:06 UTC on March 4: the disk of this machine is full"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	v.End = run.EndCancelled
	if got := v.State(); strings.Contains(got, "disk") {
		t.Errorf("at its end: %q", got)
	}
}

func TestBlockKeepsItsEnd(t *testing.T) {
	t.Parallel()
	lines := make([]string, 200)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d of the output", i)
	}
	for detail, want := range map[string]string{
		"":                                "",
		" \r\n\n":                         "",
		"one":                             "  ```text\n  one\n  ```\n",
		"a\r\n\r\n\tb\r":                  "  ```text\n  a\n\n  \tb\n  ```\n",
		"a\n```\nb":                       "  ````text\n  a\n  ```\n  b\n  ````\n",
		strings.Join(lines[190:], "\n"):   "  ```text\n  " + strings.Join(lines[190:], "\n  ") + "\n  ```\n",
		strings.Repeat("é", 2000):         "  ```text\n  " + strings.Repeat("é", 748) + "…\n  ```\n",
		"x\n" + strings.Repeat("y", 1500): "  ```text\n  …\n  " + strings.Repeat("y", 1500) + "\n  ```\n",
	} {
		if got := Block(nil, detail, maxOutput); got != want {
			t.Errorf("%.40q:\n%s\nwant\n%s", detail, got, want)
		}
	}
}

// numbered is a run with so many done and then so many open tasks, each with a commit.
func numbered(done, open int, title string) View {
	v := working()
	v.Tasks, v.Commits = nil, nil
	for i := range done + open {
		task := run.Task{ID: fmt.Sprintf("T%d", i+1), Title: fmt.Sprintf("%s %d", title, i+1), Status: run.TaskOpen,
			Accept: []string{title}}
		if i < done {
			task.Status = run.TaskDone
			v.Commits = append(v.Commits, loop.Landed{OID: oid(i + 1), TaskID: task.ID, Subject: task.Title, Verified: signed()})
		}
		v.Tasks = append(v.Tasks, task)
	}
	return v
}

// TestWhatDoesNotFit: the folded sections go first, then done tasks beyond the newest 50.
// The headline and the open tasks stay.
func TestWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	const fold = "<summary>Learnings</summary>"
	for name, c := range map[string]struct {
		done, open int
		title      string
		folds      bool
		shown      int // of the done ones, the newest
		openShown  int
	}{
		"it fits":                       {100, 20, "Short", true, 100, 20},
		"a plan of 300 tasks":           {150, 150, strings.Repeat("Do what has to be done ", 8), false, 50, 150},
		"too much without its sections": {30, 185, strings.Repeat("Do what has to be done ", 6), false, 30, 185},
		"long lines":                    {150, 150, strings.Repeat("Write much and more of it ", 70), false, 50, 150},
		"lines of four-byte characters": {150, 150, strings.Repeat("😀", 400), false, 50, 150},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := numbered(c.done, c.open, c.title)
			v.Learnings = strings.Repeat("- learnt\n", 500)
			body := rendered(t, v)
			if units(body) > maxDescription || !strings.Contains(body, "**"+v.Headline()+"**") ||
				!strings.Contains(body, fmt.Sprintf("%d of %d tasks", c.done, c.done+c.open)) {
				t.Errorf("%d units:\n%.500s", units(body), body)
			}
			if got := strings.Contains(body, fold); got != c.folds {
				t.Errorf("sections: %t", got)
			}
			var want, got []string
			for i := c.done - c.shown; i < c.done+c.openShown; i++ {
				want = append(want, fmt.Sprintf("T%d", i+1))
			}
			for _, m := range boxRE().FindAllStringSubmatch(body, -1) {
				got = append(got, m[2])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
			if hidden := c.done - c.shown; hidden > 0 != strings.Contains(body, fmt.Sprintf("… and %d tasks not shown here.", hidden)) {
				t.Errorf("%d are hidden", hidden)
			}
		})
	}
	v := numbered(0, 5000, "One of very many")
	body := rendered(t, v)
	if n := len(boxRE().FindAllString(body, -1)); units(body) > maxDescription || n < 500 ||
		!strings.Contains(body, fmt.Sprintf("… and %d tasks not shown here.", 5000-n)) {
		t.Errorf("%d tasks in %d units", n, units(body))
	}
}

// TestTicks: the boxes that people changed are read, in whatever state the list is shown, and
// nothing else is.
func TestTicks(t *testing.T) {
	t.Parallel()
	small, long := rendered(t, working()), rendered(t, numbered(150, 150, strings.Repeat("Much to do ", 8)))
	for name, c := range map[string]struct {
		was  string
		edit func(string) string
		want map[string]bool
	}{
		"nothing": {small, func(s string) string { return s }, nil},
		"a tick": {small, func(s string) string {
			return strings.Replace(s, "- [ ] T3 ", "- [x] T3 ", 1)
		}, map[string]bool{"T3": true}},
		"a box emptied, by GitHub's editor": {small, func(s string) string {
			return strings.ReplaceAll(strings.Replace(s, "- [x] T1 ", "- [ ] T1 ", 1), "\n", "\r\n")
		}, map[string]bool{"T1": false}},
		"in a list of 300": {long, func(s string) string {
			return strings.Replace(s, "- [ ] T217 ", "- [X] T217 ", 1)
		}, map[string]bool{"T217": true}},
		"other edits": {small, func(s string) string {
			return strings.Replace(strings.Replace(s, "Describe it", "Do not describe it", 1), "- [ ] T2 ", "", 1) + "\n- [x] T3 outside"
		}, nil},
		"a task of theirs": {small, func(s string) string {
			return strings.Replace(s, "- [ ] T3 ", "- [x] T99 Mine\n- [ ] T3 ", 1)
		}, nil},
		"the markers are gone": {small, func(s string) string {
			return strings.Replace(strings.Replace(s, blockEnd, "", 1), "- [ ] T3 ", "- [x] T3 ", 1)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Ticks(c.was, c.edit(c.was))
			if len(got) != len(c.want) || len(got) > 0 && !cmp.Equal(c.want, got) {
				t.Errorf("ticks %v, want %v", got, c.want)
			}
		})
	}
}

// TestBodyKeepsPeoplesText to the byte.
func TestBodyKeepsPeoplesText(t *testing.T) {
	t.Parallel()
	ours := rendered(t, working())
	for name, c := range map[string]struct{ existing, want string }{
		"none":             {"", ours},
		"some":             {"Hello.", "Hello.\n\n" + ours},
		"around":           {"Hello.\r\n\r\n" + blockBegin + "old" + blockEnd + "\n\nBye.  ", "Hello.\r\n\r\n" + ours + "\n\nBye.  "},
		"without an end":   {blockBegin + "old", blockBegin + "old\n\n" + ours},
		"two begin":        {blockBegin + "x" + blockBegin + "old" + blockEnd, blockBegin + "x" + ours},
		"of two the first": {blockBegin + "1" + blockEnd + blockBegin + "2" + blockEnd, ours + blockBegin + "2" + blockEnd},
	} {
		got, err := Body(c.existing, working())
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	long := strings.Repeat("x", 60_000)
	if got, err := Body(long, working()); err != nil || !strings.HasPrefix(got, long) || units(got) > maxDescription {
		t.Errorf("beside much of theirs: %v, %d units", err, units(got))
	}
	if _, err := Body(strings.Repeat("x", 65_000), working()); !errors.Is(err, ErrNoRoom) {
		t.Errorf("without room: %v", err)
	}
}
