package local_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/local"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	start := open
	if os.Getenv(apartVar) != "" {
		start = openApart
	}
	code := sandboxtest.Main(m, start)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// open uses this test binary as the shim. Nothing is kept apart.
func open() (sandbox.Sandbox, error) { return local.New(local.Options{Isolation: local.IsolationNone}) }

// openApart keeps commands apart, which must work where these tests run: on Linux
// with bubblewrap installed and user namespaces permitted.
func openApart() (sandbox.Sandbox, error) {
	return local.New(local.Options{Isolation: local.IsolationBubblewrap})
}

func TestContract(t *testing.T) {
	t.Parallel()
	contract(t, open, runtime.GOOS != "linux")
}

// apartVar tells a process that owns starts to keep them apart.
const apartVar = "RALPH_TEST_APART"

func contract(t *testing.T, open func() (sandbox.Sandbox, error), escapes bool, ownerEnv ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sandboxtest.Run(t, sandboxtest.Harness{
		Open: open, Helper: self, PassesEnv: true, Escapes: escapes, OwnerEnv: ownerEnv,
		Port: freePort,
	})
}

// freePort is one that nothing of this machine listens at.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("listening at %v", l.Addr())
	}
	return addr.Port
}

// TestWarm starts commands by shims that were started before; whatever is left
// over shows as a goroutine that waits for it, when the tests end.
func TestWarm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		warm, starts int
		onOwnerDeath sandbox.OwnerDeath
	}{
		"one for one":         {warm: 1, starts: 1},
		"dies with its owner": {warm: 1, starts: 1, onOwnerDeath: sandbox.KillWithOwner},
		"more than are used":  {warm: 3, starts: 1},
		"fewer than are used": {warm: 1, starts: 3},
		"none is used":        {warm: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box, err := local.New(local.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var release []func()
			for range c.warm {
				release = append(release, box.Warm())
			}
			dir := t.TempDir()
			for i := range c.starts {
				spec := sandbox.Spec{
					Argv: []string{"sh", "-c", fmt.Sprintf("exit %d", i)}, Workspace: sandbox.Workspace{Dir: dir},
					RunDir: filepath.Join(dir, strconv.Itoa(i)), OnOwnerDeath: c.onOwnerDeath,
				}
				h, err := box.Start(t.Context(), fmt.Sprintf("start-%d", i), spec)
				if err != nil {
					t.Fatal(err)
				}
				st, err := box.Wait(t.Context(), h)
				if err != nil || st.Reason != sandbox.ReasonExited || st.ExitCode != i {
					t.Errorf("start %d: %+v, %v", i, st, err)
				}
				if err := box.Remove(t.Context(), h); err != nil {
					t.Error(err)
				}
			}
			for _, f := range release {
				f()
			}
		})
	}
}
