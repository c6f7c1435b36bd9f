package progress

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
)

func kinds(v Verdict) []ViolationKind {
	var out []ViolationKind
	for _, x := range v.Violations {
		out = append(out, x.Kind)
	}
	return out
}

// What an agent does to the file while T2 is its task, and what is left of it.
// old and now name the change in the agent's copy; accepted is the same for
// the host's, both empty where nothing is to come over.
func TestJudge(t *testing.T) {
	t.Parallel()
	const log = "| 1 | 2026-11-20 10:00:00Z | 1m0s | T1 | |\n"
	type change struct{ old, now string }
	tests := []struct {
		name     string
		agent    []change
		accepted []change
		ticked   bool
		claimed  bool
		kinds    []ViolationKind
	}{
		{name: "nothing"},
		{name: "ticks its task", agent: []change{{"- [ ] T2", "- [x] T2"}}, ticked: true},
		{name: "ticks another", agent: []change{{"- [ ] T3", "- [x] T3"}}, kinds: []ViolationKind{ViolationTickedOther}},
		{name: "ticks both", agent: []change{{"- [ ] T2", "- [X] T2"}, {"- [ ] T3", "- [X] T3"}}, ticked: true, kinds: []ViolationKind{ViolationTickedOther}},
		{name: "unticks", agent: []change{{"- [x] T1", "- [ ] T1"}}, kinds: []ViolationKind{ViolationUnticked}},
		{name: "removes", agent: []change{{"- [ ] T3 (P2) [VERIFY] Run the whole suite\n", ""}}, kinds: []ViolationKind{ViolationRemoved}},
		{name: "hides tasks in a comment", agent: []change{{"- [ ] T2", "<!--\n- [ ] T2"}, {"suite\n", "suite\n-->\n"}}, kinds: []ViolationKind{ViolationRemoved, ViolationRemoved}},
		{name: "rewords", agent: []change{{"Wire the flag", "Wire no flag"}}, kinds: []ViolationKind{ViolationReworded}},
		{name: "weakens a criterion", agent: []change{{"works", "is there"}}, kinds: []ViolationKind{ViolationReworded}},
		{name: "changes a priority", agent: []change{{"(P2)", "(P3)"}}, kinds: []ViolationKind{ViolationReworded}},
		{name: "loses an id", agent: []change{{"- [ ] T3 (P2)", "- [ ] (P2)"}}},
		{name: "swaps ids", agent: []change{{"T2 (P1)", "T9 (P1)"}, {"T3 (P2)", "T2 (P2)"}}, kinds: []ViolationKind{ViolationReworded, ViolationRemoved}},
		{name: "doubles an id", agent: []change{{"- [ ] T2", "- [ ] T2 A forgery\n- [ ] T2"}}, kinds: []ViolationKind{ViolationReworded}},
		{name: "blocks a task", agent: []change{{"Wire the flag", "Wire the flag (blocked: too hard)"}}, kinds: []ViolationKind{ViolationForgedStatus}},
		{name: "marks done too early", agent: []change{{"IN_PROGRESS", "RALPH_DONE"}}, claimed: true, kinds: []ViolationKind{ViolationPremature}},
		{name: "marks done with its task", agent: []change{{"- [ ] T2", "- [x] T2"}, {"IN_PROGRESS", "**RALPH_DONE**"}}, ticked: true, claimed: true, kinds: []ViolationKind{ViolationPremature}},
		{name: "other status", agent: []change{{"IN_PROGRESS", "BLOCKED"}}, kinds: []ViolationKind{ViolationForgedStatus}},
		{name: "no status", agent: []change{{"## Status\nIN_PROGRESS\n\n", ""}}, kinds: []ViolationKind{ViolationForgedStatus}},
		{name: "forges the log", agent: []change{{log, log + "| 2 | now | 1s | T2 | all good |\n"}}, kinds: []ViolationKind{ViolationForgedLog}},
		{name: "removes the log", agent: []change{{log, ""}}, kinds: []ViolationKind{ViolationForgedLog}},
		{name: "learns", agent: []change{{"- one\n", "- one\n- two\n  more\n"}}, accepted: []change{{"- one\n", "- one\n- two\n  more\n"}}},
		{name: "learns with code", agent: []change{{"- one\n", "- one\n\n```\na\n\na\n```\n"}}, accepted: []change{{"- one\n", "- one\n\n```\na\n\na\n```\n"}}},
		{name: "learns first", agent: []change{{"- one\n", "- zero\n- one\n"}}, accepted: []change{{"- one\n", "- one\n- zero\n"}}},
		{name: "rewrites learnings", agent: []change{{"- one\n", "- another\n"}}, accepted: []change{{"- one\n", "- one\n- another\n"}}, kinds: []ViolationKind{ViolationLearnings}},
		{name: "clears learnings", agent: []change{{"- one\n", ""}}, kinds: []ViolationKind{ViolationLearnings}},
		{name: "notes", agent: []change{{"Some prose.", "Other prose.\n\n- a\n- [ ] b"}, {"## Codebase Patterns\n", "## Codebase Patterns\nmake test\n"}, {"- Next: c\n", "- Next: c\n\n### Iteration 5\n- Tried: d\n"}},
			accepted: []change{{"Some prose.", "Other prose.\n\n- a\n- [ ] b"}, {"## Codebase Patterns\n", "## Codebase Patterns\nmake test\n"}, {"- Next: c\n", "- Next: c\n\n### Iteration 5\n- Tried: d\n"}}},
		{name: "empties a section", agent: []change{{"Some prose.\n", ""}}, accepted: []change{{"Some prose.\n", ""}}},
		{name: "removes a section", agent: []change{{"## Analysis\nSome prose.\n\n", ""}}},
		{name: "adds a section", agent: []change{{"## Learnings", "## Notes\nmine\n\n## Learnings"}}},
		{name: "fills what is the host's", agent: []change{{"## Completed This Iteration\n", "## Completed This Iteration\n- all\n"}}},
		{name: "changes title and binding", agent: []change{{"0a1b", "ffff"}, {"# Progress: Add", "# Progress: Drop"}}},
		{name: "opens a fence in a note", agent: []change{{"## Iteration Log", "```\n## Iteration Log"}}, kinds: []ViolationKind{ViolationForgedLog, ViolationUnreadable}},
		{name: "second status", agent: []change{{"## Learnings", "## Status\nRALPH_DONE\n\n## Learnings"}}},
		{name: "adds a task", agent: []change{{"suite\n", "suite\n- [ ] T9 (P3) New\n  - Accept: x\n"}}, accepted: []change{{"suite\n", "suite\n- [ ] T4 (P3) New\n  - Accept: x\n"}}},
		{name: "adds a group", agent: []change{{"suite\n", "suite\n\n### Later\n* [ ] New\n"}}, accepted: []change{{"suite\n", "suite\n\n### Later\n- [ ] T4 New\n"}}},
		{name: "adds a done task", agent: []change{{"suite\n", "suite\n- [x] New\n"}}, accepted: []change{{"suite\n", "suite\n- [ ] T4 New\n"}}, kinds: []ViolationKind{ViolationTickedOther}},
		{name: "adds a second Tasks section", agent: []change{{"## Learnings", "## Tasks\n- [ ] New\n\n## Learnings"}}, accepted: []change{{"suite\n", "suite\n- [ ] T4 New\n"}}},
		{name: "adds the same task again", agent: []change{{"suite\n", "suite\n- [ ] T9 Wire the flag\n"}}},
		{name: "writes too much", agent: []change{{"Some prose.", strings.Repeat("prose ", maxSection/6+1)}}, kinds: []ViolationKind{ViolationTooMuch}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, crlf := range []bool{false, true} {
				apply := func(changes []change) string {
					s := sample(false)
					for _, c := range changes {
						if !strings.Contains(s, c.old) {
							t.Fatalf("%q is not in the sample", c.old)
						}
						s = strings.Replace(s, c.old, c.now, 1)
					}
					return s
				}
				before := parse(t, sample(false))
				agent, want := apply(tc.agent), apply(tc.accepted)
				if crlf { // the agent's editor does not change our line endings
					agent = strings.ReplaceAll(agent, "\n", "\r\n")
				}
				v := Judge(before, parse(t, agent), "T2")
				if diff := cmp.Diff(want, string(v.Accepted.Bytes())); diff != "" {
					t.Errorf("accepted (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.kinds, kinds(v)); diff != "" {
					t.Errorf("violations (-want +got):\n%s%+v", diff, v.Violations)
				}
				if v.TickedAssigned != tc.ticked || v.ClaimedDone != tc.claimed {
					t.Errorf("ticked %v, claimed %v", v.TickedAssigned, v.ClaimedDone)
				}
				if string(before.Bytes()) != sample(false) {
					t.Error("the host's copy was changed")
				}
			}
		})
	}
}

