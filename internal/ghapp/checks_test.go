package ghapp_test

import (
	"testing"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// makeCheck makes the check run of a run.
func makeCheck(t *testing.T, repo *ghapp.Repo, head, externalID string) {
	t.Helper()
	check(t, repo.CreateCheck(t.Context(), ghapp.CheckInput{
		Name: "Ralph", HeadOID: head, ExternalID: externalID, Conclusion: run.ConclusionSuccess, Title: "x", Summary: "y",
	}))
}

// TestFindCheckFindsOwnOnly: the same name and id by another App mean nothing. A job knows
// no App, and yet finds what its token has made.
func TestFindCheckFindsOwnOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.head(t, "main")
	other := get[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{
		Slug: "github-actions", PrivateKeyPEM: w.appInfo.PrivateKeyPEM, Permissions: ghapp.Permissions(),
	}))
	in := get[ghsim.Installation](t)(w.Install(other.ID, owner+"/"+name))
	rival := get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3", AppID: other.ID, PrivateKey: other.PrivateKeyPEM,
	})).Repo(in.ID, owner, name)
	job := get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3", Token: get[string](t)(w.Token(in.ID, nil)),
	})).Repo(in.ID, owner, name)
	for who, c := range map[string]struct{ own, foreign *ghapp.Repo }{
		"App": {w.repo, rival}, "job": {job, w.repo},
	} {
		id := "r-" + who
		found := func() bool { return get[bool](t)(c.own.FindCheck(t.Context(), main, "Ralph", id)) }
		makeCheck(t, c.foreign, main, id)
		makeCheck(t, c.own, main, id+"-2") // another run's
		if found() {
			t.Errorf("%s: found what is not its own", who)
		}
		makeCheck(t, c.own, main, id)
		if !found() {
			t.Errorf("%s: did not find its own", who)
		}
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
	input := ghapp.CheckInput{
		Name: "Ralph", HeadOID: main, ExternalID: "r-1", Conclusion: run.ConclusionSuccess, Title: "x", Summary: "y",
	}
	_, findErr := repo.FindCheck(ctx, main, "Ralph", "r-1")
	for what, err := range map[string]error{"create": repo.CreateCheck(ctx, input), "find": findErr} {
		if !ghapp.ChecksRefused(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check(t, repo.CreateBranch(ctx, "ralph/7", main))

	for body, refused := range map[string]bool{
		`{"message":"Resource not accessible by integration"}`:   true,
		`{"message":"You have exceeded a secondary rate limit"}`: false,
	} {
		check(t, w.Inject(ghsim.Fault{Method: "POST", Match: "/check-runs$", Status: 403, Body: body}))
		if err := w.repo.CreateCheck(ctx, input); err == nil || ghapp.ChecksRefused(err) != refused {
			t.Errorf("%s: %v", body, err)
		}
	}
	input.HeadOID = "0123456789012345678901234567890123456789"
	if err := w.repo.CreateCheck(ctx, input); err == nil || ghapp.ChecksRefused(err) {
		t.Errorf("no such commit: %v", err)
	}
}
