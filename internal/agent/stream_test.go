package agent

import (
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// parse feeds the input in chunks of n bytes (0: whole).
func parse(t testing.TB, input []byte, n int) (Result, []Activity) {
	t.Helper()
	var seen []Activity
	p := newFeed(func(a Activity) { seen = append(seen, a) }, &claudeDialect{})
	if n == 0 {
		n = max(len(input), 1)
	}
	for len(input) > 0 {
		k := min(n, len(input))
		if wrote, err := p.Write(input[:k]); wrote != k || err != nil {
			t.Fatalf("Write took %d of %d bytes: %v", wrote, k, err)
		}
		input = input[k:]
	}
	return p.Close(), seen
}

const okResult = `{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"ok","total_cost_usd":0.5,"usage":{"input_tokens":10,"output_tokens":2}}`

func TestStream(t *testing.T) {
	t.Parallel()
	okUsage := run.Usage{InputTokens: 10, OutputTokens: 2, CostUSD: 0.5, Turns: 1}
	const noResult = "the agent ended without a result"
	tests := []struct {
		name  string
		lines []string
		want  Result
	}{
		{
			name: "nothing at all",
			want: Result{Outcome: OutcomeEmpty, Error: noResult},
		},
		{
			name:  "blank lines do not count",
			lines: []string{"", "  \r", okResult, ""},
			want:  Result{Outcome: OutcomeCompleted, FinalText: "ok", Usage: okUsage, Lines: 1},
		},
		{
			name: "a bad line costs that line only",
			lines: []string{
				"npm warn deprecated", `{"type":"assistant","message":{"content":[`, "\x00\xff", `{"type":"result","is_error":}`,
				"[]", "null", okResult, `{"half`,
			},
			want: Result{Outcome: OutcomeCompleted, FinalText: "ok", Usage: okUsage, Lines: 8, BadLines: 7},
		},
		{
			name: "several results: usage adds up, cost and verdict are the last",
			lines: []string{
				okResult,
				`{"type":"result","subtype":"success","is_error":false,"num_turns":3,"result":"second","total_cost_usd":0.75,"usage":{"input_tokens":5,"output_tokens":1,"cache_read_input_tokens":7,"cache_creation_input_tokens":8}}`,
			},
			want: Result{
				Outcome: OutcomeCompleted, FinalText: "second", Lines: 2,
				Usage: run.Usage{
					InputTokens: 15, OutputTokens: 3, CacheReadTokens: 7, CacheWriteTokens: 8, CostUSD: 0.75, Turns: 4,
				},
			},
		},
		{
			name: "a good result after a bad one is good",
			lines: []string{
				`{"type":"result","subtype":"success","is_error":true,"api_error_status":500,"result":"API Error: 500"}`, okResult,
			},
			want: Result{Outcome: OutcomeCompleted, FinalText: "ok", Usage: okUsage, Lines: 2},
		},
		{
			name:  "a bad result after a good one is bad",
			lines: []string{okResult, `{"type":"result","subtype":"error_during_execution","is_error":false,"num_turns":0}`},
			want:  Result{Outcome: OutcomeErrored, Error: "error_during_execution", Usage: okUsage, Lines: 2},
		},
		{
			name: "words are no class",
			lines: []string{
				`{"type":"assistant","message":{"content":[{"type":"text","text":"429 rate_limit authentication_failed: credit balance is too low"}]}}`,
				`{"type":"result","subtype":"success","is_error":true,"result":"I added @upstash/ratelimit; got 429 Too Many Requests"}`,
			},
			want: Result{
				Outcome: OutcomeErrored, Error: "I added @upstash/ratelimit; got 429 Too Many Requests",
				FinalText: "I added @upstash/ratelimit; got 429 Too Many Requests", Lines: 2,
			},
		},
		{
			name: "an error that was overcome is no class",
			lines: []string{
				`{"type":"assistant","error":"rate_limit","message":{"content":[{"type":"text","text":"limit"}]}}`,
				`{"type":"assistant","message":{"content":[{"type":"text","text":"on we go"}]}}`,
				`{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["too many","turns"]}`,
			},
			want: Result{Outcome: OutcomeErrored, Error: "too many; turns", FinalText: "on we go", Lines: 3},
		},
		{
			name: "a limit that is only a warning sets no time",
			lines: []string{
				`{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1795176290}}`,
				`{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"no"}`,
			},
			want: Result{Outcome: OutcomeRateLimited, Error: "no", FinalText: "no", Lines: 2},
		},
		{
			name: "times nobody can store are left out",
			lines: []string{
				`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":9000000000000000}}`,
				`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":-5}}`,
				`{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"no"}`,
			},
			want: Result{Outcome: OutcomeRateLimited, Error: "no", FinalText: "no", Lines: 3},
		},
		{
			name: "killed while waiting for the credentials to work",
			lines: []string{
				`{"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"error_status":401,"error":"authentication_failed"}`,
			},
			want: Result{
				Outcome: OutcomeAuth, Error: "the model API answered 401 (authentication_failed); attempt 2 of 10 failed", Lines: 1,
			},
		},
		{
			name: "killed while the API was away",
			lines: []string{
				`{"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"error_status":null,"error":"unknown"}`,
			},
			want: Result{Outcome: OutcomeEmpty, Error: noResult, Lines: 1},
		},
		{
			name: "killed after the retry went through",
			lines: []string{
				`{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error_status":529,"error":"overloaded"}`,
				`{"type":"assistant","message":{"content":[{"type":"text","text":"working"}]}}`,
			},
			want: Result{Outcome: OutcomeEmpty, Error: noResult, FinalText: "working", Lines: 2},
		},
		{
			name: "content at the top level, as text, and from a sub-agent",
			lines: []string{
				`{"type":"assistant","content":[{"type":"text","text":"old"},{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}`,
				`{"type":"assistant","message":{"content":"plain"}}`,
				`{"type":"assistant","parent_tool_use_id":"toolu_1","message":{"content":[{"type":"text","text":"sub"},{"type":"tool_use","name":"Read","input":"odd"}]}}`,
			},
			want: Result{Outcome: OutcomeEmpty, Error: noResult, FinalText: "plain", Lines: 3, ToolCalls: 2},
		},
		{
			name: "members of an unexpected type do not spoil the rest",
			lines: []string{
				`{"subtype":"init","model":7,"claude_code_version":"9.9","type":"system","tools":{"a":1}}`,
				`{"type":"result","subtype":"success","is_error":false,"num_turns":"many","result":{"a":1},"total_cost_usd":"free","usage":{"input_tokens":1.5,"output_tokens":4}}`,
			},
			want: Result{Outcome: OutcomeCompleted, Version: "9.9", Usage: run.Usage{InputTokens: 1, OutputTokens: 4}, Lines: 2},
		},
		{
			name: "claims beyond reason are bounded",
			lines: []string{
				`{"type":"result","num_turns":-3,"total_cost_usd":-1,"usage":{"input_tokens":-5,"output_tokens":9223372036854775807}}`,
				`{"type":"result","num_turns":9223372036854775807,"total_cost_usd":1e300,"usage":{"output_tokens":9223372036854775807}}`,
			},
			want: Result{
				Outcome: OutcomeCompleted, Usage: run.Usage{OutputTokens: maxCount, CostUSD: maxCost, Turns: maxCount}, Lines: 2,
			},
		},
		{
			name:  "unknown events are signs of life",
			lines: []string{`{"type":"stream_event","event":{}}`, `{"event":{},"type":"brand_new"}`, `{"no":"type"}`, okResult},
			want:  Result{Outcome: OutcomeCompleted, FinalText: "ok", Usage: okUsage, Lines: 4, BadLines: 1},
		},
		{
			name: "control characters are gone from the final text, lines stay",
			lines: []string{
				`{"type":"result","subtype":"success","result":"a\u001b[31mred\u001b[0m\u001b]0;title\u0007\r\n\tb\u0000\u009b\u202e\u200dc"}`,
			},
			want: Result{Outcome: OutcomeCompleted, FinalText: "ared\n\tb\u200dc", Lines: 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			input := []byte(strings.Join(tt.lines, "\n"))
			for _, n := range []int{0, 1, 3} {
				got, _ := parse(t, input, n)
				got.Answered = false
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("chunks of %d (-want +got):\n%s", n, diff)
				}
			}
		})
	}
}

func TestActivityTextIsOneBoundedLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä\u001b[1m", 1<<18)
	line, err := json.Marshal(object{"type": "assistant", "message": object{"content": []object{
		{"type": "text", "text": "one\r\ntwo\tthree " + long},
		{"type": "tool_use", "name": "Wri\x1b[31mte", "input": object{"file_path": "/w/a\nb" + long}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	_, got := parse(t, line, 0)
	if len(got) != 2 || !strings.HasPrefix(got[0].Text, "one two three ä") || got[1].Tool != "Write" {
		t.Fatalf("activities: %.200q", got)
	}
	for _, a := range got {
		for _, text := range []string{a.Text, a.Path} {
			if n := len([]rune(text)); n > maxActivityText || strings.ContainsAny(text, "\n\r\x1b") {
				t.Errorf("%d characters: %.80q", n, text)
			}
		}
	}
}

func TestFinalTextKeepsTheEnd(t *testing.T) {
	t.Parallel()
	line, err := json.Marshal(object{"type": "result", "result": strings.Repeat("€", 1<<20) + "\nthe end"})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := parse(t, line, 0)
	if len(got.FinalText) > maxFinalText || !strings.HasSuffix(got.FinalText, "€\nthe end") ||
		!strings.HasPrefix(got.FinalText, "€") {
		t.Errorf("%d bytes: %.20q … %.20q", len(got.FinalText), got.FinalText, got.FinalText[len(got.FinalText)-20:])
	}
}

// repeated is a reader of n times the same byte.
type repeated struct {
	b byte
	n int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	k := min(len(p), r.n)
	for i := range p[:k] {
		p[i] = r.b
	}
	r.n -= k
	return k, nil
}

func TestHugeLineCostsThatLineOnly(t *testing.T) {
	// Not parallel: it looks at the heap.
	for _, size := range []int{maxLine - 64, maxLine + 64, 50 << 20} {
		p := newFeed(nil, &claudeDialect{})
		head, foot := `{"type":"user","x":"`, `"}`
		fill := &repeated{b: 'x', n: size - len(head) - len(foot)}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		in := io.MultiReader(strings.NewReader(head), fill, strings.NewReader(foot+"\n"+okResult+"\n"))
		if _, err := io.CopyBuffer(struct{ io.Writer }{p}, in, make([]byte, 32<<10)); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		got := p.Close()
		over := size > maxLine
		if got.Outcome != OutcomeCompleted || got.Lines != 2 || got.Truncated != over || (got.BadLines == 1) != over {
			t.Errorf("%d bytes: %+v", size, got)
		}
		if held := cap(p.part); held > 1<<20 {
			t.Errorf("%d bytes: %d bytes kept afterwards", size, held)
		}
		// Growing by doubling allocates about six times the limit in all,
		// whatever the length of the line.
		if total := after.TotalAlloc - before.TotalAlloc; total > 8*maxLine {
			t.Errorf("%d bytes: %d MB allocated", size, total>>20)
		}
	}
}

func TestWithExit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		outcome        Outcome
		code           int
		signal, reason string
		want           Outcome
		err            string
	}{
		{OutcomeCompleted, 0, "", "", OutcomeCompleted, ""},
		{OutcomeEmpty, 0, "", "", OutcomeEmpty, ""},
		{OutcomeErrored, 1, "", "", OutcomeErrored, ""},
		{OutcomeRateLimited, 1, "", "", OutcomeRateLimited, ""},
		{OutcomeRateLimited, 143, "SIGTERM", "idle", OutcomeRateLimited, ""},
		{OutcomeAuth, 1, "", "", OutcomeAuth, ""},
		{OutcomeCredit, 0, "", "", OutcomeCredit, ""},
		{OutcomeCompleted, 1, "", "", OutcomeCompleted, ""},
		{OutcomeCompleted, 137, "SIGKILL", "", OutcomeCompleted, ""},
		{OutcomeCompleted, 143, "SIGTERM", "idle for 10m", OutcomeCompleted, ""},
		{OutcomeEmpty, 1, "", "", OutcomeCrashed, "the agent exited with code 1 without a result"},
		{OutcomeEmpty, 139, "SIGSEGV", "", OutcomeCrashed, "the agent was killed by signal SIGSEGV without a result"},
		{
			OutcomeEmpty, 143, "SIGTERM", "idle\nfor 10m", OutcomeCrashed,
			"the agent was stopped without a result: idle for 10m",
		},
	}
	for _, tt := range tests {
		got := Result{Outcome: tt.outcome, Answered: true}.WithExit(tt.code, tt.signal, tt.reason, "", noon)
		if got.Outcome != tt.want || got.Error != tt.err {
			t.Errorf("%s with exit %d %s %q: %s %q, want %s %q",
				tt.outcome, tt.code, tt.signal, tt.reason, got.Outcome, got.Error, tt.want, tt.err)
		}
	}
}

func TestActivityInWords(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]Activity{
		"Bash(go test ./...)": {Kind: ActivityTool, Tool: "Bash", Text: "go test ./..."},
		"Edit slug.go":        {Kind: ActivityTool, Tool: "Edit", Text: "slug.go", Path: "slug.go"},
		"Grep(func) src":      {Kind: ActivityTool, Tool: "Grep", Text: "func", Path: "src"},
		"TodoWrite":           {Kind: ActivityTool, Tool: "TodoWrite"},
		"I am done":           {Kind: ActivityText, Text: "I am done"},
	} {
		if got := a.String(); got != want {
			t.Errorf("%+v: %q", a, got)
		}
	}
}
