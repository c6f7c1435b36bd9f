package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/acp"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/docker"
	"github.com/org/ralph-action/internal/sandbox/local"
)

// runCmd is `bot run`.
type runCmd struct {
	Plan  string `arg:"" optional:"" name:"plan.md" help:"What to do: a Markdown file with or without check boxes, a prd.json, a run's progress.md, the folder of a spec, or a sentence."`
	Mode  string `arg:"" optional:"" enum:",plan,build" default:"" help:"plan: write the tasks and stop. build: work only on existing tasks. Default: plan if there are no tasks, then build."`
	Calls *int   `arg:"" optional:"" name:"n" help:"Maximum number of agent calls, like --max-iterations."`

	agentFlags

	Gate       []string `help:"A command that must pass before each commit; repeatable. Default: the gates in .github/ralph.yml, else detected ones (docs/gates.md)." placeholder:"COMMAND" sep:"none"`
	NoGates    bool     `name:"no-gates" help:"Run no checks, not even detected ones."`
	Ask        string   `enum:"auto,never" default:"never" help:"auto: the planner may ask: then its questions are printed and the run exits with 9. never: it plans with assumptions (default: ${default})." placeholder:"auto|never"`
	Review     *bool    `negatable:"" help:"Have an agent review all of the work at the end; it may add tasks. Default: once, if no check has passed."`
	Promise    string   `name:"completion-promise" help:"Give the same prompt to every call until an agent ends with <promise>TEXT</promise> and the checks pass. The prompt is one task and becomes one commit." placeholder:"TEXT"`
	Once       bool     `help:"Stop after one iteration."`
	Branch     string   `xor:"place" help:"Work on this branch, which begins at the default branch if it is new. Default: the branch named in a prd.json, else the plan's own, ralph/NAME." placeholder:"NAME"`
	Here       bool     `xor:"place" help:"Work on the branch that is checked out now, unless it is the default branch."`
	NoCommit   bool     `name:"no-commit" help:"Leave the work uncommitted in the checkout. A line DO_NOT_COMMIT in the plan does the same."`
	Push       bool     `help:"After the run, push the branch to its remote if there are new commits; never force."`
	AllowDirty bool     `name:"allow-dirty" help:"Start even if tracked files have uncommitted changes; the run ignores them."`
	Restart    bool     `help:"Discard an interrupted run of this plan and start over from the branch."`
	Yes        bool     `short:"y" help:"With the folder of a spec: write all of its files and work its tasks, without stopping for your approval after each file."`
	DryRun     bool     `name:"dry-run" help:"Show what would happen without doing it: branch, tasks, checks, agent, limits."`
	TUI        bool     `name:"tui" help:"Show the run full screen: the tasks, the agent at work and the log. Keys pause and stop it (docs/commands.md#full-screen)."`
	JSON       bool     `name:"json" help:"Print one JSON document on stdout at the end."`

	UseLogin bool `name:"use-login" help:"Use this machine's login of Claude Code or Codex instead of a key. It stays with the bot; docs/security.md says what that exposes."`

	Price []string `env:"RALPH_PRICE" sep:";" help:"A model's price in dollars per million tokens, if the built-in list lacks it or differs; repeatable." placeholder:"MODEL=INPUT,OUTPUT"`

	Egress []string `help:"A host that agents and checks in containers may reach: a name, *.NAME for its subdomains, or preset:REGISTRY (crates, debian, go, maven, npm, nuget, packagist, pypi, rubygems); repeatable. Default: none." placeholder:"HOST"`

	sandboxFlags
	limitFlags
	notifyFlags

	// user is what the person's own file says, userErr what is wrong with it.
	user    config.User
	userErr error
	// portable is what is set for portableralph.
	portable portable
	// spec is the spec that is worked, or none; again: its next step follows.
	spec  inline.Spec
	again bool
}

// review is when all of the work is read once more.
func (c *runCmd) review() loop.ReviewPolicy {
	switch {
	case c.Review == nil:
		return loop.ReviewUnproven
	case *c.Review:
		return loop.ReviewAlways
	default:
		return loop.ReviewNever
	}
}

// AfterApply refuses a limit of no calls, which would stand for the default.
func (c *runCmd) AfterApply(ctx *kong.Context) error {
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "max-iterations" && c.MaxIterations < 1 {
			return errors.New("--max-iterations must be at least 1; omit it for the default")
		}
	}
	return nil
}

