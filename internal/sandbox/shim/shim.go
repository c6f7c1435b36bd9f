package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// stderrTail is how much of stderr is kept at least.
	stderrTail = 64 << 10
	// reapPatience bounds the wait for killed processes to be gone. Only one
	// stuck in the kernel takes longer.
	reapPatience = 10 * time.Second
)

// Main is the sub-command: args is the path of a configuration, or FromStdin.
// It returns the process's exit code, which is the command's where there was
// one. The caller must be a program that does nothing else: Main reaps every
// child, takes over all signals and may kill every descendant.
//
// It says one word on its stdout: "ready" once the command runs (or could not
// be started, which the record tells), or "taken" where another shim has the
// record.
func Main(args []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// The others are caught and dropped: as a container's first process the
	// shim must not be ended by any that the command sends it. (Ignoring them
	// would be inherited by the command.) They are named, since the runtime
	// switches threads twice to catch one, and drops most of them anyway.
	signal.Notify(make(chan os.Signal, 1), deadly...)

	// Whoever started the bot may have left it files open, which are not the
	// command's to have.
	if err := closeOnExec(); err != nil {
		return fail(err)
	}
	if len(args) > 0 && args[0] == Inside {
		return inside(args[1:])
	}
	if len(args) != 1 {
		return fail(errors.New("usage: shim CONFIG"))
	}
	cfg, err := readConfig(args[0])
	if err != nil {
		return fail(err)
	}
	rec, mine, err := openRecord(cfg.Record)
	if err != nil {
		return fail(err)
	}
	if !mine {
		_, _ = os.Stdout.WriteString("taken\n")
		return 0
	}
	if err := rec.add(Event{Event: EventShim, Time: time.Now(), PID: os.Getpid()}); err != nil {
		return fail(err)
	}

	s := &session{cfg: cfg, record: rec, signals: signals, begin: time.Now()}
	exit := s.run(args[0])
	if err := rec.add(Event{Event: EventEnded, Time: time.Now(), Exit: &exit}); err != nil {
		return fail(err)
	}
	return exit.Status()
}

// deadly are the signals by which a Go program ends, or stops, unless they are
// caught, but for SIGTERM and SIGINT: package os/signal says "the program
// exits", package runtime _SigKill, _SigThrow, _SigPanic and _SigDefault.
// SIGPIPE ends those that write to a broken standard output.
var deadly = append(deadlyHere,
	syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
	syscall.SIGSEGV, syscall.SIGPIPE, syscall.SIGSYS, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
)

func fail(err error) int {
	_, _ = fmt.Fprintln(os.Stderr, "shim:", err)
	return CodeShimFailed
}

// session is one command's life.
type session struct {
	cfg     Config
	record  *record
	signals <-chan os.Signal
	begin   time.Time
	// active is the time of the last sign of life (the start is the first), as
	// a distance to begin.
	active atomic.Int64
	// wrapped is the other side of the wrapper, nil without one.
	wrapped *wrapped
}

func (s *session) run(config string) Exit {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	child, err := s.start(ctx, config)
	_, _ = os.Stdout.WriteString("ready\n")
	if err != nil {
		return Exit{Code: -1, Reason: ReasonStartFailed, Detail: err.Error()}
	}
	reason, detail, status := s.watch(ctx, child)
	if s.wrapped != nil {
		status = s.wrapped.end(status)
	}
	s.sweep(child)
	child.finishOutput()

	exit := Exit{
		Reason: reason, Detail: detail, OutputBytes: child.stdout.seen, Truncated: child.stdout.truncated(),
		Code: status.ExitStatus(), OOMKilled: oomKilled(),
	}
	if status.Signaled() {
		exit.Code = 128 + int(status.Signal())
		exit.Signal = signalName(status.Signal())
	}
	if child.stdout.err != nil && detail == "" {
		exit.Detail = "transcript: " + child.stdout.err.Error()
	}
	return exit
}

// child is a started command.
type child struct {
	pid    int
	stdout *cappedFile
	// pipes are our ends of its stdout and stderr.
	pipes  []*os.File
	copied sync.WaitGroup
	// ended gives its status; gone is closed when we have no child left at
	// all, its orphans included.
	ended chan syscall.WaitStatus
	gone  chan struct{}
}

func (s *session) start(ctx context.Context, config string) (_ *child, err error) {
	input, err := openInput(s.cfg.Stdin)
	if err != nil {
		return nil, err
	}
	stdin, err := feed(input)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := openOutput(s.cfg.Stdout)
	if err != nil {
		return nil, err
	}
	stderr, err := openOutput(s.cfg.Stderr)
	if err != nil {
		return nil, err
	}
	if err := s.seal(config); err != nil {
		return nil, err
	}
	if err := becomeParent(); err != nil {
		return nil, err
	}
	cfg := s.cfg
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	cfg.Env = withDefaults(cfg.Env, cfg.Defaults)
	if len(cfg.Wrap) > 0 {
		return s.startWrapped(cfg, stdin, stdout, stderr)
	}
	if err := writeHome(variable(cfg.Env, "HOME"), cfg.HomeFiles); err != nil {
		return nil, err
	}
	if err := cfg.listen(ctx); err != nil {
		return nil, err
	}
	path, err := cfg.program()
	if err != nil {
		return nil, err
	}
	if err := cfg.Limits.set(); err != nil {
		return nil, err
	}
	if cfg.Refuse {
		if err := refuseCalls(); err != nil {
			return nil, err
		}
	}
	return s.fork(path, cfg.Argv, &syscall.ProcAttr{
		Dir: cfg.Dir, Env: cfg.Env, Sys: &syscall.SysProcAttr{},
	}, stdin, stdout, stderr)
}

