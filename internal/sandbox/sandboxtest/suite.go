package sandboxtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/sandbox"
)

// patience bounds every wait of the suite.
const patience = 60 * time.Second

// Harness is what the suite needs to know of an implementation.
type Harness struct {
	// Open gives a sandbox that shares no memory with any other, as another
	// process would.
	Open func() (sandbox.Sandbox, error)
	// Helper is the path of the test program inside the sandbox.
	Helper string
	// Image is for Spec.Image.
	Image string
	// Escapes says that a process in a session of its own outlives the
	// command (local on macOS).
	Escapes bool
	// PassesEnv says that Spec.PassEnv has an effect.
	PassesEnv bool
	// OwnerEnv is added to the environment of the processes that own starts, so
	// that Main knows which sandbox to open.
	OwnerEnv []string
}

// Run exercises the contract of package sandbox.
func Run(t *testing.T, h Harness) {
	tests := map[string]func(*testing.T, *fixture){
		"cases": testCases, "observed": testObserved, "environment": testEnvironment, "cache": testCache,
		"work tree": testWorkTree, "relay": testRelay, "start twice": testStartTwice, "start interrupted": testStartInterrupted,
		"ends": testEnds, "remove": testRemove, "owner dies": testOwnerDies,
	}
	for name, run := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box, err := h.Open()
			if err != nil {
				t.Fatal(err)
			}
			run(t, &fixture{Harness: h, t: t, box: box})
		})
	}
}

// fixture is one test's sandbox.
type fixture struct {
	Harness
	t   *testing.T
	box sandbox.Sandbox
	n   atomic.Int64
}

// tree makes a prepared work tree.
func (f *fixture) tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "given"), []byte("given\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.box.Prepare(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sh is a spec that runs a script, in which $helper is the helper.
func (f *fixture) sh(t *testing.T, script string) sandbox.Spec {
	t.Helper()
	return sandbox.Spec{
		Argv:      []string{"sh", "-c", script},
		Env:       map[string]string{"helper": f.Helper},
		Workspace: f.tree(t), RunDir: filepath.Join(t.TempDir(), "run"), Image: f.Image,
		WallTimeout: patience, Grace: 200 * time.Millisecond,
	}
}

// name is new in this machine, since engines outlive tests.
func (f *fixture) name() string {
	return fmt.Sprintf("test-%s-%d", strings.ToLower(rand.Text()), f.n.Add(1))
}

// start starts spec and removes it at the end of the test.
func (f *fixture) start(t *testing.T, name string, spec sandbox.Spec) sandbox.Handle {
	t.Helper()
	h, err := f.box.Start(t.Context(), name, spec)
	if err != nil {
		t.Fatal(err)
	}
	f.removeLater(t, h)
	return h
}

func (f *fixture) removeLater(t *testing.T, h sandbox.Handle) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := f.box.Remove(ctx, h); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

func (f *fixture) wait(t *testing.T, h sandbox.Handle) sandbox.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	st, err := f.box.Wait(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// do runs spec to its end and gives its status and output.
func (f *fixture) do(t *testing.T, spec sandbox.Spec) (sandbox.Status, string) {
	t.Helper()
	h := f.start(t, f.name(), spec)
	st := f.wait(t, h)
	return st, f.logs(t, h, 0)
}

func (f *fixture) logs(t *testing.T, h sandbox.Handle, offset int64) string {
	t.Helper()
	r, err := h.Stdout(offset)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// eventually waits until ok, and fails with what it waited for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited %v in vain: %s", patience, what)
		case <-tick.C:
		}
	}
}

func (f *fixture) awaitOutput(t *testing.T, h sandbox.Handle, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("output %q", want), func() bool {
		return strings.Contains(f.logs(t, h, 0), want)
	})
}

// released says whether no process holds the lock of a "hold" on path.
func released(t *testing.T, path string) bool {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return err == nil
}

func (f *fixture) mustBeDead(t *testing.T, tree string, names ...string) {
	t.Helper()
	for _, name := range names {
		if !released(t, filepath.Join(tree, name)) {
			t.Errorf("the process that holds %q is alive", name)
		}
	}
}

// touch makes a file in the tree from the outside.
func (f *fixture) touch(t *testing.T, tree, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(tree, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
