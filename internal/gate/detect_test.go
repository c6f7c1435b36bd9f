package gate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
)

// root is a directory of these files; what has a slash makes a folder.
func root(m map[string]string) gate.Root {
	var names []string
	for name := range m {
		if dir, _, nested := strings.Cut(name, "/"); nested {
			name = dir + "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return gate.Root{Names: slices.Compact(names), Read: func(name string) ([]byte, bool) {
		s, ok := m[name]
		return []byte(s), ok
	}}
}

type tree = map[string]string

func TestDetect(t *testing.T) {
	t.Parallel()
	const scripts = `{"scripts":{"test":"vitest","lint":"eslint .","typecheck":"tsc","build":"vite build"}}`
	tests := []struct {
		name  string
		files tree
		// want holds "kind: command", with a ~ before advisory ones.
		want []string
	}{
		{"nothing", nil, nil},
		{"go module", tree{"go.mod": "module m\n"}, []string{"typecheck: go vet ./...", "test: go test -v ./..."}},
		{
			"go module with a linter", tree{"go.mod": "module m\n", ".golangci.yml": ""},
			[]string{"typecheck: go vet ./...", "test: go test -v ./...", "~lint: golangci-lint run"},
		},

		{
			"make test wins", tree{"go.mod": "module m\n", "Makefile": "all:\n\ntest: all\n\tgo test\n"},
			[]string{"test: make test"},
		},
		{"make without prerequisites", tree{"Makefile": "test:\n\ttrue\n"}, []string{"test: make test"}},
		{
			"make check and lint", tree{"Makefile": "check: ; ./run\nlint:\n\t./lint\n"},
			[]string{"test: make check", "~lint: make lint"},
		},
		{"make test before check", tree{"Makefile": "check: test\ntest:\n\t./run\n"}, []string{"test: make test"}},
		{
			"several targets in a line", tree{"Makefile": "lint test:\n\t./$@\n"},
			[]string{"test: make test", "~lint: make lint"},
		},
		{
			"make lint beside go", tree{"go.mod": "module m\n", ".golangci.yml": "", "Makefile": "lint:\n\t./lint\n"},
			[]string{"~lint: make lint", "typecheck: go vet ./...", "test: go test -v ./..."},
		},
		{"GNUmakefile is read first", tree{"GNUmakefile": "all:\n\ttrue\n", "Makefile": "test:\n\ttrue\n"}, nil},
		{"make variable", tree{"Makefile": "test := 1\nlint = 2\ncheck ?= 3\ntest ::= 4\n"}, nil},
		{"make variable of a target", tree{"Makefile": "test: export A = 1\n"}, nil},
		{"make phony only", tree{"Makefile": ".PHONY: test lint\nall:\n\ttrue\n"}, nil},
		{"make target that does nothing", tree{"Makefile": ".PHONY: test\ntest:\n"}, nil},
		{"make other target", tree{"Makefile": "tests:\n\ttrue\nunit-test:\n\ttrue\n"}, nil},
		{"make comment", tree{"Makefile": "# test: run\n"}, nil},
		{"make recipe that looks like a target", tree{"Makefile": "all:\n\ttest: x\n"}, nil},
		{
			"just", tree{"justfile": "set shell := [\"sh\"]\ntest *args:\n  go test\n@lint:\n  x\n"},
			[]string{"test: just test", "~lint: just lint"},
		},
		{"just variable", tree{"justfile": "test := \"x\"\n"}, nil},
		{
			"task", tree{"Taskfile.yml": "version: '3'\nvars:\n  lint: x\ntasks:\n  test:\n    cmds: [x]\n"},
			[]string{"test: task test"},
		},

		{
			"npm", tree{"package.json": `{"scripts":{"test":"node --test"}}`, "package-lock.json": "{}"},
			[]string{"test: npm test"},
		},
		{
			"all scripts", tree{"package.json": scripts},
			[]string{"test: npm test", "typecheck: npm run typecheck", "~lint: npm run lint", "build: npm run build"},
		},
		{
			"pnpm by its lock", tree{"package.json": scripts, "pnpm-lock.yaml": ""},
			[]string{"test: pnpm test", "typecheck: pnpm run typecheck", "~lint: pnpm run lint", "build: pnpm run build"},
		},
		{
			"yarn by its lock", tree{"package.json": `{"scripts":{"test":"jest"}}`, "yarn.lock": ""},
			[]string{"test: yarn test"},
		},
		{
			"manager named", tree{"package.json": `{"packageManager":"pnpm@9.1.0","scripts":{"test":"jest"}}`, "yarn.lock": ""},
			[]string{"test: pnpm test"},
		},
		{
			"manager nobody knows", tree{"package.json": `{"packageManager":"$(x)@1","scripts":{"test":"jest"}}`},
			[]string{"test: npm test"},
		},
		{
			"npm init's own script", tree{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`},
			nil,
		},
		{
			"root of a monorepo", tree{"package.json": `{"workspaces":["packages/*"],"scripts":{"build":"turbo build"}}`},
			[]string{"build: npm run build"},
		},
		{"broken package.json", tree{"package.json": `{"scripts":`}, nil},
		{"scripts of another type", tree{"package.json": `{"scripts":["test"]}`}, nil},
		{
			"go and npm", tree{"go.mod": "module m\n", "package.json": `{"scripts":{"test":"x","lint":"y"}}`},
			[]string{"typecheck: go vet ./...", "test: go test -v ./...", "test: npm test", "~lint: npm run lint"},
		},

		{
			"pytest",
			tree{"pyproject.toml": "[project]\ndependencies=['pytest']\n[tool.ruff]\n[tool.mypy]\n", "tests/test_a.py": ""},
			[]string{"test: python3 -m pytest", "typecheck: python3 -m mypy .", "~lint: ruff check ."},
		},
		{
			"pytest in the requirements", tree{"requirements-dev.txt": "pytest==8\n", "test_a.py": ""},
			[]string{"test: python3 -m pytest"},
		},
		{"unittest", tree{"setup.py": "", "tests/test_a.py": ""}, []string{"test: python3 -m unittest discover -s tests"}},
		{
			"unittest at the root", tree{"setup.cfg": "[flake8]\n", "test_a.py": ""},
			[]string{"test: python3 -m unittest discover", "~lint: python3 -m flake8"},
		},
		{"tox", tree{"tox.ini": "[testenv]\ncommands = nose\n", "tests/test_a.py": ""}, []string{"test: tox"}},
		{"python without tests", tree{"pyproject.toml": "[project]\n", "app.py": ""}, nil},
		{"tests of something else", tree{"tests/a.rb": ""}, nil},

		{"rust", tree{"Cargo.toml": "[package]\n"}, []string{"test: cargo test", "~lint: cargo clippy --all-targets"}},
		{
			"rust workspace", tree{"Cargo.toml": "[workspace]\n"},
			[]string{"test: cargo test --workspace", "~lint: cargo clippy --all-targets"},
		},
		{"maven", tree{"pom.xml": ""}, []string{"test: mvn -B -ntp test"}},
		{"maven wrapper", tree{"pom.xml": "", "mvnw": ""}, []string{"test: ./mvnw -B -ntp test"}},
		{"gradle", tree{"build.gradle.kts": ""}, []string{"test: gradle --console=plain test"}},
		{"gradle wrapper", tree{"build.gradle": "", "gradlew": ""}, []string{"test: ./gradlew --console=plain test"}},
		{
			"rspec", tree{"Gemfile": "gem 'rspec'\n", "spec/a_spec.rb": "", ".rubocop.yml": ""},
			[]string{"test: bundle exec rspec", "~lint: bundle exec rubocop"},
		},
		{"rake", tree{"Rakefile": "Rake::TestTask.new\n"}, []string{"test: rake test"}},
		{"rake without tests", tree{"Rakefile": "task :deploy\n"}, nil},
		{
			"composer", tree{"composer.json": `{"scripts":{"test":["phpunit"],"lint":"x"}}`, "phpunit.xml": ""},
			[]string{"test: composer test", "~lint: composer lint"},
		},
		{
			"phpunit", tree{"composer.json": `{}`, "phpunit.xml.dist": "", "phpstan.neon": ""},
			[]string{"test: vendor/bin/phpunit", "typecheck: vendor/bin/phpstan analyse --no-progress"},
		},
		{"dotnet solution", tree{"App.sln": ""}, []string{"test: dotnet test"}},
		{"dotnet project", tree{"App.csproj": ""}, []string{"test: dotnet test"}},
		{
			"cmake with tests", tree{"CMakeLists.txt": "project(x)\nenable_testing()\n"},
			[]string{
				"test: cmake -S . -B build-ralph && cmake --build build-ralph && ctest --test-dir build-ralph --output-on-failure",
			},
		},
		{
			"cmake without tests", tree{"CMakeLists.txt": "project(x)\n# enable_testing()\n"},
			[]string{"build: cmake -S . -B build-ralph && cmake --build build-ralph"},
		},
		{
			"meson", tree{"meson.build": ""},
			[]string{"test: meson setup build-ralph && meson test -C build-ralph --print-errorlogs"},
		},
		{"plain make of C", tree{"Makefile": "all: a.o\n", "a.c": ""}, []string{"build: make"}},
		{"plain make of something else", tree{"Makefile": "all: x\n"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, g := range gate.Detect(root(tt.files)) {
				line := string(g.Kind) + ": " + g.Command
				if g.Advisory {
					line = "~" + line
				}
				got = append(got, line)
				if g.When != gate.Task || g.Timeout != gate.DefaultTimeout || !g.Detected || g.Name == "" {
					t.Errorf("gate %+v lacks its defaults", g)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPrepare: dependencies are those of the lock file, where there is one.
func TestPrepare(t *testing.T) {
	t.Parallel()
	const pkg = `{"scripts":{"test":"x"}}`
	tests := []struct {
		name  string
		files tree
		want  gate.Prepare
	}{
		{
			"npm", tree{"package.json": pkg, "package-lock.json": "{}"},
			gate.Prepare{Command: "npm ci --no-audit --no-fund", Inputs: "package.json package-lock.json", Keep: "node_modules"},
		},
		{"npm without a lock file", tree{"package.json": pkg}, gate.Prepare{}},
		{
			"yarn 1", tree{"package.json": pkg, "yarn.lock": "# yarn lockfile v1\n"},
			gate.Prepare{Command: "yarn install --frozen-lockfile", Inputs: "package.json yarn.lock", Keep: "node_modules"},
		},
		{
			"yarn", tree{"package.json": pkg, "yarn.lock": "__metadata:\n"},
			gate.Prepare{Command: "yarn install --immutable", Inputs: "package.json yarn.lock", Keep: "node_modules"},
		},
		{"pip", tree{"requirements.txt": "", "requirements-dev.txt": "pytest", "tests/a.py": ""}, gate.Prepare{
			Command: "python3 -m venv --system-site-packages .venv && .venv/bin/pip install -q -r requirements.txt -r requirements-dev.txt",
			Inputs:  "requirements.txt requirements-dev.txt", Keep: ".venv",
		}},
		{"go needs none", tree{"go.mod": "module m"}, gate.Prepare{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			gates := gate.Detect(root(tt.files))
			if len(gates) == 0 {
				t.Fatal("no gates")
			}
			for _, g := range gates {
				if diff := cmp.Diff(tt.want, g.Prepare); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestPrepareOfPython: each lock file says how packages get there.
func TestPrepareOfPython(t *testing.T) {
	t.Parallel()
	for lock, want := range map[string]string{
		"uv.lock": "uv sync", "poetry.lock": "poetry install", "Pipfile.lock": "pipenv sync", "requirements.txt": "pip install",
	} {
		gates := gate.Detect(root(tree{"pyproject.toml": "[tool.pytest.ini_options]\n", "tests/test_a.py": "", lock: "pytest\n"}))
		if len(gates) == 0 || !strings.Contains(gates[0].Prepare.Command, want) || gates[0].Prepare.Keep != ".venv" {
			t.Errorf("%s: %+v", lock, gates)
		}
	}
}

func TestUnionKeepsGatesOfTheBase(t *testing.T) {
	t.Parallel()
	base := gate.Detect(root(tree{"go.mod": "module m\n"}))
	proposed := gate.Detect(root(tree{"package.json": `{"scripts":{"test":"x"}}`}))
	var got []string
	for _, g := range gate.Union(base, proposed) {
		got = append(got, g.Command)
	}
	if diff := cmp.Diff([]string{"go vet ./...", "go test -v ./...", "npm test"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestApplyQualityToClippy(t *testing.T) {
	t.Parallel()
	gates := gate.Detect(root(tree{"Cargo.toml": "[package]"}))
	q := gate.Quality{ClippyStrict: true, ClippyAllowed: "clippy::needless_return dead_code"}
	got := q.Apply(gates)
	if want := "cargo clippy --all-targets -- -D warnings -A clippy::needless_return -A dead_code"; got[1].Command != want || got[1].Advisory {
		t.Errorf("clippy is %+v, want the blocking command %q", got[1], want)
	}
	if diff := cmp.Diff(gates, gate.Quality{}.Apply(gates)); diff != "" {
		t.Errorf("nothing asked for, yet: %s", diff)
	}
	if diff := cmp.Diff(gates[0], got[0]); diff != "" {
		t.Errorf("another gate changed: %s", diff)
	}
}

// FuzzDetect: no file of a repository makes detection fail or run away.
func FuzzDetect(f *testing.F) {
	f.Add("Makefile", "test: a\\\nb\n\tc\n")
	f.Add("package.json", `{"scripts":{"test":"x"}}`)
	f.Add("composer.json", `{"scripts":{"test":[]}}`)
	f.Add("justfile", "a b:=c\ntest x='y':\n")
	f.Fuzz(func(t *testing.T, name, src string) {
		gates := gate.Detect(root(tree{name: src}))
		if len(gates) > 8 {
			t.Errorf("%d gates of one file", len(gates))
		}
	})
}
