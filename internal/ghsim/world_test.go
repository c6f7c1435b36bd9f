package ghsim_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"
	"github.com/palantir/go-githubapp/githubapp"

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

	app  ghsim.App
	in   ghsim.Installation
	repo ghsim.Repo
	gh   *github.Client // of the installation, all permissions
	jwt  *github.Client // of the App
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

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
		"issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment", "check_run",
	}
}

func newWorld(t *testing.T, o ghsim.Options) *world {
	t.Helper()
	sim := ghsimtest.Start(t, o)
	w := &world{Sim: sim}
	for login, role := range map[string]ghsim.Role{
		"ann": ghsim.RoleAdmin, "walt": ghsim.RoleWrite, "tia": ghsim.RoleTriage, "rex": ghsim.RoleRead,
		"olga": ghsim.RoleNone,
	} {
		must[ghsim.User](t)(sim.CreateUser(login))
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
	}
	w.app = must[ghsim.App](t)(sim.CreateApp(ghsim.AppOptions{
		Slug: "ralph", PrivateKeyPEM: ghsimtest.Key(), Permissions: allPermissions(), Events: allEvents(),
	}))
	w.in = must[ghsim.Installation](t)(sim.Install(w.app.ID, owner+"/"+name))
	cc := githubapp.NewClientCreator(sim.URL()+"/api/v3/", sim.URL()+"/api/graphql", w.app.ID, w.app.PrivateKeyPEM)
	w.gh = must[*github.Client](t)(cc.NewInstallationClient(w.in.ID))
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
