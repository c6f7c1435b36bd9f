package local

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/sandbox/shim"
)

const (
	sigTerm = unix.SIGTERM
	sigKill = unix.SIGKILL
)

// awaitShim returns when the shim of the record is dead.
func awaitShim(ctx context.Context, record string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if pid, err := shim.Holder(record); err != nil || pid == 0 {
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
func signalShim(record string, sig unix.Signal) error {
	pid, err := shim.Holder(record)
	if err != nil || pid == 0 {
		return err
	}
	if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("kill", err)
	}
	return nil
}

// endMarked does nothing: there is no way to find the processes.
func endMarked(context.Context, string, bool) error { return nil }

// withUser has nothing to do: nothing is wrapped here.
func withUser(int) *syscall.SysProcAttr { return nil }
