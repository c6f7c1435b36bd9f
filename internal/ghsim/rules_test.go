package ghsim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/ghsim"
)

// refused checks that err is GitHub's refusal with this status, and that its
// message or one of its field errors contains text.
func refused(t *testing.T, err error, status int, text string) {
	t.Helper()
	if e := new(ghsim.Error); errors.As(err, &e) {
		if e.Status != status || !strings.Contains(e.Error(), text) {
			t.Errorf("refused with %d %v, want %d %q", e.Status, e, status, text)
		}
		return
	}
	e := new(github.ErrorResponse)
	if !errors.As(err, &e) {
		t.Errorf("got %v, want a refusal with %d %q", err, status, text)
		return
	}
	parts := []string{e.Message}
	for _, f := range e.Errors {
		parts = append(parts, f.Resource+" "+f.Field+" "+f.Code+" "+f.Message)
	}
	all := strings.Join(parts, "\n")
	if e.Response.StatusCode != status || !strings.Contains(all, text) {
		t.Errorf("refused with %d %q, want %d %q", e.Response.StatusCode, all, status, text)
	}
}

// do sends a request as it is and decodes the answer.
func (w *world) do(t *testing.T, method, path, token string, body any) (*http.Response, map[string]any) {
	t.Helper()
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(must[[]byte](t)(json.Marshal(body)))
	}
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), method, w.URL()+path, r))
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	defer func() { _ = resp.Body.Close() }()
	raw := must[[]byte](t)(io.ReadAll(resp.Body))
	var out map[string]any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &out); err != nil {
			out = map[string]any{"raw": string(raw)}
		}
	}
	return resp, out
}

// pull makes a branch with one commit and a pull request for it.
func (w *world) pull(t *testing.T, branch string, draft bool) *github.PullRequest {
	t.Helper()
	must[string](t)(w.Push(owner, name, branch, "walt",
		ghsim.PushOptions{
			Message: "Work on " + branch, Files: map[string]string{strings.ReplaceAll(branch, "/", "-") + ".txt": "x\n"},
		}))
	pr, _, err := w.gh.PullRequests.Create(t.Context(), owner, name, &github.NewPullRequest{
		Title: github.String("About " + branch), Head: &branch, Base: github.String("main"), Draft: &draft,
	})
	check(t, err)
	return pr
}

func TestRefusalsInGitHubsWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	issue := must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Title", "Body"))
	pr := w.pull(t, "ralph/9", true)
	w.branch(t, "empty")
	main := w.head(t, "main")
	nowhere := strings.Repeat("0123456789", 4)
	long := strings.Repeat("é", 65537)
	blob := func(encoding, content string) error {
		_, _, err := w.gh.Git.CreateBlob(ctx, owner, name, &github.Blob{Content: &content, Encoding: &encoding})
		return err
	}
	ref := func(name_, sha string) error {
		_, _, err := w.gh.Git.CreateRef(ctx, owner, name,
			&github.Reference{Ref: &name_, Object: &github.GitObject{SHA: &sha}})
		return err
	}
	open := func(head, base, body string) error {
		_, _, err := w.gh.PullRequests.Create(ctx, owner, name,
			&github.NewPullRequest{Title: github.String("T"), Head: &head, Base: &base, Body: &body})
		return err
	}
	tree := func(path, mode string) error {
		_, _, err := w.gh.Git.CreateTree(ctx, owner, name, "",
			[]*github.TreeEntry{{Path: &path, Mode: &mode, Type: github.String("blob")}})
		return err
	}
	checkRun := func(sha string, o *github.CheckRunOutput) error {
		_, _, err := w.gh.Checks.CreateCheckRun(ctx, owner, name,
			github.CreateCheckRunOptions{Name: "ralph", HeadSHA: sha, Output: o})
		return err
	}
	annotations := make([]*github.CheckRunAnnotation, 51)
	for i := range annotations {
		annotations[i] = &github.CheckRunAnnotation{
			Path: github.String("a"), StartLine: github.Int(1), EndLine: github.Int(1), AnnotationLevel: github.String("notice"),
			Message: github.String("m"),
		}
	}
	for _, tt := range []struct {
		name   string
		call   func() error
		status int
		text   string
	}{
		{"issue title too long", func() error {
			_, err := w.CreateIssue(owner, name, "ann", strings.Repeat("x", 257), "")
			return err
		}, 422, "title is too long (maximum is 256 characters)"},
		{"issue body too long", func() error {
			return w.EditIssue(owner, name, issue.Number, "ann", "", long)
		}, 422, "body is too long (maximum is 65536 characters)"},
		{"comment too long", func() error {
			_, _, err := w.gh.Issues.CreateComment(ctx, owner, name, issue.Number, &github.IssueComment{Body: &long})
			return err
		}, 422, "body is too long (maximum is 65536 characters)"},
		{"pull request body too long", func() error {
			_, _, err := w.gh.PullRequests.Edit(ctx, owner, name, pr.GetNumber(), &github.PullRequest{Body: &long})
			return err
		}, 422, "body is too long (maximum is 65536 characters)"},
		{"blank comment", func() error {
			_, _, err := w.gh.Issues.CreateComment(ctx, owner, name, issue.Number,
				&github.IssueComment{Body: github.String(" \n")})
			return err
		}, 422, "Body can't be blank"},
		{
			"issue that is not there", func() error { _, _, err := w.gh.Issues.Get(ctx, owner, name, 99); return err }, 404,
			"Not Found",
		},
		{
			"repository that is not there",
			func() error { _, _, err := w.gh.Repositories.Get(ctx, owner, "gadgets"); return err }, 404, "Not Found",
		},
		{"label that is not on the issue", func() error {
			_, err := w.gh.Issues.RemoveLabelForIssue(ctx, owner, name, issue.Number, "ralph")
			return err
		}, 404, "Label does not exist"},
		{"unknown reaction", func() error {
			_, _, err := w.gh.Reactions.CreateIssueReaction(ctx, owner, name, issue.Number, "wow")
			return err
		}, 422, "Reaction content invalid"},
		{
			"second pull request", func() error { return open("ralph/9", "main", "") }, 422,
			"A pull request already exists for acme:ralph/9.",
		},
		{
			"pull request without commits", func() error { return open("empty", "main", "") }, 422,
			"No commits between main and empty",
		},
		{"pull request from nowhere", func() error { return open("gone", "main", "") }, 422, "PullRequest head invalid"},
		{"pull request into nowhere", func() error { return open("ralph/9", "gone", "") }, 422, "PullRequest base invalid"},
		{"ref twice", func() error { return ref("refs/heads/empty", main) }, 422, "Reference already exists"},
		{"ref below a ref", func() error { return ref("refs/heads/empty/x", main) }, 422, "Reference update failed"},
		{
			"ref of a bad name", func() error { return ref("refs/heads/a..b", main) }, 422,
			"Reference name must start with 'refs/'",
		},
		{"ref to nothing", func() error { return ref("refs/heads/new", nowhere) }, 422, "Object does not exist"},
		{"hidden ref", func() error { return ref("refs/pull/9/head", main) }, 422, "Reference name must start with 'refs/'"},
		{"backwards without force", func() error {
			_, _, err := w.gh.Git.UpdateRef(ctx, owner, name,
				&github.Reference{Ref: github.String("refs/heads/ralph/9"), Object: &github.GitObject{SHA: &main}}, false)
			return err
		}, 422, "Update is not a fast forward"},
		{
			"merging a draft", func() error { return w.Merge(owner, name, pr.GetNumber(), "walt") }, 405,
			"Pull Request is still a draft",
		},
		{"bad base64", func() error { return blob("base64", "%%%") }, 422, "content is not valid Base64"},
		{"tree path out of the tree", func() error { return tree("../x", "100644") }, 422, "malformed path component"},
		{"tree path into .git", func() error { return tree("a/.GIT/config", "100644") }, 422, "malformed path component"},
		{"tree mode", func() error { return tree("x", "100600") }, 422, "valid tree.mode"},
		{"commit of no tree", func() error {
			_, _, err := w.gh.Git.CreateCommit(ctx, owner, name,
				&github.Commit{Message: github.String("m"), Tree: &github.Tree{SHA: &nowhere}}, nil)
			return err
		}, 422, "Tree SHA does not exist"},
		{"check run on no commit", func() error { return checkRun(nowhere, nil) }, 422, "No commit found for SHA"},
		{"check summary too long", func() error {
			return checkRun(main, &github.CheckRunOutput{
				Title: github.String("t"), Summary: github.String(strings.Repeat("x", 65536)),
			})
		}, 422, "Summary exceeds a maximum bytesize of 65535"},
		{"too many annotations", func() error {
			return checkRun(main, &github.CheckRunOutput{
				Title: github.String("t"), Summary: github.String("s"), Annotations: annotations,
			})
		}, 422, "50"},
		{"label by a reader", func() error { return w.AddLabel(owner, name, issue.Number, "rex", "ralph") }, 403, "triage"},
		{"comment by a reader on a locked issue", func() error {
			check(t, w.LockIssue(owner, name, issue.Number, "walt", true))
			_, err := w.Comment(owner, name, issue.Number, "rex", "me too")
			return err
		}, 403, "Unable to create comment because issue is locked"},
		{"push by triage", func() error {
			_, err := w.Push(owner, name, "main", "tia", ghsim.PushOptions{Files: map[string]string{"a": "b"}})
			return err
		}, 403, "write"},
		{"closing by a stranger", func() error { return w.CloseIssue(owner, name, issue.Number, "rex") }, 403, "triage"},
		{"approving one's own", func() error {
			_, err := w.Review(owner, name, pr.GetNumber(), "ann", "BLESSED", "")
			return err
		}, 422, "event"},
	} {
		t.Run(tt.name, func(t *testing.T) { refused(t, tt.call(), tt.status, tt.text) })
	}
}

func TestWhatATokenMayDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	must[ghsim.Repo](t)(w.CreateRepo(owner, "other", ghsim.RepoOptions{Files: map[string]string{"a": "b"}}))
	must[ghsim.Installation](t)(w.Install(w.app.ID, owner+"/other"))
	issue := must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Title", "Body"))
	pr := w.pull(t, "ralph/1", false)
	main := w.head(t, "main")
	read, write := github.String("read"), github.String("write")
	comment := func(n int) func(*github.Client) error {
		return func(c *github.Client) error {
			_, _, err := c.Issues.CreateComment(ctx, owner, name, n, &github.IssueComment{Body: github.String("hello")})
			return err
		}
	}
	ref := func(c *github.Client) error {
		_, _, err := c.Git.CreateRef(ctx, owner, name,
			&github.Reference{Ref: github.String("refs/heads/x"), Object: &github.GitObject{SHA: &main}})
		return err
	}
	getIssue := func(c *github.Client) error { _, _, err := c.Issues.Get(ctx, owner, name, issue.Number); return err }
	for _, tt := range []struct {
		name   string
		grant  *github.InstallationPermissions
		call   func(*github.Client) error
		status int
		text   string
	}{
		{
			"comment on an issue needs issues:write", &github.InstallationPermissions{Issues: read}, comment(issue.Number), 403,
			"Resource not accessible by integration",
		},
		{
			"comment on a pull request needs pull_requests:write", &github.InstallationPermissions{Issues: write},
			comment(pr.GetNumber()), 403, "Resource not accessible by integration",
		},
		{"comment on an issue", &github.InstallationPermissions{Issues: write}, comment(issue.Number), 0, ""},
		{"comment on a pull request", &github.InstallationPermissions{PullRequests: write}, comment(pr.GetNumber()), 0, ""},
		{
			"ref needs contents:write", &github.InstallationPermissions{Contents: read}, ref, 403,
			"Resource not accessible by integration",
		},
		{
			"issue needs issues:read", &github.InstallationPermissions{Contents: write}, getIssue, 403,
			"Resource not accessible by integration",
		},
		{"issue", &github.InstallationPermissions{Issues: read}, getIssue, 0, ""},
		{"repository outside the token", &github.InstallationPermissions{Issues: read}, func(c *github.Client) error {
			_, _, err := c.Repositories.Get(ctx, owner, "other")
			return err
		}, 404, "Not Found"},
		{"permission level needs metadata only", &github.InstallationPermissions{Issues: read}, func(c *github.Client) error {
			_, _, err := c.Repositories.GetPermissionLevel(ctx, owner, name, "ann")
			return err
		}, 0, ""},
		{"check run", &github.InstallationPermissions{Checks: read}, func(c *github.Client) error {
			_, _, err := c.Checks.CreateCheckRun(ctx, owner, name, github.CreateCheckRunOptions{Name: "x", HeadSHA: main})
			return err
		}, 403, "Resource not accessible by integration"},
		{"the App's own endpoints want its JWT", &github.InstallationPermissions{Issues: read}, func(c *github.Client) error {
			_, _, err := c.Apps.Get(ctx, "")
			return err
		}, 401, "A JSON web token could not be decoded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.call(w.scoped(t, tt.grant))
			if tt.status == 0 {
				check(t, err)
				return
			}
			refused(t, err, tt.status, tt.text)
		})
	}
	t.Run("more than the App has", func(t *testing.T) {
		_, _, err := w.jwt.Apps.CreateInstallationToken(ctx, w.in.ID,
			&github.InstallationTokenOptions{Permissions: &github.InstallationPermissions{Workflows: write}})
		refused(t, err, 422, "The permissions requested are not granted to this installation.")
	})
	t.Run("a repository that is not installed", func(t *testing.T) {
		_, _, err := w.jwt.Apps.CreateInstallationToken(ctx, w.in.ID,
			&github.InstallationTokenOptions{Repositories: []string{"gadgets"}})
		refused(t, err, 422, "There is at least one repository that does not exist")
	})
	t.Run("a JWT is no token", func(t *testing.T) {
		_, _, err := w.jwt.Issues.Get(ctx, owner, name, issue.Number)
		refused(t, err, 401, "A JSON web token could not be decoded")
	})
}

