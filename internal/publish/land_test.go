package publish_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const (
	owner = "acme"
	name  = "widgets"
)

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

// world is a simulated GitHub, the host's own mirror of
// its repository, and a real store.
type world struct {
	*ghsim.Sim

	walt    ghsim.User
	bot     ghsim.App
	install int64
	app     *ghapp.App
	repo    *ghapp.Repo
	mirror  *gitrepo.Repo
	store   *store.Store
	issue   int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	sim := ghsimtest.Start(t, ghsim.Options{})
	w := &world{Sim: sim}
	get[ghsim.User](t)(sim.CreateUser(owner))
	w.walt = get[ghsim.User](t)(sim.CreateUser("walt"))
	repo := get[ghsim.Repo](t)(sim.CreateRepo(owner, name, ghsim.RepoOptions{
		Files:       map[string]string{"README.md": "# Widgets\n", "run.sh": "#!/bin/sh\n", "pkg/a.go": "package pkg\n"},
		Executables: []string{"run.sh"},
	}))
	check(t, sim.SetPermission(owner, name, "walt", ghsim.RoleWrite))
	w.bot = get[ghsim.App](t)(sim.CreateApp(ghsim.AppOptions{
		Slug:        "ralph",
		Permissions: map[string]string{"checks": "write", "contents": "write", "issues": "write", "pull_requests": "write"},
	}))
	w.install = get[ghsim.Installation](t)(sim.Install(w.bot.ID, owner+"/"+name)).ID
	w.connect(t)
	w.issue = get[ghsim.Issue](t)(sim.CreateIssue(owner, name, "walt", "Add a --json flag", "Please.")).Number

	git := get[*gitrepo.Git](t)(gitrepo.New(""))
	w.mirror = get[*gitrepo.Repo](t)(git.OpenMirror(filepath.Join(t.TempDir(), "mirror.git"),
		gitrepo.Remote{URL: repo.CloneURL, Auth: w.repo.GitAuth}))
	check(t, w.mirror.Fetch(t.Context()))
	w.store = get[*store.Store](t)(store.Open(t.Context(), filepath.Join(t.TempDir(), "ralph.db")))
	t.Cleanup(func() { check(t, w.store.Close()) })
	return w
}

func (w *world) publisher(id run.ID) *publish.Publisher {
	return &publish.Publisher{
		GitHub: w.repo, Effects: effects.Runner{Store: w.store}, Run: id, Issue: w.issue,
		Objects: func(context.Context) (*gitrepo.Repo, error) { return w.mirror, nil },
		Branch:  w.branch(), BaseBranch: "main",
	}
}

// nextIssue turns to a new issue, whose branch does not exist yet, and forgets
// what the App knows of itself.
func (w *world) nextIssue(t *testing.T) {
	t.Helper()
	w.issue = get[ghsim.Issue](t)(w.CreateIssue(owner, name, "walt", "Add a --json flag", "Please.")).Number
	w.connect(t)
	w.store = get[*store.Store](t)(store.Open(t.Context(), filepath.Join(t.TempDir(), "ralph.db")))
	t.Cleanup(func() { check(t, w.store.Close()) })
}

func (w *world) connect(t *testing.T) {
	t.Helper()
	w.app = get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3/", AppID: w.bot.ID, PrivateKey: w.bot.PrivateKeyPEM, WriteEvery: time.Microsecond,
	}))
	w.repo = w.app.Repo(w.install, owner, name)
}

func (w *world) branch() string { return run.Branch(w.issue) }

func (w *world) head(t *testing.T, branch string) string {
	t.Helper()
	return get[map[string]string](t)(w.Branches(owner, name))[branch]
}

// proposal is a commit that puts files into the tree of base.
func (w *world) proposal(t *testing.T, base string, iteration int, edits ...gitrepo.TreeEdit) publish.Commit {
	t.Helper()
	tree := get[gitrepo.OID](t)(w.mirror.TreeOf(t.Context(), gitrepo.OID(base)))
	return w.on(t, base, string(tree), iteration, edits...)
}

