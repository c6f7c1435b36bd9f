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
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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

	homeDir = "home"
	tmpDir  = "tmp"

	// maxOpenFiles and maxProcesses bound a command beyond what any needs. Memory
	// has no such bound: address space, the only kind that can be limited so, is
	// what the runtimes of Go and Node reserve by the gigabyte.
	maxOpenFiles = 1 << 16
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
	// Node names this machine in handles; "" means its host name.
	Node string
	// Isolation says whether bubblewrap keeps commands apart; "" is auto.
	Isolation Isolation
	// Hide are files and directories that commands must not see, where they are
	// kept apart, though they may lie among what is shown: among the system's, and
	// beside programs.
	Hide []string
}

// Sandbox implements sandbox.Sandbox with processes.
type Sandbox struct {
	self, node string
	isolation  Isolation
	hide       []string
	// wrapper is found out when it is first asked for.
	wrapper func() wrapper

	mu sync.Mutex
	// owned holds our end of the pipe of every start that dies with us.
	owned map[rundir.Dir]*os.File
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// New makes the sandbox; it fails only where the machine does not tell its
// name or the path of this program.
func New(o Options) (*Sandbox, error) {
	s := &Sandbox{self: o.Self, node: o.Node, isolation: o.Isolation, hide: o.Hide, owned: map[rundir.Dir]*os.File{}}
	s.wrapper = sync.OnceValue(func() wrapper { return probe(s.isolation) })
	var err error
	if s.self == "" {
		if s.self, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("local sandbox: %w", err)
		}
	}
	if s.node == "" {
		if s.node, err = os.Hostname(); err != nil {
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
	return s.checkIsolation()
}

// Prepare implements sandbox.Sandbox: the command is the same user as we are, or
// where we are root, the tree becomes its user's.
func (s *Sandbox) Prepare(ctx context.Context, tree string) (sandbox.Workspace, error) {
	info, err := os.Stat(tree)
	if err != nil {
		return sandbox.Workspace{}, fmt.Errorf("prepare work tree: %w", err)
	}
	if !filepath.IsAbs(tree) || !info.IsDir() {
		return sandbox.Workspace{}, fmt.Errorf("prepare work tree: %q is not an absolute directory", tree)
	}
	if user := s.wrapper().user; user != 0 {
		if err := rundir.Own(ctx, tree, user, user); err != nil {
			return sandbox.Workspace{}, fmt.Errorf("prepare work tree: %w", err)
		}
	}
	return sandbox.Workspace{Dir: tree}, nil
}

// Collect implements sandbox.Sandbox.
func (s *Sandbox) Collect(ctx context.Context, w sandbox.Workspace) (string, error) {
	if err := rundir.OpenUp(ctx, w.Dir); err != nil {
		return "", fmt.Errorf("collect work tree: %w", err)
	}
	return w.Dir, nil
}

// Start implements sandbox.Sandbox.
func (s *Sandbox) Start(ctx context.Context, name string, spec sandbox.Spec) (sandbox.Handle, error) {
	h, err := s.start(ctx, name, spec)
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("start %s: %w", name, err)
	}
	return h, nil
}

func (s *Sandbox) start(ctx context.Context, name string, spec sandbox.Spec) (sandbox.Handle, error) {
	if err := spec.Validate(name); err != nil {
		return sandbox.Handle{}, err
	}
	for _, m := range spec.Mounts {
		if m.Host != m.Target {
			return sandbox.Handle{}, fmt.Errorf("local sandbox cannot show %s at %s", m.Host, m.Target)
		}
	}
	if spec.Stdin != "" {
		if info, err := os.Lstat(spec.Stdin); err != nil {
			return sandbox.Handle{}, fmt.Errorf("standard input: %w", err)
		} else if !info.Mode().IsRegular() {
			return sandbox.Handle{}, fmt.Errorf("standard input: %s is not a regular file", spec.Stdin)
		}
	}
	d := rundir.Dir(spec.RunDir)
	noted, unlock, err := d.Enter(ctx, rundir.Start{Name: name, Token: rand.Text(), Grace: spec.Grace})
	if err != nil {
		return sandbox.Handle{}, err
	}
	defer unlock()

	hist, err := d.History()
	if err != nil {
		return sandbox.Handle{}, err
	}
	if hist.PID == 0 {
		// Nothing was started yet, or its shim is about to say so: the
		// record decides which of two shims is the one.
		if err := s.spawn(ctx, d, noted, spec); err != nil {
			return sandbox.Handle{}, err
		}
		if hist, err = d.History(); err != nil {
			return sandbox.Handle{}, err
		}
	}
	return sandbox.Handle{Node: s.node, Name: name, RunDir: spec.RunDir, ID: strconv.Itoa(hist.PID)}, nil
}

// spawn starts a shim and returns when one holds the record.
func (s *Sandbox) spawn(ctx context.Context, d rundir.Dir, noted rundir.Start, spec sandbox.Spec) error {
	for _, dir := range []string{homeDir, tmpDir} {
		if err := os.MkdirAll(d.Path(dir), 0o700); err != nil {
			return err
		}
	}
	if err := s.linkHome(d, spec); err != nil {
		return err
	}
	cfg := shim.Config{
		Argv: spec.Argv, HomeFiles: spec.HomeFiles, Env: s.environment(d, noted, spec),
		Dir:   filepath.Join(spec.Workspace.Dir, spec.Dir),
		Stdin: spec.Stdin, Stdout: d.Stdout(), Stderr: d.Stderr(), Record: d.Record(),
		OutputLimit: spec.OutputLimit, WallTimeout: spec.WallTimeout, IdleTimeout: spec.IdleTimeout,
		Grace: noted.Grace, WatchOwner: spec.OnOwnerDeath == sandbox.KillWithOwner,
		Defaults: sandbox.CacheEnv(spec.CacheDir),
		Limits:   shim.Limits{OpenFiles: maxOpenFiles, FileSize: 2 * uint64(max(spec.DiskBytes, 0))},
	}
	if s.wrapper().path != "" {
		w := s.wrapper()
		cfg.Refuse, cfg.User = true, w.user
		var err error
		if cfg.Wrap, err = s.wrap(d, spec); err != nil {
			return err
		}
		if err := s.hand(ctx, d, spec); err != nil {
			return err
		}
		cfg.Limits.Processes = uint64(cmp.Or(max(spec.PIDs, 0), maxProcesses)) //nolint:gosec // G115: not negative
	}
	if spec.DiskBytes > 0 || spec.DiskFiles > 0 {
		cfg.DiskBytes, cfg.DiskFiles = spec.DiskBytes, spec.DiskFiles
		cfg.Watched = []string{spec.Workspace.Dir, d.Path(homeDir), d.Path(tmpDir)}
		if spec.CacheDir != "" {
			cfg.Watched = append(cfg.Watched, spec.CacheDir)
		}
	}
	if cfg.OutputLimit <= 0 {
		cfg.OutputLimit = sandbox.DefaultOutputLimit
	}
	if spec.GatewayDir != "" {
		port := spec.GatewayPort
		if port == 0 {
			port = sandbox.DefaultGatewayPort
		}
		cfg.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		cfg.Socket = filepath.Join(spec.GatewayDir, sandbox.GatewaySocket)
	}
	sh, word, err := s.begin(ctx, cfg)
	if sh == nil {
		return err
	}
	if err == nil && word == "ready" && cfg.WatchOwner {
		s.keep(d, sh.owner)
		return nil
	}
	_ = sh.owner.Close()
	switch {
	case err != nil:
		return err
	case word == "ready":
		return nil
	case word == "taken":
		return awaitRecord(ctx, d)
	}
	return fmt.Errorf("the shim ended at once: %q", word)
}

// hand gives the command's user what was made for this start.
func (s *Sandbox) hand(ctx context.Context, d rundir.Dir, spec sandbox.Spec) error {
	user := s.wrapper().user
	if user == 0 {
		return nil
	}
	if err := rundir.Own(ctx, d.Path(homeDir), user, user); err != nil {
		return err
	}
	for _, dir := range []string{d.Path(tmpDir), spec.GatewayDir} {
		if dir == "" {
			continue
		}
		if err := os.Lchown(dir, user, user); err != nil {
			return err
		}
	}
	return nil
}

// begin starts a shim and gives it what to do.
func (s *Sandbox) begin(ctx context.Context, cfg shim.Config) (*waiting, string, error) {
	sh, err := s.startShim()
	if err != nil {
		return nil, "", err
	}
	word, err := sh.begin(ctx, cfg)
	return sh, word, err
}

// waiting is a shim that is started and waits for its configuration. It ends
// when owner is closed before it got one.
type waiting struct {
	// owner is our end of its standard input, word that of its standard output
	// and error: what it says until it holds the record.
	owner, word *os.File
}

// startShim starts a shim that waits.
func (s *Sandbox) startShim() (_ *waiting, err error) {
	w := &waiting{}
	ownerR, owner, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = ownerR.Close() }()
	w.owner = owner
	word, wordW, err := os.Pipe()
	if err != nil {
		_ = owner.Close()
		return nil, err
	}
	defer func() { _ = wordW.Close() }()
	w.word = word
	cmd := proc.Cmd{Path: s.self, Args: []string{"shim", shim.FromStdin}, Stdin: ownerR, Stdout: wordW, Stderr: wordW}
	if _, err := proc.StartDetached(cmd); err != nil {
		w.discard()
		return nil, err
	}
	return w, nil
}

