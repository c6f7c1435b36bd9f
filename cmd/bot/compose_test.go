//go:build docker

package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/org/ralph-action/internal/agent/agenttest"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
)

// composeKey is the key of the model's endpoint.
const composeKey = "sk-ant-api03-the-key-in-the-env-file"

// Below example.com, for which the certificate of httptest is.
const (
	gitHubHost = "github.example.com"
	modelHost  = "model.example.com"
)

// newcomer sets the App up with compose on a machine that has nothing but Docker,
// by what docs/server.md has in its blocks of commands.
type newcomer struct {
	t     *testing.T
	dir   string
	env   []string
	words *strings.Replacer
	steps []string
	name  string // of the project
}

// The blocks of commands, in their order.
const (
	stepPrepare = iota
	stepSetup
	stepUp
	stepDoctor
	steps
)

// composeSteps are the blocks of commands that docs/server.md has about compose.
func composeSteps(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "\n## With compose\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)\n```$").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) != steps {
		t.Fatalf("docs/server.md has %d blocks of commands about compose, want %d", len(blocks), steps)
	}
	return blocks
}

// composeProgram is the plugin of docker's command line, or the program of Debian's
// package.
func composeProgram(t *testing.T) string {
	t.Helper()
	if code, _ := dockerRun(t, "compose", "version"); code == 0 {
		docker, err := exec.LookPath("docker")
		if err != nil {
			t.Fatal(err)
		}
		return docker + " compose"
	}
	path, err := exec.LookPath("docker-compose")
	if err != nil {
		t.Fatal("neither docker compose nor docker-compose is there (scripts/tools.sh test brings one)")
	}
	return path
}

// newNewcomer is somebody on a machine whose engine has the images of this version
// already, and whose port is free. The project is called like the version.
func newNewcomer(t *testing.T, version, port string) *newcomer {
	t.Helper()
	socket, _ := engineSocket(t)
	n := &newcomer{
		t: t, dir: shortTempDir(t), name: version,
		steps: composeSteps(t),
		words: strings.NewReplacer("https://YOUR-HOST", "https://ralph.example.com", "sk-ant-…", composeKey,
			"/var/run/docker.sock", socket),
	}
	shipped, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(n.dir, "bin")
	programs := map[string]string{
		// The compose that is there, and no terminal.
		"docker": fmt.Sprintf(`[ "$1" = compose ] || exec %s "$@"
shift
case $1 in run | exec) c=$1; shift; set -- "$c" -T "$@" ;; esac
exec %s "$@"`, docker, composeProgram(t)),
		// What is published with this version.
		"curl": fmt.Sprintf(`for url; do :; done
case $url in https://*/compose*.yaml) exec cp %s/"${url##*/}" . ;; esac
exit 22`, shipped),
	}
	if os.Geteuid() == 0 {
		programs["sudo"] = `exec "$@"`
	}
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n.env = slices.DeleteFunc(os.Environ(), credential)
	n.env = append(n.env, "PATH="+bin+":"+os.Getenv("PATH"), "COMPOSE_PROJECT_NAME="+n.name, "RALPH_VERSION="+version,
		"RALPH_PORT="+port, "DOCKER_SOCKET="+socket)
	t.Cleanup(n.leave)
	return n
}

// command is a script of this person's.
func (n *newcomer) command(script string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(n.t.Context()), "bash", "-euo", "pipefail", "-c",
		n.words.Replace(script))
	cmd.Dir, cmd.Env = n.dir, n.env
	return cmd
}

// do runs a script and gives what it said.
func (n *newcomer) do(script string) string {
	n.t.Helper()
	out, err := n.command(script).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return string(out)
}

// leave ends and removes all that compose made, and what the bot did.
func (n *newcomer) leave() {
	if _, err := os.Stat(filepath.Join(n.dir, "compose.yaml")); err != nil {
		return // nothing was begun
	}
	if n.t.Failed() {
		logs, err := n.command("docker compose logs --no-color").CombinedOutput()
		n.t.Logf("%s%v", logs, err)
	}
	n.do("docker compose down --volumes --remove-orphans")
	n.do("docker compose --file compose.yaml down --volumes; sudo rm -rf config")
	mine := "label=com.docker.compose.project=" + n.name
	for _, args := range [][]string{
		{"ps", "--all", "--quiet"}, {"volume", "ls", "--quiet"}, {"network", "ls", "--quiet"},
	} {
		if out := strings.TrimSpace(mustDocker(n.t, append(args, "--filter", mine)...)); out != "" {
			n.t.Errorf("docker %s: %s is left", args[0], out)
		}
	}
}