func TestJudgeLastTask(t *testing.T) {
	t.Parallel()
	before := parse(t, "## Status\nIN_PROGRESS\n\n## Tasks\n- [x] T1 a\n- [ ] T2 b\n- [ ] T3 c (skipped: d)\n")
	after := parse(t, "## Status\nRALPH_DONE\n\n## Tasks\n- [x] T1 a\n- [x] T2 b\n- [ ] T3 c (skipped: d)\n")
	v := Judge(before, after, "T2")
	if len(v.Violations) > 0 || !v.ClaimedDone || !v.TickedAssigned {
		t.Errorf("%+v", v)
	}
	if string(v.Accepted.Bytes()) != string(before.Bytes()) {
		t.Errorf("accepted %s", v.Accepted.Bytes())
	}
}

func TestJudgeUnreadable(t *testing.T) {
	t.Parallel()
	before := parse(t, sample(false))
	for _, v := range []Verdict{Judge(before, nil, "T2"), JudgePlan(before, nil)} {
		if string(v.Accepted.Bytes()) != sample(false) || len(v.Violations) != 1 || v.Violations[0].Kind != ViolationUnreadable {
			t.Errorf("%+v", v)
		}
	}
}

func TestJudgeManyTasks(t *testing.T) {
	t.Parallel()
	before := parse(t, sample(false))
	var b strings.Builder
	for i := range maxNewTasks + 5 {
		fmt.Fprintf(&b, "- [ ] New %d\n", i)
	}
	v := Judge(before, parse(t, strings.Replace(sample(false), "suite\n", "suite\n"+b.String(), 1)), "T2")
	if got := len(v.Accepted.Tasks()); got != 3+maxNewTasks {
		t.Errorf("%d tasks", got)
	}
	if diff := cmp.Diff([]ViolationKind{ViolationTooMuch}, kinds(v)); diff != "" {
		t.Error(diff)
	}
}

