package config_test

import (
	"fmt"
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
		"review: false",
		"roles:",
		"  - {name: reviewer, model: big}",
		"  - {name: tester, max_turns: 20, deny_tools: [WebFetch, 'Bash(git push:*)']}",
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
				{Name: "tests", Run: "go test ./..."},
				{Run: "make e2e", When: gate.Final, Timeout: 20 * time.Minute},
				{Run: "make style", Kind: gate.Lint, Blocking: new(false)},
			},
			Quality: config.Quality{
				MinPassRate: 0.95, RequireNewTestsForNewCode: true, BlockOnCritical: new(true), BlockOnHigh: new(false),
				TreatWarningsAsErrors: true, AllowedLints: []string{"dead_code", "clippy::too_many_arguments"},
			},
			Review: new(false),
			Roles: []config.Role{
				{Name: "reviewer", Model: "big"},
				{Name: "tester", MaxTurns: 20, DenyTools: []string{"WebFetch", "Bash(git push:*)"}},
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
			want: config.Repo{Gates: []config.Gate{{Name: "all", Run: "go vet ./...\ngo test ./...\n"}}}},
		{name: "a key left empty", source: "model: ''\nbase:\nlimits: {run_timeout: ''}\n"},
		{name: "other names", source: "loop: {maxIterations: 40, maxTaskAttempts: 2, taskTimeoutMinutes: 10}\nlimits: {task_attempts: 4}\n",
			want: config.Repo{
				Loop:   config.Loop{MaxIterations: 40, MaxTaskAttempts: 2, TaskTimeoutMinutes: 10},
				Limits: run.Limits{MaxIterations: 40, TaskAttempts: 4, TaskTime: 10 * time.Minute},
			}},
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
		source string
		// want holds one "line:column: beginning of the message" a problem.
		want []string
	}{
		{"limits:\n  max_iteration: 5\n", []string{`2:3: unknown key "max_iteration"`}},
		{"base: main\nsandbox: local\n", []string{`2:1: unknown key "sandbox"`}},
		{"agent: {name: script}\n", []string{`1:9: unknown key "name"`}},
		{"api_key: sk-ant-1234\n", []string{`1:1: unknown key "api_key"; secrets are not read from this file`}},
		{"model:\n  base_url: https://evil.example\n", []string{"2:11: expected text, found a map"}},
		{"limits:\n  max_iterations: many\n", []string{`2:19: "many" is not a whole number`}},
		{"limits:\n  max_iterations: 1.5\n", []string{`2:19: "1.5" is not a whole number`}},
		{"limits:\n  max_iterations: 99999999999999999999\n", []string{`2:19: "99999999999999999999" is not`}},
		{"limits:\n  run_timeout: 30\n", []string{`2:16: "30" is not a duration`}},
		{"limits:\n  run_timeout: {a: b}\n", []string{"2:16: expected a number or a time, found a map"}},
		{"limits:\n  budget_usd: .nan\n", []string{`2:15: ".nan" is not a number`}},
		{"limits:\n  budget_usd: inf\n", []string{`2:15: "inf" is not a number`}},
		{"progress: {keep: perhaps}\n", []string{"1:18: expected true or false, found text"}},
		{"base: [a]\n", []string{"1:7: expected text, found a list"}},
		{"limits: [1]\n", []string{"1:9: expected a map, found a list"}},
		{"1: 2\n", []string{"1:1: a key must be plain text"}},
		{"limits.budget_usd: 3\n", []string{`1:1: unknown key "limits.budget_usd"`}},
		{"egress.allow: [b]\negress: {allow: [a]}\n", []string{`1:1: unknown key "egress.allow"`}},
		{"setup: {run: [a, ~]}\n", []string{"1:14: entry 2 of the list is empty"}},
		{"egress:\n  allow:\n    -\n    - a.example\n", []string{"3:5: entry 1 of the list is empty"}},
		{"roles: [null]\n", []string{"1:8: entry 1 of the list is empty"}},
		{"gates: [{run: ''}]\n", []string{"1:15: gates[0].run: a gate needs a command"}},
		{"k: |\n" + strings.Repeat("\n", 2000), []string{"the file has 2001 lines; at most 2000 are read"}},
		{"k: |\n" + strings.Repeat("\r", 2000), []string{"the file has 2001 lines; at most 2000 are read"}},
		{strings.Repeat("k", 999) + ": 1\n", []string{`1:1: unknown key "` + strings.Repeat("k", 39) + `…"`}},
		{"limits: {~: 2}\n", []string{"1:10: a key must be plain text"}},
		{"hello\n", []string{"1:1: expected a map, found text"}},
		{"- a\n", []string{"1:1: expected a map, found a list"}},
		{"base: a\nbase: b\n", []string{`2:1: mapping key "base" already defined`}},
		{"gates: [\n", []string{"1:8: "}},
		{"limits:\n\tmax_iterations: 3\n", []string{"2:1: "}},
		{"base: a\n---\nbase: b\n", []string{"the file holds more than one YAML document"}},
		{"base: &b main\n", []string{"1:7: expected text, found what is not supported here: anchor"}},
		{"base: *b\n", []string{"1:7: expected text, found what is not supported here: alias"}},
		{"<<: {base: a}\n", []string{"1:1: a key must be plain text"}},
		{"base: !!binary aGk=\n", []string{"1:7: expected text, found what is not supported here: tag"}},
		{"base: \xff\n", []string{"the file is not UTF-8 text"}},
		{strings.Repeat("#", 65<<10), []string{"the file has 66560 bytes"}},
		{strings.Repeat("[", 15000), []string{"1:17: the file is nested too deeply"}},
		{strings.Repeat("- ", 15000), []string{"1:33: the file is nested too deeply"}},
		{strings.Repeat("? ", 15000), []string{"1:33: the file is nested too deeply"}},
		{"base: a..b\nmodel: -x\nimage: -y\n", []string{"1:7: base", "2:8: model", "3:8: image"}},

		{"limits:\n  max_iterations: 0\n", []string{"2:19: limits.max_iterations: must be between 1 and 10000"}},
		{
			"limits:\n  budget_usd: -1\n  run_timeout: -1h\n",
			[]string{"2:15: limits.budget_usd: must be between 0.01", "3:16: limits.run_timeout: must be between 1s and 30d"},
		},
		{"agent:\n  history: 1001\n", []string{"2:12: agent.history: must be between 0 and 1000"}},
		{"loop: {stagnationThreshold: 17}\n", []string{"1:29: loop.stagnationThreshold: must be between 1 and 16"}},
		{"quality:\n  tests:\n    minPassRate: 95\n", []string{"3:18: quality.tests.minPassRate: must be between 0.01 and 1"}},
		{
			"egress:\n  allow: ['*.com', 10.0.0.1, '']\n",
			[]string{
				`2:11: egress.allow[0]: "*.com" stands for a whole top-level domain`,
				`2:20: egress.allow[1]: "10.0.0.1" is not the name of a host`,
				`2:30: egress.allow[2]: "" is not the name of a host`,
			},
		},
		{"setup: {inputs: [a]}\n", []string{"1:8: setup: there is nothing to run"}},
		{"setup: {run: [a, '  ']}\n", []string{`1:18: setup.run[1]: "  " is not a command`}},
		{"setup: {run: [a], inputs: [../x]}\n", []string{`1:28: setup.inputs[0]: "../x" is not the path`}},
		{"setup: {run: [a], timeout: 7h}\n", []string{"1:28: setup.timeout: must be between 1s and 6h"}},
		{"model: --dangerously\n", []string{"1:8: model: "}},
		{"image: -v/:/host\n", []string{"1:8: image: "}},
		{"image: ../../etc\n", []string{"1:8: image: "}},
		{"base: --upload-pack=x\n", []string{"1:7: base: "}},
		{"base: a b\n", []string{"1:7: base: "}},
		{"base: a.lock\n", []string{"1:7: base: "}},
		{"gates:\n  - name: x\n", []string{"gates[0].run: a gate needs a command"}},
		{"gates:\n  - {name: x, run: a}\n  - {name: x, run: b}\n", []string{`3:12: gates[1].name: two entries are for "x"`}},
		{"gates:\n  - {run: a}\n  - {run: a}\n", []string{`gates[1].name: two entries are for "a"`}},
		{"gates:\n  - run: a\n    kind: vibes\n", []string{`3:11: gates[0].kind: "vibes" is not one of test, lint`}},
		{"gates:\n  - run: a\n    name: \"a\\e[31m\"\n", []string{`3:11: gates[0].name: "a\x1b[31m" is not`}},
		{"quality:\n  clippy:\n    allowedLints: ['x; rm -rf /']\n", []string{`3:20: quality.clippy.allowedLints[0]: "x; rm -rf /"`}},
		{"protected:\n  paths: [ok, /etc, \"[a\"]\n", []string{
			`2:15: protected.paths[1]: "/etc" is not a pattern of paths within the repository`,
			`2:21: protected.paths[2]: "[a" is not a pattern of paths within the repository`,
		}},
		{"roles: [{name: wizard}]\n", []string{`1:16: roles[0].name: "wizard" is not one of planner`}},
		{"roles: [{model: big}]\n", []string{"roles[0].name: is missing"}},
		{"roles: [{name: tester, deny_tools: [\"a b\"]}]\n", []string{"1:37: roles[0].deny_tools[0]: \"a b\" does not look like a tool"}},
		{"roles: [" + strings.Repeat("{},", 101) + "]\n", []string{"1:8: 101 entries; at most 100"}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%.40q", tt.source), func(t *testing.T) {
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

// TestParseRepoStopsEarly: a file that is wrong all over costs little, and is told of in a few words.
func TestParseRepoStopsEarly(t *testing.T) {
	t.Parallel()
	var keys strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&keys, "k%x: ,", i)
	}
	for _, source := range []string{
		"{" + keys.String() + "}\n",
		"limits: {" + keys.String() + "}\n",
		"gates: [" + strings.Repeat("{run: a, when: x}, ", 100) + "]\n",
		"egress: {allow: [" + strings.Repeat("~, ", 100) + "]}\n",
	} {
		_, problems := config.ParseRepo([]byte(source))
		if len(problems) != 20 {
			t.Errorf("%.20s: %d problems", source, len(problems))
		}
		if text := fmt.Sprint(problems); len(text) > 10_000 {
			t.Errorf("%.20s: %d bytes of problems", source, len(text))
		}
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
		for _, g := range config.Gates(r.Gates) {
			if g.Command == "" || g.Name == "" || g.Timeout < time.Second || g.When != gate.Task && g.When != gate.Final {
				t.Errorf("unfit gate: %+v", g)
			}
		}
	})
}
