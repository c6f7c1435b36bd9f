package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

const (
	pem      = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\n"
	minimal  = "github:\n  app_id: 12\nsandbox:\n  image: agent:1\n"
	confPath = "/etc/ralph/ralph.yml"
)

// disk is a set of files, and environ a set of variables, that LoadServer sees.
type (
	disk    map[string]string
	environ map[string]string
)

func (d disk) read(path string) ([]byte, error) {
	s, ok := d[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(s), nil
}

func (e environ) lookup(name string) (string, bool) {
	s, ok := e[name]
	return s, ok
}

// good is an environment in which a valid file loads.
func good() environ {
	return environ{
		config.EnvPrivateKey: pem, config.EnvWebhookSecret: "s3cret", config.EnvAPIKey: "sk-ant-1",
	}
}

func load(t *testing.T, source string, env environ, files disk) (config.Server, error) {
	t.Helper()
	all := disk{confPath: source}
	maps.Copy(all, files)
	return config.LoadServer(confPath, env.lookup, all.read)
}

func TestLoadServerDefaults(t *testing.T) {
	t.Parallel()
	got, err := load(t, minimal, good(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.DefaultServer()
	want.GitHub.AppID = 12
	want.Sandbox.Image = "agent:1"
	want.Private = []string{confPath, filepath.Dir(confPath)}
	want.GitHub.PrivateKey = config.Secret(strings.TrimSpace(pem))
	want.GitHub.WebhookSecrets = []config.Secret{"s3cret"}
	want.Model.APIKey = "sk-ant-1"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLoadServerEverything(t *testing.T) {
	t.Parallel()
	source := `
listen: ":9000"
data_dir: data
label: bot
welcome: false
allow_local_sandbox: true
github:
  api_url: https://ghe.example/api/v3
  graphql_url: https://ghe.example/api/graphql/
  web_url: https://ghe.example/
  app_id: 77
  private_key_file: app.pem
  webhook_secret_file: /run/secrets/hook
agent:
  name: script
  model: claude-opus
  script_file: demo.yml
  path: bin/claude
model:
  base_url: http://127.0.0.1:9999/
  openai_base_url: http://127.0.0.1:9998/v1/
  google_base_url: https://gemini.example
  auth_header: api-key
  allowed: [claude-opus, "claude-sonnet-*", "*"]
  prices:
    - {model: claude-opus, input: 5, output: 25.5, cache_read: 0.5, cache_write: 6}
    - {model: own/model, input: 0, output: 0}
    - {model: gpt-x, input: 2, output: 3}
sandbox:
  kind: local
  local_isolation: bwrap
  show: [/opt/tools, tools]
  image: agent:1
  memory: 512m
  cpus: 0.5
  pids: 100
  disk: 2g
  files: 5000
  caches: 3g
limits:
  agents: 8
  agents_per_repository: 3
  max_iterations: 9
  budget_usd: 4
  task_budget_usd: 1.5
budgets:
  issue_usd: 10
  repository_day_usd: 20
gates:
  - run: make check
    timeout: 90s
transcripts:
  keep: 7d
  max_size: 200m
notify:
  every: 3
  targets:
    - name: team
      url_file: team.url
      events: [finish, needs_human]
      repositories: [acme/*]
    - {name: hook, secret_file: hook.secret}
    - {name: pager, script: bin/page, events: []}
log:
  level: debug
  format: console
`
	got, err := load(t, source, environ{
		"RALPH_NOTIFY_URL_HOOK": "https://hook.example",
	}, disk{
		"/etc/ralph/app.pem": pem, "/run/secrets/hook": "new\nold\n\n", "/etc/ralph/team.url": "https://x\n",
		"/etc/ralph/hook.secret": "whsec_x",
	})
	if err != nil {
		t.Fatal(err)
	}
	limits := run.Limits{Parallel: 2}.WithDefaults(run.DefaultLimits())
	limits.MaxIterations, limits.BudgetUSD, limits.TaskBudgetUSD = 9, 4, 1.5
	want := config.Server{
		Listen: ":9000", DataDir: "/etc/ralph/data",
		Private: []string{
			"/etc/ralph/ralph.yml", "/etc/ralph", "/etc/ralph/app.pem", "/run/secrets/hook",
			"/etc/ralph/team.url", "/etc/ralph/hook.secret",
		},
		Label: "bot",
		GitHub: config.GitHub{
			APIURL: "https://ghe.example/api/v3/", GraphQLURL: "https://ghe.example/api/graphql", WebURL: "https://ghe.example",
			PrivateKeyFile: "/etc/ralph/app.pem", WebhookSecretFile: "/run/secrets/hook",
			AppID: 77, PrivateKey: config.Secret(strings.TrimSpace(pem)), WebhookSecrets: []config.Secret{"new", "old"},
		},
		Agent: config.Agent{
			Name: "script", Model: "claude-opus", ScriptFile: "/etc/ralph/demo.yml", Path: "/etc/ralph/bin/claude",
		},
		Model: config.Model{
			BaseURL: "http://127.0.0.1:9999", OpenAIBaseURL: "http://127.0.0.1:9998/v1", GoogleBaseURL: "https://gemini.example",
			AuthHeader: "api-key",
			Allowed:    []string{"claude-opus", "claude-sonnet-*", "*"},
			Prices: []config.Price{
				{Model: "claude-opus", Input: new(5.0), Output: new(25.5), CacheRead: new(0.5), CacheWrite: new(6.0)},
				{Model: "own/model", Input: new(0.0), Output: new(0.0)},
				{Model: "gpt-x", Input: new(2.0), Output: new(3.0)},
			},
		},
		Sandbox: config.Sandbox{
			Place: config.Place{
				Kind: "local", LocalIsolation: "bwrap", Show: []string{"/opt/tools", "/etc/ralph/tools"}, Image: "agent:1",
			},
			Memory: 512 << 20, CPUs: 0.5, PIDs: 100, Disk: 2 << 30, Files: 5000, Caches: 3 << 30,
		},
		AllowLocalSandbox: true,
		Limits:            limits,
		People:            config.DefaultPeople(),
		Budgets:           config.Budgets{IssueUSD: 10, RepositoryDayUSD: 20},
		Concurrency:       config.Concurrency{Agents: 8, Repository: 3},
		Gates: []config.Gate{
			{Run: "make check", Timeout: 90 * time.Second},
		},
		Transcripts: config.Transcripts{Keep: 7 * 24 * time.Hour, MaxBytes: 200 << 20},
		Log:         config.Log{Level: "debug", Format: "console"},
		Notify: config.Notify{Every: 3, Targets: []config.NotifyTarget{
			{
				Name: "team", URL: "https://x", URLFile: "/etc/ralph/team.url", Notices: []run.Notice{run.NoticeFinish, run.NoticeNeedsHuman},
				Repositories: []string{"acme/*"},
			},
			{Name: "hook", URL: "https://hook.example", Secret: "whsec_x", SecretFile: "/etc/ralph/hook.secret"},
			{Name: "pager", Script: "/etc/ralph/bin/page", Notices: []run.Notice{}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	prices := got.Model.PriceList()
	if diff := cmp.Diff([]run.Price{
		{Input: 5, Output: 25.5, CacheRead: 0.5, CacheWrite: 6}, {}, {Input: 2, Output: 3, CacheRead: 2, CacheWrite: 2},
	}, []run.Price{prices["claude-opus"], prices["own/model"], prices["gpt-x"]}); diff != "" {
		t.Errorf("prices (-want +got)\n%s", diff)
	}
}

// TestLoadServerSecrets: where a secret may come from, and that it is one
// place.
func TestLoadServerSecrets(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		source  string
		env     environ
		files   disk
		secrets []config.Secret
		want    string // beginning of the error
	}{
		{
			name: "several in one variable", env: environ{config.EnvWebhookSecret: " new\nold,er "},
			secrets: []config.Secret{"new", "old,er"},
		},
		{
			name: "variable names a file", env: environ{config.EnvWebhookSecret: "", config.EnvWebhookSecret + "_FILE": "/s"},
			files: disk{"/s": "x\r\ny\r\n"}, secrets: []config.Secret{"x", "y"},
		},
		{
			name: "none", env: environ{config.EnvWebhookSecret: ""},
			want: "configuration: github.webhook_secret_file: the webhook secret is missing",
		},
		{
			name: "blank", env: environ{config.EnvWebhookSecret: "  \n"},
			want: "configuration: github.webhook_secret_file: the webhook secret is missing",
		},
		{
			name: "variable and its file", env: environ{config.EnvWebhookSecret + "_FILE": "/s"}, files: disk{"/s": "x"},
			want: "the same secret is set twice, in RALPH_WEBHOOK_SECRET and in RALPH_WEBHOOK_SECRET_FILE: keep one",
		},
		{
			name: "variable and key", source: "github:\n  app_id: 1\n  private_key_file: k\n",
			want: "the same secret is set twice, in RALPH_APP_PRIVATE_KEY and in github.private_key_file",
		},
		{
			name: "file missing", env: environ{config.EnvAPIKey: "", config.EnvAPIKey + "_FILE": "/none"},
			want: "cannot read the file in ANTHROPIC_API_KEY_FILE: open /none",
		},
		{
			name: "file empty", env: environ{config.EnvAPIKey: "", config.EnvAPIKey + "_FILE": "/s"}, files: disk{"/s": "\n"},
			want: "the file in ANTHROPIC_API_KEY_FILE is empty",
		},
		{
			name: "no private key", env: environ{config.EnvPrivateKey: "hello"},
			want: "configuration: github.private_key_file: the value is not a private key",
		},
		{
			name: "no model credential", env: environ{config.EnvAPIKey: ""},
			want: "configuration: model: the model has no credential",
		},
		{
			name: "subscription token", env: environ{config.EnvAPIKey: "", config.EnvAuthToken: "oat"},
			secrets: []config.Secret{"s3cret"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := good()
			maps.Copy(env, tt.env)
			source := minimal
			if tt.source != "" {
				source = tt.source + "sandbox:\n  image: agent:1\n"
			}
			got, err := load(t, source, env, tt.files)
			if tt.want != "" {
				wantUserError(t, err, tt.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.secrets, got.GitHub.WebhookSecrets); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestLoadServerRefuses(t *testing.T) {
	t.Parallel()
	local := minimal + "  kind: local\n"
	tests := []struct{ source, want string }{
		{minimal + "workes: 3\n", confPath + ":5:1: unknown key \"workes\"\n    workes:\n    ^"},
		{
			minimal + "webhook_secret: hunter2\n",
			confPath + ":5:1: unknown key \"webhook_secret\"; secrets are not read from this file",
		},
		{"sandbox: {image: a}\n", confPath + ": github.app_id: must be the App's id"},
		{"github: {app_id: 1}\n", confPath + ": sandbox.image: the docker sandbox needs an image"},
		{local, confPath + ":5:9: sandbox.kind: in a local sandbox, agents can do whatever"},
		{minimal + "  kind: podman\n", confPath + ":5:9: sandbox.kind: \"podman\" is not one of docker, local"},
		{minimal + "  memory: 1m\n", confPath + ":5:11: sandbox.memory: must be at least 64m"},
		{minimal + "  memory: lots\n", confPath + ":5:11: \"lots\" is not a size"},
		{minimal + "  memory: 99999999999t\n", confPath + ":5:11: \"99999999999t\" is not a size"},
		{minimal + "  cpus: 0\n", confPath + ":5:9: sandbox.cpus: must be between 0.1 and 1024"},
		{minimal + "  files: 10\n", confPath + ":5:10: sandbox.files: must be at least 1000"},
		{
			minimal + "model:\n  base_url: http://models.example\n",
			confPath + ":6:13: model.base_url: plain http would send credentials",
		},
		{
			minimal + "model:\n  base_url: https://u:p@models.example\n",
			confPath + ":6:13: model.base_url: a URL with a user name",
		},
		{
			minimal + "model:\n  base_url: https://a.example/?x=1\n",
			confPath + ":6:13: model.base_url: a URL with a user name",
		},
		{
			minimal + "model:\n  base_url: models.example\n",
			confPath + ":6:13: model.base_url: \"models.example\" is not a URL",
		},
		{minimal + "model:\n  allowed: [\"a*b\"]\n", confPath + ":6:13: model.allowed[0]: \"a*b\" is neither the name"},
		{minimal + "model:\n  prices: [{input: 1, output: 1}]\n", confPath + ": model.prices[0].model: is missing"},
		{
			minimal + "model:\n  prices: [{model: m, input: 1}]\n",
			confPath + ":6:12: model.prices[0]: input and output must be given",
		},
		{
			minimal + "model:\n  prices: [{model: m, input: -1, output: 1}]\n",
			confPath + ":6:30: model.prices[0].input: must be between 0",
		},
		{
			minimal + "model:\n  prices: [{model: m, input: 1, output: 1}, {model: m, input: 1, output: 1}]\n",
			confPath + ":6:53: model.prices[1].model: two entries are for \"m\"",
		},
		{
			minimal + "model:\n  auth_header: \"a b\"\n",
			confPath + ":6:16: model.auth_header: \"a b\" is not the name of a header",
		},
		{
			minimal + "egress: {allow: ['preset:cpan']}\n",
			confPath + ":5:18: egress.allow[0]: there is no preset \"cpan\"; there are crates, debian",
		},
		{
			local + "allow_local_sandbox: true\negress: {allow: [a.example]}\n",
			confPath + ":7:17: egress.allow: the local sandbox shares this host's whole network; set sandbox.local_isolation: bwrap",
		},
		{
			local + "  local_isolation: bwrap\nallow_local_sandbox: true\nagent: {name: amp}\n",
			confPath + ":8:15: agent.name: amp needs its own server and key, which this sandbox keeps from agents",
		},
		{minimal + "limits: {agents: 0}\n", confPath + ":5:18: limits.agents: must be between 1 and 1000"},
		{minimal + "listen: 8080\n", confPath + ":5:9: listen: \"8080\" is not an address"},
		{minimal + "label: \"a\\nb\"\n", confPath + ":5:8: label: \"a\\nb\" is not 1 to 50"},
		{minimal + "agent:\n  name: script\n", confPath + ": agent.script_file: the scripted agent needs a script"},
		{
			"github: {app_id: 1, pull_requests_of: [ada]}\nsandbox: {image: a}\n",
			confPath + ":1:40: github.pull_requests_of[0]: \"ada\" is not the login of a bot",
		},
		{minimal + "people: {repositories: [acme]}\n", confPath + ":5:25: people.repositories[0]: \"acme\" is neither"},
		{
			minimal + "notify: {targets: [{name: team}]}\n",
			"configuration: notify.targets[0]: the target team needs either an address, by url_file or RALPH_NOTIFY_URL_TEAM",
		},
		{
			minimal + "notify: {targets: [{name: team, url_file: a, script: b}]}\n",
			"configuration: notify.targets[0]: the target team needs either",
		},
		{minimal + "notify: {targets: [{name: team, url: https://x}]}\n", confPath + ":5:33: unknown key \"url\""},
		{
			minimal + "notify: {targets: [{name: Team-1, script: a}]}\n",
			confPath + ":5:27: notify.targets[0].name: \"Team-1\" is not a name",
		},
		{
			minimal + "notify: {targets: [{name: a, script: a, events: [end]}]}\n",
			confPath + ":5:50: notify.targets[0].events[0]: \"end\" is not one of start",
		},
		{minimal + "notify: {every: 0}\n", confPath + ":5:17: notify.every: must be between 1 and 1000"},
		{minimal + "gates: [{name: a}]\n", confPath + ": gates[0].run: a gate needs a command"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tt.source, good(), disk{"/etc/ralph/a": "https://x"})
			wantUserError(t, err, tt.want)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}

// TestLoadServerNamesEverything: one start, all the problems.
func TestLoadServerNamesEverything(t *testing.T) {
	t.Parallel()
	_, err := load(t, "label: \"\\e\"\n", good(), nil)
	wantUserError(t, err, confPath)
	for _, want := range []string{"label:", "github.app_id:", "sandbox.image:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing from:\n%v", want, err)
		}
	}
}

func TestLoadServerMissingFile(t *testing.T) {
	t.Parallel()
	_, err := config.LoadServer("nowhere.yml", environ{}.lookup, disk{}.read)
	wantUserError(t, err, "cannot read the configuration: open nowhere.yml: file does not exist: pass the file with --config")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
}

// TestRelativePaths: relative to the file, wherever the process was started.
func TestRelativePaths(t *testing.T) {
	t.Parallel()
	abs, err := filepath.Abs("conf/state")
	if err != nil {
		t.Fatal(err)
	}
	files := disk{"conf/ralph.yml": minimal + "data_dir: state\n"}
	got, err := config.LoadServer("conf/ralph.yml", good().lookup, files.read)
	if err != nil {
		t.Fatal(err)
	}
	if got.DataDir != abs {
		t.Errorf("data dir %q, want %q", got.DataDir, abs)
	}
}

// TestSecretDoesNotPrint: a configuration can be logged whole.
func TestSecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	s, err := load(t, minimal, good(), nil)
	if err != nil {
		t.Fatal(err)
	}
	js, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"%v": fmt.Sprintf("%v", s), "%+v": fmt.Sprintf("%+v", s), "%#v": fmt.Sprintf("%#v", s),
		"%q": fmt.Sprintf("%q", s.Model.APIKey),
		"%x": fmt.Sprintf("%x", s.Model.APIKey), "JSON": string(js),
	} {
		for _, secret := range []string{"sk-ant-1", "s3cret", "MIIB", fmt.Sprintf("%x", "sk-ant-1")} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %q: %s", name, secret, text)
			}
		}
	}
	if s.Model.APIKey.Reveal() != "sk-ant-1" || s.Model.APIKey.Empty() {
		t.Error("the secret is lost")
	}
}

func wantUserError(t *testing.T, err error, prefix string) {
	t.Helper()
	if _, ok := errors.AsType[*run.UserError](err); !ok {
		t.Fatalf("error %v (%T), want a *run.UserError", err, err)
	}
	if !strings.HasPrefix(err.Error(), prefix) {
		t.Errorf("error\n%v\nwant it to begin with\n%s", err, prefix)
	}
}

// TestServes: a list of repositories is one of names, in any case of their letters.
func TestServes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		list        []string
		owner, name string
		want        bool
	}{
		{nil, "anyone", "anything", true},
		{[]string{"acme/*"}, "ACME", "app", true},
		{[]string{"acme/*"}, "acme-evil", "app", false},
		{[]string{"other/x", "acme/app"}, "acme", "App", true},
		{[]string{"acme/app"}, "acme", "app2", false},
	} {
		if got := (config.People{Repositories: tt.list}).Serves(tt.owner, tt.name); got != tt.want {
			t.Errorf("%v serves %s/%s: %t", tt.list, tt.owner, tt.name, got)
		}
	}
}
