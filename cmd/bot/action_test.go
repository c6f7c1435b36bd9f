package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/action"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// runner plays GitHub's: it starts the program as a step of a job.
type runner struct {
	*stage
	token string
	// exe is the program.
	exe string
	// with are the inputs, env what else is in the environment.
	with, env map[string]string
	// workspace is where the repository would be checked out.
	workspace string
	events    chan []byte
	// listen has the events of the App come here, after a server has had them.
	listen func()
}

// step is a step that has ended.
type step struct {
	code    int
	log     string
	outputs map[string]string
	summary string
}

func newRunner(t testing.TB, set setting) *runner {
	t.Helper()
	set.slug = "github-actions"
	r := &runner{stage: newStage(t, set), exe: theProgram(t), events: make(chan []byte, 100)}
	var err error
	if r.token, err = r.sim.Token(r.install.ID, nil); err != nil {
		t.Fatal(err)
	}
	r.mayOpenPulls(true) // as docs/action.md has people set it
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if body, err := io.ReadAll(req.Body); err == nil { // else it was cut off, at the end of the test
			r.events <- body
		}
	}))
	t.Cleanup(hook.Close)
	r.listen = func() {
		if err := r.sim.SetHook(r.app.ID, hook.URL, ""); err != nil {
			t.Fatal(err)
		}
	}
	r.listen()
	r.workspace = filepath.Join(r.dir, "workspace")
	r.with = map[string]string{
		"agent": "script", "sandbox": "local-on-public", "github_token": r.token,
	}
	r.env = map[string]string{"RALPH_AGENT_PROGRAM": r.config.Agent.ScriptFile}
	return r
}

// mayOpenPulls ticks, or unticks, "Allow GitHub Actions to create and approve pull
// requests".
func (r *runner) mayOpenPulls(may bool) {
	r.t.Helper()
	if err := r.sim.LetActionsOpenPulls(person, repoOf, may); err != nil {
		r.t.Fatal(err)
	}
}

// event waits for the next webhook with an action and gives it as a job has it:
// without the installation.
func (r *runner) event(action string) map[string]any {
	r.t.Helper()
	for {
		select {
		case body := <-r.events:
			var payload map[string]any
			if err := json.Unmarshal(body, &payload); err != nil {
				r.t.Fatal(err)
			}
			if payload["action"] == action {
				delete(payload, "installation")
				return payload
			}
		case <-r.t.Context().Done():
			r.t.Fatalf("no event %s came", action)
		}
	}
}

// labelled writes an issue, puts the label on and gives the event of that.
func (r *runner) labelled(title, body string) map[string]any {
	r.t.Helper()
	r.label(title, body)
	for {
		event := r.event("labeled") // a run puts labels on, too
		if label, ok := event["label"].(map[string]any); ok && label["name"] == "ralph" {
			return event
		}
	}
}

// job is a job of a workflow, with a directory of its own for temporary files.
type job struct {
	*runner
	dir  string
	name string
	file string
}

