package ghapp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
)

const (
	owner = "acme"
	name  = "widgets"
)

// world is a simulated GitHub, every call of which is validated, with a
// repository, people and our App.
type world struct {
	*ghsim.Sim

	appInfo ghsim.App
	in      ghsim.Installation
	dir     string // the bare repository
	app     *ghapp.App
	repo    *ghapp.Repo
}

func get[T any](t *testing.T) func(v T, err error) T {
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

func newWorld(t *testing.T) *world {
	t.Helper()
	sim := ghsimtest.Start(t, ghsim.Options{})
	w := &world{Sim: sim}
	for _, login := range []string{owner, "walt", "mary", "tia", "rex", "cora"} {
		get[ghsim.User](t)(sim.CreateUser(login))
	}
	repo := get[ghsim.Repo](t)(sim.CreateRepo(owner, name, ghsim.RepoOptions{
		Private:     true,
		Files:       map[string]string{"README.md": "# Widgets\n", "run.sh": "#!/bin/sh\n", "pkg/a.go": "package pkg\n"},
		Executables: []string{"run.sh"},
	}))
	w.dir = repo.Dir
	check(t, sim.SetPermission(owner, name, "walt", ghsim.RoleWrite))
	check(t, sim.SetPermission(owner, name, "mary", ghsim.RoleMaintain))
	check(t, sim.SetPermission(owner, name, "tia", ghsim.RoleTriage))
	check(t, sim.SetPermission(owner, name, "rex", ghsim.RoleRead))
	check(t, sim.SetPermission(owner, name, "cora", ghsim.RoleWrite, "release-manager"))
	w.appInfo = get[ghsim.App](t)(sim.CreateApp(ghsim.AppOptions{
		Slug: "ralph", Permissions: map[string]string{
			"checks": "write", "contents": "write", "issues": "write", "pull_requests": "write",
		}, Events: []string{"issues"},
	}))
	w.in = get[ghsim.Installation](t)(sim.Install(w.appInfo.ID, owner+"/"+name))
	w.app = get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: sim.URL() + "/api/v3/", AppID: w.appInfo.ID, PrivateKey: w.appInfo.PrivateKeyPEM,
		WriteEvery: time.Microsecond,
	}))
	w.repo = w.app.Repo(w.in.ID, owner, name)
	return w
}

func (w *world) head(t *testing.T, branch string) string {
	t.Helper()
	return get[map[string]string](t)(w.Branches(owner, name))[branch]
}

// branch makes ralph/7 at main and returns where it is.
func (w *world) branch(t *testing.T) ghapp.Ref {
	t.Helper()
	check(t, w.repo.CreateBranch(t.Context(), "ralph/7", w.head(t, "main")))
	return get[ghapp.Ref](t)(w.repo.Branch(t.Context(), "ralph/7"))
}

// git asks the bare repository itself.
func (w *world) git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", w.dir}, args...)...).Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) countCalls(route string) int {
	n := 0
	for _, c := range w.Calls() {
		if c.Route == route {
			n++
		}
	}
	return n
}

const mintRoute = "/app/installations/{installation_id}/access_tokens"

func TestIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := ghapp.Identity{
		ID: w.appInfo.ID, Slug: "ralph", BotLogin: "ralph[bot]", Name: "ralph",
		Permissions: map[string]string{
			"checks": "write", "contents": "write", "issues": "write", "pull_requests": "write", "metadata": "read",
		},
		Events: []string{"issues"},
	}
	for range 2 {
		if diff := cmp.Diff(want, get[ghapp.Identity](t)(w.app.Self(t.Context()))); diff != "" {
			t.Error(diff)
		}
		if got := get[int64](t)(w.repo.BotID(t.Context())); got != w.appInfo.BotID {
			t.Errorf("bot id = %d, want %d", got, w.appInfo.BotID)
		}
	}
	if got := w.app.Calls(); got.ByPurpose["self"] != 2 {
		t.Errorf("asked %d times who it is, want once each for the App and its bot", got.ByPurpose["self"])
	}
}

func TestPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for login, want := range map[string]ghapp.Permission{
		owner:  {CanWrite: true, Level: "admin", Role: "admin"},
		"walt": {CanWrite: true, Level: "write", Role: "write"},
		"mary": {CanWrite: true, Level: "write", Role: "maintain"},
		"cora": {CanWrite: true, Level: "write", Role: "release-manager"},
		"tia":  {Level: "read", Role: "triage"},
		"rex":  {Level: "read", Role: "read"},
	} {
		if diff := cmp.Diff(want, get[ghapp.Permission](t)(w.repo.Permission(t.Context(), login))); diff != "" {
			t.Errorf("%s: %s", login, diff)
		}
	}
	for _, login := range []string{"nobody", "evil[bot]", "../../../user", "a/b"} {
		if p, err := w.repo.Permission(t.Context(), login); !errors.Is(err, ghapp.ErrNotFound) || p.CanWrite {
			t.Errorf("%s: %+v, %v; want not found", login, p, err)
		}
	}
}

