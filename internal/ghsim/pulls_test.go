package ghsim_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/ghsim"
)

func TestWhatAMergeCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	for range 3 {
		must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Title", ""))
	}
	must[string](t)(w.Push(owner, name, "topic", "walt",
		ghsim.PushOptions{Message: "Work\n\nFixes #2", Files: map[string]string{"a.txt": "a"}}))
	pr, _, err := w.gh.PullRequests.Create(ctx, owner, name, &github.NewPullRequest{
		Title: github.String("T"), Head: github.String("topic"), Base: github.String("main"),
		Body: github.String("Closes #1, discloses #3, see #3"),
	})
	check(t, err)
	state := func(n int) string { return must[ghsim.Issue](t)(w.Issue(owner, name, n)).State }
	if state(1) != "open" {
		t.Fatal("closed before the merge")
	}
	check(t, w.Merge(owner, name, pr.GetNumber(), "walt"))
	if got := []string{state(1), state(2), state(3)}; !cmp.Equal(got, []string{"closed", "closed", "open"}) {
		t.Errorf("states after the merge: %v", got)
	}
	got := must[ghsim.PR](t)(w.PR(owner, name, pr.GetNumber()))
	if !got.Merged || got.State != "closed" || len(got.Commits) != 1 {
		t.Errorf("pull request after the merge: %+v", got)
	}
	refused(t, w.ReopenIssue(owner, name, pr.GetNumber(), "walt"), 422, "already been merged")
	if _, err := w.PR(owner, name, 1); err == nil {
		t.Error("an issue was read as a pull request")
	}
}

func TestConflictingPullRequestsDoNotMerge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	must[string](t)(w.Push(owner, name, "topic", "walt",
		ghsim.PushOptions{Files: map[string]string{"README.md": "one\n"}}))
	must[string](t)(w.Push(owner, name, "main", "walt", ghsim.PushOptions{Files: map[string]string{"README.md": "two\n"}}))
	pr, _, err := w.gh.PullRequests.Create(t.Context(), owner, name,
		&github.NewPullRequest{Title: github.String("T"), Head: github.String("topic"), Base: github.String("main")})
	check(t, err)
	refused(t, w.Merge(owner, name, pr.GetNumber(), "walt"), 405, "Pull Request is not mergeable")
}

func TestPullRequestsFollowTheirBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	pr := w.pull(t, "ralph/1", false)
	oid := must[string](t)(w.Push(owner, name, "ralph/1", "walt",
		ghsim.PushOptions{Message: "More", Files: map[string]string{"more.txt": "x"}}))
	got := must[ghsim.PR](t)(w.PR(owner, name, pr.GetNumber()))
	if got.HeadOID != oid || len(got.Commits) != 2 || got.Commits[1].Subject != "More" {
		t.Errorf("after a push: %+v", got)
	}
	check(t, w.DeleteBranch(owner, name, "ralph/1", "walt"))
	got = must[ghsim.PR](t)(w.PR(owner, name, pr.GetNumber()))
	if got.State != "closed" || got.Merged || len(got.Commits) != 2 {
		t.Errorf("after the branch is gone: %+v", got)
	}
	refused(t, w.ReopenIssue(owner, name, pr.GetNumber(), "walt"), 422, "has been deleted")
}

func TestCheckRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	main := w.head(t, "main")
	other := must[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{
		Slug: "rival", PrivateKeyPEM: w.app.PrivateKeyPEM, Permissions: map[string]string{"checks": "write"},
	}))
	in := must[ghsim.Installation](t)(w.Install(other.ID, owner+"/"+name))
	rival := w.client(t, must[string](t)(w.Token(in.ID, nil))).Checks
	// The same name by somebody else, and once more by the App itself.
	for i, checks := range []*github.ChecksService{w.gh.Checks, rival, w.gh.Checks} {
		o := github.CreateCheckRunOptions{Name: "ralph", HeadSHA: main, ExternalID: github.String(strconv.Itoa(i))}
		if i == 0 {
			o.Conclusion = github.String("success")
		}
		_, _, err := checks.CreateCheckRun(ctx, owner, name, o)
		check(t, err)
	}
	for _, tt := range []struct {
		o    github.ListCheckRunsOptions
		want []string
	}{
		{github.ListCheckRunsOptions{}, []string{"ralph 2", "rival 1"}},
		{github.ListCheckRunsOptions{AppID: &w.app.ID, Filter: github.String("all")}, []string{"ralph 2", "ralph 0"}},
		{github.ListCheckRunsOptions{Status: github.String("completed")}, nil},
	} {
		list, _, err := w.gh.Checks.ListCheckRunsForRef(ctx, owner, name, main, &tt.o)
		check(t, err)
		var got []string
		for _, c := range list.CheckRuns {
			got = append(got, c.GetApp().GetSlug()+" "+c.GetExternalID())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.o, diff)
		}
	}
}
