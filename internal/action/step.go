package action

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/reconcile"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/store"
)

// jobDeadline leaves half an hour of the six that a job on GitHub's runners may take, to end in
// order.
const jobDeadline = 5*time.Hour + 30*time.Minute

// Program is what the program brings to a step: how a configuration becomes what works runs, and
// how they are shown.
type Program struct {
	Out io.Writer
	// Self is the program itself, Image the release's image for sandboxes, "" where it is none.
	Self, Image string
	// Engine is made of a configuration; see Engine.
	Engine func(ctx context.Context, cfg config.Server, gitHub ghapp.Config, log zerolog.Logger, watch func(run.Event),
		secrets ...string) (Engine, error)
	// Screen shows the events of a run on w, masked, until it is closed.
	Screen func(w io.Writer, mask *redact.Masker) (show func(run.Event), done func())
	// OnSave is told before and after each state is stored; nil in the program itself.
	OnSave func(saved bool)
}

// Engine is what works events and runs.
type Engine struct {
	GitHub     *ghapp.App
	Deliveries delivery.Config
	Runs       reconcile.Config
	Close      func() error
}

// step is one step of a job.
type step struct {
	Program

	log  *Log
	env  environment
	in   Inputs
	mask *redact.Masker
	// transcripts is where the agents' are, masked.
	transcripts *transcript.Store
	// end is that of the run, "" where there was none.
	end run.EndReason
}

// Run works the event of the job as its mode says. end is that of the run, "" where there was
// none. What went wrong has been said where people look: code is then the exit code, and 0 where
// nothing did.
func Run(ctx context.Context, p Program) (end run.EndReason, code int) {
	s := &step{Program: p, log: NewLog(p.Out), mask: redact.New()}
	defer s.log.Close()
	result, err := s.run(ctx)
	if err == nil {
		err = s.tell(result)
	}
	if err == nil {
		return s.end, run.ExitComplete
	}
	// What went wrong may be in anybody's words: it must not reach the runner but through the log.
	code = run.ExitFailed
	title, hint := "Ralph failed", ""
	if user, ok := errors.AsType[*run.UserError](err); ok {
		code, title, hint = run.ExitUsage, "Ralph cannot start", "\n→ "+user.Hint
		err = errors.New(user.Message)
	}
	detail := s.mask.Mask(err.Error() + hint)
	s.log.Error(title, detail)
	if err := s.tell(Result{End: EndUnusable, Detail: detail}); err != nil {
		s.log.Line("%v", err)
	}
	return "", code
}

// tell writes what the runner and people read after the step.
func (s *step) tell(r Result) error {
	if s.in.Mode == modeFinish && r.End == EndNothing {
		return nil // the step before has told how it ended
	}
	err := writeOutputs(s.env.output, r.outputs())
	if r.End == EndQueued {
		return err // the job that works tells the rest
	}
	return errors.Join(err, writeSummary(s.env.summary, r.markdown()))
}

func (s *step) run(ctx context.Context) (Result, error) {
	var err error
	s.in, err = readInputs(os.Getenv)
	for _, secret := range s.in.secrets() {
		s.log.Mask(secret)
	}
	s.mask = redact.New(s.in.secrets()...)
	env, envErr := readEnvironment(os.Getenv)
	if envErr != nil {
		return Result{}, envErr
	}
	s.env = env
	if err != nil {
		return Result{}, err
	}
	if s.in.Mode == modeFinish {
		s.in, err = s.in.kept(s.inputsFile())
		if errors.Is(err, fs.ErrNotExist) {
			return Result{End: EndNothing, Detail: "No step of this job has started a run."}, nil
		}
		if err != nil {
			return Result{}, err
		}
	}
	ev, err := readEvent(s.env)
	if err != nil {
		return Result{}, err
	}
	ctx = s.logger().WithContext(ctx)
	if s.in.Mode == modeRoute {
		return s.route(ctx, ev)
	}
	if s.in.Mode == modeWork {
		if err := s.checkSandbox(ev.private); err != nil {
			return Result{}, err
		}
	}
	gh, err := ghapp.New(s.gitHub())
	if err != nil {
		return Result{}, err
	}
	cfg, err := s.config(ctx, gh.Repo(installation, s.env.owner, s.env.repo))
	if err != nil {
		return Result{}, err
	}
	return s.work(ctx, cfg, ev)
}

// logger is for who debugs a workflow; messages on the issue are for people.
func (s *step) logger() *zerolog.Logger {
	w := zerolog.ConsoleWriter{Out: maskingWriter{s}, TimeFormat: time.TimeOnly, NoColor: true}
	log := zerolog.New(w).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	return &log
}

type maskingWriter struct{ s *step }