func TestIssueAndComments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	n := get[ghsim.Issue](t)(w.CreateIssue(owner, name, "walt", "Add a flag", "Please.", "ralph")).Number
	issue := get[ghapp.Issue](t)(w.repo.Issue(ctx, n))
	if issue.Number != n || issue.Title != "Add a flag" || issue.Body != "Please." || issue.State != "open" ||
		!slices.Equal(issue.Labels, []string{"ralph"}) || issue.NodeID == "" || issue.IsPR || issue.URL == "" {
		t.Errorf("issue = %+v", issue)
	}
	if _, err := w.repo.Issue(ctx, 99); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("missing issue: %v", err)
	}
	for range 2 {
		check(t, w.repo.React(ctx, n, "eyes"))
	}

	const marker = "<!-- marker -->"
	if _, err := w.repo.FindComment(ctx, n, marker); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("no comment yet: %v", err)
	}
	// C3: anyone can paste our marker.
	get[ghsim.Comment](t)(w.Sim.Comment(owner, name, n, "walt", "me too "+marker))
	for i := range 120 {
		get[ghsim.Comment](t)(w.Sim.Comment(owner, name, n, "walt", fmt.Sprint("chat ", i)))
	}
	if _, err := w.repo.FindComment(ctx, n, marker); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("took a foreign comment for its own: %v", err)
	}
	get[ghapp.Comment](t)(w.repo.Comment(ctx, n, "> mine "+marker+"\n\nsaid somebody")) // so can our own words, quoting
	if _, err := w.repo.FindComment(ctx, n, marker); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("took a quoted marker for its own: %v", err)
	}
	made := get[ghapp.Comment](t)(w.repo.Comment(ctx, n, "mine "+marker))
	found := get[ghapp.Comment](t)(w.repo.FindComment(ctx, n, marker))
	if found != made || found.Author.ID != w.appInfo.BotID {
		t.Errorf("found %+v, want %+v", found, made)
	}
	if _, err := w.repo.Comment(ctx, n, strings.Repeat("x", 65_537)); classOf(err) != ghapp.Invalid {
		t.Errorf("too long a comment: %v", err)
	}

	check(t, w.repo.AddLabels(ctx, n, "ralph:done", "a b/c"))
	for range 2 {
		check(t, w.repo.RemoveLabel(ctx, n, "a b/c"))
	}
	got := get[ghsim.Issue](t)(w.Sim.Issue(owner, name, n))
	if !slices.Equal(got.Labels, []string{"ralph", "ralph:done"}) {
		t.Errorf("labels = %v", got.Labels)
	}
	if diff := cmp.Diff([]ghsim.Reaction{{User: "ralph[bot]", Content: "eyes"}}, got.Reactions); diff != "" {
		t.Errorf("reactions: %s", diff)
	}
	if last := got.Comments[len(got.Comments)-1]; last.Body != "mine "+marker || len(got.Comments) != 123 {
		t.Errorf("%d comments, the last %q", len(got.Comments), last.Body)
	}
}

func TestCreateCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	base := w.branch(t)
	in := ghapp.CommitInput{
		Branch: "ralph/7", ExpectedHead: base.OID, Headline: "feat: x", Body: "Ralph-Run: r1",
		Additions: []ghapp.FileAddition{
			{Path: "bin", Content: []byte{0, 0xff, '\n'}}, {Path: "empty"}, {Path: "dir/ü.txt", Content: []byte("hi")},
			{Path: "run.sh", Content: []byte("#!/bin/sh\necho hi\n")},
		},
		Deletions: []string{"pkg/a.go"},
	}
	got := get[ghapp.Commit](t)(w.repo.CreateCommit(ctx, in))
	want := ghapp.Commit{
		OID: w.head(t, "ralph/7"), TreeOID: w.git(t, "rev-parse", "ralph/7^{tree}"), Parents: []string{base.OID},
		Message: "feat: x\n\nRalph-Run: r1", Verified: true, VerifyReason: "valid",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	read := get[ghapp.Commit](t)(w.repo.Commit(ctx, got.OID))
	want.Author = ghapp.User{Login: w.appInfo.BotLogin, ID: w.appInfo.BotID, Type: "Bot"}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("read back: %s", diff)
	}
	wantTree := "100644 README.md\n100644 bin\n100644 dir/ü.txt\n100644 empty\n100755 run.sh"
	if got := w.git(t, "-c", "core.quotePath=false", "ls-tree", "-r", "--format=%(objectmode) %(path)",
		"ralph/7"); got != wantTree {
		t.Errorf("tree:\n%s", got)
	}
	if got := w.git(t, "cat-file", "-p", "ralph/7:bin"); !bytes.Equal([]byte(got), []byte{0, 0xff}) {
		t.Errorf("bin = %q", got)
	}

	if _, err := w.repo.CreateCommit(ctx, in); !errors.Is(err, ghapp.ErrStale) {
		t.Errorf("stale head: %v", err)
	}
	in.Branch = "ralph/8"
	if _, err := w.repo.CreateCommit(ctx, in); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("missing branch: %v", err)
	}
}

