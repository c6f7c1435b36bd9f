package docker

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
)

// Where things are inside a container.
const (
	// WorkDir is the work tree.
	WorkDir = "/workspace"
	// ShimPath is the bot's program.
	ShimPath = "/opt/ralph/bot"

	boxDir     = "/run/ralph"
	gatewayDir = "/run/gateway"
	cacheDir   = "/run/cache"
	homeDir    = "/home/agent"
)

// The labels of a container, by which a person and Start know whose it is.
const (
	labelStart  = "ralph.start"
	labelRunDir = "ralph.run-dir"
	// labelInstallation says which bot's it is, where several use one engine.
	labelInstallation = "ralph.installation"
)

// Defaults of Options and of Spec.
const (
	DefaultUID         = 1000
	DefaultMemoryBytes = 4 << 30
	DefaultPIDs        = 512
)

const (
	// namePrefix keeps our names apart from other containers'.
	namePrefix = "ralph-"
	// stopSlack is what the shim gets beyond the grace to kill and record.
	stopSlack = 5 * time.Second
	// nameWait bounds the wait for a container that a dead process asked for
	// to appear under its name; nameRetry is how often Start looks again.
	nameWait  = 30 * time.Second
	nameRetry = 20 * time.Millisecond
	// pingTimeout bounds the wait for an engine that hangs.
	pingTimeout = 10 * time.Second
)

// Options configure the sandbox.
type Options struct {
	// Self is the program mounted as the shim; "" means this program. It must
	// be a static Linux program.
	Self string
	// UID and GID are the command's user where the bot is root; 0 means 1000.
	// A bot that is not root runs the command as its own user.
	UID, GID int
	// Image is one that Check expects to be there, or "".
	Image string
	// DataDir is a directory of the bot, for what has to be copied; "" means
	// that nothing can be.
	DataDir string
	// Installation is the bot's own mark on its containers, by which Reap
	// finds those of dead runs; "" marks none.
	Installation string
}

// Sandbox implements sandbox.Sandbox with containers.
type Sandbox struct {
	engine   *client.Client
	opts     Options
	uid, gid int

	owned rundir.Owned

	mu sync.Mutex
	// found are the paths, once they were looked for.
	found *paths
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// New makes the sandbox for the engine that the environment names (DOCKER_HOST
// and its like). It does not talk to it; see Check.
func New(o Options) (*Sandbox, error) {
	engine, err := client.New(client.FromEnv)
	if err != nil {
		return nil, &run.UserError{
			Message: "the Docker settings in the environment do not work",
			Hint:    "correct DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, or unset them", Err: err,
		}
	}
	if o.Self == "" {
		if o.Self, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("docker sandbox: %w", err)
		}
	}
	s := &Sandbox{engine: engine, opts: o, uid: os.Getuid(), gid: os.Getgid()}
	if s.uid == 0 {
		s.uid, s.gid = cmp.Or(o.UID, DefaultUID), cmp.Or(o.GID, DefaultUID)
	}
	return s, nil
}

// About implements sandbox.Sandbox.
func (s *Sandbox) About() sandbox.About {
	return sandbox.About{Name: "docker", Reap: s.Reap}
}

// Check implements sandbox.Sandbox.
func (s *Sandbox) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	info, err := s.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return s.userError(err)
	}
	if info.Info.OSType != "linux" {
		return &run.UserError{
			Message: "the Docker engine runs " + info.Info.OSType + " containers", Hint: "switch it to Linux containers",
		}
	}
	for _, option := range info.Info.SecurityOptions {
		if option == "name=userns" || option == "name=rootless" {
			return &run.UserError{
				Message: "the Docker engine maps user ids (" + option +
					"), so that the owners of files differ inside and outside",
				Hint: "use an engine without user namespaces, or " + useLocal,
			}
		}
	}
	if err := checkShim(s.opts.Self); err != nil {
		return err
	}
	p, err := s.paths(ctx)
	if err != nil {
		return err
	}
	for _, path := range []string{s.opts.Self, s.opts.DataDir} {
		if path == "" {
			continue
		}
		if _, err := p.mountable(path); err != nil {
			return err
		}
	}
	if s.opts.Image != "" {
		if _, err := s.engine.ImageInspect(ctx, s.opts.Image); err != nil {
			if errdefs.IsNotFound(err) {
				return noImage(s.opts.Image, err)
			}
			return s.userError(err)
		}
	}
	return nil
}

