package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// feeds are the back ends whose parser is a feed.
var feeds = []string{"codex", "gemini", "opencode", "copilot"}

// What the recordings do not show: endings that need a real endpoint, or luck.
func TestEndings(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	geminiError := func(message string) string {
		b, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		return `{"type":"result","timestamp":"2026-11-22T10:00:00Z","status":"error","error":{"type":"unknown","message":` +
			string(b) + `},"stats":{}}`
	}
	tests := map[string]struct {
		cli, stream string
		want        Outcome
		says        string
		retryAt     time.Time
	}{
		"codex: an error item is no failure": {"codex", `{"type":"item.completed","item":{"id":"1","type":"error","message":"Model metadata not found"}}
{"type":"turn.completed","usage":{}}`, OutcomeCompleted, "", time.Time{}},
		"codex: the last of two turns counts": {"codex", `{"type":"turn.completed","usage":{}}
{"type":"turn.started"}
{"type":"turn.failed","error":{"message":"exceeded retry limit, last status: 429 Too Many Requests"}}`, OutcomeRateLimited, "429", time.Time{}},
		"codex: a turn that was begun again": {"codex", `{"type":"turn.completed","usage":{}}
{"type":"turn.started"}`, OutcomeEmpty, "without a result", time.Time{}},
		"codex: usage limit": {
			"codex", `{"type":"turn.failed","error":{"message":"You've hit your usage limit. Try again at 3 PM."}}`,
			OutcomeRateLimited, "usage limit", time.Time{},
		},
		"codex: quota": {
			"codex",
			`{"type":"turn.failed","error":{"message":"{\"error\":{\"type\":\"insufficient_quota\",\"message\":\"pay first\"}}"}}`,
			OutcomeCredit, "pay first", time.Time{},
		},
		"codex: stopped retrying": {
			"codex",
			`{"type":"error","message":"Reconnecting... 2/5 (We’re currently experiencing high demand, which may cause temporary errors.)"}`,
			OutcomeRateLimited, "high demand", time.Time{},
		},
		"codex: words of an agent": {
			"codex", `{"type":"turn.failed","error":{"message":"the diff says 429 Too Many Requests"}}`, OutcomeErrored,
			"the diff says", time.Time{},
		},
		"codex: no message": {"codex", `{"type":"turn.failed"}`, OutcomeErrored, "reports an error", time.Time{}},

		"gemini: advice after a body": {"gemini", geminiError("[API Error: {\"error\":{\"code\":429,\"message\":\"slow down\",\"status\":\"RESOURCE_EXHAUSTED\"}}]\nPlease wait and try again later."),
			OutcomeRateLimited, "slow down", time.Time{}},
		"gemini: advice alone": {
			"gemini", geminiError("[API Error: [{\"oops\"]\nPlease wait and try again later. To increase your limits, …"),
			OutcomeRateLimited, "oops", time.Time{},
		},
		"gemini: when to come back": {"gemini", geminiError(`[API Error: {"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}]`),
			OutcomeRateLimited, "x", at("2026-11-22T10:00:34.5Z")},
		"gemini: nested": {
			"gemini",
			geminiError(`[API Error: {"error":{"message":"{\"error\":{\"code\":403,\"message\":\"no\",\"status\":\"PERMISSION_DENIED\"}}","code":403}}]`),
			OutcomeAuth, "no", time.Time{},
		},
		"gemini: words of a model": {
			"gemini", geminiError("the user says: Please wait and try again later."), OutcomeErrored, "the user", time.Time{},
		},
		"gemini: not logged in": {
			"gemini", `{"type":"result","status":"error","error":{"type":"FatalAuthenticationError","message":"log in"}}`,
			OutcomeAuth, "log in", time.Time{},
		},

		"opencode: no step ended": {
			"opencode", `{"type":"text","part":{"text":"Done."}}`, OutcomeEmpty, "without a result", time.Time{},
		},
		"opencode: calls to come": {
			"opencode", `{"type":"step_finish","part":{"reason":"tool-calls","tokens":{"input":1}}}`, OutcomeEmpty,
			"without a result", time.Time{},
		},
		"opencode: cut off": {
			"opencode", `{"type":"step_finish","part":{"reason":"length"}}`, OutcomeErrored, "length", time.Time{},
		},
		"opencode: error at the end": {
			"opencode",
			`{"type":"step_finish","part":{"reason":"stop"}}` + "\n" +
				`{"type":"error","error":{"name":"UnknownError","data":{"message":"boom"}}}`,
			OutcomeErrored, "boom", time.Time{},
		},
		"opencode: rate limit": {"opencode", `{"type":"error","timestamp":1795341600000,"error":{"name":"APIError","data":{"message":"slow","statusCode":429,"responseHeaders":{"retry-after":"60"}}}}`,
			OutcomeRateLimited, "slow", at("2026-11-22T10:01:00Z")},
		"opencode: a limit made final": {"opencode", `{"type":"error","timestamp":1795341600000,"error":{"name":"APIError","data":{"message":"slow","statusCode":400,"responseHeaders":{"retry-after":"60","x-ralph-provider-status":"429"}}}}`,
			OutcomeRateLimited, "slow", at("2026-11-22T10:01:00Z")},
		"opencode: a quota made final": {"opencode", `{"type":"error","error":{"name":"APIError","data":{"message":"pay","statusCode":400,"responseBody":"{\"error\":{\"message\":\"pay\",\"type\":\"insufficient_quota\"}}","responseHeaders":{"x-ralph-provider-status":"429"}}}}`,
			OutcomeCredit, "pay", time.Time{}},
		"opencode: no key": {
			"opencode", `{"type":"error","error":{"name":"ProviderAuthError","data":{"message":"no key"}}}`, OutcomeAuth,
			"no key", time.Time{},
		},

		"copilot: an exit code": {"copilot", `{"type":"result","exitCode":1}`, OutcomeErrored, "exit code 1", time.Time{}},
		"copilot: no exit code": {"copilot", `{"type":"result"}`, OutcomeErrored, "exit code", time.Time{}},
		"copilot: interrupted": {
			"copilot", `{"type":"abort","data":{"reason":"user_abort"}}` + "\n" + `{"type":"result","exitCode":0}`,
			OutcomeErrored, "user_abort", time.Time{},
		},
		"copilot: limit, stopped": {
			"copilot",
			`{"type":"model.call_failure","data":{"statusCode":429}}` + "\n" + `{"type":"abort","data":{"reason":"x"}}` + "\n" +
				`{"type":"result","exitCode":0}`,
			OutcomeRateLimited, "429", time.Time{},
		},
		"copilot: repeated well": {"copilot", `{"type":"model.call_failure","data":{"statusCode":500}}` + "\n" + `{"type":"assistant.message","data":{"content":"Done."}}` + "\n" + `{"type":"result","exitCode":0}`,
			OutcomeCompleted, "", time.Time{}},
		"copilot: not logged in": {
			"copilot", `{"type":"session.error","data":{"errorType":"authentication","message":"log in"}}`, OutcomeAuth,
			"log in", time.Time{},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := reads(t, tt.cli, []byte(tt.stream), 1<<20).Result
			if got.Outcome != tt.want || !strings.Contains(got.Error, tt.says) || !got.RetryAt.Equal(tt.retryAt) ||
				got.BadLines != 0 {
				t.Errorf("%+v, want %s: %q, again at %s", got, tt.want, tt.says, tt.retryAt)
			}
			if strings.ContainsAny(got.Error, "\n]") {
				t.Errorf("the error is not one clean line: %q", got.Error)
			}
		})
	}
}

