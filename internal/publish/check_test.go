package publish_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
)

// checks lists the check runs there are.
func (w *world) checks(t *testing.T) []ghsim.CheckRun {
	t.Helper()
	return get[[]ghsim.CheckRun](t)(w.CheckRuns(owner, name))
}

var noTexts = cmpopts.IgnoreFields(ghsim.CheckRun{}, "ID", "Summary", "Text")

// TestCheckForEachEnd: every reason has its conclusion and its sentence, each run its own
// check run, and showing it again makes no other.
func TestCheckForEachEnd(t *testing.T) {
	t.Parallel()
	w, _, _, v := started(t)
	on := publish.Check{Head: v.Commits[0].OID}
	v.Gates, v.Proof = []gate.Result{{Gate: "test", Passed: true}}, run.Proof{Passed: 1}
	for i, end := range run.EndReasons() {
		p := w.publisher(run.ID(end))
		v.End = end
		for range 2 {
			check(t, p.ShowCheck(t.Context(), on, v))
		}
		all := w.checks(t)
		want := ghsim.CheckRun{
			Name: "Ralph", HeadOID: on.Head, ExternalID: string(end), Status: "completed", Conclusion: string(end.Conclusion()),
			Title: v.Proof.Sentence(end),
		}
		if !end.Complete() {
			want.Buttons = []string{"retry"}
		}
		if diff := cmp.Diff(want, all[len(all)-1], noTexts); diff != "" || len(all) != i+1 {
			t.Errorf("%s: %d check runs, the last one (-want +got):\n%s", end, len(all), diff)
		}
	}
	v.Gates, v.Proof, v.End = nil, run.Proof{}, run.EndAllTasksComplete
	check(t, w.publisher("no-gates").ShowCheck(t.Context(), on, v))
	if all := w.checks(t); all[len(all)-1].Title != "All tasks are done; no checks ran" {
		t.Errorf("title without gates: %q", all[len(all)-1].Title)
	}
}

// TestCheckWhenTheAnswerIsLost: the check run that GitHub made is taken up.
func TestCheckWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	w, p, _, v := started(t)
	on := publish.Check{Head: v.Commits[0].OID}
	v.End = run.EndFailed
	check(t, w.Inject(ghsim.Fault{Method: "POST", Match: "/check-runs$", After: true, Status: 502, Body: "<html>"}))
	err := p.ShowCheck(t.Context(), on, v)
	if class, _ := ghapp.Classify(err); class != ghapp.Transient || ghapp.ChecksRefused(err) {
		t.Fatalf("err = %v", err)
	}
	check(t, p.ShowCheck(t.Context(), on, v))
	if all := w.checks(t); len(all) != 1 || all[0].Conclusion != "failure" {
		t.Errorf("check runs: %+v", all)
	}
}

// TestCheckIsInert: agent text, links and secrets do not get out here either,
// and however much there is, GitHub takes it.
func TestCheckIsInert(t *testing.T) {
	t.Parallel()
	w, p, _, v := started(t)
	v.End, v.Note = run.EndFailed, "@org/team fixes #1 <img src=x>"
	for i := range 600 {
		v.Tasks = append(v.Tasks, run.Task{ID: fmt.Sprintf("T%d", i+3), Title: strings.Repeat("@walt 世界 ", 40)})
	}
	check(t, p.ShowCheck(t.Context(), publish.Check{Head: v.Commits[0].OID}, v))
	got := w.checks(t)[0]
	for _, bad := range []string{"@walt", "@org", "fixes #1", " <img"} {
		if strings.Contains(got.Title+got.Summary, bad) {
			t.Errorf("%q in:\n%.1000s", bad, got.Summary)
		}
	}
}
