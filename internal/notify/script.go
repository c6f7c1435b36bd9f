package notify

import (
	"bytes"
	"context"
	"strings"

	"github.com/org/ralph-action/internal/proc"
)

// script hands messages to a program: a text for people as its one argument, all
// of it as JSON on its standard input. Nothing of the server's secrets is in its
// environment. The text is cleaned, and begins with our own words.
type script struct{ path string }

// send starts the program once. What it fails with is final: it may have told
// people before it failed, and others wait behind it.
func (s script) send(ctx context.Context, m Message) error {
	body, err := m.json()
	if err != nil {
		return final{err}
	}
	text := m.text(func(s string) string { return s })
	_, err = proc.Run(ctx, proc.Cmd{
		Path: s.path, Args: []string{strings.TrimLeft(text, "-")}, // never an option
		Env: proc.ScrubbedEnv("RALPH_EVENT=" + string(m.Notice)), Stdin: bytes.NewReader(append(body, '\n')),
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return final{err}
}
