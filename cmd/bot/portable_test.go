package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
)

// TestPortableVariables: what portableralph is told of notifications and agents
// comes to the addresses and the agent of ours; the environment goes before the file.
func TestPortableVariables(t *testing.T) { //nolint:paralleltest // it sets variables
	t.Setenv(portableDiscord, "https://discord.example/env")
	t.Setenv(portableChat, "")
	p := portable{file: map[string]string{
		portableSlack: "https://slack.example/file", portableDiscord: "https://discord.example/file",
		portableToken: "1:token", portableChat: "-100", portableScript: "/own.sh",
		portableAgent: "custom", portableCommand: "my-ai --quiet", portableModel: "m", portableCommit: "false",
	}}
	want := map[string]string{
		portableSlack: "https://slack.example/file", portableDiscord: "https://discord.example/env", portableScript: "script:/own.sh",
	}
	if diff := cmp.Diff(want, p.addresses()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := p.agent(config.Agent{}); got.Name != config.AgentCommand || got.Command != "my-ai --quiet" || got.Model != "m" {
		t.Errorf("agent %+v", got)
	}
	if got := p.agent(config.Agent{Name: "codex"}); got != (config.Agent{Name: "codex"}) {
		t.Errorf("one's own configuration goes before: %+v", got)
	}
	if !p.leavesWork() {
		t.Error("RALPH_AUTO_COMMIT=false is not heeded")
	}
}
