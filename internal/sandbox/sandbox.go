package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Sandbox runs commands on work trees, apart from the process that asks.
//
// # Order
//
// Check once at start-up; then, per work tree, Prepare; per command Start, any
// number of Inspect, Wait and Stop, then Remove. When every start on the tree
// has been seen [Exited] (or Missing), the host may read it, once fstree.OpenUp has made that
// possible, and must still distrust all of it. Prepare may be called again.
//
// # Concurrency and processes
//
// All methods are safe for concurrent use, and by several processes at once:
// nothing that matters is held in memory. A Handle made by one process works in
// another one, and after a restart. The one thing tied to a process is
// [KillWithOwner]: the owner is the process whose Start really started the
// command, and it must keep its Sandbox value until the command has ended.
//
// # Idempotency
//
// Start is idempotent by name until Remove: whoever calls it again, at the same
// time or later, also when the command has ended, gets the handle of the one
// start, and the spec of the later call is not looked at beyond its RunDir.
// A process killed in the middle of Start leaves either nothing, or something
// that the next Start of that name completes; the command never runs twice and
// never with half a prompt. Stop and Remove may be repeated and may come in any
// order; on something that is gone they do nothing.
//
// # Failure
//
// Errors are of the sandbox (engine away, disk full), never of the
// command: a command that cannot be executed, crashes or is killed is a Status.
// After an error every method may simply be called again. An engine that is
// away is an error, not [Missing]: Missing means that the sandbox can tell that
// there is no such start (any more), so that the caller may start anew under
// another name.
//
// sandboxtest holds what of this can be seen without knowing the engine; what
// confinement means is tested beside each implementation.
type Sandbox interface {
	// About says what the sandbox is called and can do. It is always the same.
	About() About

	// Check says whether commands can be run now: the engine answers, the
	// shim can be run in it. What a person has to fix is a *run.UserError.
	Check(ctx context.Context) error

	// Prepare makes the host directory tree (absolute, already filled) usable
	// by the user the command runs as. It is fast when nothing is to change.
	Prepare(ctx context.Context, tree string) error

	// Start starts spec under name, or finds what was started under it. It
	// returns when the command is on its way; it does not wait for output.
	// The same name must always come with the same spec.RunDir.
	Start(ctx context.Context, name string, spec Spec) (Handle, error)

	// Inspect tells how the command stands, now.
	Inspect(ctx context.Context, h Handle) (Status, error)

	// Wait blocks while the start is Running and tells how it ended (or that
	// it is Missing, or Created because a process died in its Start).
	// Cancelling ctx ends the waiting, not the command.
	Wait(ctx context.Context, h Handle) (Status, error)

	// Stop asks the command to end (SIGTERM to its group), ends it and all it
	// started when it does not within the spec's grace (SIGKILL), and returns
	// when it has ended. reason is kept in Status.Detail. A command that has
	// ended before keeps the status it ended with.
	Stop(ctx context.Context, h Handle, reason string) error

	// Remove frees what the start holds in the engine and on disk (container,
	// home, exit record), ending it first if need be. The transcript (files
	// stdout and stderr in RunDir) stays until the caller deletes RunDir.
	// After Remove the name is free.
	Remove(ctx context.Context, h Handle) error
}

// About is what a sandbox is called, and what it can do beyond running commands. What is
// nil it cannot do, or has no need of.
type About struct {
	// Name is the name in configuration: "local", "docker".
	Name string

	// Reap ends and removes the starts that nobody remembers, and says how many there
	// were: their run directory was deleted by hand, or while the engine was away. It
	// leaves alone what another installation started.
	Reap func(ctx context.Context) (int, error)

	// Confinement tells how much is kept apart, where the machine decides that. Where it
	// is nil, commands always are. The first call may take as long as a command.
	Confinement func() Confinement
}

// Confinement is how much a sandbox keeps apart on this machine.
type Confinement struct {
	// By names what is in force: "bubblewrap", "no isolation".
	By string
	// Isolated says whether commands are kept apart from this machine.
	Isolated bool
	// Why says why they are not where that was wanted.
	Why error
}

