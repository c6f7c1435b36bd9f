package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/run"
)

// The agents that the configuration itself tells from the others; agent.Lookup knows all.
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

// The kinds of sandbox.
const (
	SandboxDocker = "docker"
	SandboxLocal  = "local"
)

// The environment variables that carry secrets. Each has a twin with the
// suffix _FILE that names a file to read the secret from; setting both is an
// error. To the last two, of a target of notifications, its name in capitals is added.
const (
	EnvPrivateKey    = "RALPH_APP_PRIVATE_KEY"
	EnvWebhookSecret = "RALPH_WEBHOOK_SECRET"    //nolint:gosec // G101: the name of a variable, not a secret
	EnvAPIKey        = "ANTHROPIC_API_KEY"       //nolint:gosec // G101: the name of a variable, not a secret
	EnvAuthToken     = "CLAUDE_CODE_OAUTH_TOKEN" //nolint:gosec // G101: the name of a variable, not a secret
	EnvOpenAIKey     = "OPENAI_API_KEY"          //nolint:gosec // G101: the name of a variable, not a secret
	EnvGeminiKey     = "GEMINI_API_KEY"
	EnvNotifyURL     = "RALPH_NOTIFY_URL_"
	EnvNotifySecret  = "RALPH_NOTIFY_SECRET_"
)

// Server is the operator's configuration of bot serve.
type Server struct {
	// Listen is the address the webhook endpoint listens on.
	Listen string `yaml:"listen" is:"address"`
	// MetricsListen is the address that figures are read from, "" for none.
	MetricsListen string `yaml:"metrics_listen" is:"address"`
	GitHub        GitHub `yaml:"github"`
	// DataDir holds the database, mirrors and work trees; an absolute path.
	DataDir string `yaml:"data_dir" is:"file"`
	// Private are the paths that are nobody's but the operator's: the
	// configuration's file and directory, and the files that hold secrets.
	Private []string
	// Label is the label that starts a run.
	Label string `yaml:"label" is:"label"`
	// Welcome has the first issue of each repository explain what will happen.
	Welcome bool    `yaml:"welcome"`
	Agent   Agent   `yaml:"agent"`
	Model   Model   `yaml:"model"`
	Sandbox Sandbox `yaml:"sandbox"`
	// AllowLocalSandbox is the operator's word that agents may run on this host
	// without a container.
	AllowLocalSandbox bool `yaml:"allow_local_sandbox"`
	// Limits bound every run; a repository can only tighten them.
	Limits run.Limits `yaml:"limits"`
	// Concurrency bounds how many agents and checks are at work at once.
	Concurrency Concurrency `yaml:"limits"`
	Budgets     Budgets     `yaml:"budgets"`
	// Egress are the hosts that agents and gates may reach; a repository can only
	// narrow it. None means that they have no network at all.
	Egress egress.List `yaml:"egress.allow" is:"host"`
	People People      `yaml:"people"`
	// Gates are for repositories that name none; empty means: detect them.
	Gates       []Gate      `yaml:"gates"`
	Transcripts Transcripts `yaml:"transcripts"`
	Notify      Notify      `yaml:"notify"`
	Log         Log         `yaml:"log"`
}

// GitHub says which GitHub, and as which App.
type GitHub struct {
	// APIURL ends in a slash; GraphQLURL and WebURL do not.
	APIURL     string `yaml:"api_url" is:"url"`
	GraphQLURL string `yaml:"graphql_url" is:"url"`
	WebURL     string `yaml:"web_url" is:"url"`
	AppID      int64  `yaml:"app_id"`
	// PrivateKey is the App's key in PEM.
	PrivateKey     Secret
	PrivateKeyFile string `yaml:"private_key_file" is:"file"`
	// WebhookSecrets are all accepted, so that no webhook is refused while one is replaced.
	WebhookSecrets    []Secret
	WebhookSecretFile string `yaml:"webhook_secret_file" is:"file"`
	// PullRequestsOf are the logins of other bots whose pull requests are gone on with as if
	// they were the App's own.
	PullRequestsOf []string `yaml:"pull_requests_of" is:"bot"`
}

