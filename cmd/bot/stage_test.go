package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/machine"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// stage is a simulated GitHub, held against GitHub's own descriptions, with a
// person, a repository and an App registered on it, and the configuration of a
// server for that App.
type stage struct {
	t    testing.TB
	sim  *ghsim.Sim
	app  ghsim.App
	repo ghsim.Repo
	// install is the App's installation on the repository.
	install ghsim.Installation
	dir     string
	config  config.Server
	// token is the person's own.
	token string
	// now is the App's clock, which tests put on by clock.
	now   func() time.Time
	clock *slowClock
	// pace is the pause between writes, none where it is zero.
	pace time.Duration
	// room is what the machine has left, nil for plenty, whatever this one has.
	room func() machine.Room
	// hookURL is where the App listens.
	hookURL string
	// steps is at which of the states that a server stores killed kills it, the first where
	// it is 0.
	steps int
	// bell rings when something may have changed; see await and watchOthers.
	bell   *bell
	others *sync.Once
}

// setting is what differs between tests; zero fields have defaults.
type setting struct {
	files  map[string]string
	script string
	agent  config.Agent
	gates  []config.Gate
	change func(*config.Server)
	// slug is the App's, where it matters.
	slug string
}

const (
	person = "ada"
	repoOf = "widgets"
)

// quiet is how long nothing more must have been said in review before it is taken up. It
// passes by the stage's clock, when a test says so; see calm.
const quiet = 10 * time.Minute

func newStage(t testing.TB, set setting) *stage {
	t.Helper()
	bell := newBell()
	sim := ghsimtest.Start(t, ghsim.Options{Wrap: bell.wrap})
	st := &stage{
		t: t, sim: sim, bell: bell, others: new(sync.Once), dir: shortTempDir(t), clock: &slowClock{},
	}
	st.now = st.clock.now
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if set.files == nil {
		set.files = map[string]string{"README.md": "# widgets\n"}
	}
	user, err := sim.CreateUser(person)
	must(err)
	st.token = user.Token
	st.repo, err = sim.CreateRepo(person, repoOf, ghsim.RepoOptions{Files: set.files})
	must(err)
	st.app, err = sim.CreateApp(ghsim.AppOptions{
		Slug: cmp.Or(set.slug, "ralph-bot"), PrivateKeyPEM: ghsimtest.Key(), Permissions: ghapp.Permissions(),
		Events: handlers.Subscriptions(),
	})
	must(err)
	st.install, err = sim.Install(st.app.ID, person+"/"+repoOf)
	must(err)

	script := filepath.Join(st.dir, "script.yaml")
	must(os.WriteFile(script, []byte(set.script), 0o644)) // #nosec G306 -- the agent is another user
	cfg := config.DefaultServer()
	cfg.GitHub = config.GitHub{
		APIURL: sim.URL() + "/api/v3/", GraphQLURL: sim.URL() + "/api/graphql", WebURL: sim.URL(), AppID: st.app.ID,
		PrivateKey: config.Secret(st.app.PrivateKeyPEM), WebhookSecrets: []config.Secret{config.Secret(st.app.WebhookSecret)},
	}
	cfg.Listen = "127.0.0.1:0"
	cfg.Welcome = false // each stage is a repository's first
	cfg.DataDir = filepath.Join(st.dir, "data")
	// Agents and checks of these tests act on files that the test watches.
	cfg.Sandbox.LocalIsolation = "none"
	cfg.Agent = config.Agent{Name: config.AgentScript, ScriptFile: script}
	if set.agent.Name != "" {
		cfg.Agent = set.agent
	}
	cfg.Sandbox.Kind, cfg.AllowLocalSandbox = config.SandboxLocal, true
	cfg.Gates = set.gates
	cfg.Concurrency = config.Concurrency{Agents: 100, Repository: 100} // whatever machine this is
	if set.change != nil {
		set.change(&cfg)
	}
	st.config = cfg
	return st
}

// shortTempDir is a temporary directory with a short name: unix sockets end up
// below it.
func shortTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ralph-test-") //nolint:usetesting // t.TempDir has the test's name in it, which is too long
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

// serving is an App that runs in this process.
type serving struct {
	*app
	stop func()
	// addr is where it takes webhooks.
	addr string
	// begun is before anything happened.
	begun time.Time
	// events are all that were told, in order.
	mu     sync.Mutex
	events []run.Event
}

// serve runs the App in this process until the test ends or stop is called.
func (st *stage) serve() *serving {
	st.t.Helper()
	return st.serveWith(func(run.Event) {})
}

