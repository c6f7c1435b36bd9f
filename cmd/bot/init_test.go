package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInitAsks: on a terminal a person is asked, Enter takes what is proposed, and an
// answer that makes no sense is asked for again.
func TestInitAsks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	newRepo(t, repo, map[string]string{"go.mod": "module example.com/x\n\ngo 1.26\n"})
	cmd := exec.CommandContext(t.Context(), theProgram(t), "init")
	cmd.Dir, cmd.Env = repo, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	// Wide enough for two questions on a line: an answer may be typed before its question is shown.
	term := onTerminal(t, 200, 40, cmd)
	for _, step := range []struct{ question, answer string }{
		{"Agent (claude, codex", "nobody\n"},
		{"opencode, copilot)", "gemini\n"},
		{"go test -v ./...", ""},
		{"Use them before each commit (yes or no) [yes]:", "\n"},
		{"Write the workflow of the GitHub Action (yes or no) [no]:", "y\n"},
	} {
		term.await(regexp.QuoteMeta(step.question))
		term.typed(step.answer)
	}
	code, screen := term.ended()
	shown := strings.Join(screen, "\n")
	if code != 0 || !strings.Contains(shown, "Wrote .github/ralph.yml.") || !strings.Contains(shown, "Wrote "+workflowPath) {
		t.Fatalf("exit code %d:\n%s", code, shown)
	}
	text, err := os.ReadFile(filepath.Join(repo, ".github", "ralph.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `run: "go test -v ./..."`) {
		t.Errorf("it says\n%s", text)
	}
}

// TestInitWritesTheWorkflowOfTheDocs: the workflow that is written is the one that
// docs/action.md shows.
func TestInitWritesTheWorkflowOfTheDocs(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/action.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "```yaml\non: {issues:")
	shown, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("docs/action.md shows no workflow")
	}
	if diff := cmp.Diff("on: {issues:"+shown, beginnings{agent: "claude"}.workflowText()); diff != "" {
		t.Error(diff)
	}
}
