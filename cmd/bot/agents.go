package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/local"
	"github.com/org/ralph-action/internal/strs"
)

// agentFlags say which agent works.
type agentFlags struct {
	Agent        string `default:"claude" help:"The agent: claude, codex, gemini, opencode, copilot, amp, acp (any program that speaks the Agent Client Protocol), command (any program) or script (default: ${default})." placeholder:"AGENT"`
	Model        string `help:"The model, named as the agent names it." placeholder:"MODEL"`
	AgentPath    string `name:"agent-path" aliases:"claude-path" help:"The agent's program (default: from PATH)." placeholder:"FILE" type:"path"`
	AgentCommand string `name:"agent-command" help:"The command line for --agent acp or command. With command it reads the prompt from stdin and edits files in its working directory." placeholder:"COMMAND"`
	Script       string `help:"The script for --agent script." placeholder:"FILE" type:"path"`
}

// lookup finds the agent and checks that it can work here.
func (f agentFlags) lookup(self, sandbox string) (agent.Backend, error) {
	return lookupAgent(f.Agent, sandbox, agent.Options{
		ScriptFile: f.Script, Self: self, Path: f.AgentPath, Command: f.AgentCommand,
	})
}

// lookupAgent finds an agent and checks that it can work in that sandbox.
func lookupAgent(name, sandbox string, opts agent.Options) (agent.Backend, error) {
	backend, err := agent.Lookup(name, opts)
	if err != nil {
		return nil, err
	}
	path, err := proc.Look(backend.About().Binary)
	if manager := shimOf(path); err == nil && manager != "" && (sandbox == agent.SandboxLocal || opts.Path != "") {
		return nil, &run.UserError{
			Message: fmt.Sprintf("%s is a shim of %s, which cannot work in a sandbox: it needs your home", path, manager),
			Hint:    fmt.Sprintf("name the program itself: --agent-path \"$(%s which %s)\"", manager, filepath.Base(path)),
		}
	}
	if backend.About().HoldsCredential && sandbox != agent.SandboxLocal {
		return nil, &run.UserError{
			Message: fmt.Sprintf("the agent %s needs its own server and key, which the %s sandbox does not give to agents", name,
				sandbox),
			Hint: "use the local sandbox, or another agent",
		}
	}
	return backend, backend.Check(proc.Look)
}

// checkCommand refuses an agent's command line that names a file of this machine which the local
// sandbox does not show. A path within the directory here is one of the work tree.
func checkCommand(line string, o local.Options) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil
	}
	box, err := local.New(o)
	if err != nil {
		return err
	}
	for i, word := range words {
		word = strings.Trim(word, `'"`)
		path, err := filepath.Abs(word)
		info, missing := os.Stat(word)
		written := i > 0 && strings.HasSuffix(words[i-1], ">")
		if err != nil || missing != nil || !info.Mode().IsRegular() || filepath.IsLocal(word) || written || box.Shows(path) {
			continue
		}
		hint := "add --show " + quoted(path)
		if !filepath.IsAbs(word) {
			hint = "name it " + quoted(path) + " there, and " + hint
		}
		return &run.UserError{
			Message: fmt.Sprintf("the agent's command names %s, which the sandbox hides from it", word),
			Hint:    hint + " (ralph.yaml: sandbox.show)",
		}
	}
	return nil
}

// managers are version managers that keep shims in a directory of that name.
var managers = []string{"asdf", "mise", "rtx", "pyenv", "rbenv", "nodenv", "goenv"}

// shimOf is the version manager that path hands over to, "" where it is no shim.
func shimOf(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	dir := filepath.Dir(real)
	switch name := filepath.Base(real); {
	case name == "volta-shim":
		return "volta"
	case filepath.Base(path) != name && (name == "mise" || name == "rtx"):
		return name
	case filepath.Base(dir) == "shims": // as in ~/.asdf/shims
		if name := strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "."); slices.Contains(managers, name) {
			return name
		}
	}
	return ""
}

// upstreamsOf are the model endpoints of an agent behind the gateway; of gives
// that of one API. There are none for an agent that reaches none. One that speaks
// several APIs has those there is a key for.
func upstreamsOf(backend agent.Backend, of func(run.Provider) (gateway.Upstream, error)) ([]gateway.Upstream, error) {
	apis := backend.About().Providers
	var upstreams []gateway.Upstream
	for _, api := range apis {
		u, err := of(api)
		if err != nil {
			return nil, err
		}
		if len(apis) == 1 || u.APIKey != "" || u.AuthToken != "" {
			upstreams = append(upstreams, u)
		}
	}
	return upstreams, nil
}

// newWatch watches what the providers refuse.
func newWatch() *gateway.Watch {
	return gateway.NewWatch(func(r gateway.Refused) bool { return agent.EndsCall(r.Status, r.Body, r.Worked) })
}