func TestJudgePlan(t *testing.T) {
	t.Parallel()
	fresh := string(New("x", Binding{Key: "plan:x"}).Bytes())
	plan := "### One\n- [x] (P1) a\n  - Do: this\n  - Accept: b\n  - Files: c.go\n- [ ] T7 d\n"
	tests := []struct {
		name, old, now string
		tasks          string // content of the Tasks section
		kinds          []ViolationKind
	}{
		{"plan", "## Tasks\n", "## Tasks\n" + plan, "### One\n- [ ] T8 (P1) a\n  - Do: this\n  - Accept: b\n  - Files: c.go\n- [ ] T7 d", nil},
		{"plan and marker", "IN_PROGRESS\n\n## Analysis\n\n## Tasks\n", "RALPH_DONE\n\n## Analysis\n\n## Tasks\n- [ ] a\n", "- [ ] T1 a", []ViolationKind{ViolationPremature}},
		{"plan and status", "IN_PROGRESS\n\n## Analysis\n\n## Tasks\n", "PLANNED\n\n## Analysis\n\n## Tasks\n- [ ] a\n", "- [ ] T1 a", []ViolationKind{ViolationForgedStatus}},
		{"tasks in two sections", "## Tasks\n", "## Task List\n- [ ] a\n\n## Tasks\n- [ ] b\n", "- [ ] T1 a\n- [ ] T2 b", nil},
		{"tasks under another heading", "## Tasks\n", "## Plan\n- [ ] a\n", "### Plan\n- [ ] T1 a", nil},
		{"fence that does not end", "## Tasks\n\n## Testing Strategy\n", "## Tasks\n- [ ] a\n\n```\n", "- [ ] T1 a", []ViolationKind{ViolationForgedLog}},
		{"no tasks", "## Analysis\n", "## Analysis\nnothing to do\n", "", nil},
		{"far too many tasks", "## Tasks\n", "## Tasks\n" + strings.Repeat("- [ ] a\n", maxTasks+1), "", []ViolationKind{ViolationTooMuch}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(fresh, tc.old) {
				t.Fatalf("%q is not in the document", tc.old)
			}
			v := JudgePlan(parse(t, fresh), parse(t, strings.Replace(fresh, tc.old, tc.now, 1)))
			if diff := cmp.Diff(tc.tasks, v.Accepted.Section(SectionTasks)); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.kinds, kinds(v)); diff != "" {
				t.Errorf("violations (-want +got):\n%s%+v", diff, v.Violations)
			}
			if v.Accepted.Status() != StatusInProgress {
				t.Errorf("status %q", v.Accepted.Status())
			}
			if diff := cmp.Diff(outline(parse(t, fresh)), outline(v.Accepted)); diff != "" {
				t.Errorf("sections (-want +got):\n%s", diff)
			}
		})
	}
	v := JudgePlan(parse(t, fresh), parse(t, strings.Replace(fresh, "## Analysis\n", "## Analysis\nfound\n", 1)))
	if v.Accepted.Section(SectionAnalysis) != "found" {
		t.Error("the analysis is lost")
	}
}

