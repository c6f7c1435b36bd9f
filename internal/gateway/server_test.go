package gateway

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// shortDir is a directory whose path leaves room for a socket; t.TempDir holds
// the name of the test.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func listen(t *testing.T, dir string, h http.Handler) *Server {
	t.Helper()
	s, err := Listen(dir, h)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// over is a client that speaks through the socket, like the relay in a sandbox.
func over(t *testing.T, socket string) *http.Client {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func get(t *testing.T, c *http.Client) (string, error) {
	t.Helper()
	resp, err := c.Do(request(t, http.MethodGet, "http://gateway/", nil))
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

func TestListen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "run-1")
	s := listen(t, dir, says("one"))
	if s.Path() != filepath.Join(dir, "gw", "gw.sock") || s.Dir() != filepath.Join(dir, "gw") {
		t.Errorf("path %s, directory %s", s.Path(), s.Dir())
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700, s.Dir(): 0o755, s.Path(): 0o666} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v, want %v", path, info.Mode().Perm(), err, want)
		}
	}
	if got, err := get(t, over(t, s.Path())); err != nil || got != "one" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Listen(dir, says("two")); !errors.Is(err, ErrInUse) {
		t.Errorf("a second server on the same socket: %v", err)
	}
	if got, err := get(t, over(t, s.Path())); err != nil || got != "one" {
		t.Errorf("after the second one was refused: %q, %v", got, err)
	}
	for range 2 {
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := os.Lstat(s.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("socket after close: %v", err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.Path(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false) // as a killed process leaves it behind
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	again := listen(t, dir, says("again"))
	if got, err := get(t, over(t, again.Path())); err != nil || got != "again" {
		t.Errorf("%q, %v", got, err)
	}
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestListenRefuses(t *testing.T) {
	t.Parallel()
	taken := shortDir(t)
	if err := os.MkdirAll(filepath.Join(taken, "gw", "gw.sock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(taken, says("")); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a directory in place of the socket: %v", err)
	}
	long := filepath.Join(shortDir(t), strings.Repeat("x", 100))
	_, err := Listen(long, says(""))
	if user, ok := errors.AsType[*run.UserError](err); !ok || !strings.Contains(user.Message, "107") {
		t.Errorf("a long path: %v", err)
	}
	if _, err := os.Lstat(long); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused directory was made: %v", err)
	}
	// The longest that fits.
	dir := shortDir(t)
	dir = filepath.Join(dir, strings.Repeat("x", maxSocketPath-len(dir)-len("//gw/gw.sock")))
	s := listen(t, dir, says("fits"))
	if got, err := get(t, over(t, s.Path())); err != nil || got != "fits" || len(s.Path()) != maxSocketPath {
		t.Errorf("%q, %v, %d bytes", got, err, len(s.Path()))
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Close waits for an answer under way, but not longer than it is told to.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{true, false} {
		inside, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		s := listen(t, shortDir(t), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(inside)
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}))
		client := over(t, s.Path())
		go func() {
			_, err := get(t, client)
			done <- err
		}()
		<-inside
		ctx, cancel := context.WithCancel(t.Context())
		closed := make(chan error, 1)
		go func() { closed <- s.Close(ctx) }()
		if waits {
			close(release)
		} else {
			cancel()
		}
		if err := <-done; (err == nil) != waits {
			t.Errorf("waits %t: the answer is %v", waits, err)
		}
		if err := <-closed; errors.Is(err, context.Canceled) == waits {
			t.Errorf("waits %t: close: %v", waits, err)
		}
		cancel()
	}
}
