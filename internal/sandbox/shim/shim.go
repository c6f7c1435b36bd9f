package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/org/ralph-action/internal/sandbox"
)

const (
	// stderrTail is how much of stderr is kept at least.
	stderrTail = 64 << 10
	// reapPatience bounds the wait for killed processes to be gone. Only one
	// stuck in the kernel takes longer.
	reapPatience = 10 * time.Second
)

// Main is the sub-command: args is the path of a configuration and, where a root shim is
// to become a user, that user's number. It returns the process's exit code, which is the
// command's where there was one. The caller must be a program that does nothing else: Main reaps every
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
	// Keyring and capabilities are a thread's, and the command inherits those of the
	// thread that starts it.
	runtime.LockOSThread()
	exit, err := supervise(args, signals)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "shim:", err)
		return CodeShimFailed
	}
	return exit
}

func supervise(args []string, signals <-chan os.Signal) (code int, err error) {
	// Whoever started the bot may have left it files open, which are not the
	// command's to have.
	if err := closeOnExec(); err != nil {
		return 0, err
	}
	if len(args) != 1 && len(args) != 2 {
		return 0, errors.New("usage: shim CONFIG [USER]")
	}
	if len(args) == 2 {
		user, err := strconv.Atoi(args[1])
		if err == nil {
			err = become(user)
		}
		if err != nil {
			return 0, err
		}
	}
	cfg, err := readConfig(args[0])
	if err != nil {
		return 0, err
	}
	rec, mine, err := openRecord(cfg.Record)
	if err != nil {
		return 0, err
	}
	if !mine {
		_, _ = os.Stdout.WriteString("taken\n")
		return 0, nil
	}
	if err := rec.add(Event{Event: EventShim, Time: time.Now()}); err != nil {
		return 0, err
	}
	s := &session{cfg: cfg, record: rec, signals: signals, begin: time.Now()}
	exit := s.run(args[0])
	return exit.Status(), rec.add(Event{Event: EventEnded, Time: time.Now(), Exit: &exit})
}

// deadly are the signals by which a Go program ends, or stops, unless they are
// caught, but for SIGTERM and SIGINT: package os/signal says "the program
// exits", package runtime _SigKill, _SigThrow, _SigPanic and _SigDefault.
// SIGPIPE ends those that write to a broken standard output.
var deadly = append(deadlyHere,
	syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
	syscall.SIGSEGV, syscall.SIGPIPE, syscall.SIGSYS, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
)

// session is one command's life.
type session struct {
	cfg     Config
	record  *record
	signals <-chan os.Signal
	begin   time.Time
	// active is the time of the last sign of life (the start is the first), as
	// a distance to begin.
	active atomic.Int64
}

func (s *session) run(config string) Exit {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	child, err := s.start(ctx, config)
	_, _ = os.Stdout.WriteString("ready\n")
	if err != nil {
		return Exit{Code: -1, Reason: sandbox.ReasonStartFailed, Detail: err.Error()}
	}
	reason, detail, status := s.watch(ctx, child)
	s.sweep(child)
	child.finishOutput()
	reason, detail = s.disk().lastLook(reason, detail)

	exit := Exit{
		Reason: reason, Detail: detail, Truncated: child.stdout.truncated(),
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
		if err := errors.Join(newKeyring(), refuseCalls()); err != nil {
			return nil, err
		}
	}
	return s.fork(path, cfg, stdin, stdout, stderr)
}

// fork executes the command.
func (s *session) fork(path string, cfg Config, stdin, stdout, stderr *os.File) (*child, error) {
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
	c.pid, err = syscall.ForkExec(path, cfg.Argv, &syscall.ProcAttr{
		Dir: cfg.Dir, Env: cfg.Env, Sys: &syscall.SysProcAttr{Setpgid: true},
		Files: []uintptr{stdin.Fd(), uintptr(outW), uintptr(errW)}, // #nosec G115 -- descriptors fit
	})
	_ = syscall.Close(outW)
	_ = syscall.Close(errW)
	if err != nil {
		return nil, fmt.Errorf("execute %s: %w", path, err)
	}
	s.active.Store(int64(time.Since(s.begin)))
	// Without this event the command still runs; only the time is unknown.
	_ = s.record.add(Event{Event: EventStarted, Time: time.Now()})
	c.pipes = []*os.File{outR, errR}
	c.copied.Go(func() { s.copyOutput(c.stdout, outR) })
	c.copied.Go(func() { s.copyOutput(&tailFile{f: stderr, keep: stderrTail}, errR) })
	go c.reap()
	return c, nil
}

// seal removes the names of what the command must not reach.
func (s *session) seal(config string) error {
	for _, name := range []string{config, s.cfg.Stdin, s.cfg.Stdout, s.cfg.Stderr, s.cfg.Record} {
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
func (s *session) copyOutput(sink io.Writer, r *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			s.active.Store(int64(time.Since(s.begin)))
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
func (s *session) watch(ctx context.Context, c *child) (reason sandbox.Reason, detail string, _ syscall.WaitStatus) {
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
		go s.disk().watch(ctx, func(problem string) { full <- problem })
	}
	end := func(why sandbox.Reason, sig syscall.Signal) {
		if reason == "" {
			reason = why
			grace = time.After(s.cfg.Grace)
		}
		_ = syscall.Kill(-c.pid, sig)
	}
	for {
		select {
		case status := <-c.ended:
			if reason == "" {
				reason = sandbox.ReasonExited
			}
			return reason, detail, status
		case sig := <-s.signals:
			if sig, ok := sig.(syscall.Signal); ok {
				end(sandbox.ReasonStopped, sig)
			}
		case <-owner:
			owner = nil
			end(sandbox.ReasonOwnerDied, syscall.SIGTERM)
		case <-wall:
			end(sandbox.ReasonWallTimeout, syscall.SIGTERM)
		case <-idle:
			silent := time.Since(s.begin) - time.Duration(s.active.Load())
			if silent < s.cfg.IdleTimeout {
				idle = time.After(s.cfg.IdleTimeout - silent)
				continue
			}
			end(sandbox.ReasonIdleTimeout, syscall.SIGTERM)
		case problem := <-full:
			// It has no say in it: it would write on meanwhile.
			if reason == "" {
				detail = problem
			}
			end(sandbox.ReasonDiskLimit, syscall.SIGKILL)
			killAll(c.pid)
		case <-grace:
			// Again and again, until it is seen to be dead.
			grace = time.After(100 * time.Millisecond)
			killAll(c.pid)
		}
	}
}

// disk is what the command may fill.
func (s *session) disk() disk {
	d := disk{dirs: s.cfg.Watched, limit: usage{s.cfg.DiskBytes, s.cfg.DiskFiles}, room: roomOf}
	if d.limit.bytes <= 0 {
		d.limit.bytes = math.MaxInt64
	}
	if d.limit.files <= 0 {
		d.limit.files = math.MaxInt64
	}
	return d
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
