//go:build claude

// The tests in this file run the real Claude Code CLI, named by the environment
// variable RALPH_TEST_CLAUDE, against a scripted model on loopback.

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/agent/agenttest"
	"github.com/org/ralph-action/internal/run"
)

// modelName is a model whose price the CLI knows.
const modelName = "claude-sonnet-4-5"

func claudePath(t testing.TB) string {
	t.Helper()
	path := os.Getenv("RALPH_TEST_CLAUDE")
	if path == "" {
		t.Fatal("RALPH_TEST_CLAUDE does not name the Claude Code binary")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// runPlan runs `bot run --json` with the CLI; see runAgent.
func runPlan(t testing.TB, exe, dir string, env []string, args ...string) (result, int, string) {
	t.Helper()
	return runAgent(t, exe, dir, env, append([]string{"--agent", "claude", "--agent-path", claudePath(t)}, args...)...)
}

// writesTask makes the CLI write a file named after the task, first asking
// where it is, and then something it learned into the progress file.
func writesTask(turn agenttest.Turn) agenttest.Reply {
	switch turn.Number {
	case 0:
		return agenttest.Bash("pwd")
	case 1:
		if len(turn.Results) != 1 || turn.Results[0].IsError {
			return agenttest.Fail(http.StatusBadRequest, "the Bash tool does not work")
		}
		return agenttest.Write(strings.TrimSpace(turn.Results[0].Text)+"/"+turn.Task+".txt", "by "+turn.Task+"\n")
	case 2:
		return agenttest.Bash(`sed -i 's/^## Learnings$/&\n- ` + turn.Task + ` taught the CLI something/' ` +
			turn.ProgressFile)
	default:
		return agenttest.Done("The file is there.")
	}
}

// TestClaudeWorksAPlan: the CLI makes a plan of a text and works it, with real
// tool calls.
func TestClaudeWorksAPlan(t *testing.T) {
	t.Parallel()
	const key = "sk-ant-of-a-laptop"
	api, url := newModel(t, key, func(turn agenttest.Turn) agenttest.Reply {
		switch {
		case len(turn.Tools) == 0:
			return agenttest.Say("ok")
		case turn.Mode == run.ModePlan && turn.Number == 0:
			return agenttest.Bash(`sed -i 's/^## Tasks$/&\n- [ ] Write one\n- [ ] Write two/' ` + turn.ProgressFile)
		case turn.Mode == run.ModePlan:
			return agenttest.Say("The plan is written.")
		default:
			return writesTask(turn)
		}
	})
	dir := planned(t, "# Greet\n\nGreet everybody, in two files.\n")
	got, code, told := runPlan(t, "", dir, []string{"ANTHROPIC_API_KEY=" + key, "ANTHROPIC_BASE_URL=" + url},
		"--sandbox", "local", "--model", modelName, "--gate", "ls T*.txt")
	if code != run.ExitComplete || got.Run.EndReason != run.EndAllTasksComplete {
		t.Fatalf("exit code %d, run %+v\n%s", code, got.Run, told)
	}

	if got.Run.Iterations != 2 || got.Tasks != (tasksResult{Total: 2, Done: 2}) || got.Branch != "work" ||
		len(got.Attempts) != 0 {
		t.Errorf("document %+v", got)
	}
	if got.Issue != nil || got.PullRequest != nil || got.APICalls != nil {
		t.Errorf("a run without GitHub tells of it: %+v", got)
	}
	want := []string{"feat: write one", "feat: write two"}
	if log := gitOut(t, dir, "log", "--reverse", "--format=%s", "main..work"); log != strings.Join(want, "\n") {
		t.Errorf("commits:\n%s", log)
	}
	for i, c := range got.Commits {
		if c.Subject != want[i] || c.Verified != nil || c.SHA != gitOut(t, dir, "rev-parse", "work~"+[]string{"1", "0"}[i]) {
			t.Errorf("commit %+v", c)
		}
		body := gitOut(t, dir, "log", "-1", "--format=%b", c.SHA)
		for _, trailer := range []string{
			"Ralph-Task: " + c.Task, "Ralph-Agent: claude", "Ralph-Model: " + modelName, "Ralph-Cost-USD: 0.0",
		} {
			if !strings.Contains(body, trailer) {
				t.Errorf("commit %q lacks %q:\n%s", c.Subject, trailer, body)
			}
		}
	}
	if got.Run.CostUSD <= 0 || got.Run.CostUSD > 1 {
		t.Errorf("cost $%f", got.Run.CostUSD)
	}
	files := gitOut(t, dir, "ls-tree", "-r", "--name-only", "work")
	if diff := cmp.Diff(".ralph/plan/progress.md\nT1.txt\nT2.txt\nplan.md", files); diff != "" {
		t.Error(diff)
	}
	for _, task := range []string{"T1", "T2"} {
		if b, err := os.ReadFile(filepath.Join(dir, task+".txt")); err != nil || string(b) != "by "+task+"\n" {
			t.Errorf("%s.txt in the checkout: %q, %v", task, b, err)
		}
	}
	progress := gitOut(t, dir, "show", "work:.ralph/plan/progress.md")
	for _, want := range []string{
		"- [x] T1 Write one", "- [x] T2 Write two", "- T1 taught the CLI something", "- T2 taught the CLI something",
	} {
		if !strings.Contains(progress, want) {
			t.Errorf("progress.md lacks %q:\n%s", want, progress)
		}
	}
	for _, r := range api.Requests() {
		if r.Method == http.MethodPost && (r.Header.Get("X-Api-Key") != key || r.Model != modelName) {
			t.Errorf("%s asks %s as %q", r.Path, r.Model, r.Header.Get("X-Api-Key"))
		}
	}
}
