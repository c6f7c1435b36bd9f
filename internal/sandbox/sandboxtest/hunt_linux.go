package sandboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hunt is the hostile program: it tries what it can think of, and says what it
// reached, as JSON: the name of each thing, and "" or what was found of it.
func hunt(prey string) int {
	var p Prey
	if err := json.Unmarshal([]byte(prey), &p); err != nil {
		return fail(err)
	}
	found := map[string]string{}
	for _, probes := range []map[string]func() string{
		identity(), kernelFiles(), writes(), p.probes(), calls(),
	} {
		for name, probe := range probes {
			found[name] = probe()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		return fail(err)
	}
	return 0
}

// identity is who the command is.
func identity() map[string]func() string {
	status := func(name string) []string {
		var out []string
		files, _ := filepath.Glob("/proc/[0-9]*/status")
		for _, file := range files {
			text, _ := os.ReadFile(file) // #nosec G304 -- of /proc
			for line := range strings.Lines(string(text)) {
				if rest, ok := strings.CutPrefix(line, name+":"); ok {
					out = append(out, strings.TrimSpace(rest))
				}
			}
		}
		return out
	}
	unlike := func(name, want string) func() string {
		return func() string {
			for _, got := range status(name) {
				if got != want {
					return name + " " + got
				}
			}
			return ""
		}
	}
	probes := map[string]func() string{
		"a process of user 0": func() string {
			for _, ids := range status("Uid") {
				if slices.Contains(strings.Fields(ids), "0") {
					return "Uid " + ids
				}
			}
			return ""
		},
		"new privileges":   unlike("NoNewPrivs", "1"),
		"unfiltered calls": unlike("Seccomp", "2"),
		"inherited descriptor": func() string {
			names, _ := os.ReadDir("/proc/self/fd")
			for _, n := range names {
				target, err := os.Readlink("/proc/self/fd/" + n.Name())
				// Go's own runtime has some, of its cgroup and of /proc.
				own := !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "/proc/") ||
					strings.HasPrefix(target, "/sys/fs/cgroup/")
				if fd, _ := strconv.Atoi(n.Name()); fd > 2 && err == nil && !own {
					return n.Name() + " → " + target
				}
			}
			return ""
		},
		"controlling terminal": func() string { return opened("/dev/tty", os.O_RDWR) },
		"environment of the host": func() string {
			if value := os.Getenv(Planted); value != "" {
				return value
			}
			files, _ := filepath.Glob("/proc/[0-9]*/environ")
			for _, file := range files {
				if text, _ := os.ReadFile(file); strings.Contains(string(text), Planted) { // #nosec G304 -- of /proc
					return file
				}
			}
			return ""
		},
		"memory of the parent": func() string {
			for _, pid := range []string{"1", strconv.Itoa(os.Getppid())} {
				if got := opened("/proc/"+pid+"/mem", os.O_RDWR); got != "" && pid != strconv.Itoa(os.Getpid()) {
					return got
				}
			}
			return ""
		},
	}
	// Not the bounding set: it bounds what is gained by executing a file, and
	// nothing is, without new privileges.
	for _, set := range []string{"CapPrm", "CapEff", "CapAmb"} {
		probes["capabilities "+set] = unlike(set, "0000000000000000")
	}
	return probes
}

// kernelFiles are what docker masks, whatever its version, and what steers the
// kernel.
func kernelFiles() map[string]func() string {
	probes := map[string]func() string{}
	for _, file := range []string{
		"/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/acpi", "/proc/asound", "/proc/kpagecount", "/dev/mem", "/sys/firmware",
		"/sys/devices/virtual/powercap", "/sys/kernel/debug", "/sys/kernel/security/apparmor", "/etc/shadow", "/etc/gshadow",
		"/etc/sudoers", "/etc/ssl/private",
	} {
		probes["read "+file] = func() string { return content(file) }
	}
	for _, file := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/kernel/panic",
		"/proc/sys/vm/overcommit_memory", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/net/ipv4/ip_forward",
		"/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr",
		"/dev/kmsg",
		"/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run", "/sys/power/state", "/sys/fs/cgroup/release_agent",
		"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs",
	} {
		probes["write "+file] = func() string { return opened(file, os.O_WRONLY) }
	}
	return probes
}