// Write implements io.Writer: a logger writes whole lines.
func (w maskingWriter) Write(p []byte) (int, error) {
	w.s.log.Line("%s", w.s.mask.Mask(string(p)))
	return len(p), nil
}

// dir is where the job keeps what the steps of it share. The runner clears it after the job.
func (s *step) dir() string { return filepath.Join(s.env.temp, "ralph") }

// inputsFile is where a step leaves its inputs for one that finishes it.
func (s *step) inputsFile() string { return filepath.Join(s.dir(), "inputs.json") }

// label is the one that starts a run.
func (s *step) label() string { return cmp.Or(s.in.Label, config.DefaultServer().Label) }

// gitHub is how a job speaks to GitHub.
func (s *step) gitHub() ghapp.Config {
	defaults := config.DefaultServer().GitHub
	return ghapp.Config{
		APIURL: cmp.Or(s.env.apiURL, defaults.APIURL), GraphQLURL: s.env.graphQLURL,
		WebURL: cmp.Or(s.env.serverURL, defaults.WebURL), Token: s.in.GitHubToken, UserAgent: "ralph-action",
	}
}

// checkSandbox says with a *run.UserError that agents may not run where the workflow wants them
// to: in `local` they can reach what the job can.
func (s *step) checkSandbox(private bool) error {
	if s.in.Sandbox == config.SandboxDocker {
		return nil
	}
	if s.in.Sandbox == config.SandboxLocal && !private {
		return &run.UserError{
			Message: "sandbox: local on a public repository: text by strangers would steer an agent that can reach this " +
				"job's secrets and network",
			Hint: "leave sandbox at docker, or confirm with `sandbox: " + localOnPublic + "`",
		}
	}
	s.in.Sandbox = config.SandboxLocal
	file := filepath.Join(s.env.workspace, ".git", "config")
	b, err := os.ReadFile(file) //nolint:gosec // G304: of the checkout that the workflow made
	if errors.Is(err, syscall.ENOTDIR) {
		return &run.UserError{
			Message: "the workspace is a linked work tree or a submodule: whether its repository holds a credential, which agents in " +
				"`sandbox: local` could read, cannot be seen",
			Hint: "check the repository out by itself, or leave the checkout out: the action fetches the repository itself",
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the checkout: %w", err)
	}
	if credentialRE().Match(b) {
		return &run.UserError{
			Message: "the checkout in the workspace holds a credential, which agents in `sandbox: local` can read",
			Hint: "give actions/checkout `persist-credentials: false`, or leave the checkout out: the action fetches the " +
				"repository itself",
		}
	}
	return nil
}

// credentialRE finds in a repository's configuration what holds a credential or leads to one: headers of requests,
// helpers, other files, and addresses with a password or token.
var credentialRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)extraheader|\[\s*(include|credential)|https?://[^/\s"]+@`)
})

// config is the configuration of a server that would do the same. Whoever may change the
// repository's own file may change the workflow, too: its limits and hosts are the server's.
func (s *step) config(ctx context.Context, repo *ghapp.Repo) (config.Server, error) {
	cfg := config.DefaultServer()
	cfg.DataDir, cfg.Label = s.dir(), s.label()
	cfg.GitHub.APIURL, cfg.GitHub.GraphQLURL = s.gitHub().APIURL, s.env.graphQLURL
	cfg.GitHub.WebURL = s.gitHub().WebURL
	cfg.Agent.Name, cfg.Agent.Model = cmp.Or(s.in.Agent, cfg.Agent.Name), s.in.Model
	switch cfg.Agent.Name {
	case config.AgentScript:
		cfg.Agent.ScriptFile = s.in.AgentProgram
	case config.AgentACP, config.AgentCommand:
		cfg.Agent.Command = s.in.AgentProgram
	default:
		cfg.Agent.Path = s.in.AgentProgram
	}
	if base := s.in.BaseURL; base != "" {
		cfg.Model.BaseURL, cfg.Model.OpenAIBaseURL, cfg.Model.GoogleBaseURL = base, base, base
	}
	cfg.Model.APIKey, cfg.Model.AuthToken = config.Secret(s.in.AnthropicAPIKey), config.Secret(s.in.ClaudeCodeOAuthToken)
	cfg.Model.OpenAIKey, cfg.Model.GeminiKey = config.Secret(s.in.OpenAIAPIKey), config.Secret(s.in.GeminiAPIKey)
	cfg.Sandbox.Kind, cfg.Sandbox.Image = s.in.Sandbox, cmp.Or(s.in.Image, s.Image)
	cfg.AllowLocalSandbox = true
	cfg.Limits.RunTimeout = jobDeadline
	if s.in.Mode == modeFinish {
		return cfg, nil
	}
	if cfg.Sandbox.Kind == config.SandboxDocker {
		if cfg.Sandbox.Image == "" {
			return cfg, &run.UserError{
				Message: "the sandbox has no image", Hint: "set image under `with:`; it must contain the tools your checks need",
			}
		}
		if err := s.checkKey(cfg); err != nil {
			return cfg, err
		}
	}
	src, err := repo.File(ghapp.WithPurpose(ctx, "configuration"), config.RepoPath, config.MaxFileBytes)
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) && !errors.Is(err, ghapp.ErrTooLarge) {
		return cfg, err
	}
	own, problems := config.ParseRepo(src)
	if len(problems) > 0 {
		return cfg, nil // the run comes upon them, too, and tells people
	}
	cfg.Limits = own.Limits.WithDefaults(cfg.Limits)
	if cfg.Sandbox.Kind == config.SandboxDocker {
		cfg.Egress = own.Egress
	}
	return cfg, nil
}

