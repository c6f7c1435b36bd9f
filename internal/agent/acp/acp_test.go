package acp_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/agent/acp"
)

// The beginning of an agent: it answers as the protocol has it.
const (
	hello = `
read -r asked; printf '%s\n' "$asked" >&2
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"a","version":"1.2.3"}}}'
`
	session = `
read -r asked
echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1","models":{"currentModelId":"m1"}}}'
read -r prompt; printf '%s\n' "$prompt" >&2
`
	answer = `
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
`
)

const introduction = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientCapabilities":{"fs":` +
	`{"readTextFile":false,"writeTextFile":false},"terminal":false},"clientInfo":{"name":"ralph-bot",` +
	`"title":"Ralph Bot","version":"1"},"protocolVersion":1}}`

// An agent is a program that the shell runs; what the client prints of it is compared.
func TestRun(t *testing.T) {
	t.Parallel()
	const (
		prompted = introduction + "\n" +
			`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"prompt":[{"text":"Do it.\n","type":"text"}],"sessionId":"s1"}}` + "\n"
		began  = `{"type":"init","agent":{"name":"a","version":"1.2.3"},"model":"m1","cwd":"DIR"}` + "\n"
		result = `{"type":"result","result":{"stopReason":"end_turn"}}` + "\n"
	)
	update := func(session, update string) string {
		return `echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + session + `","update":` + update + `}}'` + "\n"
	}
	for name, tt := range map[string]struct {
		agent          string
		stdout, stderr string
		code           int
	}{
		"a task": {
			agent: hello + session +
				update("s1", `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hi & <b>"}}`) +
				update("s2", `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"of another"}}`) +
				update("s1", `{"sessionUpdate":"available_commands_update","availableCommands":[]}`) +
				update("s1", `{"sessionUpdate":7}`) + answer,
			stdout: began +
				`{"type":"agent_message_chunk","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hi & <b>"}}}` +
				"\n" + result,
			stderr: prompted,
		},
		"permission": {
			agent: hello + session + `
echo '{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c"},` +
				`"options":[{"optionId":"n","kind":"reject_once"},{"optionId":"a","kind":"allow_always"},{"optionId":"o","kind":"allow_once"}]}}'
read -r said; printf '%s\n' "$said" >&2` + answer,
			stdout: began + `{"type":"permission","update":{"toolCallId":"c"}}` + "\n" + result,
			stderr: prompted + `{"jsonrpc":"2.0","id":"p","result":{"outcome":{"optionId":"o","outcome":"selected"}}}` + "\n",
		},
		"no way to permit": {
			agent: hello + session + `
echo '{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"options":[{"optionId":"n","kind":"reject_once"}]}}'
read -r said; printf '%s\n' "$said" >&2` + answer,
			stdout: began + `{"type":"permission"}` + "\n" + result,
			stderr: prompted + `{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}` + "\n",
		},
		"what is not offered": {
			agent: hello + session + `
echo '{"jsonrpc":"2.0","id":9,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}'
read -r said; printf '%s\n' "$said" >&2` + answer,
			stdout: began + result,
			stderr: prompted + `{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"this client has no fs/read_text_file"}}` + "\n",
		},
		"noise": {
			agent:  "echo 'Welcome!'; echo\n" + hello + session + `echo '{"jsonrpc":"2.0","id":77,"result":{}}'` + answer,
			stdout: `{"type":"noise","noise":"Welcome!"}` + "\n" + began + result,
			stderr: prompted,
		},
		"refused": {
			agent:  hello + session + `echo '{"jsonrpc":"2.0","id":3,"error":{"code":429,"message":"slow down","data":{"a":1}}}'`,
			stdout: began + `{"type":"error","method":"session/prompt","error":{"code":429,"message":"slow down","data":{"a":1}}}` + "\n",
			stderr: prompted, code: 1,
		},
		"not logged in": {
			agent:  hello + `read -r asked; echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Authentication required"}}'`,
			stdout: `{"type":"error","method":"session/new","error":{"code":-32000,"message":"Authentication required"}}` + "\n",
			stderr: introduction + "\n", code: 1,
		},
		"another version": {
			agent: `read -r asked; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}'`,
			stdout: `{"type":"error","method":"initialize","error":{"code":0,"message":"the agent speaks version 2 of the protocol, not 1"}}` +
				"\n",
			code: 1,
		},
		"a session without an id": {
			agent: hello + `read -r asked; echo '{"jsonrpc":"2.0","id":2,"result":{}}'`,
			stdout: `{"type":"error","method":"session/new","error":{"code":0,"message":"the agent's new session has no id: {}"}}` +
				"\n",
			stderr: introduction + "\n", code: 1,
		},
		"too long": {
			agent: `head -c 17000000 /dev/zero | tr '\0' x`,
			stdout: `{"type":"error","error":{"code":0,"message":"the agent sent a message of more than 16 MiB"}}` +
				"\n",
			code: 1,
		},
		"it ends early":   {agent: "exit 3", code: 3},
		"it ends well":    {agent: hello, stderr: introduction + "\n", code: 1},
		"it is not there": {agent: "./no-such-agent 2>/dev/null", code: 127},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			dir := t.TempDir()
			code, err := acp.Run(t.Context(), tt.agent, strings.NewReader("Do it.\n"), &stdout, &stderr, dir)
			if err != nil || code != tt.code {
				t.Errorf("exit code %d, %v; want %d", code, err, tt.code)
			}
			if diff := cmp.Diff(tt.stdout, strings.ReplaceAll(stdout.String(), dir, "DIR")); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.stderr, stderr.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

// A prompt that an agent never reads holds nobody up, and neither does an agent that
// does not answer.
func TestRunIsStopped(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = r.Read(make([]byte, 1)) // the agent has been asked
		stop()
	}()
	code, err := acp.Run(ctx, hello+"exec sleep 1000", strings.NewReader(strings.Repeat("x", 1<<20)), io.Discard, w, t.TempDir())
	if code != 143 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// An agent introduces itself.
func TestHello(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	code, err := acp.Hello(t.Context(), hello+"exec sleep 1000", &stdout, io.Discard, t.TempDir())
	if code != 0 || err != nil || stdout.String() != "a 1.2.3\n" {
		t.Errorf("exit code %d, %v: %q", code, err, stdout.String())
	}
}
