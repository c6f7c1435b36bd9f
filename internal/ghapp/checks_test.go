package ghapp_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// writes writes one check run and gives its id.
func writes(t *testing.T, repo *ghapp.Repo, w ghapp.CheckWrite) string {
	t.Helper()
	return get[ghapp.WrittenChecks](t)(repo.WriteChecks(t.Context(), ghapp.PRChange{}, w)).IDs[0]
}

func TestCheckRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	in := ghapp.CheckInput{
		Name: "Ralph", HeadOID: main, ExternalID: "r-1", DetailsURL: w.URL() + "/acme/widgets/pull/8",
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Title: "1 of 2 tasks", Summary: "Working",
	}
	id := writes(t, w.repo, ghapp.CheckWrite{CheckInput: in})
	want := ghsim.CheckRun{
		Name: "Ralph", HeadOID: main, ExternalID: "r-1", Status: "in_progress", Title: "1 of 2 tasks", Summary: "Working",
	}
	shown := func() {
		t.Helper()
		if diff := cmp.Diff([]ghsim.CheckRun{want}, get[[]ghsim.CheckRun](t)(w.CheckRuns(owner, name)),
			cmpopts.IgnoreFields(ghsim.CheckRun{}, "ID")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	shown()
	in.Conclusion, in.Title, in.Summary = run.ConclusionTimedOut, "Late", "Stopped"
	if got := writes(t, w.repo, ghapp.CheckWrite{ID: id, CheckInput: in}); got != id {
		t.Errorf("changed %s, want %s", got, id)
	}
	want.Status, want.Conclusion, want.Title, want.Summary = "completed", "timed_out", "Late", "Stopped"
	shown()
	if got := get[ghapp.FoundCheck](t)(w.repo.FindCheck(ctx, main, "Ralph", "r-1")).ID; got != id {
		t.Errorf("found %s, want %s", got, id)
	}
	if got := w.countCalls(mintRoute); got != 2 {
		t.Errorf("%d tokens minted, want one for check runs and one for reading", got)
	}
}

// TestFindCheckFindsOwnOnly: the same name and id by another App mean nothing.
func TestFindCheckFindsOwnOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	other := get[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{
		Slug: "other", PrivateKeyPEM: w.appInfo.PrivateKeyPEM, Permissions: ghapp.Permissions(),
	}))
	in := get[ghsim.Installation](t)(w.Install(other.ID, owner+"/"+name))
	rival := get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3", AppID: other.ID, PrivateKey: other.PrivateKeyPEM,
	})).Repo(in.ID, owner, name)
	in1 := ghapp.CheckWrite{
		CheckInput: ghapp.CheckInput{Name: "Ralph", HeadOID: main, ExternalID: "r-1", Title: "x", Summary: "y"},
	}
	in2 := in1
	in2.ExternalID = "r-2"
	foreign := writes(t, rival, in1)
	if found, err := w.repo.FindCheck(ctx, main, "Ralph", "r-1"); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("found %+v, %v", found, err)
	}
	// Nor does one of another run, be it newer.
	own := writes(t, w.repo, in1)
	writes(t, w.repo, in2)
	if got := get[ghapp.FoundCheck](t)(w.repo.FindCheck(ctx, main, "Ralph", "r-1")).ID; got != own {
		t.Errorf("found %s, want %s", got, own)
	}
	// Nor can it be changed.
	in1.ID = foreign
	if _, err := w.repo.WriteChecks(ctx, ghapp.PRChange{}, in1); !ghapp.ChecksRefused(err) {
		t.Errorf("another App's: %v", err)
	}
}

