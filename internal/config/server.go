package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// The agents a server can run.
const (
	// AgentClaude is Claude Code, AgentCodex OpenAI's Codex, AgentGemini the
	// Gemini CLI, AgentOpencode opencode, AgentCopilot the GitHub Copilot CLI,
	// AgentAmp Amp.
	AgentClaude   = "claude"
	AgentCodex    = "codex"
	AgentGemini   = "gemini"
	AgentOpencode = "opencode"
	AgentCopilot  = "copilot"
	AgentAmp      = "amp"
	// AgentACP is any program that speaks the Agent Client Protocol.
	AgentACP = "acp"
	// AgentCommand is any program that reads a prompt.
	AgentCommand = "command"
	// AgentScript replays a YAML of steps; for demonstrations and tests.
	AgentScript = "script"
)

// Agents are the names of all of them.
func Agents() []string {
	return []string{AgentClaude, AgentCodex, AgentGemini, AgentOpencode, AgentCopilot, AgentAmp, AgentACP, AgentCommand,
		AgentScript}
}

// The kinds of sandbox.
const (
	SandboxDocker = "docker"
	SandboxLocal  = "local"
)

// The environment variables that carry secrets. Each has a twin with the
// suffix _FILE that names a file to read the secret from; setting both is an
// error.
const (
	EnvPrivateKey    = "RALPH_APP_PRIVATE_KEY"
	EnvWebhookSecret = "RALPH_WEBHOOK_SECRET"    //nolint:gosec // G101: the name of a variable, not a secret
	EnvAPIKey        = "ANTHROPIC_API_KEY"       //nolint:gosec // G101: the name of a variable, not a secret
	EnvAuthToken     = "CLAUDE_CODE_OAUTH_TOKEN" //nolint:gosec // G101: the name of a variable, not a secret
	EnvOpenAIKey     = "OPENAI_API_KEY"          //nolint:gosec // G101: the name of a variable, not a secret
	EnvGeminiKey     = "GEMINI_API_KEY"
)

// Server is the operator's configuration of bot serve.
type Server struct {
	// Listen is the address the webhook endpoint listens on.
	Listen string
	// MetricsListen is the address that figures are read from, "" for none.
	MetricsListen string
	GitHub        GitHub
	// DataDir holds the database, mirrors and work trees; an absolute path.
	DataDir string
	// Private are the paths that are nobody's but the operator's: the
	// configuration's file and directory, and the files that hold secrets.
	Private []string
	// Label is the label that starts a run.
	Label string
	// Welcome has the first issue of each repository explain what will happen.
	Welcome bool
	Agent   Agent
	Model   Model
	Sandbox Sandbox
	// AllowLocalSandbox is the operator's word that agents may run on this host
	// without a container.
	AllowLocalSandbox bool
	// Limits bound every run; a repository can only tighten them.
	Limits run.Limits
	// Concurrency bounds how many agents and checks are at work at once.
	Concurrency Concurrency
	Budgets     Budgets
	// Egress are the hosts that agents and gates may reach; a repository can only
	// narrow it. None means that they have no network at all.
	Egress egress.List
	People People
	// Gates are for repositories that name none; empty means: detect them.
	Gates       []Gate
	Transcripts Transcripts
	Notify      Notify
	Log         Log
}

// GitHub says which GitHub, and as which App.
type GitHub struct {
	// APIURL ends in a slash; GraphQLURL and WebURL do not.
	APIURL, GraphQLURL, WebURL string
	AppID                      int64
	// PrivateKey is the App's key in PEM.
	PrivateKey Secret
	// PullRequestsOf are the logins of other bots whose pull requests are gone on with as if
	// they were the App's own.
	PullRequestsOf []string
	// WebhookSecrets are all accepted, so that no webhook is refused while one is replaced.
	WebhookSecrets []Secret
}

// botPattern is what GitHub makes of the name of an App.
var botPattern = strs.Lazy(`^[A-Za-z0-9][A-Za-z0-9-]{0,99}\[bot\]$`)

// BotLogin says whether a login is that of an App: nobody else's has brackets.
func BotLogin(login string) bool { return botPattern().MatchString(login) }

