//go:build act

// The tests in this file run the shipped action.yml in the shipped example
// workflows, with act as GitHub's runner, against a simulated GitHub.

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/action"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// actLine is one line that act says with --json.
type actLine struct {
	Command string            `json:"command"`
	Name    string            `json:"name"`
	Arg     string            `json:"arg"`
	Content string            `json:"content"`
	Msg     string            `json:"msg"`
	Raw     string            `json:"raw"`
	StepID  []string          `json:"stepID"`
	Step    string            `json:"step"`
	Result  string            `json:"stepResult"`
	Job     string            `json:"jobResult"`
	KVPairs map[string]string `json:"kvPairs"`
}

// acted is what became of a workflow.
type acted struct {
	lines []actLine
	text  string
	code  int
}

// outputs are those of the program's steps in the job that works, the last to set
// one counts.
func (a acted) outputs() map[string]string {
	return a.outputsOf(func(step string) bool { return step != "route" })
}

func (a acted) outputsOf(step func(id string) bool) map[string]string {
	out := map[string]string{}
	for _, l := range a.lines {
		if l.Command == "set-output" && len(l.StepID) > 1 && step(l.StepID[0]) && l.StepID[1] == "ralph" {
			out[l.Name] = l.Arg
		}
	}
	return out
}

// queues: the job that works has waited in the queue of that name; "" is that it
// has not run.
func (a acted) queues(t *testing.T, want string) {
	t.Helper()
	got := ""
	for _, l := range a.lines {
		if name, ok := strings.CutPrefix(strings.TrimSpace(l.Msg), "waited in the queue "); ok {
			got = name
		}
	}
	if got != want {
		t.Errorf("the queue is %q, want %q\n%s", got, want, a.text)
	}
}

// of are the arguments of a command.
func (a acted) of(command string) []string {
	var args []string
	for _, l := range a.lines {
		// What a composite action says it says once more as a whole.
		if text := cmp.Or(l.Arg, l.Content); l.Command == command && !slices.Contains(args, text) {
			args = append(args, text)
		}
	}
	return args
}

// hides: the secret is nowhere in the log, but where the runner is told of it.
// GitHub's shows nothing of that, act does with --json.
func (a acted) hides(t *testing.T, secret string) {
	t.Helper()
	for line := range strings.Lines(a.text) {
		if strings.Contains(line, secret) && !strings.Contains(line, `"command":"add-mask"`) {
			t.Errorf("a secret is in the log: %s", line)
		}
	}
}

// checkoutDir is where this repository is.
var checkoutDir = filepath.Join("..", "..")

