package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/ghaction"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	eventjob "github.com/org/ralph-action/internal/job"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/notify"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/review"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/store"
)

// actionCmd is `bot action`: a step of a GitHub Actions workflow. What it is
// asked for comes from the environment; see action.yml.
type actionCmd struct{}

// jobDeadline leaves half an hour of the six that a job on GitHub's runners may
// take, to end in order.
const jobDeadline = 5*time.Hour + 30*time.Minute

// imageRepository is where releases put the image for sandboxes.
const imageRepository = "ghcr.io/org/ralph-agent"

// Run works the event of the job, or finishes what an earlier step left.
func (c *actionCmd) Run(ctx bound, io stdio) error {
	log := ghaction.NewLog(io.out)
	defer log.Close()
	step := &actionStep{log: log, onSave: io.onSave}
	result, err := step.run(ctx)
	if err == nil {
		if err = step.tell(result); err == nil && step.end == "" {
			return nil
		}
		if err == nil {
			return exitOf(ctx, step.end)
		}
	}
	// What went wrong may be in anybody's words: it must not reach the runner
	// but through the log.
	code := run.ExitFailed
	title, hint := "Ralph failed", ""
	if user, ok := errors.AsType[*run.UserError](err); ok {
		code, title, hint = run.ExitUsage, "Ralph cannot start", "\n→ "+user.Hint
		err = errors.New(user.Message)
	}
	detail := step.masked(err.Error() + hint)
	log.Error(title, detail)
	told := step.tell(ghaction.Result{End: ghaction.EndUnusable, Detail: detail})
	if told != nil {
		log.Line("%v", told)
	}
	return ended{code}
}

// actionStep is one step of a job.
type actionStep struct {
	log    *ghaction.Log
	env    ghaction.Env
	in     ghaction.Inputs
	onSave func(saved bool)
	mask   func(string) string
	// transcripts is where the agents' are kept, masked.
	transcripts *transcript.Store
	// end is that of the run, "" where there was none.
	end run.EndReason
}

func (a *actionStep) masked(s string) string {
	if a.mask == nil {
		return s
	}
	return a.mask(s)
}

// tell writes what the runner and people read after the step.
func (a *actionStep) tell(r ghaction.Result) error {
	if a.in.Mode == ghaction.ModeFinish && r.End == ghaction.EndNothing {
		return nil // the step before has told how it ended
	}
	return errors.Join(ghaction.WriteOutputs(a.env.Output, r.Outputs()), ghaction.WriteSummary(a.env.Summary, r.Summary()))
}

func (a *actionStep) run(ctx context.Context) (ghaction.Result, error) {
	var err error
	a.in, err = ghaction.ReadInputs(os.Getenv)
	for _, secret := range a.in.Secrets() {
		a.log.Mask(secret)
	}
	env, envErr := ghaction.ReadEnv(os.Getenv)
	if envErr != nil {
		return ghaction.Result{}, envErr
	}
	a.env = env
	if err != nil {
		return ghaction.Result{}, err
	}
	if a.in.Mode == ghaction.ModeFinish {
		a.in, err = a.in.Kept(a.inputsFile())
		if errors.Is(err, fs.ErrNotExist) {
			return ghaction.Result{End: ghaction.EndNothing, Detail: "No step of this job has started a run."}, nil
		}
		if err != nil {
			return ghaction.Result{}, err
		}
	}
	event, err := ghaction.ReadEvent(a.env)
	if err != nil {
		return ghaction.Result{}, err
	}
	if err := a.in.CheckSandbox(event.Private); err != nil {
		return ghaction.Result{}, err
	}
	if err := a.takeOver(ctx); err != nil {
		return ghaction.Result{}, err
	}
	if a.in.Mode == ghaction.ModeFind {
		return a.find(ctx, event)
	}
	cfg, err := a.config()
	if err != nil {
		return ghaction.Result{}, err
	}
	return a.work(ctx, cfg, event)
}