func TestCreateCommitGitData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	base := w.branch(t)
	// What must come out, made by git itself in a branch of its own.
	check(t, w.repo.CreateBranch(ctx, "want", base.OID))
	other := get[ghapp.Commit](t)(w.repo.CreateCommit(ctx, ghapp.CommitInput{
		Branch: "want", ExpectedHead: base.OID, Headline: "want",
		Additions: []ghapp.FileAddition{{Path: "run.sh", Content: []byte("new\n")}}, Deletions: []string{"pkg/a.go"},
	}))
	in := ghapp.GitDataInput{
		CommitInput: ghapp.CommitInput{
			Branch: "ralph/7", ExpectedHead: base.OID, Headline: "feat: x", Body: "Ralph-Run: r1",
			Additions: []ghapp.FileAddition{{Path: "run.sh", Content: []byte("new\n"), Executable: true}},
			Deletions: []string{"pkg/a.go"},
		},
		BaseTree: base.TreeOID, Tree: other.TreeOID,
	}
	t.Run("tree mismatch moves nothing", func(t *testing.T) {
		bad := in
		bad.Additions = []ghapp.FileAddition{{Path: "run.sh", Content: []byte("new\n")}}
		if _, err := w.repo.CreateCommitGitData(ctx, bad); !errors.Is(err, ghapp.ErrTreeMismatch) {
			t.Errorf("err = %v", err)
		}
		if got := w.head(t, "ralph/7"); got != base.OID {
			t.Errorf("branch moved to %s", got)
		}
	})
	t.Run("unsigned moves nothing", func(t *testing.T) { // H4
		real := get[ghapp.Commit](t)(w.repo.Commit(ctx, base.OID))
		check(t, w.Inject(ghsim.Fault{
			Method: "POST", Match: "/git/commits$", Status: 201, Body: unsignedCommit(real.OID, real.TreeOID),
		}))
		if _, err := w.repo.CreateCommitGitData(ctx, in); !errors.Is(err, ghapp.ErrUnverified) {
			t.Errorf("err = %v", err)
		}
		if got := w.head(t, "ralph/7"); got != base.OID {
			t.Errorf("branch moved to %s", got)
		}
	})
	t.Run("lands signed", func(t *testing.T) {
		got := get[ghapp.Commit](t)(w.repo.CreateCommitGitData(ctx, in))
		if !got.Verified || got.TreeOID != other.TreeOID || got.OID != w.head(t, "ralph/7") {
			t.Errorf("commit = %+v", got)
		}
		if read := get[ghapp.Commit](t)(w.repo.Commit(ctx, got.OID)); read.Author.ID != w.appInfo.BotID || !read.Verified ||
			!slices.Equal(read.Parents, []string{base.OID}) {
			t.Errorf("read back: %+v", read)
		}
	})
	t.Run("moved branch is stale", func(t *testing.T) {
		in.Headline = "feat: y" // the same commit again would be the same object
		if _, err := w.repo.CreateCommitGitData(ctx, in); !errors.Is(err, ghapp.ErrStale) {
			t.Errorf("err = %v", err)
		}
	})
}

func unsignedCommit(oid, tree string) string {
	const person = `{"name":"x","email":"x@example.com","date":"2026-01-02T03:04:05Z"}`
	return fmt.Sprintf(`{"sha":%q,"node_id":"C_x","url":"https://api.example/c","html_url":"https://example/c","author":%s,"committer":%s,`+
		`"tree":{"sha":%q,"url":"https://api.example/t"},"parents":[],"message":"x",`+
		`"verification":{"verified":false,"reason":"unsigned","signature":null,"payload":null,"verified_at":null}}`, oid,
		person, person, tree)
}

func TestPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	base := w.branch(t)
	in := ghapp.PRInput{Title: "Add a flag", Head: "ralph/7", Base: "main", Body: "body", Draft: true}
	if _, err := w.repo.CreatePR(ctx, in); classOf(err) != ghapp.Invalid {
		t.Errorf("no commits between: %v", err)
	}
	commit := get[ghapp.Commit](t)(w.repo.CreateCommit(ctx,
		ghapp.CommitInput{
			Branch: "ralph/7", ExpectedHead: base.OID, Headline: "x",
			Additions: []ghapp.FileAddition{{Path: "x", Content: []byte("x")}},
		}))
	if _, err := w.repo.FindPR(ctx, "ralph/7"); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("no pull request yet: %v", err)
	}
	pr := get[ghapp.PR](t)(w.repo.CreatePR(ctx, in))
	want := ghapp.PR{
		Number: pr.Number, NodeID: pr.NodeID, Title: "Add a flag", Body: "body",
		URL:   fmt.Sprintf("%s/acme/widgets/pull/%d", w.URL(), pr.Number),
		State: "open", Draft: true, HeadRef: "ralph/7", HeadOID: commit.OID, BaseRef: "main",
		Author:    ghapp.User{Login: w.appInfo.BotLogin, ID: w.appInfo.BotID, Type: "Bot"},
		UpdatedAt: pr.UpdatedAt,
	}
	if diff := cmp.Diff(want, pr); diff != "" || pr.NodeID == "" || pr.UpdatedAt.IsZero() {
		t.Error(diff)
	}
	if again := get[ghapp.PR](t)(w.repo.CreatePR(ctx, in)); again.Number != pr.Number {
		t.Errorf("a second pull request: %d", again.Number)
	}
	if found := get[ghapp.PR](t)(w.repo.FindPR(ctx, "ralph/7")); found.Number != pr.Number {
		t.Errorf("found %d", found.Number)
	}
	if _, err := w.repo.FindPR(ctx, "ralph"); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("found one for another branch: %v", err)
	}
	body := "new body"
	check(t, w.repo.UpdatePR(ctx, pr.Number, body))
	check(t, w.repo.MarkReady(ctx, pr.NodeID))
	now := get[ghapp.PR](t)(w.repo.PR(ctx, pr.Number))
	want.Body, want.Draft, want.UpdatedAt = body, false, now.UpdatedAt
	if diff := cmp.Diff(want, now); diff != "" || now.UpdatedAt.Before(pr.UpdatedAt) {
		t.Error(diff)
	}
	long := strings.Repeat("x", 65_537)
	if err := w.repo.UpdatePR(ctx, pr.Number, long); classOf(err) != ghapp.Invalid {
		t.Errorf("too long a body: %v", err)
	}
	check(t, w.CloseIssue(owner, name, pr.Number, "walt"))
	if _, err := w.repo.FindPR(ctx, "ralph/7"); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("found a closed one: %v", err)
	}
}

// TestForeignPullRequest: somebody else's pull request from our branch is not
// ours, whatever it says.
func TestForeignPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	get[string](t)(w.Push(owner, name, "ralph/7", "walt", ghsim.PushOptions{Files: map[string]string{"x": "y"}}))
	other := get[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{
		Slug: "other", Permissions: map[string]string{"contents": "write", "issues": "write", "pull_requests": "write"},
	}))
	in := get[ghsim.Installation](t)(w.Install(other.ID, owner+"/"+name))
	app := get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3", AppID: other.ID, PrivateKey: other.PrivateKeyPEM,
	}))
	input := ghapp.PRInput{Title: "x", Head: "ralph/7", Base: "main", Body: "<!-- ralph:begin -->"}
	get[ghapp.PR](t)(app.Repo(in.ID, owner, name).CreatePR(t.Context(), input))

	if _, err := w.repo.FindPR(t.Context(), "ralph/7"); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("found a foreign one: %v", err)
	}
	if _, err := w.repo.CreatePR(t.Context(), input); !errors.Is(err, ghapp.ErrExists) {
		t.Errorf("opening beside a foreign one: %v", err)
	}
}

