package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// outcome is what the same work has come to behind one of the doors.
type outcome struct {
	End    string
	Branch string
	// Commits are the messages on the branch, without what names a run, and the
	// files each of them left.
	Commits []string
	// Progress is progress.md as the last commit but the closing one has it.
	Progress string
	Files    map[string]string
	// Body is the pull request's description.
	Body string
}

// What is another for every run, behind whatever door.
var runsOwn = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\b\d{8}-\d{6}-[a-z0-9]{12}\b`), "RUN"},
	{regexp.MustCompile(`\bI_[A-Za-z0-9]+`), "ISSUE"},
	{regexp.MustCompile(`Z \| \d+(ms|s|m\d+s) \|`), "Z | TOOK |"},
	{regexp.MustCompile(`\b[0-9a-f]{40}\b`), "OID"},
	{regexp.MustCompile("`[0-9a-f]{7}`"), "`OID`"},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+`), "GITHUB"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?Z?( UTC)?`), "TIME"},
	{regexp.MustCompile(`\| *\d+(\.\d+)?(ms|s|m\d+s) *\|`), "| TOOK |"},
	{regexp.MustCompile(`\| TIME \| – \|`), "| TIME | TOOK |"}, // it took no time to speak of
	{regexp.MustCompile(` (passed|failed) in \d+(\.\d+)?(ms|s|m\d+s)\b`), " $1 in TOOK"},
	{regexp.MustCompile(` \(\d+(\.\d+)?m?s\)`), " (TOOK)"},
	{regexp.MustCompile(`size=\d+ sum=[0-9a-f]+`), "SUM"},
	{regexp.MustCompile(` in \d+s\b`), " in TOOK"},
	{regexp.MustCompile(`<\d+\+`), "<ID+"},
	// The App of the tests does without bubblewrap, the job does as it can.
	{regexp.MustCompile("`local \\([a-z ]+\\)`"), "`local`"},
}

func anyRun(text string) string {
	for _, r := range runsOwn {
		text = r.re.ReplaceAllString(text, r.with)
	}
	return strings.TrimRight(text, "\n")
}

// lines without those that match.
func without(text string, re *regexp.Regexp) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !re.MatchString(line) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// door is one way to have an issue worked.
type door struct {
	name string
	work func(t *testing.T, p parity) outcome
	// differs takes out of another door's outcome what this one legitimately
	// does in another way, and says why.
	differs func(o *outcome)
}

// parity is a piece of work.
type parity struct {
	name, title, body, script string
	repo                      string // .github/ralph.yml
	end                       run.EndReason
}

func parities() []parity {
	return []parity{
		{
			name: "the agent plans, and a check fails first", title: "Say hello", body: "Please greet everybody, in two files.",
			repo: "gates: [{run: test -s one.txt}]\n", end: run.EndAllTasksComplete, script: `model: scripted
plan:
  - {title: Write one, accept: [one.txt is there]}
  - {title: Write two}
tasks:
  one:
    - {files: {zero.txt: "0\n"}, tick: true, say: done, cost_usd: 0.5}
    - {files: {half.txt: "1\n"}, claim: "partial: one.txt is not there yet"}
    - {files: {one.txt: "1\n"}, learn: "one goes first", say: done, cost_usd: 0.25}
default: [{files: {two.txt: "2\n"}, say: done}]
`,
		},
		{
			name: "a person is needed", title: "Say hello", body: "- [ ] Write one\n- [ ] Write two\n",
			end: run.EndAwaitingPerson, script: `model: scripted
tasks:
  one: [{claim: "blocked: nobody says what one is"}]
default: [{files: {two.txt: "2\n"}, say: done}]
`,
		},
		{
			name: "the agent cheats, and the file is kept", title: "Say hello", end: run.EndAllTasksComplete,
			body: "- [ ] Write the readme\n  - Accept: README.md has a heading\n- [ ] Write one\n- [ ] Write two\n",
			repo: "progress: {keep: true}\n", script: `model: scripted
tasks:
  readme: [{tick: true, say: "It was there already, in README.md:1."}]
  one: [{misbehave: tick_all}, {files: {.github/workflows/scripted.yml: "on: push\n"}}, {files: {one.txt: "1\n"}, say: done}]
verify:
  readme: [{say: "1. yes: README.md:1 is the heading\n\nRALPH_VERIFY: agreed"}]
