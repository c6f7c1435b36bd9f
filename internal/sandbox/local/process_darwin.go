package local

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/sandbox/shim"
)

const (
	sigTerm = unix.SIGTERM
	sigKill = unix.SIGKILL
)

// awaitShim returns when the shim of the record is dead.
func awaitShim(ctx context.Context, record string, _ int) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if alive, err := shim.Alive(record); err != nil || !alive {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// signalShim signals the shim of the record if it lives. As long as it holds
// the record its process id is its own.
func signalShim(record string, pid int, sig unix.Signal) error {
	if alive, err := shim.Alive(record); err != nil || !alive {
		return err
	}
	if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("kill", err)
	}
	return nil
}

// killMarked does nothing: there is no way to find the processes.
func killMarked(context.Context, string) error { return nil }

// awaitInner has nothing to wait for: nothing is wrapped here.
func awaitInner(context.Context, shim.History) error { return nil }
