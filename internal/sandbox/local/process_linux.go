package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/sandbox/shim"
)

const (
	sigTerm = unix.SIGTERM
	sigKill = unix.SIGKILL
)

// openShim gives a descriptor of the living shim of a record, or nil. A
// process id may be somebody else's by the time it is used; a descriptor is
// not, and the record's lock says that it was opened in time.
func openShim(record string, pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	f := os.NewFile(uintptr(fd), "pidfd") // #nosec G115 -- a descriptor fits
	alive, err := shim.Alive(record)
	if err != nil || !alive {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// awaitShim returns when the shim of the record is dead.
func awaitShim(ctx context.Context, record string, pid int) error {
	f, err := openShim(record, pid)
	if err != nil || f == nil {
		return err
	}
	defer func() { _ = f.Close() }()
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for the shim: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	// The descriptor becomes readable when the process ends.
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // #nosec G115 -- a descriptor fits
		return err == nil && n > 0
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("wait for the shim: %w", err)
	}
	return nil
}

// signalShim signals the shim of the record if it lives.
func signalShim(record string, pid int, sig unix.Signal) error {
	f, err := openShim(record, pid)
	if err != nil || f == nil {
		return err
	}
	defer func() { _ = f.Close() }()
	err = unix.PidfdSendSignal(int(f.Fd()), sig, nil, 0) // #nosec G115 -- a descriptor fits
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}

// killMarked kills every process that has the assignment in its environment,
// and returns when there is none.
func killMarked(ctx context.Context, assignment string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := killOnce(assignment)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func killOnce(assignment string) (int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, err
	}
	found := 0
	var killed []int
	defer func() {
		for _, fd := range killed {
			_ = unix.Close(fd)
		}
	}()
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || !marked(name, assignment) {
			continue
		}
		found++
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		killed = append(killed, fd)
		if marked(name, assignment) { // still the same process
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
	}
	// A process that dies loses its environment first and its files later; it
	// is dead when its descriptor says so.
	for _, fd := range killed {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(deathPatience/time.Millisecond)) //nolint:gosec // G115: a descriptor
	}
	return found, nil
}

// awaitInner returns when all that ran inside the wrapper of a dead shim is gone.
// It was killed with the shim; what is dying has no environment to be found by,
// and may still hold files.
func awaitInner(ctx context.Context, hist shim.History) error {
	if hist.Inner == 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(hist.Inner, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if shim.StartOf(hist.Inner) != hist.InnerStart {
		return nil // somebody else's by now
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	for deadline := time.Now().Add(deathPatience); time.Now().Before(deadline); {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(deathPatience/time.Millisecond)) //nolint:gosec // G115: a descriptor
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// deathPatience bounds the wait for a killed process; only one that is stuck in
// the kernel takes longer.
const deathPatience = 2 * time.Second

// marked is false for a process that is dead and not yet waited for: it has no
// environment any more.
func marked(pid, assignment string) bool {
	env, err := os.ReadFile("/proc/" + pid + "/environ") // #nosec G304 -- a number from /proc
	if err != nil {
		return false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if string(kv) == assignment {
			return true
		}
	}
	return false
}