// Agent says which coding agent works.
type Agent struct {
	Name  string
	Model string
	// ScriptFile is the script of AgentScript.
	ScriptFile string
	// Path is the agent's program; "" looks it up in PATH.
	Path string
	// Command is the command line of AgentACP and AgentCommand.
	Command string
}

// Model is the endpoint of the language model, which only the gateway talks
// to. Where both credentials are set the API key is used.
type Model struct {
	BaseURL   string
	APIKey    Secret
	AuthToken Secret
	// OpenAIBaseURL and GoogleBaseURL are the endpoints of agents that speak those
	// APIs, OpenAIKey and GeminiKey their keys.
	OpenAIBaseURL, GoogleBaseURL string
	OpenAIKey, GeminiKey         Secret
	// AuthHeader is the header that the credential is sent in, "" for the API's own.
	AuthHeader string
	// Allowed are the models that may be used, by name or by a pattern that ends
	// in *; none means all.
	Allowed []string
	// Prices go before the list prices.
	Prices run.Prices
}

// Budgets bound what many runs cost together, in dollars; 0 means no bound.
type Budgets struct {
	// IssueUSD is for all runs of one issue, RepositoryDayUSD for all runs of a
	// repository on one day (UTC).
	IssueUSD, RepositoryDayUSD float64
}

// Sandbox says what agents and gates run in.
type Sandbox struct {
	Kind  string
	Image string
	// LocalIsolation says whether the local sandbox uses bubblewrap: auto, bwrap
	// or none.
	LocalIsolation string
	// Show are files and directories that commands in the local sandbox may read.
	Show []string
	// Memory is in bytes.
	Memory int64
	// CPUs counts cores and may be a fraction.
	CPUs float64
	// PIDs bounds processes and threads together.
	PIDs int64
	// Disk, in bytes, and Files bound a work tree with its caches.
	Disk, Files int64
	// Caches, in bytes, bounds what set-up commands made for all repositories.
	Caches int64
}

// Transcripts says how long the words of agents are kept, and how much of them.
type Transcripts struct {
	// Keep is the time after a run's last one, MaxBytes what all of them may take.
	Keep     time.Duration
	MaxBytes int64
}

// Log says what is logged, and how.
type Log struct {
	// Level is trace, debug, info, warn or error.
	Level string
	// Format is json or console.
	Format string
}

// serverFile is the file as it is written.
type serverFile struct {
	Listen string `yaml:"listen"`

	MetricsListen string `yaml:"metrics_listen"`

	GitHub struct {
		APIURL            string   `yaml:"api_url"`
		GraphQLURL        string   `yaml:"graphql_url"`
		WebURL            string   `yaml:"web_url"`
		AppID             whole    `yaml:"app_id"`
		PrivateKeyFile    string   `yaml:"private_key_file"`
		WebhookSecretFile string   `yaml:"webhook_secret_file"`
		PullRequestsOf    []string `yaml:"pull_requests_of"`
	} `yaml:"github"`
	DataDir string `yaml:"data_dir"`
	Label   string `yaml:"label"`

	Welcome bool      `yaml:"welcome"`
	Agent   agentFile `yaml:"agent"`
	Model   struct {
		BaseURL       string      `yaml:"base_url"`
		OpenAIBaseURL string      `yaml:"openai_base_url"`
		GoogleBaseURL string      `yaml:"google_base_url"`
		AuthHeader    string      `yaml:"auth_header"`
		Allowed       []string    `yaml:"allowed"`
		Prices        []priceFile `yaml:"prices"`
	} `yaml:"model"`
	Sandbox struct {
		Kind  string `yaml:"kind"`
		Image string `yaml:"image"`

		Memory bytesize `yaml:"memory"`
		CPUs   float64  `yaml:"cpus"`
		PIDs   whole    `yaml:"pids"`
		Disk   bytesize `yaml:"disk"`
		Files  whole    `yaml:"files"`
		Caches bytesize `yaml:"caches"`

		LocalIsolation string   `yaml:"local_isolation"`
		Show           []string `yaml:"show"`
	} `yaml:"sandbox"`
	AllowLocalSandbox bool             `yaml:"allow_local_sandbox"`
	Limits            serverLimitsFile `yaml:"limits"`
	Budgets           struct {
		IssueUSD         *float64 `yaml:"issue_usd"`
		RepositoryDayUSD *float64 `yaml:"repository_day_usd"`
	} `yaml:"budgets"`
	Egress struct {
		Allow []string `yaml:"allow"`
	} `yaml:"egress"`
	People peopleFile `yaml:"people"`
	Notify notifyFile `yaml:"notify"`
	Gates  []gateFile `yaml:"gates"`

	Transcripts struct {
		Keep    duration `yaml:"keep"`
		MaxSize bytesize `yaml:"max_size"`
	} `yaml:"transcripts"`
	Log struct {
		Level  string `yaml:"level"`
		Format string `yaml:"format"`
	} `yaml:"log"`
}