// Run works the plan, and the next steps of a spec where nobody wants to approve them. With
// --json a run that never began is a document, too.
func (c *runCmd) Run(ctx bound, io stdio) error {
	for {
		c.again = false
		err := c.once(ctx, io)
		if _, told := errors.AsType[exitCoder](err); err != nil && !told && c.JSON {
			return errors.Join(err, printJSON(io.out, map[string]refusal{"error": newRefusal(err)}))
		}
		if err != nil || !c.again {
			return err
		}
	}
}

// once is one run.
func (c *runCmd) once(ctx bound, io stdio) error {
	if err := c.checkFlags(io); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	backend, err := c.lookup(self, c.Sandbox)
	if err != nil {
		return err
	}
	git, err := gitrepo.New("")
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
	if err := c.checkPromise(); err != nil {
		return err
	}
	hide := []string{dir, filepath.Join(dir, ".env"), filepath.Join(dir, ".git")}
	if home, err := os.UserHomeDir(); err == nil {
		hide = append(hide, filepath.Join(home, portableFile))
	}
	confined := local.Options{Isolation: local.Isolation(c.LocalIsolation), Show: c.Show, Hide: hide}
	if c.Sandbox == agent.SandboxLocal {
		if err := checkCommand(c.AgentCommand, confined); err != nil {
			return err
		}
	}
	if err := c.findSpec(ctx, git, dir); err != nil {
		return err
	}
	opts := c.options(dir, data, git, backend)
	if err := c.checkPush(ctx, git, dir); err != nil {
		return err
	}
	if c.DryRun {
		return c.dryRun(ctx, io, opts)
	}
	upstreams, err := c.upstreams(backend)
	if err != nil {
		return err
	}
	if err := reach(ctx, backend, upstreams); err != nil {
		return err
	}
	box, err := openSandbox(ctx, c.Sandbox, docker.Options{
		Self: self, Image: cmp.Or(c.Image, c.user.Sandbox.Image), DataDir: data,
	}, confined)
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

	tell := c.notifyFlags.config(c.portable)
	secrets := notifySecrets(tell.Targets)
	for _, u := range upstreams {
		secrets = append(secrets, u.APIKey, u.AuthToken)
	}
	mask := environmentMask(secrets...)
	kept := transcript.Open(transcriptsDir(data), mask)
	screen := newLive(io.err, time.Now, mask)
	defer screen.close()
	models, err := c.gateway(backend, upstreams, prices, func(err error) { screen.line("  %v", err) })
	if err != nil {
		return err
	}
	notifier, err := newNotifier(tell, mask, func(target string,
		err error) {
		screen.line("  notification to %s: %v", target, err)
	})
	if err != nil {
		return err
	}
	defer notifier.Drop()
	record, err := openAnalytics(data, lineWriter(screen.line))
	if err != nil {
		return err
	}
	opts.Sandbox, opts.Transcripts, opts.Mask, opts.Gateway, opts.Prices = box, kept, mask, models, prices
	opts.Emit, opts.OnSave = both(record.Handle, both(notifier.Handle, screen.handle)), io.onSave
	if c.TUI {
		opts.Helm = inline.NewHelm()
		defer showFullScreen(io, screen, opts.Helm)()
	}
	screen.line("sandbox: %s", sandbox.Describe(box))
	if is := box.About().Confinement; is != nil && is().Why != nil {
		screen.line("! nothing isolates agents here: they can do whatever you can. Install bubblewrap, or use --sandbox docker")
	}
	s, err := inline.Run(ctx, opts)
	io.exits.leave()
	closeNotifier(ctx, notifier, notifyGrace)
	screen.close()
	if err != nil {
		return err
	}
	limits := transcript.Limits(config.DefaultTranscripts())
	isActive := func(id run.ID) bool { return id == s.Run }
	if err := kept.Prune(limits, time.Now(), isActive); err != nil {
		return err
	}
	remote, failed := c.push(ctx, git, dir, s)
	after := newEnding(context.WithoutCancel(ctx), git, dir, s)
	after.pushed = remote != ""
	if c.again = failed == nil && c.goesOn(s); c.again {
		return nil
	}
	err = c.tell(ctx, io, s, after, kept, mask, sandbox.Describe(box), remote)
	if failed != nil {
		report(maskedWriter{io.err, mask}, failed)
		err = cmp.Or[error](err, ended{run.ExitFailed})
	}
	return err
}

