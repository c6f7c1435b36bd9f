package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
)

// Isolation says whether commands are kept apart by bubblewrap.
type Isolation string

// The values of Isolation.
const (
	// IsolationAuto uses bubblewrap where it works.
	IsolationAuto Isolation = "auto"
	// IsolationBubblewrap refuses to do without, and leaves commands no network but
	// the gateway.
	IsolationBubblewrap Isolation = "bwrap"
	// IsolationNone does not use it.
	IsolationNone Isolation = "none"
)

// probePatience bounds the one try of bubblewrap.
const probePatience = 20 * time.Second

// wrapper is bubblewrap as it works on this machine; path is "" where it is not
// used, and why says why not.
type wrapper struct {
	path string
	why  error
	// user is what commands run as where the bot is root, otherwise 0: nobody's
	// number, and a group of the same.
	user int
}

// Numbers that no system gives to users of its own, of which freeUser takes one.
const (
	firstFreeUser = 60706
	lastFreeUser  = 61183
)

// freeUser is the first number that is nobody's. What it may write is what it is
// given: all the rest of the machine is somebody else's.
func freeUser() (int, error) {
	for id := firstFreeUser; id <= lastFreeUser; id++ {
		_, err := user.LookupId(strconv.Itoa(id))
		if _, free := errors.AsType[user.UnknownUserIdError](err); !free {
			continue
		}
		if !mapped("/proc/self/uid_map", id) || !mapped("/proc/self/gid_map", id) {
			break
		}
		return id, nil
	}
	return 0, fmt.Errorf("the bot is root, and here is no other user that commands could run as (%d is not "+
		"mapped, or taken)", firstFreeUser)
}

// mapped says whether a number is one of those that a map of this user namespace
// has.
func mapped(file string, id int) bool {
	content, err := os.ReadFile(file) // #nosec G304 -- a constant
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		var from, to, count int64
		if n, err := fmt.Sscan(line, &from, &to, &count); n == 3 && err == nil && from <= int64(id) && int64(id) < from+count {
			return true
		}
	}
	return false
}

// probe tries bubblewrap with all that a start asks of it. It may be installed
// and still be refused: by a kernel without user namespaces, a distribution that
// restricts them, or a container around us.
func probe(want Isolation) wrapper {
	if want == IsolationNone {
		return wrapper{}
	}
	path, err := proc.Look("bwrap")
	if err != nil {
		return wrapper{why: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), probePatience)
	defer cancel()
	w := wrapper{path: path}
	if os.Getuid() == 0 {
		if w.user, err = freeUser(); err != nil {
			return wrapper{why: err}
		}
	}
	cmd := w.command(true)
	cmd.Env = proc.ScrubbedEnv()
	cmd.Args = append(cmd.Args, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
		"--tmpfs", "/tmp", "--remount-ro", "/tmp", "--", "/bin/true")
	if _, err := proc.Run(ctx, cmd); err != nil {
		return wrapper{why: err}
	}
	return w
}

// Confinement tells what keeps commands apart on this machine.
func (s *Sandbox) Confinement() sandbox.Confinement {
	w := s.wrapper()
	if w.path == "" {
		return sandbox.Confinement{By: "no isolation", Why: w.why}
	}
	return sandbox.Confinement{By: "bubblewrap", Isolated: true}
}

// checkIsolation refuses to do without what was asked for.
func (s *Sandbox) checkIsolation() error {
	w := s.wrapper()
	if s.isolation != IsolationBubblewrap || w.path != "" {
		return nil
	}
	message := "bubblewrap cannot isolate commands on this machine: " + w.why.Error()
	hint := "allow unprivileged user namespaces, or use --local-isolation none if you need no isolation"
	if os.Getuid() == 0 {
		hint = "start the bot as a user other than root, or " + hint
	}
	if errors.Is(w.why, fs.ErrNotExist) || strings.Contains(w.why.Error(), "not found") {
		hint = "install bubblewrap (on Debian: apt-get install bubblewrap), or use --local-isolation none"
	}
	return &run.UserError{Message: message, Hint: hint, Err: w.why}
}

// command begins the command line of bubblewrap: with the namespaces that a command gets of
// its own. No process of bubblewrap's own is left beside the shim, the first one inside.
func (w wrapper) command(noNetwork bool) proc.Cmd {
	cmd := proc.Cmd{Path: w.path, Args: []string{
		"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session", "--as-pid-1",
		"--cap-drop", "ALL",
	}}
	if noNetwork {
		cmd.Args = append(cmd.Args, "--unshare-net")
	}
	if w.user == 0 {
		cmd.Args = append(cmd.Args, "--unshare-user")
		return cmd
	}
	// bubblewrap is root in a user namespace in which there is nobody else but the user; the
	// shim changes users, and gives these up.
	cmd.Sys = withUser(w.user)
	cmd.Args = append(cmd.Args, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
	return cmd
}

// Where the shim finds itself and its box: places that whoever it is may reach.
const (
	shimPath = "/run/ralph/bot"
	boxPath  = "/run/ralph/box"
)

// wrap is the command line by which a start's shim is run inside of bubblewrap.
func (s *Sandbox) wrap(d rundir.Dir, box string, spec sandbox.Spec) (proc.Cmd, error) {
	w := s.wrapper()
	cmd := w.command(spec.GatewayDir != "" || s.isolation == IsolationBubblewrap)
	inside := []string{"--", shimPath, "shim", filepath.Join(boxPath, rundir.ConfigName)}
	if w.user != 0 {
		inside = append(inside, strconv.Itoa(w.user))
	}
	l, err := s.layout(d, spec)
	if err != nil {
		return proc.Cmd{}, err
	}
	cmd.Args = append(append(cmd.Args, l.args()...), "--dir", filepath.Dir(shimPath), readOnly, s.self, shimPath,
		"--bind", box, boxPath, "--remount-ro", "/")
	cmd.Args = append(cmd.Args, inside...)
	return cmd, nil
}