func (r *runner) job(name string, event map[string]any) *job {
	r.t.Helper()
	j := &job{runner: r, dir: shortTempDir(r.t), name: name}
	j.file = filepath.Join(j.dir, "event.json")
	b, err := json.Marshal(event)
	if err == nil {
		err = os.WriteFile(j.file, b, 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// command is the program as a step of the job.
func (j *job) command() *exec.Cmd {
	j.t.Helper()
	cmd := exec.CommandContext(j.t.Context(), j.exe, "action")
	cmd.Env = append(os.Environ(), envBe+"=bot",
		"GITHUB_ACTIONS=true", "GITHUB_REPOSITORY="+person+"/"+repoOf, "GITHUB_EVENT_NAME="+j.name, "GITHUB_EVENT_PATH="+
			j.file,
		"GITHUB_API_URL="+j.sim.URL()+"/api/v3", "GITHUB_GRAPHQL_URL="+j.sim.URL()+"/api/graphql", "GITHUB_SERVER_URL="+
			j.sim.URL(),
		"GITHUB_WORKSPACE="+j.workspace, "RUNNER_TEMP="+j.dir, "GITHUB_OUTPUT="+j.outputFile(), "GITHUB_STEP_SUMMARY="+
			j.summaryFile(),
		"GITHUB_ACTOR="+person, "GITHUB_RUN_ID=1")
	inputs, err := json.Marshal(j.with)
	if err != nil {
		j.t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "RALPH_INPUTS="+string(inputs))
	for name, value := range j.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

func (j *job) outputFile() string  { return filepath.Join(j.dir, "output") }
func (j *job) summaryFile() string { return filepath.Join(j.dir, "summary") }

// step runs a step to its end.
func (j *job) step() step {
	j.t.Helper()
	cmd := j.command()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok && err != nil {
		j.t.Fatal(exit, err)
	}
	return j.ended(cmd.ProcessState.ExitCode(), log.String())
}

func (j *job) ended(code int, log string) step {
	j.t.Helper()
	s := step{code: code, log: log, outputs: map[string]string{}}
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			j.t.Fatal(err)
		}
		return string(b)
	}
	s.outputs, s.summary = parseOutputs(j.t, read(j.outputFile())), read(j.summaryFile())
	return s
}

// parseOutputs reads a file of outputs as the runner does.
func parseOutputs(t testing.TB, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		name, delimiter, ok := strings.Cut(lines[i], "<<")
		if !ok {
			if name, value, ok := strings.Cut(lines[i], "="); ok {
				out[name] = value
			}
			continue
		}
		var value []string
		for i++; i < len(lines) && lines[i] != delimiter; i++ {
			value = append(value, lines[i])
		}
		if i == len(lines) {
			t.Fatalf("output %s has no end", name)
		}
		out[name] = strings.Join(value, "\n")
	}
	return out
}

func TestActionLabelBecomesPullRequest(t *testing.T) {
	t.Parallel()
	r := newRunner(t, setting{script: writesAll})
	got := r.job("issues", r.labelled("Say hello to everybody", threeTasks)).step()
	if got.code != 0 {
		t.Fatalf("exit code %d:\n%s", got.code, got.log)
	}
	pr := r.onlyPR()
	if diff := gocmp.Diff(wantSubjects, subjects(pr.Commits)); diff != "" {
		t.Error(diff)
	}
	// Nobody would hear of a button, or of a command that is for a run at work.
	checks, err := r.sim.CheckRuns(person, repoOf)
	if err != nil || len(checks) == 0 || slices.ContainsFunc(checks,
		func(c ghsim.CheckRun) bool { return len(c.Buttons) > 0 }) {
		t.Errorf("check runs: %+v, %v", checks, err)
	}
	if !strings.Contains(pr.Body, "this needs the whole workflow of the Action") {
		t.Errorf("the pull request says:\n%s", pr.Body)
	}
	for _, c := range pr.Commits {
		if !c.Verified || c.Author != "github-actions[bot]" {
			t.Errorf("commit %q is by %s, verified %v", c.Subject, c.Author, c.Verified)
		}
	}
	want := map[string]string{
		"pr_url": pr.URL, "pr_number": fmt.Sprint(pr.Number), "branch": "ralph/1",
		"end_reason": string(run.EndAllTasksComplete), "iterations": "4",
		"tasks_done": "3", "tasks_total": "3", "cost_usd": "0.5000", "head_sha": pr.HeadOID,
		"issue": "1",
	}
	kept := got.outputs["transcript_path"]
	delete(got.outputs, "transcript_path")
	if diff := gocmp.Diff(want, got.outputs); diff != "" {
		t.Error(diff)
	}
	if calls, err := filepath.Glob(filepath.Join(kept, "*.zip")); err != nil || len(calls) != 4 {
		t.Errorf("transcripts in %q: %q, %v", kept, calls, err)
	}
	for _, want := range []string{
		"- [x] T1 Write one", "[#" + fmt.Sprint(pr.Number) + "](" + pr.URL + ")", "3 of 3 tasks",
	} {
		if !strings.Contains(got.summary, want) {
			t.Errorf("the summary lacks %q:\n%s", want, got.summary)
		}
	}
	if strings.Contains(got.log, r.token) && !strings.Contains(got.log, "::add-mask::"+r.token) {
		t.Errorf("the log holds the token:\n%s", got.log)
	}
}

// stuckOnTwo does the first task, and works on the second without end.
const stuckOnTwo = `model: scripted
tasks:
  one: [{files: {one.txt: "1\n"}, tick: true, say: done}]
  two: [{misbehave: hang}]
default: [{files: {three.txt: "3\n"}, say: done}]
`

// until starts a step and gives it once its log says something.
func (j *job) until(said string) (cmd *exec.Cmd, rest func() string) {
	j.t.Helper()
	cmd = j.command()
	out, err := cmd.StdoutPipe()
	if err != nil {
		j.t.Fatal(err)
	}
	cmd.Stderr = testWriter{j.t}
	if err := cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	var log strings.Builder
	in := bufio.NewScanner(out)
	for in.Scan() {
		log.WriteString(in.Text() + "\n")
		if strings.Contains(in.Text(), said) {
			return cmd, func() string {
				for in.Scan() {
					log.WriteString(in.Text() + "\n")
				}
				return log.String()
			}
		}
	}
	j.t.Fatalf("the step never said %q, %v:\n%s", said, cmd.Wait(), &log)
	return nil, nil
}

// writesOfRunner are the writes, one a second, that a job has time for: GitHub's runner waits
// 7.5 s after SIGINT before it sends SIGTERM.
const writesOfRunner = 5

// TestStoppedJobIsFinishedAndTheNextGoesOn: a job that is cancelled saves what it has and tells; one that is killed says
// nothing, and the step that finishes tells people. The same event in another job goes on where the branch is.
func TestStoppedJobIsFinishedAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]os.Signal{"cancelled": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, setting{script: stuckOnTwo})
			event := r.labelled("Say hello", threeTasks)
			first := r.job("issues", event)
			cmd, rest := first.until("::group::Iteration 2")
			before := len(r.writes())
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			log := rest()
			_ = cmd.Wait() // its exit code tells
			got, code := first.ended(cmd.ProcessState.ExitCode(), log), run.ExitInterrupted
			if signal == os.Kill {
				if len(got.outputs) != 0 {
					t.Errorf("outputs of a step that was killed: %v", got.outputs)
				}
				r.with["mode"] = "finish"
				got, code = first.step(), run.ExitCancelled
				delete(r.with, "mode")
				if comments := r.issue(1).Comments; len(comments) != 1 ||
					!strings.Contains(comments[0].Body, "the workflow run was cancelled, or its runner gave up") {
					t.Errorf("comments: %v", comments)
				}
			} else if n := len(r.writes()) - before; n > writesOfRunner || got.outputs["tasks_done"] != "1" {
				t.Errorf("ending in order took %d writes, the runner waits for %d; outputs %v", n, writesOfRunner, got.outputs)
			}
			pr := r.onlyPR()
			if got.code != code || got.outputs["end_reason"] != string(run.EndCancelled) || got.outputs["pr_url"] != pr.URL {
				t.Errorf("exit code %d, outputs %v\n%s", got.code, got.outputs, got.log)
			}
			for _, want := range []string{"- [x] T1 Write one", "- [ ] T2 Write two"} {
				if !strings.Contains(pr.Body, want) {
					t.Errorf("the description lacks %q:\n%s", want, pr.Body)
				}
			}

			r.script(writesAll)
			got = r.job("issues", event).step()
			if got.code != 0 || got.outputs["tasks_done"] != "3" || got.outputs["pr_number"] != fmt.Sprint(pr.Number) {
				t.Errorf("exit code %d, outputs %v\n%s", got.code, got.outputs, got.log)
			}
			once := slices.DeleteFunc(subjects(r.onlyPR().Commits),
				func(s string) bool { return s == "chore: record what was tried" })
			if diff := gocmp.Diff(wantSubjects, once); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// dispatched is the event of a workflow that was started by hand for an issue.