// agentFile says which agent works, in a file.
type agentFile struct {
	Name       string `yaml:"name"`
	Model      string `yaml:"model"`
	ScriptFile string `yaml:"script_file"`
	Path       string `yaml:"path"`
	Command    string `yaml:"command"`
}

// agent is what f says; dir is what its paths are relative to.
func (f agentFile) agent(dir string) Agent {
	return Agent{
		Name: f.Name, Model: f.Model, ScriptFile: within(dir, f.ScriptFile), Path: within(dir, f.Path), Command: f.Command,
	}
}

// isolations are what the local sandbox may be told of bubblewrap.
func isolations() []string { return []string{"auto", "bwrap", "none"} }

// maxKeep bounds how long transcripts are kept.
const maxKeep = 10 * 365 * 24 * time.Hour

// DefaultServer is the configuration of a file that says nothing. It does not
// pass Validate: App, key and secret have no default.
func DefaultServer() Server {
	return Server{
		Listen: "127.0.0.1:8080",
		GitHub: GitHub{
			APIURL:     "https://api.github.com/",
			GraphQLURL: "https://api.github.com/graphql",
			WebURL:     "https://github.com",
		},
		DataDir: "/var/lib/ralph",
		Label:   "ralph",

		Welcome: true,
		Agent:   Agent{Name: AgentClaude},
		Model: Model{
			BaseURL: "https://api.anthropic.com", OpenAIBaseURL: "https://api.openai.com/v1",
			GoogleBaseURL: "https://generativelanguage.googleapis.com",
		},
		Sandbox: Sandbox{
			Kind: SandboxDocker, LocalIsolation: "auto", Memory: 4 << 30, CPUs: 2, PIDs: 512,
			Disk: 10 << 30, Files: 1_000_000, Caches: 20 << 30,
		},
		Limits: run.Limits{Parallel: 2}.WithDefaults(run.DefaultLimits()),
		People: DefaultPeople(),

		Concurrency: Concurrency{Repository: 2},

		Log: Log{Level: "info", Format: "json"},

		Transcripts: DefaultTranscripts(),
		Notify:      Notify{Every: defaultNotifyEvery},
	}
}

// DefaultTranscripts is how transcripts are kept where nothing else is said.
func DefaultTranscripts() Transcripts {
	return Transcripts{Keep: 30 * 24 * time.Hour, MaxBytes: 1 << 30}
}

