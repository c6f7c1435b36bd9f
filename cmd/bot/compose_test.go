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
	"sync/atomic"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/agent/agenttest"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
	"github.com/org/ralph-action/internal/run"
)

// composeKey is the key of the model's endpoint.
const composeKey = "sk-ant-api03-the-key-in-the-env-file"

// Below example.com, for which the certificate of httptest is.
const (
	gitHubHost = "github.example.com"
	modelHost  = "model.example.com"
)

// newcomer sets the App up with compose on a machine that has nothing but Docker,
// by what docs/setup.md has in its blocks of commands.
type newcomer struct {
	t     *testing.T
	dir   string
	env   []string
	words *strings.Replacer
	steps []string
	api   *client.Client
	name  string // of the project
	// data are the volumes of the bots' data.
	data []string
}

// The blocks of commands, in their order.
const (
	stepPrepare = iota
	stepSetup
	stepUp
	stepDoctor
	stepLater
	steps
)

// composeSteps are the blocks of commands that a section of the documentation has.
func composeSteps(t *testing.T, file, heading string, want int) []string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/" + file)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)\n```$").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) != want {
		t.Fatalf("docs/%s has %d blocks of commands about compose, want %d", file, len(blocks), want)
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
// already, and whose port is free. name is that of the project.
func newNewcomer(t *testing.T, version, name, port string) *newcomer {
	t.Helper()
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	socket, _ := engineSocket(t)
	n := &newcomer{
		t: t, dir: shortTempDir(t), api: api, name: name, data: []string{"data"},
		steps: composeSteps(t, "setup.md", "## With compose", steps),
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

// line is the one of a step that has these words.
func (n *newcomer) line(step int, words string) string {
	n.t.Helper()
	for l := range strings.Lines(n.steps[step]) {
		if strings.Contains(l, words) {
			return l
		}
	}
	n.t.Fatalf("docs/setup.md has no command with %q in\n%s", words, n.steps[step])
	return ""
}

// sandboxes are the containers of agents and checks: those with a directory of a bot's
// data.
func (n *newcomer) sandboxes() (all []container.Summary) {
	n.t.Helper()
	for _, data := range n.data {
		all = append(all, n.sandboxesOf(data)...)
	}
	return all
}

// sandboxesOf are those of the bot with that volume.
func (n *newcomer) sandboxesOf(data string) []container.Summary {
	n.t.Helper()
	ctx := context.WithoutCancel(n.t.Context())
	volume, err := n.api.VolumeInspect(ctx, n.name+"_"+data, client.VolumeInspectOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	list, err := n.api.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", labelStart),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(c container.Summary) bool {
		return !slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool {
			return strings.HasPrefix(m.Source, volume.Volume.Mountpoint+"/")
		})
	})
}

// leave ends and removes all that compose made, and what the bot did.
func (n *newcomer) leave() {
	ctx := context.WithoutCancel(n.t.Context())
	defer func() {
		if err := n.api.Close(); err != nil {
			n.t.Error(err)
		}
	}()
	if _, err := os.Stat(filepath.Join(n.dir, "compose.yaml")); err != nil {
		return // nothing was begun
	}
	if n.t.Failed() {
		logs, err := n.command("docker compose logs --no-color").CombinedOutput()
		n.t.Logf("%s%v", logs, err)
	}
	var left []container.Summary
	if _, err := n.api.VolumeInspect(ctx, n.name+"_"+n.data[len(n.data)-1], client.VolumeInspectOptions{}); err == nil {
		n.do("docker compose stop")
		left = n.sandboxes()
	}
	for _, c := range left {
		n.t.Errorf("container %v is left: %s", c.Names, c.Status)
		if _, err := n.api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			n.t.Error(err)
		}
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

// composed is a stage for what compose runs.
type composed struct {
	*stage
	*newcomer

	addr string // that compose publishes
}

// newComposed follows docs/setup.md with the shipped compose.yaml and images of this version, up
// to a configuration. GitHub and the model's endpoint are simulated, outside of the containers;
// the services reach them.
func newComposed(t *testing.T, version, name string, model *agenttest.Server, services ...string) *composed {
	t.Helper()
	sim, valid := ghsimtest.Start(t, ghsim.Options{})
	addr := freeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
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
	st := &stage{t: t, sim: sim, valid: valid, bell: newBell(), others: new(sync.Once)}
	st.watchOthers()
	if _, err := sim.CreateUser(person); err != nil {
		t.Fatal(err)
	}
	if st.repo, err = sim.CreateRepo(person, repoOf,
		ghsim.RepoOptions{Files: map[string]string{"README.md": "# widgets\n"}}); err != nil {
		t.Fatal(err)
	}

	n := newNewcomer(t, version, name, port)
	n.do(n.steps[stepPrepare])
	n.dir = filepath.Join(n.dir, "ralph")
	// As with an Enterprise Server of one's own; the names are in no DNS.
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: world.Certificate().Raw})
	n.write("ca-certificates.crt", string(ca))
	n.override(append(services, "setup")...)
	id := n.setUp(sim, "https://"+net.JoinHostPort(gitHubHost, worldPort), browser(world))
	st.app = ghsim.App{ID: id, Slug: "ada-s-ralph", BotLogin: "ada-s-ralph[bot]"}
	n.do(fmt.Sprintf(`sudo tee -a config/ralph.yaml >/dev/null <<'END'
model: {base_url: "https://%s:%s"}
gates: [{name: written, run: test -s T1.md}]
END`, modelHost, worldPort))
	st.hook(addr) // past the reverse proxy
	return &composed{st, n, addr}
}

