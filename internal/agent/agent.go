package agent

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// The kinds of sandbox as far as a back end has to know.
const (
	SandboxLocal  = "local"
	SandboxDocker = "docker"
)

// Invocation is what one start of an agent is for.
type Invocation struct {
	// Model is passed on as the person wrote it; "" leaves the CLI's default.
	Model string
	Mode  run.Mode
	// Sandbox is SandboxLocal or SandboxDocker.
	Sandbox string
	// BaseURL is where the agent finds the model proxy, "" for the CLI's own
	// default, which only works in the local sandbox.
	BaseURL string
	// Token is the run's token for the proxy; the real key stays outside.
	Token string
	// MaxTurns limits the model's turns in this start; 0 means no limit.
	MaxTurns int
	// DenyTools are tools of the CLI's own that the agent must do without, in
	// the CLI's spelling. A back end that cannot be told passes over them.
	DenyTools []string
}

// Command is what a sandbox has to run and to provide.
type Command struct {
	Argv []string
	// Version is the command line, in the sandbox, that asks the agent for its version, which
	// ReadVersion reads; nil for what has none.
	Version []string
	// Programs are those that the command starts, which a local sandbox has to show.
	Programs []string
	// Env is added to the sandbox's own clean environment. HOME is not in it:
	// the sandbox gives each start a fresh one, and with it a fresh
	// configuration of the CLI.
	Env map[string]string
	// PassEnv names variables of the host that carry the agent's credentials.
	// Only the local sandbox may pass them on.
	PassEnv []string
	// Mounts are host files the agent needs inside a container, read-only.
	Mounts []Mount
	// HomeFiles are files that the CLI finds in its home, by their paths there.
	HomeFiles map[string]string
	// Writable are directories besides the work tree, the home and the
	// temporary directory that the agent has to write to.
	Writable []string
}

// Mount is one host file made visible read-only inside a container.
type Mount struct {
	Host   string
	Target string
}

// About is what is known of an agent before it is started.
type About struct {
	// Name is the name a person configures.
	Name string
	// Binary is the program the agent runs as, for look-up and messages.
	Binary string
	// Tried is the version it was tried with, "" for none.
	Tried string
	// Providers are the model APIs the agent speaks, the usual one first; none
	// for an agent that needs no model, or only one of its own.
	Providers []run.Provider
	// Keys are the variables that hold its key for the model, any of which will do, the
	// usual one first; none for an agent that needs none, or finds one by itself.
	Keys []string
	// HoldsCredential says that the agent must have its credential itself: it
	// works in the local sandbox only, where nothing but time and iterations
	// limit what it costs.
	HoldsCredential bool
	// Hides are files and directories of the work tree that the agent
	// must not find: it would run what they name, and cannot be told not to.
	Hides []string
}

// Backend is one agent command line. Its methods are safe for concurrent use.
type Backend interface {
	// About is always the same.
	About() About
	// Command says how to start the agent. Its errors are *run.UserError where
	// a person has to change something.
	Command(Invocation) (Command, error)
	// Check says whether the agent can be started on this host; look is
	// exec.LookPath or the like. What is missing comes as *run.UserError.
	Check(look func(file string) (string, error)) error
	// NewParser makes a parser of one start's standard output. emit may be nil
	// and is called from within Write and Close.
	NewParser(emit func(Activity)) Parser
}

// Parser reads the output of one agent process. Write never fails and accepts
// chunks cut anywhere. A Parser serves one goroutine at a time.
type Parser interface {
	io.Writer
	// Final says whether the agent's last message was seen: what its process still does is
	// no part of the work.
	Final() bool
	// Close takes what is left as the last line and gives the outcome. The
	// exit of the process is not part of it yet: see Result.WithExit.
	Close() Result
}

// ActivityKind says what an agent does at the moment.
type ActivityKind string

// The kinds of activity.
const (
	// ActivityInit: the agent is up; Text is its version and model.
	ActivityInit ActivityKind = "init"
	// ActivityText: the agent says something.
	ActivityText ActivityKind = "text"
	// ActivityTool: the agent calls a tool.
	ActivityTool ActivityKind = "tool"
	// ActivityError: the model endpoint or the agent reports an error.
	ActivityError ActivityKind = "error"
	// ActivityRetry: a request is repeated after a pause.
	ActivityRetry ActivityKind = "retry"
	// ActivityOther: a sign of life without content; Text is the event's type.
	ActivityOther ActivityKind = "other"
)

