package publish_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/progress/island"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
)

// checks lists the check runs there are, without their summaries.
func (w *world) checks(t *testing.T) []ghsim.CheckRun {
	t.Helper()
	return get[[]ghsim.CheckRun](t)(w.CheckRuns(owner, name))
}

var noTexts = cmpopts.IgnoreFields(ghsim.CheckRun{}, "ID", "Summary", "Text")

// TestCheckFollowsTheHead: one check run on each commit, in progress on the
// last of them as long as the run goes on, and the least of calls.
func TestCheckFollowsTheHead(t *testing.T) {
	t.Parallel()
	w, p, pr, v := started(t)
	var calls ghapp.Counter
	ctx := ghapp.WithCounter(t.Context(), &calls)
	sent := func(want int) {
		t.Helper()
		if got := calls.Counts().ByPurpose["check"]; got != want {
			t.Errorf("%d calls for check runs so far, want %d", got, want)
		}
	}
	on := publish.CheckOn{Head: v.Commits[0].OID, DetailsURL: pr.URL, StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	first := ghsim.CheckRun{Name: "Ralph", HeadOID: on.Head, ExternalID: "r-1", Status: "in_progress", Title: "1 of 2 tasks", Buttons: []string{"stop"}}
	for range 2 { // showing the same again sends nothing
		check(t, p.Check(ctx, on, v))
		sent(1)
		if diff := cmp.Diff([]ghsim.CheckRun{first}, w.checks(t), noTexts); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := w.checks(t)[0].Summary; got != island.Summary(islandOf(v, w.issue)) || !strings.Contains(got, "- [x] T1 Do step 1\n") {
		t.Errorf("summary:\n%s", got)
	}

	landed := get[publish.Landed](t)(p.Land(t.Context(), w.on(t, on.Head, w.tree(t, on.Head), 2, file("b", "2"))))
	on.Head = landed.OID
	v.Tasks[1].Status = run.TaskDone
	check(t, p.Check(ctx, on, v))
	sent(3)
	first.Status, first.Conclusion, first.Title, first.Buttons = "completed", "neutral", "The run went on", nil
	second := ghsim.CheckRun{Name: "Ralph", HeadOID: on.Head, ExternalID: "r-1", Status: "in_progress", Title: "2 of 2 tasks", Buttons: []string{"stop"}}
	if diff := cmp.Diff([]ghsim.CheckRun{first, second}, w.checks(t), noTexts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	v.End = run.EndBlocked
	check(t, p.Check(ctx, on, v))
	sent(4)
	second.Status, second.Conclusion, second.Title = "completed", "failure", run.EndBlocked.Sentence()
	second.Buttons = []string{"retry"}
	if diff := cmp.Diff([]ghsim.CheckRun{first, second}, w.checks(t), noTexts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// A later run has its own check run on the commit, and leaves this one alone.
	v.End = run.EndAllTasksComplete
	v.Gates = []island.Gate{{Name: "test", Passed: true}}
	check(t, w.publisher("r-2").Check(ctx, on, v))
	sent(5)
	third := ghsim.CheckRun{Name: "Ralph", HeadOID: on.Head, ExternalID: "r-2", Status: "completed", Conclusion: "success", Title: run.EndAllTasksComplete.Sentence()}
	if diff := cmp.Diff([]ghsim.CheckRun{first, second, third}, w.checks(t), noTexts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// islandOf is v as a publisher of the issue fills it.
func islandOf(v island.View, issue int) island.View {
	v.IssueNumber, v.Branch = issue, run.DefaultBranchTemplate.Of(issue)
	return v
}

// tree is the tree of a commit on the issue's branch.
func (w *world) tree(t *testing.T, oid string) string {
	t.Helper()
	for _, c := range w.mine(t) {
		if c.OID == oid {
			return c.Tree
		}
	}
	t.Fatalf("no commit %s on the branch", oid)
	return ""
}

// TestCheckForEachEnd: every reason has its conclusion and its sentence, also
// where the check run was in progress on that commit.
func TestCheckForEachEnd(t *testing.T) {
	t.Parallel()
	w, _, _, v := started(t)
	on := publish.CheckOn{Head: v.Commits[0].OID}
	v.Gates = []island.Gate{{Name: "test", Passed: true}}
	for i, end := range run.EndReasons() {
		p := w.publisher(run.ID(end))
		v.End = ""
		check(t, p.Check(t.Context(), on, v))
		v.End = end
		check(t, p.Check(t.Context(), on, v))
		all := w.checks(t)
		want := ghsim.CheckRun{Name: "Ralph", HeadOID: on.Head, ExternalID: string(end), Status: "completed", Conclusion: string(end.Conclusion()), Title: end.Sentence()}
		if !end.Complete() {
			want.Buttons = []string{"retry"}
		}
		if diff := cmp.Diff(want, all[len(all)-1], noTexts); diff != "" || len(all) != i+1 {
			t.Errorf("%s: %d check runs, the last one (-want +got):\n%s", end, len(all), diff)
		}
	}
	v.Gates = nil
	v.End = run.EndRalphDone
	check(t, w.publisher("no-gates").Check(t.Context(), on, v))
	if all := w.checks(t); all[len(all)-1].Title != "All tasks are done; no checks ran" {
		t.Errorf("title without gates: %q", all[len(all)-1].Title)
	}
}

// TestCheckWhenTheAnswerIsLost: the check run that GitHub made is taken up.
func TestCheckWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	w, p, _, v := started(t)
	on := publish.CheckOn{Head: v.Commits[0].OID}
	check(t, w.Inject(ghsim.Fault{Method: "POST", Match: "/check-runs$", After: true, Status: 502, Body: "<html>"}))
	err := p.Check(t.Context(), on, v)
	if class, _ := ghapp.Classify(err); class != ghapp.Transient || ghapp.ChecksRefused(err) {
		t.Fatalf("err = %v", err)
	}
	v.End = run.EndFailed
	check(t, p.Check(t.Context(), on, v))
	if all := w.checks(t); len(all) != 1 || all[0].Conclusion != "failure" {
		t.Errorf("check runs: %+v", all)
	}
}

// TestCheckIsInert: agent text, links and secrets do not get out here either,
// and however much there is, GitHub takes it.
func TestCheckIsInert(t *testing.T) {
	t.Parallel()
	w, p, _, v := started(t)
	v.Note = "@org/team fixes #1 <img src=x>"
	for i := range 600 {
		v.Tasks = append(v.Tasks, run.Task{ID: "T" + strings.Repeat("9", i%5+2), Title: strings.Repeat("@walt 世界 ", 40)})
	}
	check(t, p.Check(t.Context(), publish.CheckOn{Head: v.Commits[0].OID}, v))
	got := w.checks(t)[0]
	for _, bad := range []string{"@walt", "@org", "fixes #1", " <img"} {
		if strings.Contains(got.Title+got.Summary, bad) {
			t.Errorf("%q in:\n%.1000s", bad, got.Summary)
		}
	}
}
