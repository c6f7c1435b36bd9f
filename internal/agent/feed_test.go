package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the recordings of Codex do not show: endings that need a real endpoint, or luck, and
// what it used and did.
func TestCodexStream(t *testing.T) {
	t.Parallel()
	const done = `{"type":"turn.completed","usage":{}}` + "\n"
	failed := func(message string) string { return `{"type":"turn.failed","error":{"message":"` + message + `"}}` }
	used := func(usage string) string { return `{"type":"turn.completed","usage":{` + usage + "}}\n" }
	for name, tt := range map[string]struct {
		stream string
		want   Outcome
		says   string
		used   [4]int64 // input, output, read from the cache, written there
		tools  []string // tool, path, text
	}{
		"an error item is no failure": {
			stream: `{"type":"item.completed","item":{"id":"1","type":"error","message":"Model metadata not found"}}` + "\n" + done,
			want:   OutcomeCompleted,
		},
		"the last of two turns counts": {
			stream: done + `{"type":"turn.started"}` + "\n" + failed("exceeded retry limit, last status: 429 Too Many Requests"),
			want:   OutcomeRateLimited, says: "429",
		},
		"a turn that was begun again": {stream: done + `{"type":"turn.started"}`, want: OutcomeEmpty, says: "without a result"},
		"usage limit":                 {stream: failed("You've hit your usage limit. Try again at 3 PM."), want: OutcomeErrored, says: "usage limit"},
		"quota": {
			stream: failed(`{\"error\":{\"type\":\"insufficient_quota\",\"message\":\"pay first\"}}`), want: OutcomeCredit, says: "pay first",
		},
		"stopped retrying": {
			stream: `{"type":"error","message":"Reconnecting... 2/5 (unexpected status 503 Service Unavailable: x)"}`,
			want:   OutcomeUnavailable, says: "503",
		},
		"words of an agent": {stream: failed("the diff says 429 Too Many Requests"), want: OutcomeErrored, says: "the diff says"},
		"no message":        {stream: `{"type":"turn.failed"}`, want: OutcomeErrored, says: "reports an error"},
		"usage of the whole thread": {
			stream: used(`"input_tokens":100,"cached_input_tokens":60,"cache_write_input_tokens":10,"output_tokens":5`) +
				used(`"input_tokens":200,"cached_input_tokens":160,"cache_write_input_tokens":10,"output_tokens":9`),
			want: OutcomeCompleted, used: [4]int64{30, 9, 160, 10},
		},
		"nobody pays back": {stream: used(`"input_tokens":-10,"output_tokens":"x"`), want: OutcomeCompleted},
		"nobody uses up a number": {
			stream: used(`"input_tokens":1e300,"output_tokens":9e99`), want: OutcomeCompleted, used: [4]int64{maxCount, maxCount},
		},
		"calls once for start and end": {
			stream: `{"type":"item.started","item":{"id":"1","type":"command_execution","command":"ls"}}
{"type":"item.completed","item":{"id":"1","type":"command_execution","command":"ls","aggregated_output":"x"}}
{"type":"item.completed","item":{"id":"2","type":"file_change","changes":[{"path":"a","kind":"add"},{"path":"b","kind":"update"}]}}
{"type":"item.started","item":{"id":"3","type":"mcp_tool_call","server":"s","tool":"t"}}
` + done,
			want: OutcomeCompleted, tools: []string{"exec_command||ls", "apply_patch|a|add", "apply_patch|b|update", "t||s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := reads(t, "codex", []byte(tt.stream), 1<<20)
			var tools []string
			for _, a := range got.Activities {
				if a.Kind == ActivityTool {
					tools = append(tools, a.Tool+"|"+a.Path+"|"+a.Text)
				}
			}
			r, u := got.Result, got.Result.Usage
			used := [4]int64{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens}
			if r.Outcome != tt.want || !strings.Contains(r.Error, tt.says) || strings.ContainsAny(r.Error, "\n]") || r.BadLines != 0 ||
				used != tt.used || u.CostUSD != 0 || r.ToolCalls != len(tt.tools) {
				t.Errorf("%+v, want %s: %q, %v", r, tt.want, tt.says, tt.used)
			}
			if diff := cmp.Diff(tt.tools, tools); diff != "" {
				t.Error(diff)
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

func FuzzClaude(f *testing.F) { fuzzFeed(f, "claude") }
func FuzzCodex(f *testing.F)  { fuzzFeed(f, "codex") }
func FuzzACP(f *testing.F)    { fuzzFeed(f, "acp") }
