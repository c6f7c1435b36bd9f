//go:build live

package ghapp_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/ghapp"
)

// TestLive finds out on GitHub itself what docs/security.md lists; CONTRIBUTING.md says how.
func TestLive(t *testing.T) {
	env := map[string]string{}
	var missing []string
	for _, key := range []string{"RALPH_LIVE_APP_ID", "RALPH_LIVE_KEY_FILE", "RALPH_LIVE_REPOSITORY"} {
		if env[key] = os.Getenv(key); env[key] == "" {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		t.Fatalf("%s: not set. Name an App and a repository to throw away; CONTRIBUTING.md says how",
			strings.Join(missing, ", "))
	}
	owner, name, ok := strings.Cut(env["RALPH_LIVE_REPOSITORY"], "/")
	id, err := strconv.ParseInt(env["RALPH_LIVE_APP_ID"], 10, 64)
	if err != nil || !ok {
		t.Fatalf("RALPH_LIVE_APP_ID is a number and RALPH_LIVE_REPOSITORY is OWNER/NAME")
	}
	key := get[[]byte](t)(os.ReadFile(env["RALPH_LIVE_KEY_FILE"]))
	api := strings.TrimSuffix(os.Getenv("RALPH_LIVE_API_URL"), "/")
	app := get[*ghapp.App](t)(ghapp.New(ghapp.Config{APIURL: api, AppID: id, PrivateKey: key}))
	var installation int64
	for _, in := range get[[]ghapp.Installation](t)(app.Installations(t.Context())) {
		if strings.EqualFold(in.Account, owner) {
			installation = in.ID
		}
	}
	if installation == 0 {
		t.Fatalf("the App is not installed on %s", owner)
	}
	base := ""
	for _, r := range get[[]ghapp.Repository](t)(app.Repositories(t.Context(), installation)) {
		if strings.EqualFold(r.Name, name) {
			base = r.DefaultBranch
		}
	}
	liveChecks(t, liveTarget{
		app: app, repo: app.Repo(installation, owner, name), base: base, branch: "live-check-" + strconv.FormatInt(time.Now().Unix(), 10),
		files: 1000, bytes: 25 << 20, patience: 5 * time.Minute,
		converse: func(ctx context.Context, t *testing.T, pr int, head string) {
			tr := get[*ghinstallation.Transport](t)(ghinstallation.New(http.DefaultTransport, id, installation, key))
			client := github.NewClient(&http.Client{Transport: tr, Timeout: time.Minute})
			if api != "" {
				tr.BaseURL = api
				client.BaseURL = get[*url.URL](t)(client.BaseURL.Parse(api + "/"))
			}
			_, _, err := client.PullRequests.CreateComment(ctx, owner, name, pr, &github.PullRequestComment{
				Body: github.String("A check."), CommitID: &head, Path: github.String("live-check.txt"), Line: github.Int(1),
				Side: github.String("RIGHT"),
			})
			check(t, err)
		},
	})
}
