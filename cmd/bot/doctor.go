//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox/docker"
	"github.com/org/ralph-action/internal/sandbox/local"
)

// doctorCmd is `bot doctor`.
type doctorCmd struct {
	Config string `help:"The server's configuration (default: ralph.yaml, if it is there). Without one only what bot run needs is checked." placeholder:"FILE" type:"path"`
	Agent  string `help:"The agent to check (default: the configured one, else claude)." placeholder:"AGENT"`
	Script string `help:"The script of --agent script." placeholder:"FILE" type:"path"`

	AgentPath    string `name:"agent-path" help:"The agent's program (default: the configured one, else from PATH)." placeholder:"FILE" type:"path"`
	AgentCommand string `name:"agent-command" help:"The command line of --agent command." placeholder:"COMMAND"`
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

// appTimeout bounds the questions to GitHub.
const appTimeout = 15 * time.Second

// Run checks everything and tells all of it; what must be mended makes exit
// code 2.
func (c *doctorCmd) Run(ctx bound, io stdio) error {
	cfg, found, cfgErr := c.load()
	checks := []finding{c.git(), c.agent(ctx, cfg), c.local(cfg), c.docker(ctx, cfg, found), c.caches(cfg, found)}
	switch {
	case cfgErr != nil:
		checks = append(checks, finding{what: "configuration", err: cfgErr})
	case !found:
		checks = append(checks, finding{what: "configuration", optional: true, err: &run.UserError{
			Message: "there is no ralph.yaml here", Hint: "bot run needs none; for bot serve see docs/configuration.md, and name the file with --config",
		}})
	default:
		checks = append(checks,
			finding{what: "configuration", ok: "complete, every key is known"},
			finding{what: "webhook secret", ok: count(len(cfg.GitHub.WebhookSecrets), "secret") + " accepted"},
			c.app(ctx, cfg))
	}
	broken := 0
	for _, f := range checks {
		if f.print(io.out) {
			broken++
		}
	}
	if broken > 0 {
		fmt.Fprintf(io.out, "\n%s to mend.\n", count(broken, "thing"))
		return ended{run.ExitUsage}
	}
	fmt.Fprintln(io.out, "\nAll is well.")
	return nil
}

// print writes one finding and says whether it has to be mended.
func (f finding) print(w io.Writer) bool {
	if f.err == nil {
		fmt.Fprintf(w, "✓ %-15s %s\n", f.what, f.ok)
		return false
	}
	mark := "✗"
	if f.optional {
		mark = "–"
	}
	message, hint := f.err.Error(), ""
	if user, ok := errors.AsType[*run.UserError](f.err); ok {
		message, hint = user.Message, user.Hint
	}
	fmt.Fprintf(w, "%s %-15s %s\n", mark, f.what, message)
	if hint != "" {
		fmt.Fprintf(w, "  %-15s → %s\n", "", hint)
	}
	return !f.optional
}

// load reads the configuration that was named, or ralph.yaml where it is.
func (c *doctorCmd) load() (cfg config.Server, found bool, err error) {
	file := c.Config
	if file == "" {
		file = "ralph.yaml"
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return config.DefaultServer(), false, nil
		}
	}
	cfg, err = config.LoadServer(file, os.LookupEnv, os.ReadFile)
	if err != nil {
		return config.DefaultServer(), true, err
	}
	return cfg, true, nil
}

func (c *doctorCmd) git() finding {
	f := finding{what: "git"}
	path, err := lookGit()
	if err == nil {
		_, err = gitrepo.New(path)
	}
	f.ok, f.err = path, err
	return f
}

func (c *doctorCmd) agent(ctx context.Context, cfg config.Server) finding {
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
		return f
	}
	opts := agentOptions(cfg, self)
	opts.ScriptFile = script
	if c.AgentPath != "" {
		opts.Path = c.AgentPath
	}
	if c.AgentCommand != "" {
		opts.Command = c.AgentCommand
	}
	backend, err := agent.Lookup(name, opts)
	if err == nil {
		err = backend.Check(proc.Look)
	}
	if err == nil {
		f.ok, err = agentVersion(ctx, backend)
	}
	f.err = err
	return f
}