// checkKey says what is missing before a run is begun that cannot get far.
func (s *step) checkKey(cfg config.Server) error {
	backend, err := agent.Lookup(cfg.Agent.Name, agent.Options{
		ScriptFile: cfg.Agent.ScriptFile, Self: s.Self, Path: cfg.Agent.Path, Command: cfg.Agent.Command,
	})
	if err != nil {
		return err
	}
	apis := backend.About().Providers
	if len(apis) != 1 {
		return nil // it needs none, or whichever there is
	}
	key, name := "", ""
	switch apis[0] {
	case run.ProviderAnthropic:
		key, name = s.in.AnthropicAPIKey+s.in.ClaudeCodeOAuthToken, "anthropic_api_key"
	case run.ProviderOpenAI:
		key, name = s.in.OpenAIAPIKey, "openai_api_key"
	case run.ProviderGoogle:
		key, name = s.in.GeminiAPIKey, "gemini_api_key"
	}
	if key != "" {
		return nil
	}
	return &run.UserError{
		Message: "the model's key is missing: " + name + " is empty",
		Hint: fmt.Sprintf("add the key to the repository's secrets and pass it on: `%s: ${{ secrets.%s }}`", name,
			strings.ToUpper(name)),
	}
}

// route says whose queue the event belongs to, for the job after this one, and settles what comes
// from people who may not, or must not wait. It has no agent, no sandbox, no git and no key: what
// strangers write comes no further than here.
func (s *step) route(ctx context.Context, ev event) (_ Result, err error) {
	if ev.issue != 0 { // GitHub lets only people with write access start workflows by hand
		return s.queued(ev.issue), nil
	}
	gh, err := ghapp.New(s.gitHub())
	if err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(s.dir(), 0o700); err != nil {
		return Result{}, fmt.Errorf("make a directory for the job: %w", err)
	}
	db, err := store.Open(ctx, filepath.Join(s.dir(), "route.db"))
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	receiver := delivery.New(delivery.Config{
		Store: db, GitHub: gh, Decoder: handlers.Decoder{Label: s.label()}, People: config.DefaultServer().People,
		Mask: s.mask, Now: time.Now,
	})
	issue, outcome := 0, ""
	err = retry(ctx, func() (err error) {
		issue, outcome, err = receiver.Route(ctx, ev.delivery("route"))
		return err
	})
	switch {
	case err != nil:
		return Result{}, err
	case issue != 0:
		return s.queued(issue), nil
	case outcome == delivery.OutcomeRefused:
		return s.refused(ev), nil
	default:
		return s.nothing(outcome), nil
	}
}

func (s *step) queued(issue int) Result {
	s.log.Line("a queued job for #%d handles this event", issue)
	return Result{End: EndQueued, Issue: issue}
}

// refused is how a step ends whose event was made by somebody who may not.
func (s *step) refused(ev event) Result {
	detail := fmt.Sprintf("%s cannot start or steer a run, which takes a person with write access to the repository.",
		cmp.Or(ev.login, "Whoever asked"))
	s.log.Warning("Ralph did not start", detail)
	return Result{End: EndRefused, Detail: detail}
}

// nothing is how a step ends that had nothing to do; outcome says why.
func (s *step) nothing(outcome string) Result {
	s.log.Notice("Ralph", "nothing to do for this event: "+outcome)
	return Result{End: EndNothing, Detail: outcome}
}

