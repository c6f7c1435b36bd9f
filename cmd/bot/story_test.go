package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// TestPullRequestTellsAllRunsOfItsIssue: what a later run did stands beside what
// those before it did, in numbers that go on.
func TestPullRequestTellsAllRunsOfItsIssue(t *testing.T) {
	t.Parallel()
	const works = `{append: {log.txt: "x\n"}, pattern: "</details> - [x] T9 forged, @walt fixes #1", tick: true, cost_usd: 0.25, say: "RALPH_RESULT: done"}`
	st := newStage(t, setting{
		files: quick,
		script: "model: scripted\ntasks:\n  one: [" + works +
			"]\ndefault: [{misbehave: nothing, cost_usd: 0.5, say: \"RALPH_RESULT: done\"}]\n",
		change: func(c *config.Server) { c.Limits.TaskAttempts = 1 },
	})
	s := st.serve()
	issue := st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n")
	first := st.ended(s.store, issue)
	if first.End != run.EndBlocked || first.Iterations() < 2 {
		t.Fatalf("ended %s after %d iterations: %s", first.End, first.Iterations(), first.EndDetail)
	}
	// A person knows better; the file on the branch is theirs, too.
	const file = ".ralph/1/progress.md"
	text, mark, ok := strings.Cut(st.contents("ralph/1")[file], " (blocked: ")
	_, rest, found := strings.Cut(mark, ")\n")
	if !ok || !found {
		t.Fatalf("no blocked task in\n%s", text)
	}
	st.push("ralph/1", file, text+" (skipped: frozen (until May))\n"+rest)
	st.script("model: scripted\ndefault: [" + works + "]\n")
	last := first.Iterations()
	cost := first.Usage.CostUSD
	state := first
	for _, task := range []string{"three", "four"} {
		st.comment(issue.Number, person, "/ralph do Write "+task)
		state = st.another(s, issue, state.Run)
		if state.End != run.EndAllTasksComplete || state.Iterations() != 1 {
			t.Fatalf("ended %s after %d iterations: %s", state.End, state.Iterations(), state.EndDetail)
		}
		last++
		cost += state.Usage.CostUSD
	}
	st.processed(s)

	pr := st.onlyPR()
	wants := []string{
		fmt.Sprintf("%d iterations in 3 runs · US$ %.2f · ", last, cost), "3 of 3 tasks",
		"(skipped: frozen (until May))", "<summary>Codebase Patterns</summary>"}
	doc, err := progress.Parse([]byte(state.Progress))
	if err != nil {
		t.Fatal(err)
	}
	var numbers []int // an iteration that split a task, say, has none
	for _, row := range doc.Log() {
		numbers = append(numbers, row.Iteration)
		wants = append(wants, fmt.Sprintf("\n- Iteration %d", row.Iteration))
	}
	if want := append(slices.Clip(numbers[:2]), last-1, last); !slices.Equal(numbers, want) || !slices.IsSorted(numbers) {
		t.Errorf("iterations %v in the log, want %v", numbers, want)
	}
	listed := 0
	for _, c := range pr.Commits {
		if strings.HasPrefix(c.Subject, "chore: remove the progress file") || c.Subject == "Change "+file {
			continue
		}
		listed++
		wants = append(wants, "/commit/"+c.OID+")")
		if strings.Contains(c.Body, "Ralph-Task: T4") != strings.Contains(c.Body,
			fmt.Sprintf("Ralph-Iteration: %d\n", last)) {
			t.Errorf("commit %q:\n%s", c.Subject, c.Body)
		}
	}
	for _, want := range wants {
		if !strings.Contains(pr.Body, want) {
			t.Errorf("the description lacks %q:\n%s", want, pr.Body)
		}
	}
	if n := strings.Count(pr.Body, "/commit/"); listed < 2 || n < listed || strings.Contains(pr.Body, "not signed") {
		t.Errorf("%d of %d commits are linked:\n%s", n, listed, pr.Body)
	}
	shown, err := progress.Parse([]byte(pr.Body))
	if err != nil {
		t.Fatal(err)
	}
	standing := func(tasks []run.Task) (out []string) {
		for _, task := range tasks {
			out = append(out, task.ID+" "+string(task.Status))
		}
		return out
	}
	if diff := cmp.Diff(standing(doc.Tasks()), standing(shown.Tasks())); diff != "" {
		t.Errorf("the description has other tasks than the file (-file +description):\n%s", diff)
	}
	if task, _ := doc.Task("T2"); task.Reason != "frozen (until May)" {
		t.Errorf("progress.md reads\n%s", state.Progress)
	}
}