// checkFlags completes what was asked for by what is usual here, and refuses what cannot be
// done, before anything is looked for.
func (c *runCmd) checkFlags(io stdio) error {
	if c.Plan == "" {
		return &run.UserError{Message: "nothing says what to do", Hint: "pass a plan file, or a sentence in quotes"}
	}
	if err := c.takeDefaults(); err != nil {
		return err
	}
	if c.spec.Folder == "" { // else it was told before
		fmt.Fprint(io.err, c.portable.said)
	}
	if err := c.checkBranches(); err != nil {
		return err
	}
	if c.TUI {
		if err := checkFullScreen(io, os.Getenv); err != nil {
			return err
		}
	}
	if err := checkImage(c.Sandbox, c.Image); err != nil {
		return err
	}
	return c.countCalls()
}

// push sends what was committed to the branch's remote, and returns that; ""
// where nothing was sent. The commits stay where they are, whatever comes of it.
func (c *runCmd) push(ctx context.Context, git *gitrepo.Git, dir string, s loop.State) (remote string, err error) {
	if !c.Push || landed(s) == 0 && s.Closing == nil {
		return "", nil
	}
	if ctx.Err() != nil {
		return "", &run.UserError{
			Message: s.Branch + " was not pushed because the run was stopped",
			Hint:    "the commits are on the branch; push them yourself",
		}
	}
	repo, err := git.OpenLocal(ctx, dir)
	if err != nil {
		return "", err
	}
	return repo.Push(ctx, s.Branch)
}

// checkPush says before the run that it could not be pushed.
func (c *runCmd) checkPush(ctx context.Context, git *gitrepo.Git, dir string) error {
	if !c.Push {
		return nil
	}
	repo, err := git.OpenLocal(ctx, dir)
	if err != nil {
		return err
	}
	_, err = repo.Remotes(ctx)
	return err
}

// landed is how many commits the run has made.
func landed(s loop.State) int {
	n := 0
	for _, commit := range s.Commits {
		if commit.OID != "" {
			n++
		}
	}
	return n
}

// options are what the flags ask of a run.
func (c *runCmd) options(dir, data string, git *gitrepo.Git, backend agent.Backend) inline.Options {
	opts := inline.Options{
		PlanFile: c.Plan, Promise: c.Promise, Dir: dir,
		Mode: run.Mode(c.Mode), DataDir: data, Git: git, Backend: backend,
		Settings: loop.Settings{
			Ask: plan.Ask(c.Ask), Image: c.Image, Model: c.Model, Limits: c.limits(), Review: c.review(),
		},
		Defaults: inline.Defaults{Image: c.user.Sandbox.Image, Model: c.user.Agent.Model, Limits: c.user.Limits},
		Branch:   c.Branch, Here: c.Here, Push: c.Push,
		Once: c.Once, NoCommit: c.NoCommit, AllowDirty: c.AllowDirty, NoDetect: c.NoGates,
		Restart: c.Restart, Now: time.Now,
	}
	if c.Promise != "" { // the limit of a prompt that is repeated is that of the run
		l := &opts.Settings.Limits
		l.TaskAttempts, l.PartialCalls = cmp.Or(l.TaskAttempts, -1), -1
	}
	d := config.DefaultServer().Sandbox
	opts.CacheBytes = d.Caches
	if c.Sandbox == agent.SandboxDocker {
		opts.Resources = sandbox.Resources{DiskBytes: d.Disk, DiskFiles: d.Files}
	}
	for _, command := range c.Gate {
		opts.Settings.Gates = append(opts.Settings.Gates, gate.Gate{Command: command})
	}
	return opts
}

// checkImage refuses an image that nothing would be started from.
func checkImage(sandbox, image string) error {
	if image == "" || sandbox == agent.SandboxDocker {
		return nil
	}
	return &run.UserError{
		Message: "--image is for --sandbox docker; the local sandbox has no images",
		Hint:    "add --sandbox docker, or leave out --image",
	}
}

// checkBranches refuses options that say different things of where the work goes.
func (c *runCmd) checkBranches() error {
	if c.Yes && c.NoCommit {
		return &run.UserError{
			Message: "--yes and --no-commit cannot be used together: each step of a spec builds on the commit before it",
			Hint:    "use only one of them",
		}
	}
	if c.Branch != "" && c.NoCommit {
		return &run.UserError{Message: "--branch and --no-commit cannot be used together", Hint: "use only one of them"}
	}
	return nil
}

