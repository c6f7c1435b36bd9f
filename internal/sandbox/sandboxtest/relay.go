package sandboxtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/org/ralph-action/internal/sandbox"
)

// testRelay lets commands talk to a gateway that says back what it hears.
func testRelay(t *testing.T, f *fixture) {
	// Short, because a socket's path may have 107 bytes.
	gateway := func(t *testing.T) string {
		dir, err := os.MkdirTemp("", "gw") //nolint:usetesting // t.TempDir is too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	spec := func(t *testing.T, dir string) sandbox.Spec {
		port := f.Port(t)
		s := f.sh(t, `echo ready; "$helper" helper talk 127.0.0.1:`+fmt.Sprint(port)+` hello`)
		s.GatewayDir, s.GatewayPort = dir, port
		return s
	}
	t.Run("there", func(t *testing.T) {
		t.Parallel()
		dir := gateway(t)
		echo(t, dir)
		st, out := f.do(t, spec(t, dir))
		if out != "ready\nyou said hello" || st.ExitCode != 0 {
			t.Errorf("output %q, exit %d: %s", out, st.ExitCode, st.Stderr)
		}
	})
	t.Run("late", func(t *testing.T) {
		t.Parallel()
		dir := gateway(t)
		h := f.start(t, f.name(), spec(t, dir))
		f.awaitOutput(t, h, "ready")
		echo(t, dir)
		st := f.wait(t, h)
		if out := f.logs(t, h, 0); out != "ready\nyou said hello" || st.ExitCode != 0 {
			t.Errorf("output %q, exit %d: %s", out, st.ExitCode, st.Stderr)
		}
	})
	t.Run("restarted", func(t *testing.T) {
		t.Parallel()
		dir := gateway(t)
		stop := echo(t, dir)
		s := spec(t, dir)
		s.Argv[2] += `; until [ -e go ]; do sleep 0.01; done; ` + s.Argv[2]
		h := f.start(t, f.name(), s)
		f.awaitOutput(t, h, "you said hello")
		stop()
		f.touch(t, s.Workspace, "go")
		f.awaitOutput(t, h, "helloready")
		echo(t, dir)
		f.wait(t, h)
		if out := f.logs(t, h, 0); out != "ready\nyou said helloready\nyou said hello" {
			t.Errorf("output %q", out)
		}
	})
}

// echo answers each connection, once it has heard all, with what it heard.
func echo(t *testing.T, dir string) (stop func()) {
	t.Helper()
	path := filepath.Join(dir, sandbox.GatewaySocket)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // #nosec G302 -- as the contract says
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			heard, err := io.ReadAll(conn)
			if err == nil {
				_, err = fmt.Fprintf(conn, "you said %s", heard)
			}
			if err := errors.Join(err, conn.Close()); err != nil {
				t.Errorf("gateway: %v", err)
			}
		}
	})
	stop = sync.OnceFunc(func() { _ = l.Close(); serving.Wait() })
	t.Cleanup(stop)
	return stop
}