func (r *runner) dispatched(login, issue string) map[string]any {
	return map[string]any{
		"inputs": map[string]any{"issue": issue}, "ref": "refs/heads/main",
		"sender": map[string]any{"login": login, "id": 7, "type": "User"},
		"repository": map[string]any{
			"node_id": r.repo.NodeID, "name": repoOf, "private": false, "default_branch": "main",
			"owner": map[string]any{"login": person},
		},
	}
}

func TestActionWorksAnIssueThatIsNamed(t *testing.T) {
	t.Parallel()
	r := newRunner(t, setting{script: writesAll})
	if _, err := r.sim.CreateIssue(person, repoOf, person, "Say hello", threeTasks); err != nil {
		t.Fatal(err)
	}
	r.user("eve", ghsim.RoleRead)
	got := r.job("workflow_dispatch", r.dispatched("eve", "1")).step()
	if labels := r.issue(1).Labels; got.code != 0 || len(labels) != 0 {
		t.Errorf("by eve: exit code %d, outputs %v, labels %v", got.code, got.outputs, labels)
	}
	routed(t, "by hand", r.route("workflow_dispatch", r.dispatched(person, "1")), "1", action.EndQueued)
	got = r.job("workflow_dispatch", r.dispatched(person, "1")).step()
	if got.code != 0 || got.outputs["tasks_done"] != "3" || !slices.Contains(r.issue(1).Labels, "ralph") {
		t.Errorf("exit code %d, outputs %v, labels %v\n%s", got.code, got.outputs, r.issue(1).Labels, got.log)
	}
}

func TestActionSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	r := newRunner(t, setting{
		script: writesAll, files: map[string]string{"README.md": "#\n", config.RepoPath: "gatez: []\n"},
	})
	event := r.labelled("Say hello", threeTasks)
	for name, c := range map[string]struct {
		with, env map[string]string
		event     string
		code      int
		end, says string
	}{
		"a key": {
			with: map[string]string{"agent": "claude", "sandbox": "docker", "image": "x"},
			code: run.ExitUsage, says: "anthropic_api_key is empty",
		},
		"an image": {
			with: map[string]string{"sandbox": "docker"}, code: run.ExitUsage, says: "the sandbox has no image",
		},
		"an engine": {
			with: map[string]string{"sandbox": "docker", "image": "x"},
			env:  map[string]string{"DOCKER_HOST": "unix:///nowhere.sock"}, code: run.ExitUsage, says: "Docker",
		},
		"a word": {with: map[string]string{"sandbox": "local"}, code: run.ExitUsage, says: "sandbox: local-on-public"},
		"a token": {
			with: map[string]string{"github_token": ""}, code: run.ExitUsage, says: "github_token: it is empty",
		},
		"a token that works": {
			with: map[string]string{"github_token": "ghs_nonsense"}, code: run.ExitFailed, says: "Bad credentials",
		},
		"a runner": {
			env: map[string]string{"GITHUB_EVENT_NAME": ""}, code: run.ExitUsage,
			says: "not a step of a GitHub Actions workflow",
		},
		"a good config": {code: run.ExitFailed, end: string(run.EndFailed), says: "gatez"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, own := *r.stage, *r
			st.t, own.stage, own.with, own.env = t, &st, maps.Clone(r.with), maps.Clone(r.env)
			maps.Copy(own.with, c.with)
			maps.Copy(own.env, c.env)
			got := own.job("issues", event).step()
			end := cmp.Or(c.end, action.EndUnusable)
			if name == "a runner" {
				end = "" // there is nowhere to say it but in the log
			}
			if got.code != c.code || got.outputs["end_reason"] != end {
				t.Errorf("exit code %d, want %d; outputs %v, want end %q\n%s", got.code, c.code, got.outputs, end, got.log)
			}
			if !strings.Contains(strings.ReplaceAll(got.log, "%0A", "\n"), c.says) || end != "" &&
				!strings.Contains(got.summary, c.says) {
				t.Errorf("nothing says %q; the log:\n%s\nthe summary:\n%s", c.says, got.log, got.summary)
			}
			if name == "a good config" { // which people are told on the issue, once, though no job knows of another
				own.job("issues", event).step()
				if said := own.said(1); len(slices.DeleteFunc(said, func(s string) bool {
					return !strings.Contains(s, "gatez")
				})) != 1 {
					t.Errorf("said %q", said)
				}
			}
		})
	}
}

// commented writes a comment and gives the event of that.
func (r *runner) commented(number int, login, text string) map[string]any {
	r.t.Helper()
	if _, err := r.sim.Comment(person, repoOf, number, login, text); err != nil {
		r.t.Fatal(err)
	}
	for {
		event := r.event("created") // the bot comments, too
		if c, ok := event["comment"].(map[string]any); ok && c["body"] == text {
			return event
		}
	}
}

// fourTasks does a fourth, too.
var fourTasks = strings.Replace(writesAll, "default:",
	"  four: [{files: {four.txt: \"4\\n\"}, tick: true, say: done}]\ndefault:", 1)

// oneCall is a repository's configuration that ends a run after one call.
const oneCall = "limits: {max_iterations: 1}\n"

// limited are the files of a repository that has a configuration.
func limited(config string) map[string]string {
	return map[string]string{"README.md": "# widgets\n", ".github/ralph.yml": config}
}