// countCalls takes the number behind the mode for the limit of agent calls.
func (c *runCmd) countCalls() error {
	switch {
	case c.Calls == nil:
		return nil
	case *c.Calls < 1:
		return &run.UserError{
			Message: fmt.Sprintf("%d is not a valid number of agent calls", *c.Calls),
			Hint:    "use a number of at least 1 after the mode, or omit it for the default",
		}
	case c.MaxIterations != 0 && c.MaxIterations != *c.Calls:
		return &run.UserError{
			Message: fmt.Sprintf("--max-iterations is %d, but the number after the mode is %d", c.MaxIterations, *c.Calls),
			Hint:    "use only one of them",
		}
	}
	c.MaxIterations = *c.Calls
	return nil
}

// tell prints the end of a run and turns it into the exit code.
func (c *runCmd) tell(
	ctx context.Context, io stdio, s loop.State, after ending, kept *transcript.Store, mask *redact.Masker, box, remote string,
) error {
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
		r.PushedTo = remote
		r.Run.AwaitsApproval = c.waits(s)
		if err := printJSON(io.out, r); err != nil {
			return err
		}
	} else {
		fmt.Fprint(io.out, protectedPaths(s)+pushedTo(s.Branch, remote)+after.summary(s))
		if file := c.waits(s); file != "" {
			fmt.Fprintf(io.out, "%s waits for your approval: read it, change it if you like, and run the "+
				"same command "+
				"to go on.\n", file)
		}
	}
	if c.waits(s) != "" {
		return ended{run.ExitAwaitingPerson}
	}
	return exitOf(ctx, s.End)
}

// findSpec looks whether the plan is the folder of a spec.
func (c *runCmd) findSpec(ctx context.Context, git *gitrepo.Git, dir string) (err error) {
	if c.Promise != "" { // it has one prompt, and no steps
		if c.Yes {
			return &run.UserError{
				Message: "--yes is for the folder of a spec, and --completion-promise is for one prompt",
				Hint:    "use only one of them",
			}
		}
		return nil
	}
	if c.spec, err = inline.FindSpec(ctx, git, dir, c.Plan); err != nil {
		return err
	}
	switch {
	case c.Yes && c.spec.Folder == "":
		return &run.UserError{Message: "--yes is for the folder of a spec, and " + c.Plan + " is none", Hint: "leave --yes out"}
	case c.spec.Phase == "":
		return nil
	case c.Mode == string(run.ModeBuild):
		return &run.UserError{
			Message: c.spec.Folder + " has no " + plan.SpecTasks + " yet",
			Hint:    "leave out `build` to have " + c.spec.File() + " written",
		}
	}
	c.Mode = ""
	return nil
}

// waits is the file that a person has to approve before the spec goes on, "" for none.
func (c *runCmd) waits(s loop.State) string {
	if c.spec.Phase == "" || !s.End.Complete() || s.Once {
		return ""
	}
	return c.spec.File()
}

// goesOn says whether the next step of the spec follows at once. A file that was not
// written where the next step would look for it is no progress.
func (c *runCmd) goesOn(s loop.State) bool {
	return c.Yes && c.waits(s) != "" && landed(s) > 0 && c.leaves(s)
}

