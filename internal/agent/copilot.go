package agent

import (
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// copilot is the GitHub Copilot CLI. Behind the proxy it works offline, with the
// proxy as its model provider, and needs no account; by itself it needs one.
func copilot(c cli, self string) Backend {
	c.pkg, c.tried, c.apis = "@github/copilot", "1.0.102", []run.Provider{run.ProviderOpenAI}
	// Over the protocol the CLI trusts the work tree, and runs what these name.
	hides := []string{".github/hooks", ".github/copilot"}
	return preset{cli: c, self: self, hides: hides, start: startCopilot, mount: cli.mount}
}

func startCopilot(c cli, inv Invocation, proxied bool) (Command, error) {
	own := !proxied && c.env("COPILOT_PROVIDER_BASE_URL") == "" // GitHub's own models
	if !own {
		if err := c.needModel(inv); err != nil {
			return Command{}, err
		}
	}
	cmd := Command{
		Argv: []string{
			c.binary(), "--acp", "--no-color", "--log-level", "none",
			// The sandbox is the border, not a dialogue nobody would answer.
			"--allow-all", "--no-ask-user", "--no-auto-update", "--no-remote", "--disable-builtin-mcps",
		},
		Env: map[string]string{},
	}
	if len(inv.DenyTools) > 0 {
		cmd.Argv = append(cmd.Argv, "--excluded-tools="+strings.Join(inv.DenyTools, ","))
	}
	if inv.Model != "" {
		cmd.Env["COPILOT_MODEL"] = inv.Model
	}
	if !own {
		cmd.Env["COPILOT_OFFLINE"] = "true"
		if strings.HasPrefix(inv.Model, "gpt-5") {
			// These think between calls only there.
			cmd.Env["COPILOT_PROVIDER_WIRE_API"] = "responses"
		}
	}
	if proxied {
		cmd.Env["COPILOT_PROVIDER_BASE_URL"], cmd.Env["COPILOT_PROVIDER_API_KEY"] = inv.BaseURL+"/v1", inv.Token
	} else {
		// Never GH_TOKEN or GITHUB_TOKEN, which it would take as well.
		cmd.PassEnv = []string{
			"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE",
			"COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN",
		}
	}
	return cmd, nil
}
