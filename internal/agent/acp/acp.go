package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/proc"
)

// protocolVersion is the version of the protocol that is spoken here.
const protocolVersion = 1

// maxMessage is the longest message of an agent that is read, in bytes.
const maxMessage = 16 << 20

// maxNoise is how much of a line that is no message is printed, in bytes.
const maxNoise = 1 << 10

// codeNoMethod is the code of JSON-RPC for a method that there is not.
const codeNoMethod = -32601

// exitTerminated is the exit code after SIGTERM.
const exitTerminated = 143

// Event is one line of what Run prints. The members but Type are as the agent sent them.
type Event struct {
	// Type is "init", the name of an update of the session, "permission", "result", "error"
	// or "noise".
	Type string `json:"type"`
	// Agent, Model and Cwd are of "init": who the agent says it is, its model where it
	// tells, and the directory it works in.
	Agent json.RawMessage `json:"agent,omitempty"`
	Model string          `json:"model,omitempty"`
	Cwd   string          `json:"cwd,omitempty"`
	// Update is what an update of the session, or the question of a "permission", says.
	Update json.RawMessage `json:"update,omitempty"`
	// Result is the agent's answer to the prompt.
	Result json.RawMessage `json:"result,omitempty"`
	// Method is the call that Error answers.
	Method string    `json:"method,omitempty"`
	Error  *rpcError `json:"error,omitempty"`
	// Noise is a line that is no message: a banner, a warning.
	Noise string `json:"noise,omitempty"`
}

// Run starts an agent by its command line, gives it the prompt in dir, and prints
// events on stdout until it has answered. It gives the exit code of the process: 0
// where there is an answer, else that of the agent. When ctx ends the agent is stopped.
func Run(ctx context.Context, line string, prompt io.Reader, stdout, stderr io.Writer, dir string) (int, error) {
	text, err := io.ReadAll(prompt)
	if err != nil {
		return 1, fmt.Errorf("read prompt: %w", err)
	}
	return with(ctx, line, stderr, dir, func(c *conn) error {
		c.events = json.NewEncoder(stdout)
		c.events.SetEscapeHTML(false)
		return c.work(dir, string(text))
	})
}

// Hello starts an agent and gives its name and version, as it introduces itself.
func Hello(ctx context.Context, line string, stdout, stderr io.Writer, dir string) (int, error) {
	return with(ctx, line, stderr, dir, func(c *conn) error {
		agent, err := c.hello()
		if err != nil {
			return err
		}
		var who struct{ Name, Version string }
		if len(agent) > 0 {
			if err := json.Unmarshal(agent, &who); err != nil {
				return fmt.Errorf("read the agent's introduction: %w", err)
			}
		}
		_, err = fmt.Fprintln(stdout, strings.TrimSpace(who.Name+" "+who.Version))
		return err
	})
}

// with has an agent run while talk talks to it.
func with(ctx context.Context, line string, stderr io.Writer, dir string, talk func(*conn) error) (int, error) {
	sh, err := proc.Look("sh")
	if err != nil {
		return 1, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	// A file, which is closed for the agent when the agent is gone: whoever writes to it
	// then is told.
	heard, says, err := os.Pipe()
	if err != nil {
		return 1, fmt.Errorf("make a pipe: %w", err)
	}
	hears, tells := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := proc.Run(running, proc.Cmd{
			Path: sh, Args: []string{"-c", line}, Dir: dir, Env: os.Environ(), Stdin: heard, Stdout: tells, Stderr: stderr,
		})
		_, _ = heard.Close(), tells.Close() // they never fail
		ended <- err
	}()
	c := &conn{agent: says, lines: bufio.NewReader(hears)}
	err = talk(c)
	// The agent has done its part, or will not do it.
	_, _ = says.Close(), hears.Close()
	if gone := errors.Is(err, errGone); !gone {
		stop()
		<-ended
	} else if exit, ok := errors.AsType[*proc.ExitError](<-ended); ok && ctx.Err() == nil {
		return max(exit.Code, 1), nil
	}
	switch {
	case ctx.Err() != nil:
		return exitTerminated, nil
	case errors.As(err, new(*rpcError)):
		return 1, nil // it has been told
	case errors.Is(err, errGone):
		return 1, nil
	case err != nil:
		return 1, err
	}
	return 0, nil
}

// errGone says that the agent has ended.
var errGone = errors.New("the agent ended before it answered")

// rpcError is an error in an answer.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *rpcError) Error() string { return e.Message + " (" + strconv.Itoa(e.Code) + ")" }

// message is a request, a notification or an answer.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// conn is the connection to an agent.
type conn struct {
	agent io.Writer
	lines *bufio.Reader
	// events is where events are printed; nil prints none.
	events *json.Encoder
	// session is the session's id, "" before there is one.
	session string
	calls   int
}

type object = map[string]any

// work has the agent do what the prompt says.
func (c *conn) work(dir, prompt string) error {
	agent, err := c.hello()
	if err != nil {
		return err
	}
	session, err := c.call("session/new", object{"cwd": dir, "mcpServers": []any{}})
	if err != nil {
		return err
	}
	var model string
	if c.session, model = readSession(session); c.session == "" {
		return c.refuse("session/new", fmt.Sprintf("the agent's new session has no id: %.200s", session))
	}
	if err := c.print(Event{Type: "init", Agent: agent, Model: model, Cwd: dir}); err != nil {
		return err
	}
	result, err := c.call("session/prompt", object{
		"sessionId": c.session, "prompt": []any{object{"type": "text", "text": prompt}},
	})
	if err != nil {
		return err
	}
	return c.print(Event{Type: "result", Result: result})
}

