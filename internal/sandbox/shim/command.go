package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// closeOnExec has no program that we execute inherit a descriptor, but for those
// that it is handed.
func closeOnExec() error {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return fmt.Errorf("find inherited descriptors: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("find inherited descriptors: %w", err)
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// feed gives the content of a file through a pipe: who has the file itself as a
// descriptor can open it anew, and write. The null device is nobody's to write.
func feed(f *os.File) (*os.File, error) {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return f, err
	}
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	if err := syscall.SetNonblock(fds[1], true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	r, w := fds[0], os.NewFile(uintptr(fds[1]), "pipe") // #nosec G115 -- a descriptor fits
	go func() {
		_, _ = io.Copy(w, f) // the command may end before it has read all
		_ = w.Close()
		_ = f.Close()
	}()
	return os.NewFile(uintptr(r), "pipe"), nil // #nosec G115 -- a descriptor fits
}

// openInput refuses what is not a regular file: opening a FIFO would block.
func openInput(path string) (*os.File, error) {
	if path == "" {
		path = os.DevNull
	} else if info, err := os.Lstat(path); err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("standard input: %s is not a regular file", path)
	}
	f, err := os.Open(path) // #nosec G304 -- the path is the caller's
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return f, nil
}

func openOutput(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600) // #nosec G304 -- the path is the caller's
	if err != nil {
		return nil, fmt.Errorf("transcript: %w", err)
	}
	return f, nil
}

// pipe gives a read end for us and a blocking write end for the command;
// os.Pipe would make both non-blocking, and the command's is the same open
// file.
func pipe() (*os.File, int, error) {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		return nil, 0, os.NewSyscallError("pipe", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		return nil, 0, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), fds[1], nil // #nosec G115 -- a descriptor fits
}

// writeHome lays out files in the command's home.
func writeHome(home string, files map[string]string) (err error) {
	if len(files) == 0 {
		return nil
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return fmt.Errorf("open the home: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for name, content := range files {
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return fmt.Errorf("write into the home: %w", err)
		}
		if err := root.WriteFile(name, []byte(content), 0o600); err != nil {
			return fmt.Errorf("write into the home: %w", err)
		}
	}
	return nil
}

// listen starts the relay to the gateway, if there is one.
func (c Config) listen(ctx context.Context) error {
	if c.Listen == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("relay to the gateway: %w", err)
	}
	go relay{socket: c.Socket, patience: relayPatience}.serve(ctx, l)
	return nil
}

// program is the path of the command, once it and its directory are known to be
// there.
func (c Config) program() (string, error) {
	path, err := lookPath(c.Argv[0], c.Dir, c.Env)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(c.Dir); err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	} else if !info.IsDir() {
		return "", fmt.Errorf("working directory: %s is not a directory", c.Dir)
	}
	return path, nil
}

// withDefaults adds those that env does not name.
func withDefaults(env []string, defaults map[string]string) []string {
	for _, key := range slices.Sorted(maps.Keys(defaults)) {
		if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, key+"=") }) {
			env = append(env[:len(env):len(env)], key+"="+defaults[key])
		}
	}
	return env
}

// variable is the value of a variable in env, "" if it is not there.
func variable(env []string, name string) string {
	value := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// lookPath finds a program in the PATH of env, as execvp would; names with a
// slash are relative to dir.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if err := executable(name); err != nil {
			return "", fmt.Errorf("command %s: %w", name, err)
		}
		return name, nil
	}
	path := variable(env, "PATH")
	for _, d := range filepath.SplitList(path) {
		// A relative entry would let the work tree name the program.
		if !filepath.IsAbs(d) {
			continue
		}
		if p := filepath.Join(d, name); executable(p) == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("command %q not found in PATH (%s)", name, path)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	if info.Mode()&0o111 == 0 {
		return syscall.EACCES
	}
	return nil
}

func signalName(sig syscall.Signal) string {
	names := map[syscall.Signal]string{
		syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT",
		syscall.SIGILL: "SIGILL", syscall.SIGTRAP: "SIGTRAP", syscall.SIGABRT: "SIGABRT",
		syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE", syscall.SIGKILL: "SIGKILL",
		syscall.SIGUSR1: "SIGUSR1", syscall.SIGSEGV: "SIGSEGV", syscall.SIGUSR2: "SIGUSR2",
		syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM",
		syscall.SIGXCPU: "SIGXCPU", syscall.SIGXFSZ: "SIGXFSZ", syscall.SIGSYS: "SIGSYS",
	}
	if name, ok := names[sig]; ok {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}
