package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
)

// heldRun is a run of three tasks, full screen on a terminal of 80 by 24. Each check waits
// until let is called once for it.
func heldRun(t *testing.T) (term *terminal, hold string, let func()) {
	t.Helper()
	dir := t.TempDir()
	repo, script := filepath.Join(dir, "repo"), filepath.Join(dir, "script.yaml")
	hold = filepath.Join(dir, "hold")
	namedPipe(t, hold)
	newRepo(t, repo, map[string]string{
		"plan.md": "# Say hello\n\n- [ ] Write one\n- [ ] Write two\n- [ ] Write three\n",
		// The check waits until somebody opens the pipe for writing.
		".github/ralph.yml": "gates: [{name: hold the line, run: 'cat " + hold + "'}]\n",
	})
	if err := os.WriteFile(script, []byte("default: [{append: {all.txt: \"1\\n\"}, cost_usd: 0.25}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), theProgram(t), "run", "plan.md", "--agent", "script", "--script", script,
		"--local-isolation", "none", "--no-review", "--tui")
	cmd.Dir = repo
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "RALPH_DATA_DIR=" + filepath.Join(dir, "data"), "LANG=C.UTF-8", "NO_COLOR=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
	}
	term = onTerminal(t, 80, 24, cmd)
	return term, hold, func() {
		pipe, err := os.OpenFile(hold, os.O_WRONLY, 0) // once the check has opened it
		if err == nil {
			err = pipe.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// resize makes the terminal that large.
func (term *terminal) resize(columns, rows int) {
	term.t.Helper()
	term.vt.Resize(columns, rows)
	if err := pty.Setsize(term.pty, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}); err != nil {
		term.t.Fatal(err)
	}
}

// isOver says whether the program has ended.
func (term *terminal) isOver() bool {
	select {
	case <-term.over:
		return true
	default:
		return false
	}
}

// TestFullScreen: the full screen shows the run at 80 by 24 and at 40 by 10, its keys reach
// the run, and the terminal is as it was at the end.
func TestFullScreen(t *testing.T) {
	t.Parallel()
	term, _, let := heldRun(t)
	let() // the check on what was there before
	term.await(`hold the line, as it was before the work began, passed`)
	screen := term.await(`^\[\?\] T1 Write one`)
	term.await(`^check: hold the line`)
	for _, row := range screen {
		if len([]rune(row)) > 79 {
			t.Errorf("a row of %d columns: %q", len([]rune(row)), row)
		}
	}
	term.resize(40, 10)
	term.await(`^p pause`)
	term.await(`^\[\?\] T1 Write one`)
	term.resize(80, 24)
	term.typed("p")
	term.await(`paused before the next call`)
	let()
	term.await(`waiting, no attempt is used: paused`)
	term.typed("p")
	term.await(`^\[\?\] T2 Write two`)
	term.typed("xy")
	term.await(`stops after this call`)
	let()
	code, screen := term.ended()
	shown := strings.Join(screen, "\n")
	if code != 6 || !strings.Contains(shown, "✓ T2 (2 of 3") || strings.Contains(shown, "-- Log") {
		t.Errorf("exit code %d, and the last screen is\n%s", code, shown)
	}
}

// TestFullScreenIsLeft: q goes on with plain output, and Ctrl-C cancels the run. Both give
// the terminal back.
func TestFullScreenIsLeft(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		key  string
		code int
		says string
	}{
		"plain":     {"q", 0, "✓ T3 (3 of 3"},
		"cancelled": {"\x03", 130, "■ "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term, hold, let := heldRun(t)
			var letting sync.WaitGroup
			let()
			term.await(`^check: hold the line`)
			term.typed(want.key)
			if want.key == "q" {
				term.await(`running hold the line`)
				letting.Go(func() {
					for !term.isOver() {
						let()
					}
				})
			}
			code, screen := term.ended()
			last, err := os.OpenFile(hold, os.O_RDWR, 0) // for the one that waits in vain
			if err != nil {
				t.Fatal(err)
			}
			letting.Wait()
			if err := last.Close(); err != nil {
				t.Fatal(err)
			}
			if code != want.code || !slices.ContainsFunc(screen, func(row string) bool { return strings.Contains(row, want.says) }) ||
				strings.Contains(strings.Join(screen, "\n"), "-- Log") {
				t.Errorf("exit code %d, and the last screen is\n%s", code, strings.Join(screen, "\n"))
			}
		})
	}
}