// Agent says which coding agent works.
type Agent struct {
	Name  string `yaml:"name" is:"claude|codex|gemini|opencode|copilot|amp|acp|command|script"`
	Model string `yaml:"model" is:"model"`
	// ScriptFile is the script of AgentScript.
	ScriptFile string `yaml:"script_file" is:"file"`
	// Path is the agent's program; "" looks it up in PATH.
	Path string `yaml:"path" is:"file"`
	// Command is the command line of AgentACP and AgentCommand.
	Command string `yaml:"command"`
}

// Model is the endpoint of the language model, which only the gateway talks
// to. Where both credentials are set the API key is used.
type Model struct {
	BaseURL           string `yaml:"base_url" is:"url"`
	APIKey, AuthToken Secret
	// OpenAIBaseURL and GoogleBaseURL are the endpoints of agents that speak those
	// APIs, OpenAIKey and GeminiKey their keys.
	OpenAIBaseURL        string `yaml:"openai_base_url" is:"url"`
	GoogleBaseURL        string `yaml:"google_base_url" is:"url"`
	OpenAIKey, GeminiKey Secret
	// AuthHeader is the header that the credential is sent in, "" for the API's own.
	AuthHeader string `yaml:"auth_header" is:"header"`
	// Allowed are the models that may be used, by name or by a pattern that ends
	// in *; none means all.
	Allowed []string `yaml:"allowed" is:"models"`
	// Prices go before the list prices.
	Prices []Price `yaml:"prices"`
}

// Price is what a model costs, in dollars for a million tokens. What is not said of the cache
// costs what input does.
type Price struct {
	Model      string   `yaml:"model" is:"model"`
	Input      *float64 `yaml:"input" is:"0..1000000"`
	Output     *float64 `yaml:"output" is:"0..1000000"`
	CacheRead  *float64 `yaml:"cache_read" is:"0..1000000"`
	CacheWrite *float64 `yaml:"cache_write" is:"0..1000000"`
}

// PriceList are the list prices, and in their place those of the file.
func (m Model) PriceList() run.Prices {
	own := run.Prices{}
	for _, p := range m.Prices {
		or := func(v *float64) float64 {
			if v == nil {
				v = p.Input
			}
			return *v
		}
		own[p.Model] = run.Price{Input: *p.Input, Output: *p.Output, CacheRead: or(p.CacheRead), CacheWrite: or(p.CacheWrite)}
	}
	return run.ListPrices().With(own)
}

// Concurrency bounds how many agents and checks are at work at once; 0 means no bound.
type Concurrency struct {
	// Agents is for the whole server, where 0 is as many as fit on the machine, and
	// Repository for one repository.
	Agents     int `yaml:"agents" is:"1..1000"`
	Repository int `yaml:"agents_per_repository" is:"1..1000"`
}

// Budgets bound what many runs cost together, in dollars; 0 means no bound.
type Budgets struct {
	// IssueUSD is for all runs of one issue, RepositoryDayUSD for all runs of a
	// repository on one day (UTC).
	IssueUSD         float64 `yaml:"issue_usd" is:"0.01..1000000"`
	RepositoryDayUSD float64 `yaml:"repository_day_usd" is:"0.01..1000000"`
}

// Place says what agents and gates run in.
type Place struct {
	Kind  string `yaml:"kind" is:"docker|local"`
	Image string `yaml:"image" is:"image"`
	// LocalIsolation says whether the local sandbox uses bubblewrap.
	LocalIsolation string `yaml:"local_isolation" is:"auto|bwrap|none"`
	// Show are files and directories that commands in the local sandbox may read.
	Show []string `yaml:"show" is:"file"`
}