// Usage comes out in the same terms, however a CLI counts.
func TestUsage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cli, stream string
		want        [4]int64 // input, output, read from the cache, written there
	}{
		"codex: of the whole thread": {"codex", `{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":60,"cache_write_input_tokens":10,"output_tokens":5}}
{"type":"turn.completed","usage":{"input_tokens":200,"cached_input_tokens":160,"cache_write_input_tokens":10,"output_tokens":9}}`, [4]int64{30, 9, 160, 10}},
		"gemini: thoughts count": {
			"gemini",
			`{"type":"result","status":"success","stats":{"input_tokens":100,"cached":40,"output_tokens":5,"total_tokens":135}}`,
			[4]int64{60, 35, 40, 0},
		},
		"opencode: step by step": {
			"opencode",
			strings.Repeat(`{"type":"step_finish","part":{"reason":"stop","tokens":{"input":10,"output":2,"reasoning":3,"cache":{"read":4,"write":1}}}}`+"\n", 2),
			[4]int64{20, 10, 8, 2},
		},
		"nobody pays back": {
			"opencode",
			`{"type":"step_finish","part":{"reason":"stop","tokens":{"input":-10,"output":"x","cache":7},"cost":-5}}`,
			[4]int64{},
		},
		"nobody uses up a number": {
			"codex", `{"type":"turn.completed","usage":{"input_tokens":1e300,"output_tokens":9e99}}`,
			[4]int64{maxCount, maxCount, 0, 0},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := reads(t, tt.cli, []byte(tt.stream), 1<<20).Result.Usage
			if got := [4]int64{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens}; got != tt.want ||
				u.CostUSD != 0 {
				t.Errorf("%v for $%f, want %v", got, u.CostUSD, tt.want)
			}
		})
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cli, stream string
		want        []string // tool, path, text
	}{
		"codex: once for start and end": {"codex", `{"type":"item.started","item":{"id":"1","type":"command_execution","command":"ls"}}
{"type":"item.completed","item":{"id":"1","type":"command_execution","command":"ls","aggregated_output":"x"}}`, []string{"exec_command||ls"}},
		"codex: files": {
			"codex",
			`{"type":"item.completed","item":{"id":"2","type":"file_change","changes":[{"path":"a","kind":"add"},{"path":"b","kind":"update"}]}}`,
			[]string{"apply_patch|a|add", "apply_patch|b|update"},
		},
		"codex: servers": {
			"codex", `{"type":"item.started","item":{"id":"3","type":"mcp_tool_call","server":"s","tool":"t"}}`,
			[]string{"t||s"},
		},
		"gemini": {
			"gemini", `{"type":"tool_use","tool_name":"write_file","parameters":{"content":"}{\"","file_path":"/w/a"}}`,
			[]string{"write_file|/w/a|/w/a"},
		},
		"opencode": {
			"opencode", `{"type":"tool_use","part":{"tool":"edit","state":{"input":{"filePath":"a"},"output":"x"}}}`,
			[]string{"edit|a|a"},
		},
		"copilot": {
			"copilot", `{"type":"tool.execution_start","data":{"toolName":"bash","arguments":{"command":"ls\u0000 -l"}}}`,
			[]string{"bash||ls -l"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := reads(t, tt.cli, []byte(tt.stream), 1<<20)
			var tools []string
			for _, a := range got.Activities {
				tools = append(tools, a.Tool+"|"+a.Path+"|"+a.Text)
			}
			if diff := cmp.Diff(tt.want, tools); diff != "" || got.Result.ToolCalls != len(tt.want) {
				t.Errorf("%d calls\n%s", got.Result.ToolCalls, diff)
			}
		})
	}
}

