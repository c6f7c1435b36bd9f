package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/machine"
	"github.com/org/ralph-action/internal/reconcile"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/docker"
	"github.com/org/ralph-action/internal/sandbox/local"
	"github.com/org/ralph-action/internal/strs"
)

// doctorCmd is `bot doctor`.
type doctorCmd struct {
	Config string `help:"The server's configuration (default: ralph.yaml, if it exists). Without one, check only what ${bot} run needs." placeholder:"FILE" type:"path"`
	Agent  string `help:"The agent to check (default: the configured one, else the one in your own file, else claude)." placeholder:"AGENT"`
	Script string `help:"The script for --agent script." placeholder:"FILE" type:"path"`

	AgentPath    string `name:"agent-path" help:"The agent's program (default: the configured one, else from PATH)." placeholder:"FILE" type:"path"`
	AgentCommand string `name:"agent-command" help:"The command line for --agent acp or command." placeholder:"COMMAND"`

	UseLogin bool `name:"use-login" help:"Check what ${bot} run --use-login needs instead of a key."`

	JSON bool `name:"json" help:"Print JSON."`
}

// finding is what one check came to.
type finding struct {
	what string
	// ok is what is fine about it; err what is not.
	ok  string
	err error
	// optional: without it something is missing, not broken.
	optional bool
}

// doctorReport is what bot doctor --json prints.
type doctorReport struct {
	// OK: nothing has to be fixed.
	OK     bool         `json:"ok"`
	Checks []checkEntry `json:"checks"`
}

