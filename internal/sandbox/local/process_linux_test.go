package local_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/local"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

func start(
	t *testing.T, box sandbox.Sandbox, change func(*sandbox.Spec), argv ...string,
) (sandbox.Handle, sandbox.Spec) {
	t.Helper()
	spec := sandbox.Spec{
		Argv: argv, Workspace: t.TempDir(), RunDir: filepath.Join(t.TempDir(), "run"),
		WallTimeout: time.Minute, Grace: 100 * time.Millisecond,
	}
	if change != nil {
		change(&spec)
	}
	if err := box.Prepare(t.Context(), spec.Workspace); err != nil {
		t.Fatal(err)
	}
	h, err := box.Start(t.Context(), "test", spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Remove(context.WithoutCancel(t.Context()), h); err != nil {
			t.Error(err)
		}
	})
	return h, spec
}

// shimOf is the process that is a start's shim.
func shimOf(t *testing.T, spec sandbox.Spec) int {
	t.Helper()
	pid, err := shim.Holder(filepath.Join(spec.RunDir, "exit.jsonl"))
	if err != nil || pid == 0 {
		t.Fatal(pid, err)
	}
	return pid
}

func openBox(t *testing.T) sandbox.Sandbox {
	t.Helper()
	box, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// TestShimKilled: the one that would know the processes is gone.
func TestShimKilled(t *testing.T) {
	t.Parallel()
	killShim(t, openBox(t))
}

// killShim wants that nothing outlives the shim of a start.
func killShim(t *testing.T, box sandbox.Sandbox) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h, spec := start(t, box, nil, "sh", "-c", `"$0" helper hold child & "$0" helper escape escaped; exec "$0" helper hold main`, self)
	holders := []string{"child", "escaped", "main"}
	awaitOutput(t, box, h, holders...)
	if err := syscall.Kill(shimOf(t, spec), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if st, err := box.Wait(t.Context(), h); err != nil || st.State != sandbox.Exited || st.Reason != sandbox.ReasonLost ||
		st.ExitCode != -1 {
		t.Errorf("status %+v, %v", st, err)
	}
	mustBeDead(t, spec, holders...)
}

// mustBeDead wants that the processes that held these files of the work tree have
// ended.
func mustBeDead(t *testing.T, spec sandbox.Spec, holders ...string) {
	t.Helper()
	for _, name := range holders {
		f, err := os.Open(filepath.Join(spec.Workspace, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			t.Errorf("the process that holds %q is alive: %v", name, err)
		}
		_ = f.Close()
	}
}

func awaitOutput(t *testing.T, box sandbox.Sandbox, h sandbox.Handle, words ...string) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := h.Stdout(0)
		if err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(r)
		_ = r.Close()
		if err != nil {
			t.Fatal(err)
		}
		missing := ""
		for _, word := range words {
			if !strings.Contains(string(out), word) {
				missing = word
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("no %q in %q", missing, out)
		case <-tick.C:
		}
	}
}

// TestNothingLingers: credentials travel to the shim in a file.
func TestNothingLingers(t *testing.T) {
	t.Parallel()
	box := openBox(t)
	h, spec := start(t, box, func(s *sandbox.Spec) { s.Env = map[string]string{"KEY": "hunter2"} }, "sleep", "1000")
	st, err := box.Inspect(t.Context(), h)
	if err != nil || st.State != sandbox.Running {
		t.Fatal(st, err)
	}
	runDir := os.DirFS(spec.RunDir)
	err = fs.WalkDir(runDir, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := fs.ReadFile(runDir, path)
		if strings.Contains(string(data), "hunter2") {
			t.Errorf("%s holds the key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	dir := "/proc/" + strconv.Itoa(shimOf(t, spec))
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil || strings.Contains(string(cmdline), "hunter2") {
		t.Errorf("the shim's command line: %q, %v", cmdline, err)
	}
	environ, err := os.ReadFile(dir + "/environ")
	if len(environ) != 0 || (err != nil && !errors.Is(err, os.ErrPermission)) {
		t.Errorf("the shim's environment: %q, %v", environ, err)
	}
}

// TestStartThatFailsLeavesNoBox: an agent's environment is in it.
func TestStartThatFailsLeavesNoBox(t *testing.T) {
	t.Parallel()
	box := openBox(t)
	spec := sandbox.Spec{
		Argv: []string{"true"}, Workspace: t.TempDir(), RunDir: filepath.Join(t.TempDir(), "run"),
		Env: map[string]string{"KEY": "hunter2"}, Stdin: "/no/such/prompt",
	}
	if _, err := box.Start(t.Context(), "x", spec); err == nil {
		t.Fatal("it started")
	}
	entries, err := os.ReadDir(spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "home" && e.Name() != "tmp" {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := openBox(t).Check(t.Context()); err != nil {
		t.Error(err)
	}
	for name, self := range map[string]string{
		"gone": "/no/such/bot", "a directory": "/tmp", "not executable": "/etc/passwd",
	} {
		box, err := local.New(local.Options{Self: self})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := errors.AsType[*run.UserError](box.Check(t.Context())); !ok {
			t.Errorf("%s: no UserError", name)
		}
		_, err = box.Start(t.Context(), "test", sandbox.Spec{
			Argv: []string{"true"}, Workspace: "/tmp", RunDir: filepath.Join(t.TempDir(), "run"),
		})
		if err == nil {
			t.Errorf("%s: started", name)
		}
	}
	for _, path := range []string{"/", "/usr/..", "/no/such/directory"} {
		box, err := local.New(local.Options{Show: []string{path}})
		if err != nil {
			t.Fatal(err)
		}
		if user, ok := errors.AsType[*run.UserError](box.Check(t.Context())); !ok || !strings.Contains(user.Hint, "--show") {
			t.Errorf("showing %s: %v", path, user)
		}
	}
	_, err := openBox(t).Start(t.Context(), "test", sandbox.Spec{
		Argv: []string{"true"}, Workspace: "/tmp", RunDir: filepath.Join(t.TempDir(), "run"),
		Mounts: []sandbox.Mount{{Host: "/tmp", Target: "/elsewhere"}},
	})
	if err == nil || !strings.Contains(err.Error(), "/elsewhere") {
		t.Errorf("a mount it cannot make: %v", err)
	}
	// A program that is no shim.
	box, err := local.New(local.Options{Self: "/bin/false"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = box.Start(t.Context(), "test", sandbox.Spec{
		Argv: []string{"true"}, Workspace: "/tmp", RunDir: filepath.Join(t.TempDir(), "run"),
	})
	if err == nil || !strings.Contains(err.Error(), "the shim ended at once") {
		t.Errorf("a program that is no shim: %v", err)
	}
}
