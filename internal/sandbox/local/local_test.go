package local_test

import (
	"fmt"
	"os"
	"runtime"
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
	})
}
