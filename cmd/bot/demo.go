package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

//go:embed demo/repo.txtar demo/issue.md demo/script.yaml
var demoFiles embed.FS

// demoCmd is `bot demo`.
type demoCmd struct {
	JSON bool `name:"json" help:"Print one JSON document on stdout at the end."`
	Keep bool `help:"Keep the simulated GitHub running at the end, so you can look at its pages; stop it with Ctrl-C."`
	Logs bool `help:"Also show the App's log."`

	sandboxFlags
}

// The people and places of the demonstration.
const (
	demoPerson = "ada"
	demoRepo   = "textkit"
	demoTitle  = "Let scripts ask textkit for JSON"
)

// Run plays the whole story: a GitHub on loopback, the App serving it, an
// issue that gets its label, and the pull request that comes of it.
func (c *demoCmd) Run(ctx bound, io stdio) error {
	if c.Sandbox == config.SandboxLocal {
		if _, err := proc.Look("go"); err != nil {
			return &run.UserError{
				Message: "the demo runs go vet and go test, but Go is not installed",
				Hint:    "install Go, or use --sandbox docker with an image that has it",
			}
		}
	}
	dir, err := os.MkdirTemp("", "ralph-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demonstration: %w", err)
	}
	screen := newLive(io.err, time.Now, environmentMask())
	d, err := c.stage(ctx, dir, io, screen)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	defer d.clear(io.err)
	s, err := d.play(ctx)
	screen.close()
	if err != nil {
		return err
	}
	if err := d.show(io.out, s, c.JSON); err != nil {
		return err
	}
	if c.Keep && s.PullRequest != nil && ctx.Err() == nil {
		fmt.Fprintf(io.err, "\nThe pages are at %s until you press Ctrl-C.\n", s.PullRequest.URL)
		<-ctx.Done()
		return nil
	}
	return exitOf(ctx, s.End)
}

// demo is the stage: everything that is running.
type demo struct {
	dir    string
	sim    *ghsim.Sim
	app    *app
	ended  chan struct{}
	stop   context.CancelFunc
	served chan error
	say    func(format string, args ...any)
	repo   ghsim.Repo
	issue  ghsim.Issue
	// keep: the pages stay up at the end.
	keep bool
}

// stage sets up the GitHub and the App, as an operator would.
func (c *demoCmd) stage(ctx context.Context, dir string, io stdio, screen *live) (_ *demo, err error) {
	d := &demo{dir: dir, keep: c.Keep, ended: make(chan struct{}), served: make(chan error, 1)}
	d.say = func(format string, args ...any) {
		screen.handle(run.Event{Kind: run.EventPersonNotified, Text: fmt.Sprintf(format, args...)})
	}
	simDir, dataDir, script := filepath.Join(dir, "github"), filepath.Join(dir, "data"), filepath.Join(dir, "script.yaml")
	if err := os.Mkdir(simDir, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", simDir, err)
	}
	source, err := demoFiles.ReadFile("demo/script.yaml")
	if err == nil {
		// Readable for the agent in a container, who is another user.
		err = os.WriteFile(script, source, 0o644) //nolint:gosec // G306: no secret, and in a directory of our own
	}
	if err != nil {
		return nil, fmt.Errorf("write the script: %w", err)
	}
	d.sim, err = ghsim.New(ghsim.Options{Dir: simDir, Wrap: io.wrap})
	if err != nil {
		return nil, err
	}
	url, err := d.sim.Start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.sim.Close(context.WithoutCancel(ctx)))
		}
	}()
	registered, err := d.populate()
	if err != nil {
		return nil, err
	}

	cfg := config.DefaultServer()
	cfg.GitHub = config.GitHub{
		APIURL: url + "/api/v3/", GraphQLURL: url + "/api/graphql", WebURL: url, AppID: registered.ID,
		PrivateKey:     config.Secret(registered.PrivateKeyPEM),
		WebhookSecrets: []config.Secret{config.Secret(registered.WebhookSecret)},
	}
	cfg.DataDir = dataDir
	cfg.Agent = config.Agent{Name: config.AgentScript, ScriptFile: script}
	cfg.Sandbox.Kind, cfg.Sandbox.Image, cfg.Sandbox.LocalIsolation = c.Sandbox, c.Image, c.LocalIsolation
	cfg.Sandbox.Show, cfg.AllowLocalSandbox = c.Show, true
	log := zerolog.Nop()
	if c.Logs {
		log = newLogger(config.Log{Level: "debug", Format: "console"}, io.err)
	}
	d.app, err = newApp(ctx, cfg, log, observers{watch: func(ev run.Event) {
		screen.handle(ev)
		if ev.Kind == run.EventRunEnded {
			close(d.ended)
		}
	}})
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), d.app.close())
	}
	if err := d.sim.SetHook(registered.ID, "http://"+l.Addr().String()+handlers.DefaultPath, ""); err != nil {
		return nil, errors.Join(err, l.Close(), d.app.close())
	}
	// The stage outlives an interruption by a moment, to be cleared in order.
	serveCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	go func() { d.served <- d.app.serve(serveCtx, l) }()
	return d, nil
}