// modelIn are the endpoints and keys of the APIs as their clients find them in the environment.
func modelIn(env func(string) string) config.Model {
	m := config.DefaultServer().Model
	m.BaseURL = cmp.Or(env("ANTHROPIC_BASE_URL"), m.BaseURL)
	m.OpenAIBaseURL = cmp.Or(env("OPENAI_BASE_URL"), m.OpenAIBaseURL)
	m.GoogleBaseURL = cmp.Or(env("GOOGLE_GEMINI_BASE_URL"), m.GoogleBaseURL)
	m.APIKey = config.Secret(env(config.EnvAPIKey))
	m.AuthToken = config.Secret(cmp.Or(env(config.EnvAuthToken), env("ANTHROPIC_AUTH_TOKEN")))
	m.OpenAIKey, m.GeminiKey = config.Secret(env(config.EnvOpenAIKey)), config.Secret(env(config.EnvGeminiKey))
	return m
}

// upstreamFrom is the endpoint of an API as model has it.
func upstreamFrom(model config.Model) func(run.Provider) (gateway.Upstream, error) {
	return func(api run.Provider) (gateway.Upstream, error) {
		u := gateway.Upstream{Provider: api, AuthHeader: model.AuthHeader}
		base := model.BaseURL
		switch api {
		case run.ProviderOpenAI:
			base, u.APIKey = model.OpenAIBaseURL, model.OpenAIKey.Reveal()
		case run.ProviderGoogle:
			base, u.APIKey = model.GoogleBaseURL, model.GeminiKey.Reveal()
		case run.ProviderAnthropic:
			u.APIKey, u.AuthToken = model.APIKey.Reveal(), model.AuthToken.Reveal()
		}
		var err error
		if u.BaseURL, err = url.Parse(base); err != nil {
			return u, &run.UserError{
				Message: fmt.Sprintf("the base URL for %s is not an address: %v", api, err), Hint: "set it to https://host", Err: err,
			}
		}
		return u, nil
	}
}

// versionTimeout bounds the question for an agent's version; those that have to
// start a runtime first take seconds.
const versionTimeout = time.Minute

// agentVersion starts an agent in the sandbox that it will work in, and says which version
// answered, and which one the bot was tried with if that is another.
func agentVersion(ctx context.Context, backend agent.Backend, box sandbox.Sandbox, image string) (string, error) {
	about := backend.About()
	cmd, err := backend.Command(agent.Invocation{
		Sandbox: box.About().Name, BaseURL: "http://127.0.0.1:1", Token: "-", Model: "-",
	})
	if err != nil {
		return "", err
	}
	if len(cmd.Version) == 0 {
		return about.Name, nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	said, err := startsIn(ctx, cmd, box, image)
	if user, ok := errors.AsType[*run.UserError](err); ok {
		return "", user
	}
	version := agent.ReadVersion(said)
	if err == nil && version == "" {
		err = fmt.Errorf("it does not report its version: %q", strs.OneLine(said))
	}
	if err != nil {
		return "", &run.UserError{
			Message: fmt.Sprintf("the agent %s does not start in the sandbox (%s): %v", about.Name, sandbox.Describe(box), err),
			Hint: fmt.Sprintf("run `%s` yourself; if it works there, name the agent's own program instead of a "+
				"wrapper (--agent-path FILE), or show what it needs (sandbox.show, --show PATH)",
				strings.Join(cmd.Version, " ")),
			Err: err,
		}
	}
	what := about.Name + " " + version
	switch about.Tried {
	case version:
	case "":
		what += " (not tried with any version)"
	default:
		what += " (tried with " + about.Tried + ")"
	}
	if about.HoldsCredential {
		what += "; it holds its own key, so it works in the local sandbox only, and budgets do not bind it"
	}
	return what, nil
}

// startsIn asks an agent for its version as it works: in a home of its own, by the name
// it has there. It gives what the agent said.
func startsIn(ctx context.Context, cmd agent.Command, box sandbox.Sandbox, image string) (said string, err error) {
	dir, err := os.MkdirTemp("", "ralph-agent-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the agent: %w", err)
	}
	defer func() { err = errors.Join(err, fstree.RemoveAll(dir)) }()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return "", fmt.Errorf("make a directory for the agent: %w", err)
	}
	if err := box.Prepare(ctx, tree); err != nil {
		return "", fmt.Errorf("prepare a directory for the agent: %w", err)
	}
	spec := sandbox.Spec{
		Argv: cmd.Version, Programs: cmd.Programs, Env: cmd.Env, HomeFiles: cmd.HomeFiles, Workspace: tree,
		RunDir: filepath.Join(dir, "run"), Image: image, OnOwnerDeath: sandbox.KillWithOwner,
	}
	for _, m := range cmd.Mounts {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Host: m.Host, Target: m.Target})
	}
	h, err := box.Start(ctx, filepath.Base(dir), spec)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, box.Remove(context.WithoutCancel(ctx), h)) }()
	status, err := box.Wait(ctx, h)
	if err != nil {
		return "", err
	}
	if status.Reason != sandbox.ReasonExited || status.ExitCode != 0 {
		return "", fmt.Errorf("%s, exit code %d: %s", strings.ReplaceAll(string(status.Reason), "_", " "), status.ExitCode,
			run.PrintableLine(strs.OneLine(status.Detail+" "+status.Stderr)))
	}
	logs, err := h.Stdout(0)
	if err != nil {
		return "", err
	}
	defer func() { _ = logs.Close() }()
	b, err := io.ReadAll(io.LimitReader(logs, 4<<10))
	return string(b), err
}