// TestMergedPRs: what was merged into the default branch, and is ours.
func TestMergedPRs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := get[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{
		Slug: "other", Permissions: map[string]string{"contents": "write", "issues": "write", "pull_requests": "write"},
	}))
	in := get[ghsim.Installation](t)(w.Install(other.ID, owner+"/"+name))
	theirs := get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3", AppID: other.ID, PrivateKey: other.PrivateKeyPEM,
	}))
	get[string](t)(w.Push(owner, name, "release", "walt", ghsim.PushOptions{Files: map[string]string{"y": "y"}}))
	open := func(repo *ghapp.Repo, branch, base string) int {
		get[string](t)(w.Push(owner, name, branch, "walt", ghsim.PushOptions{Files: map[string]string{branch: "x"}}))
		return get[ghapp.PR](t)(repo.CreatePR(t.Context(), ghapp.PRInput{Title: branch, Head: branch, Base: base, Body: branch})).Number
	}
	check(t, w.Merge(owner, name, open(w.repo, "ralph/1", "main"), "walt"))
	check(t, w.Merge(owner, name, open(w.repo, "ralph/2", "release"), "walt"))
	check(t, w.CloseIssue(owner, name, open(w.repo, "ralph/3", "main"), "walt"))
	check(t, w.Merge(owner, name, open(theirs.Repo(in.ID, owner, name), "ralph/4", "main"), "walt"))
	open(w.repo, "ralph/5", "main")
	get[[]ghapp.PR](t)(w.repo.MergedPRs(t.Context())) // asks for a token and who we are, too
	before := len(w.Calls())
	merged := get[[]ghapp.PR](t)(w.repo.MergedPRs(t.Context()))
	if len(merged) != 1 || merged[0].Body != "ralph/1" {
		t.Errorf("%+v", merged)
	}
	if n := len(w.Calls()) - before; n != 1 {
		t.Errorf("%d calls, want one", n)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	n := get[ghsim.Issue](t)(w.CreateIssue(owner, name, "walt", "x", "y")).Number
	for range 2 {
		get[ghapp.Issue](t)(w.repo.Issue(ctx, n))
		check(t, w.app.Repo(w.in.ID, owner, name).React(ctx, n, "eyes"))
	}
	if got := w.countCalls(mintRoute); got != 2 {
		t.Errorf("%d tokens minted, want one for reading and one for writing", got)
	}
	user, token, err := w.repo.GitAuth(ctx, "")
	check(t, err)
	if user != "x-access-token" || token == "" || w.countCalls(mintRoute) != 2 {
		t.Errorf("git credentials %q, %d tokens", user, w.countCalls(mintRoute))
	}
	// The token for git reads and does not write, here or elsewhere.
	req := get[*http.Request](t)(http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("%s/api/v3/repos/acme/widgets/issues/%d/comments", w.URL(), n), strings.NewReader(`{"body":"x"}`)))
	req.Header.Set("Authorization", "token "+token)
	req.Header.Set("Content-Type", "application/json")
	resp := get[*http.Response](t)(http.DefaultClient.Do(req))
	check(t, resp.Body.Close())
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("writing with the reading token: %s", resp.Status)
	}

	// H2: a token that is refused is minted anew, once, and the call repeated
	// with its whole body.
	w.ExpireTokens()
	_, err = w.repo.Comment(ctx, n, "after the token expired")
	check(t, err)
	if got := get[ghsim.Issue](t)(w.Sim.Issue(owner, name, n)).Comments; len(got) != 1 ||
		got[0].Body != "after the token expired" {
		t.Errorf("comments = %+v", got)
	}
	check(t, w.Inject(ghsim.Fault{
		Method: "GET", Match: "/issues/", Times: 2, Status: 401,
		Body: `{"message":"Bad credentials","documentation_url":"https://docs.github.com/rest"}`,
	}))
	before := w.countCalls(mintRoute)
	if _, err := w.repo.Issue(ctx, n); classOf(err) != ghapp.Unauthorised {
		t.Errorf("refused twice: %v", err)
	}
	if got := w.countCalls(mintRoute) - before; got != 1 {
		t.Errorf("minted %d times for one call, want once", got)
	}
}

