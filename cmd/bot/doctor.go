package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// warning is an error without which something is missing, not broken.
type warning struct{ error }

func (w warning) Unwrap() error { return w.error }

// warn makes a warning of what is wrong, if anything is, where that is not needed.
func warn(optional bool, err error) error {
	if err == nil || !optional {
		return err
	}
	return warning{err}
}

// fix is what is wrong, and what to do.
func fix(message, hint string) error { return &run.UserError{Message: message, Hint: hint} }

// add tells what a check came to: ok is what is fine, where err says nothing else.
func (r *doctorReport) add(name, ok string, err error) {
	e := checkEntry{Name: name, Status: statusOK, Message: ok}
	if err != nil {
		e.Status, e.Message = statusFail, err.Error()
		if _, optional := errors.AsType[warning](err); optional {
			e.Status = statusWarn
		}
		if user, known := errors.AsType[*run.UserError](err); known {
			e.Message, e.Hint = user.Message, user.Hint
		}
	}
	r.Checks = append(r.Checks, e)
}

// Run checks everything and tells all of it; what must be fixed makes exit
// code 2.
func (c *doctorCmd) Run(ctx bound, io stdio) error {
	var report doctorReport
	c.checks(ctx, &report)
	broken := 0
	for _, e := range report.Checks {
		if e.Status == statusFail {
			broken++
		}
	}
	if report.OK = broken == 0; c.JSON {
		if err := printJSON(io.out, report); err != nil {
			return err
		}
	} else {
		report.print(io.out)
	}
	if broken > 0 {
		return ended{run.ExitUsage}
	}
	return nil
}

// print writes a line for each check, and below it what to do.
func (r *doctorReport) print(w io.Writer) {
	broken := 0
	for _, e := range r.Checks {
		mark := map[string]string{statusOK: "✓", statusWarn: "–", statusFail: "✗"}[e.Status]
		fmt.Fprintf(w, "%s %-15s %s\n", mark, e.Name, e.Message)
		if e.Hint != "" {
			fmt.Fprintf(w, "  %-15s → %s\n", "", e.Hint)
		}
		if e.Status == statusFail {
			broken++
		}
	}
	if broken > 0 {
		fmt.Fprintf(w, "\n%s to fix.\n", strs.Count(broken, "thing"))
	} else {
		fmt.Fprintln(w, "\nNo problems found.")
	}
}

func (c *doctorCmd) checks(ctx context.Context, r *doctorReport) {
	cfg, found, cfgErr := c.load()
	box := cfg.Sandbox
	git, err := gitrepo.New("")
	if err != nil {
		r.add("git", "", err)
	} else {
		r.add("git", git.Version(), nil)
	}
	backend, version, err := c.agent(ctx, cfg)
	r.add("agent", version, err)
	if backend != nil && !found && (len(backend.About().Keys) > 0 || c.UseLogin) {
		ok, err := c.key(backend)
		r.add("model key", ok, err)
	}
	if !found || box.Kind == config.SandboxLocal {
		ok, err := c.local(cfg)
		r.add("local sandbox", ok, warn(box.Kind != config.SandboxLocal || box.LocalIsolation != "bwrap", err))
	}
	dir, err := cfg.DataDir, error(nil)
	if !found {
		dir, err = dataDir()
	}
	if err != nil {
		r.add("data directory", "", err)
	} else {
		ok, err := c.docker(ctx, cfg, dir)
		r.add("docker", ok, warn(box.Kind != config.SandboxDocker || box.Image == "", err))
		ok, err = c.dataDir(cfg, dir)
		r.add("data directory", ok, warn(!found, err))
	}
	if _, path, own, err := userDefaults(); own || err != nil {
		r.add("your defaults", path+" holds for each "+calledAs()+" run of yours", err)
	}
	switch {
	case cfgErr != nil:
		r.add("server", "", cfgErr)
	case !found:
		ok, err := c.repository(ctx, git)
		r.add("repository", ok, err)
		r.add("server", "", warning{fix("not checked: there is no "+configFile+" here", fmt.Sprintf(
			"%[1]s run needs none; for %[1]s serve, create one with %[1]s setup or pass yours with --config", calledAs()))})
	default:
		ok, err := c.disk(cfg)
		r.add("disk", ok, warn(true, err))
		r.add("server", "the configuration is complete, every key is known", nil)
		r.add("webhook secret", strs.Count(len(cfg.GitHub.WebhookSecrets), "secret")+" accepted", nil)
		c.models(ctx, cfg, r)
		c.gitHub(ctx, cfg, r)
	}
}

