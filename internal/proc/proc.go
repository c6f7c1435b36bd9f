package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The values that stand for a zero field of Cmd.
const (
	// DefaultStdoutLimit is how many bytes of standard output Run keeps.
	DefaultStdoutLimit = 1 << 20
	// DefaultStderrLimit is how many bytes of standard error Run keeps.
	DefaultStderrLimit = 64 << 10
	// DefaultGrace is the time between SIGTERM and SIGKILL.
	DefaultGrace = 2 * time.Second
)

// drainDelay is how long Run waits for the output pipes to reach their end
// after the group is dead. Only a descendant that left the group can keep them
// open longer; it must not keep Run. What was written until then is not lost,
// however slow its reader is.
const drainDelay = 500 * time.Millisecond

// Cmd describes a process to start.
type Cmd struct {
	// Path is the absolute path of the program; see Look.
	Path string
	// Args are the arguments after the program's name.
	Args []string
	// Dir is the working directory; empty means the caller's.
	Dir string
	// Env is the whole environment. Nil means an empty one; pass os.Environ()
	// to inherit, or ScrubbedEnv for the harmless part of it.
	Env []string
	// Stdin is what the process reads; nil means /dev/null.
	Stdin io.Reader
	// Stdout receives the output as it comes, instead of Result.Stdout.
	Stdout io.Writer
	// Stderr receives standard error as it comes, besides Result.Stderr.
	Stderr io.Writer
	// StdoutLimit caps the bytes of standard output that are kept, or passed
	// to Stdout. 0 means DefaultStdoutLimit, and no limit where Stdout is set.
	StdoutLimit int64
	// StderrLimit caps the bytes of standard error that are kept: the last
	// ones. 0 means DefaultStderrLimit.
	StderrLimit int64
	// Grace is the time between SIGTERM and SIGKILL after the context is done.
	// 0 means DefaultGrace.
	Grace time.Duration
	// ExtraFiles are inherited as descriptors 3, 4, …
	ExtraFiles []*os.File
	// Sys is how a process begins, besides in a group or a session of its own.
	Sys *syscall.SysProcAttr
}

// Result is what a process left behind.
type Result struct {
	// Stdout holds the first bytes of standard output, up to the limit.
	Stdout []byte
	// Stderr holds the last bytes of standard error, up to the limit.
	Stderr []byte
	// StdoutTruncated says that there was more output than the limit.
	StdoutTruncated bool
}

// ExitError says that a process ran and did not end with status 0. Its text
// never shows the arguments: they may be long, or not for every eye.
type ExitError struct {
	Argv0 string
	Args  []string
	// Code is the exit status, or -1 where a signal ended the process.
	Code int
	// Signal is the signal that ended the process, or 0.
	Signal syscall.Signal
	// Stderr is the end of what the process said.
	Stderr []byte
	// Cause is why Run ended the process (the cause of its context), or nil.
	Cause error
}

// Error implements error.
func (e *ExitError) Error() string {
	var b strings.Builder
	b.WriteString(filepath.Base(e.Argv0))
	switch {
	case e.Cause != nil:
		fmt.Fprintf(&b, ": stopped: %v", e.Cause)
	case e.Signal != 0:
		fmt.Fprintf(&b, ": ended by signal %d (%v)", int(e.Signal), e.Signal)
	default:
		fmt.Fprintf(&b, ": exit status %d", e.Code)
	}
	if said := strings.TrimSpace(string(e.Stderr)); said != "" {
		const most = 2000
		if len(said) > most {
			said = "…" + said[len(said)-most:]
		}
		b.WriteString(": ")
		b.WriteString(strings.ToValidUTF8(said, "\uFFFD"))
	}
	return b.String()
}

// Unwrap gives the cause of the cancellation, so that errors.Is finds
// context.Canceled and its like.
func (e *ExitError) Unwrap() error { return e.Cause }