// Activity is one thing seen in the stream, for whoever watches.
type Activity struct {
	Kind ActivityKind
	// Text is one line without control characters, at most 400 characters.
	Text string
	// Tool and Path are set on ActivityTool; Path is relative to the work tree
	// where it lies in it.
	Tool, Path string
	// Usage is what this start has used so far, where the CLI tells before its end.
	Usage run.Usage `json:",omitzero"`
}

// String is the activity in a few words, as people know it from the agents' own
// screens: Bash(go test ./...), Edit slug.go.
func (a Activity) String() string {
	switch {
	case a.Kind != ActivityTool, a.Tool == "":
		return a.Text
	case a.Path == "" && a.Text == "":
		return a.Tool
	case a.Path == "":
		return a.Tool + "(" + a.Text + ")"
	case a.Text == "" || a.Text == a.Path:
		return a.Tool + " " + a.Path
	}
	return a.Tool + "(" + a.Text + ") " + a.Path
}

// Outcome is how one start of an agent ended.
type Outcome string

// The outcomes. Only OutcomeCompleted, OutcomeErrored and OutcomeEmpty say
// anything about the task; the others are about the agent's surroundings. For
// what a person can do about those see DoFirst.
const (
	// OutcomeCompleted: the last result reports success. Whether anything was
	// achieved is for the host to verify.
	OutcomeCompleted Outcome = "completed"
	// OutcomeErrored: the last result reports an error of no other class.
	OutcomeErrored Outcome = "errored"
	// OutcomeRateLimited: rate limit, usage limit or overload; wait and repeat.
	OutcomeRateLimited Outcome = "rate_limited"
	// OutcomeAuth: the credentials are missing or refused.
	OutcomeAuth Outcome = "auth"
	// OutcomeCredit: the account is out of credit.
	OutcomeCredit Outcome = "credit"
	// OutcomeRefused: the agent reports an error, in words that nobody here knows, before
	// the model has worked; wait and repeat.
	OutcomeRefused Outcome = "refused"
	// OutcomeModel: the provider does not know the model, or not for this account.
	OutcomeModel Outcome = "model"
	// OutcomeContext: the request is too long for the model before any work was
	// done. After work it is OutcomeErrored: the task was too much for one call.
	OutcomeContext Outcome = "context"
	// OutcomeUnavailable: the provider fails, or cannot be reached.
	OutcomeUnavailable Outcome = "unavailable"
	// OutcomeMissing: the agent's program cannot be run in the sandbox.
	OutcomeMissing Outcome = "missing"
	// OutcomeEmpty: the stream ended without a result, though the exit is 0.
	OutcomeEmpty Outcome = "empty"
	// OutcomeByExit: the agent has no way to tell; its exit code decides. WithExit
	// never leaves it.
	OutcomeByExit Outcome = "by_exit"
	// OutcomeCrashed: the process failed or was killed without saying why.
	OutcomeCrashed Outcome = "crashed"
)

// Result is what one start of an agent came to.
type Result struct {
	Outcome Outcome
	// FinalText is the agent's last message: of the last result, or where that
	// has none, the last text of the main conversation. Control characters
	// except newline and tab are gone; of more than 64 KiB the end is kept.
	FinalText string
	// Usage is zero when no result came: the counts in between are
	// placeholders.
	Usage run.Usage
	// Model and Version are what the CLI says of itself.
	Model, Version string
	// Error is one line for a person, set unless the outcome is completed.
	Error string
	// RetryAt is when a rate limit ends, where the CLI or its words told; otherwise zero.
	// It comes from the agent's side: bound it before waiting for it.
	RetryAt time.Time
	// Lines counts the lines that were not blank, BadLines those of them that
	// could not be read as an event.
	Lines, BadLines int
	// Answered: the model has said something.
	Answered          bool
	ToolCalls         int
	PermissionDenials int
	// Truncated: a line was too long to be read, and was dropped.
	Truncated bool
}