// copyFiles copies files of this repository to dir.
func copyFiles(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		from, to := filepath.Join(checkoutDir, name), filepath.Join(dir, name)
		info, err := os.Stat(from)
		var b []byte
		if err == nil {
			b, err = os.ReadFile(from)
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o700)
		}
		if err == nil {
			err = os.WriteFile(to, b, info.Mode().Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// actor is a repository with a workflow, and act to run it.
type actor struct {
	*runner
	repoDir string
}

// newActor takes the workflow of the examples. Where it gives the action a key, it also gives it what
// makes the scripted agent work on this machine; what it says beside that is the example's own.
func newActor(t testing.TB, set setting) *actor {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(checkoutDir, "examples", "workflows", "ralph.yml"))
	if err != nil {
		t.Fatal(err)
	}
	a := &actor{runner: newRunner(t, set)}
	const key = "          anthropic_api_key: ${{ secrets.ANTHROPIC_API_KEY }}\n"
	const with = key + "          agent: script\n          sandbox: local-on-public\n"
	// act knows no queues.
	text := strings.Replace(strings.Replace(string(source), key, with, 1), "      queue: max\n", "", 1)
	a.commit(t, text)
	a.add(t, fmt.Sprintf(tellsQueue, regexp.MustCompile(`(?m)^ *group: (.*)$`).FindStringSubmatch(text)[1]))
	return a
}

// tellsQueue is a step of the job that works which says in which queue it has waited:
// act knows none.
const tellsQueue = `      - if: always()
        run: echo "waited in the queue $QUEUE"
        env: {QUEUE: "%s"}
`

// add puts a step at the end of the workflow.
func (a *actor) add(t testing.TB, step string) {
	t.Helper()
	b, err := os.ReadFile(a.file())
	if err != nil {
		t.Fatal(err)
	}
	a.commit(t, string(b)+step)
}

func (a *actor) file() string { return filepath.Join(a.repoDir, ".github", "workflows", "ralph.yml") }

// commit makes the repository that act works in.
func (a *actor) commit(t testing.TB, workflow string) {
	t.Helper()
	a.repoDir = filepath.Join(a.dir, "checkout")
	file := a.file()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(workflow), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"},
		{"-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "x"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = a.repoDir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

// act starts act for an event.
func (a *actor) act(name string, event map[string]any) *exec.Cmd {
	a.t.Helper()
	where, err := exec.CommandContext(a.t.Context(), filepath.Join(checkoutDir, "scripts", "tools.sh"), "where", "act").Output()
	tool := strings.TrimSpace(string(where))
	if err == nil {
		_, err = os.Stat(tool)
	}
	if err != nil {
		a.t.Fatalf("%v (scripts/tools.sh act brings it)", err)
	}
	dir := shortTempDir(a.t)
	action := filepath.Join(dir, "action")
	copyFiles(a.t, action, "action.yml", "VERSION", "scripts/action-setup.sh", "images/agent/agents.txt")
	file := filepath.Join(dir, "event.json")
	b, err := json.Marshal(event)
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	cmd := exec.CommandContext(a.t.Context(), tool, name, "-P", "ubuntu-latest=-self-hosted", "-C", a.repoDir, "-e", file,
		"--json", "--actor", person,
		"-s", "GITHUB_TOKEN="+a.token, "-s", "ANTHROPIC_API_KEY=sk-ant-none-of-any-use", "--local-repository",
		"org/ralph-action@v1="+action, "--local-repository", "actions/upload-artifact@v4.6.2="+a.uploader(),
		"--no-cache-server", "--container-daemon-socket", "-",
		"--env", "GITHUB_API_URL="+a.sim.URL()+"/api/v3", "--env", "GITHUB_GRAPHQL_URL="+a.sim.URL()+"/api/graphql", "--env",
		"GITHUB_SERVER_URL="+a.sim.URL(),
		"--env", "GITHUB_REPOSITORY="+person+"/"+repoOf, "--env", "RALPH_BOT="+builtBot(a.t), "--env", "RALPH_AGENT_PROGRAM="+a.config.Agent.ScriptFile)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "c"))
	return cmd
}

// uploader is an action in the place of actions/upload-artifact that says what it
// would upload.
func (a *actor) uploader() string {
	a.t.Helper()
	dir := filepath.Join(a.dir, "upload-artifact")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "action.yml"), []byte(`name: Upload
inputs: {name: {required: true}, path: {required: true}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {NAME: "${{ inputs.name }}", FILES: "${{ inputs.path }}"}
      run: echo "uploads $NAME with $(find "$FILES" -name '*.zip' | wc -l) calls"
`), 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return dir
}

// play runs the workflow to its end.
func (a *actor) play(name string, event map[string]any) acted {
	a.t.Helper()
	cmd := a.act(name, event)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	var got acted
	in := bufio.NewScanner(out)
	in.Buffer(nil, 8<<20)
	for in.Scan() {
		var l actLine
		if err := json.Unmarshal(in.Bytes(), &l); err == nil {
			got.lines = append(got.lines, l)
		}
		got.text += in.Text() + "\n"
	}
	_ = cmd.Wait() // the exit code tells
	got.code = cmd.ProcessState.ExitCode()
	got.text += errs.String()
	return got
}

// TestActWorkflow: a label and commands, in the queue of the issue, with outputs, a summary and transcripts. Who may not
// command comes into no queue.
func TestActWorkflow(t *testing.T) {
	t.Parallel()
	a := newActor(t, setting{script: writesAll})
	got := a.play("issues", a.labelled("Say hello to everybody", threeTasks))
	if got.code != 0 {
		t.Fatalf("act ended with %d:\n%s", got.code, got.text)
	}
	pr := a.onlyPR()
	if diff := gocmp.Diff(wantSubjects, subjects(pr.Commits)); diff != "" {
		t.Error(diff)
	}
	outputs := got.outputs()
	if !filepath.IsAbs(outputs["transcript_path"]) {
		t.Errorf("transcript_path is %q", outputs["transcript_path"])
	}
	delete(outputs, "transcript_path")
	if diff := gocmp.Diff(map[string]string{
		"pr_url": pr.URL, "pr_number": fmt.Sprint(pr.Number), "branch": "ralph/1",
		"end_reason": string(run.EndAllTasksComplete), "iterations": "4",
		"tasks_done": "3", "tasks_total": "3", "cost_usd": "0.5000", "head_sha": pr.HeadOID, "issue": "1",
	}, outputs); diff != "" {
		t.Errorf("%s\n%s", diff, got.text)
	}
	got.queues(t, "ralph/1")
	if summaries := got.of("summary"); len(summaries) != 1 || !strings.Contains(summaries[0], "- [x] T1 Write one") {
		t.Errorf("summaries: %q", summaries)
	}
	if !strings.Contains(got.text, "uploads ralph-transcripts with 4 calls") {
		t.Errorf("the transcripts were not uploaded:\n%s", got.text)
	}
	got.hides(t, a.token)

	got = a.play("issue_comment", a.commented(pr.Number, person, "/ralph resume"))
	if c := a.last(pr.Number); got.code != 0 || got.outputs()["end_reason"] != action.EndNothing ||
		!strings.Contains(c.Body, "All tasks are done.") {
		t.Errorf("on the pull request: act ended with %d, outputs %v, and says %q", got.code, got.outputs(), c.Body)
	}
	got.queues(t, "ralph/1")
	a.user("eve", ghsim.RoleRead)
	got = a.play("issue_comment", a.commented(pr.Number, "eve", "/ralph do Mine coins"))
	routed := got.outputsOf(func(step string) bool { return step == "route" })
	if got.code != 0 || routed["end_reason"] != action.EndRefused || routed["issue"] != "" || len(got.outputs()) != 0 {
		t.Errorf("by eve: act ended with %d, routed %v, outputs %v\n%s", got.code, routed, got.outputs(), got.text)
	}
	got.queues(t, "")
}

