package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/run"
)

// TestServeLogsRuns: an operator reads in the log that a run began, what it landed, and
// how it ended; what an agent does is for who watches one run.
func TestServeLogsRuns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tell := logRuns(zerolog.New(&out))
	for _, ev := range []run.Event{
		{Kind: run.EventRunStarted, Total: 2, Text: "Say hello"},
		{Kind: run.EventAgentActivity, Text: "Bash(ls)"},
		{Kind: run.EventTaskDone, TaskID: "T1", Done: 1, Total: 2, CostUSD: 0.1 + 0.2},
		{
			Kind: run.EventRunEnded, End: run.EndBudgetExhausted, Text: "spent", Iterations: 3, CostUSD: 0.5,
			Duration: 90*time.Second + time.Millisecond,
		},
	} {
		ev.Run, ev.Repo, ev.Subject = "r1", "ada/hello", "Say\x1b[2J hello"
		tell(ev)
	}
	var got []map[string]any
	for line := range strings.Lines(out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{"run": "r1", "repo": "ada/hello", "subject": "Say[2J hello", "level": "info"} {
			if m[key] != want {
				t.Errorf("%s is %v in %s", key, m[key], line)
			}
			delete(m, key)
		}
		got = append(got, m)
	}
	want := []map[string]any{
		{"message": "run began", "tasks": 2.0, "done": 0.0},
		{"message": "task landed", "task": "T1", "tasks": 2.0, "done": 1.0, "cost_usd": 0.3},
		{
			"message": "run ended", "end": "budget_exhausted", "detail": "spent", "iterations": 3.0, "cost_usd": 0.5,
			"took": "1m30s",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
