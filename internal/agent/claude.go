package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// claude is the Claude Code CLI, tried with 2.1.197.
type claude struct {
	path string // "" means claude in the PATH
}

// claudeTarget is where the binary is seen in a container.
const claudeTarget = "/opt/ralph/claude"

// Name implements Backend.
func (c claude) Name() string { return "claude" }

// Binary implements Backend.
func (c claude) Binary() string {
	if c.path != "" {
		return c.path
	}
	return "claude"
}

// Command implements Backend.
func (c claude) Command(inv Invocation) (Command, error) {
	cmd := Command{
		Argv: []string{
			c.Binary(), "-p", "--output-format", "stream-json", "--verbose",
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

	switch {
	case inv.BaseURL != "" && inv.Token != "":
		cmd.Env["ANTHROPIC_BASE_URL"] = inv.BaseURL
		cmd.Env["ANTHROPIC_API_KEY"] = inv.Token
	case inv.BaseURL != "":
		// Without any key the CLI does not even ask: "Not logged in".
		return Command{}, errors.New("command of agent claude: a model proxy without a run token")
	case inv.Sandbox != SandboxLocal:
		return Command{}, fmt.Errorf("command of agent claude: sandbox %q needs a model proxy", inv.Sandbox)
	default:
		cmd.PassEnv = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL"}
	}

	if inv.Sandbox == SandboxLocal {
		if os.Getuid() == 0 {
			// The CLI refuses to skip permissions as root unless told that it is
			// confined. A container's user is never root.
			cmd.Env["IS_SANDBOX"] = "1"
		}
		return cmd, nil
	}
	if c.path != "" {
		host, err := nativeBinary(c.path)
		if err != nil {
			return Command{}, err
		}
		cmd.Argv[0] = claudeTarget
		cmd.Mounts = []Mount{{Host: host, Target: claudeTarget}}
	}
	return cmd, nil
}

// Check implements Backend.
func (c claude) Check(look func(file string) (string, error)) error {
	if _, err := look(c.Binary()); err != nil {
		return &run.UserError{
			Message: fmt.Sprintf("the agent's command line %q was not found", c.Binary()),
			Hint:    "install it with `npm install -g @anthropic-ai/claude-code`, or choose another agent",
			Err:     err,
		}
	}
	return nil
}

// NewParser implements Backend.
func (c claude) NewParser(emit func(Activity)) Parser { return newStream(emit) }

// nativeBinary resolves path to a file that runs by itself in another image. A
// script would need its interpreter and its neighbours there.
func nativeBinary(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		target, err = filepath.Abs(target)
	}
	if err != nil {
		return "", &run.UserError{
			Message: fmt.Sprintf("the agent's command line %q was not found", path),
			Hint:    "name the claude binary of the installed package",
			Err:     err,
		}
	}
	f, err := os.Open(target)
	if err != nil {
		return "", fmt.Errorf("open agent binary: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != "\x7fELF" {
		return "", &run.UserError{
			Message: fmt.Sprintf("%q is not a Linux binary that can be mounted into a container", path),
			Hint:    "name the file claude of the npm package @anthropic-ai/claude-code-linux-x64 (or -arm64)",
			Err:     err,
		}
	}
	return target, nil
}
