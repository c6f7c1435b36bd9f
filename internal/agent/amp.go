package agent

import (
	"fmt"

	"github.com/org/ralph-action/internal/run"
)

// amp is the Amp CLI. It talks to Amp's own server alone, with a key of Amp's:
// there is no endpoint to put a proxy in front of.
type amp struct{ cli }

// About implements Backend.
func (a amp) About() About {
	about := a.cli.About()
	about.HoldsCredential = true
	return about
}

// Command implements Backend.
func (a amp) Command(inv Invocation) (Command, error) {
	if inv.Sandbox != SandboxLocal {
		return Command{}, &run.UserError{
			Message: fmt.Sprintf("the agent amp needs its own server and key, which the sandbox %s keeps from agents",
				inv.Sandbox),
			Hint: "use the local sandbox, or another agent",
		}
	}
	return Command{
		Argv: []string{
			a.binary(), "--execute", "--stream-json", "--dangerously-allow-all", "--no-color", "--no-notifications", "--no-ide",
		},
		Version: []string{a.binary(), "--version"},
		// It chooses its models itself.
		Env:     map[string]string{},
		PassEnv: []string{"AMP_API_KEY", "AMP_URL"},
	}, nil
}

// NewParser implements Backend. Amp prints the events of Claude Code.
func (a amp) NewParser(emit func(Activity)) Parser { return newFeed(emit, &claudeDialect{}) }