// Version is the engine's.
func (s *Sandbox) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	version, err := s.engine.ServerVersion(ctx, client.ServerVersionOptions{})
	return version.Version, s.userError(err)
}

// useLocal names the way out for those who have flags and for those who have a
// configuration.
const useLocal = "use the local sandbox: --sandbox local, or `sandbox: {kind: local}` in a server's configuration"

// checkShim finds out what would otherwise be "no such file or directory" at
// the start of a container.
func checkShim(self string) error {
	program, err := elf.Open(self)
	if err != nil {
		return &run.UserError{
			Message: "containers need the bot's program for Linux, but " + self + " is not one",
			Hint:    "run the bot on Linux, or " + useLocal, Err: err,
		}
	}
	defer func() { _ = program.Close() }()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			return &run.UserError{
				Message: "containers need a static program, and " + self + " is linked dynamically",
				Hint:    "build it with CGO_ENABLED=0",
			}
		}
	}
	return nil
}

func noImage(image string, err error) error {
	return &run.UserError{
		Message: fmt.Sprintf("the Docker engine has no image %q", image),
		Hint:    "docker pull " + image + ", or name another image", Err: errors.Join(sandbox.ErrNoImage, err),
	}
}

// away says whether the error is that the engine does not answer.
func away(err error) bool {
	return client.IsErrConnectionFailed(err) || errors.Is(err, context.DeadlineExceeded)
}