// override has services believe the world's certificate, and find it.
func (n *newcomer) override(services ...string) {
	n.t.Helper()
	text := []string{"services:"}
	for _, service := range services {
		text = append(text, "  "+service+":",
			`    volumes: ["./ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro"]`,
			`    extra_hosts: ["`+gitHubHost+`:host-gateway", "`+modelHost+`:host-gateway"]`)
	}
	n.write("compose.override.yaml", strings.Join(text, "\n")+"\n")
}

// write writes a file that the bot, which is another user, may read.
func (n *newcomer) write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// install has the App installed on the repository, once a bot listens.
func (c *composed) install() {
	c.stage.t.Helper()
	c.waitHealthy(&process{addr: c.addr})
	var err error
	if c.stage.install, err = c.sim.Install(c.app.ID, person+"/"+repoOf); err == nil {
		err = c.sim.WaitIdle(c.stage.t.Context())
	}
	if err != nil {
		c.stage.t.Fatal(err)
	}
}

// wroteAll waits for the pull request with the files of all tasks.
func (c *composed) wroteAll() {
	c.stage.t.Helper()
	c.await("the pull request to be ready", func() bool {
		prs, err := c.sim.PRs(person, repoOf)
		if err != nil {
			c.stage.t.Fatal(err)
		}
		return len(prs) == 1 && !prs[0].Draft && len(prs[0].Commits) == len(wantSubjects)
	})
	c.wantReady(wantSubjects[:3], map[string]string{"T1.md": "by T1\n", "T2.md": "by T2\n", "T3.md": "by T3\n"})
}

// writer is a model whose agent writes a file for each task. The first call for the second task
// has begun when thinking is closed, and is answered when answer is.
func writer(thinking chan<- struct{}, answer <-chan struct{}) *agenttest.Server {
	var begun atomic.Bool
	return agenttest.NewModel(func(turn agenttest.Turn) agenttest.Reply {
		switch {
		case len(turn.Tools) == 0:
			return agenttest.Say("ok")
		case turn.Number == 0:
			if turn.Task == "T2" && begun.CompareAndSwap(false, true) {
				close(thinking)
				<-answer
			}
			return agenttest.Write("/workspace/"+turn.Task+".md", "by "+turn.Task+"\n")
		default:
			return agenttest.Done("The file is there.")
		}
	})
}

// setUpWithCompose follows docs/setup.md up to a pull request by the real Claude Code out of the
// agents' image.
func setUpWithCompose(t *testing.T, version, agents string) {
	// The second agent has begun when the bot is started again below it.
	thinking, answer := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(answer) })
	n := newComposed(t, version, version, writer(thinking, answer), "bot")
	t.Cleanup(goOn)
	n.do(n.newcomer.steps[stepUp])
	n.install()
	if out := n.do(n.newcomer.steps[stepDoctor]); !strings.Contains(out, "No problems found.") ||
		strings.Count(out, "– ") != 1 || !strings.Contains(out, `has no label "ralph"`) {
		t.Errorf("doctor:\n%s", out)
	}

	n.label("Say hello to everybody", threeTasks)
	<-thinking
	atWork := n.sandboxes()
	if len(atWork) != 1 || atWork[0].Image != agents {
		t.Fatalf("at work: %+v; want one container of %s", atWork, agents)
	}
	seen, err := n.api.ContainerInspect(t.Context(), atWork[0].ID, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hardened(t, seen.Container)
	// Neither takes the agent away, or its program from it.
	n.do(n.newcomer.steps[stepUp])
	n.do(n.line(stepLater, "restart bot"))
	if seen, err = n.api.ContainerInspect(t.Context(), atWork[0].ID, client.ContainerInspectOptions{}); err != nil ||
		!seen.Container.State.Running {
		t.Errorf("the agent is gone with the server: %v", err)
	}
	goOn()
	n.wroteAll()
	n.await("the run to have ended", func() bool {
		return strings.Contains(n.do(n.line(stepLater, "bot stats")), string(run.EndAllTasksComplete))
	})
	if out := n.do(n.line(stepLater, "bot stats")); !strings.Contains(out, "3 of 3") ||
		!strings.Contains(out, "Say hello to everybody") {
		t.Errorf("stats:\n%s", out)
	}
	// Stopped by the restart it ended well, although the model had not answered.
	if out := n.do(n.line(stepLater, "logs bot")); !strings.Contains(out, `"stopping"`) ||
		strings.Contains(out, "| bot: ") || strings.Contains(out, `"level":"error"`) {
		t.Errorf("the log:\n%s", out)
	}
	deliveries, err := n.sim.Deliveries(n.app.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(deliveries, func(d ghsim.Delivery) bool {
		return d.Event == "issues" && d.Action == "labeled" && !d.Redelivery && d.StatusCode/100 == 2
	}) {
		t.Errorf("the label did not come in at the published port: %+v", deliveries)
	}
}
