//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/docker"
	"github.com/org/ralph-action/internal/sandbox/local"
	"github.com/org/ralph-action/internal/spend"
	"github.com/org/ralph-action/internal/transcript"
)

// runCmd is `bot run`.
type runCmd struct {
	Plan string `arg:"" name:"plan.md" help:"What is to be done: a Markdown file, with check boxes or without."`
	Mode string `arg:"" optional:"" enum:",plan,build" default:"" help:"plan: write the tasks and stop. build: work the tasks that are there. Default: plan if there are no tasks, then build."`

	agentFlags

	Gate       []string `help:"A command that must pass before a commit; repeatable. Default: those of .github/ralph.yml, else what is found in the repository (docs/gates.md)." placeholder:"COMMAND" sep:"none"`
	NoGates    bool     `name:"no-gates" help:"Check nothing, and detect no checks."`
	Ask        string   `enum:"auto,never" default:"never" help:"auto: where the plan is too vague to work from, print questions and exit with 9 instead of planning. never: plan what is there (default: ${default})." placeholder:"auto|never"`
	Review     bool     `help:"Have all of the work read once more at the end; the reviewer may add tasks."`
	Once       bool     `help:"Stop after one iteration."`
	Branches   string   `name:"branch-template" env:"RALPH_BRANCH_TEMPLATE" default:"ralph/{issue}" help:"What the branch is called that is made where the default branch is checked out; {issue} stands for the name of the plan." placeholder:"NAME"`
	NoCommit   bool     `name:"no-commit" help:"Leave the work in the checkout without committing. DO_NOT_COMMIT on a line of its own in the plan does the same."`
	AllowDirty bool     `name:"allow-dirty" help:"Begin although tracked files have uncommitted changes; they are not part of the work."`
	Restart    bool     `help:"Give up a run of this plan that was cut off, and begin anew from the branch."`
	JSON       bool     `name:"json" help:"Print one JSON document on stdout at the end."`

	Price []string `env:"RALPH_PRICE" sep:";" help:"What a model costs, in dollars for a million tokens, where the list price is not known or another; repeatable." placeholder:"MODEL=INPUT,OUTPUT"`

	Egress []string `help:"A host that agents and checks in containers may reach: its name, *.NAME for those below it, or preset:REGISTRY with one of crates, debian, go, maven, npm, nuget, packagist, pypi, rubygems; repeatable. Default: none." placeholder:"HOST"`

	Devcontainer string `enum:"off,image,build" default:"off" help:"With --sandbox docker: take the image from the default branch's devcontainer.json, where there is one; build also has the engine build it (docs/sandbox.md). --image is then for repositories without one (default: ${default})." placeholder:"off|image|build"`

	sandboxFlags
	limitFlags
	notifyFlags
}