// A program that only prints has its exit code for a verdict.
func TestCommandOutcome(t *testing.T) {
	t.Parallel()
	end := func(code int, signal, reason string) Result {
		return reads(t, "command", []byte("first\r\n\x1b[31mlast\n"), 3).Result.WithExit(code, signal, reason, "")
	}
	tests := []struct {
		got  Result
		want Outcome
		says string
	}{
		{end(0, "", ""), OutcomeCompleted, ""},
		{end(3, "", ""), OutcomeErrored, "code 3"},
		{end(0, "SIGKILL", ""), OutcomeCrashed, "SIGKILL"},
		{end(1, "", "idle_timeout"), OutcomeCrashed, "idle_timeout"},
	}
	for _, tt := range tests {
		if tt.got.Outcome != tt.want || !strings.Contains(tt.got.Error, tt.says) || tt.got.FinalText != "first\nlast\n" {
			t.Errorf("%+v, want %s: %q", tt.got, tt.want, tt.says)
		}
	}
}

// busy makes a stream as a working agent prints it, of about so many bytes: most
// of them are what tools gave. It is made while it is read.
func busy(t testing.TB, cli string, size int) io.Reader {
	t.Helper()
	source := strings.Repeat("\tif err != nil {\n\t\treturn fmt.Errorf(\"read \\\"x\\\": %w\", err)\n\t}\n", 300)
	text, err := json.Marshal(source)
	if err != nil {
		t.Fatal(err)
	}
	first, last := "", ""
	turn := map[string]string{
		"codex": `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"Now I look at the next file."}}
{"type":"item.started","item":{"id":"item_2","type":"command_execution","command":"cat file.go","aggregated_output":"","exit_code":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_2","type":"command_execution","command":"cat file.go","aggregated_output":%s,"exit_code":0,"status":"completed"}}
`,
		"gemini": `{"type":"message","timestamp":"2026-11-22T01:59:46Z","role":"assistant","content":"Now I look at the next file.","delta":true}
{"type":"tool_use","timestamp":"2026-11-22T01:59:46Z","tool_name":"run_shell_command","tool_id":"1","parameters":{"command":"cat file.go","description":"Read"}}
{"type":"tool_result","timestamp":"2026-11-22T01:59:46Z","tool_id":"1","status":"success","output":%s}
`,
		"opencode": `{"type":"text","timestamp":1795312640569,"sessionID":"ses_1","part":{"id":"prt_1","messageID":"msg_1","sessionID":"ses_1","type":"text","text":"Now I look at the next file."}}
{"type":"tool_use","timestamp":1795312640718,"sessionID":"ses_1","part":{"type":"tool","tool":"bash","callID":"call_1","state":{"status":"completed","input":{"command":"cat file.go","description":"Read"},"output":%s,"metadata":{"exit":0,"truncated":false},"title":"cat file.go"},"id":"prt_2"}}
`,
		"copilot": `{"type":"assistant.message","data":{"messageId":"1","model":"gpt-5","content":"Now I look at the next file.","toolRequests":[{"toolCallId":"1","name":"bash","arguments":{"command":"cat file.go"}}]},"id":"1"}
{"type":"tool.execution_start","data":{"toolCallId":"1","toolName":"bash","arguments":{"command":"cat file.go","description":"Read"}},"id":"2"}
{"type":"tool.execution_complete","data":{"toolCallId":"1","success":true,"result":{"content":%s}},"id":"3"}
`,
	}[cli]
	switch cli {
	case "codex":
		last = `{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}`
	case "gemini":
		last = `{"type":"result","status":"success","stats":{}}`
	case "opencode":
		last = `{"type":"step_finish","part":{"reason":"stop","tokens":{"input":1,"output":1}}}`
	case "copilot":
		last = `{"type":"result","exitCode":0}`
	}
	unit := fmt.Appendf(nil, turn, text)
	rest := size/len(unit) + 1
	return io.MultiReader(strings.NewReader(first), &again{unit: unit, left: rest}, strings.NewReader(last+"\n"))
}

