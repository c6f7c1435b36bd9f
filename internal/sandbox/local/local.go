package local

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

const (
	// tokenVar marks every process of a start, so that they can be found when
	// the shim that would know them is gone.
	tokenVar = "RALPH_SANDBOX_TOKEN"
	// wrapperVar marks the wrapper, which ends when all inside of it has.
	wrapperVar = "RALPH_SANDBOX_WRAPPER"

	homeDir = "home"
	tmpDir  = "tmp"

	// maxProcesses bounds a command beyond what any needs. Memory has no such bound:
	// address space, the only kind that can be limited so, is what the runtimes of Go
	// and Node reserve by the gigabyte.
	maxProcesses = 4096

	// shimStart bounds the time from starting the shim to its first word.
	shimStart = 30 * time.Second
	// stopSlack is what the shim gets beyond the grace to kill and record.
	stopSlack = 5 * time.Second
)

// Options configure the sandbox.
type Options struct {
	// Self is the program whose first argument "shim" makes it the shim; ""
	// means this program.
	Self string
	// Isolation says whether bubblewrap keeps commands apart; "" is auto.
	Isolation Isolation
	// Show are files and directories that commands may read, besides programs and what
	// is installed with them.
	Show []string
	// Hide are files and directories that commands must not see, where they are
	// kept apart, though they may lie among what is shown: among the system's, and
	// beside programs.
	Hide []string
}

// Sandbox implements sandbox.Sandbox with processes.
type Sandbox struct {
	self      string
	isolation Isolation
	shown     []string
	hide      []string
	// wrapper is found out when it is first asked for.
	wrapper func() wrapper

	owned rundir.Owned
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// New makes the sandbox; it fails only where the machine does not tell the path of this program.
func New(o Options) (*Sandbox, error) {
	s := &Sandbox{self: o.Self, isolation: o.Isolation, shown: o.Show, hide: o.Hide}
	s.wrapper = sync.OnceValue(func() wrapper { return probe(s.isolation) })
	if s.self == "" {
		var err error
		if s.self, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("local sandbox: %w", err)
		}
	}
	return s, nil
}

// About implements sandbox.Sandbox.
func (s *Sandbox) About() sandbox.About {
	return sandbox.About{Name: "local", Confinement: s.Confinement}
}

// Check implements sandbox.Sandbox.
func (s *Sandbox) Check(context.Context) error {
	info, err := os.Stat(s.self)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return &run.UserError{
			Message: fmt.Sprintf("the bot's program %s is gone", s.self),
			Hint:    "restore it and restart the bot", Err: err,
		}
	}
	for _, path := range s.shown {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return &run.UserError{
				Message: fmt.Sprintf("what agents are to be shown is not there: %v", err),
				Hint:    "correct sandbox.show or --show: whole paths of files or directories", Err: err,
			}
		}
		if real == "/" {
			return &run.UserError{
				Message: fmt.Sprintf("agents cannot be shown %s: it is the whole machine", path),
				Hint:    "name the directories that they need in sandbox.show or --show, or use --local-isolation none",
			}
		}
	}
	return s.checkIsolation()
}

// Prepare implements sandbox.Sandbox: the command is the same user as we are, or
// where we are root, the tree becomes its user's.
func (s *Sandbox) Prepare(ctx context.Context, tree string) error {
	if user := s.wrapper().user; user != 0 {
		return rundir.Own(ctx, tree, user, user)
	}
	return nil
}

// explain says in an error what could not be done.
func explain(err *error, what, name string) {
	if *err != nil {
		*err = fmt.Errorf("%s %s: %w", what, name, *err)
	}
}

// Start implements sandbox.Sandbox.
func (s *Sandbox) Start(ctx context.Context, name string, spec sandbox.Spec) (_ sandbox.Handle, err error) {
	defer explain(&err, "start", name)
	if err := spec.Validate(name); err != nil {
		return sandbox.Handle{}, err
	}
	for _, m := range spec.Mounts {
		if m.Host != m.Target {
			return sandbox.Handle{}, fmt.Errorf("local sandbox cannot show %s at %s", m.Host, m.Target)
		}
	}
	d := rundir.Dir(spec.RunDir)
	noted, unlock, err := d.Enter(ctx, rundir.Start{Name: name, Token: rand.Text(), Grace: spec.Grace})
	if err != nil {
		return sandbox.Handle{}, err
	}
	defer unlock()

	h := sandbox.Handle{Name: name, RunDir: spec.RunDir}
	// Without a word in the record nothing was started yet, or its shim is about to say
	// so: the record decides which of two shims is the one.
	if hist, err := d.History(); err != nil || !hist.ShimAt.IsZero() {
		return h, err
	}
	return h, s.spawn(ctx, d, noted, spec)
}

