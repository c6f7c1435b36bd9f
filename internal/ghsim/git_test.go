package ghsim_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/proc"
)

// git runs the real git as a client would; what it printed comes back in any
// case.
func git(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	path := must[string](t)(proc.Look("git"))
	res, err := proc.Run(t.Context(), proc.Cmd{Path: path, Dir: dir, Args: args, Env: proc.ScrubbedEnv(
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=Walt", "GIT_AUTHOR_EMAIL=walt@example.com", "GIT_COMMITTER_NAME=Walt",
		"GIT_COMMITTER_EMAIL=walt@example.com",
	)})
	return string(res.Stdout) + string(res.Stderr), err
}

// with puts credentials into a clone URL.
func with(url, user, password string) string {
	return strings.Replace(url, "http://", "http://"+user+":"+password+"@", 1)
}

func TestGitOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	secret := must[ghsim.Repo](t)(w.CreateRepo(owner, "secret",
		ghsim.RepoOptions{Private: true, Files: map[string]string{"a": "b"}}))
	must[ghsim.Installation](t)(w.Install(w.app.ID, owner+"/secret"))
	rex := must[ghsim.User](t)(w.CreateUser("roy"))
	full := must[string](t)(w.Token(w.in.ID, nil))
	read := must[string](t)(w.Token(w.in.ID, map[string]string{"contents": "read"}))
	blind := must[string](t)(w.Token(w.in.ID, map[string]string{"issues": "write"}))
	_, narrow := w.do(t, "POST", "/api/v3/app/installations/"+itoa(w.in.ID)+"/access_tokens", appJWT(t, w),
		map[string]any{"repositories": []string{name}})
	other, _ := narrow["token"].(string)
	header := "http.extraHeader=Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+full))
	bearer := "http.extraHeader=Authorization: Bearer " + full

	for _, tt := range []struct {
		name string
		args []string
		want string // in the output of a refusal; empty means that it works
	}{
		{"public, nobody", []string{"clone", w.repo.CloneURL, "."}, ""},
		{"public, without .git", []string{"clone", strings.TrimSuffix(w.repo.CloneURL, ".git"), "."}, ""},
		{"private, nobody", []string{"clone", secret.CloneURL, "."}, "could not read Username"},
		{"private, token", []string{"clone", with(secret.CloneURL, "x-access-token", full), "."}, ""},
		{"private, token that may only read", []string{"clone", with(secret.CloneURL, "x-access-token", read), "."}, ""},
		{"private, basic header", []string{"-c", header, "clone", secret.CloneURL, "."}, ""},
		{"private, bearer header", []string{"-c", bearer, "clone", secret.CloneURL, "."}, ""},
		{"private, token without contents", []string{"clone", with(secret.CloneURL, "x-access-token", blind), "."}, "403"},
		{
			"private, token of another repository", []string{"clone", with(secret.CloneURL, "x-access-token", other), "."},
			"not found",
		},
		{"private, a stranger", []string{"clone", with(secret.CloneURL, "roy", rex.Token), "."}, "not found"},
		{
			"private, a wrong token", []string{"clone", with(secret.CloneURL, "x-access-token", "ghs_wrong"), "."},
			"Authentication failed",
		},
		{"not there", []string{"clone", with(w.URL()+"/acme/gadgets.git", "x-access-token", full), "."}, "not found"},
		{"partial", []string{"clone", "--filter=blob:none", "--bare", w.repo.CloneURL, "."}, ""},
		{"shallow", []string{"clone", "--depth=1", w.repo.CloneURL, "."}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := git(t, t.TempDir(), tt.args...)
			if tt.want == "" {
				check(t, err)
				return
			}
			if err == nil || !strings.Contains(out, tt.want) {
				t.Errorf("got %v, want a refusal with %q: %s", err, tt.want, out)
			}
		})
	}
}

func TestPushOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	pr := w.pull(t, "ralph/1", false)
	full := must[string](t)(w.Token(w.in.ID, nil))
	read := must[string](t)(w.Token(w.in.ID, map[string]string{"contents": "read"}))
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := git(t, dir, args...)
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return out
	}
	run("clone", "--branch", "ralph/1", w.repo.CloneURL, ".")
	if info := must[fs.FileInfo](t)(os.Stat(filepath.Join(dir, "run.sh"))); info.Mode()&0o100 == 0 {
		t.Error("run.sh lost its mode")
	}
	check(t, os.WriteFile(filepath.Join(dir, "new.txt"), []byte(strings.Repeat("large\n", 300_000)), 0o600))
	run("add", "-A")
	run("commit", "-m", "Push something large")

	if out, err := git(t, dir, "push", with(w.repo.CloneURL, "x-access-token", read), "HEAD"); err == nil ||
		!strings.Contains(out, "403") {
		t.Errorf("pushed with a token that may only read: %v %s", err, out)
	}
	if out, err := git(t, dir, "push", w.repo.CloneURL, "HEAD"); err == nil {
		t.Errorf("pushed as nobody: %s", out)
	}
	run("push", with(w.repo.CloneURL, "x-access-token", full), "HEAD")
	head := strings.TrimSpace(run("rev-parse", "HEAD"))
	got := must[ghsim.PR](t)(w.PR(owner, name, pr.GetNumber()))
	if got.HeadOID != head || len(got.Commits) != 2 {
		t.Fatalf("pull request at %s with %d commits, want %s with 2", got.HeadOID, len(got.Commits), head)
	}
	// What is pushed is not signed, even with the App's token.
	c, _, err := w.gh.Git.GetCommit(ctx, owner, name, head)
	check(t, err)
	if c.GetVerification().GetVerified() || c.GetVerification().GetReason() != "unsigned" {
		t.Errorf("verification %+v", c.GetVerification())
	}
	if out, err := git(t, dir, "push", with(w.repo.CloneURL, "x-access-token", full),
		"HEAD:refs/pull/1/head"); err == nil {
		t.Errorf("pushed to a hidden ref: %s", out)
	}
	run("fetch", w.repo.CloneURL, "refs/pull/1/head")
	run("push", with(w.repo.CloneURL, "x-access-token", full), "HEAD:refs/tags/v1", ":ralph/1")
	if got := must[ghsim.PR](t)(w.PR(owner, name, pr.GetNumber())); got.State != "closed" {
		t.Errorf("pull request of a deleted branch is %s", got.State)
	}
	if n := w.CallCounts()["git-receive-pack"]; n < 4 {
		t.Errorf("%d calls of git-receive-pack logged", n)
	}
}

func TestALostAnswerToAPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	full := must[string](t)(w.Token(w.in.ID, nil))
	dir := t.TempDir()
	_, err := git(t, dir, "clone", w.repo.CloneURL, ".")
	check(t, err)
	_, err = git(t, dir, "commit", "--allow-empty", "-m", "empty")
	check(t, err)
	check(t, w.Inject(ghsim.Fault{Method: "POST", Match: `git-receive-pack$`, Drop: true, After: true}))
	if out, err := git(t, dir, "push", with(w.repo.CloneURL, "x-access-token", full), "HEAD:main"); err == nil {
		t.Errorf("the answer arrived: %s", out)
	}
	head, err := git(t, dir, "rev-parse", "HEAD")
	check(t, err)
	if w.head(t, "main") != strings.TrimSpace(head) {
		t.Error("the push did not happen")
	}
}

