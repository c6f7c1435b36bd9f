package agent

import (
	"fmt"

	"github.com/org/ralph-action/internal/run"
)

// command is any program that reads a prompt on its standard input and works in
// its working directory. Its exit code is its verdict.
type command struct{ line string }

// About implements Backend. It may speak any API, and need no key.
func (c command) About() About {
	return About{
		Name: "command", Binary: "sh",
		Providers: []run.Provider{run.ProviderAnthropic, run.ProviderOpenAI, run.ProviderGoogle},
	}
}

// Check implements Backend.
func (c command) Check(look func(file string) (string, error)) error {
	if _, err := look("sh"); err != nil {
		return fmt.Errorf("look for the shell of the agent's command: %w", err)
	}
	return nil
}

// Command implements Backend.
func (c command) Command(inv Invocation) (Command, error) {
	cmd := Command{Argv: []string{"sh", "-c", c.line}, Env: map[string]string{}}
	if inv.Model != "" {
		cmd.Env["RALPH_MODEL"] = inv.Model
	}
	if inv.BaseURL == "" {
		cmd.PassEnv = []string{
			"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "GEMINI_API_KEY",
			"GOOGLE_GEMINI_BASE_URL",
		}
		return cmd, nil
	}
	// As the clients of each API look for it.
	cmd.Env["ANTHROPIC_BASE_URL"], cmd.Env["ANTHROPIC_API_KEY"] = inv.BaseURL, inv.Token
	cmd.Env["OPENAI_BASE_URL"], cmd.Env["OPENAI_API_KEY"] = inv.BaseURL+"/v1", inv.Token
	cmd.Env["GOOGLE_GEMINI_BASE_URL"], cmd.Env["GEMINI_API_KEY"] = inv.BaseURL, inv.Token
	return cmd, nil
}

// NewParser implements Backend.
func (c command) NewParser(emit func(Activity)) Parser {
	if emit == nil {
		emit = func(Activity) {}
	}
	p := &plainText{emit: emit}
	p.lines = lines{res: &p.result, take: p.line}
	return p
}

// plainText takes what is printed for the agent's words, the end of them for its
// last.
type plainText struct {
	lines

	emit   func(Activity)
	result Result
	said   []byte
	closed bool
}

func (p *plainText) line(b []byte) {
	p.said = append(append(p.said, b...), '\n')
	if len(p.said) > 4*maxFinalText {
		p.said = append(p.said[:0], p.said[len(p.said)-2*maxFinalText:]...)
	}
	if line := oneLine(string(b[:min(len(b), 16*maxActivityText)])); line != "" {
		p.emit(Activity{Kind: ActivityText, Text: line})
	}
}

// Final implements Parser: nobody can tell before the program ends.
func (p *plainText) Final() bool { return false }

// Close implements Parser.
func (p *plainText) Close() Result {
	if !p.closed {
		p.closed = true
		p.finish(nil)
		p.result.Outcome, p.result.FinalText = OutcomeByExit, tail(string(p.said))
	}
	return p.result
}
