package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
)

// Inside in place of a configuration makes this process the part of a shim that
// is inside a wrapper (Config.Wrap): it has the relay, for the wrapper may cut
// off the network, and it tells the shim how the command really ended, which a
// wrapper's own exit code does not. It is hidden from the command like the shim.
// The number of Config.User follows, where there is one: the change comes before
// anything is read.
const Inside = "inside"

// The descriptors that the part inside inherits through the wrapper.
const (
	insideConfig = 3
	insideStatus = 4
)

// word is what the part inside says: once when the command runs, or cannot, and
// once when it has ended.
type word struct {
	Started bool `json:"started,omitempty"`
	// Failed says why the command could not be executed.
	Failed string `json:"failed,omitempty"`
	// Ended says that Status is the command's, as wait(2) has it.
	Ended  bool   `json:"ended,omitempty"`
	Status uint32 `json:"status,omitempty"`
}

// wrapped is the shim's side of the part inside.
type wrapped struct {
	config, status *os.File
	// theirs are the ends that the wrapper inherits.
	theirs []int
	words  *json.Decoder
}

func newWrapped() (*wrapped, error) {
	statusR, statusW, err := pipe()
	if err != nil {
		return nil, err
	}
	configR, config, err := givePipe()
	if err != nil {
		return nil, err
	}
	return &wrapped{
		config: config, status: statusR, words: json.NewDecoder(statusR), theirs: []int{configR, statusW},
	}, nil
}

// givePipe gives a blocking read end for a child, and a write end for us.
func givePipe() (int, *os.File, error) {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		return 0, nil, os.NewSyscallError("pipe", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	if err := syscall.SetNonblock(fds[1], true); err != nil {
		return 0, nil, os.NewSyscallError("fcntl", err)
	}
	return fds[0], os.NewFile(uintptr(fds[1]), "pipe"), nil // #nosec G115 -- a descriptor fits
}

// begin hands over what to do and waits until the command runs.
func (w *wrapped) begin(cfg Config) error {
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(cfg.Write(w.config), w.config.Close()) }()
	var first word
	if err := w.words.Decode(&first); err != nil {
		return errors.New("the wrapper ended before the command began")
	}
	if first.Failed != "" {
		return errors.New(first.Failed)
	}
	return <-sent
}

// end gives the command's own status where it was told, otherwise the wrapper's.
func (w *wrapped) end(wrapper syscall.WaitStatus) syscall.WaitStatus {
	defer func() { _ = w.status.Close() }()
	var last word
	if err := w.words.Decode(&last); err != nil || !last.Ended {
		return wrapper
	}
	return syscall.WaitStatus(last.Status)
}

// inside is the part inside.
func inside(args []string) int {
	// The command inherits from the thread that starts it.
	runtime.LockOSThread()
	if len(args) > 0 {
		user, err := strconv.Atoi(args[0])
		if err == nil {
			err = become(user)
		}
		if err != nil {
			return fail(err)
		}
	}
	// Whoever asks the command to end asks every process of it; this one ends
	// after the command.
	signal.Notify(make(chan os.Signal, 1), append([]os.Signal{syscall.SIGTERM, syscall.SIGINT}, deadly...)...)
	status := os.NewFile(insideStatus, "status")
	tell := func(w word) error {
		line, _ := json.Marshal(w) // plain data
		_, err := status.Write(append(line, '\n'))
		return err
	}
	pid, err := startInside()
	if err != nil {
		_ = tell(word{Failed: err.Error()})
		return CodeStartFailed
	}
	if err := tell(word{Started: true}); err != nil {
		return CodeShimFailed // the shim is dead, and so are we, and all there is
	}
	for {
		var st syscall.WaitStatus
		got, err := syscall.Wait4(-1, &st, 0, nil) // orphans are ours, too
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return CodeShimFailed
		case got == pid:
			_ = tell(word{Ended: true, Status: uint32(st)})
			if st.Signaled() {
				return 128 + int(st.Signal())
			}
			return st.ExitStatus()
		}
	}
}

func startInside() (pid int, err error) {
	src := os.NewFile(insideConfig, "configuration")
	var cfg Config
	if err := json.NewDecoder(src).Decode(&cfg); err != nil {
		return 0, fmt.Errorf("read configuration: %w", err)
	}
	_ = src.Close()
	if len(cfg.Argv) == 0 {
		return 0, errors.New("read configuration: it names no command")
	}
	if err := becomeParent(); err != nil {
		return 0, err
	}
	if err := writeHome(variable(cfg.Env, "HOME"), cfg.HomeFiles); err != nil {
		return 0, err
	}
	if err := cfg.listen(context.Background()); err != nil {
		return 0, err
	}
	path, err := cfg.program()
	if err != nil {
		return 0, err
	}
	if err := cfg.Limits.set(); err != nil {
		return 0, err
	}
	if cfg.Refuse {
		if err := refuseCalls(); err != nil {
			return 0, err
		}
	}
	pid, err = syscall.ForkExec(path, cfg.Argv, &syscall.ProcAttr{
		Dir: cfg.Dir, Env: cfg.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("execute %s: %w", path, err)
	}
	return pid, nil
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

// signalWrapped signals all that runs inside the wrapper, and the wrapper not:
// it would end before the command does. Its own child, the first process inside,
// takes no signal that it does not handle.
func signalWrapped(wrapper int, sig syscall.Signal) {
	for _, pid := range slices.DeleteFunc(descendants(os.Getpid()), func(pid int) bool { return pid == wrapper }) {
		_ = syscall.Kill(pid, sig)
	}
}
