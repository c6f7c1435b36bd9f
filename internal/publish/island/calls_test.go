package island

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// calls are those of a run that used two models, and met the proxy.
func calls() []Call {
	return []Call{
		{Iteration: 1, TaskID: "T1", Models: []run.ModelUse{
			{
				Model: "claude-sonnet-4-5", Requests: 12,
				Usage: run.Usage{InputTokens: 300, CacheReadTokens: 41_000, OutputTokens: 2100, CostUSD: 0.41},
			},
			{Model: "claude-haiku-4-5", Requests: 1, Usage: run.Usage{InputTokens: 900, OutputTokens: 20}},
		}},
		{Iteration: 2, TaskID: "T2"}, // of which nothing is known
		{Iteration: 3, Hosts: []run.HostUse{
			{Host: "registry.npmjs.org", Count: 14, Sent: 9000, Received: 1 << 20},
			{Host: "evil.example", Blocked: "not in egress.allow", Count: 2},
		}},
	}
}

func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	c := Call{Iteration: 1}
	for i := range 30 {
		c.Models = append(c.Models, run.ModelUse{Model: fmt.Sprintf("model-%d", i)})
		c.Hosts = append(c.Hosts, run.HostUse{Host: fmt.Sprintf("%d.example", i), Count: 1},
			run.HostUse{Host: fmt.Sprintf("%d.example", i), Blocked: "why", Count: 1})
	}
	v := View{}
	for range 100 {
		v.Calls = append(v.Calls, c)
	}
	body := Render(v)
	for text, want := range map[string]int{
		"and 22 more": 3 * 50, "model-": maxNames * 50, "- Iteration": 50, "- … 50 calls earlier": 1,
		"Models and hosts: 30 hosts reached, 30 blocked": 1,
	} {
		if got := strings.Count(body, text); got != want {
			t.Errorf("%q: %d times, want %d", text, got, want)
		}
	}
	if body := Render(View{Calls: []Call{{Iteration: 1, TaskID: "T1"}}}); strings.Contains(body, "Models and hosts") {
		t.Errorf("nothing is told of:\n%s", body)
	}
}