// A job knows nothing of those before it: what a command is about is read from
// the branch, the pull request and the issue.
func TestActionCommandGoesOnWhereAnEarlierJobStopped(t *testing.T) {
	t.Parallel()
	r := newRunner(t, setting{script: fourTasks, files: limited(oneCall)})
	if got := r.job("issues", r.labelled("Say hello", threeTasks)).step(); got.code != run.ExitMaxIterations {
		t.Fatalf("exit code %d\n%s", got.code, got.log)
	}
	// More than the default of 50: the repository's own limits hold as they are.
	r.push("main", config.RepoPath, "limits: {max_iterations: 60}\n")
	pr := r.onlyPR()

	got := r.job("issue_comment", r.commented(pr.Number, person, "/ralph resume")).step()
	if got.code != 0 || got.outputs["end_reason"] != string(run.EndAllTasksComplete) ||
		got.outputs["pr_number"] != fmt.Sprint(pr.Number) || got.outputs["tasks_done"] != "3" {
		t.Fatalf("exit code %d, outputs %v\n%s", got.code, got.outputs, got.log)
	}
	if _, left := r.contents("ralph/1")[".ralph/1/progress.md"]; left {
		t.Fatal("the progress file is there: nothing has to be restored")
	}
	// It is restored from the history of the branch.
	got = r.job("issue_comment", r.commented(pr.Number, person, "/ralph do Write four")).step()
	if got.code != 0 || got.outputs["tasks_done"] != "4" || got.outputs["tasks_total"] != "4" ||
		r.contents("ralph/1")["four.txt"] != "4\n" {
		t.Errorf("exit code %d, outputs %v\n%s", got.code, got.outputs, got.log)
	}
	got = r.job("issue_comment", r.commented(pr.Number, person, "/ralph resume")).step()
	if got.code != 0 || got.outputs["end_reason"] != action.EndNothing {
		t.Errorf("with nothing left to do: exit code %d, outputs %v", got.code, got.outputs)
	}
	all := r.onlyPR()
	if all.Number != pr.Number || !strings.Contains(all.Body, "- [x] T4 ") {
		t.Errorf("pull request #%d:\n%s", all.Number, all.Body)
	}
	// What earlier jobs did is told by the branch.
	for n, want := range map[string]int{
		" 6 iterations in 3 runs ": 1, "not signed": 0, "- [x] T": 4, "· [`": 4,
	} {
		if got := strings.Count(all.Body, n); got != want {
			t.Errorf("%q is there %d times, want %d:\n%s", n, got, want, all.Body)
		}
	}
}

// TestActionReviewBecomesWork: all of a review is worked by one run, on the same branch and pull request, and its conversations
// are answered. Who may not write gets into no queue.
func TestActionReviewBecomesWork(t *testing.T) {
	t.Parallel()
	r := newRunner(t, setting{script: reviewed})
	if got := r.job("issues", r.labelled("Say hello", threeTasks)).step(); got.code != 0 {
		t.Fatalf("exit code %d\n%s", got.code, got.log)
	}
	before := r.onlyPR()
	r.user("grace", ghsim.RoleWrite)
	r.user("eve", ghsim.RoleRead)
	told := len(r.issue(before.Number).Comments)
	r.review("eve", "CHANGES_REQUESTED", "/ralph do Mine coins")
	routed(t, "by eve", r.route("pull_request_review", r.event("submitted")), "", action.EndRefused)
	if all := r.issue(before.Number).Comments; len(all) != told+1 || !strings.Contains(all[told].Body, "`eve` has the role `read`") {
		t.Errorf("eve is told %+v", all[told:])
	}

	// Of a review whose job never ran, another's takes in the conversations.
	early := r.review("grace", "COMMENTED", "", ghsim.ReviewLine{Path: "three.txt", Line: 1, Body: "Write three in Italian."})
	r.event("submitted")
	rv := r.review("grace", "COMMENTED", "", ghsim.ReviewLine{Path: "one.txt", Line: 1, Body: "Say it in Italian."},
		ghsim.ReviewLine{Path: "two.txt", Line: 1, Body: "This one, too."})
	event := r.event("submitted")
	routed(t, "by grace", r.route("pull_request_review", event), "1", action.EndQueued)
	// There is no queue that would come back to a review: what GitHub fails at once is asked of it again.
	for _, match := range []string{`^/ada/widgets\.git/`, "^/graphql repository$"} {
		r.inject(ghsim.Fault{Match: match, Status: http.StatusBadGateway})
	}
	got := r.job("pull_request_review", event).step()
	if got.code != 0 || got.outputs["end_reason"] != string(run.EndAllTasksComplete) ||
		got.outputs["tasks_total"] != "6" || got.outputs["pr_number"] != fmt.Sprint(before.Number) ||
		!strings.Contains(got.log, "it is tried again") {
		t.Fatalf("exit code %d, outputs %v\n%s", got.code, got.outputs, got.log)
	}
	files := r.contents("ralph/1")
	if files["one.txt"] != "uno\n" || files["two.txt"] != "due\n" {
		t.Errorf("one.txt is %q, two.txt %q", files["one.txt"], files["two.txt"])
	}
	for _, line := range append(rv.Lines, early.Lines...) {
		if said := r.thread(line); len(said) != 2 || said[1].User != "github-actions[bot]" || !said[1].Resolved {
			t.Errorf("a conversation: %+v", said)
		}
	}

	// What was answered is not taken up again, though somebody opens it, and goes on with what is
	// said there next.
	r.resolve(person, rv.Lines[0], false)
	r.review("grace", "COMMENTED", "Thanks.")
	got = r.job("pull_request_review", r.event("submitted")).step()
	if got.code != 0 || got.outputs["end_reason"] != action.EndNothing {
		t.Errorf("thanks: exit code %d, outputs %v\n%s", got.code, got.outputs, got.log)
	}
}

