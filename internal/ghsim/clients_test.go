package ghsim_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"
	"github.com/palantir/go-githubapp/githubapp"
	"github.com/shurcooL/githubv4"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
)

const (
	owner = "acme"
	name  = "widgets"
)

// world is a GitHub with a repository, people and an installed App.
type world struct {
	*ghsim.Sim

	v    *ghsimtest.Validator
	app  ghsim.App
	in   ghsim.Installation
	repo ghsim.Repo
	gh   *github.Client   // of the installation, all permissions
	ql   *githubv4.Client // likewise
	jwt  *github.Client   // of the App
	as   map[string]*github.Client
}

func must[T any](t *testing.T) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func allPermissions() map[string]string {
	return map[string]string{"contents": "write", "issues": "write", "pull_requests": "write", "checks": "write"}
}

func allEvents() []string {
	return []string{
		"issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment", "push", "check_run",
	}
}

func newWorld(t *testing.T, o ghsim.Options) *world {
	t.Helper()
	sim, v := ghsimtest.Start(t, o)
	w := &world{Sim: sim, v: v, as: map[string]*github.Client{}}
	for login, role := range map[string]ghsim.Role{
		"ann": ghsim.RoleAdmin, "walt": ghsim.RoleWrite, "tia": ghsim.RoleTriage, "rex": ghsim.RoleRead,
		"olga": ghsim.RoleNone,
	} {
		u := must[ghsim.User](t)(sim.CreateUser(login))
		if w.repo.ID == 0 {
			w.repo = must[ghsim.Repo](t)(sim.CreateRepo(owner, name, ghsim.RepoOptions{
				Files: map[string]string{
					"README.md": "# Widgets\n", "run.sh": "#!/bin/sh\necho hi\n", "pkg/a.go": "package pkg\n",
				},
				Executables: []string{"run.sh"},
			}))
		}
		if role != ghsim.RoleNone {
			check(t, sim.SetPermission(owner, name, login, role))
		}
		w.as[login] = w.client(t, u.Token)
	}
	w.app = must[ghsim.App](t)(sim.CreateApp(ghsim.AppOptions{
		Slug: "ralph", PrivateKeyPEM: ghsimtest.Key(), Permissions: allPermissions(), Events: allEvents(),
	}))
	w.in = must[ghsim.Installation](t)(sim.Install(w.app.ID, owner+"/"+name))
	cc := githubapp.NewClientCreator(sim.URL()+"/api/v3/", sim.URL()+"/api/graphql", w.app.ID, w.app.PrivateKeyPEM)
	w.gh = must[*github.Client](t)(cc.NewInstallationClient(w.in.ID))
	w.ql = must[*githubv4.Client](t)(cc.NewInstallationV4Client(w.in.ID))
	w.jwt = must[*github.Client](t)(cc.NewAppClient())
	return w
}

// client is a REST client with a plain token.
func (w *world) client(t *testing.T, token string) *github.Client {
	t.Helper()
	c := must[*github.Client](t)(github.NewClient(nil).WithAuthToken(token).WithEnterpriseURLs(w.URL(), w.URL()))
	return c
}

// scoped is a client whose token is narrowed by ghinstallation.
func (w *world) scoped(t *testing.T, permissions *github.InstallationPermissions) *github.Client {
	t.Helper()
	tr := must[*ghinstallation.Transport](t)(ghinstallation.New(http.DefaultTransport, w.app.ID, w.in.ID,
		w.app.PrivateKeyPEM))
	tr.BaseURL = w.URL() + "/api/v3"
	tr.InstallationTokenOptions = &github.InstallationTokenOptions{Repositories: []string{name}, Permissions: permissions}
	return must[*github.Client](t)(github.NewClient(&http.Client{Transport: tr}).WithEnterpriseURLs(w.URL(), w.URL()))
}

func (w *world) head(t *testing.T, branch string) string {
	t.Helper()
	oid := must[map[string]string](t)(w.Branches(owner, name))[branch]
	if oid == "" {
		t.Fatalf("no branch %s", branch)
	}
	return oid
}

// branch makes a branch at main through the API.
func (w *world) branch(t *testing.T, branch string) string {
	t.Helper()
	oid := w.head(t, "main")
	_, _, err := w.gh.Git.CreateRef(t.Context(), owner, name,
		&github.Reference{Ref: github.String("refs/heads/" + branch), Object: &github.GitObject{SHA: &oid}})
	check(t, err)
	return oid
}

type commitMutation struct {
	CreateCommitOnBranch struct {
		Commit struct {
			Oid       string
			Signature struct {
				IsValid           bool
				WasSignedByGitHub bool
			}
			Author struct{ Name string }
			Tree   struct{ Oid string }
		}
	} `graphql:"createCommitOnBranch(input:$input)"`
}