// startWrapped starts the command inside the wrapper, and returns once it runs
// there.
func (s *session) startWrapped(cfg Config, stdin, stdout, stderr *os.File) (*child, error) {
	w, err := newWrapped()
	if err != nil {
		return nil, err
	}
	cfg.Wrap = nil
	// A wrapper that dies with its parent dies with the thread that started it,
	// and it inherits that thread's keyring.
	runtime.LockOSThread()
	if err := newKeyring(); err != nil {
		return nil, err
	}
	attr := &syscall.ProcAttr{Dir: "/", Env: cfg.Env, Sys: &syscall.SysProcAttr{}}
	for _, fd := range w.theirs {
		attr.Files = append(attr.Files, uintptr(fd)) // #nosec G115 -- descriptors fit
	}
	if cfg.User != 0 {
		withUser(attr.Sys, cfg.User)
		// What a command is given is its own, by its names in /dev, too.
		if err := own(stdin, cfg.User); err != nil {
			return nil, err
		}
	}
	s.wrapped = w
	c, err := s.fork(s.cfg.Wrap[0], s.cfg.Wrap, attr, stdin, stdout, stderr)
	for _, fd := range w.theirs {
		_ = syscall.Close(fd)
	}
	if err != nil {
		return nil, err
	}
	if err := w.begin(cfg); err != nil {
		<-c.ended // it ends by itself: it has nothing to do
		s.sweep(c)
		c.finishOutput()
		// The wrapper's own words say why.
		said := make([]byte, 1<<10)
		n, _ := stderr.ReadAt(said, 0)
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(said[:n])))
	}
	s.started(c.pid)
	return c, nil
}

// started notes that the command runs. Without this event it still does; only the
// time is unknown.
func (s *session) started(wrapper int) {
	s.active.Store(int64(time.Since(s.begin)))
	e := Event{Event: EventStarted, Time: time.Now()}
	if wrapper != 0 {
		e.Inner = firstChild(wrapper)
	}
	if e.Inner != 0 {
		e.InnerStart = StartOf(e.Inner)
	}
	_ = s.record.add(e)
}

// fork executes a program with the command's streams, and the files of attr after
// those.
func (s *session) fork(
	path string, argv []string, attr *syscall.ProcAttr, stdin, stdout, stderr *os.File,
) (*child, error) {

	c := &child{
		stdout: &cappedFile{f: stdout, limit: s.cfg.OutputLimit},
		ended:  make(chan syscall.WaitStatus, 1),
		gone:   make(chan struct{}),
	}
	outR, outW, err := pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := pipe()
	if err != nil {
		return nil, err
	}
	// Not os.StartProcess: somebody has to wait for every child there is,
	// and that would steal the status from an os.Process.
	attr.Files = append([]uintptr{stdin.Fd(), uintptr(outW), uintptr(errW)}, attr.Files...) // #nosec G115 -- descriptors fit
	attr.Sys.Setpgid = true
	for _, fd := range []int{outW, errW} {
		if s.cfg.User != 0 && err == nil {
			err = os.NewSyscallError("fchown", syscall.Fchown(fd, s.cfg.User, s.cfg.User))
		}
	}
	pid := 0
	if err == nil {
		pid, err = syscall.ForkExec(path, argv, attr)
	}
	_ = syscall.Close(outW)
	_ = syscall.Close(errW)
	if err != nil {
		return nil, fmt.Errorf("execute %s: %w", path, err)
	}
	c.pid = pid
	if s.wrapped == nil {
		s.started(0)
	}
	c.pipes = []*os.File{outR, errR}
	c.copied.Go(func() { s.copyOutput(c.stdout, outR, true) })
	c.copied.Go(func() { s.copyOutput(&tailFile{f: stderr, keep: stderrTail}, errR, false) })
	go c.reap()
	return c, nil
}

// feed gives the content of a file through a pipe: who has the file itself as a
// descriptor can open it anew, and write. The null device is nobody's to write.
func feed(f *os.File) (*os.File, error) {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return f, err
	}
	r, w, err := givePipe()
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.Copy(w, f) // the command may end before it has read all
		_ = w.Close()
		_ = f.Close()
	}()
	return os.NewFile(uintptr(r), "pipe"), nil // #nosec G115 -- a descriptor fits
}

