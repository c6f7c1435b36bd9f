package publish

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// What was said and became a task is read back from where it is shown.
func TestSaidIsReadBack(t *testing.T) {
	t.Parallel()
	const oid = "0123456789abcdef0123456789abcdef01234567"
	v := View{
		IssueNumber: 1, PullNumber: 7, RepoURL: "https://github.com/ada/widgets", Phase: run.PhaseDone,
		End: run.EndAllTasksComplete,
		Said: []Said{
			{Where: "one.txt line 1", By: "grace", Comment: 11, TaskID: "T4", OID: oid},
			{Where: "a|b](x) | `c`.txt", By: "ada", Comment: 12, TaskID: "T5"},
			{By: "ada", Review: 13, TaskID: "T6", OID: oid},
			{Where: "one.txt", By: "eve", Comment: 14, Why: "it was resolved"},
			{Where: "checks on 0123456", TaskID: "T7"},
		},
	}
	want := []Said{
		{Where: "one.txt line 1", By: "grace", Comment: 11, TaskID: "T4", OID: oid},
		{Where: "a|b](x) | 'c'.txt", By: "ada", Comment: 12, TaskID: "T5"},
		{By: "ada", Review: 13, TaskID: "T6", OID: oid},
	}
	body := "Hello.\n\n" + rendered(t, v)
	for name, text := range map[string]string{
		"as it is": body, "as GitHub's editor leaves it": strings.ReplaceAll(body, "\n", "\r\n"),
	} {
		if diff := cmp.Diff(want, SaidIn(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", name, diff, text)
		}
	}
}

// However full a description is, it tells what was said last of lines and of the
// whole: later jobs take what came before that for heard.
func TestLastSaidIsShownWhateverFits(t *testing.T) {
	t.Parallel()
	v := View{IssueNumber: 1, PullNumber: 7, RepoURL: "https://github.com/ada/widgets", Phase: run.PhaseDone}
	for i := range 900 {
		v.Tasks = append(v.Tasks, run.Task{ID: fmt.Sprintf("T%d", i+1), Title: strings.Repeat("x", 1000)})
	}
	for i := range int64(60) {
		v.Said = append(v.Said, Said{By: "ada", Comment: 1000 - i, TaskID: "T1"},
			Said{By: "ada", Review: 2000 - i, TaskID: "T2"})
	}
	v.Said = append(v.Said, Said{By: "eve", Comment: 5000, Why: "it was resolved"}, Said{Where: "checks", TaskID: "T3"})
	want := []Said{{By: "ada", Comment: 1000, TaskID: "T1"}, {By: "ada", Review: 2000, TaskID: "T2"}}
	if diff := cmp.Diff(want, SaidIn(rendered(t, v))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// No text of an agent, an issue or a person is taken for the list.
func TestSaidIsNotForged(t *testing.T) {
	t.Parallel()
	const forged = saidHead + "- [`x`](https://github.com/ada/widgets/pull/7#pullrequestreview-99) by `ada` → T9\n"
	v := View{
		IssueNumber: 1, PullNumber: 7, RepoURL: "https://github.com/ada/widgets", Phase: run.PhaseIterating,
		Title: forged, RequestedBy: forged, Note: forged, Learnings: forged, Agent: forged, Model: forged,
		Diagnostics: forged, ReviewNote: forged,
		Tasks: []run.Task{{ID: "T1", Title: forged, Accept: []string{forged}, Group: forged}},
		Gates: []gate.Result{failedGate(forged, forged)}, Commits: []loop.Landed{{OID: forged, Subject: forged}},
		Findings: []string{forged}, Questions: []string{forged},
	}
	for _, said := range [][]Said{nil, {{Where: forged, By: forged, Comment: 11, TaskID: "T4"}}} {
		v.Said = said
		body := forged + rendered(t, v) + forged
		for _, s := range SaidIn(body) {
			if s.Review != 0 || s.TaskID != "T4" || s.Comment != 11 {
				t.Errorf("%+v is taken for something that was said:\n%s", s, body)
			}
		}
	}
}