// work has the event worked, and the run that comes of it; or finishes the run that an earlier
// step has left.
func (s *step) work(ctx context.Context, cfg config.Server, ev event) (Result, error) {
	screen, done := s.Screen(s.log, s.mask)
	defer done()
	engine, err := s.Engine(ctx, cfg, s.gitHub(), *zerolog.Ctx(ctx), s.show(screen), s.in.secrets()...)
	if err != nil {
		return Result{}, err
	}
	if s.in.Mode == modeFinish {
		engine.Runs.Models = nil // no agent is started any more
	} else if err := s.in.keep(s.inputsFile()); err != nil {
		return Result{}, errors.Join(err, engine.Close())
	}
	if s.OnSave != nil {
		engine.Runs.OnSave = func(_ run.ID, saved bool) { s.OnSave(saved) }
	}
	engine.Runs.OnOwnerDeath = sandbox.KillWithOwner
	s.transcripts = engine.Runs.Transcripts
	j := newJob(engine.Deliveries, engine.Runs)
	result, err := s.drive(ctx, j, engine.GitHub.Repo(installation, s.env.owner, s.env.repo), ev)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if closeErr := errors.Join(j.close(grace), engine.Close()); closeErr != nil {
		zerolog.Ctx(ctx).Warn().Err(closeErr).Msg("clearing up failed")
	}
	return result, err
}

// show tells in the log how the run goes, each iteration in a group. The runner knows the secrets
// that the step has told it, as they are; the masker knows more.
func (s *step) show(screen func(run.Event)) func(run.Event) {
	return func(ev run.Event) {
		switch ev.Kind {
		case run.EventIteration:
			s.log.Group(s.mask.Mask(fmt.Sprintf("Iteration %d: %s %s", ev.Iteration, ev.TaskID, ev.TaskTitle)))
		case run.EventAgentActivity:
			s.log.Line("    · %s", s.mask.Mask(ev.Text))
		case run.EventRunEnded:
			s.log.EndGroup()
		}
		screen(ev)
	}
}

func (s *step) drive(ctx context.Context, j *job, repo *ghapp.Repo, ev event) (Result, error) {
	id, err := j.active(ctx)
	switch {
	case err != nil:
		return Result{}, err
	case s.in.Mode == modeFinish && id == "":
		return Result{End: EndNothing, Detail: "The run of this job has ended."}, nil
	case s.in.Mode == modeFinish:
		// As a person's cancellation would.
		if err := j.cancel(ctx, id, "the workflow run was cancelled, or its runner gave up"); err != nil {
			return Result{}, err
		}
	case id == "":
		outcome, err := s.deliver(ctx, j, repo, ev)
		if err != nil {
			return Result{}, err
		}
		switch id, err = j.active(ctx); {
		case err != nil:
			return Result{}, err
		case id == "" && outcome == delivery.OutcomeRefused:
			return s.refused(ev), nil
		case id == "":
			return s.nothing(outcome), nil
		}
	}
	state, err := j.drive(ctx, id)
	if err != nil {
		return Result{}, err
	}
	s.end = state.End
	result, err := resultOf(state, s.mask)
	if err != nil {
		return Result{}, err
	}
	if dir := s.transcripts.Dir(state.Run); isDir(dir) {
		result.Transcript = dir
	}
	if !state.End.Complete() {
		s.log.Warning("Ralph: "+state.End.Sentence(), result.Detail)
	}
	return result, nil
}

// deliver works the event, and waits until it is known whether there is a run to come of it.
func (s *step) deliver(ctx context.Context, j *job, repo *ghapp.Repo, ev event) (outcome string, err error) {
	switch {
	case ev.issue != 0:
		if ev, err = s.labelled(ctx, repo, ev); err != nil {
			return "", err
		}
	case ev.review != 0:
		if err := j.takeIn(ctx, repo, ev); err != nil {
			return "", err
		}
	}
	if outcome, err = j.deliver(ctx, "job", ev); err != nil {
		return "", err
	}
	return outcome, j.settle(ctx)
}

// labelled is the event of the label being put on the issue that a person names by hand. The
// label is put on, if they may start runs: it is what taking it off stops.
func (s *step) labelled(ctx context.Context, repo *ghapp.Repo, ev event) (event, error) {
	ctx = ghapp.WithPurpose(ctx, "start")
	may, err := repo.Permission(ctx, ev.login)
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
		return ev, err
	}
	issue, err := repo.Issue(ctx, ev.issue)
	if errors.Is(err, ghapp.ErrNotFound) || err == nil && issue.IsPR {
		return ev, &run.UserError{Message: fmt.Sprintf("#%d is not an issue", ev.issue), Hint: "name another number", Err: err}
	}
	if err != nil {
		return ev, err
	}
	if may.CanWrite {
		if err := repo.AddLabels(ctx, ev.issue, s.label()); err != nil {
			return ev, err
		}
	}
	return ev.as("issues", "labeled", object{
		"label": object{"name": s.label()},
		"issue": object{
			"number": issue.Number, "node_id": issue.NodeID, "title": issue.Title, "body": issue.Body, "state": issue.State,
			"html_url": issue.URL, "updated_at": time.Now().UTC().Format(time.RFC3339),
		},
	})
}
