//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
)

// agentFlags say which agent works.
type agentFlags struct {
	Agent        string `default:"claude" help:"The agent: claude, codex, gemini, opencode, copilot, amp, command (any program) or script (default: ${default})." placeholder:"AGENT"`
	Model        string `help:"The model, named as the agent names it." placeholder:"MODEL"`
	AgentPath    string `name:"agent-path" aliases:"claude-path" help:"The agent's program (default: from PATH)." placeholder:"FILE" type:"path"`
	AgentCommand string `name:"agent-command" help:"The command line for --agent command. The command reads the prompt from stdin and edits files in its working directory." placeholder:"COMMAND"`
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
	if backend.HoldsCredential() && sandbox != agent.SandboxLocal {
		return nil, &run.UserError{
			Message: fmt.Sprintf("the agent %s needs its own server and key, which the %s sandbox does not give to agents", name,
				sandbox),
			Hint: "use the local sandbox, or another agent",
		}
	}
	return backend, backend.Check(proc.Look)
}

// upstreamsOf are the model endpoints of an agent behind the gateway; of gives
// that of one API. There are none for an agent that reaches none. One that speaks
// several APIs has those there is a key for.
func upstreamsOf(backend agent.Backend, of func(run.Provider) (gateway.Upstream, error)) ([]gateway.Upstream, error) {
	apis := backend.Providers()
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

// upstreamIn is the endpoint of an API as its clients find it in the environment.
func upstreamIn(env func(string) string) func(run.Provider) (gateway.Upstream, error) {
	return func(api run.Provider) (gateway.Upstream, error) {
		u, defaults := gateway.Upstream{Provider: api}, config.DefaultServer().Model
		variable, base := "ANTHROPIC_BASE_URL", defaults.BaseURL
		switch api {
		case run.ProviderOpenAI:
			variable, base = "OPENAI_BASE_URL", defaults.OpenAIBaseURL
			u.APIKey = env(config.EnvOpenAIKey)
		case run.ProviderGoogle:
			variable, base = "GOOGLE_GEMINI_BASE_URL", defaults.GoogleBaseURL
			u.APIKey = env(config.EnvGeminiKey)
		case run.ProviderAnthropic:
			u.APIKey, u.AuthToken = env(config.EnvAPIKey), env(config.EnvAuthToken)
		}
		if own := env(variable); own != "" {
			base = own
		}
		var err error
		if u.BaseURL, err = url.Parse(base); err != nil {
			return u, &run.UserError{
				Message: variable + " is not an address: " + err.Error(), Hint: "set it to https://host or unset it", Err: err,
			}
		}
		return u, nil
	}
}

// upstreamFrom is the endpoint of an API as the server's configuration has it.
func upstreamFrom(model config.Model) func(run.Provider) (gateway.Upstream, error) {
	return func(api run.Provider) (gateway.Upstream, error) {
		u := gateway.Upstream{Provider: api, AuthHeader: model.AuthHeader}
		key, base := "model.base_url", model.BaseURL
		switch api {
		case run.ProviderOpenAI:
			key, base, u.APIKey = "model.openai_base_url", model.OpenAIBaseURL, model.OpenAIKey.Reveal()
		case run.ProviderGoogle:
			key, base, u.APIKey = "model.google_base_url", model.GoogleBaseURL, model.GeminiKey.Reveal()
		case run.ProviderAnthropic:
			u.APIKey, u.AuthToken = model.APIKey.Reveal(), model.AuthToken.Reveal()
		}
		var err error
		if u.BaseURL, err = url.Parse(base); err != nil {
			return u, &run.UserError{
				Message: key + " is not an address: " + err.Error(), Hint: "set it to https://host", Err: err,
			}
		}
		return u, nil
	}
}

// versionTimeout bounds the question for an agent's version; those that have to
// start a runtime first take seconds.
const versionTimeout = 30 * time.Second

// agentVersion says which version of an agent is installed, and which one the bot
// was tried with if that is another.
func agentVersion(ctx context.Context, backend agent.Backend) (string, error) {
	argv, tried := backend.Version()
	if len(argv) == 0 {
		return backend.Name(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	program, err := proc.Look(argv[0])
	if err != nil {
		return "", err
	}
	// In a home of its own, as it works: it is not to touch the person's.
	home, err := os.MkdirTemp("", "ralph-agent-")
	if err != nil {
		return "", fmt.Errorf("make a home for the agent: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	answer, err := proc.Run(ctx, proc.Cmd{Path: program, Args: argv[1:], Dir: home, Env: proc.ScrubbedEnv("HOME=" + home)})
	version := agent.ReadVersion(string(answer.Stdout))
	if err == nil && version == "" {
		err = errors.New("it does not report its version")
	}
	if err != nil {
		return "", &run.UserError{
			Message: fmt.Sprintf("the agent %s does not start: %v", backend.Name(), err),
			Hint:    fmt.Sprintf("run %s %s and fix what it reports", argv[0], argv[1]), Err: err,
		}
	}
	what := backend.Name() + " " + version
	switch tried {
	case version:
	case "":
		what += " (not tried with any version)"
	default:
		what += " (tried with " + tried + ")"
	}
	if backend.HoldsCredential() {
		what += "; it holds its own key, so it works in the local sandbox only, and budgets do not bind it"
	}
	return what, nil
}

// finalLimit is the header of limits that the gateway makes final for an agent,
// "" where it tells of limits itself.
func finalLimit(backend agent.Backend) string {
	if backend.RepeatsLimits() {
		return agent.FinalLimitHeader
	}
	return ""
}