// readSession gives the id of a new session, and its model where the agent tells.
func readSession(session json.RawMessage) (id, model string) {
	var made struct {
		SessionID string `json:"sessionId"`
		Models    struct {
			Current string `json:"currentModelId"`
		} `json:"models"`
		Options []struct {
			Category string `json:"category"`
			Current  any    `json:"currentValue"`
		} `json:"configOptions"`
	}
	if err := json.Unmarshal(session, &made); err != nil {
		return "", ""
	}
	model = made.Models.Current
	for _, o := range made.Options {
		if value, ok := o.Current.(string); ok && o.Category == "model" {
			model = value
		}
	}
	return made.SessionID, model
}

// hello introduces us, and gives what the agent says it is.
func (c *conn) hello() (agent json.RawMessage, err error) {
	answer, err := c.call("initialize", object{
		"protocolVersion":    protocolVersion,
		"clientCapabilities": object{"fs": object{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         object{"name": "ralph-bot", "title": "Ralph Bot", "version": "1"},
	})
	if err != nil {
		return nil, err
	}
	var said struct {
		ProtocolVersion int             `json:"protocolVersion"`
		AgentInfo       json.RawMessage `json:"agentInfo"`
	}
	if err := json.Unmarshal(answer, &said); err != nil || said.ProtocolVersion != protocolVersion {
		return nil, c.refuse("initialize", fmt.Sprintf("the agent speaks version %d of the protocol, not %d",
			said.ProtocolVersion, protocolVersion))
	}
	return said.AgentInfo, nil
}

// refuse prints what is wrong with an answer, and gives it as an error.
func (c *conn) refuse(method, why string) error {
	e := &rpcError{Message: why}
	return errors.Join(c.print(Event{Type: "error", Method: method, Error: e}), e)
}

// call asks the agent, and serves it until it answers.
func (c *conn) call(method string, params any) (json.RawMessage, error) {
	c.calls++
	id := strconv.Itoa(c.calls)
	if err := c.send(message{ID: json.RawMessage(id), Method: method, Params: params}); err != nil {
		return nil, err
	}
	for {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
			Error  *rpcError       `json:"error"`
		}
		switch err := json.Unmarshal(line, &m); {
		case err != nil:
			if err := c.print(Event{Type: "noise", Noise: string(line[:min(len(line), maxNoise)])}); err != nil {
				return nil, err
			}
		case m.Method == "" && string(m.ID) != id: // an answer to nothing
		case m.Method == "" && m.Error != nil:
			return nil, errors.Join(c.print(Event{Type: "error", Method: method, Error: m.Error}), m.Error)
		case m.Method == "":
			return m.Result, nil
		case len(m.ID) > 0:
			if err := c.serve(m.ID, m.Method, m.Params); err != nil {
				return nil, err
			}
		case m.Method == "session/update":
			if err := c.update(m.Params); err != nil {
				return nil, err
			}
		}
	}
}

// line reads one message of the agent.
func (c *conn) line() ([]byte, error) {
	var line []byte
	for {
		part, err := c.lines.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			return nil, c.refuse("", fmt.Sprintf("the agent sent a message of more than %d MiB", maxMessage>>20))
		}
		line = append(line, part...)
		switch {
		case err == nil && len(strings.TrimSpace(string(line))) == 0:
			line = line[:0]
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return nil, errGone
		}
	}
}

func (c *conn) send(m message) error {
	m.JSONRPC = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write to the agent: %w", err)
	}
	if _, err := c.agent.Write(append(b, '\n')); err != nil {
		return errGone
	}
	return nil
}

func (c *conn) print(e Event) error {
	if c.events == nil {
		return nil
	}
	if err := c.events.Encode(e); err != nil {
		return fmt.Errorf("print an event: %w", err)
	}
	return nil
}

// update prints what happens in the session.
func (c *conn) update(params json.RawMessage) error {
	var p struct {
		SessionID string          `json:"sessionId"`
		Update    json.RawMessage `json:"update"`
	}
	var kind struct {
		Kind string `json:"sessionUpdate"`
	}
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p.Update, &kind) != nil || kind.Kind == "" {
		return nil // it costs that update only
	}
	if kind.Kind == "available_commands_update" || kind.Kind == "config_option_update" {
		return nil // what a person could choose, at length
	}
	if c.session != "" && p.SessionID != c.session {
		return nil // a session that the agent made for itself
	}
	return c.print(Event{Type: kind.Kind, Update: p.Update})
}

// serve answers the agent.
func (c *conn) serve(id json.RawMessage, method string, params json.RawMessage) error {
	if method != "session/request_permission" {
		return c.send(message{ID: id, Error: &rpcError{Code: codeNoMethod, Message: "this client has no " + method}})
	}
	var asked struct {
		ToolCall json.RawMessage `json:"toolCall"`
		Options  []struct {
			ID   string `json:"optionId"`
			Kind string `json:"kind"`
		} `json:"options"`
	}
	outcome := object{"outcome": "cancelled"}
	if json.Unmarshal(params, &asked) == nil {
		// Once rather than always: what is allowed for ever may be written somewhere.
		for _, kind := range []string{"allow_always", "allow_once"} {
			for _, o := range asked.Options {
				if o.Kind == kind {
					outcome = object{"outcome": "selected", "optionId": o.ID}
				}
			}
		}
	}
	if err := c.print(Event{Type: "permission", Update: asked.ToolCall}); err != nil {
		return err
	}
	return c.send(message{ID: id, Result: object{"outcome": outcome}})
}