// takeOver leaves no credential in the checkout.
func (a *actionStep) takeOver(ctx context.Context) error {
	dir := a.env.Workspace
	if a.in.WorkingDirectory != "" {
		if !filepath.IsLocal(a.in.WorkingDirectory) {
			return &run.UserError{
				Message: "working_directory leaves the workspace",
				Hint:    "name a directory in the workspace, where the repository is checked out",
			}
		}
		dir = filepath.Join(dir, a.in.WorkingDirectory)
	}
	removed, err := ghaction.TakeOver(ctx, dir, a.env.Temp)
	if err != nil {
		return err
	}
	if len(removed) > 0 {
		a.log.Line("taken out of the checkout's git configuration: %s", strings.Join(removed, ", "))
	}
	return nil
}

// dir is where the job keeps what the steps of it share. The runner clears it
// after the job.
func (a *actionStep) dir() string { return filepath.Join(a.env.Temp, "ralph") }

// inputsFile is where a step leaves its inputs for one that finishes it.
func (a *actionStep) inputsFile() string { return filepath.Join(a.dir(), "inputs.json") }

// doorConfig is what of the configuration says how GitHub is reached and what
// belongs to the bot there.
func (a *actionStep) doorConfig() config.Server {
	cfg := config.DefaultServer()
	cfg.DataDir = a.dir()
	cfg.GitHub.APIURL = cmp.Or(a.env.APIURL, cfg.GitHub.APIURL)
	cfg.GitHub.GraphQLURL = a.env.GraphQLURL
	cfg.GitHub.WebURL = cmp.Or(a.env.ServerURL, cfg.GitHub.WebURL)
	cfg.Label = cmp.Or(a.in.Label, cfg.Label)
	return cfg
}

// gitHub is how a job speaks to GitHub.
func (a *actionStep) gitHub(cfg config.Server) ghapp.Config {
	return ghapp.Config{
		APIURL: cfg.GitHub.APIURL, GraphQLURL: cfg.GitHub.GraphQLURL, WebURL: cfg.GitHub.WebURL, Token: a.in.GitHubToken,
		Kin: a.in.PullRequestsOf, UserAgent: "ralph-action",
	}
}

// config is the configuration of a server that would do the same.
func (a *actionStep) config() (config.Server, error) {
	in, cfg := a.in, a.doorConfig()
	cfg.Agent.Name, cfg.Agent.Model = cmp.Or(in.Agent, cfg.Agent.Name), in.Model
	switch cfg.Agent.Name {
	case config.AgentScript:
		cfg.Agent.ScriptFile = in.AgentProgram
	case config.AgentACP, config.AgentCommand:
		cfg.Agent.Command = in.AgentProgram
	default:
		cfg.Agent.Path = in.AgentProgram
	}
	cfg.Model.BaseURL = cmp.Or(in.AnthropicBaseURL, cfg.Model.BaseURL)
	cfg.Model.OpenAIBaseURL = cmp.Or(in.OpenAIBaseURL, cfg.Model.OpenAIBaseURL)
	cfg.Model.GoogleBaseURL = cmp.Or(in.GoogleBaseURL, cfg.Model.GoogleBaseURL)
	cfg.Model.APIKey, cfg.Model.AuthToken = config.Secret(in.AnthropicAPIKey), config.Secret(in.ClaudeCodeOAuthToken)
	cfg.Model.OpenAIKey, cfg.Model.GeminiKey = config.Secret(in.OpenAIKey), config.Secret(in.GeminiKey)
	cfg.Sandbox.Kind, cfg.Sandbox.Image = in.Sandbox, in.Image
	cfg.AllowLocalSandbox = true // whether it may be is checked with the event
	v, _ := versionOf()
	if release, ok := strings.CutPrefix(v, "v"); ok && in.Image == "" && !strings.ContainsAny(release, "-+") {
		cfg.Sandbox.Image = imageRepository + ":" + release
	}
	if cfg.Sandbox.Kind == config.SandboxDocker && cfg.Sandbox.Image == "" {
		return cfg, &run.UserError{
			Message: "the sandbox has no image", Hint: "set image under `with:`; it must contain the tools your checks need",
		}
	}
	limits := config.DefaultServer().Limits
	limits.RunTimeout = jobDeadline
	cfg.Limits = in.Limits.WithDefaults(limits)
	cfg.Budgets.IssueUSD = in.IssueUSD
	for _, command := range in.Gates {
		cfg.Gates = append(cfg.Gates, config.Gate{Run: command})
	}
	for _, entry := range in.Egress {
		if err := egress.Check(entry); err != nil {
			return cfg, &run.UserError{
				Message: "egress: " + err.Error(), Hint: "give a host or a preset on each line; see docs/agents.md",
			}
		}
	}
	if err := a.checkKin(); err != nil {
		return cfg, err
	}
	if cfg.Egress = in.Egress; len(cfg.Egress) > 0 && cfg.Sandbox.Kind == config.SandboxLocal {
		return cfg, &run.UserError{
			Message: "egress is for `sandbox: docker`", Hint: "the local sandbox shares the runner's whole network",
		}
	}
	return cfg, errors.Join(a.checkEndpoint(), a.checkKey(cfg))
}

