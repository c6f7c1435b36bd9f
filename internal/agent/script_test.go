package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
)

// asAgent in the environment makes the test binary the scripted agent.
const asAgent = "RALPH_TEST_AS_SCRIPT_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		script, err := os.ReadFile(os.Args[3])
		if err == nil {
			var code int
			// Who waits for a signal is not taken for one that waits for ever.
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			code, err = RunScript(ctx, script, os.Stdin, os.Stdout, ".")
			if stop(); err == nil {
				os.Exit(code)
			}
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// agentEnv also tells the race detector not to wait a second at the exit.
func agentEnv() []string { return []string{asAgent + "=1", "GORACE=atexit_sleep_ms=0"} }

const progressFile = ".ralph/7/progress.md"

const progressText = `<!-- ralph: issue 7 -->
# Progress: Greeting

## Status
IN_PROGRESS

## Tasks
- [ ] T1 (P1) Greet by name
- [ ] T2 (P1) Read the language from the environment
- [ ] T10 Describe it

## Learnings

## Iteration Log
| Iteration | Started | Duration | Tasks Completed | Notes |
|-----------|---------|----------|-----------------|-------|
`

// tree makes a work tree with a progress file, below a directory of its own so
// that what escapes it is seen.
func tree(t *testing.T, progress string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.MkdirAll(filepath.Join(dir, ".ralph", "7"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, progressFile), []byte(progress), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func prompt(task string, mode run.Mode, attempt int) string {
	return fmt.Sprintf("You work on one task.\n\nTask: %s\nProgress file: %s\nMode: %s\nAttempt: %d\n\nThe plan:\nTask: T99\n", task, progressFile, mode, attempt)
}

// act runs the agent in this process and gives its exit code and result.
func act(t *testing.T, script, dir, prompt string) (int, Result) {
	t.Helper()
	p := newFeed(nil, &claudeDialect{})
	code, err := RunScript(t.Context(), []byte(script), strings.NewReader(prompt), p, dir)
	if err != nil {
		t.Fatal(err)
	}
	return code, p.Close()
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The example is played as a run would: plan, then a process per attempt.
func TestGreetingExample(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	backend := lookup(t, "script", Options{ScriptFile: "testdata/greeting.yaml", Self: self})
	dir := tree(t, "# Progress: Greeting\n\n## Status\nPLANNING\n\n## Tasks\n\n## Learnings\n- be brief\n")
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# greet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(task string, mode run.Mode, attempt int) Result {
		t.Helper()
		cmd, err := backend.Command(Invocation{Sandbox: SandboxLocal, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		parser := backend.NewParser(nil)
		_, err = proc.Run(t.Context(), proc.Cmd{
			Path: cmd.Argv[0], Args: cmd.Argv[1:], Dir: dir, Env: agentEnv(),
			Stdin: strings.NewReader(prompt(task, mode, attempt)), Stdout: parser,
		})
		if err != nil {
			t.Fatal(err)
		}
		return parser.Close()
	}

	start("none", run.ModePlan, 1)
	want := "# Progress: Greeting\n\n## Status\nPLANNING\n\n## Tasks\n" +
		"- [ ] Greet by name\n  - Accept: `greet Ada` prints `Hello, Ada!`\n" +
		"- [ ] Read the language from the environment\n  - Accept: `LANG=de greet Ada` prints `Hallo, Ada!`\n" +
		"- [ ] Describe it in the README\n\n## Learnings\n- be brief\n"
	if diff := cmp.Diff(want, read(t, dir, progressFile)); diff != "" {
		t.Fatalf("plan (-want +got):\n%s", diff)
	}
	// The host numbers the tasks.
	for i, title := range []string{"Greet by", "Read the", "Describe"} {
		want = strings.Replace(want, "- [ ] "+title, fmt.Sprintf("- [ ] T%d %s", i+1, title), 1)
	}
	if err := os.WriteFile(filepath.Join(dir, progressFile), []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}

	got := start("T1", run.ModeBuild, 1)
	if got.Outcome != OutcomeCompleted || got.FinalText != "greet.sh greets by name.\n\nRALPH_RESULT: done" ||
		got.Usage.CostUSD != 0.02 || got.Model != "scripted-demo" || got.ToolCalls != 3 {
		t.Errorf("T1: %+v", got)
	}
	start("T2", run.ModeBuild, 1)
	if s := read(t, dir, "greet.sh"); strings.Contains(s, "Hallo") {
		t.Errorf("the first attempt at T2 did something:\n%s", s)
	}
	start("T2", run.ModeBuild, 2)
	start("T3", run.ModeBuild, 1)
	if s := read(t, dir, "greet.sh"); !strings.Contains(s, "Hallo") {
		t.Errorf("greet.sh:\n%s", s)
	}
	if s := read(t, dir, "README.md"); s != "# greet\n\n## Greeting\n\n`greet.sh NAME` greets.\n" {
		t.Errorf("README.md:\n%s", s)
	}
	want = strings.ReplaceAll(want, "- [ ]", "- [x]") + "- greet.sh is plain sh; keep it that way\n"
	if diff := cmp.Diff(want, read(t, dir, progressFile)); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestScriptSteps(t *testing.T) {
	t.Parallel()
	const script = `
tasks:
  T1: [{say: by id}]
  language: [{say: by title}]
  "the language": [{say: by longer title}]
  T9: [{say: wrong}]
default: [{say: default 1}, {say: default 2}]
`
	tests := []struct {
		task    string
		attempt int
		want    string
	}{
		{"T1", 1, "by id"},
		{"T1", 7, "by id"},
		{"T2", 1, "by longer title"},
		{"T10", 1, "default 1"},
		{"T10", 2, "default 2"},
		{"T10", 3, "default 2"},
		{"T5 A language like T9", 1, "by title"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.task, tt.attempt), func(t *testing.T) {
			t.Parallel()
			code, got := act(t, script, tree(t, progressText), prompt(tt.task, run.ModeBuild, tt.attempt))
			if code != 0 || got.FinalText != tt.want {
				t.Errorf("exit %d, said %q, want %q", code, got.FinalText, tt.want)
			}
		})
	}
}

func TestScriptStateCountsStarts(t *testing.T) {
	t.Parallel()
	dir := tree(t, progressText)
	state := filepath.Join(t.TempDir(), "state.json")
	script := "state: " + state + "\ntasks: {T1: [{misbehave: rate_limit, retry_after: 30}, {say: now}]}\ndefault: [{say: other}]\n"
	_, first := act(t, script, dir, prompt("T1", run.ModeBuild, 1))
	_, other := act(t, script, dir, prompt("T2", run.ModeBuild, 1))
	// A rate limit is no attempt, so the prompt still says 1.
	_, second := act(t, script, dir, prompt("T1", run.ModeBuild, 1))
	if first.Outcome != OutcomeRateLimited || first.RetryAt.IsZero() || other.FinalText != "other" ||
		second.FinalText != "now" {
		t.Errorf("first %+v\nother %+v\nsecond %+v", first, other, second)
	}
}

func TestMisbehaviours(t *testing.T) {
	t.Parallel()
	// Each step also does honest work, so that it shows whether it was done.
	script := func(kind string) string {
		return "tasks: {T1: [{files: {a.txt: hello}, tick: true, say: did it, misbehave: '" + kind + "'}]}\n"
	}
	ticked := strings.Replace(progressText, "- [ ] T1 ", "- [x] T1 ", 1)
	type want struct {
		exit     int
		outcome  Outcome
		work     bool
		progress string // "" means ticked where work is true, else unchanged
	}
	tests := map[string]struct {
		want
		check func(t *testing.T, dir string, r Result)
	}{
		"nothing": {want: want{outcome: OutcomeCompleted}},
		"garbage": {want: want{outcome: OutcomeEmpty, work: true}, check: func(t *testing.T, _ string, r Result) {
			if r.BadLines != r.Lines || r.Lines < 4 {
				t.Errorf("%d of %d lines bad", r.BadLines, r.Lines)
			}
		}},
		"huge_line": {want: want{outcome: OutcomeCompleted, work: true}, check: func(t *testing.T, _ string, r Result) {
			if !r.Truncated || r.BadLines != 1 {
				t.Errorf("truncated %t, %d bad lines", r.Truncated, r.BadLines)
			}
		}},
		"symlink_progress": {want: want{outcome: OutcomeCompleted, work: true, progress: "-"}, check: func(t *testing.T,
			dir string, _ Result) {
			if to, err := os.Readlink(filepath.Join(dir, progressFile)); err != nil || to != "/etc/passwd" {
				t.Errorf("link to %q: %v", to, err)
			}
		}},
		"tick_all": {
			want: want{outcome: OutcomeCompleted, work: true, progress: strings.ReplaceAll(progressText, "- [ ]", "- [x]")},
		},
		"done_early": {
			want: want{outcome: OutcomeCompleted, work: true, progress: strings.Replace(ticked, "IN_PROGRESS", doneMarker(), 1)},
		},
		"is_error":   {want: want{exit: 1, outcome: OutcomeErrored}},
		"rate_limit": {want: want{exit: 1, outcome: OutcomeRateLimited}},
		"crash":      {want: want{exit: 1, outcome: OutcomeEmpty, work: true}},
		"escape_write": {want: want{outcome: OutcomeCompleted, work: true}, check: func(t *testing.T, dir string, _ Result) {
			if read(t, filepath.Dir(dir), "escaped-by-agent") != "escaped\n" {
				t.Error("nothing was written beside the work tree")
			}
		}},
	}
	for _, kind := range Misbehaviours() {
		if _, ok := tests[kind]; !ok && kind != misHang {
			t.Errorf("%s is not tested", kind)
		}
	}
	for kind, tt := range tests {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := tree(t, progressText)
			code, got := act(t, script(kind), dir, prompt("T1", run.ModeBuild, 1))
			if code != tt.exit || got.Outcome != tt.outcome {
				t.Errorf("exit %d, outcome %s (%s), want %d, %s", code, got.Outcome, got.Error, tt.exit, tt.outcome)
			}
			if worked := read(t, dir, "a.txt") == "hello"; worked != tt.work {
				t.Errorf("worked: %t", worked)
			}
			progress := tt.progress
			switch {
			case progress == "" && tt.work:
				progress = ticked
			case progress == "":
				progress = progressText
			}
			if progress != "-" {
				if diff := cmp.Diff(progress, read(t, dir, progressFile)); diff != "" {
					t.Errorf("progress (-want +got):\n%s", diff)
				}
			}
			if tt.check != nil {
				tt.check(t, dir, got)
			}
		})
	}
}

// notify closes seen at the first write.
type notify struct {
	io.Writer
	seen chan struct{}
}

func (n *notify) Write(b []byte) (int, error) {
	if n.seen != nil {
		close(n.seen)
		n.seen = nil
	}
	return n.Writer.Write(b)
}

func TestHangEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan struct{})
	go func() { <-seen; cancel() }()
	p := newFeed(nil, &claudeDialect{})
	code, err := RunScript(ctx, []byte("default: [{misbehave: hang}]"), strings.NewReader(prompt("T1", run.ModeBuild, 1)),
		&notify{p, seen}, tree(t, progressText))
	if err != nil || code != 143 || p.Close().Outcome != OutcomeEmpty {
		t.Errorf("exit %d, %v", code, err)
	}
}

func TestHangEndsWithAKill(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(script, []byte("default: [{misbehave: hang}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan struct{})
	go func() { <-seen; cancel() }()
	p := newFeed(nil, &claudeDialect{})
	_, err = proc.Run(ctx, proc.Cmd{
		Path: self, Args: []string{ScriptCommand, "--script", script}, Dir: tree(t, progressText), Env: agentEnv(),
		Stdin: strings.NewReader(prompt("T1", run.ModeBuild, 1)), Stdout: &notify{p, seen},
	})
	exit, ok := errors.AsType[*proc.ExitError](err)
	if !ok || exit.Signal != syscall.SIGTERM {
		t.Fatalf("ended with %v", err)
	}
	if got := p.Close().WithExit(exit.Code, exit.Signal.String(), "", "", noon); got.Outcome != OutcomeCrashed {
		t.Errorf("outcome %s: %s", got.Outcome, got.Error)
	}
}

func TestParseScript(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, script, err string }{
		{"example", "", ""},
		{"unknown key", "tasks:\n  T1:\n    - filez: {a: b}\n", "[3:7]"},
		{"wrong type", "tasks:\n  T1:\n    - cost_usd: much\n", "[3:17]"},
		{"twice the same key", "model: a\nmodel: b\n", "[2:1]"},
		{
			"unknown misbehaviour", "tasks:\n  T1: [{}, {misbehave: evil}]\n", `tasks, T1, entry 2: unknown misbehaviour "evil"`,
		},
		{"path out of the tree", "default: [{files: {../x: y}}]\n", `path "../x" is not in the work tree`},
		{"absolute path", "default: [{delete: [/etc/passwd]}]\n", "is not in the work tree"},
		{"two lines for a title", "plan: [{title: \"a\\nb\"}]\n", "plan, entry 1: the title must be one line"},
		{
			"no title for an added task", "review: [{}, {add_tasks: [{accept: [a]}]}]\n",
			"review, entry 2: add_tasks, entry 1: the title must be one line",
		},
		{
			"a tool without a name", "split: {T1: [{use: [{file: a}]}]}\n",
			"split, T1, entry 1: use, entry 1: a tool has a name",
		},
		{"a tool without end", "default: [{use: [{tool: Read, times: 1001}]}]\n", "at most 1000 times"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseScript([]byte(tt.script))
			if tt.err == "" && err == nil {
				return
			}
			if tt.err == "" || err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want one with %q", err, tt.err)
			}
		})
	}
}