// writes are places that are not the command's.
func writes() map[string]func() string {
	probes := map[string]func() string{}
	for _, dir := range []string{"/", "/etc", "/usr", "/usr/bin", "/opt", "/run", "/var", "/dev", "/home", "/root",
		"/opt/ralph", "/run/gateway", "/proc/acpi"} {
		probes["write into "+dir] = func() string {
			name := filepath.Join(dir, "ralph-hunt")
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- that is the point
			if err != nil {
				return ""
			}
			_ = f.Close()
			_ = os.Remove(name)
			return "made " + name
		}
	}
	return probes
}

// probes look for what the test has put onto the machine.
func (p Prey) probes() map[string]func() string {
	probes := map[string]func() string{}
	for name, file := range p.Files {
		probes[name] = func() string { return content(file) }
	}
	dial := func(network, address string) func() string {
		return func() string {
			d := net.Dialer{Timeout: 5 * time.Second}
			conn, err := d.DialContext(context.Background(), network, address)
			if err != nil {
				return ""
			}
			_ = conn.Close()
			return "connected to " + address
		}
	}
	probes["the bot's process"] = func() string {
		if p.Bot <= 1 || len(p.Args) == 0 {
			return "not told which it is"
		}
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(p.Bot) + "/cmdline") // #nosec G703 -- that is the point
		if string(line) != strings.Join(p.Args, "\x00")+"\x00" {
			return ""
		}
		return "its command line"
	}
	probes["a network interface"] = func() string {
		all, _ := net.Interfaces()
		for _, one := range all {
			if one.Flags&net.FlagLoopback == 0 && one.Flags&net.FlagUp != 0 {
				return one.Name
			}
		}
		return ""
	}
	for name, address := range p.Sockets {
		network, address, _ := strings.Cut(address, ":")
		probes[name] = dial(network, address)
	}
	return probes
}