// local says what the local sandbox keeps apart on this machine.
func (c *doctorCmd) local(cfg config.Server) finding {
	f := finding{what: "local sandbox", optional: cfg.Sandbox.Kind != config.SandboxLocal || cfg.Sandbox.LocalIsolation != "bwrap"}
	box, err := local.New(local.Options{Isolation: local.Isolation(cfg.Sandbox.LocalIsolation)})
	if err != nil {
		f.err = err
		return f
	}
	apart, why := box.Isolated()
	switch {
	case apart:
		f.ok = "bubblewrap works: agents and checks do not see people's homes and can write their work tree only; the network is shared"
	case why == nil:
		f.ok = "no isolation, as configured: agents have the rights of this user"
	default:
		f.err = &run.UserError{
			Message: "no isolation, agents have the rights of this user: " + why.Error(),
			Hint:    "install bubblewrap and permit user namespaces, or use the docker sandbox", Err: why,
		}
	}
	return f
}

// docker is needed where it is configured; elsewhere it is good to have.
func (c *doctorCmd) docker(ctx context.Context, cfg config.Server, server bool) finding {
	f := finding{what: "docker", optional: cfg.Sandbox.Kind != config.SandboxDocker || cfg.Sandbox.Image == ""}
	self, err := os.Executable()
	if err != nil {
		f.err = err
		return f
	}
	dir := cfg.DataDir
	if !server {
		if dir, f.err = dataDir(); f.err != nil {
			return f
		}
	}
	box, err := docker.New(docker.Options{Self: self, Image: cfg.Sandbox.Image, DataDir: dir, HostPaths: cfg.Sandbox.HostPaths})
	if err == nil {
		err = box.Check(ctx)
	}
	if err == nil {
		var facts docker.Facts
		facts, err = box.Facts(ctx)
		f.ok = facts.String()
	}
	f.err = err
	return f
}

// caches says what set-up commands left in the data directory: the server's, or
// without one that of bot run.
func (c *doctorCmd) caches(cfg config.Server, server bool) finding {
	f := finding{what: "caches", optional: true}
	dir := cfg.DataDir
	if !server {
		if dir, f.err = dataDir(); f.err != nil {
			return f
		}
	}
	sets, err := host.Caches{Dir: filepath.Join(dir, host.CachesDir)}.Sets()
	f.err = err
	var bytes int64
	for _, s := range sets {
		bytes += s.Bytes
	}
	f.ok = fmt.Sprintf("%s of set-up commands, %d MB of %d MB", count(len(sets), "outcome"), bytes/1_000_000, cfg.Sandbox.Caches/1_000_000)
	return f
}

// app asks GitHub about the App with its key.
func (c *doctorCmd) app(ctx context.Context, cfg config.Server) finding {
	f := finding{what: "GitHub App"}
	gh, err := ghapp.New(ghapp.Config{
		APIURL: cfg.GitHub.APIURL, GraphQLURL: cfg.GitHub.GraphQLURL, WebURL: cfg.GitHub.WebURL,
		AppID: cfg.GitHub.AppID, PrivateKey: []byte(cfg.GitHub.PrivateKey.Reveal()), UserAgent: "ralph-bot",
	})
	if err != nil {
		f.err = err
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, appTimeout)
	defer cancel()
	self, err := gh.Self(ctx)
	if err != nil {
		f.err = &run.UserError{Message: "GitHub does not accept the App's id and key: " + err.Error(), Hint: "compare github.app_id and the private key with the App's settings page", Err: err}
		return f
	}
	var missing []string
	for name, want := range ghapp.Permissions() {
		if have := self.Permissions[name]; have != want && have != "write" && have != "admin" {
			missing = append(missing, name+": "+want)
		}
	}
	slices.Sort(missing)
	// An App without checks works, and is not told of them either.
	silent := slices.Equal(missing, []string{"checks: write"})
	deaf := slices.DeleteFunc(handlers.Subscriptions(), func(name string) bool {
		return slices.Contains(self.Events, name) || silent && strings.HasPrefix(name, "check_")
	})
	slices.Sort(deaf)
	switch {
	case len(missing) > 0 && !silent:
		f.err = &run.UserError{Message: "the App lacks permissions: " + strings.Join(missing, ", "), Hint: "grant them on the App's settings page and accept them in the installation"}
	case len(deaf) > 0:
		f.err = &run.UserError{Message: "the App is not subscribed to " + strings.Join(deaf, ", "), Hint: "subscribe to these events on the App's settings page: what they tell is not noticed"}
	case silent:
		f.ok = self.Slug + ", but without checks: write, so that commits do not show how a run stands"
	default:
		f.ok = self.Slug + ", with the permissions and events it needs"
	}
	return f
}
