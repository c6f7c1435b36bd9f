package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"

	"github.com/org/ralph-action/internal/run"
)

// told is a run as it would be told on a screen, by a clock that stands still unless
// a test moves it.
type told struct {
	*live
	out strings.Builder
	at  time.Time
}

func newTold(t *testing.T, s screen) *told {
	t.Helper()
	tt := &told{at: time.Date(2026, 11, 23, 22, 47, 0, 0, time.Local)}
	if s.width == nil {
		s.width = func() int { return defaultWidth }
	}
	tt.live = &live{w: &tt.out, screen: s, now: func() time.Time { return tt.at }, stop: make(chan struct{})}
	tt.status.Started, tt.said = tt.at, tt.at
	t.Cleanup(tt.close)
	return tt
}

// after lets time pass, and has the screen look at the clock.
func (tt *told) after(d time.Duration) {
	tt.at = tt.at.Add(d)
	tt.beat()
}

// shows gives what was written since it was asked last.
func (tt *told) shows() string {
	s := tt.out.String()
	tt.out.Reset()
	return s
}

// story is a run of two tasks, the second of which fails once.
func story() []run.Event {
	return []run.Event{
		{Kind: run.EventRunStarted, Text: "Say hello", Total: 2},
		{Kind: run.EventIteration, Iteration: 1, TaskID: "T1", TaskTitle: "one", Total: 2},
		{Kind: run.EventAgentStarted, Iteration: 1, TaskID: "T1", Total: 2},
		{Kind: run.EventAgentActivity, Text: "Write one.txt\x1b[2J\u202e\u200f"},
		{Kind: run.EventAgentFinished, Iteration: 1, TaskID: "T1", CostUSD: 0.5},
		{Kind: run.EventCommitted, Text: "0123456789abcdef", Iteration: 1, TaskID: "T1"},
		{Kind: run.EventTaskDone, Iteration: 1, TaskID: "T1", Done: 1, Total: 2, CostUSD: 0.5},
		{Kind: run.EventIteration, Iteration: 2, TaskID: "T2", TaskTitle: "two", Done: 1, Total: 2, CostUSD: 0.5},
		{Kind: run.EventAgentActivity, Text: "thinking"},
		{Kind: run.EventGateStarted, Iteration: 2, Gate: "go test", CostUSD: 0.5},
		{Kind: run.EventGate, Text: "go test failed in 1s", Iteration: 2},
		{Kind: run.EventTaskBlocked, Text: "it fails", Iteration: 2, TaskID: "T2"},
		{Kind: run.EventRunEnded, End: run.EndBlocked, Iteration: 6, Iterations: 2, CostUSD: 0.5},
	}
}

func TestLiveInPlainLines(t *testing.T) {
	t.Parallel()
	tt := newTold(t, screen{})
	for _, ev := range story() {
		tt.at = tt.at.Add(time.Second)
		tt.handle(ev)
	}
	want := `▶ Say hello: 0 of 2 tasks done
  iteration 1: T1 one
    commit 0123456789
    ✓ T1 (1 of 2, 7s, $0.50)
  iteration 2: T2 two
    go test failed in 1s
    ✗ T2 is blocked: it fails
■ Stopped: all remaining tasks are blocked (2 iterations, 13s, $0.50)
`
	if diff := cmp.Diff(want, tt.shows()); diff != "" {
		t.Error(diff)
	}
}

