package publish_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/island"
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
	on := publish.CheckOn{
		Head: v.Commits[0].OID, DetailsURL: pr.URL, StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	first := ghsim.CheckRun{
		Name: "Ralph", HeadOID: on.Head, ExternalID: "r-1", Status: "in_progress", Title: "1 of 2 tasks",
		Buttons: []string{"stop"},
	}
	for range 2 { // showing the same again sends nothing
		get[*ghapp.PR](t)(p.Check(ctx, on, v))
		sent(1)
		if diff := cmp.Diff([]ghsim.CheckRun{first}, w.checks(t), noTexts); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := w.checks(t)[0].Summary; got != island.Summary(islandOf(v, w.issue)) ||
		!strings.Contains(got, "- [x] T1 Do step 1 ·") {
		t.Errorf("summary:\n%s", got)
	}

	landed := get[publish.Landed](t)(p.Land(t.Context(), w.on(t, on.Head, w.tree(t, on.Head), 2, file("b", "2"))))
	on.Head = landed.OID
	v.Tasks[1].Status = run.TaskDone
	get[*ghapp.PR](t)(p.Check(ctx, on, v))
	sent(2) // the one before is closed in the same call
	first.Status, first.Conclusion, first.Title, first.Buttons = "completed", "neutral", "The run continued", nil
	second := ghsim.CheckRun{
		Name: "Ralph", HeadOID: on.Head, ExternalID: "r-1", Status: "in_progress", Title: "2 of 2 tasks",
		Buttons: []string{"stop"},
	}
	if diff := cmp.Diff([]ghsim.CheckRun{first, second}, w.checks(t), noTexts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	v.End = run.EndBlocked
	get[*ghapp.PR](t)(p.Check(ctx, on, v))
	sent(3)
	second.Status, second.Conclusion, second.Title = "completed", "failure", run.EndBlocked.Sentence()
	second.Buttons = []string{"retry"}
	if diff := cmp.Diff([]ghsim.CheckRun{first, second}, w.checks(t), noTexts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// A later run has its own check run on the commit, and leaves this one alone.
	v.End = run.EndAllTasksComplete
	v.Gates, v.Proof = []island.Gate{{Name: "test", Passed: true}}, run.Proof{Passed: 1}
	get[*ghapp.PR](t)(w.publisher("r-2").Check(ctx, on, v))
	sent(4)
	third := ghsim.CheckRun{
		Name: "Ralph", HeadOID: on.Head, ExternalID: "r-2", Status: "completed", Conclusion: "success",
		Title: v.Proof.Sentence(run.EndAllTasksComplete),
	}
	if diff := cmp.Diff([]ghsim.CheckRun{first, second, third}, w.checks(t), noTexts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// islandOf is v as a publisher of the issue fills it.
func islandOf(v island.View, issue int) island.View {
	v.IssueNumber, v.Branch = issue, run.Branch(issue)
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
	v.Gates, v.Proof = []island.Gate{{Name: "test", Passed: true}}, run.Proof{Passed: 1}
	for i, end := range run.EndReasons() {
		p := w.publisher(run.ID(end))
		v.End = ""
		get[*ghapp.PR](t)(p.Check(t.Context(), on, v))
		v.End = end
		get[*ghapp.PR](t)(p.Check(t.Context(), on, v))
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
	v.Gates, v.Proof = nil, run.Proof{}
	v.End = run.EndRalphDone
	get[*ghapp.PR](t)(w.publisher("no-gates").Check(t.Context(), on, v))
	if all := w.checks(t); all[len(all)-1].Title != "All tasks are done; no checks ran" {
		t.Errorf("title without gates: %q", all[len(all)-1].Title)
	}
}

// TestCheckWhenTheAnswerIsLost: the check run that GitHub made is taken up.
func TestCheckWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	w, p, _, v := started(t)
	on := publish.CheckOn{Head: v.Commits[0].OID}
	check(t, w.Inject(ghsim.Fault{Match: "^/graphql createCheckRun$", After: true, Status: 502, Body: "<html>"}))
	_, err := p.Check(t.Context(), on, v)
	if class, _ := ghapp.Classify(err); class != ghapp.Transient || ghapp.ChecksRefused(err) {
		t.Fatalf("err = %v", err)
	}
	v.End = run.EndFailed
	get[*ghapp.PR](t)(p.Check(t.Context(), on, v))
	if all := w.checks(t); len(all) != 1 || all[0].Conclusion != "failure" {
		t.Errorf("check runs: %+v", all)
	}
}

// confused is a GitHub to which the changes of check runs do not get through.
type confused struct {
	publish.GitHub

	lost bool
}

func (g *confused) WriteChecks(
	ctx context.Context, change ghapp.PRChange, writes ...ghapp.CheckWrite,
) (ghapp.WrittenChecks, error) {
	writes = slices.Clone(writes)
	for i := range writes {
		if g.lost && writes[i].ID != "" {
			writes[i].ID = "CR_lost"
		}
	}
	return g.GitHub.WriteChecks(ctx, change, writes...)
}

// TestCheckClosedLater: a new check run is kept though the one before could not
// be closed in the same call, and that is made up for.
func TestCheckClosedLater(t *testing.T) {
	t.Parallel()
	w, p, pr, v := started(t)
	ctx, gh := t.Context(), &confused{GitHub: p.GitHub}
	p.GitHub = gh
	on := publish.CheckOn{Head: v.Commits[0].OID}
	get[*ghapp.PR](t)(p.Check(ctx, on, v))
	landed := get[publish.Landed](t)(p.Land(ctx, w.on(t, on.Head, w.tree(t, on.Head), 2, file("b", "2"))))
	v.Tasks[1].Status = run.TaskDone
	gh.lost = true
	described, err := p.Check(ctx, publish.CheckOn{Head: landed.OID, PR: &pr}, v)
	if !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("err = %v", err)
	}
	if described == nil || described.Body != w.pr(t, pr.Number).Body || !strings.Contains(described.Body, "- [x] T2") {
		t.Errorf("the pull request was not described: %+v", described)
	}
	states := func() (out []string) {
		for _, c := range w.checks(t) {
			out = append(out, c.Status)
		}
		return out
	}
	if diff := cmp.Diff([]string{"in_progress", "in_progress"}, states()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	gh.lost = false
	get[*ghapp.PR](t)(p.Check(ctx, publish.CheckOn{Head: landed.OID, PR: described}, v))
	if diff := cmp.Diff([]string{"completed", "in_progress"}, states()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCheckLeavesEditsAlone: where people have edited the description, nothing
// at all is written.
func TestCheckLeavesEditsAlone(t *testing.T) {
	t.Parallel()
	w, p, pr, v := started(t)
	p.Edited = func(string) bool { return true }
	before := len(w.Calls())
	if _, err := p.Check(t.Context(), publish.CheckOn{Head: v.Commits[0].OID, PR: &pr}, v); !errors.Is(err,
		publish.ErrEdited) {
		t.Errorf("err = %v", err)
	}
	if n := len(w.Calls()) - before; n != 0 {
		t.Errorf("%d calls", n)
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
	get[*ghapp.PR](t)(p.Check(t.Context(), publish.CheckOn{Head: v.Commits[0].OID}, v))
	got := w.checks(t)[0]
	for _, bad := range []string{"@walt", "@org", "fixes #1", " <img"} {
		if strings.Contains(got.Title+got.Summary, bad) {
			t.Errorf("%q in:\n%.1000s", bad, got.Summary)
		}
	}
}
