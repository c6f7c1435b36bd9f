package gate_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

func TestMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		command string
		code    int
		output  string
		named   bool // by a person
		passed  int
		want    string
	}{
		{name: "no pytest", command: "python3 -m pytest", code: 1, output: "/usr/bin/python3: No module named pytest\n", want: "No module named pytest"},
		{
			name: "a module that the work is about", command: "python3 -m pytest", code: 2,
			output: "E   ModuleNotFoundError: No module named 'slug'\n",
		},
		{
			name: "something ran", command: "make test", code: 1, passed: 3,
			output: "sh: 1: vitest: not found\n",
		},
		{name: "dash", command: "cargo test", code: 127, output: "sh: 1: cargo: not found\n", want: "cargo: command not found"},
		{name: "bash", command: "mvn -B test", code: 127, output: "sh: line 1: mvn: command not found\n", want: "mvn: command not found"},
		{name: "silent", command: "cargo test", code: 127, want: "cargo: command not found"},
		{
			name: "below make", command: "make test", code: 2,
			output: "make: pytest: No such file or directory\nmake: *** [Makefile:2: test] Error 127\n", want: "pytest: command not found",
		},
		{name: "below npm", command: "npm test", code: 127, output: "sh: 1: vitest: not found\n", want: "vitest: command not found"},
		{
			name: "a script of the tree that a person named", command: "./check.sh", named: true, code: 127,
			output: "sh: 1: ./check.sh: not found\n",
		},
		{
			name: "a wrapper", command: "./mvnw -B test", code: 126, output: "sh: 1: ./mvnw: Permission denied\n",
			want: "./mvnw: cannot be executed",
		},
		{name: "a file of the work", command: "npm test", code: 1, output: "Error: Cannot find module './slug'\n"},
		{
			name: "gems", command: "bundle exec rspec", code: 7,
			output: "Could not find rake-13.0.6, rspec-3.12.0 in locally installed gems\n",
			want:   "Could not find rake-13.0.6, rspec-3.12.0 in locally installed gems",
		},
		{name: "no clippy", command: "cargo clippy", code: 101, output: "error: no such command: `clippy`\n", want: "no such command: `clippy`"},
		{name: "no network", command: "go test ./...", code: 1, output: "x.go:3:2: m@v1: Get \"https://proxy.golang.org/m\": dial tcp: lookup proxy.golang.org on 1.1.1.1:53: no such host\n", want: "dial tcp: lookup proxy.golang.org"},
		{name: "it failed", command: "go test ./...", code: 1, output: "--- FAIL: TestX (0.00s)\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := gate.Missing(gate.Gate{Command: tt.command, Detected: !tt.named}, gate.Result{
				ExitCode: tt.code, Reason: "exited", Output: tt.output, Facts: gate.Facts{Passed: tt.passed},
			})
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// What lacks something is excused only where the same was lacking before the work
// began: a proposal cannot excuse itself.
func TestJudgeUnrunnable(t *testing.T) {
	t.Parallel()
	absent := func(what string) gate.Result { return gate.Result{ExitCode: 1, Reason: "exited", Missing: what} }
	fails := gate.Result{ExitCode: 1, Reason: "exited"}
	ref := func(r gate.Result) *gate.Result { return &r }
	for _, tt := range []struct {
		name  string
		gate  gate.Gate
		first gate.Result
		base  *gate.Result
		want  gate.Standing
		need  gate.Need
	}{
		{name: "asks for the base", first: absent("No module named x"), need: gate.Baseline},
		{name: "as before", first: absent("No module named x"), base: ref(absent("No module named x")), want: gate.Unrunnable},
		{
			name: "for a person's check", gate: gate.Gate{When: gate.Final}, first: absent("No module named x"),
			base: ref(absent("No module named x")), want: gate.Unrunnable,
		},
		{name: "something else", first: absent("No module named y"), base: ref(absent("No module named x")), want: gate.Failed},
		{name: "it ran before", first: absent("No module named x"), base: ref(gate.Result{Passed: true}), want: gate.Failed},
		{
			name: "it runs now, and fails", gate: gate.Gate{Detected: true}, first: fails,
			base: ref(absent("No module named x")), want: gate.Failed,
		},
		{name: "advisory", gate: gate.Gate{Advisory: true}, first: absent("x: command not found"), want: gate.Unrunnable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, need := gate.Judge(tt.gate, gate.Quality{}, run.Task{Title: "Add a slug"}, gate.Results{First: tt.first, Base: tt.base})
			if v.Standing != tt.want || need != tt.need {
				t.Errorf("%q, need %d; want %q, %d", v.Standing, need, tt.want, tt.need)
			}
			if v.Standing == gate.Unrunnable && (v.Note != tt.first.Missing || v.Standing.Holds()) {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

// Each ecosystem's lock file says how its packages get there.
func TestDetectPreparesPython(t *testing.T) {
	t.Parallel()
	for lock, want := range map[string]string{
		"uv.lock": "uv sync", "poetry.lock": "poetry install", "Pipfile.lock": "pipenv sync", "requirements.txt": "pip install",
	} {
		gates := gate.Detect(root(tree{
			"pyproject.toml":  "[project]\ndependencies = [\"Requests_Cache>=2\", 'httpx[http2]']\n[tool.pytest.ini_options]\n",
			"tests/test_a.py": "", lock: "pytest\n",
		}))
		if len(gates) == 0 || !strings.Contains(gates[0].Prepare.Command, want) || gates[0].Prepare.Keep != ".venv" {
			t.Errorf("%s: %+v", lock, gates)
		}
	}
}
