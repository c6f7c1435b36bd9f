package host

import (
	"io"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent"
)

// TestResultWithoutAnEnd: whatever a process still prints after its agent's last message, it is
// waited for half a minute; an agent that goes on to work has all its time again.
func TestResultWithoutAnEnd(t *testing.T) {
	t.Parallel()
	backend, err := agent.Lookup("claude", agent.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const result = `{"type":"result","subtype":"success","result":"RALPH_RESULT: done"}` + "\n"
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	live := &liveAgent{parser: backend.NewParser(nil)}
	for _, step := range []struct {
		at     time.Duration
		prints string
		late   bool
	}{
		{0, `{"type":"assistant","message":{"content":[{"type":"text","text":"I work."}]}}` + "\n", false},
		{time.Hour, result, false},
		{time.Hour + endTime - 1, "a server: still here\n", false},
		{time.Hour + endTime, `{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash"}]}}` + "\n", false},
		{2 * time.Hour, result, false},
		{2*time.Hour + endTime, "a server: still here\n", true},
	} {
		if _, err := io.WriteString(live.parser, step.prints); err != nil {
			t.Fatal(err)
		}
		if late := live.late(begin.Add(step.at)); late != step.late {
			t.Errorf("after %s: late %t", step.at, late)
		}
	}
	got := live.parser.Close().WithExit(143, "SIGTERM", "", "", begin)
	if got.Outcome != agent.OutcomeCompleted {
		t.Errorf("the work does not count: %s", got.Outcome)
	}
}
