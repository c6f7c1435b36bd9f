package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/org/ralph-action/internal/proc"
)

const (
	testUser  = "x-access-token"
	testToken = "ghs_secret-token.with.dots"
)

// server serves a bare repository over real smart HTTP, to whoever knows the
// token.
type server struct {
	*httptest.Server
	dir string
	// token is what it accepts.
	token atomic.Value
	// redirect, where set, is where it sends everyone.
	redirect atomic.Value
}

func serve(t *testing.T, fs files) *server {
	t.Helper()
	bare := filepath.Join(t.TempDir(), "repo.git")
	mustGit(t, filepath.Dir(bare), "clone", "-q", "--bare", person(t, fs), bare)
	s := &server{dir: bare}
	s.token.Store(testToken)
	s.redirect.Store("")
	backend := &cgi.Handler{
		Path:   filepath.Join(mustGit(t, "/", "--exec-path"), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1"},
		Stderr: io.Discard,
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, token, _ := r.BasicAuth()
		if to, _ := s.redirect.Load().(string); to != "" {
			http.Redirect(w, r, to+r.URL.RequestURI(), http.StatusMovedPermanently)
			return
		}
		if user != testUser || token != s.token.Load() {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "no: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) remote() Remote {
	return Remote{URL: s.URL + "/repo.git", Auth: func(context.Context, string) (string, string, error) {
		return testUser, testToken, nil
	}}
}

func TestMirror(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := serve(t, files{"a": "1"})
	dir := filepath.Join(t.TempDir(), "deep", "mirror.git")
	r, err := newGit(t).OpenMirror(dir, srv.remote())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(ctx, "main"); !errors.Is(err, ErrNotFound) {
		t.Errorf("resolve before the fetch: %v", err)
	}
	mustGit(t, srv.dir, "branch", "other")
	mustGit(t, srv.dir, "tag", "v1")
	if err := r.Fetch(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := mustGit(t, dir, "for-each-ref"), mustGit(t, srv.dir, "for-each-ref", "refs/heads"); got != want {
		t.Errorf("mirror has\n%s\nwant\n%s", got, want)
	}
	if branch, err := r.DefaultBranch(ctx); err != nil || branch != "main" {
		t.Errorf("default branch %q, %v", branch, err)
	}

	// What the host keeps elsewhere survives the pruning.
	head, err := r.Resolve(ctx, "refs/heads/main")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.UpdateRef(ctx, "refs/ralph/7", head, ""); err != nil {
		t.Fatal(err)
	}
	mustGit(t, srv.dir, "branch", "-D", "other")
	if err := r.Fetch(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(ctx, "other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a branch that is gone resolves: %v", err)
	}
	if got, err := r.Resolve(ctx, "refs/ralph/7"); err != nil || got != head {
		t.Errorf("the host's ref is %q, %v", got, err)
	}

	// What one ref is at, and the tree of a commit by its name.
	mustGit(t, srv.dir, "update-ref", "refs/heads/late", mustGit(t, srv.dir, "commit-tree", "-m", "late", "main^{tree}"))
	if err := r.Fetch(ctx, "refs/heads/late"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.TreeOf(ctx, OID(mustGit(t, srv.dir, "rev-parse", "late"))); err != nil {
		t.Error(err)
	}
	if err := r.Fetch(ctx, "refs/heads/nonesuch"); !errors.Is(err, ErrNotFound) {
		t.Errorf("fetching what is not there: %v", err)
	}
	if data, err := r.ReadFile(ctx, head, "a", 10); err != nil || string(data) != "1" {
		t.Errorf("read %q, %v", data, err)
	}
	for _, bad := range []string{
		"--upload-pack=x", "main", "", "refs/heads/a b", ":refs/heads/main", "refs/heads/a:refs/heads/b", "refs/heads/*",
	} {
		if err := r.Fetch(ctx, bad); err == nil {
			t.Errorf("fetched %q", bad)
		}
	}
	noToken(t, dir)
}

// noToken fails where the credential is in any file of the mirror.
func noToken(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path) // #nosec G304,G122 -- our own directory
		if bytes.Contains(data, []byte(testToken)) || bytes.Contains(data, []byte("Authorization")) {
			t.Errorf("%s holds the credential", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFetchErrors(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := serve(t, files{"a": "1"})
	elsewhere := atomic.Int32{}
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(thief.Close)
	remote := srv.remote()
	g := newGit(t)
	fetch := func(remote Remote) error {
		r, err := g.OpenMirror(filepath.Join(t.TempDir(), "m.git"), remote)
		if err != nil {
			return err
		}
		err = r.Fetch(ctx)
		if err != nil && (strings.Contains(err.Error(), testToken) || strings.Contains(err.Error(), "eC1hY2Nlc3M")) {
			t.Errorf("the error shows the credential: %v", err)
		}
		if exit, ok := errors.AsType[*proc.ExitError](err); ok && strings.Contains(strings.Join(exit.Args, " "), testToken) {
			t.Errorf("the arguments held the credential: %q", exit.Args)
		}
		return err
	}
	if err := fetch(remote); err != nil {
		t.Errorf("with the right token: %v", err)
	}
	if err := fetch(Remote{URL: remote.URL}); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("without a token: %v", err)
	}
	srv.token.Store("another")
	if err := fetch(remote); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("with a wrong token: %v", err)
	}
	var asked []string
	renewing := Remote{URL: remote.URL, Auth: func(_ context.Context, refused string) (string, string, error) {
		asked = append(asked, refused)
		if refused == "" {
			return testUser, testToken, nil
		}
		return testUser, "another", nil
	}}
	if err := fetch(renewing); err != nil || !slices.Equal(asked, []string{"", testToken}) {
		t.Errorf("with another token after the first was refused: %v, asked %d times", err, len(asked))
	}
	srv.token.Store(testToken)
	if err := fetch(Remote{URL: srv.URL + "/nonesuch.git", Auth: remote.Auth}); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such repository: %v", err)
	}
	denied := errors.New("denied")
	if err := fetch(Remote{
		URL: remote.URL, Auth: func(context.Context, string) (string, string, error) { return "", "", denied },
	}); !errors.Is(err, denied) {
		t.Errorf("no credential to be had: %v", err)
	}
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }))
	for _, what := range []string{"fails", "is away"} {
		if err := fetch(Remote{URL: down.URL + "/r.git"}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a remote that %s: %v", what, err)
		}
		down.Close()
	}
	srv.redirect.Store(thief.URL)
	if err := fetch(remote); err == nil || elsewhere.Load() != 0 {
		t.Errorf("a redirect was followed %d times, %v", elsewhere.Load(), err)
	}
	for _, bad := range []string{"file://" + srv.dir, srv.dir, "ssh://h/x", "ext::sh -c x", "--upload-pack=x", "git://h/x"} {
		if err := fetch(Remote{URL: bad}); err == nil {
			t.Errorf("fetched from %q", bad)
		}
	}
}

// Each handle has its own lock, as processes do.
func TestMirrorIsSharedByProcesses(t *testing.T) {
	t.Parallel()
	srv := serve(t, files{"a": "1"})
	dir := filepath.Join(t.TempDir(), "m.git")
	g := newGit(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			r, err := g.OpenMirror(dir, srv.remote())
			if err == nil {
				err = r.Fetch(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r, err := g.OpenMirror(dir, srv.remote())
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := r.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Fetch(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
