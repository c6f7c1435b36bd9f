//go:build claude

// The tests in this file are the first minutes of somebody who is not root with the real
// Claude Code, as it is installed, against a scripted model on loopback.

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent/agenttest"
)

// claudeLayouts are ways in which people install Claude Code: what puts it into their home, and the directory that is in
// their PATH. The others are those of internal/sandbox/local.
var claudeLayouts = map[string]struct {
	dir  string
	make func(n *beginner, program string)
}{
	"the native installer": {".local/bin", func(n *beginner, program string) {
		place(n.t, program, n.home+"/.local/share/claude/versions/2.1.197")
		n.write(".local/bin/claude", "→ "+n.home+"/.local/share/claude/versions/2.1.197", 0)
	}},
	"a wrapper": {"bin", func(n *beginner, program string) {
		place(n.t, program, n.home+"/tools/claude-real")
		n.write("bin/claude", "#!/bin/sh\nexport COLOR=1\nexec \""+n.home+"/tools/claude-real\" \"$@\"\n", 0o755)
		n.write(".config/ralph/config.yml", "sandbox: {show: ["+n.home+"/tools]}\n", 0o644)
	}},
}

// TestFirstRunOfEachInstallation: doctor starts it in the sandbox, it works a plan there,
// and finds nothing of the home.
func TestFirstRunOfEachInstallation(t *testing.T) {
	t.Parallel()
	for name, layout := range claudeLayouts {
		for _, isolation := range []string{"bwrap", "auto", "none"} {
			if isolation == "bwrap" && name != "the native installer" {
				continue // to the file system it is as auto
			}
			t.Run(name+", "+isolation, func(t *testing.T) {
				t.Parallel()
				n := newBeginner(t)
				layout.make(n, claudePath(t))
				var leaks []string
				_, url := newModel(t, "sk-ant-canary", n.greets(&leaks))
				n.path = []string{layout.dir}
				n.env = []string{"ANTHROPIC_API_KEY=sk-ant-canary", "ANTHROPIC_BASE_URL=" + url, "RALPH_LOCAL_ISOLATION=" + isolation}
				if code, said := n.types("doctor"); code != 0 || !strings.Contains(said, "✓ agent           claude 2.") {
					t.Errorf("exit code %d:\n%s", code, said)
				}
				code, said := n.types("run", "plan.md", "--gate", "test -s greeting.txt")
				if isolation == "none" {
					leaks = nil // it has whatever its user has
				}
				n.worked(code, said, leaks)
			})
		}
	}
}

// withClaude is somebody with the native installation, and a model.
func withClaude(t *testing.T, key string, script agenttest.Script) (*beginner, *agenttest.Server) {
	t.Helper()
	n := newBeginner(t)
	layout := claudeLayouts["the native installer"]
	layout.make(n, claudePath(t))
	api, url := newModel(t, key, script)
	n.path, n.env = []string{layout.dir}, []string{"ANTHROPIC_API_KEY=sk-ant-of-ada", "ANTHROPIC_BASE_URL=" + url}
	return n, api
}

// TestFirstRunRefused: what the provider refuses for good is asked once and said once, with what to do.
func TestFirstRunRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status             int
		message, want, fix string
	}{
		"wrong key":     {401, "invalid x-api-key", "refuses the key (401): invalid x-api-key", "check the key"},
		"unknown model": {404, "model: claude-nope", "does not know the model (404): model: claude-nope", "--model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, api := withClaude(t, "", fails(tt.status, tt.message))
			code, said := n.types("run", "plan.md", "--model", modelName)
			n.blamesNobody(code, said, tt.want)
			if times := timesAsked(api); times != 1 || !strings.Contains(said, tt.fix) {
				t.Errorf("the model was asked %d times, and %q is to be said:\n%s", times, tt.fix, said)
			}
		})
	}
}

// TestFirstRunWithoutAKey is told before anything starts, with both variables and the
// login, which then does, and stays with the bot.
func TestFirstRunWithoutAKey(t *testing.T) {
	t.Parallel()
	const token = "sk-ant-oat01-canary"
	var leaks []string
	var n *beginner
	n, api := withClaude(t, token, func(turn agenttest.Turn) agenttest.Reply { return n.greets(&leaks)(turn) })
	n.env = n.env[1:] // no key
	for _, command := range [][]string{{"run", "plan.md"}, {"doctor"}} {
		code, said := n.types(command...)
		for _, want := range []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "--use-login", "there is no key"} {
			if code != 2 || !strings.Contains(said, want) {
				t.Errorf("%v: exit code %d without %q:\n%s", command, code, want, said)
			}
		}
	}
	code, said := n.types("run", "plan.md", "--use-login")
	if code != 2 || !strings.Contains(said, "there is no login in ") || len(api.Requests()) != 0 {
		t.Errorf("exit code %d, %d requests:\n%s", code, len(api.Requests()), said)
	}
	login := func(ends time.Time) {
		n.write(".claude/.credentials.json", fmt.Sprintf(
			`{"claudeAiOauth":{"accessToken":%q,"refreshToken":"canary-refresh","expiresAt":%d}}`, token, ends.UnixMilli()), 0o600)
	}
	login(time.Now().Add(-time.Hour))
	if code, said := n.types("run", "plan.md", "--use-login"); code != 2 || !strings.Contains(said, "expired") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	login(time.Now().Add(time.Hour))
	if code, said := n.types("doctor", "--use-login"); code != 0 || strings.Contains(said, "canary") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	code, said = n.types("run", "plan.md", "--use-login", "--gate", "test -s greeting.txt")
	n.worked(code, said, leaks)
	for _, r := range api.Requests() {
		if r.Method == http.MethodPost && r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("%s with %v", r.Path, r.Header)
		}
	}
}

// TestFirstRunWithoutANetwork ends before anything is started, too.
func TestFirstRunWithoutANetwork(t *testing.T) {
	t.Parallel()
	n, _ := withClaude(t, "", nil)
	n.env[1] = "ANTHROPIC_BASE_URL=http://" + deadAddr
	code, said := n.types("run", "plan.md")
	if code != 2 || !strings.Contains(said, "cannot reach the model endpoint 127.0.0.1:") || strings.Contains(said, "iteration") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}