// LoadServer reads the file at path and the secrets from the environment,
// checks everything and returns the whole. Relative paths in the file are
// relative to the file. Every error is a *run.UserError that names all the
// problems found.
func LoadServer(path string, env func(string) (string, bool), readFile func(string) ([]byte, error)) (Server, error) {
	source, err := readFile(path)
	if err != nil {
		hint := "see docs/configuration.md for an example"
		if errors.Is(err, fs.ErrNotExist) {
			hint = "pass the file with --config, or create one with ralph-bot setup; " + hint
		}
		return Server{}, &run.UserError{Message: "cannot read the configuration: " + err.Error(), Hint: hint, Err: err}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return Server{}, fmt.Errorf("resolve %s: %w", path, err)
	}
	s, f, problems := parseServer(source, filepath.Dir(abs))
	if len(problems) > 0 {
		return Server{}, problemsError(path, problems)
	}
	src := secrets{env: env, readFile: readFile}
	dir := filepath.Dir(abs)
	s.GitHub.PrivateKey = src.one(EnvPrivateKey, "github.private_key_file", within(dir, f.GitHub.PrivateKeyFile))
	s.GitHub.WebhookSecrets = src.many(EnvWebhookSecret, "github.webhook_secret_file",
		within(dir, f.GitHub.WebhookSecretFile))
	s.Model.APIKey = src.one(EnvAPIKey, "", "")
	s.Model.AuthToken = src.one(EnvAuthToken, "", "")
	s.Model.OpenAIKey = src.one(EnvOpenAIKey, "", "")
	s.Model.GeminiKey = src.one(EnvGeminiKey, "", "")
	for i, file := range f.Notify.Targets {
		t, name := &s.Notify.Targets[i], strings.ToUpper(file.Name)
		t.URL = src.one(EnvNotifyURL+name, "notify.targets[].url_file", within(dir, file.URLFile))
		t.Secret = src.one(EnvNotifySecret+name, "notify.targets[].secret_file", within(dir, file.SecretFile))
	}
	if src.err != nil {
		return Server{}, src.err
	}
	s.Private = append([]string{abs, dir}, src.files...)
	if err := s.Validate(); err != nil {
		return Server{}, err
	}
	return s, nil
}

// Database is the path of the database's file.
func (s Server) Database() string { return filepath.Join(s.DataDir, DatabaseFile) }

// DatabaseFile is the name of the database's file in a server's data directory.
const DatabaseFile = "ralph.db"

// ReadServer is what the file at path says, without secrets and what is checked with them:
// enough to find the server's data. Every error is a *run.UserError.
func ReadServer(path string, readFile func(string) ([]byte, error)) (Server, error) {
	source, err := readFile(path)
	if err != nil {
		return Server{}, &run.UserError{
			Message: "cannot read the server's configuration: " + err.Error(), Hint: "name the file with --config", Err: err,
		}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return Server{}, fmt.Errorf("resolve %s: %w", path, err)
	}
	s, _, problems := parseServer(source, filepath.Dir(abs))
	if len(problems) > 0 {
		return Server{}, problemsError(path, problems)
	}
	return s, nil
}

