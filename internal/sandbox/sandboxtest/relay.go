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

// testRelay: a command talks to a gateway that comes late, and to the one after it.
func testRelay(t *testing.T, f *fixture) {
	if !sandbox.Isolated(f.box) {
		return // there is one port for all of the machine, and nobody is given a gateway there
	}
	talk := fmt.Sprintf(`echo ready; "$helper" helper talk 127.0.0.1:%d hello; `, sandbox.GatewayPort)
	s := f.sh(t, talk+`until [ -e go ]; do sleep 0.01; done; `+talk)
	s.GatewayDir = shortDir(t)
	h := f.start(t, f.name(), s)
	f.awaitOutput(t, h, "ready")
	stop := echo(t, s.GatewayDir)
	f.awaitOutput(t, h, "you said hello")
	stop()
	f.touch(t, s.Workspace, "go")
	f.awaitOutput(t, h, "helloready")
	echo(t, s.GatewayDir)
	f.wait(t, h)
	if out := f.logs(t, h, 0); out != "ready\nyou said helloready\nyou said hello" {
		t.Errorf("output %q", out)
	}
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