// later is a step after the action that shows what it was handed.
const later = `      - if: always()
        run: |
          echo "later end_reason=$END"
          echo "later path=$PATH evil=${EVIL:-none}"
        env:
          END: ${{ steps.ralph.outputs.end_reason }}
`

// Whatever an issue, a file name or an agent says: no output, environment or
// later step is changed by it.
func TestActHostileWordsStayWords(t *testing.T) {
	t.Parallel()
	said := strings.Join(commandsOfARunner, "\n")
	script := `model: "::set-output name=end_reason::pwned"
default:
  - append: {"a b;$(touch pwned).txt": "x"}
    files: {"::set-env name=EVIL::1": "y", "%0A::add-path::%2Ftmp%2Fevil": "z"} # refused, and told
    use: [{tool: "::add-path::/tmp/evil", file: "::error::lies", command: "::stop-commands::x"}]
    say: ` + strconv.Quote(said) + `
  - append: {"a b;$(touch pwned).txt": "x"}
    files: {"##[set-env name=EVIL]1": "y", "%0A##[add-path]%2Ftmp%2Fevil": "z"}
    use: [{tool: "::add-path::/tmp/evil", file: "::error::lies", command: "::stop-commands::x"}]
    say: ` + strconv.Quote(said) + `
`
	a := newActor(t, setting{script: script, files: limited(
		`gates: [{run: "printf '::set-output name=end_reason::pwned\\n::set-env name=EVIL::1\\n##[add-path]/tmp/evil\\n'"}]`)})
	a.add(t, later)
	for name, issue := range map[string][2]string{
		"shell": {"$(touch pwned)`touch pwned`'; touch pwned; \"", "- [ ] ${{ secrets.GITHUB_TOKEN }} $(env) \n"},
		"commands": {
			"::set-output name=end_reason::pwned%0A::set-env name=EVIL::1", said + "\n- [ ] ::set-env name=EVIL::1\n- [ ] EOF\n",
		},
		"files": {"end_reason<<EOF pwned EOF", "EVIL=1\nend_reason<<EOF\npwned\nEOF\n\n- [ ] end_reason=pwned\n"},
	} {
		event := a.labelled(issue[0], issue[1])
		got := a.play("issues", event)
		if got.code != 0 {
			t.Errorf("%s: act ended with %d:\n%s", name, got.code, got.text)
		}
		if end := got.outputs()["end_reason"]; end != string(run.EndAllTasksComplete) {
			t.Errorf("%s: end_reason is %q", name, end)
		}
		if branch := got.outputs()["branch"]; branch != fmt.Sprintf("ralph/%d", number(event)) {
			t.Errorf("%s: branch is %q", name, branch)
		}
		if !strings.Contains(got.text, "later end_reason=all_tasks_complete") || !strings.Contains(got.text, "evil=none") ||
			strings.Contains(got.text, "later path=/tmp/evil") {
			t.Errorf("%s: a later step saw something else:\n%s", name, got.text)
		}
		for _, command := range []string{"set-env", "add-path", "error", "warning"} {
			if said := got.of(command); len(said) != 0 {
				t.Errorf("%s: the runner followed %s %q", name, command, said)
			}
		}
		got.hides(t, a.token)
	}
	err := filepath.WalkDir(a.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "pwned" {
			t.Errorf("a shell has made %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// commandsOfARunner are lines by which a program speaks to the runner.
var commandsOfARunner = []string{
	"::set-output name=end_reason::pwned", "::set-env name=EVIL::1", "::add-path::/tmp/evil",
	"::add-mask::all_tasks_complete", "::error::lies", "##[add-path]/tmp/evil", "::stop-commands::x",
}

func number(event map[string]any) int {
	issue, _ := event["issue"].(map[string]any)
	n, _ := issue["number"].(float64)
	return int(n)
}