func (a *actionStep) checkKin() error {
	for _, login := range a.in.PullRequestsOf {
		if !config.BotLogin(login) {
			return &run.UserError{
				Message: fmt.Sprintf("pull_requests_of: %q is not the login of a bot", login),
				Hint:    "give the login of the App with its brackets, such as my-app[bot]",
			}
		}
	}
	return nil
}

// checkEndpoint refuses what agents do with credentials of a cloud: they get none,
// and the gateway in their place signs no requests.
func (a *actionStep) checkEndpoint() error {
	for name, cloud := range map[string]string{
		"CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock", "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI",
	} {
		if v := os.Getenv(name); v != "" && v != "0" && v != "false" {
			return &run.UserError{
				Message: name + " is set: models of " + cloud +
					" cannot be used by its own protocol, whose requests are signed with credentials that agents do not get",
				Hint: "put a gateway in front that speaks the Anthropic API, such as LiteLLM, name it as " +
					"anthropic_base_url, its key as anthropic_api_key, and take the variable away",
			}
		}
	}
	return nil
}

// checkKey says what is missing before a run is begun that cannot get far.
func (a *actionStep) checkKey(cfg config.Server) error {
	if cfg.Sandbox.Kind != config.SandboxDocker || a.in.Mode == ghaction.ModeFinish {
		return nil
	}
	backend, err := agent.Lookup(cfg.Agent.Name, agentOptions(cfg, os.Args[0]))
	if err != nil {
		return err
	}
	apis := backend.About().Providers
	if len(apis) != 1 {
		return nil // it needs none, or whichever there is
	}
	has := map[run.Provider]bool{
		run.ProviderAnthropic: a.in.AnthropicAPIKey != "" || a.in.ClaudeCodeOAuthToken != "",
		run.ProviderOpenAI:    a.in.OpenAIKey != "",
		run.ProviderGoogle:    a.in.GeminiKey != "",
	}
	name := map[run.Provider]string{
		run.ProviderAnthropic: "anthropic_api_key", run.ProviderOpenAI: "openai_api_key",
		run.ProviderGoogle: "gemini_api_key",
	}
	if p := apis[0]; !has[p] {
		return &run.UserError{
			Message: "the model's key is missing: " + name[p] + " is empty",
			Hint: fmt.Sprintf("add the key to the repository's secrets and pass it on: `%s: ${{ secrets.%s }}`", name[p],
				strings.ToUpper(name[p])),
		}
	}
	return nil
}

// work has the event worked, and the run that comes of it.
func (a *actionStep) work(ctx context.Context, cfg config.Server, event ghaction.Event) (ghaction.Result, error) {
	// Messages on the issue are for people; this is for who debugs a workflow.
	to := targets(a.in.Notify, a.in.NotifySecret, a.in.NotifyOn)
	secrets := append(notifySecrets(to), a.in.GitHubToken)
	mask := serverMask(cfg, secrets...)
	logger := newLogger(config.Log{Level: "warn", Format: "console"}, maskedWriter{a.log, mask})
	ctx = logger.WithContext(ctx)
	screen := newLive(a.log, time.Now, mask)
	defer screen.close()
	notifier, err := newNotifier(notify.Config{Targets: to}, mask,
		func(target string, err error) { a.log.Warning("Notification to "+target, err.Error()) })
	if err != nil {
		return ghaction.Result{}, err
	}
	defer closeNotifier(ctx, notifier, notifyGrace)
	p, err := newParts(ctx, cfg, a.gitHub(cfg), logger,
		observers{watch: both(notifier.Handle, a.show(screen, mask)), onSave: a.saves()}, secrets...)
	if err != nil {
		return ghaction.Result{}, err
	}
	a.mask = p.reconcile.Mask.Mask
	if a.in.Mode == ghaction.ModeFinish {
		p.reconcile.Models = nil // no agent is started any more
	} else if err := a.in.Keep(a.inputsFile()); err != nil {
		return ghaction.Result{}, errors.Join(err, p.close())
	}
	p.reconcile.OnOwnerDeath = sandbox.KillWithOwner
	p.reconcile.Base, p.reconcile.ConfigPath = a.in.BaseBranch, a.in.ConfigPath
	p.reconcile.NeedsApproval, p.reconcile.OpenReady = a.in.PlanApproval, a.in.OpenReady
	a.transcripts = p.reconcile.Transcripts
	j := eventjob.New(p.deliveries, p.reconcile)
	result, err := a.drive(ctx, j, p.github.Repo(ghaction.Installation, a.env.Owner, a.env.Repo), event, cfg)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if closeErr := errors.Join(j.Close(grace), p.close()); closeErr != nil {
		logger.Warn().Err(closeErr).Msg("clearing up failed")
	}
	return result, err
}