func TestTokensLiveForAnHour(t *testing.T) {
	t.Parallel()
	// One second before the hour is over, and then exactly then.
	clock := &fakeClock{now: time.Now()}
	w := newWorld(t, ghsim.Options{Clock: clock.Now})
	ctx := t.Context()
	tok, _, err := w.jwt.Apps.CreateInstallationToken(ctx, w.in.ID,
		&github.InstallationTokenOptions{Repositories: []string{name}})
	check(t, err)
	if !strings.HasPrefix(tok.GetToken(), fmt.Sprintf("ghs_%d_", w.app.ID)) || strings.Count(tok.GetToken(), ".") != 2 ||
		len(tok.GetToken()) < 450 {
		t.Errorf("token of %d characters: %s", len(tok.GetToken()), tok.GetToken())
	}
	c := w.client(t, tok.GetToken())
	clock.Advance(time.Hour - 2*time.Second)
	_, _, err = c.Repositories.Get(ctx, owner, name)
	check(t, err)
	clock.Advance(2 * time.Second)
	_, _, err = c.Repositories.Get(ctx, owner, name)
	refused(t, err, 401, "Bad credentials")
}

func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "Title", ""))
	for range 3 {
		must[ghsim.Comment](t)(w.Comment(owner, name, 1, "ann", "hello"))
	}
	for page, want := range []int{2, 1, 0} {
		list, resp, err := w.gh.Issues.ListComments(t.Context(), owner, name, 1,
			&github.IssueListCommentsOptions{ListOptions: github.ListOptions{Page: page + 1, PerPage: 2}})
		check(t, err)
		if len(list) != want || (resp.NextPage == 2) != (page == 0) {
			t.Errorf("page %d: %d comments, next is %d", page+1, len(list), resp.NextPage)
		}
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