func commitInput(branch, head, headline string) githubv4.CreateCommitOnBranchInput {
	return githubv4.CreateCommitOnBranchInput{
		Branch: githubv4.CommittableBranch{
			RepositoryNameWithOwner: githubv4.NewString(owner + "/" + name),
			BranchName:              githubv4.NewString(githubv4.String(branch)),
		},
		ExpectedHeadOid: githubv4.GitObjectID(head),
		Message:         githubv4.CommitMessage{Headline: githubv4.String(headline)},
		FileChanges:     &githubv4.FileChanges{},
	}
}

func (w *world) commit(ctx context.Context, in githubv4.CreateCommitOnBranchInput) (commitMutation, error) {
	var m commitMutation
	err := w.ql.Mutate(ctx, &m, in, nil)
	return m, err
}

// TestTheLifeOfAPullRequest drives everything the App does, with the App's own
// client libraries.
func TestTheLifeOfAPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	issue := must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Add a --json flag", "- [ ] one\n- [ ] two\n"))
	check(t, w.AddLabel(owner, name, issue.Number, "ann", "ralph"))

	got, _, err := w.gh.Issues.Get(ctx, owner, name, issue.Number)
	check(t, err)
	if got.GetTitle() != "Add a --json flag" || len(got.Labels) != 1 || got.Labels[0].GetName() != "ralph" {
		t.Fatalf("issue %+v", got)
	}
	_, _, err = w.gh.Reactions.CreateIssueReaction(ctx, owner, name, issue.Number, "eyes")
	check(t, err)
	level, _, err := w.gh.Repositories.GetPermissionLevel(ctx, owner, name, "ann")
	check(t, err)
	if level.GetPermission() != "admin" {
		t.Fatalf("permission %q", level.GetPermission())
	}

	head := w.branch(t, "ralph/1")
	in := commitInput("ralph/1", head, "T1: add the flag")
	in.FileChanges.Additions = &[]githubv4.FileAddition{{Path: "flag.go", Contents: "cGFja2FnZSBtYWluCg=="}}
	m := must[commitMutation](t)(w.commit(ctx, in))
	c := m.CreateCommitOnBranch.Commit
	if !c.Signature.IsValid || !c.Signature.WasSignedByGitHub || c.Author.Name != "ralph[bot]" {
		t.Fatalf("commit %+v", c)
	}
	b, _, err := w.gh.Repositories.GetBranch(ctx, owner, name, "ralph/1", 1)
	check(t, err)
	if b.GetCommit().GetSHA() != c.Oid || !b.GetCommit().GetCommit().GetVerification().GetVerified() {
		t.Fatalf("branch %+v", b.GetCommit())
	}

	pr, _, err := w.gh.PullRequests.Create(ctx, owner, name, &github.NewPullRequest{
		Title: github.String("Add a --json flag"), Head: github.String("ralph/1"), Base: github.String("main"),
		Body: github.String("- [ ] T1\n\nCloses #1"), Draft: github.Bool(true),
	})
	check(t, err)
	if !pr.GetDraft() || pr.GetCommits() != 1 || pr.GetUser().GetType() != "Bot" {
		t.Fatalf("pull request %+v", pr)
	}
	_, _, err = w.gh.PullRequests.Edit(ctx, owner, name, pr.GetNumber(),
		&github.PullRequest{Body: github.String("- [x] T1\n\nCloses #1")})
	check(t, err)
	_, _, err = w.gh.Checks.CreateCheckRun(ctx, owner, name,
		github.CreateCheckRunOptions{Name: "ralph", HeadSHA: c.Oid, Status: github.String("in_progress")})
	check(t, err)

	if err := w.Merge(owner, name, pr.GetNumber(), "walt"); err == nil {
		t.Fatal("a draft was merged")
	}
	var ready struct {
		MarkPullRequestReadyForReview struct{ PullRequest struct{ IsDraft bool } } `graphql:"markPullRequestReadyForReview(input:$input)"`
	}
	check(t, w.ql.Mutate(ctx, &ready, githubv4.MarkPullRequestReadyForReviewInput{PullRequestID: pr.GetNodeID()}, nil))
	if ready.MarkPullRequestReadyForReview.PullRequest.IsDraft {
		t.Fatal("still a draft")
	}
	check(t, w.Merge(owner, name, pr.GetNumber(), "walt"))
	if after := must[ghsim.Issue](t)(w.Issue(owner, name, 1)); after.State != "closed" ||
		after.Reactions[0].User != "ralph[bot]" {
		t.Fatalf("issue after the merge: %+v", after)
	}
}