// Gated says whether commands reach nothing but the gateway.
func (p Place) Gated() bool {
	return p.Kind == SandboxDocker || p.Kind == SandboxLocal && p.LocalIsolation == "bwrap"
}

// Sandbox is a Place, and what may be used in it.
type Sandbox struct {
	Place

	// Memory is in bytes. Docker itself refuses less than 6 MiB; an agent needs far more.
	Memory int64 `yaml:"memory" is:"bytes 64m.."`
	// CPUs counts cores and may be a fraction.
	CPUs float64 `yaml:"cpus" is:"0.1..1024"`
	// PIDs bounds processes and threads together.
	PIDs int64 `yaml:"pids" is:"16..4194304"`
	// Disk, in bytes, and Files bound a work tree with its caches.
	Disk  int64 `yaml:"disk" is:"bytes 16m.."`
	Files int64 `yaml:"files" is:"1000.."`
	// Caches, in bytes, bounds what set-up commands made for all repositories.
	Caches int64 `yaml:"caches" is:"bytes"`
}

// People says who may use the bot, and how often.
type People struct {
	// Repositories are those the bot works in, as owner/name or owner/*; none
	// means all in which the App is installed.
	Repositories []string `yaml:"repositories" is:"repository"`
	// Bots are the numeric user ids of other bots that may ask for runs, on
	// behalf of authors who may.
	Bots []int64 `yaml:"bots" is:"1.."`
	// How often within an hour: commands by one person, commands on one issue,
	// runs of one issue.
	CommandsPerPerson, CommandsPerIssue, RunsPerIssue int
}

// DefaultPeople is what a file that says nothing means.
func DefaultPeople() People {
	return People{CommandsPerPerson: 30, CommandsPerIssue: 60, RunsPerIssue: 12}
}

// Serves says whether the bot works in a repository.
func (p People) Serves(owner, name string) bool { return inList(p.Repositories, owner, name) }

// Notify says who is told of runs elsewhere than on GitHub.
type Notify struct {
	// Every is after how many iterations progress is told.
	Every   int            `yaml:"every" is:"1..1000"`
	Targets []NotifyTarget `yaml:"targets"`
}

// NotifyTarget is somewhere to send messages to.
type NotifyTarget struct {
	Name string `yaml:"name" is:"target"`
	// URL says where, Secret signs what is sent there; Script is the absolute path
	// of a program in their place.
	URL, Secret Secret
	URLFile     string `yaml:"url_file" is:"file"`
	SecretFile  string `yaml:"secret_file" is:"file"`
	Script      string `yaml:"script" is:"file"`
	// Notices are what it is told of; nil means everything.
	Notices []run.Notice `yaml:"events" is:"start|progress|finish|needs_human"`
	// Repositories are those whose runs it is told of, as owner/name or owner/*;
	// none means all.
	Repositories []string `yaml:"repositories" is:"repository"`
}

// Serves says whether the target is told of runs in a repository, by its full
// name.
func (t NotifyTarget) Serves(repository string) bool {
	owner, name, _ := strings.Cut(repository, "/")
	return inList(t.Repositories, owner, name)
}

// inList says whether a list of owner/name and owner/* holds a repository; an empty one
// holds all.
func inList(list []string, owner, name string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(entry string) bool {
		o, n, _ := strings.Cut(entry, "/")
		return strings.EqualFold(o, owner) && (n == "*" || strings.EqualFold(n, name))
	})
}

// Transcripts says how long the words of agents are kept, and how much of them.
type Transcripts struct {
	// Keep is the time after a run's last one, MaxBytes what all of them may take.
	Keep     time.Duration `yaml:"keep" is:"1h..3650d"`
	MaxBytes int64         `yaml:"max_size" is:"bytes 1m.."`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `yaml:"level" is:"trace|debug|info|warn|error"`
	Format string `yaml:"format" is:"json|console"`
}