// reviewed does three tasks, and what a review says of the first two.
const reviewed = `model: scripted
tasks:
  review of one.txt: [{files: {one.txt: "uno\n"}, say: done}]
  review of two.txt: [{files: {two.txt: "due\n"}, say: done}]
  review of three.txt: [{files: {three.txt: "tre\n"}, say: done}]
  Write one: [{files: {one.txt: "1\n"}, say: done}]
  Write two: [{files: {two.txt: "2\n"}, say: done}]
default: [{files: {three.txt: "3\n"}, say: done}]
`

// A run that a server began is gone on with by a job under the token of the same App, and then by
// the server again.
func TestRunGoesOnBehindAnotherDoor(t *testing.T) {
	t.Parallel()
	r := newRunner(t, setting{
		script: fourTasks, files: limited(oneCall), change: func(cfg *config.Server) { cfg.Limits.MaxIterations = 1 },
	})
	done := func(want int) {
		t.Helper()
		if pr := r.onlyPR(); strings.Count(pr.Body, "- [x] T") != want {
			t.Errorf("want %d tasks done:\n%s", want, pr.Body)
		}
	}
	s := r.serve()
	first := r.ended(s.store, r.label("Say hello", threeTasks+"- [ ] Write four\n"))
	r.processed(s)
	s.stop()
	done(1)
	again := func() {
		t.Helper()
		if err := r.sim.RemoveLabel(person, repoOf, 1, person, "ralph"); err != nil {
			t.Fatal(err)
		}
		r.relabel(r.issue(1), person)
	}
	r.listen()
	again()
	if got := r.job("issues", r.event("labeled")).step(); got.code != run.ExitMaxIterations {
		t.Errorf("exit code %d, outputs %v\n%s", got.code, got.outputs, got.log)
	}
	done(2)
	s = r.serve()
	again()
	r.another(s, r.issue(1), first.Run)
	r.processed(s)
	done(3)
}

// TestActionThatMayOpenNoPullRequests, as GitHub has it until somebody ticks the
// setting: the job ends before an agent works and says on the issue which it is.
func TestActionThatMayOpenNoPullRequests(t *testing.T) {
	t.Parallel()
	const setting1, setting2 = "Settings → Actions → General", "Allow GitHub Actions to create and approve pull requests"
	r := newRunner(t, setting{script: writesAll})
	r.mayOpenPulls(false)
	event := r.labelled("Say hello", threeTasks)
	got := r.job("issues", event).step()
	if got.code != run.EndFailed.ExitCode() || got.outputs["end_reason"] != string(run.EndFailed) ||
		got.outputs["iterations"] != "0" || got.outputs["tasks_done"] != "0" || got.outputs["pr_url"] != "" {
		t.Errorf("exit code %d, outputs %v", got.code, got.outputs)
	}
	comments := r.issue(1).Comments
	if len(comments) != 1 {
		t.Fatalf("comments: %v", comments)
	}
	for what, text := range map[string]string{"comment": comments[0].Body, "log": got.log, "summary": got.summary} {
		for _, want := range []string{setting1, setting2} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s lacks %q:\n%s", what, want, text)
			}
		}
	}
	if n := strings.Count(comments[0].Body, setting2); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, comments[0].Body)
	}
	if calls := r.sim.CallCounts()["POST /repos/{owner}/{repo}/pulls"]; calls > 2 {
		t.Errorf("GitHub was asked %d times", calls)
	}

	r.mayOpenPulls(true)
	got = r.job("issues", event).step()
	if got.code != 0 || got.outputs["tasks_done"] != "3" || got.outputs["pr_url"] != r.onlyPR().URL {
		t.Errorf("exit code %d, outputs %v\n%s", got.code, got.outputs, got.log)
	}
	if pr := r.onlyPR(); pr.Draft || pr.Commits[0].Subject != wantSubjects[0] {
		t.Errorf("draft %v, commits %q", pr.Draft, subjects(pr.Commits))
	}
}