type checkEntry struct {
	Name string `json:"name"`
	// Status is ok, warn or fail.
	Status  string `json:"status"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// The statuses of a check.
const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

// Run checks everything and tells all of it; what must be fixed makes exit
// code 2.
func (c *doctorCmd) Run(ctx bound, io stdio) error {
	var report doctorReport
	broken := 0
	for _, f := range c.findings(ctx) {
		e := f.entry()
		if e.Status == statusFail {
			broken++
		}
		report.Checks = append(report.Checks, e)
	}
	report.OK = broken == 0
	if c.JSON {
		if err := printJSON(io.out, report); err != nil {
			return err
		}
	} else {
		for _, e := range report.Checks {
			e.print(io.out)
		}
		if report.OK {
			fmt.Fprintln(io.out, "\nNo problems found.")
		} else {
			fmt.Fprintf(io.out, "\n%s to fix.\n", strs.Count(broken, "thing"))
		}
	}
	if broken > 0 {
		return ended{run.ExitUsage}
	}
	return nil
}

func (c *doctorCmd) findings(ctx context.Context) []finding {
	cfg, found, cfgErr := c.load()
	starts, backend := c.agent(ctx, cfg)
	checks := []finding{c.git(), starts}
	if backend != nil && !found && (len(backend.About().Keys) > 0 || c.UseLogin) {
		checks = append(checks, c.key(backend))
	}
	if !found || cfg.Sandbox.Kind == config.SandboxLocal {
		checks = append(checks, c.local(cfg))
	}
	checks = append(checks, c.docker(ctx, cfg, found), c.dataDir(cfg, found))
	if user, ok := c.userFile(); ok {
		checks = append(checks, user)
	}
	switch {
	case cfgErr != nil:
		return append(checks, finding{what: "server", err: cfgErr})
	case !found:
		return append(checks, c.repository(ctx), finding{what: "server", optional: true, err: &run.UserError{
			Message: "not checked: there is no " + configFile + " here",
			Hint: fmt.Sprintf("%[1]s run needs none; for %[1]s serve, create one with %[1]s setup or pass yours "+
				"with --config", calledAs()),
		}})
	}
	checks = append(checks, c.disk(cfg),
		finding{what: "server", ok: "the configuration is complete, every key is known"},
		finding{what: "webhook secret", ok: strs.Count(len(cfg.GitHub.WebhookSecrets), "secret") + " accepted"})
	checks = append(checks, c.models(ctx, cfg)...)
	return append(checks, c.gitHub(ctx, cfg)...)
}

// entry is the finding as people and programs are told.
func (f finding) entry() checkEntry {
	e := checkEntry{Name: f.what, Status: statusOK, Message: f.ok}
	if f.err == nil {
		return e
	}
	e.Status, e.Message = statusFail, f.err.Error()
	if f.optional {
		e.Status = statusWarn
	}
	if user, ok := errors.AsType[*run.UserError](f.err); ok {
		e.Message, e.Hint = user.Message, user.Hint
	}
	return e
}

// print writes a line, and below it what to do.
func (e checkEntry) print(w io.Writer) {
	mark := map[string]string{statusOK: "✓", statusWarn: "–", statusFail: "✗"}[e.Status]
	fmt.Fprintf(w, "%s %-15s %s\n", mark, e.Name, e.Message)
	if e.Hint != "" {
		fmt.Fprintf(w, "  %-15s → %s\n", "", e.Hint)
	}
}

// load reads the configuration that was named, or ralph.yaml where it is.
func (c *doctorCmd) load() (cfg config.Server, found bool, err error) {
	file := c.Config
	if file == "" {
		file = configFile
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return withUser(config.DefaultServer()), false, nil
		}
	}
	cfg, err = config.LoadServer(file, os.LookupEnv, os.ReadFile)
	if err != nil {
		return config.DefaultServer(), true, err
	}
	return cfg, true, nil
}

// withUser is cfg with the agent of the person's own file.
func withUser(cfg config.Server) config.Server {
	user, _, _, err := userDefaults()
	if err == nil && user.Agent.Name != "" {
		cfg.Agent = user.Agent
	}
	cfg.Sandbox.Show = user.Sandbox.Show
	return cfg
}

// userFile is about the person's own file; false where there is none.
func (c *doctorCmd) userFile() (finding, bool) {
	_, path, found, err := userDefaults()
	return finding{what: "your defaults", ok: path + " holds for each " + calledAs() + " run of yours", err: err},
		found || err != nil
}

// repository is about the repository's own file, as it lies in the checkout here.
func (c *doctorCmd) repository(ctx context.Context) finding {
	f := finding{what: "repository", optional: true}
	git, err := openGit()
	if err != nil {
		f.err = err
		return f
	}
	repo, err := git.OpenLocal(ctx, ".")
	if err != nil {
		f.err = err
		return f
	}
	source, err := os.ReadFile(filepath.Join(repo.Top(), filepath.FromSlash(config.RepoPath)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.ok = "no " + config.RepoPath + ": checks are found, limits are the usual ones"
		return f
	case err != nil:
		f.err = err
		return f
	}
	said, err := host.ConfigFile{Name: config.RepoPath, Source: source}.Parse()
	if err != nil {
		f.err, f.optional = err, false
		return f
	}
	limits := said.Limits.WithDefaults(run.DefaultLimits())
	f.ok = fmt.Sprintf("%s: %s, %s", config.RepoPath, strs.Count(len(said.Gates), "check"), limitsInWords(limits))
	return f
}

func (c *doctorCmd) git() finding {
	f := finding{what: "git"}
	path, err := lookGit()
	if err != nil {
		f.err = err
		return f
	}
	git, err := gitrepo.New(path)
	if err != nil {
		f.err = err
		return f
	}
	f.ok = git.Version() + " (" + path + ")"
	return f
}

func (c *doctorCmd) agent(ctx context.Context, cfg config.Server) (finding, agent.Backend) {
	name, script := cfg.Agent.Name, cfg.Agent.ScriptFile
	if c.Agent != "" {
		name = c.Agent
	}
	if c.Script != "" {
		script = c.Script
	}
	f := finding{what: "agent"}
	self, err := os.Executable()
	if err != nil {
		f.err = err
		return f, nil
	}
	opts := agentOptions(cfg, self)
	opts.ScriptFile = script
	if c.AgentPath != "" {
		opts.Path = c.AgentPath
	}
	if c.AgentCommand != "" {
		opts.Command = c.AgentCommand
	}
	backend, err := lookupAgent(name, c.kind(cfg), opts)
	if err != nil {
		f.err = err
		return f, nil
	}
	box, err := c.sandbox(cfg)
	if err == nil {
		f.ok, err = agentVersion(ctx, backend, box, cfg.Sandbox.Image)
	}
	f.err = err
	return f, backend
}

// kind is the sandbox that the agent is started in: the configured one, or where a
// container has no image yet, the local one.
func (c *doctorCmd) kind(cfg config.Server) string {
	if cfg.Sandbox.Image == "" {
		return config.SandboxLocal
	}
	return cfg.Sandbox.Kind
}

func (c *doctorCmd) sandbox(cfg config.Server) (sandbox.Sandbox, error) {
	if c.kind(cfg) == config.SandboxDocker {
		return c.openDocker(cfg, cfg.DataDir)
	}
	return local.New(local.Options{Isolation: local.Isolation(cfg.Sandbox.LocalIsolation), Show: cfg.Sandbox.Show})
}

func (c *doctorCmd) openDocker(cfg config.Server, dir string) (*docker.Sandbox, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return docker.New(docker.Options{
		Self: self, Image: cfg.Sandbox.Image, DataDir: dir,
	})
}

// key says whether bot run would find a key for the agent.
func (c *doctorCmd) key(backend agent.Backend) finding {
	f := finding{what: "model key"}
	if c.UseLogin {
		_, f.err = loginOf(backend.About().Name, gateway.Upstream{}, time.Now())
		f.ok = "the login of " + backend.About().Name + " on this machine"
		return f
	}
	f.err = checkKey(backend, os.Getenv)
	for _, name := range backend.About().Keys {
		if os.Getenv(name) != "" {
			f.ok = name + " is set; it was not tried"
			break
		}
	}
	return f
}

// local says what the local sandbox keeps apart on this machine.
func (c *doctorCmd) local(cfg config.Server) finding {
	f := finding{
		what: "local sandbox", optional: cfg.Sandbox.Kind != config.SandboxLocal || cfg.Sandbox.LocalIsolation != "bwrap",
	}
	box, err := local.New(local.Options{Isolation: local.Isolation(cfg.Sandbox.LocalIsolation)})
	if err != nil {
		f.err = err
		return f
	}
	is := box.Confinement()
	switch {
	case is.Isolated && cfg.Sandbox.LocalIsolation == string(local.IsolationBubblewrap):
		f.ok = "bubblewrap works: agents and checks see the machine's programs and their work tree, and nothing else " +
			"of its files or its network"
	case is.Isolated:
		f.ok = "bubblewrap works: agents and checks see the machine's programs and their work tree, and nothing else " +
			"of its files; the network is shared"
	case is.Why == nil:
		f.ok = "no isolation, as configured: agents can do whatever this user can"
	default:
		f.err = &run.UserError{
			Message: "no isolation, agents can do whatever this user can: " + is.Why.Error(),
			Hint:    "install bubblewrap and allow user namespaces, or use the docker sandbox", Err: is.Why,
		}
	}
	return f
}

// docker is needed where it is configured; elsewhere it is good to have.
func (c *doctorCmd) docker(ctx context.Context, cfg config.Server, server bool) finding {
	f := finding{what: "docker", optional: cfg.Sandbox.Kind != config.SandboxDocker || cfg.Sandbox.Image == ""}
	dir := cfg.DataDir
	if !server {
		if dir, f.err = dataDir(); f.err != nil {
			return f
		}
	}
	box, err := c.openDocker(cfg, dir)
	if err == nil {
		err = box.Check(ctx)
	}
	if err == nil {
		f.ok, err = box.Version(ctx)
		f.ok = "engine " + f.ok
	}
	f.err = err
	return f
}

// dataDir says whether what is kept can be written: where it is, or above where
// it is to be made.
func (c *doctorCmd) dataDir(cfg config.Server, server bool) finding {
	f := finding{what: "data directory", optional: !server}
	dir := cfg.DataDir
	if !server {
		if dir, f.err = dataDir(); f.err != nil {
			return f
		}
	}
	if err := reconcile.CheckDataDir(dir); err != nil && cfg.Sandbox.Kind == config.SandboxDocker {
		f.err = err
		return f
	}
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			f.err = &run.UserError{
				Message: at + " is not a directory",
				Hint:    "set data_dir (" + calledAs() + " run: RALPH_DATA_DIR) to another directory",
			}
			return f
		}
		if err == nil || at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	probe, err := os.MkdirTemp(at, ".ralph-doctor-")
	if err == nil {
		err = os.Remove(probe)
	}
	if err != nil {
		f.err = &run.UserError{
			Message: "cannot write to " + dir + ": " + err.Error(),
			Hint: "allow this user to write there, or set data_dir (" + calledAs() +
				" run: RALPH_DATA_DIR) to another directory", Err: err,
		}
		return f
	}
	f.ok = dir
	if at != dir {
		f.ok += ", which will be created"
	}
	return f
}

// disk says what is free beside a server's data.
func (c *doctorCmd) disk(cfg config.Server) finding {
	f := finding{what: "disk", optional: true}
	free, files, err := machine.FreeDisk(cfg.DataDir)
	lacks := machine.Room{Disk: free, Files: files}.LacksDisk()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.ok = "nothing is kept yet"
	case err != nil:
		f.err = err
	case lacks != "":
		f.err = &run.UserError{
			Message: lacks + ": nothing is started, and webhooks are soon refused", Hint: "make room in " + cfg.DataDir,
		}
	default:
		f.ok = fmt.Sprintf("%d GiB free", free>>30)
	}
	return f
}
