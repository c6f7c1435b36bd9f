package ghapp_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

func TestCheckRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	in := ghapp.CheckInput{
		Name: "Ralph", HeadOID: main, ExternalID: "r-1", DetailsURL: w.URL() + "/acme/widgets/pull/8",
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Title: "1 of 2 tasks", Summary: "Working",
	}
	id := get[int64](t)(w.repo.CreateCheck(ctx, in))
	want := ghsim.CheckRun{ID: id, Name: "Ralph", HeadOID: main, ExternalID: "r-1", Status: "in_progress", Title: "1 of 2 tasks", Summary: "Working"}
	shown := func() {
		t.Helper()
		if diff := cmp.Diff([]ghsim.CheckRun{want}, get[[]ghsim.CheckRun](t)(w.CheckRuns(owner, name))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	shown()
	in.Conclusion, in.Title, in.Summary = run.ConclusionTimedOut, "Late", "Stopped"
	check(t, w.repo.UpdateCheck(ctx, id, in))
	want.Status, want.Conclusion, want.Title, want.Summary = "completed", "timed_out", "Late", "Stopped"
	shown()
	if got := get[int64](t)(w.repo.FindCheck(ctx, main, "Ralph", "r-1")); got != id {
		t.Errorf("found %d, want %d", got, id)
	}
	if got := w.countCalls(mintRoute); got != 1 {
		t.Errorf("%d tokens minted, want one for check runs", got)
	}
}

// TestFindCheckFindsOwnOnly: the same name and id by another App mean nothing.
func TestFindCheckFindsOwnOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	other := get[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{Slug: "other", PrivateKeyPEM: w.appInfo.PrivateKeyPEM, Permissions: map[string]string{"checks": "write"}}))
	in := get[ghsim.Installation](t)(w.Install(other.ID, owner+"/"+name))
	rival := get[*ghapp.App](t)(ghapp.New(ghapp.Config{APIURL: w.URL() + "/api/v3", AppID: other.ID, PrivateKey: other.PrivateKeyPEM})).Repo(in.ID, owner, name)
	get[int64](t)(rival.CreateCheck(ctx, ghapp.CheckInput{Name: "Ralph", HeadOID: main, ExternalID: "r-1", Title: "x", Summary: "y"}))
	if id, err := w.repo.FindCheck(ctx, main, "Ralph", "r-1"); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("found %d, %v", id, err)
	}
	// Nor does one of another run, be it newer.
	own := get[int64](t)(w.repo.CreateCheck(ctx, ghapp.CheckInput{Name: "Ralph", HeadOID: main, ExternalID: "r-1", Title: "x", Summary: "y"}))
	get[int64](t)(w.repo.CreateCheck(ctx, ghapp.CheckInput{Name: "Ralph", HeadOID: main, ExternalID: "r-2", Title: "x", Summary: "y"}))
	if got := get[int64](t)(w.repo.FindCheck(ctx, main, "Ralph", "r-1")); got != own {
		t.Errorf("found %d, want %d", got, own)
	}
}

// TestWithoutChecksPermission: check runs are refused, and nothing else is.
func TestWithoutChecksPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	poor := get[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{
		Slug: "poor", PrivateKeyPEM: w.appInfo.PrivateKeyPEM, Permissions: map[string]string{"contents": "write", "issues": "write", "pull_requests": "write"},
	}))
	in := get[ghsim.Installation](t)(w.Install(poor.ID, owner+"/"+name))
	repo := get[*ghapp.App](t)(ghapp.New(ghapp.Config{APIURL: w.URL() + "/api/v3", AppID: poor.ID, PrivateKey: poor.PrivateKeyPEM})).Repo(in.ID, owner, name)
	input := ghapp.CheckInput{Name: "Ralph", HeadOID: main, ExternalID: "r-1", Title: "x", Summary: "y"}
	_, createErr := repo.CreateCheck(ctx, input)
	_, findErr := repo.FindCheck(ctx, main, "Ralph", "r-1")
	for what, err := range map[string]error{"create": createErr, "find": findErr, "update": repo.UpdateCheck(ctx, 1, input)} {
		if !ghapp.ChecksRefused(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check(t, repo.CreateBranch(ctx, "ralph/7", main))

	check(t, w.Inject(ghsim.Fault{Match: "/check-runs$", Status: 403, Body: `{"message":"Resource not accessible by integration"}`}))
	if _, err := w.repo.CreateCheck(ctx, input); !ghapp.ChecksRefused(err) {
		t.Errorf("refused with a token: %v", err)
	}
	// Neither of these is a matter of permissions.
	check(t, w.Inject(ghsim.Fault{Match: "/check-runs$", Status: 403, Body: `{"message":"You have exceeded a secondary rate limit"}`}))
	if _, err := w.repo.CreateCheck(ctx, input); err == nil || ghapp.ChecksRefused(err) {
		t.Errorf("limited: %v", err)
	}
	input.HeadOID = main[:39] + "x"
	if _, err := w.repo.CreateCheck(ctx, input); err == nil || ghapp.ChecksRefused(err) {
		t.Errorf("no such commit: %v", err)
	}
}