// leaves takes what a step has used from what all steps together may use, and says
// whether any is left.
func (c *runCmd) leaves(s loop.State) bool {
	if most := s.Limits.MaxIterations; most > 0 {
		if c.MaxIterations = most - s.Iterations(); c.MaxIterations <= 0 {
			return false
		}
		c.Calls = nil // which said the same
	}
	if most := s.Limits.BudgetUSD; most > 0 {
		if c.Budget = most - s.Usage.CostUSD; c.Budget <= 0 {
			return false
		}
	}
	if s.Limits.RunTimeout > 0 {
		if c.Deadline = time.Until(s.Deadline(time.Now())); c.Deadline <= 0 {
			return false
		}
	}
	return true
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

// openSandbox makes the sandbox and checks that it can be used. d is what is to
// be known of this machine where it is docker, l where it is local.
func openSandbox(
	ctx context.Context, kind string, d docker.Options, l local.Options,
) (sandbox.Sandbox, error) {
	var box sandbox.Sandbox
	var err error
	switch kind {
	case agent.SandboxDocker:
		if d.Image == "" {
			return nil, &run.UserError{
				Message: "the docker sandbox needs an image",
				Hint:    "set one with --image; it must contain the tools your checks need",
			}
		}
		if d.Installation, err = installation(d.DataDir); err != nil {
			return nil, err
		}
		box, err = docker.New(d)
	default:
		l.Self, l.Hide = d.Self, slices.Concat([]string{d.DataDir}, l.Hide, secretFiles(os.Environ()))
		box, err = local.New(l)
	}
	if err != nil {
		return nil, err
	}
	if err := box.Check(ctx); err != nil {
		return nil, err
	}
	return box, nil
}

// secretFiles are the files that variables name as the place of a secret.
func secretFiles(environ []string) []string {
	var out []string
	for _, kv := range environ {
		name, path, _ := strings.Cut(kv, "=")
		// Certificates are no secret, and every program reads them.
		certificates := strings.HasSuffix(name, "CERT_FILE") || strings.HasSuffix(name, "CERTS_FILE")
		if strings.HasSuffix(name, "_FILE") && !certificates && filepath.IsAbs(path) {
			out = append(out, path)
		}
	}
	return out
}

// installation is the mark of this data directory on containers. It is made at
// random, once: of two first runs at the same time the second takes the mark of the first.
func installation(dataDir string) (string, error) {
	name := filepath.Join(dataDir, "installation")
	mark, err := os.ReadFile(name) // #nosec G304 -- a file of our own
	if errors.Is(err, fs.ErrNotExist) {
		mark, err = makeMark(dataDir, name)
	}
	if err == nil && len(mark) == 0 {
		err = errors.New(name + " is empty; remove it")
	}
	if err != nil {
		return "", fmt.Errorf("mark this installation: %w", err)
	}
	return string(mark), nil
}

// makeMark puts a new mark at name, whole, and gives the one that stands there then.
func makeMark(dataDir, name string) ([]byte, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dataDir, "installation-")
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(strings.ToLower(rand.Text()))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(f.Name(), name)
	}
	err = errors.Join(err, os.Remove(f.Name()))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(name) // #nosec G304 -- a file of our own
}