// calls are made with arguments of no use: one that is not filtered fails for
// these, and one that is fails before they are looked at.
func calls() map[string]func() string {
	call := func(number uintptr, args ...any) func() string {
		return func() string {
			var a [6]uintptr
			for i, arg := range args {
				switch arg := arg.(type) {
				case int:
					a[i] = uintptr(arg) // #nosec G115 -- as the kernel has it
				case unsafe.Pointer:
					a[i] = uintptr(arg)
				}
			}
			_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
			runtime.KeepAlive(args)
			switch {
			case errors.Is(errno, unix.EPERM), errors.Is(errno, unix.EACCES), errors.Is(errno, unix.ENOSYS):
				return ""
			case errno == 0:
				return "done"
			default:
				return errno.Error()
			}
		}
	}
	const none = -1 // no descriptor
	word := func(s string) unsafe.Pointer {
		b, _ := unix.BytePtrFromString(s)
		return unsafe.Pointer(b) // #nosec G103 -- for the call
	}
	var zeros [256]byte
	buffer := unsafe.Pointer(&zeros)                               // #nosec G103 -- likewise
	vector := unsafe.Pointer(&unix.Iovec{Base: &zeros[0], Len: 8}) // #nosec G103 -- likewise
	handle := struct {
		bytes uint32
		kind  int32
		data  [8]byte
	}{bytes: 8, kind: 1}
	perf := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER0,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK}
	const session = unix.KEY_SPEC_SESSION_KEYRING
	probes := map[string]func() string{
		"keyctl":      call(unix.SYS_KEYCTL, 0, session, 0),
		"add_key":     call(unix.SYS_ADD_KEY, word("user"), word("ralph-hunt"), word("x"), 1, session),
		"request_key": call(unix.SYS_REQUEST_KEY, word("user"), word(CanaryKey), 0, 0),
		"bpf":         call(unix.SYS_BPF, 0, buffer, len(zeros)),
		"userfaultfd": call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC),
		"perf_event_open": call(unix.SYS_PERF_EVENT_OPEN, unsafe.Pointer(&perf), // #nosec G103 -- likewise
			0, none, none, 0),
		"open_by_handle_at": call(unix.SYS_OPEN_BY_HANDLE_AT, unix.AT_FDCWD,
			unsafe.Pointer(&handle), 0), // #nosec G103 -- likewise
		"personality":                    call(unix.SYS_PERSONALITY, 0x0400000),
		"mount":                          call(unix.SYS_MOUNT),
		"umount2":                        call(unix.SYS_UMOUNT2),
		"pivot_root":                     call(unix.SYS_PIVOT_ROOT),
		"fsopen":                         call(unix.SYS_FSOPEN),
		"open_tree":                      call(unix.SYS_OPEN_TREE, none, word("/"), 1),
		"move_mount":                     call(unix.SYS_MOVE_MOUNT, none, 0, none, 0, 1<<20),
		"mount_setattr":                  call(unix.SYS_MOUNT_SETATTR, none, 0, 0, 0, 1),
		"setns":                          call(unix.SYS_SETNS, none),
		"unshare":                        call(unix.SYS_UNSHARE, unix.CLONE_NEWUTS),
		"clone3":                         call(unix.SYS_CLONE3),
		"chroot":                         call(unix.SYS_CHROOT),
		"kexec_load":                     call(unix.SYS_KEXEC_LOAD, 0, 0, 0, none),
		"kexec_file_load":                call(unix.SYS_KEXEC_FILE_LOAD, none, none),
		"init_module":                    call(unix.SYS_INIT_MODULE),
		"finit_module":                   call(unix.SYS_FINIT_MODULE, none),
		"delete_module":                  call(unix.SYS_DELETE_MODULE),
		"reboot":                         call(unix.SYS_REBOOT),
		"swapon":                         call(unix.SYS_SWAPON),
		"acct":                           call(unix.SYS_ACCT, 1),
		"quotactl":                       call(unix.SYS_QUOTACTL, none),
		"syslog":                         call(unix.SYS_SYSLOG, 10),
		"sethostname":                    call(unix.SYS_SETHOSTNAME, 0, none),
		"settimeofday":                   call(unix.SYS_SETTIMEOFDAY, 1),
		"fanotify_init":                  call(unix.SYS_FANOTIFY_INIT, none),
		"ptrace the parent":              call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, os.Getppid(), 0, 0),
		"process_vm_readv of the parent": call(unix.SYS_PROCESS_VM_READV, os.Getppid(), vector, 1, vector, 1, 0),
		// No network namespace holds these; and what filters the call does not see the
		// sockets that io_uring makes.
		"socket of the hypervisor":            call(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM),
		"socket of the kernel's cryptography": call(unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET),
		"io_uring_setup":                      call(unix.SYS_IO_URING_SETUP, 4, buffer),
		"mknod of a disk": call(unix.SYS_MKNODAT, unix.AT_FDCWD, word("disk"), unix.S_IFBLK|0o600,
			int(unix.Mkdev(8, 0))), // #nosec G115 -- small
	}
	for name, flag := range map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "network": unix.CLONE_NEWNET,
	} {
		probes["clone into a new "+name+" namespace"] = func() string {
			attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: flag}}
			pid, err := syscall.ForkExec("/proc/self/exe", []string{"helper", "helper", "nothing"}, attr) //nolint:forbidigo,gosec // a process in a namespace of its own: that is the point
			if err != nil {
				return ""
			}
			_, _ = syscall.Wait4(pid, nil, 0, nil)
			return "made a process"
		}
	}
	return probes
}

// content is the beginning of a file, or the names in a directory.
func content(path string) string {
	if entries, err := os.ReadDir(path); err == nil {
		if len(entries) == 0 {
			return ""
		}
		return path + "/" + entries[0].Name()
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = syscall.Close(fd) }()
	some := make([]byte, 64)
	n, err := syscall.Read(fd, some)
	if err != nil || n <= 0 {
		return ""
	}
	return strconv.Quote(string(some[:n]))
}

// opened says whether a file can be opened; nothing is written.
func opened(path string, how int) string {
	fd, err := syscall.Open(path, how|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	_ = syscall.Close(fd)
	return "opened " + path
}

// plant leaves a key in the session's keyring.
func plant() error {
	_, err := unix.AddKey("user", CanaryKey, []byte("planted"), unix.KEY_SPEC_SESSION_KEYRING)
	return err
}