// TestNoInstallation: GitHub answers 404 when it gives no token. That must not
// look like "the branch is not there".
func TestNoInstallation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.app.Repo(4711, owner, name).Branch(t.Context(), "ralph/7")
	if class := classOf(err); class != ghapp.Unauthorised || errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("class = %s: %v", class, err)
	}
	wrongKey := get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3", AppID: w.appInfo.ID + 1, PrivateKey: w.appInfo.PrivateKeyPEM,
	}))
	if _, err := wrongKey.Self(t.Context()); err == nil {
		t.Error("another App's key was taken")
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := get[ghsim.Issue](t)(w.CreateIssue(owner, name, "walt", "x", "y")).Number
	base := w.branch(t)
	rest := func(ctx context.Context) error { _, err := w.repo.Issue(ctx, n); return err }
	ql := func(ctx context.Context) error {
		_, err := w.repo.CreateCommit(ctx, ghapp.CommitInput{
			Branch: "ralph/7", ExpectedHead: base.OID, Headline: "x", Additions: []ghapp.FileAddition{{Path: "x"}},
		})
		return err
	}
	const secondary = `{"message":"You have exceeded a secondary rate limit. Please wait.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
	plain := func(message string) string {
		return fmt.Sprintf(`{"message":%q,"documentation_url":"https://docs.github.com/rest"}`, message)
	}
	errs := func(kind string) string {
		return fmt.Sprintf(`{"data":null,"errors":[{"type":%q,"message":"no","path":["createCommitOnBranch"]}]}`, kind)
	}
	soon := fmt.Sprint(time.Now().Add(90 * time.Second).Unix())
	cases := []struct {
		name     string
		fault    ghsim.Fault
		want     ghapp.Class
		from, to time.Duration
	}{
		{
			"secondary with time", ghsim.Fault{Status: 403, Header: map[string]string{"Retry-After": "17"}, Body: secondary},
			ghapp.RateLimited, 17 * time.Second, 17 * time.Second,
		},
		{"secondary without time", ghsim.Fault{Status: 403, Body: secondary}, ghapp.RateLimited, time.Minute, time.Minute},
		{
			"429 with time", ghsim.Fault{Status: 429, Header: map[string]string{"Retry-After": "5"}, Body: plain("too many")},
			ghapp.RateLimited, 5 * time.Second, 5 * time.Second,
		},
		{"429 without time", ghsim.Fault{Status: 429, Body: plain("too many")}, ghapp.RateLimited, time.Minute, time.Minute},
		{
			"primary",
			ghsim.Fault{
				Status: 403, Header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": soon},
				Body: plain("API rate limit exceeded"),
			},
			ghapp.RateLimited, 80 * time.Second, 92 * time.Second,
		},
		{"forbidden", ghsim.Fault{Status: 403, Body: plain("Resource not accessible by integration")}, ghapp.Forbidden, 0, 0},
		{"gone", ghsim.Fault{Status: 410, Body: plain("This issue was deleted")}, ghapp.NotFound, 0, 0},
		{"server error", ghsim.Fault{Status: 502, Body: plain("Server Error")}, ghapp.Transient, 0, 0},
		{"a proxy's page", ghsim.Fault{Status: 503, Body: "<html>"}, ghapp.Transient, 0, 0},
		{"invalid", ghsim.Fault{Status: 422, Body: plain("Validation Failed")}, ghapp.Invalid, 0, 0},
		{"moved", ghsim.Fault{Status: 304}, ghapp.Permanent, 0, 0},
	}
	graphOnly := []struct {
		name     string
		fault    ghsim.Fault
		want     ghapp.Class
		from, to time.Duration
	}{
		{"stale", ghsim.Fault{Status: 200, Body: errs("STALE_DATA")}, ghapp.Stale, 0, 0},
		{
			"limited",
			ghsim.Fault{
				Status: 200, Body: errs("RATE_LIMITED"),
				Header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": soon},
			},
			ghapp.RateLimited, 80 * time.Second, 92 * time.Second,
		},
		{
			"limited in words",
			ghsim.Fault{Status: 200, Body: `{"errors":[{"message":"You have exceeded a secondary rate limit"}]}`},
			ghapp.RateLimited, time.Minute, time.Minute,
		},
		{"forbidden by type", ghsim.Fault{Status: 200, Body: errs("FORBIDDEN")}, ghapp.Forbidden, 0, 0},
		{"missing", ghsim.Fault{Status: 200, Body: errs("NOT_FOUND")}, ghapp.NotFound, 0, 0},
		{"refused", ghsim.Fault{Status: 200, Body: errs("UNPROCESSABLE")}, ghapp.Invalid, 0, 0},
		{
			"something went wrong",
			ghsim.Fault{
				Status: 200, Body: `{"data":null,"errors":[{"message":"Something went wrong while executing your query."}]}`,
			},
			ghapp.Transient, 0, 0,
		},
		{"unknown type", ghsim.Fault{Status: 200, Body: errs("NEW_KIND")}, ghapp.Permanent, 0, 0},
		{"cut short", ghsim.Fault{Status: 200, Body: `{"data":{"createC`}, ghapp.Transient, 0, 0},
	}
	run := func(t *testing.T, name string, fault ghsim.Fault, match string, call func(context.Context) error,
		want ghapp.Class, from, to time.Duration) {
		t.Run(name, func(t *testing.T) {
			fault.Match = match
			check(t, w.Inject(fault))
			// go-github remembers limits: ask through a fresh client each time.
			w.repo = get[*ghapp.App](t)(ghapp.New(ghapp.Config{
				APIURL: w.URL() + "/api/v3", AppID: w.appInfo.ID, PrivateKey: w.appInfo.PrivateKeyPEM,
			})).Repo(w.in.ID, owner, repoName)
			err := call(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			class, after := ghapp.Classify(fmt.Errorf("wrapped: %w", err))
			if class != want || after < from || after > to {
				t.Errorf("class = %s, retry after %s; want %s, %s to %s: %v", class, after, want, from, to, err)
			}
			if errors.Is(err, ghapp.ErrNotFound) != (want == ghapp.NotFound) ||
				errors.Is(err, ghapp.ErrStale) != (want == ghapp.Stale) {
				t.Errorf("sentinels do not agree with the class: %v", err)
			}
		})
	}
	for _, c := range cases {
		run(t, "REST "+c.name, c.fault, "^/repos/acme/widgets/issues/", rest, c.want, c.from, c.to)
		run(t, "GraphQL "+c.name, c.fault, "^/graphql", ql, c.want, c.from, c.to)
	}
	for _, c := range graphOnly {
		run(t, "GraphQL "+c.name, c.fault, "^/graphql", ql, c.want, c.from, c.to)
	}
}

// repoName is name where a parameter hides it.
const repoName = name

func classOf(err error) ghapp.Class {
	if err == nil {
		return ""
	}
	class, _ := ghapp.Classify(err)
	return class
}

func TestReviews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.branch(t)
	get[ghapp.Commit](t)(w.repo.CreateCommit(t.Context(),
		ghapp.CommitInput{
			Branch: "ralph/7", ExpectedHead: base.OID, Headline: "x",
			Additions: []ghapp.FileAddition{{Path: "x", Content: []byte("x\n")}},
		}))
	pr := get[ghapp.PR](t)(w.repo.CreatePR(t.Context(), ghapp.PRInput{Title: "x", Head: "ralph/7", Base: "main"}))
	first := get[ghsim.Review](t)(w.Sim.Review(owner, name, pr.Number, "walt", "COMMENTED", "first",
		ghsim.ReviewLine{Path: "x", Line: 1, Body: "not of the second"}))
	second := get[ghsim.Review](t)(w.Sim.Review(owner, name, pr.Number, "walt", "CHANGES_REQUESTED", "again",
		ghsim.ReviewLine{Path: "x", Line: 1, Body: "say y"}))

	all := get[[]ghapp.Review](t)(w.repo.Reviews(t.Context(), pr.Number))
	if len(all) != 2 || all[0].ID != first.ID || all[1].ID != second.ID || len(all[0].Comments) != 1 ||
		all[0].Comments[0].Body != "not of the second" {
		t.Fatalf("%+v", all)
	}
	got := all[1]
	if got.SubmittedAt.IsZero() || got.Verdict != "changes_requested" || got.Body != "again" ||
		got.Author.Login != "walt" || got.Author.Type != "User" || got.Author.ID == 0 || got.URL == "" || got.CommitID == "" {
		t.Errorf("%+v", got)
	}
	if len(got.Comments) != 1 {
		t.Fatalf("comments: %+v", got.Comments)
	}
	if c := got.Comments[0]; c.Body != "say y" || c.Path != "x" || c.Line != 1 ||
		c.Author.Login != "walt" || c.ID == 0 || c.NodeID == "" || c.Diff == "" {
		t.Errorf("%+v", c)
	}
	if _, err := w.repo.Reviews(t.Context(), 4711); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("of a pull request that is not there: %v", err)
	}
}