// populate makes a person, a repository and an App that is installed on it.
func (d *demo) populate() (ghsim.App, error) {
	if _, err := d.sim.CreateUser(demoPerson); err != nil {
		return ghsim.App{}, err
	}
	source, err := demoFiles.ReadFile("demo/repo.txtar")
	if err != nil {
		return ghsim.App{}, fmt.Errorf("read the repository: %w", err)
	}
	files := map[string]string{}
	for _, f := range txtar.Parse(source).Files {
		files[f.Name] = string(f.Data)
	}
	if d.repo, err = d.sim.CreateRepo(demoPerson, demoRepo, ghsim.RepoOptions{Files: files}); err != nil {
		return ghsim.App{}, err
	}
	registered, err := d.sim.CreateApp(ghsim.AppOptions{
		Slug: "ralph-bot", Permissions: ghapp.Permissions(), Events: handlers.Subscriptions(),
	})
	if err != nil {
		return ghsim.App{}, err
	}
	_, err = d.sim.Install(registered.ID, demoPerson+"/"+demoRepo)
	return registered, err
}

// play puts the label on an issue and waits for the end of the run.
func (d *demo) play(ctx context.Context) (loop.State, error) {
	body, err := demoFiles.ReadFile("demo/issue.md")
	if err != nil {
		return loop.State{}, fmt.Errorf("read the issue: %w", err)
	}
	if d.issue, err = d.sim.CreateIssue(demoPerson, demoRepo, demoPerson, demoTitle, string(body)); err != nil {
		return loop.State{}, err
	}
	d.say("A simulated GitHub, the App and a scripted agent, all on this machine. The second task fails at first, on purpose.")
	d.say("%s writes issue #%d and labels it ralph: %s", demoPerson, d.issue.Number, d.issue.URL)
	if err := d.sim.AddLabel(demoPerson, demoRepo, d.issue.Number, demoPerson, "ralph"); err != nil {
		return loop.State{}, err
	}
	select {
	case <-d.ended:
	case err := <-d.served:
		d.served <- err
		return loop.State{}, fmt.Errorf("the App stopped: %w", err)
	case <-ctx.Done():
		if err := d.cancel(); err != nil {
			return loop.State{}, err
		}
	}
	return d.final(context.WithoutCancel(ctx))
}

// cancel stops the run as taking the label off would, and waits for its end, so
// that nothing is left running.
func (d *demo) cancel() error {
	if err := d.sim.RemoveLabel(demoPerson, demoRepo, d.issue.Number, demoPerson, "ralph"); err != nil {
		return err
	}
	patience := time.NewTimer(20 * time.Second)
	defer patience.Stop()
	select {
	case <-d.ended:
		return nil
	case <-patience.C:
		return errors.New("the run did not stop in time")
	}
}