// spawn starts a shim and returns when one holds the record.
func (s *Sandbox) spawn(ctx context.Context, d rundir.Dir, noted rundir.Start, spec sandbox.Spec) error {
	cmd, err := s.pack(ctx, d, noted, spec)
	if err != nil {
		return err
	}
	var owner *os.File // our end of the standard input of a shim that dies with us
	if spec.OnOwnerDeath == sandbox.KillWithOwner {
		theirs, ours, err := os.Pipe()
		if err != nil {
			return err
		}
		defer func() { _ = theirs.Close() }()
		owner, cmd.Stdin = ours, theirs
	}
	word, err := s.startShim(ctx, cmd)
	if err == nil && word == "ready" {
		if owner != nil {
			s.owned.Keep(d, owner)
		}
		return nil
	}
	if owner != nil {
		_ = owner.Close()
	}
	switch {
	case err != nil:
		return err
	case word == "taken":
		return awaitRecord(ctx, d)
	}
	return fmt.Errorf("the shim ended at once: %q", word)
}

// pack lays out what a start needs, and gives the command line of its shim. After an error
// there is no box.
func (s *Sandbox) pack(ctx context.Context, d rundir.Dir, noted rundir.Start, spec sandbox.Spec) (_ proc.Cmd, err error) {
	for _, dir := range []string{homeDir, tmpDir} {
		if err := os.MkdirAll(d.Path(dir), 0o700); err != nil {
			return proc.Cmd{}, err
		}
	}
	box, err := d.NewBox()
	if err != nil {
		return proc.Cmd{}, err
	}
	defer func() {
		if err != nil {
			_ = fstree.RemoveAll(box) // the agent's environment is in it
		}
	}()
	w := s.wrapper()
	at := rundir.Places{Work: spec.Workspace, Box: box, Cache: spec.CacheDir, Gateway: spec.GatewayDir}
	cmd := proc.Cmd{Path: s.self, Args: []string{"shim", filepath.Join(box, rundir.ConfigName)}}
	if w.path != "" {
		at.Box = boxPath
		if cmd, err = s.wrap(d, box, spec); err != nil {
			return proc.Cmd{}, err
		}
		cmd.Env = []string{wrapperVar + "=" + noted.Token}
	}
	cfg := rundir.Config(noted, spec, at)
	cfg.Env, cfg.Refuse = s.environment(d, noted, spec), w.path != ""
	if w.path != "" {
		cfg.Limits.Processes = uint64(cmp.Or(max(spec.PIDs, 0), maxProcesses)) //nolint:gosec // G115: not negative
	}
	cfg.Watched = append(cfg.Watched, d.Path(homeDir), d.Path(tmpDir))
	if err := d.Fill(box, cfg, spec.Stdin); err != nil {
		return proc.Cmd{}, err
	}
	if w.user == 0 {
		return cmd, nil
	}
	// What was made for this start is the command's user's.
	for _, dir := range []string{d.Path(homeDir), box} {
		if err := rundir.Own(ctx, dir, w.user, w.user); err != nil {
			return proc.Cmd{}, err
		}
	}
	for _, dir := range []string{d.Path(tmpDir), spec.GatewayDir} {
		if dir == "" {
			continue
		}
		if err := os.Lchown(dir, w.user, w.user); err != nil {
			return proc.Cmd{}, err
		}
	}
	return cmd, nil
}

// startShim starts a shim, and gives the first word of it, or of what was to start it.
func (s *Sandbox) startShim(ctx context.Context, cmd proc.Cmd) (string, error) {
	said, theirs, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer func() { _ = said.Close() }()
	cmd.Stdout, cmd.Stderr = theirs, theirs
	_, err = proc.StartDetached(cmd)
	_ = theirs.Close()
	if err != nil {
		return "", err
	}
	word, err := readWord(ctx, said)
	if errors.Is(err, io.EOF) {
		err = nil // it said what it could
	}
	return word, err
}