// TestFindCheckUnderAToken: a job knows no App, and yet finds what its token has
// made, and nothing of anybody else.
func TestFindCheckUnderAToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	actions := get[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{
		Slug: "github-actions", PrivateKeyPEM: w.appInfo.PrivateKeyPEM, Permissions: ghapp.Permissions(),
	}))
	in := get[ghsim.Installation](t)(w.Install(actions.ID, owner+"/"+name))
	job := get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3", Token: get[string](t)(w.Token(in.ID, nil)),
	})).Repo(in.ID, owner, name)
	check := ghapp.CheckWrite{
		CheckInput: ghapp.CheckInput{Name: "Ralph", HeadOID: main, ExternalID: "r-1", Title: "x", Summary: "y"},
	}
	writes(t, w.repo, check)
	of2 := check
	of2.ExternalID = "r-2" // another workflow's, say
	writes(t, job, of2)
	if found, err := job.FindCheck(ctx, main, "Ralph", "r-1"); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("found %+v, %v", found, err)
	}
	own := writes(t, job, check)
	if got := get[ghapp.FoundCheck](t)(job.FindCheck(ctx, main, "Ralph", "r-1")).ID; got != own {
		t.Errorf("found %s, want %s", got, own)
	}
}

// TestWithoutChecksPermission: check runs are refused, and nothing else is.
func TestWithoutChecksPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	poor := get[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{
		Slug: "poor", PrivateKeyPEM: w.appInfo.PrivateKeyPEM,
		Permissions: map[string]string{"contents": "write", "issues": "write", "pull_requests": "write"},
	}))
	in := get[ghsim.Installation](t)(w.Install(poor.ID, owner+"/"+name))
	repo := get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3", AppID: poor.ID, PrivateKey: poor.PrivateKeyPEM,
	})).Repo(in.ID, owner, name)
	input := ghapp.CheckInput{Name: "Ralph", HeadOID: main, ExternalID: "r-1", Title: "x", Summary: "y"}
	create, update := ghapp.CheckWrite{CheckInput: input}, ghapp.CheckWrite{ID: "CR_1", CheckInput: input}
	_, createErr := repo.WriteChecks(ctx, ghapp.PRChange{}, create)
	_, updateErr := repo.WriteChecks(ctx, ghapp.PRChange{}, update)
	_, findErr := repo.FindCheck(ctx, main, "Ralph", "r-1")
	for what, err := range map[string]error{"create": createErr, "find": findErr, "update": updateErr} {
		if !ghapp.ChecksRefused(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check(t, repo.CreateBranch(ctx, "ralph/7", main))

	check(t, w.Inject(ghsim.Fault{
		Match: "^/graphql createCheckRun$", Status: 403, Body: `{"message":"Resource not accessible by integration"}`,
	}))
	if _, err := w.repo.WriteChecks(ctx, ghapp.PRChange{}, create); !ghapp.ChecksRefused(err) {
		t.Errorf("refused with a token: %v", err)
	}
	// Neither of these is a matter of permissions.
	check(t, w.Inject(ghsim.Fault{
		Match: "^/graphql createCheckRun$", Status: 403, Body: `{"message":"You have exceeded a secondary rate limit"}`,
	}))
	if _, err := w.repo.WriteChecks(ctx, ghapp.PRChange{}, create); err == nil || ghapp.ChecksRefused(err) {
		t.Errorf("limited: %v", err)
	}
	create.HeadOID = "0123456789012345678901234567890123456789"
	if _, err := w.repo.WriteChecks(ctx, ghapp.PRChange{}, create); err == nil || ghapp.ChecksRefused(err) {
		t.Errorf("no such commit: %v", err)
	}
}

// TestChecksInOneCall: what GitHub does not take costs nothing else, and the
// pull request is described by the way.
func TestChecksInOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	pr := opened(t, w)
	in := ghapp.CheckInput{Name: "Ralph", HeadOID: main, ExternalID: "r-1", Title: "x", Summary: "y"}
	first := writes(t, w.repo, ghapp.CheckWrite{CheckInput: in})

	closed := in
	closed.Conclusion = run.ConclusionNeutral
	before := len(w.Calls())
	out, err := w.repo.WriteChecks(ctx, ghapp.PRChange{ID: pr.NodeID, Body: "New"},
		ghapp.CheckWrite{CheckInput: in}, ghapp.CheckWrite{ID: "CR_gone", CheckInput: closed},
		ghapp.CheckWrite{ID: first, CheckInput: closed})
	if n := len(w.Calls()) - before; n != 1 {
		t.Errorf("%d calls, want one", n)
	}
	if !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("the one that is not there: %v", err)
	}
	if diff := cmp.Diff([]string{out.IDs[0], "", first}, out.IDs); diff != "" || out.IDs[0] == "" || out.IDs[0] == first {
		t.Errorf("ids %q (-want +got):\n%s", out.IDs, diff)
	}
	var states []string
	for _, c := range get[[]ghsim.CheckRun](t)(w.CheckRuns(owner, name)) {
		states = append(states, c.Status)
	}
	if diff := cmp.Diff([]string{"completed", "in_progress"}, states); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := get[ghapp.PR](t)(w.repo.PR(ctx, pr.Number)); got.Body != "New" || !out.Described {
		t.Errorf("described %v: %q", out.Described, got.Body)
	}

	// A text that is refused costs no check run.
	out, err = w.repo.WriteChecks(ctx, ghapp.PRChange{ID: pr.NodeID, Body: strings.Repeat("x", 65_537)},
		ghapp.CheckWrite{CheckInput: in})
	if err != nil || out.IDs[0] == "" || out.Described {
		t.Errorf("with a text that is too long: %+v, %v", out, err)
	}
}