// again gives unit so many times.
type again struct {
	unit []byte
	at   int
	left int
}

func (r *again) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.unit[r.at:])
	if r.at += n; r.at == len(r.unit) {
		r.at, r.left = 0, r.left-1
	}
	return n, nil
}

func BenchmarkGigabyte(b *testing.B) {
	for _, cli := range feeds {
		b.Run(cli, func(b *testing.B) {
			b.SetBytes(1 << 30)
			for b.Loop() {
				p := parserOf(b, cli, nil)
				if _, err := io.CopyBuffer(struct{ io.Writer }{p}, busy(b, cli, 1<<30), make([]byte, 64<<10)); err != nil {
					b.Fatal(err)
				}
				if got := p.Close(); got.Outcome != OutcomeCompleted || got.BadLines != 0 {
					b.Fatalf("%+v", got)
				}
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapInuse)/(1<<20), "MB-heap")
		})
	}
}

// whole are the events of the CLIs with all of their members.
type (
	codexWhole struct {
		Type string `json:"type"`
		Item struct {
			ID, Type, Text, Command, Status, Message string
			AggregatedOutput                         string `json:"aggregated_output"`
			ExitCode                                 *int   `json:"exit_code"`
			Changes                                  []struct{ Path, Kind string }
		} `json:"item"`
		Usage struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
		} `json:"usage"`
		Error struct{ Message string } `json:"error"`
	}
	geminiWhole struct {
		Type, Timestamp, Role, Content, Status, Output string
		ToolName                                       string `json:"tool_name"`
		ToolID                                         string `json:"tool_id"`
		Parameters                                     struct{ Command, Description string }
		Stats                                          map[string]any
	}
	opencodeWhole struct {
		Type, SessionID string
		Timestamp       int64
		Part            struct {
			ID, MessageID, Type, Text, Tool, CallID, Reason string
			State                                           struct {
				Status, Output, Title string
				Input                 struct{ Command, Description string }
				Metadata              map[string]any
			}
			Tokens struct{ Input, Output int64 }
		}
	}
	copilotWhole struct {
		Type, ID string
		Data     struct {
			MessageID, Model, Content, ToolCallID, ToolName string
			ToolRequests                                    []struct {
				Name      string
				Arguments struct{ Command string }
			}
			Arguments struct{ Command, Description string }
			Success   bool
			Result    struct{ Content string }
		}
		ExitCode int
	}
)

