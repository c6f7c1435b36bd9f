package agent

import (
	"os"
	"strconv"
	"strings"
)

// claude is the Claude Code CLI.
type claude struct{ cli }

// Command implements Backend.
func (c claude) Command(inv Invocation) (Command, error) {
	cmd := Command{
		Argv: []string{
			c.binary(), "-p", "--output-format", "stream-json", "--verbose",
			// The sandbox is the border, not a dialogue nobody would answer.
			"--dangerously-skip-permissions",
			// Settings and MCP servers of the work tree stay out: in -p mode the
			// CLI applies them without asking, and a settings file that sets
			// ANTHROPIC_BASE_URL would take the credentials elsewhere, one with
			// hooks would run commands of an earlier iteration.
			"--setting-sources", "user", "--strict-mcp-config",
		},
		// Without this every start tries hosts it cannot reach (12 s of DNS
		// time-outs without network) and asks the model for a session title.
		Env: map[string]string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
	}
	if inv.Model != "" {
		// One argument, so that a name cannot become an option.
		cmd.Argv = append(cmd.Argv, "--model="+inv.Model)
	}
	if len(inv.DenyTools) > 0 {
		cmd.Argv = append(cmd.Argv, "--disallowedTools="+strings.Join(inv.DenyTools, ","))
	}
	if inv.MaxTurns > 0 {
		cmd.Argv = append(cmd.Argv, "--max-turns", strconv.Itoa(inv.MaxTurns))
	}

	proxied, err := c.proxied(inv)
	if err != nil {
		return Command{}, err
	}
	if proxied {
		cmd.Env["ANTHROPIC_BASE_URL"] = inv.BaseURL
		cmd.Env["ANTHROPIC_API_KEY"] = inv.Token
	} else {
		cmd.PassEnv = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL"}
	}
	if inv.Sandbox == SandboxLocal && os.Getuid() == 0 {
		// The CLI refuses to skip permissions as root unless told that it is
		// confined. A container's user is never root.
		cmd.Env["IS_SANDBOX"] = "1"
	}
	return cmd, c.mount(&cmd, inv)
}

// NewParser implements Backend.
func (c claude) NewParser(emit func(Activity)) Parser { return newStream(emit) }
