package shim

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/prctl.h; package syscall lacks them.
const (
	prSetDumpable       = 4
	prSetChildSubreaper = 36
)

// keyctlJoinSessionKeyring is KEYCTL_JOIN_SESSION_KEYRING.
const keyctlJoinSessionKeyring = 1

// newKeyring leaves the session's keyring, and what is in it, behind.
func newKeyring() error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_KEYCTL, keyctlJoinSessionKeyring, 0, 0)
	switch errno {
	case 0, syscall.ENOSYS, syscall.EPERM: // EPERM: a container around us has none for anybody
		return nil
	default:
		return os.NewSyscallError("keyctl", errno)
	}
}

// become changes root for the user, for good.
func become(user int) error {
	if err := errors.Join(
		os.NewSyscallError("setgroups", syscall.Setgroups(nil)),
		os.NewSyscallError("setresgid", syscall.Setresgid(user, user, user)),
		os.NewSyscallError("setresuid", syscall.Setresuid(user, user, user)),
	); err != nil {
		return err
	}
	// No capability is left but as one that could be inherited.
	header := struct {
		version uint32
		pid     int32
	}{version: 0x20080522} // _LINUX_CAPABILITY_VERSION_3
	var none [2]struct{ effective, permitted, inheritable uint32 }
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0) // #nosec G103 -- as capset(2) wants it
	if errno != 0 {
		return os.NewSyscallError("capset", errno)
	}
	return nil
}

// rlimitProcesses is RLIMIT_NPROC, which package syscall lacks.
const rlimitProcesses = 6

// deadlyHere are the deadly signals that other systems do not have.
var deadlyHere = []os.Signal{syscall.SIGSTKFLT}

// spareThreads are made before the command runs: one that uses up the pids
// limit of its container must not keep the Go runtime from making the few
// threads it needs, which would end the shim.
const spareThreads = 8

// becomeParent makes every orphan below us our child, and hides our memory and
// descriptors from processes of the same user.
func becomeParent() error {
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		return err
	}
	if err := prctl(prSetDumpable, 0); err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return nil // no container, no limit of its own
	}
	if err := ignoreUncaught(); err != nil {
		return err
	}
	var up, done sync.WaitGroup
	release := make(chan struct{})
	for range spareThreads {
		up.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			up.Done()
			<-release
		})
	}
	up.Wait()
	close(release)
	done.Wait()
	return nil
}

// uncaught are the signals that the Go runtime leaves to libc and installs no handler for
// (runtime/sigtab_linux_generic.go).
var uncaught = []syscall.Signal{32, 34}

// ignoreUncaught keeps a container's first process from being ended by them. The kernel
// drops a signal that nobody there catches, but not while the first thread has it blocked,
// as Go has whenever it makes a thread or a process: then another thread takes it, and
// that ends all. The command inherits it; a libc that uses them installs handlers.
func ignoreUncaught() error {
	const sigIgn = 1
	action := struct {
		handler, flags, restorer uintptr
		mask                     uint64
	}{handler: sigIgn}
	for _, signal := range uncaught {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(signal),
			uintptr(unsafe.Pointer(&action)), // #nosec G103 -- as rt_sigaction(2) wants it
			0, unsafe.Sizeof(action.mask), 0, 0)
		if errno != 0 {
			return os.NewSyscallError("rt_sigaction", errno)
		}
	}
	return nil
}

func prctl(option, arg uintptr) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, option, arg, 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	return nil
}

// killAll kills what there is in the container, but for us. Where this is no container's
// first process it kills the command's group and our children: theirs become ours, and it is
// called again.
func killAll(pgid int) {
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return
	}
	_ = syscall.Kill(-pgid, syscall.SIGKILL)
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		children, _ := os.ReadFile(list) // #nosec G304 -- ours
		for word := range bytes.FieldsSeq(children) {
			if pid, err := strconv.Atoi(string(word)); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// oomKilled says whether the kernel killed for memory in our container. Outside
// of one the counters are not ours.
func oomKilled() bool {
	if os.Getpid() != 1 {
		return false
	}
	for _, path := range []string{
		"/sys/fs/cgroup/memory.events",             // cgroup v2
		"/sys/fs/cgroup/memory/memory.oom_control", // cgroup v1
	} {
		data, err := os.ReadFile(path) // #nosec G304 -- a constant
		if err != nil {
			continue
		}
		for line := range bytes.Lines(data) {
			if count, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
				return string(bytes.TrimSpace(count)) != "0"
			}
		}
	}
	return false
}

// reserve has the file system keep room for a file, where it can.
func reserve(f *os.File, bytes int64) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, bytes) // #nosec G115 -- a descriptor fits
}