// DefaultServer is the configuration of a file that says nothing. App, key and
// secret have no default.
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
			Place:  Place{Kind: SandboxDocker, LocalIsolation: "auto"},
			Memory: 4 << 30, CPUs: 2, PIDs: 512, Disk: 10 << 30, Files: 1_000_000, Caches: 20 << 30,
		},
		Limits:      run.Limits{Parallel: 2}.WithDefaults(run.DefaultLimits()),
		Concurrency: Concurrency{Repository: 2},
		People:      DefaultPeople(),
		Transcripts: DefaultTranscripts(),
		Notify:      Notify{Every: 5},
		Log:         Log{Level: "info", Format: "json"},
	}
}

// DefaultTranscripts is how transcripts are kept where nothing else is said.
func DefaultTranscripts() Transcripts {
	return Transcripts{Keep: 30 * 24 * time.Hour, MaxBytes: 1 << 30}
}

// DatabaseFile is the name of the database's file in a server's data directory.
const DatabaseFile = "ralph.db"

// Database is the path of the database's file.
func (s Server) Database() string { return filepath.Join(s.DataDir, DatabaseFile) }

// LoadServer reads the file at path and the secrets from the environment,
// checks everything and returns the whole. Relative paths in the file are
// relative to the file. Every error is a *run.UserError that names all the
// problems found.
func LoadServer(path string, env func(string) (string, bool), readFile func(string) ([]byte, error)) (Server, error) {
	s, err := ReadServer(path, readFile)
	if err != nil {
		return Server{}, err
	}
	src := secrets{env: env, readFile: readFile}
	s.GitHub.PrivateKey = src.one(EnvPrivateKey, "github.private_key_file", s.GitHub.PrivateKeyFile)
	s.GitHub.WebhookSecrets = src.many(EnvWebhookSecret, "github.webhook_secret_file", s.GitHub.WebhookSecretFile)
	s.Model.APIKey = src.one(EnvAPIKey, "", "")
	s.Model.AuthToken = src.one(EnvAuthToken, "", "")
	s.Model.OpenAIKey = src.one(EnvOpenAIKey, "", "")
	s.Model.GeminiKey = src.one(EnvGeminiKey, "", "")
	for i := range s.Notify.Targets {
		t := &s.Notify.Targets[i]
		t.URL = src.one(EnvNotifyURL+strings.ToUpper(t.Name), "notify.targets[].url_file", t.URLFile)
		t.Secret = src.one(EnvNotifySecret+strings.ToUpper(t.Name), "notify.targets[].secret_file", t.SecretFile)
	}
	if src.err != nil {
		return Server{}, src.err
	}
	s.Private = append(s.Private, src.files...)
	d := &document{}
	s.checkSecrets(d)
	if len(d.problems) > 0 {
		return Server{}, problemsError("configuration", d.problems)
	}
	return s, nil
}

// ReadServer is what the file at path says, without secrets and what is checked with them:
// enough to find the server's data. Every error is a *run.UserError.
func ReadServer(path string, readFile func(string) ([]byte, error)) (Server, error) {
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
	s, problems := parseServer(source, filepath.Dir(abs))
	if len(problems) > 0 {
		return Server{}, problemsError(path, problems)
	}
	s.Private = []string{abs, filepath.Dir(abs)}
	return s, nil
}

// parseServer reads the file's own values.
func parseServer(source []byte, dir string) (Server, []Problem) {
	s := DefaultServer()
	problems := decode(source, dir, &s, s.check)
	s.GitHub.APIURL = strings.TrimRight(s.GitHub.APIURL, "/") + "/"
	return s, problems
}