func (w *world) on(t *testing.T, base, tree string, iteration int, edits ...gitrepo.TreeEdit) publish.Commit {
	t.Helper()
	want := get[gitrepo.OID](t)(w.mirror.TreeWith(t.Context(), gitrepo.OID(tree), edits))
	return publish.Commit{
		Run: "r-1", Iteration: iteration, TaskID: fmt.Sprintf("T%d", iteration),
		TaskTitle: fmt.Sprintf("Do step %d", iteration),
		Base:      base, BaseTree: tree, Tree: string(want), Agent: "script", RequestedBy: "walt", RequestedByID: 4711,
	}
}

func file(path, content string) gitrepo.TreeEdit {
	return gitrepo.TreeEdit{Path: path, Data: []byte(content)}
}

func executable(path, content string) gitrepo.TreeEdit {
	return gitrepo.TreeEdit{Path: path, Data: []byte(content), Mode: gitrepo.ModeExecutable}
}

// mine lists the commits on the issue's branch that main does not have.
func (w *world) mine(t *testing.T) []ghsim.Commit {
	t.Helper()
	if w.head(t, w.branch()) == "" {
		return nil
	}
	return get[[]ghsim.Commit](t)(w.BranchCommits(owner, name, w.branch()))
}

func (w *world) posts() int {
	n := 0
	for _, c := range w.Sim.Calls() {
		if c.Method == "POST" && c.Route != "/app/installations/{installation_id}/access_tokens" || c.Method == "PATCH" {
			n++
		}
	}
	return n
}

func TestLand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, p, main := t.Context(), w.publisher("r-1"), w.head(t, "main")

	one := w.proposal(t, main, 1, file("a.txt", "a\n"), gitrepo.TreeEdit{Path: "pkg", Remove: true},
		file("run.sh", "#!/bin/sh\necho\n"))
	// An agent's edit keeps the mode of a file that is executable.
	one = w.on(t, main, one.BaseTree, 1, file("a.txt", "a\n"), gitrepo.TreeEdit{Path: "pkg", Remove: true},
		executable("run.sh", "#!/bin/sh\necho\n"))
	first := get[loop.Landed](t)(p.LandCommit(ctx, one))
	two := w.on(t, first.OID, first.Tree, 2, executable("tool.sh", "#!/bin/sh\n"),
		gitrepo.TreeEdit{Path: "run.sh", Data: []byte("x\n")})
	second := get[loop.Landed](t)(p.LandCommit(ctx, two))
	three := w.on(t, second.OID, second.Tree, 3, file("README.md", "# New\n"))
	third := get[loop.Landed](t)(p.LandCommit(ctx, three))

	commits := w.mine(t)
	if len(commits) != 3 {
		t.Fatalf("%d commits, want 3: %+v", len(commits), commits)
	}
	slices.SortFunc(commits, func(a, b ghsim.Commit) int { return strings.Compare(a.Subject, b.Subject) })
	for i, c := range []publish.Commit{one, two, three} {
		landed := []loop.Landed{first, second, third}[i]
		got := commits[i]
		if !got.Verified || got.Tree != c.Tree || !slices.Equal(got.Parents, []string{c.Base}) || got.Author != "ralph[bot]" {
			t.Errorf("commit %d = %+v", i, got)
		}
		message := strings.TrimSpace(got.Subject + "\n\n" + got.Body)
		if diff := cmp.Diff(publish.Message(nil, c), message); diff != "" {
			t.Errorf("message (-want +got):\n%s", diff)
		}
		want := loop.Landed{OID: got.OID, Tree: c.Tree, Subject: got.Subject, Verified: new(true), TaskID: c.TaskID}
		if diff := cmp.Diff(want, landed); diff != "" {
			t.Errorf("landed %d: %s", i, diff)
		}
	}
	if got := w.head(t, "main"); got != main {
		t.Error("main was touched")
	}

	// Again: nothing is sent.
	before := len(w.Sim.Calls())
	if got := get[loop.Landed](t)(p.LandCommit(ctx, two)); !cmp.Equal(got, second) {
		t.Errorf("landed again: %+v, want %+v", got, second)
	}
	if n := len(w.Sim.Calls()) - before; n != 0 {
		t.Errorf("%d calls to land what has landed", n)
	}
}

func TestLandRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	for name, c := range map[string]struct {
		edits []gitrepo.TreeEdit
		want  []loop.Refusal
	}{
		"link": {
			[]gitrepo.TreeEdit{{Path: "l", Data: []byte("/etc/passwd"), Mode: gitrepo.ModeSymlink}, file("ok", "x")},
			[]loop.Refusal{{Path: "l", Reason: "symbolic link"}},
		},
		"workflow": {
			[]gitrepo.TreeEdit{file(".github/workflows/x.yml", "on: push")},
			[]loop.Refusal{{Path: ".github/workflows/x.yml", Reason: "runs with the repository's permissions"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.posts()
			_, err := w.publisher("r-1").LandCommit(ctx, w.proposal(t, main, 1, c.edits...))
			refused, ok := errors.AsType[*loop.Rejection](err)
			if !ok {
				t.Fatalf("err = %v", err)
			}
			if diff := cmp.Diff(c.want, refused.Refusals); diff != "" {
				t.Error(diff)
			}
			if w.posts() > before+1 || len(w.mine(t)) != 0 { // the branch may be made
				t.Error("something was published")
			}
		})
	}
	if _, err := w.publisher("r-1").LandCommit(ctx, w.proposal(t, main, 1)); !errors.Is(err, publish.ErrNoChange) {
		t.Errorf("no change: %v", err)
	}
}

func TestLandRefusesTooMuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	big := func(path string, size int) gitrepo.TreeEdit { return file(path, strings.Repeat("0", size)) }
	_, err := w.publisher("r-1").LandCommit(t.Context(), w.proposal(t, w.head(t, "main"), 1,
		big("huge", publish.MaxFile+1), big("half-1", 14<<20), big("half-2", 14<<20), big("small", 3)))
	refused, ok := errors.AsType[*loop.Rejection](err)
	if !ok {
		t.Fatalf("err = %v", err)
	}
	want := []loop.Refusal{
		{Path: "half-2", Reason: "the change is larger than the 26 MiB of content that one commit can carry"},
		{Path: "huge", Reason: "file is larger than 50 MiB"},
		{Path: "small", Reason: "the change is larger than the 26 MiB of content that one commit can carry"},
	}
	if diff := cmp.Diff(want, refused.Refusals); diff != "" {
		t.Error(diff)
	}
}

// TestH1LandOnPeoplesWork: on top, and never over it.
func TestH1LandOnPeoplesWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, p := t.Context(), w.publisher("r-1")
	theirs := get[string](t)(w.Push(owner, name, w.branch(), "walt",
		ghsim.PushOptions{Files: map[string]string{"theirs": "1"}}))
	check(t, w.mirror.Fetch(ctx))
	landed := get[loop.Landed](t)(p.LandCommit(ctx, w.proposal(t, theirs, 1, file("mine", "1"))))
	for _, path := range []string{"theirs", "mine"} {
		if got := get[[]byte](t)(w.File(owner, name, w.branch(), path)); string(got) != "1" {
			t.Errorf("%s = %q", path, got)
		}
	}

	next := w.on(t, landed.OID, landed.Tree, 2, file("mine", "2"))
	pushed := get[string](t)(w.Push(owner, name, w.branch(), "walt",
		ghsim.PushOptions{Files: map[string]string{"theirs": "2"}}))
	for range 2 {
		_, err := p.LandCommit(ctx, next)
		if !errors.Is(err, loop.ErrBranchMoved) || !strings.Contains(err.Error(), pushed) {
			t.Errorf("err = %v", err)
		}
	}
	if got := w.head(t, w.branch()); got != pushed {
		t.Error("a person's push was overwritten")
	}

	check(t, w.DeleteBranch(owner, name, w.branch(), "walt"))
	_, err := p.LandCommit(ctx, next)
	if halt, ok := errors.AsType[*loop.Halt](err); !ok || halt.Reason != run.EndCancelled {
		t.Errorf("branch deleted: %v", err)
	}
	if got := w.head(t, w.branch()); got != "" {
		t.Error("a branch that a person deleted came back")
	}
}

