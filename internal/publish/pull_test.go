package publish_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
)

// started is a world with one commit landed and the draft opened.
func started(t *testing.T) (*world, *publish.Publisher, ghapp.PR, publish.View) {
	t.Helper()
	w := newWorld(t)
	p := w.publisher("r-1")
	landed := get[loop.Landed](t)(p.LandCommit(t.Context(), w.proposal(t, w.head(t, "main"), 1, file("a", "1"))))
	v := publish.View{
		Title: "Add a --json flag @walt fixes #1", RepoURL: w.repo.HTMLURL(), Phase: run.PhaseIterating, Iteration: 1,
		Commits: []loop.Landed{
			{OID: landed.OID, Subject: landed.Subject, TaskID: landed.TaskID, Verified: landed.Verified},
		}, Closes: true,
		Tasks: []run.Task{
			{ID: "T1", Title: "Do step 1", Status: run.TaskDone}, {ID: "T2", Title: "Do step 2", Status: run.TaskOpen},
		},
	}
	return w, p, get[ghapp.PR](t)(p.EnsurePR(t.Context(), v)), v
}

func (w *world) pr(t *testing.T, number int) ghsim.PR {
	t.Helper()
	return get[ghsim.PR](t)(w.Sim.PR(owner, name, number))
}

// update reads a pull request and brings it up to date.
func update(
	ctx context.Context, p *publish.Publisher, number int, v publish.View,
) (pr ghapp.PR, changed bool, err error) {
	read, err := p.ReadPR(ctx, number)
	if err != nil {
		return ghapp.PR{}, false, err
	}
	pr, err = p.UpdatePR(ctx, read, v)
	return pr, pr.Body != read.Body, err
}

// finish is the last update of complete work.
func finish(ctx context.Context, p *publish.Publisher, number int, v publish.View) (ghapp.PR, error) {
	pr, _, err := update(ctx, p, number, v)
	if err != nil {
		return pr, err
	}
	return p.Ready(ctx, pr)
}

func (w *world) patches() int {
	n := 0
	for _, c := range w.Sim.Calls() {
		if c.Method == "PATCH" {
			n++
		}
	}
	return n
}

func TestPullRequestLife(t *testing.T) {
	t.Parallel()
	w, p, pr, v := started(t)
	ctx := t.Context()
	got := w.pr(t, pr.Number)
	if !got.Draft || got.Head != w.branch() || got.Base != "main" || got.User != "ralph[bot]" ||
		strings.Contains(got.Title, "@walt") || strings.Contains(got.Title, "#1") {
		t.Errorf("pull request = %+v", got)
	}
	if !strings.Contains(got.Body, "- [x] T1 Do step 1 ·") || !strings.Contains(got.Body, ")\n- [ ] T2 Do step 2\n") || strings.Contains(got.Body, "Closes") {
		t.Errorf("body:\n%s", got.Body)
	}
	if again := get[ghapp.PR](t)(p.EnsurePR(ctx, v)); again.Number != pr.Number {
		t.Errorf("another pull request: %d", again.Number)
	}
	// A later run goes on with the same pull request.
	if again := get[ghapp.PR](t)(w.publisher("r-2").EnsurePR(ctx, v)); again.Number != pr.Number {
		t.Errorf("a later run opened %d", again.Number)
	}

	before := w.patches()
	if _, changed, err := update(ctx, p, pr.Number, v); err != nil || changed || w.patches() != before {
		t.Errorf("nothing new: changed = %t, %v, %d writes", changed, err, w.patches()-before)
	}

	// C4: a person writes around our part and into it.
	edited := "Dear reviewers,\r\n\r\n" + strings.Replace(got.Body, "Do step 2", "I was here", 1) +
		"\n\nPS: <!-- keep -->  "
	check(t, w.EditIssue(owner, name, pr.Number, "walt", "", edited))
	v.Tasks[1].Status = run.TaskDone
	v.Phase, v.End = run.PhaseDone, run.EndAllTasksComplete
	done := get[ghapp.PR](t)(finish(ctx, p, pr.Number, v))
	after := w.pr(t, pr.Number)
	if done.Draft || after.Draft {
		t.Error("still a draft")
	}
	if !strings.HasPrefix(after.Body, "Dear reviewers,\r\n\r\n<!-- ralph:begin -->") ||
		!strings.HasSuffix(after.Body, "-->\n\nPS: <!-- keep -->  ") {
		t.Errorf("people's text changed:\n%q", after.Body)
	}
	if strings.Contains(after.Body, "I was here") || !strings.Contains(after.Body, "- [x] T2 Do step 2\n") ||
		!strings.Contains(after.Body, fmt.Sprintf("\n\nCloses #%d\n", w.issue)) {
		t.Errorf("ours:\n%s", after.Body)
	}
	if after.Title != got.Title {
		t.Errorf("title changed to %q", after.Title)
	}
}