// WithExit combines what the stream said with how the process ended: its exit
// code, the signal that killed it ("" if none), why the host stopped it ("" if it
// did not), the end of its standard error, without secrets, and when that was, on
// the clock of the place where it ran. A result that the stream reports stands, however
// the process came to its end after it. Without one, success takes a good exit.
func (r Result) WithExit(code int, signal, reason, stderr string, at time.Time) Result {
	byExit := r.Outcome == OutcomeByExit
	stopped := signal != "" || reason != ""
	switch {
	case byExit && code == 0 && !stopped:
		r.Outcome = OutcomeCompleted
	case byExit && !stopped:
		r.Outcome, r.Error = OutcomeErrored, fmt.Sprintf("the agent exited with code %d", code)
	case code == 0 && !stopped, r.Outcome != OutcomeEmpty && !byExit:
	case reason != "":
		r.Outcome, r.Error = OutcomeCrashed, "the agent was stopped without a result: "+oneLine(reason)
	case signal != "":
		r.Outcome, r.Error = OutcomeCrashed, fmt.Sprintf("the agent was killed by signal %s without a result", oneLine(signal))
	case r.Lines == 0 && (code == 126 || code == 127): // what a shell exits with
		byExit, r.Outcome = true, OutcomeErrored
	default:
		r.Outcome, r.Error = OutcomeCrashed, fmt.Sprintf("the agent exited with code %d without a result", code)
	}
	if r = r.explain(byExit, reason != "", code, stderr, at); r.Outcome == OutcomeCrashed || byExit && r.Outcome == OutcomeErrored {
		if said := lastWords(stderr); said != "" {
			r.Error += "; it said: " + said
		}
	}
	return r
}

// Options are what the back ends need to know of this installation.
type Options struct {
	// ScriptFile is the script of the script back end.
	ScriptFile string
	// Self is the path of our own binary, which is the scripted agent.
	Self string
	// Path is the agent's program; "" means that it is in the PATH.
	Path string
	// Command is the command line of the back ends command and acp.
	Command string
	// Env reads the environment; nil means os.Getenv.
	Env func(name string) string
}

// Names lists the back ends Lookup knows.
func Names() []string {
	names := []string{"claude", "codex"}
	for _, p := range presets {
		names = append(names, p.name)
	}
	return append(names, "amp", "acp", "command", "script")
}

// Lookup gives the back end of that name. An unknown name, or options that lack
// what the back end needs, is a *run.UserError.
func Lookup(name string, opts Options) (Backend, error) {
	c := cli{name: name, path: opts.Path, env: opts.Env}
	if c.env == nil {
		c.env = os.Getenv
	}
	for _, p := range presets {
		if p.name == name {
			return p.backend(c, opts.Self), nil
		}
	}
	switch name {
	case "claude":
		c.pkg, c.tried, c.apis = "@anthropic-ai/claude-code", "2.1.197", []run.Provider{run.ProviderAnthropic}
		c.keys = []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"}
		return claude{c}, nil
	case "codex":
		c.pkg, c.tried, c.apis = "@openai/codex", "0.169.0", []run.Provider{run.ProviderOpenAI}
		c.keys = []string{"OPENAI_API_KEY"}
		return codex{c}, nil
	case "amp":
		c.pkg = "@sourcegraph/amp" // not tried: it works with its own server only
		return amp{c}, nil
	case "acp", "command":
		if opts.Command == "" {
			return nil, &run.UserError{
				Message: fmt.Sprintf("the agent %s has no command", name),
				Hint:    "set one with --agent-command, or agent.command in the server's configuration",
			}
		}
		if name == "acp" {
			return acp{command: command{line: opts.Command}, self: opts.Self}, nil
		}
		return command{line: opts.Command}, nil
	case "script":
		if opts.ScriptFile == "" {
			return nil, &run.UserError{
				Message: "the scripted agent has no script",
				Hint:    "name a YAML file with its steps",
			}
		}
		if opts.Self == "" {
			return nil, fmt.Errorf("look up agent script: path of own binary not given")
		}
		return scripted{file: opts.ScriptFile, self: opts.Self}, nil
	default:
		known := Names()
		slices.Sort(known)
		return nil, &run.UserError{
			Message: fmt.Sprintf("there is no agent %q", name),
			Hint:    "use one of " + strings.Join(known, ", "),
		}
	}
}