// TestConversation: more conversations than one page holds, each with its state,
// answered once and resolved.
func TestConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	oid := get[string](t)(w.Push(owner, name, "topic", "walt",
		ghsim.PushOptions{Files: map[string]string{"README.md": "one\ntwo\n"}}))
	pr := get[ghapp.PR](t)(w.repo.CreatePR(t.Context(), ghapp.PRInput{Title: "Words", Head: "topic", Base: "main"}))
	var lines []ghsim.ReviewLine
	for i := range 120 {
		lines = append(lines, ghsim.ReviewLine{Path: "README.md", Line: i%2 + 1, Body: fmt.Sprint(i)})
	}
	rv := get[ghsim.Review](t)(w.Review(owner, name, pr.Number, "walt", "COMMENTED", "", lines...))
	check(t, w.ResolveThread(owner, name, pr.Number, "walt", rv.Lines[1].ID, true))
	get[string](t)(w.Push(owner, name, "topic", "walt",
		ghsim.PushOptions{Files: map[string]string{"README.md": "one\n2\n"}}))
	conv := get[ghapp.Conversation](t)(w.repo.Conversation(t.Context(), pr.Number))
	if conv.State != "OPEN" || conv.HeadOID == oid || len(conv.Threads) != 120 {
		t.Fatalf("%s at %s with %d conversations", conv.State, conv.HeadOID, len(conv.Threads))
	}
	for i, c := range conv.Threads {
		if c.ID != rv.Lines[i].Thread || c.Path != "README.md" || !slices.Equal(c.Comments, []int64{rv.Lines[i].ID}) ||
			c.Resolved != (i == 1) || c.Outdated != (i%2 == 1) {
			t.Errorf("%d: %+v", i, c)
		}
	}
	if _, err := w.repo.FindReply(t.Context(), pr.Number, "marked"); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("a reply that nobody wrote: %v", err)
	}
	get[ghsim.ReviewLine](t)(w.Reply(owner, name, pr.Number, "walt", rv.Lines[0].ID, "marked")) // somebody else's
	if _, _, err := w.repo.ReplyInThread(t.Context(), pr.Number, rv.Lines[0].ID, "It says marked, and more"); err != nil {
		t.Fatal(err)
	}
	id, url, err := w.repo.ReplyInThread(t.Context(), pr.Number, rv.Lines[0].ID, "Done, marked")
	check(t, err)
	found := get[ghapp.ReviewComment](t)(w.repo.FindReply(t.Context(), pr.Number, "marked"))
	if found.ID != id || found.URL != url || found.Body != "Done, marked" {
		t.Errorf("found %+v, wrote %d at %s", found, id, url)
	}
	check(t, w.repo.ResolveThread(t.Context(), conv.Threads[0].ID))
	conv = get[ghapp.Conversation](t)(w.repo.Conversation(t.Context(), pr.Number))
	if !conv.Threads[0].Resolved || len(conv.Threads[0].Comments) != 4 {
		t.Errorf("%+v", conv.Threads[0])
	}
	if _, err := w.repo.Conversation(t.Context(), 999); !errors.Is(err, ghapp.ErrNotFound) || !ghapp.Denied(err) {
		t.Errorf("of a pull request that is not there: %v", err)
	}
}