// TestReadyOnce: a draft that a person wants back stays one.
func TestReadyOnce(t *testing.T) {
	t.Parallel()
	w, p, pr, v := started(t)
	ctx := t.Context()
	v.End = run.EndAllTasksComplete
	get[ghapp.PR](t)(finish(ctx, p, pr.Number, v))

	// A repeated Ready that finds a draft must not force it.
	check(t, w.ConvertToDraft(owner, name, pr.Number, "walt"))
	before := w.app.Calls().GraphQL
	if got := get[ghapp.PR](t)(finish(ctx, p, pr.Number, v)); !got.Draft {
		t.Errorf("pull request = %+v", got)
	}
	if n := w.app.Calls().GraphQL - before; n != 0 {
		t.Errorf("%d mutations against a person's will", n)
	}
}

func TestClosedPullRequest(t *testing.T) {
	t.Parallel()
	w, p, pr, v := started(t)
	check(t, w.CloseIssue(owner, name, pr.Number, "walt"))
	if got := get[ghapp.PR](t)(p.EnsurePR(t.Context(), v)); got.Number != pr.Number || got.State != "closed" {
		t.Errorf("beside a closed one: %+v", got)
	}
	v.End = run.EndAllTasksComplete
	if got := get[ghapp.PR](t)(finish(t.Context(), p, pr.Number, v)); got.State != "closed" {
		t.Errorf("pull request = %+v", got)
	}
}

func TestForeignPullRequest(t *testing.T) {
	t.Parallel()
	w, p, _, v := started(t)
	// Our own App's pull request, but from another issue's branch.
	other := w.publisher("r-9")
	other.Issue = get[ghsim.Issue](t)(w.CreateIssue(owner, name, "walt", "Another", "x")).Number
	other.Branch = run.Branch(other.Issue)
	get[loop.Landed](t)(other.LandCommit(t.Context(), w.proposal(t, w.head(t, "main"), 1, file("z", "1"))))
	foreign := get[ghapp.PR](t)(other.EnsurePR(t.Context(), v))
	if _, _, err := update(t.Context(), p, foreign.Number, v); !errors.Is(err, publish.ErrForeignPR) {
		t.Errorf("update: %v", err)
	}
}

