package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/org/ralph-action/internal/proc"
)

// helperEnv makes the test binary play a part instead of running tests.
const helperEnv = "PROC_TEST_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "":
		goleak.VerifyTestMain(m)
	case "detach":
		// Starts a detached reader of descriptor 3 that answers on 4, prints
		// its number, and ends.
		os.Exit(helperDetach())
	default:
		os.Exit(2)
	}
}

func helperDetach() int {
	d, err := proc.StartDetached(proc.Cmd{
		Path:       "/bin/sh",
		Args:       []string{"-c", `read line <&3; echo "got $line"`},
		Stdout:     os.NewFile(4, "out"),
		ExtraFiles: []*os.File{os.NewFile(3, "in")},
	})
	if err != nil {
		return 1
	}
	if _, err := fmt.Fprintln(os.Stdout, d.PID()); err != nil {
		return 1
	}
	return 0
}

func sh(script string) proc.Cmd {
	return proc.Cmd{Path: "/bin/sh", Args: []string{"-c", script}, Env: proc.ScrubbedEnv()}
}

func TestRunOutcomes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		script     string
		stdin      string
		wantOut    string
		wantErr    string
		wantCode   int
		wantSignal syscall.Signal
	}{
		{name: "output", script: "echo out; echo err >&2", wantOut: "out\n", wantErr: "err\n"},
		{name: "stdin reaches it", script: "cat", stdin: "hello", wantOut: "hello"},
		{name: "unread stdin is no error", script: "exec true", stdin: strings.Repeat("x", 1<<20)},
		{name: "exit status", script: "echo why >&2; exit 7", wantErr: "why\n", wantCode: 7},
		{name: "signal", script: "kill -9 $$", wantCode: -1, wantSignal: syscall.SIGKILL},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := sh(tt.script)
			if tt.stdin != "" {
				c.Stdin = strings.NewReader(tt.stdin)
			}
			res, err := proc.Run(t.Context(), c)
			if got := string(res.Stdout); got != tt.wantOut {
				t.Errorf("stdout %q, want %q", got, tt.wantOut)
			}
			if got := string(res.Stderr); got != tt.wantErr {
				t.Errorf("stderr %q, want %q", got, tt.wantErr)
			}
			if tt.wantCode == 0 {
				if err != nil {
					t.Errorf("error %v", err)
				}
				return
			}
			exit, ok := errors.AsType[*proc.ExitError](err)
			if !ok {
				t.Fatalf("error %v, want an ExitError", err)
			}
			if exit.Code != tt.wantCode || exit.Signal != tt.wantSignal || exit.Cause != nil {
				t.Errorf("got code %d signal %d cause %v, want %d, %d, none",
					exit.Code, exit.Signal, exit.Cause, tt.wantCode, tt.wantSignal)
			}
			if !strings.Contains(err.Error(), strings.TrimSpace(tt.wantErr)) {
				t.Errorf("error %q does not say %q", err, tt.wantErr)
			}
		})
	}
}

func TestExitErrorDoesNotShowArguments(t *testing.T) {
	t.Parallel()
	_, err := proc.Run(t.Context(), proc.Cmd{Path: "/bin/sh", Args: []string{"-c", "exit 3", "hunter2"}})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v, want one without the arguments", err)
	}
}