// load reads the configuration that was named, or ralph.yaml where it is.
func (c *doctorCmd) load() (cfg config.Server, found bool, err error) {
	file := c.Config
	if file == "" {
		file = configFile
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			cfg = config.DefaultServer()
			if user, _, _, err := userDefaults(); err == nil { // else it is told of by itself
				cfg.Sandbox.Show = user.Sandbox.Show
				cfg.Sandbox.LocalIsolation = cmp.Or(os.Getenv("RALPH_LOCAL_ISOLATION"), user.Sandbox.LocalIsolation, "auto")
				if user.Agent.Name != "" {
					cfg.Agent = user.Agent
				}
			}
			return c.flags(cfg), false, nil
		}
	}
	if cfg, err = config.LoadServer(file, os.LookupEnv, os.ReadFile); err != nil {
		cfg = config.DefaultServer()
	}
	return c.flags(cfg), true, err
}

// flags puts the agent of the command line in the place of the configured one.
func (c *doctorCmd) flags(cfg config.Server) config.Server {
	if c.Agent != "" && c.Agent != cfg.Agent.Name {
		cfg.Agent = config.Agent{Name: c.Agent}
	}
	cfg.Agent.ScriptFile = cmp.Or(c.Script, cfg.Agent.ScriptFile)
	cfg.Agent.Path, cfg.Agent.Command = cmp.Or(c.AgentPath, cfg.Agent.Path), cmp.Or(c.AgentCommand, cfg.Agent.Command)
	return cfg
}

// repository is about the repository's own file, as it lies in the checkout here.
func (c *doctorCmd) repository(ctx context.Context, git *gitrepo.Git) (string, error) {
	if git == nil {
		return "", warning{errors.New("not checked: there is no git")}
	}
	repo, err := git.OpenLocal(ctx, ".")
	if err != nil {
		return "", warning{err}
	}
	source, err := os.ReadFile(filepath.Join(repo.Top(), filepath.FromSlash(config.RepoPath)))
	if errors.Is(err, fs.ErrNotExist) {
		return "no " + config.RepoPath + ": checks are found, limits are the usual ones", nil
	}
	if err != nil {
		return "", warning{err}
	}
	own, err := host.ConfigFile{Name: config.RepoPath, Source: source}.Parse()
	limits := own.Limits.WithDefaults(run.DefaultLimits())
	return fmt.Sprintf("%s: %s, %s", config.RepoPath, strs.Count(len(own.Gates), "check"), limitsInWords(limits)), err
}

// agent starts the agent in the sandbox for its version: the configured one, or where a
// container has no image yet, the local one.
func (c *doctorCmd) agent(ctx context.Context, cfg config.Server) (backend agent.Backend, version string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("find this program: %w", err)
	}
	kind := cfg.Sandbox.Kind
	if cfg.Sandbox.Image == "" {
		kind = config.SandboxLocal
	}
	if backend, err = lookupAgent(cfg.Agent.Name, kind, agentOptions(cfg, self)); err != nil {
		return nil, "", err
	}
	var box sandbox.Sandbox
	if kind == config.SandboxDocker {
		box, err = docker.New(docker.Options{Self: self, Image: cfg.Sandbox.Image, DataDir: cfg.DataDir})
	} else {
		confined := local.Options{Isolation: local.Isolation(cfg.Sandbox.LocalIsolation), Show: cfg.Sandbox.Show}
		if err := checkCommand(cfg.Agent.Command, confined); err != nil {
			return nil, "", err
		}
		box, err = local.New(confined)
	}
	if err == nil {
		version, err = agentVersion(ctx, backend, box, cfg.Sandbox.Image)
	}
	return backend, version, err
}