// Run works the plan.
func (c *runCmd) Run(ctx bound, io stdio) error {
	if err := run.BranchTemplate(c.Branches).Check(); err != nil {
		return &run.UserError{Message: "--branch-template: " + err.Error(), Hint: "leave it out, or give a name such as " + string(run.DefaultBranchTemplate)}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	backend, err := c.lookup(self, c.Sandbox)
	if err != nil {
		return err
	}
	gitPath, err := lookGit()
	if err != nil {
		return err
	}
	git, err := gitrepo.New(gitPath)
	if err != nil {
		return err
	}
	data, err := dataDir()
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	if c.Sandbox == agent.SandboxLocal && c.Devcontainer != string(config.DevcontainerOff) {
		return &run.UserError{Message: "--devcontainer is for --sandbox docker", Hint: "the local sandbox has no images"}
	}
	box, err := openSandbox(ctx, c.Sandbox, docker.Options{Self: self, Image: c.Image, DataDir: data}, c.LocalIsolation, c.Devcontainer != string(config.DevcontainerOff))
	if err != nil {
		return err
	}
	if err := reap(ctx, box); err != nil {
		return err
	}
	prices, err := c.prices()
	if err != nil {
		return err
	}
	models, err := c.gateway(backend, prices)
	if err != nil {
		return err
	}

	tell := c.notifyFlags.config()
	mask := environmentMask(notifySecrets(tell.Targets)...)
	kept := transcript.Open(transcriptsDir(data), mask)
	screen := newLive(io.err, time.Now, mask)
	defer screen.close()
	notifier, err := newNotifier(tell, mask, func(target string, err error) { screen.line("  notification to %s: %v", target, err) })
	if err != nil {
		return err
	}
	defer notifier.Drop()
	record, err := openAnalytics(data, io.err)
	if err != nil {
		return err
	}
	defer func() { _ = record.Close() }()
	opts := inline.Options{
		PlanFile: c.Plan, Dir: dir, Mode: run.Mode(c.Mode), Ask: plan.Ask(c.Ask), DataDir: data, Git: git, Sandbox: box, Backend: backend,
		Image: c.Image, Devcontainer: config.Devcontainer(c.Devcontainer), Model: c.Model, Limits: c.limits(), Branches: run.BranchTemplate(c.Branches), Once: c.Once, Review: c.Review, NoCommit: c.NoCommit, AllowDirty: c.AllowDirty,
		NoDetect: c.NoGates, Restart: c.Restart, Transcripts: kept, Mask: mask, Gateway: models, Prices: prices, Now: time.Now, Emit: both(record.Handle, both(notifier.Handle, screen.handle)), OnSave: io.onSave,
	}
	d := config.DefaultServer().Sandbox
	opts.CacheBytes = d.Caches
	if c.Sandbox == agent.SandboxDocker {
		opts.Resources = host.Resources{DiskBytes: d.Disk, DiskFiles: d.Files}
	}
	for _, command := range c.Gate {
		opts.Gates = append(opts.Gates, gate.Gate{Command: command})
	}
	screen.line("sandbox: %s", sandbox.Describe(box))
	s, err := inline.Run(ctx, opts)
	closeNotifier(ctx, notifier, notifyGrace)
	screen.close()
	if err != nil {
		return err
	}
	limits := transcript.Limits(config.DefaultTranscripts())
	if err := kept.Prune(limits, time.Now(), func(id run.ID) bool { return id == s.Run }); err != nil {
		return err
	}
	return c.tell(ctx, io, s, kept, mask, sandbox.Describe(box))
}

// tell prints the end of a run and turns it into the exit code.
func (c *runCmd) tell(ctx context.Context, io stdio, s loop.State, kept *transcript.Store, mask *redact.Masker, box string) error {
	io.out, io.err = maskedWriter{io.out, mask}, maskedWriter{io.err, mask}
	for line := range strings.Lines(diagnostics(s)) {
		fmt.Fprintln(io.err, run.PrintableLine(strings.TrimRight(line, "\n")))
	}
	if c.JSON {
		r, err := newResult(s)
		if err != nil {
			return err
		}
		r.Run.Sandbox = box
		r.Run.TranscriptPath = transcriptPath(kept, s.Run)
		if err := r.write(io.out); err != nil {
			return err
		}
	} else {
		fmt.Fprint(io.out, runSummary(s))
	}
	return exitOf(ctx, s.End)
}

// exitOf is the error that carries the exit code of a run's end, nil for 0. A
// signal has an exit code of its own.
func exitOf(ctx context.Context, end run.EndReason) error {
	code := end.ExitCode()
	if in, ok := errors.AsType[interrupted](context.Cause(ctx)); ok && end == run.EndCancelled {
		code = signalCode(in.signal)
	}
	if code == run.ExitComplete {
		return nil
	}
	return ended{code}
}

// runSummary is the last a person reads on stdout.
func runSummary(s loop.State) string {
	n := 0
	for _, commit := range s.Commits {
		if commit.OID != "" {
			n++
		}
	}
	retry := ""
	if s.End == run.EndBlocked && (n > 0 || s.Iteration == 0) { // otherwise the next run begins anew
		retry = fmt.Sprintf("To have a blocked task tried again, say more in it, take its (blocked: …) out of %s, commit that, and run the plan again.\n", s.ProgressPath)
	}
	switch {
	case len(s.Questions) > 0:
		return fmt.Sprintf("%s leaves open what exactly is to be done:\n- %s\nAnswer in the plan and run it again, or run it as it is with --ask=never.\n",
			s.Subject.PlanFile, strings.Join(s.Questions, "\n- "))
	case s.End == run.EndPlanned:
		return fmt.Sprintf("The plan is in %s. Edit it as you like, then run it.\n", s.ProgressPath)
	case n > 0:
		return fmt.Sprintf("%s on %s; the plan and what was learned are in %s.\n%s", count(n, "new commit"), s.Branch, s.ProgressPath, retry)
	case s.NoCommit && len(s.Commits) > 0:
		return "The work is in your checkout, not committed.\n"
	case s.End.Complete():
		return fmt.Sprintf("Everything in %s was done before.\n", s.ProgressPath)
	default:
		return "Nothing was committed.\n" + retry
	}
}

// lookGit finds git, or says how to get it.
func lookGit() (string, error) {
	path, err := proc.Look("git")
	if err != nil {
		return "", &run.UserError{Message: "git is not installed", Hint: "install git 2.39 or newer", Err: err}
	}
	return path, nil
}

// openSandbox makes the sandbox and checks that it can be used. d is what is to
// be known of this machine where it is docker, isolation is for local. ownImage:
// the repository may name the image.
func openSandbox(ctx context.Context, kind string, d docker.Options, isolation string, ownImage bool) (sandbox.Sandbox, error) {
	var box sandbox.Sandbox
	var err error
	switch kind {
	case agent.SandboxDocker:
		if d.Image == "" && !ownImage {
			return nil, &run.UserError{Message: "the docker sandbox needs an image", Hint: "name one with --image; it must hold the tools your checks need"}
		}
		if d.Installation, err = installation(d.DataDir); err != nil {
			return nil, err
		}
		box, err = docker.New(d)
	default:
		box, err = local.New(local.Options{Self: d.Self, Isolation: local.Isolation(isolation), Hide: []string{d.DataDir}}) //nolint:contextcheck // it tries bubblewrap once, for all
	}
	if err != nil {
		return nil, err
	}
	if err := box.Check(ctx); err != nil {
		return nil, err
	}
	return box, nil
}

// installation is the mark of this data directory on containers. It is made at
// random, once.
func installation(dataDir string) (string, error) {
	name := filepath.Join(dataDir, "installation")
	mark, err := os.ReadFile(name) // #nosec G304 -- a file of our own
	if err == nil && len(mark) > 0 {
		return string(mark), nil
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		mark = []byte(strings.ToLower(rand.Text()))
		if err = os.MkdirAll(dataDir, 0o700); err == nil {
			err = os.WriteFile(name, mark, 0o600)
		}
	}
	if err != nil {
		return "", fmt.Errorf("mark this installation: %w", err)
	}
	return string(mark), nil
}

// reap removes what earlier runs left with an engine.
func reap(ctx context.Context, box sandbox.Sandbox) error {
	r, ok := box.(sandbox.Reaper)
	if !ok {
		return nil
	}
	_, err := r.Reap(ctx)
	return err
}

// gateway says how the gateway is opened, where one is needed: for a container,
// which has no network and no key.
func (c *runCmd) gateway(backend agent.Backend, prices run.Prices) (func(spend.Ledger) (*host.Gateway, func(), error), error) {
	if c.Sandbox != agent.SandboxDocker {
		if len(c.Egress) > 0 {
			return nil, &run.UserError{Message: "--egress needs --sandbox=docker", Hint: "the local sandbox has all of this host's network, and no list holds there"}
		}
		return nil, nil //nolint:nilnil // no gateway is an answer
	}
	upstreams, err := upstreamsOf(backend, upstreamIn(os.Getenv))
	if err != nil || len(upstreams)+len(c.Egress) == 0 {
		return nil, err
	}
	return func(ledger spend.Ledger) (*host.Gateway, func(), error) {
		key, meter := []byte(rand.Text()), spend.NewMeter(ledger, prices)
		handler, err := gateway.NewHandler(gateway.Config{Upstreams: upstreams, FinalLimit: finalLimit(backend), Egress: c.Egress, Key: key, Meter: meter})
		if err != nil {
			return nil, nil, err
		}
		dir, err := os.MkdirTemp("", "ralph-gw-")
		if err != nil {
			return nil, nil, fmt.Errorf("make a directory for the model proxy: %w", err)
		}
		server, err := gateway.Listen(dir, handler)
		if err != nil {
			return nil, nil, errors.Join(err, os.RemoveAll(dir))
		}
		closeAll := func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = server.Close(ctx) // the agents it served have ended
			_ = os.RemoveAll(dir)
		}
		token := func(start string) string { return gateway.Token(key, start) }
		return &host.Gateway{
			Dir: server.Dir(), Token: token, Meter: meter, NoModels: len(upstreams) == 0,
			Egress: c.Egress, ProxyToken: func(start string) string { return gateway.ProxyToken(key, start) },
		}, closeAll, nil
	}, nil
}

// prices are the list prices with those of --price before them.
func (c *runCmd) prices() (run.Prices, error) {
	own := run.Prices{}
	for _, text := range c.Price {
		model, amounts, ok := strings.Cut(text, "=")
		price, err := run.ParsePrice(amounts)
		if !ok || model == "" {
			err = fmt.Errorf("%q names no model", text)
		}
		if err != nil {
			return nil, &run.UserError{Message: "--price: " + err.Error(), Hint: "write MODEL=INPUT,OUTPUT in dollars for a million tokens", Err: err}
		}
		own[model] = price
	}
	return run.ListPrices().With(own), nil
}

// scriptAgentCmd is the scripted agent as a process of its own.
type scriptAgentCmd struct {
	Script string `required:"" help:"The script." type:"path"`
}

// Run follows the script.
func (c *scriptAgentCmd) Run(ctx bound, io stdio) error {
	script, err := os.ReadFile(c.Script)
	if err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	code, err := agent.RunScript(ctx, script, io.in, io.out, dir)
	if err != nil {
		return err
	}
	if code != 0 {
		return ended{code}
	}
	return nil
}
