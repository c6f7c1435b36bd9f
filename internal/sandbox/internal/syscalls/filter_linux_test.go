package syscalls

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestNumbersOfSyscalls compares some with those that the compiler knows.
func TestNumbersOfSyscalls(t *testing.T) {
	t.Parallel()
	numbers, newest, err := numbersOfSyscalls()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{
		"read": unix.SYS_READ, "openat": unix.SYS_OPENAT, "clone": unix.SYS_CLONE, "clone3": unix.SYS_CLONE3,
		"keyctl": unix.SYS_KEYCTL, "ptrace": unix.SYS_PTRACE, "bpf": unix.SYS_BPF, "mount": unix.SYS_MOUNT,
		"futex_wait": unix.SYS_FUTEX_WAIT, "mseal": unix.SYS_MSEAL, "exit_group": unix.SYS_EXIT_GROUP,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "socket": unix.SYS_SOCKET, "listns": unix.SYS_LISTNS,
	} {
		if got, ok := numbers[name]; !ok || got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if newest < unix.SYS_LISTNS {
		t.Errorf("the newest is %d", newest)
	}
}

// TestFilterFits: the kernel takes so many instructions, and a pipe that nobody
// reads holds so many bytes.
func TestFilterFits(t *testing.T) {
	t.Parallel()
	program, err := Filter()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(program) / 8; n < 50 || n > 4096 {
		t.Errorf("%d instructions", n)
	}
}

// TestFilterDecides runs the program as the kernel would.
func TestFilterDecides(t *testing.T) {
	t.Parallel()
	program, err := assemble()
	if err != nil {
		t.Fatal(err)
	}
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
		arg  uint64
		want uint32
	}{
		{"read", auditArch, unix.SYS_READ, 0, allow},
		{"execve", auditArch, unix.SYS_EXECVE, 0, allow},
		{"keyctl", auditArch, unix.SYS_KEYCTL, 0, refused},
		{"mount", auditArch, unix.SYS_MOUNT, 0, refused},
		{"io_uring", auditArch, unix.SYS_IO_URING_SETUP, 0, refused},
		{"a thread", auditArch, unix.SYS_CLONE, thread, allow},
		{"a user namespace", auditArch, unix.SYS_CLONE, thread | unix.CLONE_NEWUSER, refused},
		{"a network namespace", auditArch, unix.SYS_CLONE, unix.CLONE_NEWNET, refused},
		{"clone3", auditArch, unix.SYS_CLONE3, 0, absent},
		{"the usual personality", auditArch, unix.SYS_PERSONALITY, 0, allow},
		{"the question for it", auditArch, unix.SYS_PERSONALITY, 0xffffffff, allow},
		{"the same in 64 bits", auditArch, unix.SYS_PERSONALITY, 0x1ffffffff, refused},
		{"an executable heap", auditArch, unix.SYS_PERSONALITY, 0x0400000, refused},
		{"TCP", auditArch, unix.SYS_SOCKET, unix.AF_INET, allow},
		{"IPv6", auditArch, unix.SYS_SOCKET, unix.AF_INET6, allow},
		{"MCTP", auditArch, unix.SYS_SOCKET, unix.AF_MCTP, allow},
		{"the hypervisor", auditArch, unix.SYS_SOCKET, unix.AF_VSOCK, refused},
		{"the kernel's cryptography", auditArch, unix.SYS_SOCKET, unix.AF_ALG, refused},
		{"a domain of 64 bits", auditArch, unix.SYS_SOCKET, 1<<32 | unix.AF_INET, refused},
		{"a call of tomorrow", auditArch, 1000, 0, absent},
		{"x32", auditArch, 1<<30 | unix.SYS_READ, 0, absent},
		{"the largest number", auditArch, ^uint32(0), 0, absent},
		{"32 bits", 0x40000003, unix.SYS_READ, 0, absent},
	} {
		if got := decision(t, program, tt.arch, tt.nr, tt.arg); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

// decision is what a program makes of a call with that first argument.
func decision(t *testing.T, program []unix.SockFilter, arch, nr uint32, arg uint64) uint32 {
	t.Helper()
	data := map[uint32]uint32{0: nr, 4: arch, 16: uint32(arg), 20: uint32(arg >> 32)} // #nosec G115 -- halves
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
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= in.K
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			skip(a == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			skip(a >= in.K)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d is %+v", pc, in)
		}
	}
	t.Fatal("the program has no end")
	return 0
}