// Describe names the sandbox and what it keeps apart, for people.
func Describe(s Sandbox) string {
	about := s.About()
	if about.Confinement == nil {
		return about.Name
	}
	return fmt.Sprintf("%s (%s)", about.Name, about.Confinement().By)
}

// Isolated says whether commands are kept apart from this machine.
func Isolated(s Sandbox) bool {
	about := s.About()
	return about.Confinement == nil || about.Confinement().Isolated
}

// Errors a caller decides on.
var (
	// ErrNameTaken: the name is in use by something that is not this start
	// (a foreign container, or the same name with another RunDir).
	ErrNameTaken = errors.New("sandbox: name is taken")
	// ErrUnavailable: what runs the commands does not answer. It may be back in
	// a moment: nothing is known of the command, and the call may be repeated.
	ErrUnavailable = errors.New("sandbox: the engine does not answer")
	// ErrNoImage: the engine does not have the image.
	ErrNoImage = errors.New("sandbox: no such image")
)

// Handle finds a start again, from any process, after any restart. It is plain
// data; its JSON form is kept by callers, so fields are only ever added.
type Handle struct {
	// Name is the name given to Start.
	Name string `json:"name"`
	// RunDir is the host directory of this start.
	RunDir string `json:"run_dir"`
}

// Stdout gives what the command wrote up to now, from byte offset on; past the end that is
// nothing. It does not follow: ask again with offset plus what was read. The bytes are the
// command's own, as hostile as it is. They are there until RunDir is deleted.
func (h Handle) Stdout(offset int64) (io.ReadCloser, error) { return h.open("stdout", offset) }

// Stderr gives the last of what it wrote there, 64 KiB at least.
func (h Handle) Stderr() (io.ReadCloser, error) { return h.open("stderr", 0) }

func (h Handle) open(name string, offset int64) (io.ReadCloser, error) {
	f, err := os.Open(filepath.Join(h.RunDir, name)) // #nosec G304 -- a directory of ours
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err == nil {
		if _, err = f.Seek(offset, io.SeekStart); err == nil {
			return f, nil
		}
		_ = f.Close()
	}
	return nil, fmt.Errorf("read the output of %s: %w", h.Name, err)
}

// OutputLimit is how many bytes of stdout are kept; the rest is read, counted and dropped.
const OutputLimit = 64 << 20

// GatewayPort is where a command finds the gateway. It is not one that what is worked on likes
// to listen on.
const GatewayPort = 17645

// DefaultGrace is the time between SIGTERM and SIGKILL.
const DefaultGrace = 5 * time.Second

// CacheVar names the variable that tells a command where its cache is.
const CacheVar = "RALPH_CACHE"

// CacheEnv are the variables by which tools keep what they may use again below
// dir, the cache as the command sees it.
func CacheEnv(dir string) map[string]string {
	if dir == "" {
		return nil
	}
	// Not XDG_CACHE_HOME: agents keep programs of their own there.
	env := map[string]string{CacheVar: dir, "MAVEN_ARGS": "-Dmaven.repo.local=" + path.Join(dir, "maven")}
	for name, sub := range map[string]string{
		"GOCACHE": "go-build", "GOMODCACHE": "go-mod", "npm_config_cache": "npm", "npm_config_store_dir": "pnpm",
		"YARN_CACHE_FOLDER": "yarn", "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv", "POETRY_CACHE_DIR": "poetry",
		"CARGO_HOME": "cargo", "GRADLE_USER_HOME": "gradle", "NUGET_PACKAGES": "nuget",
		"BUNDLE_USER_CACHE": "bundle", "COMPOSER_CACHE_DIR": "composer",
	} {
		env[name] = path.Join(dir, sub)
	}
	return env
}

// GatewaySocket is the name of the gateway's unix socket in Spec.GatewayDir.
// It must be connectable by the command's user (mode 0666; the directories
// above GatewayDir keep others out).
const GatewaySocket = "gw.sock"

