package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox/local"
)

// sizes are the repositories that speed is measured on.
var sizes = []struct {
	name  string
	files int
}{{"small", 20}, {"10k-files", 10_000}}

// fileSet makes n small files in directories of fifty.
func fileSet(n int) map[string]string {
	files := make(map[string]string, n)
	for i := range n {
		files[fmt.Sprintf("dir%03d/file%05d.txt", i/50, i)] = "file " + strconv.Itoa(i) + "\n" +
			strings.Repeat("some text\n", 20)
	}
	return files
}

// gitIn runs git as a person would.
func gitIn(tb testing.TB, dir string, args ...string) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func newRepo(tb testing.TB, dir string, files map[string]string) {
	tb.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	gitIn(tb, dir, "init", "-q", "-b", "main")
	gitIn(tb, dir, "config", "user.name", "Ada")
	gitIn(tb, dir, "config", "user.email", "ada@example.com")
	gitIn(tb, dir, "add", "-A")
	gitIn(tb, dir, "commit", "-q", "-m", "begin")
	gitIn(tb, dir, "switch", "-q", "-c", "work")
}

// BenchmarkLoopOverhead is what one iteration of `bot run` costs beyond the
// agent's own time, beside a bare `git add -A && git commit` in a shell on the
// same repository. Bar: at most 2.0 times that, and 1.5 on 10,000 files. What
// bubblewrap costs is not part of it.
func BenchmarkLoopOverhead(b *testing.B) {
	const tasks = 30
	bot := builtBot(b)
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			var overhead, bare time.Duration
			for range b.N {
				dir := b.TempDir()
				repo := filepath.Join(dir, "repo")
				newRepo(b, repo, fileSet(size.files))
				// Half of them before and half after: a machine is not equally
				// fast all the time.
				for i := range tasks / 2 {
					bare += bareCommit(b, repo, i)
				}
				overhead += runOverhead(b, bot, dir, repo, tasks)
				for i := range tasks - tasks/2 {
					bare += bareCommit(b, repo, i)
				}
			}
			n := time.Duration(b.N * tasks)
			b.ReportMetric(float64((overhead/n).Microseconds())/1000, "loop-ms")
			b.ReportMetric(float64((bare/n).Microseconds())/1000, "git-ms")
			b.ReportMetric(float64(overhead)/float64(bare), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// runOverhead works a plan of n tasks and returns the time from the first
// iteration to the end of the run, less the time the agents ran.
func runOverhead(b *testing.B, bot, dir, repo string, n int) time.Duration {
	b.Helper()
	plan, script := filepath.Join(dir, "plan.md"), filepath.Join(dir, "script.yaml")
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "- [ ] Task number %d\n", i+1)
	}
	for file, content := range map[string]string{
		plan: text.String(), script: "model: s\ndefault: [{append: {dir000/file00001.txt: \"more\\n\"}, say: done}]\n",
	} {
		// #nosec G306 -- the agent is another user
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	git, err := gitrepo.New(mustLook(b))
	if err != nil {
		b.Fatal(err)
	}
	backend, err := agent.Lookup("script", agent.Options{ScriptFile: script, Self: bot})
	if err != nil {
		b.Fatal(err)
	}
	box, err := local.New(local.Options{Self: bot, Isolation: local.IsolationNone})
	if err != nil {
		b.Fatal(err)
	}
	var first, last time.Time
	s, err := inline.Run(b.Context(), inline.Options{
		PlanFile: plan, Dir: repo, DataDir: filepath.Join(dir, "data"), Git: git, Sandbox: box, Backend: backend, Here: true,
		NoDetect: true, Now: time.Now, Emit: func(ev run.Event) {
			if ev.Kind == run.EventIteration && first.IsZero() {
				first = ev.Time
			}
			if ev.Kind == run.EventCommitted {
				last = ev.Time
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	if s.End != run.EndAllTasksComplete || len(s.Commits) != n {
		b.Fatalf("ended %s with %d commits", s.End, len(s.Commits))
	}
	took := last.Sub(first)
	for _, h := range s.History {
		took -= h.Duration
	}
	return took
}

func bareCommit(b *testing.B, repo string, i int) time.Duration {
	b.Helper()
	f, err := os.OpenFile(filepath.Join(repo, "dir000", "file00002.txt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Fprintln(f, "line", i); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), "sh", "-c", "git add -A && git commit -q -m change")
	cmd.Dir = repo
	begin := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return time.Since(begin)
}

func mustLook(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// BenchmarkLabelToAgent is the time from the label to the agent's process, the
// mirror being warm. Bar: 1.0 s on a repository of 10,000 files.
func BenchmarkLabelToAgent(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			st := newStage(b, setting{script: "model: s\ndefault: [{misbehave: hang}]\n", files: fileSet(size.files)})
			started := make(chan time.Time, 1)
			st.serveWith(func(ev run.Event) {
				if ev.Kind == run.EventAgentStarted {
					started <- time.Now()
				}
			})
			var total time.Duration
			for i := range b.N + 1 {
				issue, err := st.sim.CreateIssue(person, repoOf, person, "Say hello", threeTasks)
				if err != nil {
					b.Fatal(err)
				}
				begin := time.Now()
				st.relabel(issue, person)
				took := (<-started).Sub(begin)
				if i > 0 { // the first one makes the mirror
					total += took
				}
				if err := st.sim.CloseIssue(person, repoOf, issue.Number, person); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(total.Seconds()*1000/float64(b.N), "label-to-agent-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