// parseServer reads the file's own values; secrets and the checks that need
// them come after.
func parseServer(source []byte, dir string) (Server, serverFile, []Problem) {
	d := DefaultServer()
	var f serverFile
	f.Listen, f.DataDir, f.Label, f.Welcome = d.Listen, d.DataDir, d.Label, d.Welcome
	f.GitHub.APIURL, f.GitHub.GraphQLURL, f.GitHub.WebURL = d.GitHub.APIURL, d.GitHub.GraphQLURL, d.GitHub.WebURL
	f.Agent.Name, f.Model.BaseURL = d.Agent.Name, d.Model.BaseURL
	f.Sandbox.Kind, f.Sandbox.Memory, f.Sandbox.CPUs, f.Sandbox.PIDs = d.Sandbox.Kind, bytesize(d.Sandbox.Memory),
		d.Sandbox.CPUs, whole(d.Sandbox.PIDs)
	f.Sandbox.LocalIsolation = d.Sandbox.LocalIsolation
	f.Sandbox.Disk, f.Sandbox.Files, f.Sandbox.Caches = bytesize(d.Sandbox.Disk), whole(d.Sandbox.Files),
		bytesize(d.Sandbox.Caches)
	f.Model.OpenAIBaseURL, f.Model.GoogleBaseURL = d.Model.OpenAIBaseURL, d.Model.GoogleBaseURL
	f.Log.Level, f.Log.Format = d.Log.Level, d.Log.Format
	f.Notify.Every = whole(d.Notify.Every)
	f.Transcripts.Keep, f.Transcripts.MaxSize = duration(d.Transcripts.Keep), bytesize(d.Transcripts.MaxBytes)

	doc, problems := decode(source, &f)
	if len(problems) > 0 {
		return Server{}, f, problems
	}
	report := func(path, format string, args ...any) {
		problems = append(problems, doc.problem(path, fmt.Sprintf(format, args...)))
	}
	s := Server{
		Listen: f.Listen, MetricsListen: f.MetricsListen,
		GitHub: GitHub{
			APIURL:     strings.TrimRight(f.GitHub.APIURL, "/") + "/",
			GraphQLURL: strings.TrimRight(f.GitHub.GraphQLURL, "/"), PullRequestsOf: f.GitHub.PullRequestsOf,
			WebURL: strings.TrimRight(f.GitHub.WebURL, "/"),
			AppID:  int64(f.GitHub.AppID),
		},
		DataDir: within(dir, f.DataDir),
		Label:   f.Label,

		Welcome: f.Welcome,
		Agent:   f.Agent.agent(dir),
		Model: Model{
			BaseURL:       strings.TrimRight(f.Model.BaseURL, "/"),
			OpenAIBaseURL: strings.TrimRight(f.Model.OpenAIBaseURL, "/"),
			GoogleBaseURL: strings.TrimRight(f.Model.GoogleBaseURL, "/"),
			AuthHeader:    f.Model.AuthHeader,
			Allowed:       f.Model.Allowed,
			Prices:        prices(f.Model.Prices, report),
		},
		Sandbox: Sandbox{
			Kind: f.Sandbox.Kind, Image: f.Sandbox.Image,
			LocalIsolation: f.Sandbox.LocalIsolation, Show: allWithin(dir, f.Sandbox.Show), Memory: int64(f.Sandbox.Memory),
			CPUs: f.Sandbox.CPUs, PIDs: int64(f.Sandbox.PIDs),
			Disk: int64(f.Sandbox.Disk), Files: int64(f.Sandbox.Files), Caches: int64(f.Sandbox.Caches),
		},
		AllowLocalSandbox: f.AllowLocalSandbox,
		Limits:            limits(f.Limits.Run, report).WithDefaults(d.Limits),
		Concurrency:       f.Limits.concurrency(d.Concurrency, report),
		Budgets: Budgets{
			IssueUSD:         budget("$.budgets.issue_usd", f.Budgets.IssueUSD, report),
			RepositoryDayUSD: budget("$.budgets.repository_day_usd", f.Budgets.RepositoryDayUSD, report),
		},
		Egress: f.Egress.Allow,
		People: people(f.People, report),
		Gates:  gates(f.Gates, report),
		Log:    Log{Level: f.Log.Level, Format: f.Log.Format},

		Notify:      notify(f.Notify, dir, report),
		Transcripts: Transcripts{Keep: time.Duration(f.Transcripts.Keep), MaxBytes: int64(f.Transcripts.MaxSize)},
	}
	s.check(report)
	return s, f, problems
}

// Validate refuses a configuration that is incomplete or unsafe, as a
// *run.UserError that names every problem. It is for a Server made in code as
// well as for one that was read.
func (s Server) Validate() error {
	var problems []Problem
	report := func(path, format string, args ...any) {
		var doc *document
		problems = append(problems, doc.problem(path, fmt.Sprintf(format, args...)))
	}
	s.check(report)
	s.checkSecrets(report)
	if len(problems) == 0 {
		return nil
	}
	return problemsError("", problems)
}

