package local_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/local"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	code := sandboxtest.Main(m, open)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// open uses this test binary as the shim.
func open() (sandbox.Sandbox, error) { return local.New(local.Options{}) }

func TestContract(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sandboxtest.Run(t, sandboxtest.Harness{
		Open: open, Helper: self, PassesEnv: true, Escapes: runtime.GOOS != "linux",
		Port: func(t *testing.T) int {
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
		},
	})
}