func TestGitData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	main := w.head(t, "main")
	base, _, err := w.gh.Git.GetCommit(ctx, owner, name, main)
	check(t, err)
	blob, _, err := w.gh.Git.CreateBlob(ctx, owner, name,
		&github.Blob{Content: github.String("Li4v\nIQ=="), Encoding: github.String("base64")})
	check(t, err)
	raw, _, err := w.gh.Git.GetBlob(ctx, owner, name, blob.GetSHA())
	check(t, err)
	if raw.GetContent() != "Li4vIQ==\n" || raw.GetSize() != 4 {
		t.Errorf("blob %q of %d bytes", raw.GetContent(), raw.GetSize())
	}
	entry := func(path, mode, kind string, sha, content *string) *github.TreeEntry {
		return &github.TreeEntry{Path: &path, Mode: &mode, Type: &kind, SHA: sha, Content: content}
	}
	pkg, _, err := w.gh.Git.GetTree(ctx, owner, name, main, true)
	check(t, err)
	var sub string
	for _, e := range pkg.Entries {
		if e.GetPath() == "pkg" {
			sub = e.GetSHA()
		}
	}
	tree, _, err := w.gh.Git.CreateTree(ctx, owner, name, base.GetTree().GetSHA(), []*github.TreeEntry{
		entry("tool", "100755", "blob", nil, github.String("#!/bin/sh\n")),
		entry("link", "120000", "blob", blob.SHA, nil),
		entry("copy/of", "040000", "tree", &sub, nil),
		entry("README.md", "100644", "blob", nil, nil), // deletes
	})
	check(t, err)

	// Without an author of its own the App's commit is signed; with one it is not.
	for _, tt := range []struct {
		name   string
		author *github.CommitAuthor
		signed bool
	}{
		{"the App's own", nil, true},
		{"somebody's", &github.CommitAuthor{Name: github.String("Eve"), Email: github.String("eve@example.com")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, err := w.gh.Git.CreateCommit(ctx, owner, name,
				&github.Commit{Message: github.String("By data"), Tree: tree, Parents: []*github.Commit{base}, Author: tt.author},
				nil)
			check(t, err)
			if c.GetVerification().GetVerified() != tt.signed || w.head(t, "main") != main {
				t.Errorf("verified %v, want %v", c.GetVerification().GetVerified(), tt.signed)
			}
			branch := "refs/heads/data/" + strings.ReplaceAll(tt.name, " ", "-")
			_, _, err = w.gh.Git.CreateRef(ctx, owner, name,
				&github.Reference{Ref: &branch, Object: &github.GitObject{SHA: c.SHA}})
			check(t, err)
			files := must[map[string]string](t)(w.Files(owner, name, c.GetSHA()))
			want := map[string]string{
				"tool": "100755", "link": "120000", "copy/of/a.go": "100644", "pkg/a.go": "100644", "run.sh": "100755",
			}
			if d := cmp.Diff(want, files); d != "" {
				t.Errorf("files (-want +got):\n%s", d)
			}
		})
	}
	refs, _, err := w.gh.Git.ListMatchingRefs(ctx, owner, name, &github.ReferenceListOptions{Ref: "heads/data/"})
	check(t, err)
	if len(refs) != 2 {
		t.Errorf("matching refs %v", refs)
	}
	moved, _, err := w.gh.Git.UpdateRef(ctx, owner, name,
		&github.Reference{Ref: github.String("refs/heads/data/somebody's"), Object: &github.GitObject{SHA: &main}}, true)
	check(t, err)
	if moved.GetObject().GetSHA() != main {
		t.Errorf("ref %v", moved)
	}
	_, err = w.gh.Git.DeleteRef(ctx, owner, name, "heads/data/somebody's")
	check(t, err)
	_, _, err = w.gh.Git.GetRef(ctx, owner, name, "heads/data/somebody's")
	refused(t, err, 404, "Not Found")
	_, _, err = w.gh.Git.GetRef(ctx, owner, name, "heads/data")
	refused(t, err, 404, "Not Found")
	_, err = w.gh.Git.DeleteRef(ctx, owner, name, "heads/main")
	refused(t, err, 422, "Cannot delete the default branch")
}

func TestReadingARepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	file, _, _, err := w.gh.Repositories.GetContents(ctx, owner, name, "pkg/a.go", nil)
	check(t, err)
	if text := must[string](t)(file.GetContent()); text != "package pkg\n" {
		t.Errorf("content %q", text)
	}
	_, dir, _, err := w.gh.Repositories.GetContents(ctx, owner, name, "pkg",
		&github.RepositoryContentGetOptions{Ref: "main"})
	check(t, err)
	if len(dir) != 1 || dir[0].GetPath() != "pkg/a.go" {
		t.Errorf("directory %v", dir)
	}
	_, _, _, err = w.gh.Repositories.GetContents(ctx, owner, name, "pkg/b.go", nil)
	refused(t, err, 404, "Not Found")
	_, _, _, err = w.gh.Repositories.GetContents(ctx, owner, name, "pkg/a.go",
		&github.RepositoryContentGetOptions{Ref: "--all"})
	refused(t, err, 404, "No commit found for the ref --all")
	must[string](t)(w.Push(owner, name, "main", "walt",
		ghsim.PushOptions{
			Message: "Second\n\nWith a body", Files: map[string]string{"run.sh": "#!/bin/sh\n"}, Delete: []string{"README.md"},
		}))
	c, _, err := w.gh.Repositories.GetCommit(ctx, owner, name, "main", nil)
	check(t, err)
	if len(c.Files) != 2 || c.GetStats().GetDeletions() != 2 {
		t.Errorf("commit %v", c)
	}
	list, _, err := w.gh.Repositories.ListCommits(ctx, owner, name, nil)
	check(t, err)
	if len(list) != 2 {
		t.Errorf("commits %v", list)
	}
	commits := must[[]ghsim.Commit](t)(w.BranchCommits(owner, name, "main"))
	if commits[0].Subject != "Second" || commits[0].Body != "With a body" || commits[0].Verified ||
		commits[0].Author != "walt" {
		t.Errorf("commit %+v", commits[0])
	}
	files := must[map[string]string](t)(w.Files(owner, name, "main"))
	if d := cmp.Diff(map[string]string{"pkg/a.go": "100644", "run.sh": "100755"}, files); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if _, err := w.File(owner, name, "main", "README.md"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a deleted file: %v", err)
	}
	if got := must[[]byte](t)(w.File(owner, name, "main", "run.sh")); string(got) != "#!/bin/sh\n" {
		t.Errorf("run.sh is %q", got)
	}
	_, _, err = w.gh.Repositories.GetBranch(ctx, owner, name, "ralph/7", 0)
	if err == nil {
		t.Error("a branch that is not there was found")
	}
}

func TestSeedFromADirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	dir := t.TempDir()
	for path, mode := range map[string]os.FileMode{
		"a.txt": 0o600, "bin/tool": 0o700, ".git/config": 0o600, "weird name\twith tab": 0o600,
	} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o750))
		check(t, os.WriteFile(filepath.Join(dir, path), []byte(path), mode))
	}
	check(t, os.Symlink("a.txt", filepath.Join(dir, "link")))
	must[ghsim.Repo](t)(w.CreateRepo("newcomer", "tree", ghsim.RepoOptions{Dir: dir, DefaultBranch: "trunk"}))
	want := map[string]string{"a.txt": "100644", "bin/tool": "100755", "link": "120000", "weird name\twith tab": "100644"}
	if d := cmp.Diff(want, must[map[string]string](t)(w.Files("newcomer", "tree", "trunk"))); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if _, err := w.CreateRepo("newcomer", "tree", ghsim.RepoOptions{}); err == nil {
		t.Error("the same repository twice")
	}
	if _, err := w.CreateRepo("newcomer", "../tree", ghsim.RepoOptions{}); err == nil {
		t.Error("a repository outside the directory")
	}
}

func TestAWorkflowNeedsItsOwnPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	main := w.head(t, "main")
	base, _, err := w.gh.Git.GetCommit(ctx, owner, name, main)
	check(t, err)
	tree, _, err := w.gh.Git.CreateTree(ctx, owner, name, base.GetTree().GetSHA(), []*github.TreeEntry{{
		Path: github.String(".github/workflows/ci.yml"), Mode: github.String("100644"), Type: github.String("blob"),
		Content: github.String("on: push\n"),
	}})
	check(t, err)
	c, _, err := w.gh.Git.CreateCommit(ctx, owner, name,
		&github.Commit{Message: github.String("CI"), Tree: tree, Parents: []*github.Commit{base}}, nil)
	check(t, err)
	ref := &github.Reference{Ref: github.String("refs/heads/ci"), Object: &github.GitObject{SHA: c.SHA}}
	_, _, err = w.gh.Git.CreateRef(ctx, owner, name, ref)
	refused(t, err, 403, "without `workflows` permission")
	ref.Ref = github.String("refs/heads/main")
	_, _, err = w.gh.Git.UpdateRef(ctx, owner, name, ref, false)
	refused(t, err, 403, "without `workflows` permission")
	dir := t.TempDir()
	_, err = git(t, dir, "clone", w.repo.CloneURL, ".")
	check(t, err)
	check(t, os.MkdirAll(filepath.Join(dir, ".github/workflows"), 0o750))
	check(t, os.WriteFile(filepath.Join(dir, ".github/workflows/ci.yml"), []byte("on: push\n"), 0o600))
	for _, args := range [][]string{{"add", "-A"}, {"commit", "-m", "CI"}} {
		_, err = git(t, dir, args...)
		check(t, err)
	}
	token := must[string](t)(w.Token(w.in.ID, nil))
	out, err := git(t, dir, "push", with(w.repo.CloneURL, "x-access-token", token), "HEAD:main", "HEAD:refs/heads/new")
	if err == nil || strings.Count(out, "(refusing to allow a GitHub App to create or update workflow") != 2 {
		t.Errorf("a workflow was pushed: %v: %s", err, out)
	}
	if branches := must[map[string]string](t)(w.Branches(owner, name)); len(branches) != 1 || branches["main"] != main {
		t.Errorf("branches after a refused push: %v", branches)
	}
	_, _, err = w.as["walt"].Git.UpdateRef(ctx, owner, name, ref, false)
	check(t, err)
	// What is on the default branch already is no news on another one.
	ref.Ref = github.String("refs/heads/after")
	_, _, err = w.gh.Git.CreateRef(ctx, owner, name, ref)
	check(t, err)
}

func TestCloseStopsWhatIsHeld(t *testing.T) {
	t.Parallel()
	sim := must[*ghsim.Sim](t)(ghsim.New(ghsim.Options{Dir: t.TempDir()}))
	must[string](t)(sim.Start("127.0.0.1:0"))
	if _, err := sim.Start("127.0.0.1:0"); err == nil {
		t.Error("started twice")
	}
	check(t, sim.Close(context.WithoutCancel(t.Context())))
	check(t, sim.Close(context.WithoutCancel(t.Context())))
}
