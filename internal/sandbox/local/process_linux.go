package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
func openShim(record string) (*os.File, error) {
	pid, err := shim.Holder(record)
	if err != nil || pid == 0 {
		return nil, err
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	f := os.NewFile(uintptr(fd), "pidfd") // #nosec G115 -- a descriptor fits
	again, err := shim.Holder(record)
	if err != nil || again != pid {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// awaitShim returns when the shim of the record is dead, and with it, where it is the first of
// its namespace, all others there.
func awaitShim(ctx context.Context, record string) error {
	f, err := openShim(record)
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
func signalShim(record string, sig unix.Signal) error {
	f, err := openShim(record)
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

// deathPatience is how long a killed process is waited for before we look again; only one
// that is stuck in the kernel takes longer.
const deathPatience = 2 * time.Second

// endMarked returns when no process has the assignment in its environment; it kills those
// that have, or waits for them.
func endMarked(ctx context.Context, assignment string, kill bool) error {
	for ctx.Err() == nil {
		files, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return err
		}
		var dying []int
		for _, file := range files {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil || !marked(file, assignment) {
				continue
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			dying = append(dying, fd)
			if kill && marked(file, assignment) { // still the same process
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
		}
		if len(dying) == 0 {
			return nil
		}
		// A process that dies loses its environment first and its files later; it
		// is dead when its descriptor says so.
		for _, fd := range dying {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(deathPatience/time.Millisecond)) //nolint:gosec // G115: a descriptor
			_ = unix.Close(fd)
		}
	}
	return context.Cause(ctx)
}

// marked is false for a process that is dead and not yet waited for: it has no
// environment any more.
func marked(environ, assignment string) bool {
	env, err := os.ReadFile(environ) // #nosec G304 -- of /proc
	return err == nil && slices.Contains(strings.Split(string(env), "\x00"), assignment)
}

// withUser has a process begin as root of a user namespace in which there is nobody else
// but the user.
func withUser(user int) *syscall.SysProcAttr {
	both := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: user, HostID: user, Size: 1}}
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: both, GidMappings: both, GidMappingsEnableSetgroups: true,
	}
}