// unavailable marks an engine that is away; other errors pass. It may only be
// restarting, so that this is nothing for a person yet.
func unavailable(err error) error {
	if away(err) {
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	return err
}

// userError explains an engine that is away at start-up; other errors pass.
func (s *Sandbox) userError(err error) error {
	if away(err) {
		return &run.UserError{
			Message: "no Docker engine answers at " + s.engine.DaemonHost(),
			Hint:    "start it, or " + useLocal, Err: err,
		}
	}
	return err
}

// Prepare implements sandbox.Sandbox: the tree becomes the command's user's.
func (s *Sandbox) Prepare(ctx context.Context, tree string) error {
	return rundir.Own(ctx, tree, s.uid, s.gid)
}

// explain says in an error what could not be done.
func explain(err *error, what, name string) {
	if *err != nil {
		*err = fmt.Errorf("%s %s: %w", what, name, unavailable(*err))
	}
}

// Start implements sandbox.Sandbox.
func (s *Sandbox) Start(ctx context.Context, name string, spec sandbox.Spec) (_ sandbox.Handle, err error) {
	defer explain(&err, "start", name)
	if err := spec.Validate(name); err != nil {
		return sandbox.Handle{}, err
	}
	if spec.Image == "" {
		return sandbox.Handle{}, errors.New("spec names no image")
	}
	d := rundir.Dir(spec.RunDir)
	noted, unlock, err := d.Enter(ctx, rundir.Start{Name: name, Grace: spec.Grace})
	if err != nil {
		return sandbox.Handle{}, err
	}
	defer unlock()

	h := sandbox.Handle{Name: name, RunDir: spec.RunDir}
	// A request of a dead process may still be under way in the engine: the
	// name is taken before there is a container to be seen.
	deadline := time.After(nameWait)
	tick := time.NewTicker(nameRetry)
	defer tick.Stop()
	for {
		if found, err := s.adopt(ctx, d, name, spec); err != nil || found {
			return h, err
		}
		hist, err := d.History()
		if err != nil {
			return sandbox.Handle{}, err
		}
		if !hist.ShimAt.IsZero() {
			return h, nil // it ran, and its container is gone
		}
		err = s.create(ctx, d, noted, spec)
		if !errdefs.IsConflict(err) {
			return h, err
		}
		select {
		case <-ctx.Done():
			return sandbox.Handle{}, context.Cause(ctx)
		case <-deadline:
			return sandbox.Handle{}, fmt.Errorf("%w: %w", sandbox.ErrNameTaken, err)
		case <-tick.C:
		}
	}
}

// find looks for the container of a name, nil where there is none, and says whether it was made for
// this start: a bot with a copy of the data directory may have made one of the same name.
func (s *Sandbox) find(ctx context.Context, name string, d rundir.Dir) (_ *container.InspectResponse, ours bool, err error) {
	found, err := s.engine.ContainerInspect(ctx, namePrefix+name, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	labels := found.Container.Config.Labels
	return &found.Container, labels[labelStart] == name && labels[labelRunDir] == string(d), nil
}

// adopt says whether there is a container that was made under the name, and starts
// it where its maker died before.
func (s *Sandbox) adopt(ctx context.Context, d rundir.Dir, name string, spec sandbox.Spec) (bool, error) {
	found, ours, err := s.find(ctx, name, d)
	if err != nil || found == nil {
		return false, err
	}
	switch {
	case !ours:
		return false, fmt.Errorf("%w: there is a container %s%s with other labels", sandbox.ErrNameTaken, namePrefix, name)
	case found.State.Status != container.StateCreated:
		return true, nil
	case spec.OnOwnerDeath == sandbox.KillWithOwner:
		// Its standard input may have been closed with its maker. Whether it
		// was about to run all the same, the record tells.
		return false, s.removeContainer(ctx, found.ID)
	default:
		// Starting what is being started is no error.
		_, err := s.engine.ContainerStart(ctx, found.ID, client.ContainerStartOptions{})
		return true, err
	}
}

// create makes a container and starts it.
func (s *Sandbox) create(ctx context.Context, d rundir.Dir, noted rundir.Start, spec sandbox.Spec) error {
	image, err := s.engine.ImageInspect(ctx, spec.Image)
	if errdefs.IsNotFound(err) {
		return noImage(spec.Image, err)
	}
	if err != nil {
		return err
	}
	var volumes map[string]struct{}
	if image.Config != nil {
		volumes = image.Config.Volumes
	}
	box, err := s.pack(ctx, d, noted, spec)
	if err != nil {
		return err
	}
	var created client.ContainerCreateResult
	host, err := s.hostConfig(ctx, box, spec, slices.Sorted(maps.Keys(volumes)))
	if err == nil {
		created, err = s.engine.ContainerCreate(ctx, client.ContainerCreateOptions{
			Name: namePrefix + noted.Name, Config: s.config(d, noted, spec), HostConfig: host,
		})
	}
	if err != nil {
		_ = fstree.RemoveAll(box) // nobody looks for it, and it is tried again
	}
	if errdefs.IsNotFound(err) {
		return noImage(spec.Image, err)
	}
	if err != nil {
		return err
	}
	if spec.OnOwnerDeath == sandbox.KillWithOwner {
		// The engine closes the container's standard input when the one who
		// is attached to it goes away.
		conn, err := s.engine.ContainerAttach(ctx, created.ID, client.ContainerAttachOptions{Stream: true, Stdin: true})
		if err != nil {
			return err
		}
		s.owned.Keep(d, conn.Conn)
	}
	if _, err := s.engine.ContainerStart(ctx, created.ID, client.ContainerStartOptions{}); err != nil {
		s.owned.Release(d)
		return err
	}
	return nil
}

// pack makes the directory that the shim is shown. After an error there is none.
func (s *Sandbox) pack(ctx context.Context, d rundir.Dir, noted rundir.Start, spec sandbox.Spec) (_ string, err error) {
	box, err := d.NewBox()
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = fstree.RemoveAll(box) // the agent's environment is in it
		}
	}()
	at := rundir.Places{Work: WorkDir, Box: boxDir}
	if spec.CacheDir != "" {
		at.Cache = cacheDir
	}
	if spec.GatewayDir != "" {
		at.Gateway = gatewayDir
		// Mounted read-only, and made for this run: only its owner gets in.
		if err := os.Lchown(spec.GatewayDir, s.uid, s.gid); err != nil {
			return "", err
		}
	}
	cfg := rundir.Config(noted, spec, at)
	cfg.Refuse = true
	if err := d.Fill(box, cfg, spec.Stdin); err != nil {
		return "", err
	}
	return box, rundir.Own(ctx, box, s.uid, s.gid)
}