// Look finds a program in PATH and returns its absolute path. The error wraps
// exec.ErrNotFound where there is none; a program found through a relative
// PATH entry counts as none, since the working directory may be hostile.
func Look(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		return "", fmt.Errorf("look for %s: %w", name, exec.ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("look for %s: %w", name, err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("look for %s: %w", name, err)
	}
	return abs, nil
}

// sys is a copy of Sys.
func (c Cmd) sys() *syscall.SysProcAttr {
	if c.Sys == nil {
		return &syscall.SysProcAttr{}
	}
	sys := *c.Sys
	return &sys
}

// Run starts the process, waits for it and returns what it said. When ctx is
// done the whole group gets SIGTERM, and SIGKILL after the grace period. The
// error is an *ExitError where the process ran and did not end with status 0;
// the Result is filled as far as it came in either case.
func Run(ctx context.Context, c Cmd) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("start %s: %w", filepath.Base(c.Path), context.Cause(ctx))
	}

	stdout := &headBuffer{limit: orDefault(c.StdoutLimit, DefaultStdoutLimit)}
	var stdoutSink io.Writer = stdout
	if c.Stdout != nil {
		stdoutSink = c.Stdout
		if c.StdoutLimit > 0 {
			stdout.pass = c.Stdout
			stdoutSink = stdout
		}
	}
	stderr := &Tail{Limit: int(orDefault(c.StderrLimit, DefaultStderrLimit))}
	var stderrSink io.Writer = stderr
	if c.Stderr != nil {
		stderrSink = io.MultiWriter(stderr, c.Stderr)
	}

	cmd := exec.CommandContext(ctx, c.Path, c.Args...) // #nosec G204 -- starting the caller's program is the job
	cmd.Dir = c.Dir
	cmd.Env = c.env()
	cmd.Stdin = c.Stdin
	cmd.ExtraFiles = c.ExtraFiles
	cmd.SysProcAttr = c.sys()
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error {
		err := SignalGroup(cmd.Process.Pid, syscall.SIGTERM)
		if err != nil {
			return cmd.Process.Kill()
		}
		return nil
	}
	// After this delay package exec kills the leader; the group follows below.
	cmd.WaitDelay = c.Grace
	if cmd.WaitDelay <= 0 {
		cmd.WaitDelay = DefaultGrace
	}

	// The pipes are ours rather than package exec's: its Wait would wait for
	// whichever grandchild still holds them, before we could end it.
	pipes, err := newDrains(stdoutSink, stderrSink)
	if err != nil {
		return Result{}, fmt.Errorf("start %s: %w", filepath.Base(c.Path), err)
	}
	cmd.Stdout, cmd.Stderr = pipes[0].w, pipes[1].w
	if err := cmd.Start(); err != nil {
		for _, p := range pipes {
			p.abandon()
		}
		return Result{}, fmt.Errorf("start %s: %w", filepath.Base(c.Path), err)
	}
	for _, p := range pipes {
		p.start()
	}
	waitErr := cmd.Wait()
	// The group's number stays taken as long as it has a member, so that this
	// reaches what was left behind and nobody else.
	killErr := SignalGroup(cmd.Process.Pid, syscall.SIGKILL)
	late := make(chan struct{})
	timer := time.AfterFunc(drainDelay, func() { close(late) })
	defer timer.Stop()
	var writeErr error
	for _, p := range pipes {
		writeErr = errors.Join(writeErr, p.finish(late))
	}

	res := Result{Stderr: stderr.Bytes(), StdoutTruncated: stdout.dropped}
	if c.Stdout == nil {
		res.Stdout = stdout.kept
	}
	if cmd.ProcessState != nil && !cmd.ProcessState.Success() {
		return res, c.exitError(ctx, cmd.ProcessState, res.Stderr)
	}
	if err := errors.Join(waitErr, writeErr, killErr); err != nil {
		return res, fmt.Errorf("run %s: %w", filepath.Base(c.Path), err)
	}
	return res, nil
}

func (c Cmd) check() error {
	if !filepath.IsAbs(c.Path) {
		return fmt.Errorf("start %q: the path of the program is not absolute", c.Path)
	}
	return nil
}

// env is never nil: package exec takes nil for "inherit everything".
func (c Cmd) env() []string {
	return append([]string{}, c.Env...)
}

func (c Cmd) exitError(ctx context.Context, state *os.ProcessState, stderr []byte) *ExitError {
	e := &ExitError{Argv0: c.Path, Args: c.Args, Code: state.ExitCode(), Stderr: stderr}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal = ws.Signal()
	}
	if ctx.Err() != nil {
		e.Cause = context.Cause(ctx)
	}
	return e
}

// SignalGroup sends sig to every process of the group pgid. A group that is
// already gone is no error.
func SignalGroup(pgid int, sig syscall.Signal) error {
	if pgid <= 1 {
		// kill(-1) would reach every process there is, kill(0) our own group.
		return fmt.Errorf("signal process group %d: not a group", pgid)
	}
	err := syscall.Kill(-pgid, sig)
	// macOS answers EPERM where every member is a zombie.
	if err == nil || errors.Is(err, syscall.ESRCH) || (errors.Is(err, syscall.EPERM) && zombieGroupIsEPERM) {
		return nil
	}
	return fmt.Errorf("signal process group %d: %w", pgid, err)
}

func orDefault(v, def int64) int64 {
	if v <= 0 {
		return def
	}
	return v
}