default: [{files: {two.txt: "2\n"}, say: done}]
`,
		},
	}
}

func (p parity) setting() setting {
	files := map[string]string{"README.md": "# widgets\n"}
	if p.repo != "" {
		files[config.RepoPath] = p.repo
	}
	return setting{files: files, script: p.script}
}

// onGitHub is what is on the branch and in the pull request.
func (st *stage) onGitHub(end run.EndReason) outcome {
	st.t.Helper()
	pr := st.onlyPR()
	o := outcome{End: string(end), Branch: pr.Head, Files: st.contents(pr.Head), Body: anyRun(pr.Body)}
	for name, text := range o.Files {
		o.Files[name] = anyRun(text)
	}
	for _, c := range pr.Commits {
		o.Commits = append(o.Commits, anyRun(c.Subject+"\n\n"+c.Body))
		modes, err := st.sim.Files(person, repoOf, c.OID)
		if err != nil {
			st.t.Fatal(err)
		}
		if path := ".ralph/1/progress.md"; modes[path] != "" {
			b, err := st.sim.File(person, repoOf, c.OID, path)
			if err != nil {
				st.t.Fatal(err)
			}
			o.Progress = anyRun(string(b))
		}
	}
	return o
}

func throughApp(t *testing.T, p parity) outcome {
	t.Helper()
	st := newStage(t, p.setting())
	s := st.serve()
	state := st.ended(s.store, st.label(p.title, p.body))
	st.processed(s)
	return st.onGitHub(state.End)
}

func throughAction(t *testing.T, p parity) outcome {
	t.Helper()
	r := newRunner(t, p.setting())
	r.exe = testProgram(t)
	got := r.job("issues", r.labelled(p.title, p.body)).step()
	if got.code != p.end.ExitCode() {
		t.Errorf("exit code %d, want %d\n%s", got.code, p.end.ExitCode(), got.log)
	}
	return r.onGitHub(run.EndReason(got.outputs["end_reason"]))
}

// throughCLI works a plan with the title and text. There is no GitHub,
// so there is no description.
func throughCLI(t *testing.T, p parity) outcome {
	t.Helper()
	dir := shortTempDir(t)
	repo := filepath.Join(dir, "repo")
	newRepo(t, repo, p.setting().files)
	gitOut(t, repo, "switch", "-q", "main")
	script, plan := filepath.Join(dir, "script.yaml"), filepath.Join(dir, "1.md")
	for file, text := range map[string]string{script: p.script, plan: "# " + p.title + "\n\n" + p.body} {
		// #nosec G306 -- the agent is another user
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, code, said := botSays(t, testProgram(t), repo, nil, plan, "--agent", "script", "--script", script, "--review", "--json")
	var r result
	if err := json.Unmarshal(out, &r); err != nil || code != p.end.ExitCode() {
		t.Fatalf("exit code %d, %v: %s\n%s", code, err, out, said)
	}
	o := outcome{End: string(r.Run.EndReason), Branch: r.Branch, Files: map[string]string{}}
	commits := slices.Clone(r.Commits)
	if r.Closing != nil {
		commits = append(commits, *r.Closing)
	}
	for _, c := range commits {
		o.Commits = append(o.Commits, anyRun(strings.TrimSpace(gitOut(t, repo, "log", "-1", "--format=%B", c.SHA))))
		if path := ".ralph/1/progress.md"; gitOut(t, repo, "ls-tree", "-r", "--name-only", c.SHA, path) != "" {
			o.Progress = anyRun(gitOut(t, repo, "show", c.SHA+":"+path))
		}
	}
	at := r.Branch
	if len(commits) == 0 {
		at = "main" // the empty branch is gone
	}
	for name := range strings.Lines(gitOut(t, repo, "ls-tree", "-r", "--name-only", at)) {
		name = strings.TrimSpace(name)
		o.Files[name] = gitOut(t, repo, "show", at+":"+name)
	}
	return o
}

var (
	requester = regexp.MustCompile(`^Co-authored-by: `)
	planHash  = regexp.MustCompile(`^<!-- `)
	tail      = regexp.MustCompile(`\n+$`)
	goOn      = regexp.MustCompile(`(?m)^---\n\n.*$`)
)

// Every door comes to the same results. What legitimately differs stands here:
//
//   - Action: the line below the description says how to go on, and a job hears
//     less than a server; see TestActionLabelBecomesPullRequest.
//   - CLI: there is no GitHub, so no description; nobody asked for the run but
//     who sits there; the plan is a file, so that it has another hash and
//     another name on the first line of progress.md.
func TestDoorsComeToTheSame(t *testing.T) {
	t.Parallel()
	doors := []door{
		{name: "Action", work: throughAction, differs: func(o *outcome) { o.Body = goOn.ReplaceAllString(o.Body, "---") }},
		{name: "CLI", work: throughCLI, differs: func(o *outcome) {
			o.Body = ""
			o.Commits = slices.DeleteFunc(slices.Clone(o.Commits),
				func(c string) bool { return strings.HasPrefix(c, "chore: remove the progress file") })
			for i, c := range o.Commits {
				o.Commits[i] = tail.ReplaceAllString(without(without(c+"\n", requester), planHash), "")
			}
			o.Progress = without(o.Progress, planHash)
			files := map[string]string{}
			for name, text := range o.Files {
				if !strings.HasPrefix(name, ".ralph/") {
					files[name] = text
				}
			}
			o.Files = files
		}},
	}
	for _, p := range parities() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			app := throughApp(t, p)
			if app.End != string(p.end) {
				t.Errorf("App: ended %s, want %s", app.End, p.end)
			}
			for _, d := range doors {
				want, got := app, d.work(t, p)
				d.differs(&want)
				d.differs(&got)
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Errorf("%s (- App, + %s):\n%s", p.name, d.name, diff)
				}
			}
		})
	}
}
