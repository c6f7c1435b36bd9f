//go:build docker

// The tests in this file let a hijacked agent loose in a hardened container of a
// real Docker engine, with nothing to reach but a gateway.

package gateway

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/docker"
)

// programs builds the program that is the shim and the hijacked agent, statically, once.
var programs = sync.OnceValues(func() (dir string, err error) {
	tool, err := proc.Look("go")
	if err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp("", "hijacked"); err != nil {
		return "", err
	}
	atEnd = func() { _ = os.RemoveAll(dir) }
	if _, err := proc.Run(context.Background(), proc.Cmd{
		Path: tool, Args: []string{"build", "-o", filepath.Join(dir, "shim"), "../sandbox/sandboxtest/helper"},
		Env: append(os.Environ(), "CGO_ENABLED=0"),
	}); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
})

// attempts runs a hijacked agent in a container to its end and gives what came of each attempt.
func attempts(t *testing.T, gatewayDir string, env map[string]string, args ...string) map[string]string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	box, err := docker.New(docker.Options{Self: filepath.Join(dir, "shim")})
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	if err := box.Prepare(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{
		Argv: append([]string{"/hijacked", "helper", "hijacked"}, args...), Env: env,
		Image:     cmp.Or(os.Getenv("RALPH_TEST_IMAGE"), "ralph-test/base:1"),
		Mounts:    []sandbox.Mount{{Host: filepath.Join(dir, "shim"), Target: "/hijacked"}},
		Workspace: tree, RunDir: filepath.Join(t.TempDir(), "run"), GatewayDir: gatewayDir, WallTimeout: 2 * time.Minute,
	}
	name := fmt.Sprintf("gateway-%s-%d", strings.ToLower(t.Name()), time.Now().UnixNano())
	h, err := box.Start(t.Context(), name, spec)
	if err != nil {
		t.Fatalf("%v (scripts/docker-engine.sh and scripts/test-image.sh bring what is needed)", err)
	}
	t.Cleanup(func() {
		if err := box.Remove(context.WithoutCancel(t.Context()), h); err != nil {
			t.Error(err)
		}
	})
	st, err := box.Wait(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(spec.RunDir, "stdout"))
	if err != nil || st.Reason != sandbox.ReasonExited || st.ExitCode != 0 {
		t.Fatalf("%+v %v\n%s", st, err, out)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok || got[name] != "" {
			t.Errorf("a line that is none: %q", line)
		}
		got[name] = text
	}
	return got
}

// serve serves a gateway where containers can mount it.
func serve(t *testing.T, dir string, h http.Handler) *Server {
	t.Helper()
	s, err := Listen(dir, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) }) //nolint:usetesting // after the test
	return s
}

// proxied is the environment of a start that may reach hosts.
func proxied(env map[string]string) map[string]string {
	proxy := url.URL{
		Scheme: "http", User: url.UserPassword(ProxyUser, netToken),
		Host: fmt.Sprintf("127.0.0.1:%d", sandbox.GatewayPort),
	}
	out := map[string]string{"HTTP_PROXY": proxy.String(), "HTTPS_PROXY": proxy.String(), "NO_PROXY": "127.0.0.1"}
	maps.Copy(out, env)
	return out
}

// compare wants each attempt to have come to what it should.
func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, begins := range want {
		text, ok := got[name]
		if !ok || !strings.HasPrefix(text, begins) &&
			(strings.HasPrefix(begins, "REACHED") || !strings.HasPrefix(text, "failed: ") || !strings.Contains(text, begins)) {
			t.Errorf("%s: %q, want %q", name, text, begins)
		}
		delete(got, name)
	}
	for name, text := range got {
		t.Errorf("not expected: %s: %q", name, text)
	}
}

// Attack G2: a hijacked agent in a container, which has a network only through the
// proxy, tries every way out. It gets to the one host that is allowed, and what it
// asked of the proxy is listed.
func TestG2HijackedAgentStaysInside(t *testing.T) {
	t.Parallel()
	n := newInternet(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "https://evil.example.com/"+r.URL.Path, http.StatusFound)
		default:
			_, _ = io.WriteString(w, "package")
		}
	})
	const inside = "inside.example.com"
	n.names[inside] = []string{"127.0.0.1", "169.254.169.254"}
	allow := egress.List{registry, inside}
	n.open(t, allow, allow)
	s := serve(t, shortDir(t), n.handler(t, allow))
	got := attempts(t, s.Dir(), proxied(map[string]string{
		"REGISTRY": registry, "HOST_PORT": n.secure.Listener.Addr().String(), "SOCKET": "/run/gateway/" +
			sandbox.GatewaySocket,
	}), "network")
	const unreachable, refused = "network is unreachable", "connection refused"
	compare(t, got, map[string]string{
		"allowed": "REACHED: package", "allowed, plain": notTheWay,

		"address": unreachable, "address of IPv6": "", "name": "", "metadata": unreachable, "QUIC": unreachable,
		"QUIC over IPv6":       "",
		"loopback of the host": refused, "DNS TXT": "", "DNS of another's": "",

		"proxy: host": notAllowed, "proxy: address": notAName, "proxy: address of IPv6": notAName,
		"proxy: metadata": notAName, "proxy: port": notTheWay,
		"proxy: redirect": notAllowed, "proxy: Host of the allowed": "403 Forbidden",
		"proxy: no token": "407", "proxy: name resolves inside": notPublic, "proxy: TLS for another": "access denied",
		"socket of the gateway": "407",
	})
	want := []run.HostUse{
		{Host: registry, Count: 2}, // what is allowed, and the redirect
		{Host: registry, Blocked: notTheWay, Count: 2},
		{Host: "evil.example.com", Blocked: notAllowed, Count: 3},
		{Host: "93.184.216.34", Blocked: notAName, Count: 1},
		{Host: "2606:2800:220:1:248:1893:25c8:1946", Blocked: notAName, Count: 1},
		{Host: "169.254.169.254", Blocked: notAName, Count: 1},
		{Host: inside, Blocked: notPublic, Count: 1},
		{Host: registry, Blocked: otherName, Count: 1},
	}
	if diff := gocmp.Diff(want, n.ends(t), noBytes); diff != "" {
		t.Errorf("the report:\n%s", diff)
	}
	for _, r := range n.seen {
		if strings.TrimSuffix(r.Host, ":443") != registry || r.Header.Get("Proxy-Authorization") != "" {
			t.Errorf("the registry sees %s %v", r.Host, r.Header)
		}
	}
	for _, address := range n.dialed {
		if address != inside+":443" && address != registry+":443" {
			t.Errorf("%s was to be reached", address)
		}
	}
}
