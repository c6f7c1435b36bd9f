package shim

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are the system calls that no agent and no check needs, and by which programs
// have got out of containers or at what belongs to others: they answer "operation not
// permitted". Beneath it, in docker, is the engine's own profile.
var refused = append([]uint32{
	// Keys, which no namespace holds.
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// Code and hooks in the kernel.
	unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
	unix.SYS_IO_URING_REGISTER, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	// Namespaces and mounts.
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_LISTNS,
	unix.SYS_OPEN_BY_HANDLE_AT,
	// Other processes. (What debuggers use stays: the shim is not dumpable.)
	unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	// The machine.
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_SYSLOG, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_VHANGUP,
}, refusedHere...)

// newestCall is the newest system call that we know. What is newer is not there, until
// somebody has looked at it; programs then fall back to what there was before.
const newestCall = unix.SYS_LISTNS

// The fields of struct seccomp_data, in bytes. Both machines keep the low half of an
// argument first, and what is decided on here are numbers of 32 bits to the kernel, too.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
)

// filterProgram decides on the calls of this machine. Calls of another kind of machine (32
// bits, x32) are not there.
func filterProgram() []unix.SockFilter {
	const (
		namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
			unix.CLONE_NEWPID | unix.CLONE_NEWNET
		askPersonality = 0xffffffff
	)
	absent, denied, allowed := ret(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
		ret(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)), ret(unix.SECCOMP_RET_ALLOW)
	program := []unix.SockFilter{
		load(offsetArch), jump(unix.BPF_JEQ, auditArch, 1, 0), absent,
		load(offsetNumber), jump(unix.BPF_JGT, newestCall, 0, 1), absent,
	}
	for _, call := range refused {
		program = append(program, jump(unix.BPF_JEQ, call, 0, 1), denied)
	}
	// decide has the first argument of a call decide.
	decide := func(call uint32, rules ...unix.SockFilter) {
		program = append(append(program, jump(unix.BPF_JEQ, call, 0, uint8(len(rules)+1)), load(offsetArg0)), rules...) // #nosec G115 -- short
	}
	// Flags of clone3 are in memory, where no filter sees them: without it, libc uses clone.
	program = append(program, jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), absent)
	decide(unix.SYS_CLONE, jump(unix.BPF_JSET, namespaces, 0, 1), denied, allowed)
	decide(unix.SYS_PERSONALITY, jump(unix.BPF_JEQ, 0, 1, 0), jump(unix.BPF_JEQ, askPersonality, 0, 1), allowed, denied)
	// No network namespace holds a socket of the hypervisor's, and hardly a program uses the other kinds.
	decide(unix.SYS_SOCKET, jump(unix.BPF_JEQ, unix.AF_UNIX, 3, 0), jump(unix.BPF_JEQ, unix.AF_INET, 2, 0),
		jump(unix.BPF_JEQ, unix.AF_INET6, 1, 0), jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 1), allowed, denied)
	return append(program, allowed)
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | how, Jt: yes, Jf: no, K: k}
}

func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// refuseCalls puts the filter on all threads of this process, and so on all that it starts.
// Whoever confines it has seen to it that it gains no privileges.
func refuseCalls() error {
	program := filterProgram()
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]} // #nosec G115 -- a hundred or two
	thread, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog))) // #nosec G103 -- as seccomp(2) wants it
	runtime.KeepAlive(program)
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	if thread != 0 {
		return fmt.Errorf("seccomp: thread %d has another filter, and none was put on any", thread)
	}
	return nil
}
