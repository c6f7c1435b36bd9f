package ghsim_test

import (
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
		{"old protocol", []string{"-c", "protocol.version=0", "clone", w.repo.CloneURL, "."}, ""},
		{"push", []string{"push", with(w.repo.CloneURL, "x-access-token", full), "main"}, "403"},
		{"partial", []string{"clone", "--filter=blob:none", "--bare", w.repo.CloneURL, "."}, ""},
		{"shallow", []string{"clone", "--depth=1", w.repo.CloneURL, "."}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if tt.args[0] == "push" {
				if out, err := git(t, dir, "clone", "-q", w.repo.CloneURL, "."); err != nil {
					t.Fatal(out)
				}
			}
			out, err := git(t, dir, tt.args...)
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

// TestGitReadsWhatIsWritten has git check everything that the APIs and people write into a repository.
func TestGitReadsWhatIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	token := must[string](t)(w.Token(w.in.ID, nil))
	w.do(t, "POST", "/api/graphql", token, commitRequest(w.branch(t, "ralph/1")))
	pr := w.pull(t, "topic/deep/er", false)
	must[string](t)(w.Push(owner, name, "main", "walt", ghsim.PushOptions{
		Message: "Second\n\nWith a body", Files: map[string]string{"run.sh": "#!/bin/sh\n", "pkg": "a file now\n"},
		Delete: []string{"README.md"},
	}))
	check(t, w.Merge(owner, name, pr.GetNumber(), "walt"))
	check(t, w.DeleteBranch(owner, name, "topic/deep/er", "walt"))
	must[string](t)(w.Push(owner, name, "topic", "walt", ghsim.PushOptions{Files: map[string]string{"a": "b"}}))
	must[string](t)(w.Push(owner, name, "topic", "walt", ghsim.PushOptions{Files: map[string]string{"a": "c"}, Force: true}))

	bare := func(args ...string) string {
		t.Helper()
		out, err := git(t, w.repo.Dir, args...)
		if err != nil {
			t.Fatalf("git %v: %s", args, out)
		}
		return strings.TrimSpace(out)
	}
	bare("fsck", "--strict", "--full")
	for branch, oid := range must[map[string]string](t)(w.Branches(owner, name)) {
		if got := bare("rev-parse", "refs/heads/"+branch); got != oid {
			t.Errorf("%s is at %s, git has it at %s", branch, oid, got)
		}
		var files []string
		for path, mode := range must[map[string]string](t)(w.Files(owner, name, branch)) {
			files = append(files, mode+" "+path)
		}
		slices.Sort(files)
		if d := cmp.Diff(strings.Split(bare("ls-tree", "-r", "--format=%(objectmode) %(path)", oid), "\n"), files,
			cmpopts.SortSlices(strings.Compare)); d != "" {
			t.Errorf("files of %s (-git +ours):\n%s", branch, d)
		}
	}
	var log []string
	for _, c := range must[[]ghsim.Commit](t)(w.BranchCommits(owner, name, "main")) {
		log = append(log, c.OID+" "+c.Tree+" "+c.Subject)
	}
	if d := cmp.Diff(strings.Split(bare("log", "--topo-order", "--format=%H %T %s", "main"), "\n"), log); d != "" {
		t.Errorf("log of main (-git +ours):\n%s", d)
	}
	if bare("for-each-ref", "refs/pull") == "" {
		t.Error("no ref of the pull request")
	}
	_, _, err := w.gh.Repositories.GetBranch(ctx, owner, name, "topic/deep/er", 0)
	if err == nil {
		t.Error("a deleted branch was found")
	}
}

// TestGitData: without an author of its own the App's commit is signed; with one it is not.
func TestGitData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	main := w.head(t, "main")
	blob, _, err := w.gh.Git.CreateBlob(ctx, owner, name,
		&github.Blob{Content: github.String("Li4v\nIQ=="), Encoding: github.String("base64")})
	check(t, err)
	tree, _, err := w.gh.Git.CreateTree(ctx, owner, name, "", []*github.TreeEntry{
		{Path: github.String("link"), Mode: github.String("120000"), Type: github.String("blob"), SHA: blob.SHA},
	})
	check(t, err)
	for _, author := range []*github.CommitAuthor{
		nil, {Name: github.String("Eve"), Email: github.String("eve@example.com")},
	} {
		c, _, err := w.gh.Git.CreateCommit(ctx, owner, name, &github.Commit{
			Message: github.String("By data"), Tree: tree, Parents: []*github.Commit{{SHA: &main}}, Author: author,
		}, nil)
		check(t, err)
		if c.GetVerification().GetVerified() != (author == nil) || w.head(t, "main") != main {
			t.Errorf("by %v: verified %v", author, c.GetVerification().GetVerified())
		}
		if d := cmp.Diff(map[string]string{"link": "120000"}, must[map[string]string](t)(w.Files(owner, name, c.GetSHA()))); d != "" {
			t.Errorf("files (-want +got):\n%s", d)
		}
	}
}