// begin gives the shim what to do, and returns its answer, "" where it has
// ended. The owner's end stays open.
func (w *waiting) begin(ctx context.Context, cfg shim.Config) (string, error) {
	defer func() { _ = w.word.Close() }()
	writeErr := w.give(ctx, cfg)
	word, err := readWord(ctx, w.word)
	if word == "" && writeErr != nil && !errors.Is(writeErr, unix.EPIPE) {
		return "", writeErr
	}
	if errors.Is(err, io.EOF) {
		err = nil // it said what it could
	}
	return word, err
}

func (w *waiting) give(ctx context.Context, cfg shim.Config) error {
	stop := context.AfterFunc(ctx, func() { _ = w.owner.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := w.owner.SetWriteDeadline(time.Now().Add(shimStart)); err != nil {
		return err
	}
	if err := cfg.Write(w.owner); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	return nil
}

func (w *waiting) discard() {
	_ = w.owner.Close()
	_ = w.word.Close()
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
		if hist, err := d.History(); err != nil || hist.PID != 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (s *Sandbox) keep(d rundir.Dir, owner *os.File) {
	if owner == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned[d] = owner
}

func (s *Sandbox) release(d rundir.Dir) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owner := s.owned[d]; owner != nil {
		_ = owner.Close()
		delete(s.owned, d)
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
func (s *Sandbox) Inspect(ctx context.Context, h sandbox.Handle) (sandbox.Status, error) {
	st, _, err := s.inspect(ctx, h)
	if err != nil {
		return sandbox.Status{}, fmt.Errorf("inspect %s: %w", h.Name, err)
	}
	return st, nil
}

func (s *Sandbox) inspect(ctx context.Context, h sandbox.Handle) (sandbox.Status, shim.History, error) {
	d, noted, err := s.find(h)
	if err != nil || noted == nil {
		return sandbox.Status{State: sandbox.Missing}, shim.History{}, err
	}
	hist, err := d.History()
	if err != nil {
		return sandbox.Status{}, hist, err
	}
	if hist.PID != 0 && hist.Exit == nil {
		alive, err := shim.Alive(d.Record())
		if err != nil {
			return sandbox.Status{}, hist, err
		}
		if alive {
			st, err := d.Status(hist)
			return st, hist, err
		}
		// It records the end before it dies.
		if hist, err = d.History(); err != nil {
			return sandbox.Status{}, hist, err
		}
	}
	st, err := d.Status(hist)
	if err != nil || st.State != sandbox.Running {
		return st, hist, err
	}
	if err := killMarked(ctx, tokenVar+"="+noted.Token); err != nil {
		return st, hist, err
	}
	if err := awaitInner(ctx, hist); err != nil {
		return st, hist, err
	}
	st, err = d.Lost(st)
	return st, hist, err
}

// find gives the directory of a handle and what was noted there, or nil where
// there is no such start.
func (s *Sandbox) find(h sandbox.Handle) (rundir.Dir, *rundir.Start, error) {
	if h.Node != "" && h.Node != s.node {
		return "", nil, fmt.Errorf("%w: it is %s, this is %s", sandbox.ErrOtherNode, h.Node, s.node)
	}
	d := rundir.Dir(h.RunDir)
	noted, found, err := d.Started()
	if err != nil || !found || noted.Name != h.Name {
		return d, nil, err
	}
	return d, &noted, nil
}

// Wait implements sandbox.Sandbox.
func (s *Sandbox) Wait(ctx context.Context, h sandbox.Handle) (sandbox.Status, error) {
	for {
		st, hist, err := s.inspect(ctx, h)
		if err != nil {
			return sandbox.Status{}, fmt.Errorf("wait for %s: %w", h.Name, err)
		}
		if st.Ended() || st.State == sandbox.Created {
			return st, nil
		}
		if err := awaitShim(ctx, rundir.Dir(h.RunDir).Record(), hist.PID); err != nil {
			return sandbox.Status{}, fmt.Errorf("wait for %s: %w", h.Name, err)
		}
	}
}

// Logs implements sandbox.Sandbox.
func (s *Sandbox) Logs(_ context.Context, h sandbox.Handle, offset int64) (io.ReadCloser, error) {
	d, _, err := s.find(h)
	if err != nil {
		return nil, fmt.Errorf("logs of %s: %w", h.Name, err)
	}
	return d.Logs(offset)
}

// Stop implements sandbox.Sandbox.
func (s *Sandbox) Stop(ctx context.Context, h sandbox.Handle, reason string) error {
	if err := s.stop(ctx, h, reason); err != nil {
		return fmt.Errorf("stop %s: %w", h.Name, err)
	}
	return nil
}

func (s *Sandbox) stop(ctx context.Context, h sandbox.Handle, reason string) error {
	st, hist, err := s.inspect(ctx, h)
	if err != nil || st.State != sandbox.Running {
		return err
	}
	d, noted, err := s.find(h)
	if err != nil || noted == nil {
		return err
	}
	if err := d.NoteStop(reason); err != nil {
		return err
	}
	if err := signalShim(d.Record(), hist.PID, sigTerm); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, noted.Grace+stopSlack)
	defer cancel()
	if err := awaitShim(patience, d.Record(), hist.PID); err == nil || ctx.Err() != nil {
		return err
	}
	// The shim itself hangs (a frozen machine, a debugger).
	if err := signalShim(d.Record(), hist.PID, sigKill); err != nil {
		return err
	}
	if err := awaitShim(ctx, d.Record(), hist.PID); err != nil {
		return err
	}
	_, _, err = s.inspect(ctx, h) // ends what the shim no longer can
	return err
}

// Remove implements sandbox.Sandbox.
func (s *Sandbox) Remove(ctx context.Context, h sandbox.Handle) error {
	if err := s.remove(ctx, h); err != nil {
		return fmt.Errorf("remove %s: %w", h.Name, err)
	}
	return nil
}

func (s *Sandbox) remove(ctx context.Context, h sandbox.Handle) error {
	d, noted, err := s.find(h)
	if err != nil || noted == nil {
		return err
	}
	if err := s.stop(ctx, h, "removed"); err != nil {
		return err
	}
	unlock, err := d.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s.release(d)
	return d.Forget(homeDir, tmpDir)
}