// Whatever an agent leaves, the accepted document keeps the host's part: the
// tasks with their state, the status, the log, and all learnings.
func TestJudgeIsSafe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := mustParse(t, sample(rapid.Bool().Draw(t, "crlf")))
		src := sample(false)
		for range rapid.IntRange(1, 3).Draw(t, "edits") {
			from := rapid.IntRange(0, len(src)).Draw(t, "from")
			to := min(len(src), from+rapid.IntRange(0, 80).Draw(t, "length"))
			src = src[:from] + strings.ToValidUTF8(evil().Draw(t, "text"), "") + src[to:]
		}
		after, err := Parse([]byte(src))
		if err != nil {
			after = nil
		}
		v := Judge(before, after, "T2")
		got := mustParse(t, string(v.Accepted.Bytes()))
		tasks := got.Tasks()
		if len(tasks) < 3 {
			t.Fatalf("%d tasks:\n%s", len(tasks), got.Bytes())
		}
		for i, want := range before.Tasks() {
			if k := indexOf(tasks, want.ID); k < 0 || !cmp.Equal(tasks[k], want) {
				t.Fatalf("task %d, want %+v in:\n%s", i, want, got.Bytes())
			}
		}
		for _, task := range tasks {
			if task.ID == "" || task.ID != "T1" && task.Status == run.TaskDone {
				t.Fatalf("%+v", task)
			}
		}
		for _, name := range []string{SectionStatus, SectionLog, SectionCompleted} {
			if before.Section(name) != got.Section(name) {
				t.Fatalf("section %s changed:\n%s", name, got.Bytes())
			}
		}
		if !strings.HasPrefix(got.Section(SectionLearnings), "- one") || got.MarkedDone() {
			t.Fatalf("%s", got.Bytes())
		}
		if diff := cmp.Diff(outline(before), outline(got)); diff != "" {
			t.Fatalf("sections: %s\n%s", diff, got.Bytes())
		}
		for _, x := range v.Violations {
			if x.Text == "" || strings.ContainsAny(x.Text, "\r\n") || HintsDone(x.Text) {
				t.Fatalf("violation %q", x.Text)
			}
		}
		// What was accepted is accepted again without a word.
		if again := Judge(before, v.Accepted, "T2"); len(again.Violations) > 0 {
			t.Fatalf("%+v\n%s", again.Violations, got.Bytes())
		}
	})
}

func indexOf(tasks []run.Task, id string) int {
	for i, t := range tasks {
		if t.ID == id {
			return i
		}
	}
	return -1
}