// opened is a pull request of the App.
func opened(t *testing.T, w *world) ghapp.PR {
	t.Helper()
	ctx, main := t.Context(), w.head(t, "main")
	check(t, w.repo.CreateBranch(ctx, "ralph/7", main))
	get[ghapp.Commit](t)(w.repo.CreateCommit(ctx, ghapp.CommitInput{
		Branch: "ralph/7", ExpectedHead: main, Headline: "feat: a",
		Additions: []ghapp.FileAddition{{Path: "a", Content: []byte("a\n")}},
	}))
	return get[ghapp.PR](t)(w.repo.CreatePR(ctx,
		ghapp.PRInput{Title: "A flag", Head: "ralph/7", Base: "main", Body: "One\r\ntwo", Draft: true}))
}

// TestCommitReadsAlong: what comes with a commit is what REST says, and where
// there is nothing, the commit is made all the same.
func TestCommitReadsAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, pr := t.Context(), opened(t, w)
	for _, number := range []int{pr.Number, 404} {
		in := ghapp.CommitInput{
			Branch: "ralph/7", ExpectedHead: w.head(t, "ralph/7"), Headline: "feat: more", PR: number,
			Additions: []ghapp.FileAddition{{Path: "b", Content: []byte(strconv.Itoa(number))}},
		}
		made := get[ghapp.Commit](t)(w.repo.CreateCommit(ctx, in))
		if made.OID != w.head(t, "ralph/7") || !made.Verified {
			t.Errorf("commit %+v", made)
		}
		if number == 404 {
			if made.PR != nil {
				t.Errorf("read %+v", made.PR)
			}
			continue
		}
		want := get[ghapp.PR](t)(w.repo.PR(ctx, number))
		if diff := cmp.Diff(&want, made.PR); diff != "" {
			t.Errorf("not what REST says (-want +got):\n%s", diff)
		}
	}
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.head(t, "main")
	in := ghapp.CheckInput{Name: "Ralph", HeadOID: main, ExternalID: "r-1", Title: "x", Summary: "y", Annotations: []ghapp.Annotation{
		{Path: "a.go", Line: 3, Column: 2, Failure: true, Title: "vet", Message: "undefined: x"},
		{Path: "b.go", Line: 7, Title: "lint", Message: "unused"},
	}}
	id := writes(t, w.repo, ghapp.CheckWrite{CheckInput: in})
	want := []ghsim.Annotation{
		{
			Path: "a.go", StartLine: 3, EndLine: 3, StartColumn: 2, EndColumn: 2, Level: "failure", Title: "vet",
			Message: "undefined: x",
		},
		{Path: "b.go", StartLine: 7, EndLine: 7, Level: "warning", Title: "lint", Message: "unused"},
	}
	if diff := cmp.Diff(want, get[[]ghsim.CheckRun](t)(w.CheckRuns(owner, name))[0].Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := get[ghapp.FoundCheck](t)(w.repo.FindCheck(t.Context(), main, "Ralph",
		"r-1")); got != (ghapp.FoundCheck{ID: id, Annotations: 2}) {
		t.Errorf("found %+v", got)
	}
}