func TestRunEnvironmentIsExact(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hunter2")
	env, err := proc.Look("env")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"nil is empty": nil, "given": {"A=1", "B=2"}} {
		t.Run(name, func(t *testing.T) {
			res, err := proc.Run(t.Context(), proc.Cmd{Path: env, Env: want})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, nonEmptyLines(string(res.Stdout))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func nonEmptyLines(s string) []string {
	var out []string
	for line := range strings.Lines(s) {
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out
}

func TestScrubbedEnv(t *testing.T) {
	t.Setenv("PATH", "/bin")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("HOME", "/home/me")
	env := proc.ScrubbedEnv("HOME=/nonexistent", "PATH=/usr/bin", "X=1", "X=2")
	got := map[string]string{}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		if _, twice := got[k]; twice {
			t.Errorf("%s is given twice", k)
		}
		got[k] = v
	}
	for k, want := range map[string]string{"PATH": "/usr/bin", "HOME": "/nonexistent", "X": "2"} {
		if got[k] != want {
			t.Errorf("%s=%q, want %q", k, got[k], want)
		}
	}
	if _, leaked := got["AWS_SECRET_ACCESS_KEY"]; leaked {
		t.Error("a secret was passed on")
	}
}

func TestRunCapsOutput(t *testing.T) {
	t.Parallel()
	const script = "head -c 3000000 /dev/zero; head -c 1000000 /dev/zero >&2; printf end >&2"

	c := sh(script)
	c.StdoutLimit, c.StderrLimit = 1000, 100
	res, err := proc.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Stdout) != 1000 || !res.StdoutTruncated {
		t.Errorf("kept %d bytes, truncated %v; want 1000, true", len(res.Stdout), res.StdoutTruncated)
	}
	if len(res.Stderr) != 100 || !bytes.HasSuffix(res.Stderr, []byte("end")) {
		t.Errorf("kept %d bytes of stderr ending in %q; want the last 100", len(res.Stderr), res.Stderr)
	}

	var sink bytes.Buffer
	c.Stdout, c.StdoutLimit = &sink, 5000
	if res, err = proc.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if sink.Len() != 5000 || !res.StdoutTruncated || res.Stdout != nil {
		t.Errorf("sink got %d bytes, truncated %v, %d kept; want 5000, true, 0", sink.Len(), res.StdoutTruncated,
			len(res.Stdout))
	}

	sink.Reset()
	c.StdoutLimit = 0
	if _, err = proc.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if sink.Len() != 3000000 {
		t.Errorf("sink without a limit got %d bytes, want 3000000", sink.Len())
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestRunReportsBrokenSink(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	c := sh("head -c 1000000 /dev/zero")
	c.Stdout = brokenWriter{broken}
	if _, err := proc.Run(t.Context(), c); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

// lifeline is a pipe whose write end only the started processes hold: it comes
// to its end when the last of them is dead.
type lifeline struct {
	r, w *os.File
}

func newLifeline(t *testing.T) *lifeline {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return &lifeline{r, w}
}

func (l *lifeline) mustBeCut(t *testing.T) {
	t.Helper()
	_ = l.w.Close()
	if err := l.r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(l.r); err != nil {
		t.Errorf("a descendant is alive after Run returned: %v", err)
	}
}

func TestRunLeavesNoDescendant(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script string
		cancel bool
	}{
		"leader ended well": {script: "sleep 1000 & sleep 1000 & exit 0"},
		"leader failed":     {script: "sleep 1000 & exit 1"},
		"cancelled":         {script: "sleep 1000 & echo ready; wait", cancel: true},
		"cancelled, ignoring SIGTERM": {
			script: "trap '' TERM; sleep 1000 & echo ready; while :; do wait; done", cancel: true,
		},
		"cancelled, grandchild ignores SIGTERM": {
			script: "(trap '' TERM; sleep 1000) & echo ready; wait", cancel: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			life := newLifeline(t)
			stop := errors.New("stopped by the test")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c := sh(tt.script)
			c.ExtraFiles = []*os.File{life.w}
			c.Grace = 50 * time.Millisecond
			if tt.cancel {
				c.Stdout = writerFunc(func(p []byte) (int, error) { cancel(stop); return len(p), nil })
			}
			_, err := proc.Run(ctx, c)
			life.mustBeCut(t)
			if tt.cancel && !errors.Is(err, stop) {
				t.Errorf("error %v, want the cause of the cancellation", err)
			}
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestRunGivesTimeToEndWell(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := sh("trap 'echo saved; exit 5' TERM; echo ready; while :; do sleep 0.01; done")
	var out bytes.Buffer
	c.Stdout = writerFunc(func(p []byte) (int, error) { cancel(); return out.Write(p) })
	c.Grace = 30 * time.Second
	_, err := proc.Run(ctx, c)
	exit, ok := errors.AsType[*proc.ExitError](err)
	if !ok || exit.Code != 5 || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want exit status 5 caused by the cancellation", err)
	}
	if got := out.String(); got != "ready\nsaved\n" {
		t.Errorf("output %q", got)
	}
}

func TestRunDoesNotStart(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := map[string]struct {
		ctx  context.Context
		path string
		want error
	}{
		"relative path": {ctx: t.Context(), path: "sh"},
		"no such file":  {ctx: t.Context(), path: "/nonexistent/program", want: os.ErrNotExist},
		"cancelled":     {ctx: cancelled, path: "/bin/sh", want: context.Canceled},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := proc.Run(tt.ctx, proc.Cmd{Path: tt.path})
			if err == nil || (tt.want != nil && !errors.Is(err, tt.want)) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if exit, ok := errors.AsType[*proc.ExitError](err); ok {
				t.Errorf("got %v for a process that never ran", exit)
			}
		})
	}
}

func TestLook(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "planted"), []byte("#!/bin/sh\n"), 0o700); err != nil { // #nosec G306 -- a program
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", "."+string(os.PathListSeparator)+"/bin")
	if got, err := proc.Look("sh"); err != nil || got != "/bin/sh" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{"planted", "no-such-program"} {
		if got, err := proc.Look(name); !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%s: got %q, %v; want ErrNotFound", name, got, err)
		}
	}
}

func TestStartDetachedOutlivesItsParent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inW.Close(); _ = outR.Close() })
	// Run ends the whole group of the helper, which proves that the detached
	// process is in none of its groups.
	res, err := proc.Run(t.Context(), proc.Cmd{
		Path: self, Env: []string{helperEnv + "=detach"}, ExtraFiles: []*os.File{inR, outW},
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = inR.Close()
	_ = outW.Close()
	if _, err := fmt.Fprintln(inW, "word"); err != nil {
		t.Fatal(err)
	}
	if err := outR.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(outR)
	if err != nil || string(out) != "got word\n" {
		t.Errorf("the detached process %s said %q, %v", bytes.TrimSpace(res.Stdout), out, err)
	}
}

func TestStartDetachedIsReaped(t *testing.T) {
	t.Parallel()
	life := newLifeline(t)
	d, err := proc.StartDetached(proc.Cmd{
		Path: "/bin/sh", Args: []string{"-c", "sleep 1000 & wait"}, Env: proc.ScrubbedEnv(),
		ExtraFiles: []*os.File{life.w},
	})
	if err != nil {
		t.Fatal(err)
	}
	if sid, err := getsid(d.PID()); err != nil || sid != d.PID() {
		t.Errorf("session %d, %v; want its own, %d", sid, err, d.PID())
	}
	if err := proc.SignalGroup(d.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Done():
	case <-t.Context().Done():
		t.Fatal("not reaped")
	}
	life.mustBeCut(t)
	if err := syscall.Kill(d.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process still exists: %v", err)
	}
	if err := proc.SignalGroup(d.PID(), syscall.SIGTERM); err != nil {
		t.Errorf("signalling a group that is gone: %v", err)
	}
}

func getsid(pid int) (int, error) {
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sid), nil
}

func TestStartDetachedRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]proc.Cmd{
		"relative path":  {Path: "sh"},
		"no such file":   {Path: "/nonexistent/program"},
		"not a file in":  {Path: "/bin/sh", Stdin: strings.NewReader("x")},
		"not a file out": {Path: "/bin/sh", Stdout: io.Discard},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d, err := proc.StartDetached(c); err == nil {
				t.Errorf("started process %d", d.PID())
			}
		})
	}
}

func TestRunIsNotHeldByAnEscapedDescendant(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inR.Close(); _ = inW.Close() }() // ends the descendant
	// The descendant answers on a copy of our stdout and waits for input that
	// does not come, so the pipe stays open.
	start := time.Now()
	_, err = proc.Run(t.Context(), proc.Cmd{
		Path:       "/bin/sh",
		Args:       []string{"-c", `exec "$0" 4>&1`, self},
		Env:        []string{helperEnv + "=detach"},
		ExtraFiles: []*os.File{inR},
	})
	if err != nil {
		t.Errorf("error %v", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("Run took %v", took)
	}
}

func TestSignalGroupRefusesWhatIsNoGroup(t *testing.T) {
	t.Parallel()
	for _, pgid := range []int{-5, 0, 1} {
		if err := proc.SignalGroup(pgid, 0); err == nil {
			t.Errorf("signalled %d", pgid)
		}
	}
}
