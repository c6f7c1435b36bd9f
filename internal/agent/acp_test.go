package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestACPCommand(t *testing.T) {
	t.Parallel()
	b := lookup(t, "acp", Options{Command: "my-agent --acp", Self: "/usr/bin/bot"})
	inv := Invocation{Model: "m", Sandbox: SandboxLocal, BaseURL: "http://127.0.0.1:1", Token: "t"}
	env := map[string]string{
		"RALPH_MODEL":        "m",
		"ANTHROPIC_BASE_URL": inv.BaseURL, "ANTHROPIC_API_KEY": "t",
		"OPENAI_BASE_URL": inv.BaseURL + "/v1", "OPENAI_API_KEY": "t",
		"GOOGLE_GEMINI_BASE_URL": inv.BaseURL, "GEMINI_API_KEY": "t",
	}
	for box, want := range map[string]Command{
		SandboxLocal: {
			Argv: []string{"/usr/bin/bot", "acp-client", "my-agent --acp"}, Env: env,
			Version: []string{"/usr/bin/bot", "acp-client", "--hello", "my-agent --acp"},
		},
		SandboxDocker: {
			Argv: []string{acpSelfTarget, "acp-client", "my-agent --acp"}, Env: env,
			Version: []string{acpSelfTarget, "acp-client", "--hello", "my-agent --acp"},
			Mounts:  []Mount{{Host: "/usr/bin/bot", Target: acpSelfTarget}},
		},
	} {
		inv.Sandbox = box
		got, err := b.Command(inv)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", box, err, diff)
		}
	}
}

// What the recordings have not.
func TestACPStream(t *testing.T) {
	t.Parallel()
	const done = `{"type":"result","result":{"stopReason":"end_turn"}}`
	call := func(kind, call string) string { return `{"type":"` + kind + `","update":` + call + "}\n" }
	for name, tt := range map[string]struct {
		stream  string
		outcome Outcome
		says    string
		tools   []string
		cost    float64
	}{
		"not logged in": {
			`{"type":"error","error":{"code":-32000,"message":"Authentication required"}}`, OutcomeAuth, "Authentication required",
			nil, 0,
		},
		"a status": {`{"type":"error","error":{"code":429,"message":"slow"}}`, OutcomeRateLimited, "slow", nil, 0},
		"a body": {
			`{"type":"error","error":{"code":-32603,"message":"{\"error\":{\"code\":401,\"message\":\"wrong key\"}}"}}`, OutcomeAuth,
			"wrong key", nil, 0,
		},
		"no words":  {`{"type":"error","error":{"code":-32603}}`, OutcomeErrored, "the agent reports an error", nil, 0},
		"cut short": {`{"type":"result","result":{"stopReason":"max_tokens"}}`, OutcomeErrored, "the agent stopped: max_tokens", nil, 0},
		"no reason": {`{"type":"result","result":{}}`, OutcomeErrored, "the agent stopped: ", nil, 0},
		"nothing":   {`{"type":"plan","update":{}}`, OutcomeEmpty, "the agent ended without a result", nil, 0},
		"a call whose input comes later": {
			call("tool_call", `{"toolCallId":"1","title":"edit","kind":"edit","status":"pending","rawInput":{}}`) +
				call("tool_call_update", `{"toolCallId":"1","kind":"edit","locations":[{"path":"/w/a.go"},{"path":"/w/b.go"}]}`) +
				call("tool_call_update", `{"toolCallId":"1","status":"completed"}`) +
				call("permission", `{"toolCallId":"2","title":"Look outside","locations":[{"path":"/etc/hosts"}]}`) +
				call("tool_call", `{"toolCallId":"2","kind":"read"}`) +
				call("usage_update", `{"cost":{"amount":0.25,"currency":"USD"}}`) +
				call("usage_update", `{"cost":{"amount":9,"currency":"EUR"}}`) + done,
			OutcomeCompleted, "", []string{"edit a.go", "other(Look outside) /etc/hosts"}, 0.25,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := reads(t, "acp", []byte(`{"type":"init","cwd":"/w"}`+"\n"+tt.stream), 1<<10)
			var tools []string
			for _, a := range got.Activities {
				if a.Kind == ActivityTool {
					tools = append(tools, a.String())
				}
			}
			if r := got.Result; r.Outcome != tt.outcome || r.Error != oneLine(tt.says) || r.BadLines != 0 || r.Usage.CostUSD != tt.cost {
				t.Errorf("%+v", r)
			}
			if diff := cmp.Diff(tt.tools, tools); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
		})
	}
}
