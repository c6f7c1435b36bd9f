package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
)

// TestPortableVariables: what portableralph is told of notifications and agents
// comes to the addresses and the agent of ours; the environment goes before the
// file, and values are not shown.
func TestPortableVariables(t *testing.T) {
	t.Parallel()
	env := map[string]string{portableDiscord: "https://discord.example/env", portableChat: ""}
	p := portable{
		asked: map[string]bool{}, env: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		file: map[string]string{
			portableSlack: "https://slack.example/file", portableDiscord: "https://discord.example/file",
			portableToken: "1:token", portableChat: "-100",
			envNotify: "script:/a script:/b", portableAgent: "custom", portableCommand: "my-ai --quiet", portableModel: "m",
			portableCommit: "false", "RALPH_EMAIL_HTML": "secret",
		},
	}
	want := []address{
		{envNotify, "script:/a"},
		{envNotify, "script:/b"},
		{portableSlack, "https://slack.example/file"},
		{portableDiscord, "https://discord.example/env"},
	}
	if diff := cmp.Diff(want, p.addresses(), cmp.AllowUnexported(address{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, a := range want[2:] {
		if err := checkNotify(a.address); err == nil { // webhooks need a secret
			t.Errorf("%s can be used", a.address)
		}
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
	var out bytes.Buffer
	p.tell(&out)
	if diff := cmp.Diff("settings of portableralph in ~/.ralph.env: RALPH_AI_COMMAND, RALPH_AI_TOOL, RALPH_AUTO_COMMIT, RALPH_MODEL, "+
		"RALPH_NOTIFY, RALPH_SLACK_WEBHOOK_URL, RALPH_TELEGRAM_BOT_TOKEN\nignored in ~/.ralph.env: RALPH_EMAIL_HTML\n", out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