// TestLiveOnATerminal: one line is rewritten; what an agent says cannot drive
// the terminal.
func TestLiveOnATerminal(t *testing.T) {
	t.Parallel()
	tt := newTold(t, screen{inPlace: true})
	for _, ev := range story() {
		tt.handle(ev)
	}
	tt.close()
	tt.close()
	got := tt.shows()
	for _, want := range []string{
		"  iteration 1 · T1 · Write one.txt[2J · 0s\r\x1b[K",
		"  iteration 2 · T2 · thinking · 0s · $0.50\r\x1b[K",
		"  iteration 2 · T2 · running go test · 0s · $0.50\r\x1b[K    go test failed",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if strings.Contains(got, "\x1b[2J") || strings.Contains(got, "\u202e") || strings.Contains(got, "\u200f") {
		t.Error("the agent's escape sequence came through")
	}
	if !strings.HasSuffix(got, "$0.50)\n") {
		t.Errorf("the rewritten line was left standing: %q", got)
	}
}

// TestLiveSaysALineAMinute: where no line can be rewritten, a silent step is told of
// once a minute, and a run that says something is left alone.
func TestLiveSaysALineAMinute(t *testing.T) {
	t.Parallel()
	tt := newTold(t, screen{})
	tt.handle(run.Event{Kind: run.EventIteration, Iteration: 1, TaskID: "T1", TaskTitle: "one", Total: 1})
	tt.handle(run.Event{
		Kind: run.EventAgentActivity, Text: "Bash(go test ./...)", Usage: run.Usage{InputTokens: 48_000, OutputTokens: 321},
	})
	tt.shows()
	tt.after(59 * time.Second)
	if got := tt.shows(); got != "" {
		t.Errorf("before a minute it says %q", got)
	}
	tt.after(time.Second)
	tt.after(30 * time.Second)
	tt.after(30 * time.Second)
	want := `  iteration 1 · T1 · Bash(go test ./...) · 1m0s · 48k tokens
  iteration 1 · T1 · Bash(go test ./...) · 2m0s · 48k tokens
`
	if diff := cmp.Diff(want, tt.shows()); diff != "" {
		t.Error(diff)
	}
	tt.handle(run.Event{Kind: run.EventGate, Text: "go test passed in 2m", Iteration: 1})
	tt.shows()
	tt.after(10 * time.Minute)
	if got := tt.shows(); got != "" {
		t.Errorf("with nothing under way it says %q", got)
	}
}

// TestLiveCountsDown: a wait shows how long it still takes, and when it is over on the
// person's own clock.
func TestLiveCountsDown(t *testing.T) {
	t.Parallel()
	tt := newTold(t, screen{inPlace: true})
	tt.handle(run.Event{Kind: run.EventIteration, Iteration: 3, TaskID: "T2", Total: 2})
	tt.handle(run.Event{Kind: run.EventWaiting, Iteration: 3, TaskID: "T2", Text: "busy", Until: tt.at.Add(time.Minute).UTC()})
	tt.shows()
	for _, tc := range []struct {
		pass time.Duration
		want string
	}{
		{2 * time.Second, "busy; retrying in 58 s (22:48)"},
		{57 * time.Second, "busy; retrying in 1 s (22:48)"},
		{time.Second, "busy; retrying"},
	} {
		tt.after(tc.pass)
		if got, want := tt.shows(), "\r\x1b[K  iteration 3 · T2 · "+tc.want; got != want {
			t.Errorf("it shows %q, want %q", got, want)
		}
	}
}

// TestLiveFitsItsScreen: whatever is shown, the rewritten line is one line.
func TestLiveFitsItsScreen(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Bash(" + strings.Repeat("x", 500) + ")", strings.Repeat("世", 300), strings.Repeat("👩‍👩‍👧", 90), "e" + strings.Repeat("\u0301", 400),
		"a\nb\r\tc\x1b]0;title\x07\x9b2J",
	} {
		for _, width := range []int{20, 40, 80, 200} {
			tt := newTold(t, screen{inPlace: true, width: func() int { return width }})
			tt.handle(run.Event{Kind: run.EventIteration, Iteration: 12, TaskID: "T12", Total: 40, CostUSD: 12.34, Tokens: 1_234_567})
			tt.shows()
			tt.handle(run.Event{Kind: run.EventAgentActivity, Text: text})
			line := strings.TrimPrefix(tt.shows(), "\r\x1b[K")
			if n := runewidth.StringWidth(line); n >= width || strings.ContainsAny(line, "\n\r\x1b\x07\t") {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
			if width == 80 && !strings.HasSuffix(line, "1.2M tokens · $12.34") {
				t.Errorf("the figures are cut away: %q", line)
			}
		}
	}
}

// TestOnceShowsHowItsIterationWent: an iteration that was asked for and came to nothing
// is no success.
func TestOnceShowsHowItsIterationWent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind run.EventKind
		want string
	}{{run.EventTaskDone, "✓ "}, {run.EventAttemptFailed, "■ "}, {run.EventTaskGoesOn, "■ "}} {
		tt := newTold(t, screen{})
		tt.handle(run.Event{Kind: run.EventIteration, Iteration: 1, TaskID: "T1", Total: 2})
		tt.handle(run.Event{Kind: tc.kind, Iteration: 1, TaskID: "T1", Total: 2})
		tt.shows()
		tt.handle(run.Event{Kind: run.EventRunEnded, End: run.EndSingleIteration, Iteration: 1, Iterations: 1})
		if got := tt.shows(); !strings.HasPrefix(got, tc.want) {
			t.Errorf("after %s: %s", tc.kind, got)
		}
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		plannings, iterations int
		want                  string
	}{{0, 0, "0 iterations"}, {1, 0, "1 planning call"}, {2, 1, "2 planning calls, 1 iteration"}} {
		if got := calls(run.Event{Plannings: tc.plannings, Iterations: tc.iterations}); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

func TestScreenOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		env    map[string]string
		colour bool
	}{
		{name: "a pipe"},
		{name: "forced", env: map[string]string{"CLICOLOR_FORCE": "1"}, colour: true},
		{name: "forced on a dumb one", env: map[string]string{"CLICOLOR_FORCE": "1", "TERM": "dumb"}, colour: true},
		{name: "not forced", env: map[string]string{"CLICOLOR_FORCE": "0"}},
		{name: "neither", env: map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := screenOf(&strings.Builder{}, func(name string) string { return tc.env[name] })
			if s.colour != tc.colour || s.inPlace || s.width() != defaultWidth {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestLiveColours(t *testing.T) {
	t.Parallel()
	tt := newTold(t, screen{colour: true})
	tt.handle(run.Event{Kind: run.EventTaskDone, TaskID: "T1", Done: 1, Total: 1})
	tt.handle(run.Event{Kind: run.EventAttemptFailed, Text: "\x1b[32mno"})
	want := "\x1b[32m    ✓ T1 (1 of 1, 0s)\x1b[0m\n\x1b[31m    ✗ [32mno\x1b[0m\n"
	if got := tt.shows(); got != want {
		t.Errorf("%q", got)
	}
}

// TestWaiting: a wait is told by what for, how long still, and until when on the clock of
// whoever looks; the rest of it grows shorter.
func TestWaiting(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 22, 47, 0, 0, time.Local)
	for left, want := range map[time.Duration]string{
		time.Minute:                 "Rate limited; retrying in 60 s (22:48)",
		90 * time.Second:            "Rate limited; retrying in 90 s (22:48)",
		5 * time.Minute:             "Rate limited; retrying in 5m (22:52)",
		2*time.Hour + 3*time.Minute: "Rate limited; retrying in 2h3m (00:50)",
		-time.Second:                "Rate limited; retrying",
	} {
		if got := waiting(run.Event{Text: "Rate limited", Until: now.Add(left)}, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
