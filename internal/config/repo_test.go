package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/run"
)

func TestParseRepo(t *testing.T) {
	t.Parallel()
	whole := strings.Join([]string{
		"model: claude-sonnet-4-5",
		"image: ghcr.io/acme/agent@sha256:0123",
		"base: release/1.x",
		"limits:",
		"  max_iterations: 7",
		"  task_attempts: 2",
		"  iteration_timeout: 15m",
		"  idle_timeout: 90s",
		"  run_timeout: 1h30m",
		"  budget_usd: 2.5",
		"gates:",
		"  - name: tests",
		"    run: go test ./...",
		"  - run: make e2e",
		"    when: final",
		"    timeout: 20m",
		"  - run: make style",
		"    kind: lint",
		"    blocking: false",
		"quality:",
		"  tests: {minPassRate: 0.95, requireNewTestsForNewCode: true}",
		"  security: {blockOnCritical: true, blockOnHigh: false}",
		"  clippy: {treatWarningsAsErrors: true, allowedLints: [dead_code, 'clippy::too_many_arguments']}",
		"progress:",
		"  keep: true",
		"plan:",
		"  ask: never",
		"egress:",
		"  allow: ['preset:npm', '*.host.example']",
		"",
	}, "\n")
	tests := []struct {
		name, source string
		want         config.Repo
	}{
		{name: "empty", source: ""},
		{name: "comment only", source: "# nothing yet\n"},
		{name: "document mark only", source: "---\n"},
		{name: "empty sections", source: "limits:\ngates:\nprogress:\n"},
		{name: "no network", source: "egress: {allow: []}\n", want: config.Repo{Egress: egress.List{}}},
		{name: "the server's network", source: "egress:\n"},
		{name: "everything", source: whole, want: config.Repo{
			Model: "claude-sonnet-4-5", Image: "ghcr.io/acme/agent@sha256:0123", Base: "release/1.x",
			Limits: run.Limits{
				MaxIterations: 7, TaskAttempts: 2, IterationTimeout: 15 * time.Minute,
				IdleTimeout: 90 * time.Second, RunTimeout: 90 * time.Minute, BudgetUSD: 2.5,
			},
			Gates: []config.Gate{
				{Name: "tests", Run: "go test ./...", Kind: gate.Check, When: gate.Task, Timeout: gate.DefaultTimeout},
				{Name: "make e2e", Run: "make e2e", Kind: gate.Check, When: gate.Final, Timeout: 20 * time.Minute},
				{
					Name: "make style", Run: "make style", Kind: gate.Lint, Advisory: true, When: gate.Task,
					Timeout: gate.DefaultTimeout,
				},
			},
			Quality: gate.Quality{
				MinPassRate: 0.95, RequireNewTests: true, AllowHigh: true,
				ClippyStrict: true, ClippyAllowed: "dead_code clippy::too_many_arguments",
			},
			Progress: config.Progress{Keep: true},
			Plan:     config.Plan{Ask: "never"},
			Egress:   egress.List{"preset:npm", "*.host.example"},
		}},
		{name: "no history", source: "agent: {history: 0}\n", want: config.Repo{AgentHistory: new(0)}},
		{name: "byte order mark", source: "\uFEFFbase: main\n", want: config.Repo{Base: "main"}},
		{name: "Windows line ends", source: strings.ReplaceAll("base: next\nlimits:\n  max_iterations: 3\n", "\n", "\r\n"),
			want: config.Repo{Base: "next", Limits: run.Limits{MaxIterations: 3}}},
		{name: "set-up commands", source: "setup:\n  run: [npm ci, make deps]\n  inputs: [tools/versions.txt]\n  timeout: 5m\n",
			want: config.Repo{
				Setup: config.Setup{
					Run: []string{"npm ci", "make deps"}, Inputs: []string{"tools/versions.txt"}, Timeout: 5 * time.Minute,
				},
			}},
		{name: "set-up commands with nothing else", source: "setup: {run: [npm ci]}\n",
			want: config.Repo{Setup: config.Setup{Run: []string{"npm ci"}, Timeout: config.DefaultSetupTimeout}}},
		{name: "script on several lines", source: "gates:\n  - name: all\n    run: |\n      go vet ./...\n      go test ./...\n",
			want: config.Repo{Gates: []config.Gate{{
				Name: "all", Run: "go vet ./...\ngo test ./...", Kind: gate.Check, When: gate.Task, Timeout: gate.DefaultTimeout,
			}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, problems := config.ParseRepo([]byte(tt.source))
			if len(problems) > 0 {
				t.Fatalf("problems: %v", problems)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseRepoProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, source string
		// want holds one "line:column: beginning of the message" a problem.
		want []string
	}{
		{"unknown key", "limits:\n  max_iteration: 5\n", []string{`2:3: unknown key "max_iteration"`}},
		{"unknown key at the top", "base: main\nsandbox: local\n", []string{`2:1: unknown key "sandbox"`}},
		{
			"hosts", "egress:\n  allow: ['*.com', 10.0.0.1]\n",
			[]string{
				`2:11: egress.allow[0]: "*.com" stands for a whole top-level domain`,
				`2:20: egress.allow[1]: "10.0.0.1" is not the name of a host`,
			},
		},
		{
			"secret in the wrong place", "api_key: sk-ant-1234\n",
			[]string{`1:1: unknown key "api_key"; secrets are not read from this file`},
		},
		{"base URL", "model:\n  base_url: https://evil.example\n", []string{"2:11: expected text, found a map"}},
		{"wrong type", "limits:\n  max_iterations: many\n", []string{`2:19: "many" is not a whole number`}},
		{"fraction", "limits:\n  max_iterations: 1.5\n", []string{`2:19: "1.5" is not a whole number`}},
		{"not a truth value", "progress: {keep: perhaps}\n", []string{"1:18: expected true or false, found text"}},
		{"list for text", "base: [a]\n", []string{"1:7: expected text, found a list"}},
		{"number as key", "1: 2\n", []string{"1:1: a key must be plain text"}},
		{"null as key", "limits: {~: 2}\n", []string{"1:10: a key must be plain text"}},
		{"list for a map", "limits: [1]\n", []string{"1:9: expected a map, found a list"}},
		{"scalar file", "hello\n", []string{"1:1: "}},
		{"list file", "- a\n", []string{"1:1: "}},
		{"same key twice", "base: a\nbase: b\n", []string{`2:1: mapping key "base" already defined`}},
		{"unclosed", "gates: [\n", []string{"1:8: "}},
		{"tab", "limits:\n\tmax_iterations: 3\n", []string{"2:1: "}},
		{"two documents", "base: a\n---\nbase: b\n", []string{"the file holds more than one YAML document"}},
		{"anchor", "base: &b main\n", []string{"1:7: anchors, aliases"}},
		{"alias", "base: *b\n", []string{"1:7: anchors, aliases"}},
		{"merge", "<<: {base: a}\n", []string{"1:1: anchors, aliases"}},
		{"tag", "base: !!binary aGk=\n", []string{"1:7: YAML tags"}},
		{"number as duration", "limits:\n  run_timeout: 30\n", []string{`2:16: "30" is not a duration`}},
		{"map as duration", "limits:\n  run_timeout: {a: b}\n", []string{`2:16: "" is not a duration`}},
		{"zero", "limits:\n  max_iterations: 0\n", []string{"2:19: limits.max_iterations: must be between 1 and"}},
		{
			"no limit", "limits:\n  budget_usd: -1\n  run_timeout: -1h\n",
			[]string{"2:15: limits.budget_usd: must be more than 0", "3:16: limits.run_timeout:"},
		},
		{"nothing to set up", "setup: {inputs: [a]}\n", []string{"1:8: setup: there is nothing to run"}},
		{"empty set-up command", "setup: {run: [a, '  ']}\n", []string{"1:18: setup.run[1]: a command has 1 to"}},
		{"input outside", "setup: {run: [a], inputs: [../x]}\n", []string{`1:28: setup.inputs[0]: "../x" is not the path`}},
		{"endless set-up", "setup: {run: [a], timeout: 7h}\n", []string{"1:28: setup.timeout: must be between 1s and 6h"}},
		{"not a number", "limits:\n  budget_usd: .nan\n", []string{"2:15: limits.budget_usd:"}},
		{"infinite", "limits:\n  budget_usd: .inf\n", []string{"2:15: limits.budget_usd:"}},
		{"history", "agent:\n  history: 1001\n", []string{"2:12: agent.history: must be between 0 and 1000"}},
		{"negative history", "agent: {history: -1}\n", []string{"1:18: agent.history: must be between 0 and 1000"}},
		{"overflow", "limits:\n  max_iterations: 99999999999999999999\n", []string{"2:19: "}},
		{"key of the server", "sandbox: local\n", []string{`1:1: unknown key "sandbox"`}},
		{"key of the server in a section of ours", "agent: {name: script}\n", []string{`1:9: unknown key "name"`}},
		{"model as a flag", "model: --dangerously\n", []string{"1:8: model: "}},
		{"image as a flag", "image: -v/:/host\n", []string{"1:8: image: "}},
		{"image with a path", "image: ../../etc\n", []string{"1:8: image: "}},
		{"gate without a command", "gates:\n  - name: x\n", []string{"gates[0].run: a gate needs a command"}},
		{
			"gates of one name", "gates:\n  - {name: x, run: a}\n  - {name: x, run: b}\n",
			[]string{`3:12: gates[1].name: two gates are named "x"`},
		},
		{
			"gate of another kind", "gates:\n  - run: a\n    kind: vibes\n",
			[]string{`3:11: gates[0].kind: "vibes" is not a kind`},
		},
		{
			"pass rate of nothing", "quality:\n  tests:\n    minPassRate: 0\n",
			[]string{`3:18: quality.tests.minPassRate: must be more than 0`},
		},
		{
			"pass rate in per cent", "quality:\n  tests:\n    minPassRate: 95\n",
			[]string{`3:18: quality.tests.minPassRate: must be more than 0 and at most 1`},
		},
		{
			"lint that is a command", "quality:\n  clippy:\n    allowedLints: ['x; rm -rf /']\n",
			[]string{`3:19: quality.clippy.allowedLints: "x; rm -rf /" does not look like the name of a lint`},
		},
		{
			"gate at another moment", "gates:\n  - run: a\n    when: always\n",
			[]string{`3:11: gates[0].when: "always" is not valid; use task`},
		},
		{
			"gate with no time", "gates:\n  - run: a\n    timeout: 1ms\n",
			[]string{"3:14: gates[0].timeout: must be between 1s and 6h"},
		},
		{
			"control characters in a name", "gates:\n  - run: a\n    name: \"a\\e[31m\"\n",
			[]string{"3:11: gates[0].name: only printable"},
		},
		{"branch as a flag", "base: --upload-pack=x\n", []string{"1:7: base: "}},
		{"branch with dots", "base: a..b\n", []string{"1:7: base: "}},
		{"branch with a space", "base: a b\n", []string{"1:7: base: "}},
		{"protecting in another way", "protected:\n  paths: [ok, /etc, \"[a\"]\n", []string{
			`2:15: protected.paths[1]: "/etc" is not a pattern of paths within the repository`,
			`2:21: protected.paths[2]: "[a" is not a pattern of paths within the repository`,
		}},
		{"asking at another moment", "plan:\n  ask: always\n", []string{`2:8: plan.ask: "always" is neither auto nor never`}},
		{"address of a notice", "notify: {url: https://evil.example}\n", []string{`1:1: unknown key "notify"`}},
		{"lock", "base: a.lock\n", []string{"1:7: base: "}},
		{"not text", "base: \xff\n", []string{"the file is not UTF-8 text"}},
		{"too large", strings.Repeat("#", 65<<10), []string{"the file has 66560 bytes"}},
		{"too deep", strings.Repeat("[", 15000), []string{"1:17: the file is nested too deeply"}},
		{"too deep in one line", strings.Repeat("- ", 15000), []string{"1:33: the file is nested too deeply"}},
		{"too deep in keys", strings.Repeat("? ", 15000), []string{"1:33: the file is nested too deeply"}},
		{"in the order of the file", "base: a..b\nmodel: -x\nimage: -y\n", []string{"1:7: base", "2:8: model", "3:8: image"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, problems := config.ParseRepo([]byte(tt.source))
			if len(problems) != len(tt.want) {
				t.Fatalf("problems %q, want %q", problems, tt.want)
			}
			for i, p := range problems {
				if !strings.HasPrefix(p.String(), tt.want[i]) {
					t.Errorf("problem %d is %q, want it to begin with %q", i, p, tt.want[i])
				}
				if strings.Contains(p.Message, "\n") {
					t.Errorf("message of several lines: %q", p.Message)
				}
			}
			if diff := cmp.Diff(config.Repo{}, got); diff != "" {
				t.Errorf("a file with problems is half used:\n%s", diff)
			}
		})
	}
}

func TestProblemExcerpt(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, source, want string }{
		{"points at the value", "limits:\n  max_iterations: 0\n", "  max_iterations: 0\n                  ^"},
		{"does not repeat the value of an unknown key", "webhook_secret: hunter2\n", "webhook_secret:\n^"},
		{"nor in a flow map", "progress: {token: hunter2}\n", "progress: {token:\n           ^"},
		{
			"counts characters", "gates:\n  - {name: Zürich, when: x, run: y}\n",
			"  - {name: Zürich, when: x, run: y}\n                         ^",
		},
		{
			"is cut", "base: a..b # " + strings.Repeat("x", 300) + "\n",
			"base: a..b # " + strings.Repeat("x", 106) + "…\n      ^",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, problems := config.ParseRepo([]byte(tt.source))
			if len(problems) != 1 {
				t.Fatalf("problems: %v", problems)
			}
			if diff := cmp.Diff(tt.want, problems[0].Excerpt); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestTighten: what a repository asks for never gets it more than the server
// allows.
func TestTighten(t *testing.T) {
	t.Parallel()
	server := run.DefaultLimits()
	got := config.Tighten(server, run.Limits{
		MaxIterations: 500, TaskAttempts: 1, RunTimeout: time.Hour, IdleTimeout: -1, BudgetUSD: 3,
	})
	want := server
	want.TaskAttempts, want.RunTimeout, want.BudgetUSD = 1, time.Hour, 3
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// FuzzParseRepo: whatever a repository holds, reading it neither panics nor
// yields a value outside of what the documentation allows.
func FuzzParseRepo(f *testing.F) {
	for _, s := range []string{
		"", "model: claude\nlimits: {max_iterations: 3}\n", "gates:\n- run: |\n   a\n  when: final\n", "base: &a [*a]\n",
		"? a\n: b\n", "<<: *x", "\t- a", "a: 'b", "limits:\n  run_timeout: 1h\n", "{", "- - - -", "!!x y",
		"--- a\n--- b\n...\n",
		"base: \"\\u0000\"\n", "\xef\xbb\xbfbase: main\n", "budget_usd: 1e400", "progress: {keep: yes}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		r, problems := config.ParseRepo(source)
		if len(problems) > 0 {
			if diff := cmp.Diff(config.Repo{}, r); diff != "" {
				t.Errorf("problems and a value:\n%s", diff)
			}
			for _, p := range problems {
				if p.Message == "" || strings.ContainsAny(p.Message, "\r\n") || (p.Line == 0) != (p.Column == 0) {
					t.Errorf("unfit problem: %#v", p)
				}
			}
			return
		}
		for _, arg := range []string{r.Model, r.Image, r.Base} {
			if strings.HasPrefix(arg, "-") || strings.ContainsAny(arg, " \n\x00") {
				t.Errorf("value %q could be read as something else", arg)
			}
		}
		l := r.Limits
		if l.MaxIterations < 0 || l.TaskAttempts < 0 || l.IterationTimeout < 0 || l.IdleTimeout < 0 || l.RunTimeout < 0 ||
			l.BudgetUSD < 0 || l.BudgetUSD != l.BudgetUSD {
			t.Errorf("limits loosened: %+v", l)
		}
		for _, g := range r.Gates {
			if g.Run == "" || g.Name == "" || g.Timeout <= 0 || (g.When != gate.Task && g.When != gate.Final) {
				t.Errorf("unfit gate: %+v", g)
			}
		}
	})
}
