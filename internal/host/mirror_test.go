package host

import (
	"context"
	"errors"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/run"
)

// The result of a fetch is for those who asked while it was under way.
func TestFreshIsFresh(t *testing.T) {
	t.Parallel()
	life, stop := context.WithCancel(t.Context())
	m := NewMirrors(life, nil, t.TempDir())
	updates := 0
	update := func(context.Context) (*gitrepo.Repo, error) {
		updates++ // one fetch at a time
		return nil, nil
	}
	impatient, giveUp := context.WithCancel(t.Context())
	giveUp()
	early, late := &MirrorSource{Node: "R"}, &MirrorSource{Node: "R"}
	leave := func() { // a fetch whose result early does not wait for
		t.Helper()
		ended := make(chan struct{})
		_, err := m.fresh(impatient, early, func(ctx context.Context) (*gitrepo.Repo, error) {
			<-ended
			return update(ctx)
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		close(ended)
		m.Wait()
	}
	leave()
	for n, asker := range []*MirrorSource{early, early} {
		if _, err := m.fresh(t.Context(), asker, update); err != nil || updates != n+1 {
			t.Errorf("asking again: %d fetches, %v, want %d", updates, err, n+1)
		}
	}
	leave()
	before := updates
	if _, err := m.fresh(t.Context(), late, update); err != nil || updates != before+1 {
		t.Errorf("what was done before the asking was handed out: %d fetches after %d, %v", updates, before, err)
	}
	// A fetch ends with the process.
	stop()
	if _, err := m.fresh(t.Context(), late, func(ctx context.Context) (*gitrepo.Repo, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Who asks while a fetch is under way gets what one that begins later finds, and shares
// that with the others.
func TestFreshIsNotOlderThanTheQuestion(t *testing.T) {
	t.Parallel()
	m := NewMirrors(t.Context(), nil, t.TempDir())
	began, goOn := make(chan struct{}), make(chan struct{})
	first, second := &gitrepo.Repo{}, &gitrepo.Repo{}
	early := &MirrorSource{Node: "R"}
	got := make(chan *gitrepo.Repo)
	go func() {
		repo, _ := m.fresh(t.Context(), early, func(context.Context) (*gitrepo.Repo, error) {
			close(began)
			<-goOn
			return first, nil
		})
		got <- repo
	}()
	<-began
	impatient, giveUp := context.WithCancel(t.Context())
	giveUp()
	fetches := 0
	update := func(context.Context) (*gitrepo.Repo, error) {
		fetches++
		return second, nil
	}
	late := []*MirrorSource{{Node: "R"}, {Node: "R"}}
	for _, asker := range late {
		if _, err := m.fresh(impatient, asker, update); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	close(goOn)
	if repo := <-got; repo != first {
		t.Error("the first asker did not get its own")
	}
	for _, asker := range late {
		if repo, err := m.fresh(t.Context(), asker, update); err != nil || repo != second {
			t.Errorf("what was begun before the question was handed out, %v", err)
		}
	}
	if m.Wait(); fetches != 1 {
		t.Errorf("%d fetches", fetches)
	}
}

func newGit(t *testing.T) (*gitrepo.Git, string) {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	git, err := gitrepo.New(path)
	if err != nil {
		t.Fatal(err)
	}
	return git, path
}

// What nobody has used goes; what a run is in, or opens meanwhile, stays.
func TestEvictMirrors(t *testing.T) {
	t.Parallel()
	git, _ := newGit(t)
	m := NewMirrors(t.Context(), git, t.TempDir())
	open := func(node string) {
		t.Helper()
		if _, err := m.open(node, gitrepo.Remote{URL: "https://git.example/x.git"}); err != nil {
			t.Error(err)
		}
	}
	now := time.Now()
	age := func(node string, by time.Duration) {
		t.Helper()
		if err := os.Chtimes(m.path(node), now.Add(-by), now.Add(-by)); err != nil {
			t.Fatal(err)
		}
	}
	there := func(node string) bool {
		_, err := os.Stat(m.path(node))
		return err == nil
	}
	for _, node := range []string{"used", "old", "new"} {
		open(node)
		age(node, time.Hour)
	}
	age("new", 0)
	e := Eviction{Before: now.Add(-time.Minute), InUse: func(context.Context) ([]string, error) { return []string{"used"}, nil }}
	if got, err := m.Evict(t.Context(), e); err != nil || got.Count != 1 || got.Bytes == 0 || there("old") ||
		!there("used") || !there("new") {
		t.Errorf("evicted %+v, %v", got, err)
	}
	age("new", time.Hour)
	// One that opens it a moment later gets another.
	opened := make(chan struct{})
	begin := sync.OnceFunc(func() {
		go func() {
			defer close(opened)
			open("new")
		}()
	})
	looks := 0
	e.InUse = func(context.Context) ([]string, error) {
		if looks++; looks == 2 { // the look before is for the other mirror
			begin()
		}
		return []string{"used"}, nil
	}
	if got, err := m.Evict(t.Context(), e); err != nil || got.Count != 1 {
		t.Errorf("evicted %+v, %v", got, err)
	}
	<-opened
	if !there("new") {
		t.Error("who opened a mirror has none")
	}
}

// A repository that is larger than what is kept of one is refused.
func TestARepositoryThatIsTooLarge(t *testing.T) {
	t.Parallel()
	git, path := newGit(t)
	root := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "x.git"},
		{"-C", "x.git", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"},
	} {
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	server := httptest.NewServer(&cgi.Handler{
		Path: path, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	})
	defer server.Close()
	remote := gitrepo.Remote{URL: server.URL + "/x.git/.git"}
	m := NewMirrors(t.Context(), git, t.TempDir())
	if _, err := m.update(t.Context(), "R", remote); err != nil {
		t.Fatal(err)
	}
	m.most = 1
	_, err := m.update(t.Context(), "R", remote)
	if user, ok := errors.AsType[*run.UserError](err); !ok || !strings.Contains(user.Message, "more than 0 MiB") {
		t.Error(err)
	}
}