// own gives a pipe to a user; the null device, which is everybody's, stays.
func own(f *os.File, user int) error {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return err
	}
	return f.Chown(user, user)
}

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

// seal removes the names of what the command must not reach.
func (s *session) seal(config string) error {
	var names []string
	if config != FromStdin {
		names = append(names, config)
	}
	if s.cfg.Seal {
		names = append(names, s.cfg.Stdin, s.cfg.Stdout, s.cfg.Stderr, s.cfg.Record)
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) { // #nosec G703 -- named by the host
			return fmt.Errorf("seal: %w", err)
		}
	}
	return nil
}

// copyOutput reads to the end, whatever becomes of the sink.
func (s *session) copyOutput(sink io.Writer, r *os.File, first bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			s.active.Store(int64(time.Since(s.begin)))
			if first {
				first = false
				_ = s.record.add(Event{Event: EventFirstByte, Time: time.Now()})
			}
			_, _ = sink.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// finishOutput waits until the transcript is complete. Nobody is left to hold
// the pipes open, unless a process outlived its SIGKILL.
func (c *child) finishOutput() {
	timer := time.AfterFunc(time.Second, func() {
		for _, p := range c.pipes {
			_ = p.SetReadDeadline(time.Unix(1, 0))
		}
	})
	defer timer.Stop()
	c.copied.Wait()
	for _, p := range c.pipes {
		_ = p.Close()
	}
}

// reap waits for every child, also the orphans that became ours. A process
// hands its children over before it can be waited for, so that "no child" is
// final once the command itself has been seen. Most often that is known at once,
// and then before the command's status is: nobody has to look for more.
func (c *child) reap() {
	status, ok := c.await()
	if !ok {
		close(c.gone)
		return
	}
	pid := 1
	var err error
	for pid > 0 {
		pid, err = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	}
	if errors.Is(err, syscall.ECHILD) {
		close(c.gone)
		c.ended <- status
		return
	}
	c.ended <- status
	for err == nil || errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(-1, nil, 0, nil)
	}
	close(c.gone)
}

// await gives the command's status, and reaps whoever ends before.
func (c *child) await() (status syscall.WaitStatus, ok bool) {
	for {
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return status, false
		case pid == c.pid:
			return status, true
		}
	}
}

// watch waits for the command to end and makes it end when it has to. The
// reason is that of the first cause.
func (s *session) watch(ctx context.Context, c *child) (reason, detail string, _ syscall.WaitStatus) {
	var (
		grace <-chan time.Time
		wall  = after(s.cfg.WallTimeout)
		idle  = after(s.cfg.IdleTimeout)
		owner <-chan struct{}
	)
	if s.cfg.WatchOwner {
		owner = endOf(os.Stdin)
	}
	full := make(chan string, 1)
	if len(s.cfg.Watched) > 0 {
		d := disk{dirs: s.cfg.Watched, limit: usage{s.cfg.DiskBytes, s.cfg.DiskFiles}, room: roomOf}
		if d.limit.bytes <= 0 {
			d.limit.bytes = math.MaxInt64
		}
		if d.limit.files <= 0 {
			d.limit.files = math.MaxInt64
		}
		go d.watch(ctx, func(problem string) { full <- problem })
	}
	end := func(why string, sig syscall.Signal) {
		if reason == "" {
			reason = why
			grace = time.After(s.cfg.Grace)
		}
		if s.wrapped != nil {
			signalWrapped(c.pid, sig)
			return
		}
		_ = syscall.Kill(-c.pid, sig)
	}
	for {
		select {
		case status := <-c.ended:
			if reason == "" {
				reason = ReasonExited
			}
			return reason, detail, status
		case sig := <-s.signals:
			if sig, ok := sig.(syscall.Signal); ok {
				end(ReasonSignalled, sig)
			}
		case <-owner:
			owner = nil
			end(ReasonOwnerDied, syscall.SIGTERM)
		case <-wall:
			end(ReasonWallTimeout, syscall.SIGTERM)
		case <-idle:
			silent := time.Since(s.begin) - time.Duration(s.active.Load())
			if silent < s.cfg.IdleTimeout {
				idle = time.After(s.cfg.IdleTimeout - silent)
				continue
			}
			end(ReasonIdleTimeout, syscall.SIGTERM)
		case problem := <-full:
			// It has no say in it: it would write on meanwhile.
			if reason == "" {
				detail = problem
			}
			end(ReasonDiskLimit, syscall.SIGKILL)
			killAll(c.pid)
		case <-grace:
			// Again and again, until it is seen to be dead.
			grace = time.After(100 * time.Millisecond)
			killAll(c.pid)
		}
	}
}

// sweep kills what the command left behind and waits until it is gone.
func (s *session) sweep(c *child) {
	deadline := time.After(reapPatience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-c.gone:
			return
		default:
		}
		killAll(c.pid)
		select {
		case <-c.gone:
			return
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

func endOf(r io.Reader) <-chan struct{} {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, r)
	}()
	return end
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
	var path string
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
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