// serveLogging is serve with a log that the test reads.
func (st *stage) serveLogging(log zerolog.Logger) *serving {
	st.t.Helper()
	return st.serveApp(log, func(run.Event) {})
}

// serveWith is serve with one more who hears what happens.
func (st *stage) serveWith(watch func(run.Event)) *serving {
	st.t.Helper()
	return st.serveApp(zerolog.New(zerolog.NewTestWriter(st.t)).Level(zerolog.WarnLevel), watch)
}

// plenty is what a machine has left that lacks nothing.
func plenty() machine.Room {
	return machine.Room{Disk: 1 << 40, Files: 1 << 30, Memory: 1 << 40, Descriptors: 1 << 20}
}

func (st *stage) serveApp(log zerolog.Logger, watch func(run.Event)) *serving {
	st.t.Helper()
	s := &serving{begun: time.Now().Add(-time.Minute)}
	if st.room == nil {
		st.room = plenty
	}
	a, err := newApp(st.t.Context(), st.config, log, observers{
		self: st.self(), writeEvery: cmp.Or(st.pace, time.Microsecond), quiet: quiet, now: st.now,
		room:   st.room,
		onWork: st.bell.ring,
		onSave: func(run.ID, bool) { st.bell.ring() },
		watch: func(ev run.Event) {
			defer st.bell.ring()
			watch(ev)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, ev)
		},
	})
	if err != nil {
		st.t.Fatal(err)
	}
	s.app = a
	l, err := (&net.ListenConfig{}).Listen(st.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		st.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	st.hook(s.addr)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.serve(ctx, l) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, http.ErrServerClosed) {
			st.t.Errorf("serve: %v", err)
		}
	})
	st.t.Cleanup(s.stop)
	return s
}

func (st *stage) hook(addr string) {
	st.t.Helper()
	st.hookURL = "http://" + addr
	if err := st.sim.SetHook(st.app.ID, "http://"+addr+handlers.DefaultPath, ""); err != nil {
		st.t.Fatal(err)
	}
}

// label writes an issue and puts the label on it.
func (st *stage) label(title, body string) ghsim.Issue {
	st.t.Helper()
	issue, err := st.sim.CreateIssue(person, repoOf, person, title, body)
	if err != nil {
		st.t.Fatal(err)
	}
	st.relabel(issue, person)
	return issue
}

func (st *stage) relabel(issue ghsim.Issue, login string) {
	st.t.Helper()
	if err := st.sim.AddLabel(person, repoOf, issue.Number, login, "ralph"); err != nil {
		st.t.Fatal(err)
	}
}

// patience is what a command of a test may take, with room for the race detector
// on a busy machine.
const patience = 6 * time.Minute

// ended waits for the end of the issue's run and returns its last state.
func (st *stage) ended(from *store.Store, issue ghsim.Issue) loop.State {
	st.t.Helper()
	var row store.Run
	st.await("the end of the run", func() bool {
		var err error
		row, err = from.LatestRunByIssue(st.t.Context(), st.repo.NodeID, issue.Number)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			st.t.Fatal(err)
		}
		return err == nil && row.Phase.Terminal()
	})
	s, err := loop.Decode(row.State)
	if err != nil {
		st.t.Fatal(err)
	}
	return s
}

// processed waits until the App has dealt with every delivery it accepted.
func (st *stage) processed(s *serving) {
	st.t.Helper()
	if err := st.sim.WaitIdle(st.t.Context()); err != nil {
		st.t.Fatal(err)
	}
	st.await("all deliveries to be processed", func() bool {
		left, _, err := s.store.Due(st.t.Context())
		if err != nil {
			st.t.Fatal(err)
		}
		return len(left) == 0
	})
}

func (st *stage) issue(n int) ghsim.Issue {
	st.t.Helper()
	issue, err := st.sim.Issue(person, repoOf, n)
	if err != nil {
		st.t.Fatal(err)
	}
	return issue
}

// contents are the files of a branch.
func (st *stage) contents(branch string) map[string]string {
	st.t.Helper()
	modes, err := st.sim.Files(person, repoOf, branch)
	if err != nil {
		st.t.Fatal(err)
	}
	files := map[string]string{}
	for path := range modes {
		b, err := st.sim.File(person, repoOf, branch, path)
		if err != nil {
			st.t.Fatal(err)
		}
		files[path] = string(b)
	}
	return files
}

// onlyPR is the one pull request there is.
func (st *stage) onlyPR() ghsim.PR {
	st.t.Helper()
	prs, err := st.sim.PRs(person, repoOf)
	if err != nil {
		st.t.Fatal(err)
	}
	if len(prs) != 1 {
		st.t.Fatalf("%d pull requests, want 1", len(prs))
	}
	return prs[0]
}

