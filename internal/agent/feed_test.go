package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What the recordings do not show: endings that need a real endpoint, or luck.
func TestEndings(t *testing.T) {
	t.Parallel()
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
			OutcomeErrored, "usage limit", time.Time{},
		},
		"codex: quota": {
			"codex",
			`{"type":"turn.failed","error":{"message":"{\"error\":{\"type\":\"insufficient_quota\",\"message\":\"pay first\"}}"}}`,
			OutcomeCredit, "pay first", time.Time{},
		},
		"codex: stopped retrying": {
			"codex", `{"type":"error","message":"Reconnecting... 2/5 (unexpected status 503 Service Unavailable: x)"}`,
			OutcomeUnavailable, "503", time.Time{},
		},
		"codex: words of an agent": {
			"codex", `{"type":"turn.failed","error":{"message":"the diff says 429 Too Many Requests"}}`, OutcomeErrored,
			"the diff says", time.Time{},
		},
		"codex: no message": {"codex", `{"type":"turn.failed"}`, OutcomeErrored, "reports an error", time.Time{}},
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
		"nobody pays back": {"codex", `{"type":"turn.completed","usage":{"input_tokens":-10,"output_tokens":"x"}}`, [4]int64{}},
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
		return reads(t, "command", []byte("first\r\n\x1b[31mlast\n"), 3).Result.WithExit(code, signal, reason, "", time.Time{})
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