// TestLandTakesNoForgery: a person pushes a commit with our message and our
// tree in the moment in which our own request is lost.
func TestLandTakesNoForgery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, p, main := t.Context(), w.publisher("r-1"), w.head(t, "main")
	first := get[loop.Landed](t)(p.LandCommit(ctx, w.proposal(t, main, 1, file("a", "1"))))
	next := w.on(t, first.OID, first.Tree, 2, file("a", "2"))
	get[string](t)(w.Push(owner, name, w.branch(), "walt",
		ghsim.PushOptions{Message: publish.Message(nil, next), Files: map[string]string{"a": "2"}}))
	if got := w.mine(t)[0].Tree; got != next.Tree {
		t.Fatalf("the forgery has tree %s, want %s", got, next.Tree)
	}
	if _, err := p.LandCommit(ctx, next); !errors.Is(err, loop.ErrBranchMoved) {
		t.Errorf("err = %v", err)
	}
}

// TestH3LandWhenTheAnswerIsLost: the server may or may not have committed.
func TestH3LandWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const commitCall = "^/graphql createCommitOnBranch"
	lost := ghsim.Fault{Match: commitCall, After: true, Drop: true}
	never := ghsim.Fault{Match: commitCall, Drop: true}
	stale := ghsim.Fault{
		Match: commitCall, Status: 200,
		Body: `{"data":{"createCommitOnBranch":null},"errors":[{"type":"STALE_DATA","path":["createCommitOnBranch"],"message":"Expected branch to point to \"x\" but it did not."}]}`,
	}
	refused := func(kind string) ghsim.Fault {
		return ghsim.Fault{Match: commitCall, Status: 200, Body: `{"errors":[{"type":"` + kind + `","message":"no"}]}`}
	}
	unseen := ghsim.Fault{Match: "/branches/", Status: 404, Body: `{"message":"Branch not found"}`}
	blind := ghsim.Fault{Match: "/branches/", Status: 502, Body: `{"message":"Server Error"}`}
	for name, c := range map[string]struct {
		faults []ghsim.Fault
		class  ghapp.Class // of the first try; "" if it works out by itself
	}{
		"committed, answer lost":             {[]ghsim.Fault{lost}, ""},
		"committed, answer lost, then blind": {[]ghsim.Fault{lost, blind}, ghapp.Transient},
		"not committed":                      {[]ghsim.Fault{never}, ghapp.Transient},
		"replica lags once":                  {[]ghsim.Fault{stale}, ""},
		"replica lags twice":                 {[]ghsim.Fault{stale, stale}, ghapp.Stale},
		"server error after committing": {
			[]ghsim.Fault{{Match: commitCall, After: true, Status: 502, Body: "<html>"}}, "",
		},
		"limited before committing": {
			[]ghsim.Fault{{Match: commitCall, Status: 403, Body: `{"message":"secondary rate limit"}`}}, ghapp.RateLimited,
		},
		"branch made, commit refused": {[]ghsim.Fault{refused("UNPROCESSABLE")}, ghapp.Invalid},
		"branch made, and not seen by a replica": {
			[]ghsim.Fault{refused("NOT_FOUND"), unseen}, "",
		},
		"branch made, and not seen by replicas for a while": {
			[]ghsim.Fault{refused("NOT_FOUND"), unseen, refused("NOT_FOUND"), unseen},
			ghapp.NotFound,
		},
		"branch refused": {
			[]ghsim.Fault{{Method: "POST", Match: "/git/refs$", Status: 403, Body: `{"message":"no"}`}}, ghapp.Forbidden,
		},
		"branch made, answer lost": {
			[]ghsim.Fault{{Method: "POST", Match: "/git/refs$", After: true, Drop: true}}, ghapp.Transient,
		},
		"committed, lost, and the id unknown": {
			[]ghsim.Fault{lost, {Match: "^/graphql viewer", Status: 502, Body: "x"}}, ghapp.Transient,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.nextIssue(t)
			ctx, p, main := t.Context(), w.publisher("r-1"), w.head(t, "main")
			for _, f := range c.faults {
				check(t, w.Inject(f))
			}
			proposal := w.proposal(t, main, 1, file("a", "1"))
			first, err := p.LandCommit(ctx, proposal)
			if class, _ := ghapp.Classify(err); err != nil && class != c.class || (err == nil) != (c.class == "") {
				t.Fatalf("class = %s, want %q: %v", class, c.class, err)
			}
			second := get[loop.Landed](t)(p.LandCommit(ctx, proposal))
			if err == nil && first.OID != second.OID {
				t.Errorf("landed %+v, then %+v", first, second)
			}
			commits := w.mine(t)
			if len(commits) != 1 || commits[0].OID != second.OID || !*second.Verified || commits[0].Tree != proposal.Tree {
				t.Errorf("commits = %+v", commits)
			}
		})
	}
}

