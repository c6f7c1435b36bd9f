package ghsim_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/ghsim"
)

// TestEveryOperation calls each REST operation once, so that GitHub's
// description has seen a good request and a good answer of it.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	r := newReceiver(t, w.app.WebhookSecret)
	check(t, w.SetHook(w.app.ID, r.URL, ""))
	check(t, w.SetRules(owner, name, "required_signatures", "creation"))
	token, jwt := must[string](t)(w.Token(w.in.ID, nil)), appJWT(t, w)
	spare := must[string](t)(w.Token(w.in.ID, nil))
	must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "First", "Body", "ralph"))
	w.idle(t)
	delivery := must[[]ghsim.Delivery](t)(w.Deliveries(w.app.ID))[0].ID
	must[string](t)(w.Push(owner, name, "topic/a", "walt", ghsim.PushOptions{Files: map[string]string{"a": "a"}}))
	main, topic := w.head(t, "main"), w.head(t, "topic/a")
	tree := must[[]ghsim.Commit](t)(w.BranchCommits(owner, name, "main"))[0].Tree

	type m = map[string]any
	ids := map[string]string{}
	const repo = "/repos/acme/widgets"
	for _, step := range []struct {
		op     string // method and template
		path   string // {x} stands for an id saved by an earlier step
		body   any
		status int
		save   string // name for the id of the answer
		token  string // empty means the installation's, "none" none
	}{
		{"GET /app", "/app", nil, 200, "", jwt},
		{
			"POST /app-manifests/{code}/conversions", "/app-manifests/" + manifestCode(t, w) + "/conversions", nil, 201, "",
			"none",
		},
		{"GET /app/hook/config", "/app/hook/config", nil, 200, "", jwt},
		{"GET /app/installations", "/app/installations", nil, 200, "", jwt},
		{"GET /app/installations/{installation_id}", "/app/installations/" + itoa(w.in.ID), nil, 200, "", jwt},
		{
			"POST /app/installations/{installation_id}/access_tokens", "/app/installations/" + itoa(w.in.ID) + "/access_tokens",
			m{"repository_ids": []int64{w.repo.ID}, "permissions": m{"issues": "read"}}, 201, "", jwt,
		},
		{"GET /repos/{owner}/{repo}/installation", repo + "/installation", nil, 200, "", jwt},
		{"GET /app/hook/deliveries", "/app/hook/deliveries?per_page=1", nil, 200, "", jwt},
		{"GET /app/hook/deliveries/{delivery_id}", "/app/hook/deliveries/" + itoa(delivery), nil, 200, "", jwt},
		{
			"POST /app/hook/deliveries/{delivery_id}/attempts", "/app/hook/deliveries/" + itoa(delivery) + "/attempts", nil, 202,
			"", jwt,
		},
		{"GET /installation/repositories", "/installation/repositories", nil, 200, "", ""},
		{"DELETE /installation/token", "/installation/token", nil, 204, "", spare},
		{"GET /rate_limit", "/rate_limit", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}", repo, nil, 200, "", ""},
		{
			"GET /repos/{owner}/{repo}/collaborators/{username}/permission", repo + "/collaborators/walt/permission", nil, 200,
			"", "",
		},
		{"GET /repos/{owner}/{repo}/rules/branches/{branch}", repo + "/rules/branches/topic/a", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/branches/{branch}", repo + "/branches/topic/a", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/commits", repo + "/commits?sha=topic/a&per_page=1&page=2", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/commits/{ref}", repo + "/commits/topic/a", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/compare/{basehead}", repo + "/compare/main...topic/a", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/contents/{path}", repo + "/contents/pkg/a.go?ref=topic/a", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/git/ref/{ref}", repo + "/git/ref/heads/topic/a", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/git/matching-refs/{ref}", repo + "/git/matching-refs/heads/to", nil, 200, "", ""},
		{"POST /repos/{owner}/{repo}/git/refs", repo + "/git/refs", m{"ref": "refs/heads/new/b", "sha": main}, 201, "", ""},
		{"PATCH /repos/{owner}/{repo}/git/refs/{ref}", repo + "/git/refs/heads/new/b", m{"sha": topic}, 200, "", ""},
		{"DELETE /repos/{owner}/{repo}/git/refs/{ref}", repo + "/git/refs/heads/new/b", nil, 204, "", ""},
		{"POST /repos/{owner}/{repo}/git/blobs", repo + "/git/blobs", m{"content": "hello"}, 201, "blob", ""},
		{"GET /repos/{owner}/{repo}/git/blobs/{file_sha}", repo + "/git/blobs/{blob}", nil, 200, "", ""},
		{
			"POST /repos/{owner}/{repo}/git/trees", repo + "/git/trees",
			m{"base_tree": tree, "tree": []m{{"path": "b", "mode": "100755", "type": "blob", "content": "b"}}}, 201, "tree", "",
		},
		{"GET /repos/{owner}/{repo}/git/trees/{tree_sha}", repo + "/git/trees/{tree}?recursive=1", nil, 200, "", ""},
		{
			"POST /repos/{owner}/{repo}/git/commits", repo + "/git/commits",
			m{"message": "m", "tree": tree, "parents": []string{main}}, 201, "commit", "",
		},
		{"GET /repos/{owner}/{repo}/git/commits/{commit_sha}", repo + "/git/commits/{commit}", nil, 200, "", ""},
		{
			"POST /repos/{owner}/{repo}/check-runs", repo + "/check-runs",
			m{
				"name": "ralph", "head_sha": topic, "started_at": "2026-01-02T03:04:05Z", "details_url": "https://example.com/run",
			},
			201, "check", "",
		},
		{
			"PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}", repo + "/check-runs/{check}",
			m{"status": "completed", "conclusion": "neutral", "output": m{"title": "t", "summary": "s"}}, 200, "", "",
		},
		{"GET /repos/{owner}/{repo}/check-runs/{check_run_id}", repo + "/check-runs/{check}", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/commits/{ref}/check-runs", repo + "/commits/topic/a/check-runs", nil, 200, "", ""},
		{
			"POST /repos/{owner}/{repo}/labels", repo + "/labels",
			m{"name": "ralph:done", "color": "00ff00", "description": "Done"}, 201, "", "",
		},
		{"GET /repos/{owner}/{repo}/labels", repo + "/labels", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/labels/{name}", repo + "/labels/ralph:done", nil, 200, "", ""},
		{"POST /repos/{owner}/{repo}/issues", repo + "/issues", m{"title": "Second", "labels": []string{"bug"}}, 201, "", ""},
		{
			"GET /repos/{owner}/{repo}/issues", repo + "/issues?labels=ralph&since=2020-01-01T00:00:00Z&sort=updated", nil, 200,
			"", "",
		},
		{"GET /repos/{owner}/{repo}/issues/{issue_number}", repo + "/issues/2", nil, 200, "", ""},
		{
			"PATCH /repos/{owner}/{repo}/issues/{issue_number}", repo + "/issues/2",
			m{"title": "2nd", "labels": []string{"ralph"}, "state": "closed", "state_reason": "not_planned"}, 200, "", "",
		},
		{
			"POST /repos/{owner}/{repo}/issues/{issue_number}/comments", repo + "/issues/1/comments", m{"body": "hello"}, 201,
			"comment", "",
		},
		{
			"GET /repos/{owner}/{repo}/issues/{issue_number}/comments", repo + "/issues/1/comments?since=2020-01-01T00:00:00Z",
			nil, 200, "", "",
		},
		{"GET /repos/{owner}/{repo}/issues/comments/{comment_id}", repo + "/issues/comments/{comment}", nil, 200, "", ""},
		{
			"PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}", repo + "/issues/comments/{comment}",
			m{"body": "hello again"}, 200, "", "",
		},
		{
			"POST /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions", repo + "/issues/comments/{comment}/reactions",
			m{"content": "+1"}, 201, "", "",
		},
		{
			"GET /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions",
			repo + "/issues/comments/{comment}/reactions?content=%2B1", nil, 200, "", "",
		},
		{"GET /repos/{owner}/{repo}/issues/{issue_number}/timeline", repo + "/issues/1/timeline", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/issues/{issue_number}/events", repo + "/issues/2/events", nil, 200, "", ""},
		{"DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}", repo + "/issues/comments/{comment}", nil, 204, "", ""},
		{
			"POST /repos/{owner}/{repo}/issues/{issue_number}/labels", repo + "/issues/1/labels", m{"labels": []string{"a/b"}},
			200, "", "",
		},
		{"GET /repos/{owner}/{repo}/issues/{issue_number}/labels", repo + "/issues/1/labels", nil, 200, "", ""},
		{
			"DELETE /repos/{owner}/{repo}/issues/{issue_number}/labels/{name}", repo + "/issues/1/labels/a%2Fb", nil, 200, "",
			"",
		},
		{
			"POST /repos/{owner}/{repo}/issues/{issue_number}/reactions", repo + "/issues/1/reactions", m{"content": "eyes"},
			201, "", "",
		},
		{"GET /repos/{owner}/{repo}/issues/{issue_number}/reactions", repo + "/issues/1/reactions", nil, 200, "", ""},
		{
			"POST /repos/{owner}/{repo}/pulls", repo + "/pulls",
			m{"title": "PR", "head": "topic/a", "base": "main", "body": "Closes #1"}, 201, "", "",
		},
		{"GET /repos/{owner}/{repo}/pulls", repo + "/pulls?head=acme:topic/a&state=open", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/pulls/{pull_number}", repo + "/pulls/3", nil, 200, "", ""},
		{"PATCH /repos/{owner}/{repo}/pulls/{pull_number}", repo + "/pulls/3", m{"title": "The PR"}, 200, "", ""},
		{"GET /repos/{owner}/{repo}/pulls/{pull_number}/commits", repo + "/pulls/3/commits", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/pulls/{pull_number}/files", repo + "/pulls/3/files", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews", repo + "/pulls/3/reviews", nil, 200, "", ""},
		{"GET /repos/{owner}/{repo}/pulls/{pull_number}/comments", repo + "/pulls/3/comments", nil, 200, "", ""},
		{
			"POST /repos/{owner}/{repo}/pulls/{pull_number}/comments/{comment_id}/replies",
			repo + "/pulls/3/comments/{line}/replies", m{"body": "yes"}, 201, "", "",
		},
		{
			"PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge", repo + "/pulls/3/merge",
			m{"merge_method": "squash", "commit_title": "All of it"}, 200, "", "",
		},
	} {
		if strings.HasSuffix(step.op, "/reviews") {
			must[ghsim.Review](t)(w.Review(owner, name, 3, "walt", "APPROVED", "Good",
				ghsim.ReviewLine{Path: "a", Line: 1, Body: "?"}))
			comments, _, err := w.gh.PullRequests.ListComments(t.Context(), owner, name, 3, nil)
			check(t, err)
			ids["line"] = itoa(comments[0].GetID())
		}
		path := step.path
		for k, v := range ids {
			path = strings.ReplaceAll(path, "{"+k+"}", v)
		}
		method, _, _ := strings.Cut(step.op, " ")
		bearer := step.token
		switch bearer {
		case "":
			bearer = token
		case "none":
			bearer = ""
		}
		resp, body := w.do(t, method, "/api/v3"+path, bearer, step.body)
		if resp.StatusCode != step.status {
			t.Fatalf("%s %s: status %d, want %d: %v", method, path, resp.StatusCode, step.status, body)
		}
		if id, ok := body["id"].(float64); ok && step.save != "" {
			ids[step.save] = itoa(int64(id))
		} else if sha, ok := body["sha"].(string); ok && step.save != "" {
			ids[step.save] = sha
		}
	}
	var served []string
	for _, op := range ghsim.Operations() {
		served = append(served, op.Method+" "+op.Template)
	}
	var seen []string
	for op := range w.v.Seen() {
		seen = append(seen, op)
	}
	slices.Sort(served)
	slices.Sort(seen)
	if d := cmp.Diff(served, seen); d != "" {
		t.Errorf("operations served and called (-served +called):\n%s", d)
	}
	if got := must[ghsim.PR](t)(w.PR(owner, name, 3)); !got.Merged || got.Title != "The PR" {
		t.Errorf("pull request %+v", got)
	}
	if got := must[ghsim.Issue](t)(w.Issue(owner, name, 1)); got.State != "closed" {
		t.Errorf("issue %+v", got)
	}
}

// TestGitHubDoesNotKnow asks for what GitHub has and this package does not
// serve: the answer is a 404, never a made-up success.
func TestGitHubDoesNotKnow(t *testing.T) {
	t.Parallel()
	sim := must[*ghsim.Sim](t)(ghsim.New(ghsim.Options{Dir: t.TempDir()}))
	url := must[string](t)(sim.Start("127.0.0.1:0"))
	t.Cleanup(func() { check(t, sim.Close(context.WithoutCancel(t.Context()))) })
	for _, path := range []string{
		"/api/v3/user", "/api/v3/repos/a/b", "/api/v3/repos/a%2Fb", "/api/v3/../_sim/calls", "/_sim/nothing",
		"/a/b.git/objects/info/packs",
	} {
		req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil))
		resp := must[*http.Response](t)(http.DefaultClient.Do(req))
		check(t, resp.Body.Close())
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, fmt.Sprint(resp.Status))
		}
	}
}