func (a *actionStep) saves() func(run.ID, bool) {
	if a.onSave == nil {
		return nil
	}
	return func(_ run.ID, saved bool) { a.onSave(saved) }
}

// show tells in the log how the run goes, each iteration in a group. The runner knows
// the secrets that the step has told it, as they are; the masker knows more.
func (a *actionStep) show(screen *live, mask *redact.Masker) func(run.Event) {
	return func(ev run.Event) {
		switch ev.Kind {
		case run.EventIteration:
			a.log.Group(mask.Mask(fmt.Sprintf("Iteration %d: %s %s", ev.Iteration, ev.TaskID, ev.TaskTitle)))
		case run.EventAgentActivity:
			a.log.Line("    · %s", mask.Mask(ev.Text))
		case run.EventRunEnded:
			a.log.EndGroup()
		}
		screen.handle(ev)
	}
}

func (a *actionStep) drive(
	ctx context.Context, j *eventjob.Job, repo *ghapp.Repo, event ghaction.Event, cfg config.Server,
) (ghaction.Result, error) {
	left, err := j.Active(ctx)
	if err != nil {
		return ghaction.Result{}, err
	}
	if a.in.Mode == ghaction.ModeFinish {
		return a.finish(ctx, j, left)
	}
	if a.in.DryRun {
		return a.rehearse(ctx, repo, event, cfg)
	}
	if len(left) == 0 {
		outcome, err := a.deliver(ctx, j, repo, event, cfg)
		if err != nil {
			return ghaction.Result{}, err
		}
		if outcome == delivery.OutcomeRefused {
			return a.refused(event), nil
		}
		if left, err = j.Active(ctx); err != nil {
			return ghaction.Result{}, err
		}
		if len(left) == 0 {
			return a.nothing(outcome), nil
		}
	}
	s, err := j.Drive(ctx, left[0])
	if err != nil {
		return ghaction.Result{}, err
	}
	return a.result(s)
}

// refused is how a step ends whose event was made by somebody who may not.
func (a *actionStep) refused(event ghaction.Event) ghaction.Result {
	detail := fmt.Sprintf("%s cannot start a run, which requires write access to the repository. The issue says so, too.",
		cmp.Or(event.Sender, "Whoever asked"))
	a.log.Warning("Ralph did not start", detail)
	return ghaction.Result{End: ghaction.EndRefused, Detail: detail}
}

// nothing is how a step ends that had nothing to do; outcome says why.
func (a *actionStep) nothing(outcome string) ghaction.Result {
	a.log.Notice("Ralph", "nothing to do for this event: "+outcome)
	return ghaction.Result{End: ghaction.EndNothing, Detail: outcome}
}

// finish ends what an earlier step of the job left, as a person's cancellation
// would.
func (a *actionStep) finish(ctx context.Context, j *eventjob.Job, left []run.ID) (ghaction.Result, error) {
	if len(left) == 0 {
		return ghaction.Result{End: ghaction.EndNothing, Detail: "The run of this job has ended."}, nil
	}
	if err := j.Cancel(ctx, left[0], "the workflow run was cancelled, or its runner gave up"); err != nil {
		return ghaction.Result{}, err
	}
	s, err := j.Drive(ctx, left[0])
	if err != nil {
		return ghaction.Result{}, err
	}
	return a.result(s)
}