// check looks at what more than one key decides.
func (s *Server) check(d *document) {
	if s.GitHub.AppID <= 0 {
		d.report("github.app_id", "must be the App's id, the number on its settings page")
	}
	box, name := s.Sandbox, s.Agent.Name
	switch {
	case (name == AgentOpencode || name == AgentCopilot && box.Gated()) && s.Agent.Model == "":
		d.report("agent.model", "the agent %s needs the name of a model", name)
	case name == AgentAmp && box.Gated():
		d.report("agent.name", "amp needs its own server and key, which this sandbox keeps from agents")
	case (name == AgentACP || name == AgentCommand) && s.Agent.Command == "":
		d.report("agent.command", "the agent %s needs a command line", name)
	case name == AgentScript && s.Agent.ScriptFile == "":
		d.report("agent.script_file", "the scripted agent needs a script")
	}
	switch {
	case box.Kind == SandboxDocker && box.Image == "":
		d.report("sandbox.image", "the docker sandbox needs an image with the agent's tools in it")
	case box.Kind == SandboxLocal && !s.AllowLocalSandbox:
		d.report("sandbox.kind", "in a local sandbox, agents can do whatever the server's user can do on this "+
			"host; set allow_local_sandbox: true to allow that")
	case box.Kind == SandboxLocal && !box.Gated() && len(s.Egress) > 0:
		d.report("egress.allow", "the local sandbox shares this host's whole network; set sandbox.local_isolation: bwrap")
	}
	d.checkGates(s.Gates)
	distinct(d, "model.prices", "model", s.Model.Prices, func(p Price) string { return p.Model })
	for i, p := range s.Model.Prices {
		if p.Input == nil || p.Output == nil {
			d.report(fmt.Sprintf("model.prices[%d]", i), "input and output must be given, in dollars per million tokens")
		}
	}
	distinct(d, "notify.targets", "name", s.Notify.Targets, func(t NotifyTarget) string { return t.Name })
}

// checkSecrets looks at what has to be there beside the file.
func (s *Server) checkSecrets(d *document) {
	if key := s.GitHub.PrivateKey; key.Empty() {
		d.report("github.private_key_file", "the App's private key is missing; set its file here or set %s", EnvPrivateKey)
	} else if !strings.Contains(key.Reveal(), "PRIVATE KEY-----") {
		d.report("github.private_key_file", "the value is not a private key in PEM format")
	}
	// Without a secret anybody could post events; go-githubapp would accept them.
	if len(s.GitHub.WebhookSecrets) == 0 {
		d.report("github.webhook_secret_file", "the webhook secret is missing; set %s to the secret of the App's "+
			"settings page", EnvWebhookSecret)
	}
	for i, t := range s.Notify.Targets {
		if t.URL.Empty() == (t.Script == "") {
			d.report(fmt.Sprintf("notify.targets[%d]", i), "the target %s needs either an address, by url_file or %s%s, or a script",
				t.Name, EnvNotifyURL, strings.ToUpper(t.Name))
		}
	}
	m, name := s.Model, s.Agent.Name
	switch {
	case name == AgentClaude && m.APIKey.Empty() && m.AuthToken.Empty():
		d.report("model", "the model has no credential; set %s or %s", EnvAPIKey, EnvAuthToken)
	// Copilot has an account of its own, which it may use on this host.
	case (name == AgentCodex || name == AgentOpencode || name == AgentCopilot && s.Sandbox.Gated()) && m.OpenAIKey.Empty():
		d.report("model", "the model has no credential; set %s", EnvOpenAIKey)
	case name == AgentGemini && m.GeminiKey.Empty():
		d.report("model", "the model has no credential; set %s", EnvGeminiKey)
	}
}

// problemsError folds the problems of a file into one error for a person.
func problemsError(path string, problems []Problem) error {
	lines := make([]string, 0, len(problems))
	for _, p := range problems {
		line := path + ": " + p.String()
		if p.Line > 0 {
			line = path + ":" + p.String()
		}
		if p.Excerpt != "" {
			line += "\n    " + strings.ReplaceAll(p.Excerpt, "\n", "\n    ")
		}
		lines = append(lines, line)
	}
	return &run.UserError{Message: strings.Join(lines, "\n"), Hint: "see docs/configuration.md"}
}
