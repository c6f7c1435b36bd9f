package ghsim_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/ghsim"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	issue := must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Title", ""))
	comment := func() error {
		_, _, err := w.gh.Issues.CreateComment(ctx, owner, name, issue.Number,
			&github.IssueComment{Body: github.String("hello")})
		return err
	}
	comments := func() int { return len(must[ghsim.Issue](t)(w.Issue(owner, name, issue.Number)).Comments) }

	check(t, w.Inject(ghsim.Fault{
		Method: "POST", Match: `/comments$`, Times: 2, Status: 403, Header: map[string]string{"Retry-After": "7"},
		Body: `{"message":"You have exceeded a secondary rate limit","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`,
	}))
	for range 2 {
		var limit *github.AbuseRateLimitError
		if err := comment(); !errors.As(err, &limit) || limit.GetRetryAfter() != 7*time.Second {
			t.Errorf("got %v, want a secondary rate limit", err)
		}
		// go-github remembers the limit; a person's client does not know of it.
		w.gh = w.client(t, must[string](t)(w.Token(w.in.ID, nil)))
	}
	check(t, comment())
	if n := comments(); n != 1 {
		t.Errorf("%d comments after two refusals and one success", n)
	}

	check(t, w.Inject(ghsim.Fault{Method: "POST", Match: `/comments$`, Drop: true}))
	if err := comment(); err == nil || comments() != 1 {
		t.Errorf("dropped before the work: %v, %d comments", err, comments())
	}
	check(t, w.Inject(ghsim.Fault{Method: "POST", Match: `/comments$`, Drop: true, After: true}))
	if err := comment(); err == nil || comments() != 2 {
		t.Errorf("dropped after the work: %v, %d comments", err, comments())
	}
	check(t, w.Inject(ghsim.Fault{Match: `^/graphql createCommitOnBranch$`, Status: 502, Body: "bad gateway"}))
	head := w.branch(t, "ralph/1")
	token := must[string](t)(w.Token(w.in.ID, nil))
	if resp, _ := w.do(t, "POST", "/api/graphql", token, commitRequest(head)); resp.StatusCode != 502 ||
		w.head(t, "ralph/1") != head {
		t.Errorf("a bad gateway committed: %s", resp.Status)
	}

	hold := make(chan struct{})
	check(t, w.Inject(ghsim.Fault{Match: `/comments$`, Hold: hold}))
	done := make(chan error, 1)
	go func() { done <- comment() }()
	// Others are served while one call is held.
	_, _, err := w.gh.Repositories.Get(ctx, owner, name)
	check(t, err)
	if n := comments(); n != 2 {
		t.Errorf("%d comments while the third is held", n)
	}
	close(hold)
	check(t, <-done)
	if err := w.Inject(ghsim.Fault{Match: "("}); err == nil {
		t.Error("a broken pattern was taken")
	}
}

func TestCallLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	w.do(t, "GET", "/api/v3/repos/acme/widgets/branches/main", "", nil)
	token, _, err := w.jwt.Apps.CreateInstallationToken(t.Context(), w.in.ID, nil)
	check(t, err)
	if data, _ := w.query(t, token.GetToken(), `{viewer{login}}`, nil); !strings.Contains(fmt.Sprint(data), "ralph[bot]") {
		t.Errorf("viewer %v", data)
	}
	calls := w.Calls()
	in := fmt.Sprintf("installation:%d/token:", w.in.ID)
	for i := range calls {
		calls[i].At = time.Time{}
		if strings.HasPrefix(calls[i].Caller, in) {
			calls[i].Caller = in
		}
	}
	want := []ghsim.Call{
		{
			Kind: "rest", Method: "GET", Route: "/repos/{owner}/{repo}/branches/{branch}",
			Path: "/repos/acme/widgets/branches/main", Caller: "anonymous", Status: 200,
		},
		{
			Kind: "rest", Method: "POST", Route: "/app/installations/{installation_id}/access_tokens",
			Path: fmt.Sprintf("/app/installations/%d/access_tokens", w.in.ID), Caller: fmt.Sprintf("app:%d", w.app.ID),
			Status: 201,
		},
		{Kind: "graphql", Method: "POST", Route: "query viewer", Path: "/graphql", Caller: in, Status: 200},
	}
	if d := cmp.Diff(want, calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if n := w.CallCounts()["query viewer"]; n != 1 {
		t.Errorf("query viewer counted %d times", n)
	}
}

// TestGitHubDoesNotKnow asks for what GitHub has and this package does not serve: the answer is a 404, never a
// made-up success.
func TestGitHubDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	for _, path := range []string{
		"/api/v3/user", "/api/v3/repos/a/b", "/api/v3/repos/a%2Fb", "/api/v3/../_sim/calls", "/_sim/nothing",
		"/acme/widgets.git/objects/info/packs",
	} {
		if resp, _ := w.do(t, http.MethodGet, path, "", nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}