// Inspect implements sandbox.Sandbox.
func (s *Sandbox) Inspect(ctx context.Context, h sandbox.Handle) (_ sandbox.Status, err error) {
	defer explain(&err, "inspect", h.Name)
	missing := sandbox.Status{State: sandbox.Missing}
	d, noted, err := rundir.Find(h)
	if err != nil || noted == nil {
		return missing, err
	}
	found, ours, err := s.find(ctx, h.Name, d)
	if err != nil {
		return missing, err
	}
	gone := !ours
	// After the engine was asked: what ended by then has been recorded.
	hist, err := d.History()
	if err != nil {
		return missing, err
	}
	st, err := d.Status(hist)
	switch {
	case err != nil:
		return missing, err
	case gone && st.State != sandbox.Exited:
		return missing, nil
	case gone:
		// Somebody removed the container; the record outlives it.
		return st, nil
	}

	state := found.State
	switch state.Status {
	case container.StateCreated:
		st.State = sandbox.Created
		return st, nil
	case container.StateExited, container.StateDead, container.StateRemoving:
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		if st.State == sandbox.Exited {
			// Recorded, and the container is about to end: wait for what the
			// engine says of it.
			st.Reason, st.ExitCode, st.Signal, st.Detail, st.FinishedAt = "", 0, "", "", time.Time{}
		}
		st.State = sandbox.Running
		return st, nil
	}
	st.OOMKilled = st.OOMKilled || state.OOMKilled
	if st.State == sandbox.Exited && state.ExitCode == hist.Exit.Status() {
		return st, nil
	}
	if st.FinishedAt.IsZero() {
		// An unreadable time stays zero.
		st.FinishedAt, _ = time.Parse(time.RFC3339Nano, state.FinishedAt)
	}
	st, err = d.Lost(st)
	if st.Detail == "" {
		st.Detail = fmt.Sprintf("the container ended with exit code %d and no word from the shim %s", state.ExitCode,
			state.Error)
	}
	return st, err
}

// Wait implements sandbox.Sandbox.
func (s *Sandbox) Wait(ctx context.Context, h sandbox.Handle) (_ sandbox.Status, err error) {
	defer explain(&err, "wait for", h.Name)
	for {
		if st, err := s.Inspect(ctx, h); err != nil || st.State != sandbox.Running {
			return st, err
		}
		if err := s.awaitContainer(ctx, namePrefix+h.Name); err != nil {
			return sandbox.Status{}, err
		}
	}
}

// awaitContainer returns when the container does not run (any more).
func (s *Sandbox) awaitContainer(ctx context.Context, id string) error {
	// The client's goroutine ends with this context.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait := s.engine.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-wait.Result:
		return nil
	case err := <-wait.Error:
		if errdefs.IsNotFound(err) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// Stop implements sandbox.Sandbox.
func (s *Sandbox) Stop(ctx context.Context, h sandbox.Handle, reason string) (err error) {
	defer explain(&err, "stop", h.Name)
	st, err := s.Inspect(ctx, h)
	if err != nil || st.State != sandbox.Running {
		return err
	}
	if err := rundir.Dir(h.RunDir).NoteStop(reason); err != nil {
		return err
	}
	// With the time-out of its configuration.
	_, err = s.engine.ContainerStop(ctx, namePrefix+h.Name, client.ContainerStopOptions{})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Remove implements sandbox.Sandbox.
func (s *Sandbox) Remove(ctx context.Context, h sandbox.Handle) (err error) {
	defer explain(&err, "remove", h.Name)
	d, noted, err := rundir.Find(h)
	if err != nil || noted == nil {
		return err
	}
	unlock, err := d.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if found, ours, err := s.find(ctx, h.Name, d); err != nil {
		return err
	} else if ours {
		if err := s.removeContainer(ctx, found.ID); err != nil {
			return err
		}
	}
	s.owned.Release(d)
	return d.Forget()
}

// removeContainer kills it if it runs.
func (s *Sandbox) removeContainer(ctx context.Context, id string) error {
	_, err := s.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}
