package shim

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestFilterDecides runs the program as the kernel would.
func TestFilterDecides(t *testing.T) {
	t.Parallel()
	program := filterProgram()
	const (
		allow   = unix.SECCOMP_RET_ALLOW
		refused = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		absent  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		thread  = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD
	)
	for _, tt := range []struct {
		name string
		arch uint32
		nr   uint32
		arg  uint32
		want uint32
	}{
		{"read", auditArch, unix.SYS_READ, 0, allow},
		{"execve", auditArch, unix.SYS_EXECVE, 0, allow},
		{"the newest that is known", auditArch, newestCall, 0, refused},
		{"keyctl", auditArch, unix.SYS_KEYCTL, 0, refused},
		{"mount", auditArch, unix.SYS_MOUNT, 0, refused},
		{"io_uring", auditArch, unix.SYS_IO_URING_SETUP, 0, refused},
		{"a thread", auditArch, unix.SYS_CLONE, thread, allow},
		{"a process", auditArch, unix.SYS_CLONE, uint32(unix.SIGCHLD), allow},
		{"a user namespace", auditArch, unix.SYS_CLONE, thread | unix.CLONE_NEWUSER, refused},
		{"a network namespace", auditArch, unix.SYS_CLONE, unix.CLONE_NEWNET, refused},
		{"clone3", auditArch, unix.SYS_CLONE3, 0, absent},
		{"the usual personality", auditArch, unix.SYS_PERSONALITY, 0, allow},
		{"the question for it", auditArch, unix.SYS_PERSONALITY, 0xffffffff, allow},
		{"an executable heap", auditArch, unix.SYS_PERSONALITY, 0x0400000, refused},
		{"a local socket", auditArch, unix.SYS_SOCKET, unix.AF_UNIX, allow},
		{"TCP", auditArch, unix.SYS_SOCKET, unix.AF_INET, allow},
		{"IPv6", auditArch, unix.SYS_SOCKET, unix.AF_INET6, allow},
		{"routes", auditArch, unix.SYS_SOCKET, unix.AF_NETLINK, allow},
		{"the hypervisor", auditArch, unix.SYS_SOCKET, unix.AF_VSOCK, refused},
		{"the kernel's cryptography", auditArch, unix.SYS_SOCKET, unix.AF_ALG, refused},
		{"packets", auditArch, unix.SYS_SOCKET, unix.AF_PACKET, refused},
		{"a call of tomorrow", auditArch, 1000, 0, absent},
		{"x32", auditArch, 1<<30 | unix.SYS_READ, 0, absent},
		{"the largest number", auditArch, ^uint32(0), 0, absent},
		{"32 bits", 0x40000003, unix.SYS_READ, 0, absent},
	} {
		if got := decision(t, program, map[uint32]uint32{offsetNumber: tt.nr, offsetArch: tt.arch, offsetArg0: tt.arg}); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

// TestFilterThatAThreadCannotTake: where one thread has a filter of its own, the kernel puts
// ours on none, and says so by that thread's number alone.
func TestFilterThatAThreadCannotTake(t *testing.T) {
	t.Parallel()
	// A goroutine that ends with its thread locked takes the thread with it.
	confined := func(f func()) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				t.Error(err)
			}
			f()
		}()
		return done
	}
	filtered, end := make(chan struct{}), make(chan struct{})
	other := confined(func() {
		all := ret(unix.SECCOMP_RET_ALLOW)
		prog := unix.SockFprog{Len: 1, Filter: &all}
		_, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))) // #nosec G103 -- as seccomp(2) wants it
		if errno != 0 {
			t.Error(errno)
		}
		close(filtered)
		<-end
	})
	<-filtered
	var err error
	<-confined(func() { err = refuseCalls() })
	close(end)
	<-other
	if err == nil || !strings.Contains(err.Error(), "has another filter") {
		t.Errorf("%v", err)
	}
}

// decision is what a program makes of a call.
func decision(t *testing.T, program []unix.SockFilter, data map[uint32]uint32) uint32 {
	t.Helper()
	var a uint32
	for pc := 0; pc < len(program); pc++ {
		in := program[pc]
		skip := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = data[in.K]
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			skip(a == in.K)
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			skip(a > in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			skip(a&in.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d is %+v", pc, in)
		}
	}
	t.Fatal("the program has no end")
	return 0
}