// TestAttackH7FullDescription: people's own text leaves less and less room.
func TestAttackH7FullDescription(t *testing.T) {
	t.Parallel()
	w, p, pr, v := started(t)
	for i := range 200 {
		v.Tasks = append(v.Tasks, run.Task{
			ID: fmt.Sprintf("T%d", i+3), Title: strings.Repeat("long ", 60), Status: run.TaskOpen,
		})
	}
	v.Learnings = strings.Repeat("- learnt\n", 1000)
	for _, theirs := range []string{
		"", strings.Repeat("é", 20_000), strings.Repeat("t", 55_000), strings.Repeat("t", 63_000),
	} {
		check(t, w.EditIssue(owner, name, pr.Number, "walt", "", theirs+"\n"+pr.Body))
		got, changed, err := update(t.Context(), p, pr.Number, v)
		if err != nil || !changed {
			t.Fatalf("%d bytes of theirs: changed = %t, %v", len(theirs), changed, err)
		}
		if !strings.HasPrefix(got.Body, theirs) || !strings.Contains(got.Body, "1 of 202 tasks") {
			t.Errorf("%d bytes of theirs: the essential is missing", len(theirs))
		}
		if _, changed, err := update(t.Context(), p, pr.Number, v); err != nil || changed {
			t.Errorf("%d bytes of theirs: again: changed = %t, %v", len(theirs), changed, err)
		}
	}
	check(t, w.EditIssue(owner, name, pr.Number, "walt", "", strings.Repeat("t", 65_500)))
	before := w.patches()
	if _, _, err := update(t.Context(), p, pr.Number, v); !errors.Is(err, publish.ErrNoRoom) || w.patches() != before {
		t.Errorf("no room: %v", err)
	}
}

func TestSaying(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, p := t.Context(), w.publisher("")
	first := get[string](t)(p.CommentQuestions(ctx, []string{"What?", "Where?"}, 30))
	if again := get[string](t)(p.CommentQuestions(ctx, []string{"Asked again after a crash?"}, 0)); again != first ||
		first == "" {
		t.Errorf("asked at %q, then %q", first, again)
	}
	comments := get[ghsim.Issue](t)(w.Sim.Issue(owner, name, w.issue)).Comments
	if len(comments) != 1 {
		t.Fatalf("%d comments, want 1", len(comments))
	}
	if body := comments[0].Body; !strings.Contains(body, "1. What?\n2. Where?\n") ||
		!strings.Contains(body, "hides: 30 characters.") || !strings.Contains(body, "label `ralph`") {
		t.Errorf("questions:\n%s", body)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	evil := publish.RefusalText("x` @org/team <b>", "none", "")
	if strings.Contains(evil, "@org") || !strings.Contains(evil, "has no role in this repository") ||
		strings.Count(evil, "`")%2 != 0 {
		t.Errorf("refusal:\n%s", evil)
	}
	v := publish.View{
		IssueNumber: 7, End: run.EndFailed, Note: "@all credit is used up <img src=x>",
		Tasks: []run.Task{{Status: run.TaskDone}, {Status: run.TaskOpen}, {Status: run.TaskSkipped}},
	}
	got := publish.EndedText(v, 8)
	for _, want := range []string{
		"Stopped: retrying won't fix this", "1 of 2 tasks are done.", "The work is in #8.",
		"> @\u200ball credit is used up \\<img", "Fix the cause, then",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	v.End, v.Note = run.EndAllTasksComplete, ""
	if got := publish.EndedText(v, 0); strings.Contains(got, "To continue") || strings.Contains(got, "#") {
		t.Errorf("complete:\n%s", got)
	}
	for _, end := range run.EndReasons() {
		v.End = end
		if got := publish.EndedText(v, 1); !end.Complete() && !strings.Contains(got, "#7") {
			t.Errorf("%s says nothing about going on:\n%s", end, got)
		}
	}
}

// TestJobThatMayOpenNoPullRequest: it ends before an agent works, unless an earlier run has opened it.
func TestJobThatMayOpenNoPullRequest(t *testing.T) {
	t.Parallel()
	w, p, _, _ := started(t)
	p.ByJob = true
	begin := func() error {
		check(t, w.Inject(ghsim.Fault{Method: "POST", Match: "/pulls$", Status: 403,
			Body: `{"message":"GitHub Actions is not permitted to create or approve pull requests."}`}))
		var s loop.State
		s.Run, s.BaseBranch = p.Run, p.BaseBranch
		return p.Begin(t.Context(), s)
	}
	check(t, begin())
	w.nextIssue(t)
	p.Issue = w.issue
	if err := begin(); err == nil || !strings.Contains(err.Error(), "does not allow workflows") {
		t.Errorf("a job that has to open one: %v", err)
	}
}
