package notify

import (
	"bytes"
	"context"

	"github.com/org/ralph-action/internal/proc"
)

// script hands messages to a program, as JSON on its standard input. Nothing of
// a message is in its arguments or its environment, where a shell could take it
// for more than text; and nothing of the server's secrets either.
type script struct{ path string }

func (s script) send(ctx context.Context, m Message) error {
	body, err := m.json()
	if err != nil {
		return final{err}
	}
	_, err = proc.Run(ctx, proc.Cmd{Path: s.path, Env: proc.ScrubbedEnv("RALPH_EVENT=" + string(m.Notice)), Stdin: bytes.NewReader(append(body, '\n'))})
	return err
}
