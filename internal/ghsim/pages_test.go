package ghsim_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/ghsim"
)

// page fetches a page as a browser would.
func (w *world) page(t *testing.T, path string) (int, http.Header, string) {
	t.Helper()
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL()+path, nil))
	resp := must[*http.Response](t)(http.DefaultClient.Do(req))
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, resp.Header, string(must[[]byte](t)(io.ReadAll(resp.Body)))
}

func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Add a flag <script>", "- [ ] one\n- [x] two\n", "ralph"))
	_, _, err := w.gh.Reactions.CreateIssueReaction(ctx, owner, name, 1, "eyes")
	check(t, err)
	token := must[string](t)(w.Token(w.in.ID, nil))
	w.do(t, "POST", "/api/graphql", token, commitRequest(w.branch(t, "ralph/1")))
	must[string](t)(w.Push(owner, name, "ralph/1", "walt",
		ghsim.PushOptions{Message: "By hand <b>", Files: map[string]string{"b.txt": "b"}}))
	pr, _, err := w.gh.PullRequests.Create(ctx, owner, name, &github.NewPullRequest{
		Title: github.String("The flag"), Head: github.String("ralph/1"), Base: github.String("main"),
		Body:  github.String("- [x] T1\n\n<details>\n<summary>More</summary>\n\nInner\n\n</details>\n<!-- mark -->\n"),
		Draft: github.Bool(true),
	})
	check(t, err)
	must[ghsim.Review](t)(w.Review(owner, name, pr.GetNumber(), "walt", "CHANGES_REQUESTED", "Not `yet`",
		ghsim.ReviewLine{Path: "b.txt", Line: 1, Body: "Why?"}))
	c, _, err := w.gh.Checks.CreateCheckRun(ctx, owner, name, github.CreateCheckRunOptions{
		Name: "ralph", HeadSHA: pr.GetHead().GetSHA(), Conclusion: github.String("action_required"),
		Output: &github.CheckRunOutput{
			Title: github.String("On it"), Summary: github.String("## Summary"), Text: github.String("Details"),
			Annotations: []*github.CheckRunAnnotation{{
				Path: github.String("b.txt"), StartLine: github.Int(1), EndLine: github.Int(1),
				AnnotationLevel: github.String("warning"), Message: github.String("Careful <i>"),
			}},
		},
		Actions: []*github.CheckRunAction{{Label: "Stop it", Identifier: "stop", Description: "stops"}},
	})
	check(t, err)

	contains := func(path string, wants ...string) {
		t.Helper()
		status, header, body := w.page(t, path)
		if status != http.StatusOK {
			t.Fatalf("%s: status %d: %s", path, status, body)
		}
		// What is written may hold any HTML: nothing of it runs, loads, submits or refreshes.
		csp := header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'; style-src 'nonce-") || strings.Contains(csp, "unsafe") ||
			!strings.HasSuffix(csp, "base-uri 'none'; frame-ancestors 'none'; form-action 'none'; sandbox") {
			t.Errorf("%s: policy %q", path, csp)
		}
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in\n%s", path, want, body[strings.Index(body, "<body>"):])
			}
		}
	}
	contains("/", `<a href="`+pr.GetHTMLURL()+`">acme/widgets#2</a>`, "Add a flag &lt;script&gt;")
	contains("/acme/widgets/issues/1", `<span class="state open">open</span>`, `<input disabled="" type="checkbox">`,
		`<input checked="" disabled="" type="checkbox">`, `<span class="pill">ralph</span>`, "👀 1")
	pull := "/acme/widgets/pull/2"
	contains(pull, `<span class="state draft">draft</span>`, "main ← ralph/1, 2 commits", ">Verified<", ": T1",
		": By hand &lt;b&gt;", "requested changes", "<summary>More</summary>", "<p>Why?</p>",
		`>ralph</a> <span class="muted">action required · On it`)
	contains("/acme/widgets/runs/"+itoa(c.GetID()), "! action required · On it, by ralph[bot]", "<h2>Summary</h2>",
		"<p>Details</p>", "Stop it</button>", "<code>b.txt</code>, line 1: warning", "Careful &lt;i&gt;")
	contains("/acme/widgets/commit/"+pr.GetHead().GetSHA(), "By hand &lt;b&gt;", "b.txt | 1", "&#43;b")
	w.query(t, token, `mutation($id:ID!){markPullRequestReadyForReview(input:{pullRequestId:$id}){clientMutationId}}`,
		map[string]any{"id": pr.GetNodeID()})
	check(t, w.Merge(owner, name, 2, "walt"))
	contains(pull, `<span class="state merged">merged</span>`, "marked this pull request as ready", "merged commit")

	for _, path := range []string{
		"/acme/widgets/issues/99", "/acme/widgets/pull/x", "/acme/gadgets/issues/1", "/acme/widgets",
		"/acme/widgets/runs/1", "/acme/widgets/settings/hooks", "/acme/widgets/commit/--help",
	} {
		if status, _, _ := w.page(t, path); status != http.StatusNotFound {
			t.Errorf("%s: status %d", path, status)
		}
	}
}

func TestAdminAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	call := func(method, path string, body any, status int) map[string]any {
		t.Helper()
		resp, out := w.do(t, method, "/_sim"+path, "", body)
		if resp.StatusCode != status {
			t.Fatalf("%s %s: status %d, want %d: %v", method, path, resp.StatusCode, status, out)
		}
		return out
	}
	type m = map[string]any
	call("POST", "/users", m{"login": "zoe"}, 200)
	call("POST", "/users", m{"login": "zoe"}, 422)
	call("POST", "/users", m{"login": "big", "organization": true}, 200)
	repo := call("POST", "/repos/big/house", m{"files": m{"README.md": "# House\n"}}, 200)
	if repo["clone_url"] != w.URL()+"/big/house.git" {
		t.Errorf("repository %v", repo)
	}
	call("PUT", "/repos/big/house/permissions/zoe", m{"role": "write"}, 200)
	call("PUT", "/repos/big/house/permissions/zoe", m{"role": "king"}, 422)
	app := call("POST", "/apps", m{
		"slug": "helper", "permissions": m{"issues": "write"}, "events": []string{"issues"},
		"private_key_pem": w.app.PrivateKeyPEM,
	}, 200)
	id, _ := app["id"].(float64)
	appPath := "/apps/" + itoa(int64(id))
	call("POST", appPath+"/hook", m{"url": w.URL() + "/nowhere"}, 200)
	call("POST", appPath+"/installations", m{"repositories": []string{"big/house"}}, 200)
	call("POST", "/repos/big/house/issues", m{
		"user": "zoe", "title": "Hello", "body": "World", "labels": []string{"ralph"},
	}, 200)
	call("POST", "/repos/big/house/issues/1/labels", m{"user": "zoe", "label": "extra"}, 200)
	call("DELETE", "/repos/big/house/issues/1/labels", m{"user": "zoe", "label": "extra"}, 200)
	call("POST", "/repos/big/house/issues/1/labels", m{"user": "ann", "label": "extra"}, 403)
	call("POST", "/repos/big/house/issues/1/comments", m{"user": "ann", "body": "Me too"}, 200)
	call("PATCH", "/repos/big/house/issues/1", m{"user": "zoe", "title": "Hello there"}, 200)
	call("POST", "/repos/big/house/issues/1/close", m{"user": "zoe"}, 200)
	call("POST", "/repos/big/house/issues/1/reopen", m{"user": "zoe"}, 200)
	call("POST", "/repos/big/house/issues/1/lock", m{"user": "zoe", "locked": true}, 200)
	call("POST", "/repos/big/house/issues/1/comments", m{"user": "ann", "body": "Me three"}, 403)
	call("POST", "/repos/big/house/push/topic/one", m{"user": "zoe", "message": "Topic", "files": m{"a": "b"}}, 200)
	call("POST", "/idle", m{}, 200)
	issue := call("GET", "/repos/big/house/issues/1", nil, 200)
	if issue["title"] != "Hello there" || issue["state"] != "open" || len(issue["comments"].([]any)) != 1 ||
		issue["body"] != "World" {
		t.Errorf("issue %v", issue)
	}
	call("GET", "/repos/big/house/issues", nil, 200)
	call("GET", "/repos/big/house/commits/topic/one", nil, 200)
	if branches := call("GET", "/repos/big/house/branches", nil, 200); branches["topic/one"] == nil {
		t.Errorf("branches %v", branches)
	}
	call("GET", appPath+"/deliveries", nil, 200)
	all := must[[]ghsim.Delivery](t)(w.Deliveries(int64(id)))
	call("POST", appPath+"/deliveries/"+itoa(all[0].ID)+"/redeliver", m{}, 200)
	call("POST", "/faults", m{"match": "^/rate_limit$", "status": 503, "body": "{}"}, 200)
	if resp, _ := w.do(t, "GET", "/api/v3/rate_limit", "", nil); resp.StatusCode != 503 {
		t.Errorf("fault answered %d", resp.StatusCode)
	}
	if counts := call("GET", "/calls/counts", nil, 200); counts["GET /rate_limit"] != 1.0 {
		t.Errorf("counts %v", counts)
	}
	call("GET", "/calls", nil, 200)
	call("POST", "/tokens/expire", m{}, 200)
	call("GET", "/repos/big/house/pulls", nil, 200)
	call("GET", "/repos/big/house/checks", nil, 200)
	call("GET", "/repos/big/house/pulls/1", nil, 404)
	call("POST", "/repos/big/house/pulls/1/merge", m{"user": "zoe"}, 404)
	call("POST", "/repos/big/house/pulls/1/reviews", m{"user": "zoe", "state": "APPROVED"}, 404)
	// A typing error does not pass in silence, nor does another page's form.
	call("POST", "/users", m{"logn": "x"}, 400)
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL()+"/_sim/users",
		strings.NewReader(`{"login":"form"}`)))
	req.Header.Set("Content-Type", "text/plain")
	resp := must[*http.Response](t)(http.DefaultClient.Do(req))
	check(t, resp.Body.Close())
	if resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("a form was taken: %d", resp.StatusCode)
	}
}