// process is a server in a process of its own.
type process struct {
	cmd   *exec.Cmd
	lines chan string // of stdout
	addr  string
}

// start starts a server process that tells its address; kill is the value of
// envKill.
func (st *stage) start(kill string) *process {
	st.t.Helper()
	p := st.command(testProgram(st.t))
	p.cmd.Env = append(p.cmd.Env, envBe+"=server", envKill+"="+kill, envConfig+"="+st.writeConfig(),
		envSelf+"="+st.self())
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		st.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		st.t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			st.bell.ring()
			if in.Text() != saidWorked {
				p.lines <- in.Text()
			}
		}
	}()
	first := <-p.lines
	var ok bool
	if p.addr, ok = strings.CutPrefix(first, saidReady); !ok {
		st.t.Fatalf("the server did not start: %q, %v", first, p.cmd.Wait())
	}
	st.hook(p.addr)
	return p
}

// command is a process with the App's secrets in its environment.
func (st *stage) command(exe string, args ...string) *process {
	p := &process{cmd: exec.CommandContext(context.Background(), exe, args...), lines: make(chan string, 16)}
	p.cmd.Env = append(os.Environ(),
		config.EnvPrivateKey+"="+st.config.GitHub.PrivateKey.Reveal(), config.EnvWebhookSecret+"="+
			st.config.GitHub.WebhookSecrets[0].Reveal())
	p.cmd.Stderr = testWriter{st.t}
	return p
}

// bot runs the program to its end and gives its exit code and what it printed.
func (st *stage) bot(args ...string) (int, string) {
	st.t.Helper()
	p := st.command(theProgram(st.t), args...)
	p.cmd.Env = append(p.cmd.Env, envBe+"=bot")
	out, err := p.cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		st.t.Fatal(err)
	}
	return 0, string(out)
}

// deadAddr is an address on loopback that nobody listens on: the port is that of a service which died
// out.
const deadAddr = "127.0.0.1:1"

// stop asks the process to end and waits for it.
func (p *process) stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for line := range p.lines {
		t.Log(line)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the server failed: %v", err)
	}
}

// rest waits for the end of the process, which is the signal unless the run
// ended first; then the process is asked to stop.
func (p *process) rest(t testing.TB) (ended string) {
	t.Helper()
	for line := range p.lines {
		if end, ok := strings.CutPrefix(line, saidEnded); ok {
			ended = end
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := p.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			return ended
		}
	}
	if err != nil {
		t.Fatalf("the server failed: %v", err)
	}
	return ended
}

// writeConfig writes the configuration as an operator would.
func (st *stage) writeConfig() string {
	st.t.Helper()
	c := st.config
	var gates []map[string]any
	for _, g := range c.Gates {
		gates = append(gates, map[string]any{"name": g.Name, "run": g.Run, "when": g.When, "timeout": g.Timeout.String()})
	}
	text, err := yaml.Marshal(map[string]any{
		"listen": c.Listen,
		"github": map[string]any{
			"api_url": c.GitHub.APIURL, "graphql_url": c.GitHub.GraphQLURL, "web_url": c.GitHub.WebURL, "app_id": c.GitHub.AppID,
		},
		"data_dir": c.DataDir,
		"agent": map[string]any{
			"name": c.Agent.Name, "model": c.Agent.Model, "script_file": c.Agent.ScriptFile, "path": c.Agent.Path,
			"command": c.Agent.Command,
		},
		"model": map[string]any{"base_url": c.Model.BaseURL},
		"sandbox": map[string]any{
			"kind": c.Sandbox.Kind, "local_isolation": "none", "image": c.Sandbox.Image, "cpus": c.Sandbox.CPUs,
			"memory": c.Sandbox.Memory, "pids": c.Sandbox.PIDs, "disk": c.Sandbox.Disk, "files": c.Sandbox.Files,
		},
		"limits": map[string]any{
			"iteration_timeout": c.Limits.IterationTimeout.String(), "task_attempts": c.Limits.TaskAttempts,
			"parallel": c.Limits.Parallel,
		},
		"gates":               gates,
		"egress":              map[string]any{"allow": c.Egress},
		"log":                 map[string]any{"level": "info"}, // it tells where the server listens
		"allow_local_sandbox": c.AllowLocalSandbox, "welcome": false,
	})
	if err != nil {
		st.t.Fatal(err)
	}
	file := filepath.Join(st.dir, "ralph.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		st.t.Fatal(err)
	}
	return file
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