func TestRunScriptErrors(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	tests := map[string]struct {
		script, prompt, dir string
		out                 io.Writer
		err                 string
	}{
		"bad script":    {script: "x: 1", dir: tree(t, ""), out: io.Discard, err: "parse agent script"},
		"no work tree":  {dir: filepath.Join(t.TempDir(), "no"), out: io.Discard, err: "open work tree"},
		"stdout closed": {dir: tree(t, ""), out: failing{full}, err: "disk full"},
		"no progress file": {
			script: "default: [{tick: true}]", prompt: "Task: T1\nMode: build\n", dir: tree(t, ""), out: io.Discard,
			err: "names no progress file",
		},
		"progress file outside": {
			script: "default: [{tick: true}]", prompt: "Task: T1\nProgress file: ../../x\n", dir: tree(t, ""), out: io.Discard,
			err: "read progress file",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, err := RunScript(t.Context(), []byte(tt.script), strings.NewReader(tt.prompt), tt.out, tt.dir)
			if code == 0 || err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("exit %d, error %v, want one with %q", code, err, tt.err)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// Without a step the agent says so rather than pretending.
func TestScriptWithoutStep(t *testing.T) {
	t.Parallel()
	code, got := act(t, "model: m\n", tree(t, progressText), prompt("T1", run.ModeBuild, 1))
	if code != 1 || got.Outcome != OutcomeErrored || !strings.Contains(got.Error, `"T1"`) {
		t.Errorf("exit %d, %+v", code, got)
	}
}

// What the agent writes goes through links in the tree only as far as the tree.
func TestScriptStaysInTheTree(t *testing.T) {
	t.Parallel()
	dir := tree(t, progressText)
	if err := os.Symlink(filepath.Dir(dir), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_, err := RunScript(t.Context(), []byte("default: [{files: {out/x.txt: y}}]"),
		strings.NewReader(prompt("T1", run.ModeBuild, 1)), &out, dir)
	if err == nil || read(t, filepath.Dir(dir), "x.txt") != "" {
		t.Errorf("wrote through the link: %v", err)
	}
}

// What changes the plan has steps of its own, and what it writes is at the end
// of the tasks.
func TestScriptedSplitAndReview(t *testing.T) {
	t.Parallel()
	const script = `
tasks:
  Greet: [{files: {greeting.txt: "hi"}}]
split:
  Greet: [{add_tasks: [{title: Say hello, accept: [it says hello]}, {title: Say the name}], pattern: Greetings live in one file}]
review: [{add_tasks: [{title: Say goodbye}]}, {say: Nothing more.}]
`
	for _, tt := range []struct {
		name, prompt, want string
	}{
		{
			"split by title", prompt("T1 Greet by name", "split", 4),
			"- [ ] Say hello\n  - Accept: it says hello\n- [ ] Say the name\n",
		},
		{"split of another task", prompt("T2 Read the language", "split", 4), ""},
		{"first review", prompt("-", "review", 1), "- [ ] Say goodbye\n"},
		{"second review", prompt("-", "review", 2), ""},
	} {
		dir := tree(t, progressText)
		code, r := act(t, script, dir, tt.prompt)
		if code != 0 || r.Outcome != OutcomeCompleted {
			t.Errorf("%s: exit %d, %+v", tt.name, code, r)
		}
		if read(t, dir, "greeting.txt") != "" {
			t.Errorf("%s: it worked on the task", tt.name)
		}
		got := read(t, dir, progressFile)
		if changed := got != progressText; changed != (tt.want != "") ||
			!strings.Contains(got, "- [ ] T10 Describe it\n"+tt.want) {
			t.Errorf("%s:\n%s", tt.name, got)
		}
		if pattern := strings.Contains(got, "## Codebase Patterns\n- Greetings live in one file\n"); pattern != (tt.name == "split by title") {
			t.Errorf("%s: patterns\n%s", tt.name, got)
		}
	}
}

// Tools that are only seen leave no trace in the tree.
func TestScriptedToolUse(t *testing.T) {
	t.Parallel()
	dir := tree(t, progressText)
	var seen []Activity
	p := newFeed(func(a Activity) { seen = append(seen, a) }, &claudeDialect{})
	const script = `default: [{use: [{tool: Read, file: a.go, times: 3}, {tool: Bash, command: go test ./...}]}]`
	if _, err := RunScript(t.Context(), []byte(script), strings.NewReader(prompt("T1", run.ModeBuild, 1)), p,
		dir); err != nil {
		t.Fatal(err)
	}
	p.Close()
	var tools []string
	for _, a := range seen {
		if a.Kind == ActivityTool {
			tools = append(tools, a.Tool)
		}
	}
	if diff := cmp.Diff([]string{"Read", "Read", "Read", "Bash"}, tools); diff != "" {
		t.Error(diff)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}