// check looks at everything but the secrets.
func (s Server) check(report reporter) {
	if _, port, err := net.SplitHostPort(s.Listen); err != nil || port == "" {
		report("$.listen", "%q is not an address; write it like 127.0.0.1:8080 or :8080", clip(s.Listen))
	}
	if s.MetricsListen != "" {
		if _, port, err := net.SplitHostPort(s.MetricsListen); err != nil || port == "" {
			report("$.metrics_listen", "%q is not an address; write it like 127.0.0.1:9464", clip(s.MetricsListen))
		}
	}
	checkURL("$.github.api_url", s.GitHub.APIURL, report)
	checkURL("$.github.graphql_url", s.GitHub.GraphQLURL, report)
	for i, login := range s.GitHub.PullRequestsOf {
		if !BotLogin(login) {
			report(fmt.Sprintf("$.github.pull_requests_of[%d]", i), "%q is not the login of a bot, which ends in [bot]",
				clip(login))
		}
	}
	checkURL("$.github.web_url", s.GitHub.WebURL, report)
	checkURL("$.model.base_url", s.Model.BaseURL, report)
	checkURL("$.model.openai_base_url", s.Model.OpenAIBaseURL, report)
	checkURL("$.model.google_base_url", s.Model.GoogleBaseURL, report)
	if s.Model.AuthHeader != "" && !headerPattern().MatchString(s.Model.AuthHeader) {
		report("$.model.auth_header", "%q is not the name of a header", clip(s.Model.AuthHeader))
	}
	for i, pattern := range s.Model.Allowed {
		if pattern != "*" && !run.IsModelName(strings.TrimSuffix(pattern, "*")) {
			report(fmt.Sprintf("$.model.allowed[%d]", i), "%q is neither the name of a model nor the beginning of one with a *",
				clip(pattern))
		}
	}
	if s.GitHub.AppID <= 0 {
		report("$.github.app_id", "must be the App's id, the number on its settings page")
	}
	if s.DataDir == "" {
		report("$.data_dir", "must name a directory")
	}
	// GitHub refuses label names over 50 characters.
	if n := utf8.RuneCountInString(s.Label); n == 0 || n > 50 || !printable(s.Label) {
		report("$.label", "must be 1 to 50 printable characters")
	}
	switch s.Agent.Name {
	case AgentClaude, AgentCodex, AgentGemini:
	case AgentOpencode, AgentCopilot:
		if s.Agent.Model == "" && (s.Agent.Name == AgentOpencode || s.Sandbox.Gated()) {
			report("$.agent.model", "the agent %s needs the name of a model", s.Agent.Name)
		}
	case AgentAmp:
		if s.Sandbox.Gated() {
			report("$.agent.name", "amp needs its own server and key, which this sandbox keeps from agents")
		}
	case AgentACP, AgentCommand:
		if s.Agent.Command == "" {
			report("$.agent.command", "the agent %s needs a command line", s.Agent.Name)
		}
	case AgentScript:
		if s.Agent.ScriptFile == "" {
			report("$.agent.script_file", "the scripted agent needs a script")
		}
	default:
		report("$.agent.name", "%q is not an agent; use one of %s", clip(s.Agent.Name), strings.Join(Agents(), ", "))
	}
	if s.Agent.Model != "" && !run.IsModelName(s.Agent.Model) {
		report("$.agent.model", "%q does not look like the name of a model", clip(s.Agent.Model))
	}
	s.Sandbox.check(s.AllowLocalSandbox, report)
	hosts(s.Egress, report)
	if !s.Sandbox.Gated() && len(s.Egress) > 0 {
		report("$.egress.allow", "the local sandbox shares this host's whole network; set sandbox.local_isolation: bwrap")
	}
	if s.Transcripts.Keep < time.Hour || s.Transcripts.Keep > maxKeep {
		report("$.transcripts.keep", "must be between 1h and %s", short(maxKeep))
	}
	if s.Transcripts.MaxBytes < 1<<20 {
		report("$.transcripts.max_size", "must be at least 1m")
	}
	if !slices.Contains([]string{"trace", "debug", "info", "warn", "error"}, s.Log.Level) {
		report("$.log.level", "%q is not a level; use trace, debug, info, warn or error", clip(s.Log.Level))
	}
	if !slices.Contains([]string{"json", "console"}, s.Log.Format) {
		report("$.log.format", "%q is not a format; use json or console", clip(s.Log.Format))
	}
}

// Gated says whether commands reach nothing but the gateway.
func (s Sandbox) Gated() bool {
	return s.Kind == SandboxDocker || s.Kind == SandboxLocal && s.LocalIsolation == "bwrap"
}