// Spec says what to run and within which bounds.
type Spec struct {
	// Argv is the command; Argv[0] is looked up in the command's own PATH.
	Argv []string
	// Programs are others that the command starts, which a sandbox that hides what this
	// machine has shows like the command's own.
	Programs []string
	// Env is added to what the sandbox itself sets (PATH, HOME, LANG, TMPDIR,
	// TERM; docker: also what the image sets) and wins over it. Nothing else
	// of the host's environment is visible to the command.
	Env map[string]string
	// PassEnv names variables of the host to hand on where they exist. Only
	// local does; the other sandboxes never let a host variable in.
	PassEnv []string

	// HomeFiles are laid out in the command's fresh home before it starts, by
	// their paths there.
	HomeFiles map[string]string

	// Stdin is the host path of the file the command reads as its standard
	// input, whole, at its own pace; "" means /dev/null. It must be a regular
	// file, and is not needed any more when Start has returned.
	Stdin string

	// Workspace is the tree that was handed to Prepare; Dir the working directory inside
	// it, relative, default its root.
	Workspace string
	Dir       string

	// RunDir is the absolute host directory of this start alone: transcript,
	// exit record, engine data. Start makes it (mode 0700) if it is missing.
	RunDir string

	// CacheDir is the host directory of build caches that outlive the start, ""
	// for none. It was handed to Prepare, and must be writable by nobody whom
	// this command may not trust: what is in it is executed. Where the command
	// sees it is in its RALPH_CACHE; the variables of [CacheEnv] lead the tools
	// there, unless the image or Env say otherwise.
	CacheDir string

	// Image is the container image; local ignores it.
	Image string
	// Mounts are read-only binds. local has no mounts: it accepts one only
	// where Host and Target are the same path.
	Mounts []Mount

	// GatewayDir is the host directory of the gateway's socket, "" for none.
	// The shim relays 127.0.0.1:[GatewayPort] to it, one dial per connection, and
	// waits while the socket is away.
	GatewayDir string

	// WallTimeout ends the command after that time, IdleTimeout after that
	// time without a byte on stdout or stderr; 0 means no limit. The shim
	// keeps them, so that they hold while the bot is dead.
	WallTimeout time.Duration
	IdleTimeout time.Duration
	// Grace is the time between SIGTERM and SIGKILL, 0 means 5 s.
	Grace time.Duration

	Resources

	OnOwnerDeath OwnerDeath
}

// Resources bound a start.
type Resources struct {
	// MemoryBytes, CPUs and PIDs bound the whole start; 0 means the sandbox's
	// default. local cannot bound memory and CPUs and ignores them; processes it
	// bounds where it keeps commands apart.
	MemoryBytes int64
	CPUs        float64
	PIDs        int64
	// DiskBytes and DiskFiles bound what the work tree and the cache hold
	// together on disk, with what was in them before; 0 means no limit. The
	// shim counts, so that more is written for a moment, and it holds while the
	// bot is dead. Whatever the limit, the command ends before it has filled the
	// file system. (Home and temporary directory are memory in docker.)
	DiskBytes int64
	DiskFiles int64
}

// Mount shows the host file or directory Host at Target, read-only.
type Mount struct {
	Host, Target string
}

// OwnerDeath says what becomes of a command when the process that started it
// dies.
type OwnerDeath string

const (
	// KeepWithoutOwner (the default): it runs on, to be adopted.
	KeepWithoutOwner OwnerDeath = "keep"
	// KillWithOwner: it is ended; a closed terminal must stop spending.
	KillWithOwner OwnerDeath = "kill"
)

// State is where a start stands.
type State string

// The states. Only Exited and Missing are final.
const (
	// Missing: there is no such start, or no longer.
	Missing State = "missing"
	// Created: it is known, and the command does not run yet. When the
	// starting process is dead it stays so until Start is called again.
	Created State = "created"
	// Running: the command, or something it started, runs.
	Running State = "running"
	// Exited: it has ended and nothing of it is left running.
	Exited State = "exited"
)

// Reason says why a command ended.
type Reason string