// deliver works the event, or the wish for one issue that the workflow names, and
// waits until it is known whether there is a run to come of it.
func (a *actionStep) deliver(
	ctx context.Context, j *eventjob.Job, repo *ghapp.Repo, event ghaction.Event, cfg config.Server,
) (outcome string, err error) {
	var earlier, events []ghaction.Event
	switch {
	case event.Name == ghaction.Schedule:
		return j.Sweep(ctx, ghaction.Installation, a.env.Owner, a.env.Repo, a.in.Issue)
	case event.Review != 0 && a.in.Issue == 0:
		earlier, events, err = a.reviewed(ctx, repo, event)
	default:
		event, err = a.asked(ctx, repo, event, cfg)
		events = []ghaction.Event{event}
	}
	if err != nil {
		return "", err
	}
	for i, event := range earlier {
		if err := j.ReadAlong(ctx, deliveryOf(fmt.Sprintf("earlier-%d", i+1), event)); err != nil {
			return "", err
		}
	}
	for i, event := range events {
		became, err := j.Deliver(ctx, deliveryOf(fmt.Sprintf("job-%d", i+1), event))
		if err != nil {
			return "", err
		}
		if i == 0 {
			outcome = became
		}
	}
	return outcome, j.Settle(ctx)
}

// deliveryOf is the event as a webhook would bring it.
func deliveryOf(guid string, event ghaction.Event) store.Delivery {
	return store.Delivery{
		GUID: guid, Event: event.Name, Action: event.Action, Installation: ghaction.Installation, RepoNode: event.RepoNode,
		Body: event.Payload, ReceivedAt: time.Now(),
	}
}

// asked is the event to work: the job's, or that of a label on the issue that
// the workflow names.
func (a *actionStep) asked(
	ctx context.Context, repo *ghapp.Repo, event ghaction.Event, cfg config.Server,
) (ghaction.Event, error) {
	if a.in.Issue == 0 || a.in.Issue == event.Issue {
		return event, nil
	}
	payload, err := a.labelled(ctx, repo, event, cfg.Label)
	event.Name, event.Action, event.Issue, event.Payload = "issues", "labeled", a.in.Issue, payload
	return event, err
}

// rehearse says what would be done, and does nothing.
func (a *actionStep) rehearse(
	ctx context.Context, repo *ghapp.Repo, event ghaction.Event, cfg config.Server,
) (ghaction.Result, error) {
	event, err := a.asked(ctx, repo, event, cfg)
	if err != nil {
		return ghaction.Result{}, err
	}
	intent, err := (&handlers.Decoder{Label: cfg.Label}).Decode(event.Name, event.Payload)
	if err != nil {
		return ghaction.Result{}, err
	}
	var start handlers.Subject
	var title, body string
	switch in := intent.(type) {
	case handlers.StartIntent:
		start, title, body = in.Subject, in.Title, in.Body
	case handlers.CommandIntent:
		if in.Issue == 0 || in.Command.Verb != review.VerbStart && in.Command.Verb != review.VerbPlan {
			return ghaction.Result{
				End:    ghaction.EndNothing,
				Detail: "Dry run: of all commands, it supports only `/ralph start` and `/ralph plan` on an issue.",
			}, nil
		}
		start, title, body = in.Subject, in.Text.Title, in.Text.Body
	default:
		detail := "Dry run: the event would not start a run."
		if event.Name == ghaction.Schedule || event.Review != 0 {
			detail = "Dry run: it supports labels, commands and named issues, but not schedules and reviews."
		}
		return ghaction.Result{End: ghaction.EndNothing, Detail: detail}, nil
	}
	may, err := repo.Permission(ghapp.WithPurpose(ctx, "authorise"), start.SenderLogin)
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
		return ghaction.Result{}, err
	}
	if !may.CanWrite {
		return ghaction.Result{
			End:    ghaction.EndRefused,
			Detail: start.SenderLogin + " cannot start a run, which requires write access to the repository.",
		}, nil
	}
	p, err := plan.FromIssue(title, body)
	if err != nil {
		return ghaction.Result{}, &run.UserError{
			Message: "cannot work on the issue: " + err.Error(), Hint: "describe in it what should change", Err: err,
		}
	}
	lines := []string{
		fmt.Sprintf("Dry run: the bot would work on %s in a %s sandbox, on %s.", p.Title, cfg.Sandbox.Kind,
			run.Branch(start.Issue)),
	}
	for _, t := range p.Tasks {
		lines = append(lines, "- "+t.Title)
	}
	if len(p.Tasks) == 0 {
		lines = append(lines, "The agent would write the tasks first.")
	}
	return ghaction.Result{End: ghaction.EndNothing, Detail: a.masked(strings.Join(lines, "\n"))}, nil
}