// newWorld serves sites by their names over TLS, where containers find this machine:
// at the address of the engine's bridge.
func newWorld(t *testing.T, sites map[string]http.Handler) *httptest.Server {
	t.Helper()
	gateway := strings.TrimSpace(mustDocker(t, "network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}",
		"bridge"))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(gateway, "0"))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.Host)
		if site, ok := sites[host]; ok {
			site.ServeHTTP(w, r)
			return
		}
		http.Error(w, "no such site", http.StatusMisdirectedRequest)
	}))
	if err := srv.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	srv.Listener = l
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// browser reaches the sites of a world by their names, and this machine.
func browser(world *httptest.Server) http.RoundTripper {
	tr := world.Client().Transport.(*http.Transport).Clone() // httptest says so
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if host, _, _ := net.SplitHostPort(addr); strings.HasSuffix(host, ".example.com") {
			addr = world.Listener.Addr().String()
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	return tr
}

// setUp makes the App in the browser, and gives its id.
func (n *newcomer) setUp(sim *ghsim.Sim, gitHub string, tr http.RoundTripper) int64 {
	n.t.Helper()
	cmd := n.command(n.steps[stepSetup] + " --url " + gitHub)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	var out, told bytes.Buffer
	cmd.Stderr = &told
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	page, read := hear(stdout, &out)
	s := &settingUp{t: n.t, sim: sim, page: <-page, gitHub: gitHub, transport: tr}
	if s.page != "" {
		if status, _, body := s.get(s.create()); status != http.StatusOK {
			n.t.Errorf("status %d:\n%s", status, body)
		}
	}
	<-read
	if err := cmd.Wait(); err != nil {
		n.t.Fatalf("the set-up: %v\n%s\n%s", err, &out, &told)
	}
	m := regexp.MustCompile(`Created the App ada-s-ralph \((\d+)\)`).FindStringSubmatch(out.String())
	if m == nil {
		n.t.Fatalf("the set-up does not tell of the App:\n%s", &out)
	}
	id, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		n.t.Fatal(err)
	}
	return id
}

// write writes a file that the bot, which is another user, may read.
func (n *newcomer) write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// setUpWithCompose follows docs/server.md with the shipped compose.yaml and images of this
// version, up to a bot that doctor finds well. GitHub and the model's endpoint are simulated,
// outside of the containers.
func setUpWithCompose(t *testing.T, version string) {
	sim := ghsimtest.Start(t, ghsim.Options{})
	addr := freeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	model := agenttest.NewModel(func(agenttest.Turn) agenttest.Reply { return agenttest.Say("ok") })
	model.APIKey = composeKey
	gitHub, err := url.Parse(sim.URL())
	if err != nil {
		t.Fatal(err)
	}
	world := newWorld(t, map[string]http.Handler{
		modelHost:  model,
		gitHubHost: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(gitHub) }},
	})
	_, worldPort, err := net.SplitHostPort(world.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sim.CreateUser(person); err != nil {
		t.Fatal(err)
	}
	if _, err := sim.CreateRepo(person, repoOf, ghsim.RepoOptions{Files: map[string]string{"README.md": "# widgets\n"}}); err != nil {
		t.Fatal(err)
	}

	n := newNewcomer(t, version, port)
	n.do(n.steps[stepPrepare])
	n.dir = filepath.Join(n.dir, "ralph")
	// As with an Enterprise Server of one's own; the names are in no DNS.
	n.write("ca-certificates.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: world.Certificate().Raw})))
	const believes = `
    volumes: ["./ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro"]
    extra_hosts: ["` + gitHubHost + `:host-gateway", "` + modelHost + `:host-gateway"]`
	n.write("compose.override.yaml", "services:\n  bot:"+believes+"\n  setup:"+believes+"\n")
	app := n.setUp(sim, "https://"+net.JoinHostPort(gitHubHost, worldPort), browser(world))
	n.do(fmt.Sprintf(`sudo tee -a config/ralph.yaml >/dev/null <<'END'
model: {base_url: "https://%s:%s"}
END`, modelHost, worldPort))
	n.do(n.steps[stepUp])
	st := &stage{t: t, sim: sim, app: ghsim.App{ID: app}, bell: newBell(), others: new(sync.Once)}
	st.hook(addr) // past the reverse proxy
	st.waitHealthy(addr)
	if _, err := sim.Install(app, person+"/"+repoOf); err != nil {
		t.Fatal(err)
	}
	if err := sim.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := n.do(n.steps[stepDoctor]); !strings.Contains(out, "No problems found.") ||
		strings.Count(out, "– ") != 1 || !strings.Contains(out, `has no label "ralph"`) {
		t.Errorf("doctor:\n%s", out)
	}
	n.do("docker compose restart bot")
	st.waitHealthy(addr)
	if out := n.do("docker compose logs bot"); !strings.Contains(out, `"stopping"`) ||
		strings.Contains(out, "| bot: ") || strings.Contains(out, `"level":"error"`) {
		t.Errorf("the log:\n%s", out)
	}
}

// waitHealthy waits until a server answers.
func (st *stage) waitHealthy(addr string) {
	st.t.Helper()
	st.watchOthers()
	st.await("the server to be up", func() bool {
		req, err := http.NewRequestWithContext(st.t.Context(), http.MethodGet, "http://"+addr+"/healthz", nil)
		if err != nil {
			st.t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
}

// freeAddr is an address on loopback that nobody listens on for a while.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return addr
}