// final is the state as it was saved at the end, a moment after it was told.
func (d *demo) final(ctx context.Context) (loop.State, error) {
	saved := time.NewTicker(5 * time.Millisecond)
	defer saved.Stop()
	for {
		row, err := d.app.store.LatestRunByIssue(ctx, d.repo.NodeID, d.issue.Number)
		if err != nil {
			return loop.State{}, err
		}
		if row.Phase.Terminal() {
			return loop.Decode(row.State)
		}
		select {
		case <-saved.C:
		case <-ctx.Done():
			return loop.State{}, context.Cause(ctx)
		}
	}
}

// show prints the pull request as it stands on the simulated GitHub.
func (d *demo) show(w io.Writer, s loop.State, asJSON bool) error {
	r, err := newResult(s)
	if err != nil {
		return err
	}
	calls := d.app.github.Calls()
	r.Issue = &issueResult{Number: d.issue.Number, URL: d.issue.URL}
	r.APICalls = &callsResult{REST: calls.REST, GraphQL: calls.GraphQL, ByPurpose: calls.ByPurpose}
	if s.PullRequest == nil {
		if asJSON {
			err = printJSON(w, r)
		}
		if s.End != run.EndCancelled {
			err = errors.Join(errors.New("the run ended without a pull request"), err)
		}
		return err
	}
	pr, err := d.sim.PR(demoPerson, demoRepo, s.PullRequest.Number)
	if err != nil {
		return err
	}
	r.PullRequest = &pullResult{Number: pr.Number, URL: pr.URL, Draft: pr.Draft, Body: pr.Body}
	if r.PullRequest.CheckRun, err = d.checkRun(pr.HeadOID); err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, r)
	}
	fmt.Fprint(w, readable(pr))
	if c := r.PullRequest.CheckRun; c != nil {
		fmt.Fprintf(w, "\nCheck run %s on %.7s, %s: %s.\n", c.Name, c.SHA, c.Conclusion, c.Title)
	}
	if !d.keep {
		fmt.Fprintf(w, "\nTo see the pages in a browser: %s demo --keep.\n", quoted(os.Args[0]))
	}
	fmt.Fprintf(w, "\nTo work on your own repository: %s run PLAN.md\n", quoted(os.Args[0]))
	return nil
}

// checkRun is the last check run on a commit, nil for none.
func (d *demo) checkRun(oid string) (*checkRunResult, error) {
	all, err := d.sim.CheckRuns(demoPerson, demoRepo)
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Backward(all) {
		if c.HeadOID == oid {
			return &checkRunResult{SHA: oid, Name: c.Name, Status: c.Status, Conclusion: c.Conclusion, Title: c.Title}, nil
		}
	}
	return nil, nil //nolint:nilnil // none is no error
}

// clear takes the stage down.
func (d *demo) clear(w io.Writer) {
	d.stop()
	err := <-d.served
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = errors.Join(err, d.sim.Close(ctx), os.RemoveAll(d.dir))
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(w, calledAs()+": clearing up after the demonstration:", err)
	}
}

var hidden = regexp.MustCompile(`(?s)<!--.*?-->\n?|</?(details|summary)>|\x{200b}`)

// readable is a pull request for a terminal: its Markdown, less what a browser would not show either.
func readable(pr ghsim.PR) string {
	state := "open"
	if pr.Draft {
		state = "draft"
	}
	rule := strings.Repeat("─", 78)
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n#%d  %s   (%s)\n%s wants to merge %s into %s from %s\n%s\n%s\n%s\n", rule, pr.Number, pr.Title, state,
		pr.User, strs.Count(len(pr.Commits), "commit"), pr.Base, pr.Head, rule,
		strings.TrimSpace(hidden.ReplaceAllString(pr.Body, "")), rule)
	for _, c := range pr.Commits {
		mark := "Unverified"
		if c.Verified {
			mark = "Verified"
		}
		fmt.Fprintf(&b, "%.7s  %-10s  %s\n", c.OID, mark, c.Subject)
	}
	return b.String()
}