// The reasons.
const (
	// ReasonExited: by itself (exit code) or by a signal that was not ours.
	ReasonExited Reason = "exited"
	// ReasonWallTimeout and ReasonIdleTimeout: the spec's limits.
	ReasonWallTimeout Reason = "wall_timeout"
	ReasonIdleTimeout Reason = "idle_timeout"
	// ReasonStopped: Stop was called; Detail holds its reason.
	ReasonStopped Reason = "stopped"
	// ReasonOwnerDied: KillWithOwner, and the owner died.
	ReasonOwnerDied Reason = "owner_died"
	// ReasonStartFailed: it could not be executed at all; Detail says why.
	ReasonStartFailed Reason = "start_failed"
	// ReasonDiskLimit: it wrote more than the spec allows, or filled the file
	// system; Detail says which.
	ReasonDiskLimit Reason = "disk_limit"
	// ReasonLost: the shim itself was killed (machine or engine restarted,
	// out of memory), so that nobody saw the command end.
	ReasonLost Reason = "lost"
)

// Status is what is known about a start.
type Status struct {
	State State
	// ExitCode is the command's exit code; 128 + n where signal n ended it,
	// and -1 where it is not known (ReasonLost, ReasonStartFailed).
	ExitCode int
	// Signal is the name of the signal that ended it ("SIGKILL"), or "".
	Signal string
	Reason Reason
	// Detail is a sentence for people: the words given to Stop, the error of
	// a failed start.
	Detail string
	// OOMKilled: something in it ran into the memory limit and was killed. It
	// can be true with exit code 0, when only a child was hit.
	OOMKilled bool
	// Truncated: more than OutputLimit was written to stdout.
	Truncated bool
	// StartedAt and FinishedAt are zero while they have not happened.
	StartedAt  time.Time
	FinishedAt time.Time
	// Stderr is the last 4 KiB of stderr.
	Stderr string
}

// Ended says whether the status can still change.
func (s Status) Ended() bool { return s.State == Exited || s.State == Missing }

// NearlyFull begins the Detail of a start that was ended for what the whole file system
// lacks, and not for what it wrote itself.
const NearlyFull = "the file system of the work tree is nearly full"

// Crowded says whether it was ended because the machine's disk is nearly full.
func (s Status) Crowded() bool {
	return s.Reason == ReasonDiskLimit && strings.HasPrefix(s.Detail, NearlyFull)
}

// maxName keeps names usable as container names with a prefix.
const maxName = 100

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// Validate reports the first thing in name and s that no sandbox can work with.
func (s Spec) Validate(name string) error {
	switch {
	case len(name) > maxName || !nameRE.MatchString(name):
		return fmt.Errorf("sandbox: name %q is not 1 to %d of a-z, 0-9, '.' and '-'", name, maxName)
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return errors.New("sandbox: spec has no command")
	case !filepath.IsAbs(s.RunDir):
		return fmt.Errorf("sandbox: run directory %q is not absolute", s.RunDir)
	case !filepath.IsAbs(s.Workspace):
		return fmt.Errorf("sandbox: workspace %q is not absolute", s.Workspace)
	case s.Dir != "" && !filepath.IsLocal(s.Dir):
		return fmt.Errorf("sandbox: working directory %q leaves the workspace", s.Dir)
	case s.GatewayDir != "" && !filepath.IsAbs(s.GatewayDir):
		return fmt.Errorf("sandbox: gateway directory %q is not absolute", s.GatewayDir)
	case s.OnOwnerDeath != "" && s.OnOwnerDeath != KeepWithoutOwner && s.OnOwnerDeath != KillWithOwner:
		return fmt.Errorf("sandbox: unknown owner-death policy %q", s.OnOwnerDeath)
	}
	if s.CacheDir != "" && !filepath.IsAbs(s.CacheDir) {
		return fmt.Errorf("sandbox: cache directory %q is not absolute", s.CacheDir)
	}
	for _, m := range s.Mounts {
		if !filepath.IsAbs(m.Host) || !filepath.IsAbs(m.Target) {
			return fmt.Errorf("sandbox: mount %q at %q: both must be absolute", m.Host, m.Target)
		}
	}
	for name := range s.HomeFiles {
		if !filepath.IsLocal(name) || name == "." {
			return fmt.Errorf("sandbox: file %q does not lie in the home", name)
		}
	}
	for _, a := range s.Argv {
		if strings.ContainsRune(a, 0) {
			return errors.New("sandbox: argument contains a NUL byte")
		}
	}
	for k, v := range s.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return fmt.Errorf("sandbox: environment variable %q cannot be passed", k)
		}
	}
	return nil
}