// BenchmarkFeeds compares each parser, fed as a pipe feeds it, with one
// json.Unmarshal per line into the whole event.
func BenchmarkFeeds(b *testing.B) {
	event := map[string]func() any{
		"codex":    func() any { return &codexWhole{} },
		"gemini":   func() any { return &geminiWhole{} },
		"opencode": func() any { return &opencodeWhole{} },
		"copilot":  func() any { return &copilotWhole{} },
	}
	for _, cli := range feeds {
		input, err := io.ReadAll(busy(b, cli, 4<<20))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(cli+"/ours", func(b *testing.B) {
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				if got := reads(b, cli, input, 64<<10).Result; got.Outcome != OutcomeCompleted {
					b.Fatalf("%+v", got)
				}
			}
		})
		b.Run(cli+"/unmarshal", func(b *testing.B) {
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				for line := range bytes.Lines(input) {
					if err := json.Unmarshal(line, event[cli]()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func fuzzFeed(f *testing.F, cli string) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", cli, "*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		f.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(5))
	}
	f.Fuzz(func(t *testing.T, input []byte, chunk uint16) {
		whole := reads(t, cli, input, len(input)+1)
		if diff := cmp.Diff(whole, reads(t, cli, input, int(chunk)+1)); diff != "" {
			t.Errorf("-whole +cut:\n%s", diff)
		}
		r := whole.Result
		if r.Outcome == "" || (r.Error == "") != (r.Outcome == OutcomeCompleted) || r.BadLines > r.Lines ||
			len(r.FinalText) > maxFinalText {
			t.Errorf("%+v", r)
		}
		u := r.Usage
		for _, n := range []int64{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, int64(u.Turns)} {
			if n < 0 || n > maxCount {
				t.Errorf("usage %+v", u)
			}
		}
		if !(u.CostUSD >= 0 && u.CostUSD <= maxCost) || r.RetryAt.Year() > 9999 {
			t.Errorf("$%f, again at %s", u.CostUSD, r.RetryAt)
		}
		for _, a := range whole.Activities {
			if strings.ContainsAny(a.Text+a.Tool+a.Path, "\x1b\n\r\x00") {
				t.Errorf("control characters in %q", a)
			}
		}
		if _, err := json.Marshal(whole); err != nil {
			t.Errorf("result cannot be stored: %v", err)
		}
	})
}

func FuzzCodex(f *testing.F)    { fuzzFeed(f, "codex") }
func FuzzGemini(f *testing.F)   { fuzzFeed(f, "gemini") }
func FuzzOpencode(f *testing.F) { fuzzFeed(f, "opencode") }
func FuzzCopilot(f *testing.F)  { fuzzFeed(f, "copilot") }
func FuzzACP(f *testing.F)      { fuzzFeed(f, "acp") }

// What is picked out of an object is what encoding/json finds there.
func FuzzPick(f *testing.F) {
	for _, s := range []string{
		`{"type":"x","n":-1.5e3,"o":{"type":[1,"]"]},"s":"a\"}\\"}`, ` {} `, `{"type":null}`, `{"type":"é\u00e9"}`,
		`{"type":}`, `{"a":1,}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		values, ok := pick(b, "type", "n", "o")
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			return // what is no JSON only must not do harm
		}
		if !ok {
			t.Fatalf("%q is an object", b)
		}
		if bytes.Contains(b, []byte(`\u`)) {
			return // names are compared as they are written
		}
		for i, name := range []string{"type", "n", "o"} {
			if bytes.Count(b, fmt.Appendf(nil, "%q", name)) == 1 && !bytes.Equal(member(b, name), values[i]) {
				t.Errorf("%s: %q by itself, %q among others", name, member(b, name), values[i])
			}
			if got := string(values[i]); got != string(bytes.TrimSpace(want[name])) {
				t.Errorf("%s: %q, want %q", name, got, want[name])
			}
			var s string
			if json.Unmarshal(want[name], &s) == nil && text(values[i]) != s &&
				!bytes.ContainsFunc(want[name], func(r rune) bool { return r == '\uFFFD' }) {
				t.Errorf("%s: %q, want %q", name, text(values[i]), s)
			}
			var n float64
			if json.Unmarshal(want[name], &n) == nil && amount(values[i]) != n && !math.IsInf(amount(values[i]), 0) {
				t.Errorf("%s: %v, want %v", name, amount(values[i]), n)
			}
		}
	})
}