// readWord reads one line. At an early end the error is io.EOF beside what was
// read.
func readWord(ctx context.Context, r *os.File) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := r.SetReadDeadline(time.Now().Add(shimStart)); err != nil {
		return "", err
	}
	word, err := bufio.NewReader(io.LimitReader(r, 4<<10)).ReadString('\n')
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return strings.TrimSuffix(word, "\n"), err
}

// awaitRecord waits for the first line of a record that another shim has just
// taken.
func awaitRecord(ctx context.Context, d rundir.Dir) error {
	ctx, cancel := context.WithTimeout(ctx, shimStart)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if hist, err := d.History(); err != nil || !hist.ShimAt.IsZero() {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// environment is the whole of what the command sees.
func (s *Sandbox) environment(d rundir.Dir, noted rundir.Start, spec sandbox.Spec) []string {
	env := map[string]string{
		"HOME": d.Path(homeDir), "TMPDIR": d.Path(tmpDir), "TERM": "dumb",
		"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
		// The machine's git configuration may name helpers that know credentials.
		"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
	}
	for _, key := range append([]string{"PATH", "LANG"}, spec.PassEnv...) {
		if v, ok := os.LookupEnv(key); ok {
			env[key] = v
		}
	}
	maps.Copy(env, spec.Env)
	env[tokenVar] = noted.Token
	list := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		list = append(list, key+"="+env[key])
	}
	return list
}

// Inspect implements sandbox.Sandbox.
func (s *Sandbox) Inspect(ctx context.Context, h sandbox.Handle) (_ sandbox.Status, err error) {
	defer explain(&err, "inspect", h.Name)
	d, noted, err := rundir.Find(h)
	if err != nil || noted == nil {
		return sandbox.Status{State: sandbox.Missing}, err
	}
	// In this order: a shim records the end before it dies.
	shimPID, err := shim.Holder(d.Record())
	if err != nil {
		return sandbox.Status{}, err
	}
	hist, err := d.History()
	if err != nil {
		return sandbox.Status{}, err
	}
	st, err := d.Status(hist)
	if err != nil || st.State != sandbox.Running || shimPID != 0 {
		return st, err
	}
	// Nobody is left to end what it has left behind. Inside of a wrapper that dies with the
	// shim, and the wrapper after it.
	if err := endMarked(ctx, tokenVar+"="+noted.Token, true); err != nil {
		return st, err
	}
	if err := endMarked(ctx, wrapperVar+"="+noted.Token, false); err != nil {
		return st, err
	}
	return d.Lost(st)
}

// Wait implements sandbox.Sandbox.
func (s *Sandbox) Wait(ctx context.Context, h sandbox.Handle) (_ sandbox.Status, err error) {
	defer explain(&err, "wait for", h.Name)
	for {
		if st, err := s.Inspect(ctx, h); err != nil || st.State != sandbox.Running {
			return st, err
		}
		if err := awaitShim(ctx, rundir.Dir(h.RunDir).Record()); err != nil {
			return sandbox.Status{}, err
		}
	}
}

// Stop implements sandbox.Sandbox.
func (s *Sandbox) Stop(ctx context.Context, h sandbox.Handle, reason string) (err error) {
	defer explain(&err, "stop", h.Name)
	st, err := s.Inspect(ctx, h)
	if err != nil || st.State != sandbox.Running {
		return err
	}
	d, noted, err := rundir.Find(h)
	if err != nil || noted == nil {
		return err
	}
	if err := d.NoteStop(reason); err != nil {
		return err
	}
	if err := signalShim(d.Record(), sigTerm); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, noted.Grace+stopSlack)
	defer cancel()
	if err := awaitShim(patience, d.Record()); err == nil || ctx.Err() != nil {
		return err
	}
	// The shim itself hangs (a frozen machine, a debugger).
	if err := signalShim(d.Record(), sigKill); err != nil {
		return err
	}
	if err := awaitShim(ctx, d.Record()); err != nil {
		return err
	}
	_, err = s.Inspect(ctx, h) // ends what the shim no longer can
	return err
}

// Remove implements sandbox.Sandbox.
func (s *Sandbox) Remove(ctx context.Context, h sandbox.Handle) (err error) {
	defer explain(&err, "remove", h.Name)
	d, noted, err := rundir.Find(h)
	if err != nil || noted == nil {
		return err
	}
	if err := s.Stop(ctx, h, "removed"); err != nil {
		return err
	}
	unlock, err := d.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s.owned.Release(d)
	return d.Forget(homeDir, tmpDir)
}