// route runs the first job of the workflow: with the permissions that it has there,
// and with none of the inputs of the job that works.
func (r *runner) route(name string, event map[string]any) step {
	r.t.Helper()
	token, err := r.sim.Token(r.install.ID, map[string]string{"issues": "write", "pull_requests": "write"})
	if err != nil {
		r.t.Fatal(err)
	}
	with := r.with
	defer func() { r.with = with }()
	r.with = map[string]string{"mode": "route", "github_token": token}
	j := r.job(name, event)
	got := j.step()
	if _, err := os.Stat(filepath.Join(j.dir, "ralph", "mirrors")); !errors.Is(err, fs.ErrNotExist) {
		r.t.Errorf("the repository was fetched: %v", err)
	}
	return got
}

// routed: a step has found the issue of that number, "" for none.
func routed(t *testing.T, what string, got step, issue, end string) {
	t.Helper()
	if got.code != 0 || got.outputs["issue"] != issue || got.outputs["end_reason"] != end {
		t.Errorf("%s: exit code %d, outputs %v\n%s", what, got.code, got.outputs, got.log)
	}
}

// last is the newest comment on an issue or pull request.
func (r *runner) last(number int) ghsim.Comment {
	r.t.Helper()
	all := r.issue(number).Comments
	if len(all) == 0 {
		r.t.Fatalf("there is no comment on #%d", number)
	}
	return all[len(all)-1]
}

// Every command about an issue gets to the one queue of the issue, and the run that
// is at work there is stopped by the job before the queue. Who may not write gets
// into no queue.
func TestActionRoutesACommand(t *testing.T) {
	t.Parallel()
	r := newRunner(t, setting{script: stuckOnTwo})
	cmd, rest := r.job("issues", r.labelled("Say hello", threeTasks)).until("::group::Iteration 2")
	r.user("eve", ghsim.RoleTriage)
	pr := r.onlyPR()
	if strings.Contains(pr.Body, "/ralph") || !strings.Contains(pr.Body,
		"To stop the run, remove the label `ralph` from the issue or close the issue") {
		t.Errorf("the pull request says:\n%s", pr.Body)
	}
	commanded := func(number int, login, text string) step {
		t.Helper()
		return r.route("issue_comment", r.commented(number, login, text))
	}

	routed(t, "resume", commanded(pr.Number, person, "/ralph resume"), "1", action.EndQueued)
	routed(t, "resume by eve", commanded(pr.Number, "eve", "/ralph resume"), "", action.EndRefused)
	if c := r.last(pr.Number); !strings.Contains(c.Body, "`eve` has the role `triage`") {
		t.Errorf("eve is told %q", c.Body)
	}
	routed(t, "status", commanded(pr.Number, person, "/ralph status"), "", action.EndNothing)
	if c := r.last(pr.Number); !strings.Contains(c.Body, fmt.Sprintf("See the description of #%d; a job", pr.Number)) {
		t.Errorf("the status is %q", c.Body)
	}
	routed(t, "stop by eve", commanded(pr.Number, "eve", "/ralph stop"), "", action.EndRefused)
	if !slices.Contains(r.issue(1).Labels, "ralph") {
		t.Fatal("eve has stopped the run")
	}
	routed(t, "stop", commanded(pr.Number, person, "/ralph stop"), "", action.EndNothing)
	log := rest()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != run.ExitCancelled {
		t.Errorf("the job at work ended with %v\n%s", err, log)
	}
}