// TestBranchInTheWay: a person is told which one.
func TestBranchInTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	check(t, w.repo.CreateBranch(ctx, "ralph", main))
	_, err := w.publisher("r-1").LandCommit(ctx, w.proposal(t, main, 1, file("a", "1")))
	var told *run.UserError
	if !errors.As(err, &told) || !strings.Contains(told.Message, "there is a branch `ralph`") ||
		!strings.Contains(told.Hint, "delete the branch `ralph`") {
		t.Errorf("err = %v", err)
	}
}

// TestH4LandChecksTheResult: success is a verified effect.
func TestH4LandChecksTheResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer := func(tree, signature string) string {
		return fmt.Sprintf(`{"data":{"createCommitOnBranch":{"commit":{"oid":%q,"tree":{"oid":%q},"signature":%s}}}}`,
			strings.Repeat("a", 40), tree, signature)
	}
	const good = `{"isValid":true,"wasSignedByGitHub":true,"state":"VALID"}`
	for name, c := range map[string]struct {
		tree, signature string
		want            error
	}{
		"no signature":      {"", "null", ghapp.ErrUnverified},
		"bad signature":     {"", `{"isValid":false,"wasSignedByGitHub":true,"state":"INVALID"}`, ghapp.ErrUnverified},
		"signed by someone": {"", `{"isValid":true,"wasSignedByGitHub":false,"state":"VALID"}`, ghapp.ErrUnverified},
		"another tree":      {strings.Repeat("b", 40), good, ghapp.ErrTreeMismatch},
		"no tree at all":    {"none", good, ghapp.ErrTreeMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			w.nextIssue(t)
			proposal := w.proposal(t, w.head(t, "main"), 1, file("a", "1"))
			tree := c.tree
			if tree == "" {
				tree = proposal.Tree
			}
			check(t, w.Inject(ghsim.Fault{Match: "^/graphql createCommit", Status: 200, Body: answer(tree, c.signature)}))
			_, err := w.publisher("r-1").LandCommit(t.Context(), proposal)
			e, ok := errors.AsType[*loop.Halt](err)
			if !ok || !strings.Contains(e.Detail, c.want.Error()) || !strings.Contains(e.Detail, "branch now points at it") ||
				!strings.Contains(e.Detail, strings.Repeat("a", 40)) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// TestLandFlagsOwnCommitWithAnotherTree: after a lost answer, the commit that
// is found is ours, yet not what the gates passed on.
func TestLandFlagsOwnCommitWithAnotherTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, main := t.Context(), w.head(t, "main")
	wrong := w.proposal(t, main, 1, file("a", "1"))
	get[loop.Landed](t)(w.publisher("r-1").LandCommit(ctx, wrong))
	right := w.proposal(t, main, 1, file("a", "2"))
	if _, err := w.publisher("r-1").LandCommit(ctx, right); err == nil || !strings.Contains(err.Error(), ghapp.ErrTreeMismatch.Error()) {
		t.Errorf("err = %v", err)
	}
}

// crash stands for SIGKILL at a point.
type crash string

// mortal dies before and after each write to the store, once for each effect.
type mortal struct {
	effects.Store

	died map[string]bool
}

func (m *mortal) die(point string) {
	if !m.died[point] {
		m.died[point] = true
		panic(crash(point))
	}
}

func (m *mortal) BeginEffect(
	ctx context.Context, key string, id run.ID, kind string, intent []byte, now time.Time,
) (store.Effect, error) {
	m.die("before intent of " + key)
	e, err := m.Store.BeginEffect(ctx, key, id, kind, intent, now)
	m.die("after intent of " + key)
	return e, err
}

func (m *mortal) FinishEffect(ctx context.Context, key string, result []byte) error {
	m.die("before result of " + key)
	err := m.Store.FinishEffect(ctx, key, result)
	m.die("after result of " + key)
	return err
}

// TestKilledAtEveryStep does all that a run publishes, starting over after
// being killed at each write to the store in turn: everything must be there
// once.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.head(t, "main")
	v := publish.View{Title: "Add a flag", End: run.EndAllTasksComplete, Closes: true}
	one := w.proposal(t, main, 1, file("a", "1"))
	deaths := &mortal{Store: w.store, died: make(map[string]bool)}
	life := func() (killed bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(crash); !ok {
					panic(r)
				}
				killed = true
			}
		}()
		ctx, p := t.Context(), w.publisher("r-1")
		p.Effects.Store = deaths
		check(t, p.React(ctx, "eyes"))
		first := get[loop.Landed](t)(p.LandCommit(ctx, one))
		second := get[loop.Landed](t)(p.LandCommit(ctx, w.on(t, first.OID, first.Tree, 2, executable("b", "2"))))
		pr := get[ghapp.PR](t)(p.EnsurePR(ctx, v))
		if pr = get[ghapp.PR](t)(finish(ctx, p, pr.Number, v)); pr.Draft {
			t.Error("still a draft")
		}
		check(t, p.AddLabel(ctx, "ralph:done"))
		get[string](t)(p.CommentEnded(ctx, v, pr.Number, ""))
		check(t, p.ShowCheck(ctx, publish.Check{Head: second.OID}, v))
		return false
	}
	lives := 1
	for life() {
		lives++
	}
	// Eight effects: branch, two commits, pull request, ready, label, comment and check run.
	if want := 8*4 + 1; lives != want {
		t.Errorf("%d lives, want %d", lives, want)
	}
	if got := w.mine(t); len(got) != 2 {
		t.Errorf("commits = %+v", got)
	}
	issue := get[ghsim.Issue](t)(w.Sim.Issue(owner, name, w.issue))
	if len(issue.Comments) != 1 || len(issue.Reactions) != 1 || !slices.Equal(issue.Labels, []string{"ralph:done"}) {
		t.Errorf("%d comments, %d reactions, labels %v", len(issue.Comments), len(issue.Reactions), issue.Labels)
	}
	var checks []string
	for _, c := range get[[]ghsim.CheckRun](t)(w.CheckRuns(owner, name)) {
		checks = append(checks, c.Status+" "+c.Conclusion)
	}
	if diff := cmp.Diff([]string{"completed success"}, checks); diff != "" {
		t.Errorf("check runs (-want +got):\n%s", diff)
	}
	prs := get[[]ghsim.PR](t)(w.PRs(owner, name))
	if len(prs) != 1 || prs[0].Draft || !strings.Contains(prs[0].Body, fmt.Sprintf("\nCloses #%d\n", w.issue)) {
		t.Errorf("pull requests %+v", prs)
	}
}
