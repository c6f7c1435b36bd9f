package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunOnATerminal: a person sees what goes on right now, on one line that is
// rewritten, and only what matters stays.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo, hold, free := filepath.Join(dir, "repo"), filepath.Join(dir, "hold"), filepath.Join(dir, "free")
	namedPipe(t, hold)
	newRepo(t, repo, map[string]string{
		"plan.md": "# Say hello\n\n- [ ] Write one\n",
		// The first check waits until somebody opens the pipe for writing.
		".github/ralph.yml": "gates: [{name: hold the line, run: 'test -e " + free + " || cat " + hold + "'}]\n",
	})
	script := filepath.Join(dir, "script.yaml")
	if err := os.WriteFile(script, []byte("default: [{files: {one.txt: \"1\\n\"}, cost_usd: 0.25}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), theProgram(t), "run", "plan.md", "--agent", "script", "--script", script,
		"--local-isolation", "none", "--no-review")
	cmd.Dir = repo
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "RALPH_DATA_DIR=" + filepath.Join(dir, "data"), "LANG=C.UTF-8",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
	}
	term := onTerminal(t, 80, 24, cmd)
	const now = "running hold the line"
	screen := term.await(now)
	if n := strings.Count(strings.Join(screen, "\n"), now); n != 1 {
		t.Errorf("what goes on stands there %d times:\n%s", n, strings.Join(screen, "\n"))
	}
	term.await(now + " · [1-9]") // the clock goes on while nothing else happens
	if err := os.WriteFile(free, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(hold, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	code, screen := term.ended()
	shown := strings.Join(screen, "\n")
	if code != 0 || !strings.Contains(shown, "✓ T1 (1 of 1") || strings.Contains(shown, now) {
		t.Errorf("exit code %d, and the last screen is\n%s", code, shown)
	}
}