// labelled is the event of the label being put on the issue that the workflow
// names, by who started it. The label is put on, if they may start runs: it is
// what taking it off stops.
func (a *actionStep) labelled(
	ctx context.Context, repo *ghapp.Repo, event ghaction.Event, label string,
) ([]byte, error) {
	if event.Sender == "" || event.RepoNode == "" {
		return nil, &run.UserError{
			Message: "no person requested work on the issue: the event " + event.Name + " has no human sender",
			Hint:    "start the workflow manually (workflow_dispatch) or with a label",
		}
	}
	ctx = ghapp.WithPurpose(ctx, "start")
	may, err := repo.Permission(ctx, event.Sender)
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
		return nil, err
	}
	if may.CanWrite && !a.in.DryRun {
		if err := repo.AddLabels(ctx, a.in.Issue, label); err != nil {
			return nil, err
		}
	}
	issue, err := repo.Issue(ctx, a.in.Issue)
	if errors.Is(err, ghapp.ErrNotFound) {
		return nil, &run.UserError{
			Message: fmt.Sprintf("there is no issue #%d", a.in.Issue), Hint: "set issue to another number", Err: err,
		}
	}
	if err != nil {
		return nil, err
	}
	if issue.IsPR {
		return nil, &run.UserError{Message: fmt.Sprintf("#%d is a pull request", a.in.Issue), Hint: "set issue to an issue"}
	}
	payload, err := json.Marshal(object{
		"action": "labeled", "label": object{"name": label},
		"issue": object{
			"number": issue.Number, "node_id": issue.NodeID, "title": issue.Title, "body": issue.Body, "state": issue.State,
			"html_url": issue.URL, "updated_at": time.Now().UTC().Format(time.RFC3339),
		},
		"repository": object{
			"node_id": event.RepoNode, "name": a.env.Repo, "private": event.Private, "default_branch": event.DefaultBranch,
			"owner": object{"login": a.env.Owner},
		},
		"installation": object{"id": ghaction.Installation},
		"sender":       object{"login": event.Sender, "id": event.SenderID, "type": "User"},
	})
	if err != nil {
		return nil, fmt.Errorf("describe the issue: %w", err)
	}
	return payload, nil
}

// result is how the run ended, for the runner.
func (a *actionStep) result(s loop.State) (ghaction.Result, error) {
	a.end = s.End
	number, err := strconv.Atoi(s.Subject.Slug)
	if err != nil {
		return ghaction.Result{}, fmt.Errorf("read the issue of run %s: %w", s.Run, err)
	}
	r := ghaction.Result{
		End: string(s.End), Proof: s.Proof(), Issue: number,
		Detail: a.masked(strings.Join(append([]string{s.EndDetail}, s.Questions...), "\n")),
		Branch: s.Branch, Head: s.Head, Iterations: s.Iterations(), CostUSD: s.Usage.CostUSD,
		Transcript: transcriptPath(a.transcripts, s.Run),
	}
	if s.Progress != "" {
		doc, err := progress.Parse([]byte(s.Progress))
		if err != nil {
			return r, fmt.Errorf("read the progress of run %s: %w", s.Run, err)
		}
		r.Done, r.Total = progress.Counts(doc.Tasks())
	}
	if s.PullRequest != nil {
		r.PRNumber, r.PRURL, r.Story = s.PullRequest.Number, s.PullRequest.URL, a.masked(s.PullRequest.Body)
	}
	if !s.End.Complete() {
		a.log.Warning("Ralph: "+s.End.Sentence(), r.Detail)
	}
	return r, nil
}
