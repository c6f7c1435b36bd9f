package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

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

// prompt is one for a task, by its id or with its title.
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

// The example is played as a run would: plan, then a call per attempt.
func TestGreetingExample(t *testing.T) {
	t.Parallel()
	script := read(t, "testdata", "greeting.yaml")
	dir := tree(t, "# Progress: Greeting\n\n## Status\nPLANNING\n\n## Tasks\n\n## Learnings\n- be brief\n")
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# greet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	act(t, script, dir, prompt("-", run.ModePlan, 1))
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
	if _, got := act(t, script, dir, prompt("T1", run.ModeBuild, 1)); got.Outcome != OutcomeCompleted ||
		got.FinalText != "greet.sh greets by name.\n\nRALPH_RESULT: done" || got.Usage.CostUSD != 0.02 ||
		got.Model != "scripted-demo" || got.ToolCalls != 3 {
		t.Errorf("T1: %+v", got)
	}
	for attempt, german := range []bool{false, true} {
		act(t, script, dir, prompt("T2 Read the language from the environment", run.ModeBuild, attempt+1))
		if got := strings.Contains(read(t, dir, "greet.sh"), "Hallo"); got != german {
			t.Errorf("attempt %d at T2: German %t", attempt+1, got)
		}
	}
	act(t, script, dir, prompt("T3", run.ModeBuild, 1))
	if s := read(t, dir, "README.md"); s != "# greet\n\n## Greeting\n\n`greet.sh NAME` greets.\n" {
		t.Errorf("README.md:\n%s", s)
	}
	want = strings.ReplaceAll(want, "- [ ]", "- [x]") + "- greet.sh is plain sh; keep it that way\n"
	if diff := cmp.Diff(want, read(t, dir, progressFile)); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// Which step serves which call, and what is written to the plan.
func TestScriptSteps(t *testing.T) {
	t.Parallel()
	const script = `
tasks:
  T1: [{say: by id}]
  language: [{say: by title}]
  "the language": [{say: by longer title}]
default: [{say: default 1}, {say: default 2}]
split:
  Greet: [{add_tasks: [{title: Say hello, accept: [it says hello]}, {title: Say the name}]}]
review: [{add_tasks: [{title: Say goodbye}]}, {say: Nothing more.}]
verify: {T1: [{say: "RALPH_VERIFY: agreed"}]}
`
	for _, tt := range []struct {
		task       string
		mode       run.Mode
		attempt    int
		say, tasks string
	}{
		{"T1", run.ModeBuild, 7, "by id", ""},
		{"T2 Read the language", run.ModeBuild, 1, "by longer title", ""},
		{"T5 A language like T1", run.ModeBuild, 1, "by title", ""},
		{"T10 Describe it", run.ModeBuild, 1, "default 1", ""},
		{"T10 Describe it", run.ModeBuild, 3, "default 2", ""},
		{"T1 Greet by name", "split", 4, "Finished what was asked.", "- [ ] Say hello\n  - Accept: it says hello\n- [ ] Say the name\n"},
		{"T2 Read the language", "split", 4, "Finished what was asked.", ""},
		{"-", "review", 1, "Finished what was asked.", "- [ ] Say goodbye\n"},
		{"-", "review", 2, "Nothing more.", ""},
		{"T1", "verify", 1, "RALPH_VERIFY: agreed", ""},
		{"T2", "verify", 1, "RALPH_VERIFY: not agreed: the script does not say that it is done", ""},
	} {
		dir := tree(t, progressText)
		code, got := act(t, script, dir, prompt(tt.task, tt.mode, tt.attempt))
		if code != 0 || got.Outcome != OutcomeCompleted || got.FinalText != tt.say {
			t.Errorf("%s, %s: exit %d, said %q, want %q", tt.mode, tt.task, code, got.FinalText, tt.say)
		}
		want := strings.Replace(progressText, "- [ ] T10 Describe it\n", "- [ ] T10 Describe it\n"+tt.tasks, 1)
		if diff := cmp.Diff(want, read(t, dir, progressFile)); diff != "" {
			t.Errorf("%s, %s: %s", tt.mode, tt.task, diff)
		}
	}
	// Without a step the agent says so rather than pretending.
	if code, got := act(t, "model: m\n", tree(t, progressText), prompt("T1", run.ModeBuild, 1)); code != 1 ||
		got.Outcome != OutcomeErrored || !strings.Contains(got.Error, `"T1"`) {
		t.Errorf("exit %d, %+v", code, got)
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
	ticked := strings.Replace(progressText, "- [ ] T1 ", "- [x] T1 ", 1)
	for kind, want := range map[string]struct {
		exit     int
		outcome  Outcome
		progress string // where it worked; "" where it did not
		bad      int    // lines that are no events
	}{
		misNothing:         {0, OutcomeCompleted, "", 0},
		misGarbage:         {0, OutcomeEmpty, ticked, 5},
		misHugeLine:        {0, OutcomeCompleted, ticked, 1},
		misSymlinkProgress: {0, OutcomeCompleted, "link", 0},
		misTickAll:         {0, OutcomeCompleted, strings.ReplaceAll(progressText, "- [ ]", "- [x]"), 0},
		misDoneEarly:       {0, OutcomeCompleted, strings.Replace(ticked, "IN_PROGRESS", "RALPH"+"_DONE", 1), 0},
		misIsError:         {1, OutcomeErrored, "", 0},
		misRateLimit:       {1, OutcomeRateLimited, "", 0},
		misCrash:           {1, OutcomeEmpty, ticked, 0},
		misEscapeWrite:     {0, OutcomeCompleted, ticked, 0},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := tree(t, progressText)
			code, got := act(t, "tasks: {T1: [{files: {a.txt: hello}, tick: true, say: did it, misbehave: '"+kind+"'}]}\n", dir,
				prompt("T1", run.ModeBuild, 1))
			if code != want.exit || got.Outcome != want.outcome || got.BadLines != want.bad {
				t.Errorf("exit %d, %+v", code, got)
			}
			if worked := read(t, dir, "a.txt") == "hello"; worked != (want.progress != "") {
				t.Errorf("worked: %t", worked)
			}
			if want.progress == "link" {
				if to, err := os.Readlink(filepath.Join(dir, progressFile)); err != nil || to != "/etc/passwd" {
					t.Errorf("link to %q: %v", to, err)
				}
			} else if diff := cmp.Diff(firstOf(want.progress, progressText), read(t, dir, progressFile)); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if escaped := read(t, filepath.Dir(dir), "escaped-by-agent") != ""; escaped != (kind == misEscapeWrite) {
				t.Errorf("wrote beside the work tree: %t", escaped)
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

func TestRunScriptErrors(t *testing.T) {
	t.Parallel()
	linked := tree(t, progressText)
	if err := os.Symlink(filepath.Dir(linked), filepath.Join(linked, "out")); err != nil {
		t.Fatal(err)
	}
	build := prompt("T1", run.ModeBuild, 1)
	for name, tt := range map[string]struct {
		script, prompt, dir string
		out                 io.Writer
		err                 string
	}{
		"unknown key":           {"tasks:\n  T1:\n    - filez: {a: b}\n", "", linked, io.Discard, "[3:7]"},
		"unknown misbehaviour":  {"tasks: {T1: [{}, {misbehave: evil}]}", "", linked, io.Discard, `unknown misbehaviour "evil"`},
		"no work tree":          {"", "", filepath.Join(t.TempDir(), "no"), io.Discard, "open work tree"},
		"stdout closed":         {"", "", linked, failing{errors.New("disk full")}, "disk full"},
		"no progress file":      {"default: [{tick: true}]", "Task: T1\nMode: build\n", linked, io.Discard, "names no progress file"},
		"progress file outside": {"default: [{tick: true}]", "Task: T1\nProgress file: ../../x\n", linked, io.Discard, "read progress file"},
		"path out of the tree":  {"default: [{files: {../x: y}}]", build, linked, io.Discard, "escapes"},
		"link out of the tree":  {"default: [{files: {out/x.txt: y}}]", build, linked, io.Discard, "escapes"},
	} {
		code, err := RunScript(t.Context(), []byte(tt.script), strings.NewReader(tt.prompt), tt.out, tt.dir)
		if code == 0 || err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: exit %d, error %v, want one with %q", name, code, err, tt.err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