// reach tries the endpoints of an agent that needs a key there.
func reach(ctx context.Context, backend agent.Backend, upstreams []gateway.Upstream) error {
	if len(backend.About().Keys) == 0 {
		return nil
	}
	for _, u := range upstreams {
		if err := u.Reach(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reap removes what earlier runs left with an engine.
func reap(ctx context.Context, box sandbox.Sandbox) error {
	reap := box.About().Reap
	if reap == nil {
		return nil
	}
	_, err := reap(ctx)
	return err
}

// gated says whether commands reach nothing but the gateway.
func (c *runCmd) gated() bool {
	return config.Place{Kind: c.Sandbox, LocalIsolation: c.LocalIsolation}.Gated()
}

// upstreams are the endpoints that the agent's requests go to, with the key of the
// environment, or with the person's own login.
func (c *runCmd) upstreams(backend agent.Backend) ([]gateway.Upstream, error) {
	if !c.UseLogin {
		if err := checkKey(backend, os.Getenv); err != nil {
			return nil, err
		}
		return upstreamsOf(backend, upstreamFrom(modelIn(os.Getenv)))
	}
	return upstreamsOf(backend, func(api run.Provider) (gateway.Upstream, error) {
		u, err := upstreamFrom(modelIn(os.Getenv))(api)
		if err != nil {
			return u, err
		}
		if u, err = loginOf(backend.About().Name, u, time.Now()); err == nil && u.Account != "" && c.gated() {
			err = &run.UserError{
				Message: "a ChatGPT login has no budgets that could be kept, which --sandbox docker and " +
					"--local-isolation bwrap promise",
				Hint: "use it with --sandbox local, or set OPENAI_API_KEY",
			}
		}
		return u, err
	})
}

// gateway says how the gateway is opened: for what has no network and no key, and on
// loopback for agents in the local sandbox, so that the key stays here and what the
// provider refuses is known at once. nil where the agent reaches its model by itself.
func (c *runCmd) gateway(
	backend agent.Backend, upstreams []gateway.Upstream, prices run.Prices, log func(error),
) (func(spend.Ledger) (*host.Gateway, func(), error), error) {
	cfg := gateway.Config{Upstreams: upstreams, Watch: newWatch()}
	gated := c.gated()
	switch {
	case !gated && len(c.Egress) > 0:
		return nil, &run.UserError{
			Message: "--egress needs --sandbox=docker or --local-isolation=bwrap",
			Hint:    "the local sandbox shares this host's whole network",
		}
	case !gated && (len(backend.About().Keys) == 0 || backend.About().HoldsCredential):
		return nil, nil //nolint:nilnil // no gateway is an answer
	case !gated:
		cfg.Unmetered = true
	case backend.About().HoldsCredential:
		return nil, &run.UserError{
			Message: fmt.Sprintf("the agent %s needs its own server and key, which --local-isolation=bwrap keeps "+
				"from agents", c.Agent),
			Hint: "use --local-isolation=auto, or another agent",
		}
	case len(upstreams)+len(c.Egress) == 0:
		return nil, nil //nolint:nilnil // likewise
	default:
		cfg.Egress = c.Egress
	}
	return func(ledger spend.Ledger) (*host.Gateway, func(), error) {
		return openGateway(cfg, ledger, prices, !gated, log)
	}, nil
}

// openGateway serves a gateway for one run, on loopback or on a socket, and gives how to
// close it. log is told of charges that cannot be written.
func openGateway(
	cfg gateway.Config, ledger spend.Ledger, prices run.Prices, loopback bool, log func(error),
) (*host.Gateway, func(), error) {
	key := []byte(rand.Text())
	cfg.Key, cfg.Meter = key, spend.NewMeter(ledger, prices)
	cfg.Meter.Log = func(err error) {
		log(fmt.Errorf("a charge cannot be written: under a budget the agent gets no answers until it is: %w", err))
	}
	handler, err := gateway.NewHandler(cfg)
	if err != nil {
		return nil, nil, err
	}
	gw := &host.Gateway{
		Token: func(start string) string { return gateway.Token(key, start) }, Meter: cfg.Meter,
		NoModels: len(cfg.Upstreams) == 0, Egress: cfg.Egress, Watch: cfg.Watch, Unmetered: cfg.Unmetered,
		ProxyToken: func(start string) string { return gateway.ProxyToken(key, start) },
	}
	var server *gateway.Server
	dir := ""
	if loopback {
		if server, err = gateway.ListenLoopback(handler); err != nil {
			return nil, nil, err
		}
		gw.BaseURL = server.BaseURL()
	} else {
		if dir, err = os.MkdirTemp("", "ralph-gw-"); err != nil {
			return nil, nil, fmt.Errorf("make a directory for the model proxy: %w", err)
		}
		if server, err = gateway.Listen(dir, handler); err != nil {
			return nil, nil, errors.Join(err, os.RemoveAll(dir))
		}
		gw.Dir = server.Dir()
	}
	closeAll := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Close(ctx) // the agents it served have ended
		if err := cfg.Meter.Close(context.Background()); err != nil {
			log(err)
		}
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
	return gw, closeAll, nil
}

// prices are the list prices with those of --price before them.
func (c *runCmd) prices() (run.Prices, error) {
	own := run.Prices{}
	for _, text := range c.Price {
		model, amounts, ok := strings.Cut(text, "=")
		price, err := run.ParsePrice(amounts)
		if !ok || model == "" {
			err = fmt.Errorf("%q has no model name", text)
		}
		if err != nil {
			return nil, &run.UserError{
				Message: "--price: " + err.Error(), Hint: "write MODEL=INPUT,OUTPUT in dollars per million tokens", Err: err,
			}
		}
		own[model] = price
	}
	return run.ListPrices().With(own), nil
}

// acpClientCmd speaks the Agent Client Protocol with an agent.
type acpClientCmd struct {
	Hello   bool   `help:"Only ask the agent for its name and version."`
	Command string `arg:"" help:"The agent's command line."`
}

// Run has the agent do what the prompt says.
func (c *acpClientCmd) Run(ctx bound, io stdio) error {
	return here(func(dir string) (int, error) {
		if c.Hello {
			return acp.Hello(ctx, c.Command, io.out, io.err, dir)
		}
		return acp.Run(ctx, c.Command, io.in, io.out, io.err, dir)
	})
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
	return here(func(dir string) (int, error) { return agent.RunScript(ctx, script, io.in, io.out, dir) })
}

// here works in the working directory, and ends with the exit code of the work.
func here(work func(dir string) (code int, err error)) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	code, err := work(dir)
	if err == nil && code != 0 {
		err = ended{code}
	}
	return err
}
