package sandboxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

// Planted is a variable of the host's environment that no command may see, and
// PlantedPass one that it may see where it is named.
const (
	Planted     = "RALPH_TEST_PLANTED_SECRET"
	PlantedPass = "RALPH_TEST_PLANTED_PASS"
)

// Main is the TestMain of an implementation's tests. The test binary plays
// further parts: the shim, the commands of the suite, and, with open, a process
// that owns a start and is killed.
func Main(m *testing.M, open func() (sandbox.Sandbox, error)) int {
	if len(os.Args) > 1 && os.Args[1] == "owner" {
		return own(open)
	}
	if len(os.Args) > 1 && (os.Args[1] == "shim" || os.Args[1] == "helper") {
		return Play(os.Args[1:])
	}
	for _, key := range []string{Planted, PlantedPass} {
		if err := os.Setenv(key, "planted"); err != nil {
			return fail(err)
		}
	}
	return m.Run()
}

// Play runs one of the parts: "shim CONFIG", or "helper" and
//
//	hold FILE      hold a lock on FILE, say so, and ignore every request to end
//	escape FILE    the same in a session of its own, after this process ended
//	talk ADDR TEXT send TEXT to ADDR, close that direction, print the answer
//	hunt PREY      try to reach what it should not, print what it did
//	hijacked WHAT  try what a hijacked agent would, print what came of it
//	nothing        end
func Play(args []string) int {
	switch {
	case len(args) > 1 && args[0] == "shim":
		// Not through os.Exit: a binary with the race detector sleeps a second
		// in there, and that would be a second in every start.
		syscall.Exit(shim.Main(args[1:]))
		return 0
	case len(args) == 3 && args[1] == "hold":
		return hold(args[2])
	case len(args) == 3 && args[1] == "escape":
		return escape(args[2])
	case len(args) == 4 && args[1] == "talk":
		return talk(args[2], args[3])
	case len(args) == 3 && args[1] == "hunt":
		return hunt(args[2])
	case len(args) > 2 && args[1] == "hijacked":
		return hijacked(args[2:])
	case len(args) == 2 && args[1] == "nothing":
		return 0
	default:
		return fail(fmt.Errorf("unknown part %q", args))
	}
}

func fail(err error) int {
	_, _ = fmt.Fprintln(os.Stderr, "sandboxtest:", err)
	return 99
}

func hold(path string) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- the test's file
	if err != nil {
		return fail(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil { // #nosec G115 -- a descriptor fits
		return fail(err)
	}
	_, _ = os.Stdout.WriteString("held " + path + "\n")
	r, w, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer func() { _ = w.Close() }()
	_, err = io.Copy(io.Discard, r) // has no end
	return fail(err)
}

func escape(path string) int {
	_, err := proc.StartDetached(proc.Cmd{
		Path: selfPath(), Args: []string{"helper", "hold", path}, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return fail(err)
	}
	return 0
}

// selfPath is how this program was called: /proc is not there on every system.
func selfPath() string {
	self, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return self
}

func talk(addr, text string) int {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return fail(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return fail(err)
	}
	if half, ok := conn.(*net.TCPConn); ok {
		if err := half.CloseWrite(); err != nil {
			return fail(err)
		}
	}
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		return fail(err)
	}
	return 0
}

// start is what an owner is told to start, on its standard input.
type start struct {
	Name string
	Spec sandbox.Spec
}

// own starts what it is told, says the handle, and stays until it is killed.
func own(open func() (sandbox.Sandbox, error)) int {
	var s start
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return fail(err)
	}
	box, err := open()
	if err != nil {
		return fail(err)
	}
	_, _ = os.Stdout.WriteString("begin\n")
	h, err := box.Start(context.Background(), s.Name, s.Spec)
	if err != nil {
		return fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(h); err != nil {
		return fail(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	ended, err := box.Wait(context.Background(), h)
	if err != nil {
		return fail(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, strings.ToUpper(string(ended.State)))
	return 0
}