// key says whether bot run would find a key for the agent.
func (c *doctorCmd) key(backend agent.Backend) (string, error) {
	about := backend.About()
	if c.UseLogin {
		_, err := loginOf(about.Name, gateway.Upstream{}, time.Now())
		return "the login of " + about.Name + " on this machine", err
	}
	is := slices.IndexFunc(about.Keys, func(name string) bool { return os.Getenv(name) != "" })
	if is < 0 {
		return "", checkKey(backend, os.Getenv)
	}
	return about.Keys[is] + " is set; it was not tried", nil
}

// local says what the local sandbox keeps apart on this machine.
func (c *doctorCmd) local(cfg config.Server) (string, error) {
	box, err := local.New(local.Options{Isolation: local.Isolation(cfg.Sandbox.LocalIsolation)})
	if err != nil {
		return "", err
	}
	switch is := box.Confinement(); {
	case is.Isolated:
		ok := "bubblewrap works: agents and checks see the machine's programs and their work tree, and nothing else of its files"
		if (config.Place{Kind: config.SandboxLocal, LocalIsolation: cfg.Sandbox.LocalIsolation}).Gated() {
			return ok + " or its network", nil
		}
		return ok + "; the network is shared", nil
	case is.Why != nil:
		return "", fix("no isolation, agents can do whatever this user can: "+is.Why.Error(),
			"install bubblewrap and allow user namespaces, or use the docker sandbox")
	}
	return "no isolation, as configured: agents can do whatever this user can", nil
}

// docker is needed where it is configured; elsewhere it is good to have.
func (c *doctorCmd) docker(ctx context.Context, cfg config.Server, dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	box, err := docker.New(docker.Options{Self: self, Image: cfg.Sandbox.Image, DataDir: dir})
	if err == nil {
		err = box.Check(ctx)
	}
	if err != nil {
		return "", err
	}
	version, err := box.Version(ctx)
	return "engine " + version, err
}

// dataDir says whether what is kept can be written: where it is, or above where
// it is to be made.
func (c *doctorCmd) dataDir(cfg config.Server, dir string) (string, error) {
	if err := reconcile.CheckDataDir(dir); err != nil && cfg.Sandbox.Gated() {
		return "", err
	}
	elsewhere := "set data_dir (" + calledAs() + " run: RALPH_DATA_DIR) to another directory"
	at := dir
	info, err := os.Stat(at)
	for err != nil && at != filepath.Dir(at) {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	if err == nil && !info.IsDir() {
		return "", fix(at+" is not a directory", elsewhere)
	}
	probe, err := os.MkdirTemp(at, ".ralph-doctor-")
	if err == nil {
		err = os.Remove(probe)
	}
	if err != nil {
		return "", fix("cannot write to "+dir+": "+err.Error(), "allow this user to write there, or "+elsewhere)
	}
	if at != dir {
		return dir + ", which will be created", nil
	}
	return dir, nil
}

// disk says what is free beside a server's data.
func (c *doctorCmd) disk(cfg config.Server) (string, error) {
	free, files, err := machine.FreeDisk(cfg.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "nothing is kept yet", nil
	}
	if lacks := (machine.Room{Disk: free, Files: files}).LacksDisk(); err == nil && lacks != "" {
		return "", fix(lacks+": nothing is started, and webhooks are soon refused", "make room in "+cfg.DataDir)
	}
	return fmt.Sprintf("%d GiB free", free>>30), err
}
