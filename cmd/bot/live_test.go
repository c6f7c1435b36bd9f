package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// story is a run of two tasks, the second of which fails once.
func story() []run.Event {
	return []run.Event{
		{Kind: run.EventRunStarted, Text: "Say hello", Total: 2},
		{Kind: run.EventIteration, Iteration: 1, TaskID: "T1", TaskTitle: "one", Total: 2},
		{Kind: run.EventAgentStarted, Iteration: 1, TaskID: "T1", Total: 2},
		{Kind: run.EventAgentActivity, Text: "Write one.txt\x1b[2J\u202e", Iteration: 1},
		{Kind: run.EventCommitted, Text: "0123456789abcdef", Iteration: 1, TaskID: "T1"},
		{Kind: run.EventTaskDone, Iteration: 1, TaskID: "T1", Done: 1, Total: 2, CostUSD: 0.5},
		{Kind: run.EventIteration, Iteration: 2, TaskID: "T2", TaskTitle: "two", Done: 1, Total: 2, CostUSD: 0.5},
		{Kind: run.EventAgentActivity, Text: "thinking", Iteration: 2, CostUSD: 0.5},
		{Kind: run.EventGate, Text: "go test failed in 1s", Iteration: 2},
		{Kind: run.EventTaskBlocked, Text: "it fails", Iteration: 2, TaskID: "T2"},
		{Kind: run.EventRunEnded, End: run.EndBlocked, Iteration: 6, Iterations: 2, CostUSD: 0.5},
	}
}

func tell(tty bool) string {
	var b strings.Builder
	now := time.Unix(0, 0)
	l := newLive(&b, func() time.Time { return now }, nil)
	l.tty = tty
	for _, ev := range story() {
		now = now.Add(time.Second)
		l.handle(ev)
	}
	l.close()
	l.close()
	return b.String()
}

func TestLiveInPlainLines(t *testing.T) {
	t.Parallel()
	want := `▶ Say hello: 0 of 2 tasks done
  iteration 1: T1 one
    commit 0123456789
    ✓ T1 (1 of 2, 6s, $0.50)
  iteration 2: T2 two
    go test failed in 1s
    ✗ T2 is blocked: it fails
■ Stopped because every open task has used all its attempts (2 iterations, 11s, $0.50)
`
	if diff := cmp.Diff(want, tell(false)); diff != "" {
		t.Error(diff)
	}
}

// TestLiveOnATerminal: one line is rewritten; what an agent says cannot drive
// the terminal.
func TestLiveOnATerminal(t *testing.T) {
	t.Parallel()
	got := tell(true)
	for _, want := range []string{
		"  [task 1 of 2] iteration 1 · 4s · T1 Write one.txt[2J\r\x1b[K    commit",
		"  [task 2 of 2] iteration 2 · 8s, $0.50 · T2 thinking\r\x1b[K    go test failed",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if strings.Contains(got, "\x1b[2J") || strings.Contains(got, "\u202e") {
		t.Error("the agent's escape sequence came through")
	}
	if strings.HasSuffix(got, "thinking") {
		t.Error("the rewritten line was left standing")
	}
}