func (s Sandbox) check(allowLocal bool, report reporter) {
	switch s.Kind {
	case SandboxDocker:
		switch {
		case s.Image == "":
			report("$.sandbox.image", "the docker sandbox needs an image with the agent's tools in it")
		case !IsImage(s.Image):
			report("$.sandbox.image", "%q does not look like the reference of an image", clip(s.Image))
		}
	case SandboxLocal:
		if !allowLocal {
			report("$.sandbox.kind", "in a local sandbox, agents can do whatever the server's user can do on this "+
				"host; set allow_local_sandbox: true to allow that")
		}
	default:
		report("$.sandbox.kind", "%q is not a sandbox; use %s or %s", clip(s.Kind), SandboxDocker, SandboxLocal)
	}
	if !slices.Contains(isolations(), s.LocalIsolation) {
		report("$.sandbox.local_isolation", "%q is not an isolation; use auto, bwrap or none", clip(s.LocalIsolation))
	}
	// Docker itself refuses less than 6 MiB; an agent needs far more.
	if s.Memory < 64<<20 {
		report("$.sandbox.memory", "must be at least 64m")
	}
	if !(s.CPUs >= 0.1 && s.CPUs <= 1024) {
		report("$.sandbox.cpus", "must be between 0.1 and 1024")
	}
	if s.PIDs < 16 || s.PIDs > 1<<22 {
		report("$.sandbox.pids", "must be between 16 and %d", 1<<22)
	}
	if s.Disk < 16<<20 {
		report("$.sandbox.disk", "must be at least 16m")
	}
	if s.Files < 1000 {
		report("$.sandbox.files", "must be at least 1000")
	}
}

func (s Server) checkSecrets(report reporter) {
	if s.GitHub.PrivateKey.Empty() {
		report("$.github.private_key_file", "the App's private key is missing; set its file here or set %s", EnvPrivateKey)
	} else if !strings.Contains(s.GitHub.PrivateKey.Reveal(), "PRIVATE KEY-----") {
		report("$.github.private_key_file", "the value is not a private key in PEM format")
	}
	// Without a secret anybody could post events; go-githubapp would accept them.
	if len(s.GitHub.WebhookSecrets) == 0 || slices.Contains(s.GitHub.WebhookSecrets, "") {
		report("$.github.webhook_secret_file", "the webhook secret is missing; set %s to the secret of the App's "+
			"settings page", EnvWebhookSecret)
	}
	s.Notify.check(report)
	switch s.Agent.Name {
	case AgentClaude:
		if s.Model.APIKey.Empty() && s.Model.AuthToken.Empty() {
			report("$.model", "the model has no credential; set %s or %s", EnvAPIKey, EnvAuthToken)
		}
	case AgentCodex, AgentOpencode, AgentCopilot:
		// Copilot has an account of its own, which it may use on this host.
		if s.Model.OpenAIKey.Empty() && (s.Agent.Name != AgentCopilot || s.Sandbox.Gated()) {
			report("$.model", "the model has no credential; set %s", EnvOpenAIKey)
		}
	case AgentGemini:
		if s.Model.GeminiKey.Empty() {
			report("$.model", "the model has no credential; set %s", EnvGeminiKey)
		}
	}
}

// checkURL wants https, or http on this host, because keys travel along.
func checkURL(path, raw string, report reporter) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		report(path, "%q is not a URL like https://example.com", clip(raw))
	case u.User != nil:
		report(path, "a URL with a user name or password is not allowed")
	case u.RawQuery != "" || u.Fragment != "":
		report(path, "a URL with a query or fragment is not allowed")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		report(path, "plain http would send credentials unencrypted; use https")
	}
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// within resolves path against dir; "" stays "".
func within(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func allWithin(dir string, paths []string) []string {
	var out []string
	for _, path := range paths {
		out = append(out, within(dir, path))
	}
	return out
}

// problemsError folds problems into one error for a person.
func problemsError(path string, problems []Problem) error {
	var b strings.Builder
	for i, p := range problems {
		if i > 0 {
			b.WriteString("\n")
		}
		switch {
		case path != "" && p.Line > 0:
			fmt.Fprintf(&b, "%s:%s", path, p)
		case path != "":
			fmt.Fprintf(&b, "%s: %s", path, p)
		default:
			fmt.Fprintf(&b, "configuration: %s", p)
		}
		if p.Excerpt != "" {
			b.WriteString("\n    " + strings.ReplaceAll(p.Excerpt, "\n", "\n    "))
		}
	}
	return &run.UserError{Message: b.String(), Hint: "see docs/configuration.md"}
}
