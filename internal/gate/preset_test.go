package gate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	const vulnerabilities, dead = "preset:vulnerabilities", "preset:dead-code"
	tests := []struct {
		name, command string
		files         tree
		want          []string
	}{
		{"go", vulnerabilities, tree{"go.mod": "module m\n"}, []string{"vulnerabilities: govulncheck ./..."}},
		{"npm", vulnerabilities, tree{"package.json": "{}", "package-lock.json": "{}"}, []string{"vulnerabilities: npm audit"}},
		{"pnpm", vulnerabilities, tree{"package.json": "{}", "pnpm-lock.yaml": ""}, []string{"vulnerabilities: pnpm audit"}},
		{
			"yarn of today", vulnerabilities, tree{"package.json": "{}", "yarn.lock": "__metadata:\n"},
			[]string{"vulnerabilities: yarn npm audit --all --recursive"},
		},
		{
			"old yarn", vulnerabilities, tree{"package.json": "{}", "yarn.lock": "# yarn lockfile v1\n"},
			[]string{"vulnerabilities: yarn audit"},
		},
		{"no lock file", vulnerabilities, tree{"package.json": "{}"}, nil},
		{
			"several", vulnerabilities, tree{"go.mod": "module m\n", "requirements.txt": "flask\n", "Cargo.toml": "[package]"},
			[]string{
				"vulnerabilities (govulncheck): govulncheck ./...",
				"vulnerabilities (pip-audit): pip-audit -r requirements.txt", "vulnerabilities (cargo audit): cargo audit",
			},
		},
		{"pyproject", vulnerabilities, tree{"pyproject.toml": "[project]"}, []string{"vulnerabilities: pip-audit ."}},
		{
			"ruby and php", vulnerabilities, tree{"Gemfile.lock": "", "composer.lock": "{}"},
			[]string{
				"vulnerabilities (bundler-audit): bundle-audit check --update", "vulnerabilities (composer): composer audit",
			},
		},
		{"nothing", vulnerabilities, tree{"README.md": "#"}, nil},
		{
			"dead go", dead, tree{"go.mod": "module m\n"},
			[]string{`dead-code: found=$(deadcode -test ./...) && { printf '%s\n' "$found"; test -z "$found"; }`},
		},
		{
			"knip", dead, tree{"package.json": `{"devDependencies":{"knip":"6"}}`, "package-lock.json": "{}"},
			[]string{"dead-code: npx --no-install knip"},
		},
		{"no knip", dead, tree{"package.json": `{"devDependencies":{"jest":"6"}}`}, nil},
		{"vulture", dead, tree{"setup.py": ""}, []string{"dead-code: vulture . --exclude .venv,node_modules"}},
		{"vulture set up", dead, tree{"pyproject.toml": "[tool.vulture]\n"}, []string{"dead-code: vulture"}},
		{
			"rust", dead, tree{"Cargo.toml": "[package]"},
			[]string{`dead-code: RUSTFLAGS="-D dead_code" cargo check --workspace --all-targets`},
		},
		{"a command of its own", "make test", tree{"go.mod": "module m\n"}, []string{"make test: make test"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			asked := []gate.Gate{gate.Gate{Command: tt.command, When: gate.Final}.WithDefaults()}
			if got, want := gate.HasPresets(asked), strings.HasPrefix(tt.command, "preset:"); got != want {
				t.Errorf("HasPresets = %t, want %t", got, want)
			}
			gates, told := gate.Resolve(asked, root(tt.files))
			var got []string
			for _, g := range gates {
				got = append(got, g.Name+": "+g.Command)
				if g.When != gate.Final || g.Detected || g.Timeout != gate.DefaultTimeout {
					t.Errorf("%s is not as it was asked for: %+v", g.Name, g)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if told := len(told) > 0; told != (len(tt.want) == 0) {
				t.Errorf("told of what checks nothing: %t", told)
			}
		})
	}
}

func TestCheckPreset(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"preset:dead-code": "", "preset:vulnerabilities": "", "make test": "",
		"preset:nothing": `there is no gate "preset:nothing"`, "preset:": `there is no gate "preset:"`,
	} {
		got := ""
		if err, ok := errors.AsType[*run.UserError](gate.CheckPreset(command)); ok {
			got = err.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// What was there before the work began is told by its name, wherever it stands now.
func TestAudited(t *testing.T) {
	t.Parallel()
	const output = `=== Symbol Results ===

Vulnerability #1: GO-2023-1571
    Denial of service via crafted HTTP/2 stream in net/http
  More info: https://pkg.go.dev/vuln/GO-2023-1571

Severity: high
Command Injection in lodash - https://github.com/advisories/GHSA-35jh-r3h4-6jhm
│ More info           │ https://github.com/advisories/GHSA-jf85-cpcp-j695      │
ID:        RUSTSEC-2020-0071
Name  Version ID             Fix Versions
----- ------- -------------- ------------
flask 0.5     PYSEC-2019-179 1.0
flask 0.5     GHSA-562c-5r94-xh97 0.12.3
internal/x/x.go:12:6: unreachable func: Reader.rest
pkg/mod.py:7: unused function 'old' (60% confidence)
see https://github.com/advisories/GHSA-aaaa-bbbb-cccc for more
`
	got := gate.Read(output).FailedTests
	want := []string{
		"GHSA-35jh-r3h4-6jhm", "GHSA-562c-5r94-xh97", "GHSA-jf85-cpcp-j695", "GO-2023-1571", "PYSEC-2019-179",
		"RUSTSEC-2020-0071", "internal/x/x.go: Reader.rest", "pkg/mod.py: unused function 'old'",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q\nwant  %q", got, want)
	}
}

// A tool that is not there, or cannot ask its service, says nothing of the work.
func TestMissingTools(t *testing.T) {
	t.Parallel()
	files := tree{
		"go.mod": "module m\n", "package.json": `{"devDependencies":{"knip":"6"}}`, "package-lock.json": "{}",
		"requirements.txt": "flask\n", "Cargo.toml": "[package]",
	}
	for _, tt := range []struct {
		preset, tool, output string
		code                 int
		want, provide        string
	}{
		{"vulnerabilities", "govulncheck", "sh: 1: govulncheck: not found\n", 127, "govulncheck: command not found", "go install golang.org/x/vuln"},
		{
			"vulnerabilities", "govulncheck",
			"govulncheck: fetching vulnerabilities: Get \"https://vuln.go.dev/index/modules.json.gz\": Forbidden\n", 1,
			"cannot reach vuln.go.dev", "reach vuln.go.dev",
		},
		{"vulnerabilities", "npm", "npm error audit endpoint returned an error\n", 1, "cannot reach audit endpoint", "registry.npmjs.org"},
		{"vulnerabilities", "cargo audit", "error: no such command: `audit`\n", 101, "cargo has no command audit", "cargo-audit"},
		{"vulnerabilities", "cargo audit", "error: couldn't fetch advisory database: git operation failed\n", 1, "cannot reach advisory database", "github.com"},
		{
			"vulnerabilities", "pip-audit", "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='pypi.org', port=443): Max retries\n",
			1, "cannot reach pypi.org", "pip install pip-audit",
		},
		{"dead-code", "deadcode", "sh: 1: deadcode: not found\n", 127, "deadcode: command not found", "go install golang.org/x/tools/cmd/deadcode"},
		{
			"dead-code", "knip", "npm error npx canceled due to missing packages and no YES option: [\"knip@6.44.2\"]\n", 1,
			"knip: command not found", "devDependencies",
		},
		{"dead-code", "vulture", "sh: 1: vulture: not found\n", 127, "vulture: command not found", "pip install vulture"},
	} {
		gates, _ := gate.Resolve([]gate.Gate{gate.Gate{Command: "preset:" + tt.preset}.WithDefaults()}, root(files))
		i := slices.IndexFunc(gates, func(g gate.Gate) bool { return strings.HasSuffix(g.Name, "("+tt.tool+")") })
		if i < 0 {
			t.Fatalf("no %s in %v", tt.tool, gates)
		}
		if got := gate.Missing(gates[i], gate.Result{Reason: "exited", ExitCode: tt.code, Output: tt.output}); got != tt.want {
			t.Errorf("%s: missing %q, want %q", tt.tool, got, tt.want)
		}
		if got := gate.Provide(gates[i]); !strings.Contains(got, tt.provide) {
			t.Errorf("%s: to provide it, %q", tt.tool, got)
		}
	}
}
