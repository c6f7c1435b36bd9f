package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// terminal is a program on a terminal whose screen can be read as a person sees it.
type terminal struct {
	t   *testing.T
	cmd *exec.Cmd
	// pty is the terminal's other end: what is typed goes in there.
	pty *os.File
	vt  vt10x.Terminal

	mu sync.Mutex
	// changed is closed and replaced whenever the program has written.
	changed chan struct{}
	// over is closed when the program has ended and all it wrote is on the screen.
	over chan struct{}
	err  error
}

// onTerminal starts cmd on a terminal of that many columns and rows. Its environment
// is cmd.Env and TERM.
func onTerminal(t *testing.T, columns, rows int, cmd *exec.Cmd) *terminal {
	t.Helper()
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	term := &terminal{
		t: t, cmd: cmd, vt: vt10x.New(vt10x.WithSize(columns, rows)),
		changed: make(chan struct{}), over: make(chan struct{}),
	}
	var err error
	term.pty, err = pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
	if err != nil {
		t.Fatal(err)
	}
	go term.watch()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, mostly
		<-term.over
		_ = term.pty.Close()
	})
	return term
}

// watch puts on the screen what the program writes, until it has ended.
func (term *terminal) watch() {
	b := make([]byte, 32<<10)
	for {
		n, err := term.pty.Read(b)
		_, _ = term.vt.Write(b[:n])
		term.mu.Lock()
		close(term.changed)
		term.changed = make(chan struct{})
		term.mu.Unlock()
		if err != nil { // EIO on Linux, EOF elsewhere: nobody has it open any more
			break
		}
	}
	term.err = term.cmd.Wait()
	close(term.over)
}

// lines are those of the screen, without the blanks at their ends and without empty
// ones at the end.
func (term *terminal) lines() []string {
	lines := strings.Split(strings.TrimRight(term.vt.String(), " \n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// await waits until a line of the screen matches the pattern, and gives the screen.
// Not every screen is seen: what passes by must not be waited for.
func (term *terminal) await(pattern string) []string {
	term.t.Helper()
	wanted := regexp.MustCompile(pattern)
	for {
		term.mu.Lock()
		changed := term.changed
		term.mu.Unlock()
		lines := term.lines()
		if slices.ContainsFunc(lines, wanted.MatchString) {
			return lines
		}
		select {
		case <-changed:
		case <-term.over:
			if lines := term.lines(); !slices.ContainsFunc(lines, wanted.MatchString) {
				term.t.Fatalf("it ended (%v) without showing %q:\n%s", term.err, pattern, strings.Join(lines, "\n"))
			}
		case <-term.t.Context().Done():
			term.t.Fatalf("%q is not shown:\n%s", pattern, strings.Join(lines, "\n"))
		}
	}
}

// typed types a text, and Enter where that is part of it as "\n".
func (term *terminal) typed(text string) {
	term.t.Helper()
	if _, err := term.pty.WriteString(strings.ReplaceAll(text, "\n", "\r")); err != nil {
		term.t.Fatal(err)
	}
}

// ended waits for the program's end, and gives its exit code and the last screen.
func (term *terminal) ended() (code int, screen []string) {
	term.t.Helper()
	<-term.over
	exit, failed := errors.AsType[*exec.ExitError](term.err)
	switch {
	case failed:
		code = exit.ExitCode()
	case term.err != nil:
		term.t.Fatal(term.err)
	}
	return code, term.lines()
}

// namedPipe makes a pipe with a name: who opens it waits until the other end is
// opened, too.
func namedPipe(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}