// TestFailedChecks are those of others, and those that failed.
func TestFailedChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ci := get[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{Slug: "ci"}))
	for name, conclusion := range map[string]string{
		"good": "success", "bad": "failure", "late": "timed_out", "odd": "neutral",
	} {
		check(t, w.CompleteCheck(owner, "widgets", "main", ci.ID,
			ghsim.CheckRun{Name: name, Conclusion: conclusion, Title: "a title", Summary: "a summary"}))
	}
	for i := range 120 { // more than a page
		check(t, w.CompleteCheck(owner, "widgets", "main", ci.ID,
			ghsim.CheckRun{Name: fmt.Sprint("part ", i), Conclusion: "success", Title: "x", Summary: "x"}))
	}
	check(t, w.CompleteCheck(owner, "widgets", "main", ci.ID,
		ghsim.CheckRun{Name: "last", Conclusion: "failure", Title: "a title", Summary: "a summary"}))
	check(t, w.CompleteCheck(owner, name, "main", w.appInfo.ID,
		ghsim.CheckRun{Name: "ours", Conclusion: "failure", Title: "x", Summary: "x"}))
	head := get[ghapp.Ref](t)(w.repo.Branch(t.Context(), "main"))
	failed := get[[]ghapp.FailedCheck](t)(w.repo.FailedChecks(t.Context(), head.OID))
	var names []string
	for _, c := range failed {
		names = append(names, c.Name)
		if c.Title != "a title" || c.Summary != "a summary" || c.URL == "" {
			t.Errorf("%+v", c)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"bad", "last", "late"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	get[ghsim.Repo](t)(w.CreateRepo(owner, ".github",
		ghsim.RepoOptions{Private: true, Files: map[string]string{"ralph.yml": "model: m\n", "profile/README.md": "# Us\n"}}))
	theirs := w.repo.Sibling(".github")
	if _, err := theirs.File(t.Context(), "ralph.yml", 100); !errors.Is(err, ghapp.ErrNotFound) {
		t.Errorf("in a repository that the installation does not reach: %v", err)
	}
	if calls := w.app.Calls(); calls.REST != 1 {
		t.Errorf("%d calls to find that out", calls.REST)
	}
	get[ghsim.Installation](t)(w.Install(w.appInfo.ID, owner+"/.github"))
	if got, err := theirs.File(t.Context(), "ralph.yml", 100); err != nil || string(got) != "model: m\n" {
		t.Errorf("%q, %v", got, err)
	}
	for path, want := range map[string]error{
		"none.yml": ghapp.ErrNotFound, "profile": ghapp.ErrNotFound, "profile/README.md": ghapp.ErrTooLarge,
	} {
		if _, err := theirs.File(t.Context(), path, 4); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

func TestPullRequestWithoutDrafts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	get[string](t)(w.Push(owner, name, "ralph/7", "walt", ghsim.PushOptions{Files: map[string]string{"x": "y"}}))
	check(t, w.Inject(ghsim.Fault{Method: "POST", Match: "/pulls$", Status: 422,
		Body: `{"message":"Validation Failed","errors":[{"resource":"PullRequest","field":"draft","code":"custom","message":"Draft pull requests are not supported in this repository."}],"documentation_url":"https://docs.github.com"}`}))
	pr := get[ghapp.PR](t)(w.repo.CreatePR(t.Context(),
		ghapp.PRInput{Title: "x", Head: "ralph/7", Base: "main", Draft: true}))
	if pr.Draft || pr.Number == 0 {
		t.Errorf("pull request = %+v", pr)
	}
}
