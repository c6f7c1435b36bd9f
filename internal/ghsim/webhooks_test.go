package ghsim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/ghsim"
)

// receiver is an App's webhook endpoint.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	secret string
	status int
	got    []received
	got2   chan struct{} // closed with the second
}

type received struct {
	header  http.Header
	payload map[string]any
	valid   error
}

func newReceiver(t *testing.T, secret string) *receiver {
	t.Helper()
	r := &receiver{secret: secret, status: http.StatusAccepted, got2: make(chan struct{})}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		e := received{
			header: req.Header.Clone(),
			valid:  github.ValidateSignature(req.Header.Get("X-Hub-Signature-256"), body, []byte(r.secret)),
		}
		if err := json.Unmarshal(body, &e.payload); err != nil {
			e.valid = err
		}
		if r.got = append(r.got, e); len(r.got) == 2 {
			close(r.got2)
		}
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, "thank you")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// story tells each webhook as "event.action by sender".
func story(t *testing.T, got []received) []string {
	t.Helper()
	var lines []string
	for _, e := range got {
		if e.valid != nil {
			t.Errorf("webhook %s: %v", e.header.Get("X-GitHub-Event"), e.valid)
		}
		line := e.header.Get("X-GitHub-Event")
		if action, ok := e.payload["action"].(string); ok {
			line += "." + action
		}
		sender, _ := e.payload["sender"].(map[string]any)
		lines = append(lines, fmt.Sprintf("%s by %v", line, sender["login"]))
	}
	return lines
}

func (w *world) idle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	check(t, w.WaitIdle(ctx))
}

func TestWebhooksTellTheWholeStory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	r := newReceiver(t, w.app.WebhookSecret)
	check(t, w.SetHook(w.app.ID, r.URL+"/hook", ""))

	must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Title", "Body"))
	check(t, w.AddLabel(owner, name, 1, "tia", "ralph"))
	check(t, w.EditIssue(owner, name, 1, "ann", "New title", ""))
	must[ghsim.Comment](t)(w.Comment(owner, name, 1, "rex", "Nice"))
	check(t, w.RemoveLabel(owner, name, 1, "ann", "ralph"))
	c, _, err := w.gh.Issues.CreateComment(ctx, owner, name, 1, &github.IssueComment{Body: github.String("On it")})
	check(t, err)
	check(t, w.EditComment(owner, name, 1, c.GetID(), "walt", "On it."))
	check(t, w.DeleteComment(owner, name, 1, c.GetID(), "walt"))
	head := w.branch(t, "ralph/1")
	token := must[string](t)(w.Token(w.in.ID, nil))
	w.do(t, "POST", "/api/graphql", token, commitRequest(head))
	oid := w.head(t, "ralph/1")
	pr, _, err := w.gh.PullRequests.Create(ctx, owner, name,
		&github.NewPullRequest{
			Title: github.String("T"), Head: github.String("ralph/1"), Base: github.String("main"),
			Body: github.String("Closes #1"), Draft: github.Bool(true),
		})
	check(t, err)
	check(t, w.AddLabel(owner, name, pr.GetNumber(), "ann", "review"))
	must[string](t)(w.Push(owner, name, "ralph/1", "walt",
		ghsim.PushOptions{Message: "Mine", Files: map[string]string{"b.txt": "b"}}))
	_, _, err = w.gh.Checks.CreateCheckRun(ctx, owner, name, github.CreateCheckRunOptions{Name: "ralph", HeadSHA: oid})
	check(t, err)
	must[ghsim.Review](t)(w.Review(owner, name, pr.GetNumber(), "walt", "COMMENTED", "",
		ghsim.ReviewLine{Path: "a.txt", Line: 1, Body: "Hm"}))
	w.query(t, token, `mutation($id:ID!){markPullRequestReadyForReview(input:{pullRequestId:$id}){clientMutationId}}`,
		map[string]any{"id": pr.GetNodeID()})
	check(t, w.CloseIssue(owner, name, pr.GetNumber(), "ann"))
	check(t, w.ReopenIssue(owner, name, pr.GetNumber(), "ann"))
	check(t, w.Merge(owner, name, pr.GetNumber(), "walt"))
	check(t, w.ReopenIssue(owner, name, 1, "ann"))
	w.idle(t)

	want := []string{
		"issues.opened by ann", "issues.labeled by tia", "issues.edited by ann", "issue_comment.created by rex",
		"issues.unlabeled by ann",
		"issue_comment.created by ralph[bot]", "issue_comment.edited by walt", "issue_comment.deleted by walt",
		"pull_request.opened by ralph[bot]", "pull_request.labeled by ann",
		"pull_request.synchronize by walt", "check_run.created by ralph[bot]",
		"pull_request_review.submitted by walt", "pull_request_review_comment.created by walt",
		"pull_request.ready_for_review by ralph[bot]",
		"pull_request.closed by ann", "pull_request.reopened by ann",
		"pull_request.closed by walt", "issues.closed by walt", "issues.reopened by ann",
	}
	got := r.all()
	if d := cmp.Diff(want, story(t, got)); d != "" {
		t.Errorf("webhooks (-want +got):\n%s", d)
	}
	labeled := got[1]
	for k, v := range map[string]string{
		"Content-Type": "application/json", "X-GitHub-Event": "issues",
		"X-GitHub-Hook-Installation-Target-Id": itoa(w.app.ID), "X-GitHub-Hook-Installation-Target-Type": "integration",
	} {
		if labeled.header.Get(k) != v {
			t.Errorf("header %s is %q, want %q", k, labeled.header.Get(k), v)
		}
	}
	if !strings.HasPrefix(labeled.header.Get("User-Agent"), "GitHub-Hookshot/") ||
		len(labeled.header.Get("X-GitHub-Delivery")) != 36 {
		t.Errorf("headers %v", labeled.header)
	}
	installation, _ := labeled.payload["installation"].(map[string]any)
	if d := cmp.Diff(map[string]any{"id": float64(w.in.ID), "node_id": w.in.NodeID}, installation); d != "" {
		t.Errorf("installation (-want +got):\n%s", d)
	}
	sender, _ := got[5].payload["sender"].(map[string]any)
	if sender["type"] != "Bot" || sender["id"] != float64(w.app.BotID) {
		t.Errorf("sender %v", sender)
	}
	// The payload is of the time of the event.
	issue, _ := got[0].payload["issue"].(map[string]any)
	if issue["title"] != "Title" || issue["state"] != "open" {
		t.Errorf("issue as it was opened: %v", issue)
	}
}

func TestOnlySubscribersAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	r := newReceiver(t, "s3cret")
	picky := must[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{
		Slug: "picky", PrivateKeyPEM: w.app.PrivateKeyPEM, HookURL: r.URL, WebhookSecret: "s3cret",
		Permissions: map[string]string{"issues": "read"}, Events: []string{"issues"},
	}))
	must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Before the installation", ""))
	must[ghsim.Installation](t)(w.Install(picky.ID, owner+"/"+name))
	must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "After it", ""))
	must[ghsim.Comment](t)(w.Comment(owner, name, 1, "ann", "not subscribed"))
	must[ghsim.Repo](t)(w.CreateRepo(owner, "other", ghsim.RepoOptions{}))
	must[ghsim.Issue](t)(w.CreateIssue(owner, "other", "acme", "Not installed", ""))
	w.idle(t)
	if d := cmp.Diff([]string{"installation.created by acme", "issues.opened by ann"}, story(t, r.all())); d != "" {
		t.Errorf("webhooks (-want +got):\n%s", d)
	}
	if _, err := w.CreateApp(ghsim.AppOptions{
		Slug: "greedy", PrivateKeyPEM: w.app.PrivateKeyPEM, Events: []string{"issues"},
	}); err == nil {
		t.Error("an event without its permission was granted")
	}
}

func TestFailedDeliveriesAndRedelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	r := newReceiver(t, w.app.WebhookSecret)
	r.answer(http.StatusInternalServerError)
	check(t, w.SetHook(w.app.ID, r.URL, ""))
	must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Title", ""))
	w.idle(t)
	list, _, err := w.jwt.Apps.ListHookDeliveries(ctx, nil)
	check(t, err)
	if len(list) != 1 || list[0].GetStatusCode() != 500 || list[0].GetStatus() != "Invalid HTTP Response: 500" ||
		list[0].GetEvent() != "issues" || list[0].GetRedelivery() {
		t.Fatalf("deliveries %v", list)
	}
	r.answer(http.StatusAccepted)
	// 202 is an *github.AcceptedError to go-github.
	if _, _, err := w.jwt.Apps.RedeliverHookDelivery(ctx, list[0].GetID()); err != nil &&
		!strings.Contains(err.Error(), "scheduled on GitHub side") {
		t.Fatal(err)
	}
	w.idle(t)
	check(t, w.Redeliver(w.app.ID, list[0].GetID()))
	w.idle(t)
	again, _, err := w.jwt.Apps.ListHookDeliveries(ctx, &github.ListCursorOptions{PerPage: 2})
	check(t, err)
	if len(again) != 2 || again[0].GetGUID() != list[0].GetGUID() || !again[0].GetRedelivery() ||
		again[0].GetStatus() != "OK" || again[0].GetID() == list[0].GetID() {
		t.Errorf("deliveries %v", again)
	}
	got := r.all()
	if len(got) != 3 || got[0].header.Get("X-GitHub-Delivery") != got[2].header.Get("X-GitHub-Delivery") ||
		!cmp.Equal(got[0].payload, got[2].payload) {
		t.Errorf("%d webhooks; GUIDs %s and %s", len(got), got[0].header.Get("X-GitHub-Delivery"),
			got[2].header.Get("X-GitHub-Delivery"))
	}
	// Nobody there at all.
	r.Close()
	must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Title", ""))
	w.idle(t)
	all := must[[]ghsim.Delivery](t)(w.Deliveries(w.app.ID))
	if last := all[len(all)-1]; last.StatusCode != 0 || last.Status != "failed to connect to host" {
		t.Errorf("delivery to nobody: %s %d", last.Status, last.StatusCode)
	}
}
