//go:build claude

// The tests in this file are the first minutes of somebody who is not root with the real
// Claude Code, as it is installed, against a scripted model on loopback.

package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent/agenttest"
)

// claudeLayouts are the ways in which people install Claude Code: what puts it into
// their home, and the directory that is in their PATH.
var claudeLayouts = map[string]struct {
	dir  string
	make func(n *beginner, program string)
}{
	"the native installer": {".local/bin", func(n *beginner, program string) {
		place(n.t, program, n.home+"/.local/share/claude/versions/2.1.197")
		n.write(".local/bin/claude", "→ "+n.home+"/.local/share/claude/versions/2.1.197", 0)
	}},
	"npm in a folder": {"tools/node_modules/.bin", func(n *beginner, program string) {
		place(n.t, program, n.home+"/tools/node_modules/@anthropic-ai/claude-code/bin/claude.exe")
		n.write("tools/node_modules/.bin/claude", "→ ../@anthropic-ai/claude-code/bin/claude.exe", 0)
	}},
	"nvm": {".nvm/versions/node/v22.1.0/bin", func(n *beginner, program string) {
		place(n.t, program, n.home+"/.nvm/versions/node/v22.1.0/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe")
		n.write(".nvm/versions/node/v22.1.0/bin/claude", "→ ../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe", 0)
	}},
	"pnpm": {".local/share/pnpm", func(n *beginner, program string) {
		const global = ".local/share/pnpm/global/5/"
		const pkg = "@anthropic-ai/claude-code"
		place(n.t, program, n.home+"/"+global+".pnpm/@anthropic-ai+claude-code@2/node_modules/"+pkg+"/bin/claude.exe")
		n.write(global+"node_modules/"+pkg, "→ ../../.pnpm/@anthropic-ai+claude-code@2/node_modules/"+pkg, 0)
		n.write(".local/share/pnpm/claude", "#!/bin/sh\n"+`basedir=$(dirname "$(echo "$0" | sed -e 's,\\,/,g')")`+"\n"+
			`exec "$basedir/global/5/node_modules/`+pkg+`/bin/claude.exe" "$@"`+"\n", 0o755)
	}},
	"Homebrew": {".linuxbrew/bin", func(n *beginner, program string) {
		place(n.t, program, n.home+"/.linuxbrew/Cellar/claude-code/2.1.197/libexec/claude")
		n.write(".linuxbrew/Cellar/claude-code/2.1.197/bin/claude",
			"#!/bin/bash\nDISABLE_AUTOUPDATER=1 exec \""+n.home+"/.linuxbrew/opt/claude-code/libexec/claude\" \"$@\"\n", 0o755)
		n.write(".linuxbrew/opt/claude-code", "→ ../Cellar/claude-code/2.1.197", 0)
		n.write(".linuxbrew/bin/claude", "→ ../Cellar/claude-code/2.1.197/bin/claude", 0)
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
			if plain := name == "the native installer"; isolation == "bwrap" && !plain ||
				isolation == "none" && !plain && name != "a wrapper" {
				continue // to the file system bwrap is as auto; and none hides nothing but the home
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

// TestFirstRunOfAProgramOutOfSight: it is named, with the flag that helps, once.
func TestFirstRunOfAProgramOutOfSight(t *testing.T) {
	t.Parallel()
	n := newBeginner(t)
	place(t, claudePath(t), n.home+"/hidden/claude")
	n.write("bin/claude", "#!/bin/sh\nd=hidden\nexec \"${0%/bin/claude}/$d/claude\" \"$@\"\n", 0o755)
	_, url := newModel(t, "", fails(http.StatusTeapot, "not asked"))
	n.path, n.env = []string{"bin"}, []string{"ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL=" + url}
	code, said := n.types("doctor")
	if code != 2 || !strings.Contains(said, n.home+"/hidden/claude") || !strings.Contains(said, "--agent-path") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	code, said = n.types("run", "plan.md")
	n.blamesNobody(code, said, "the program "+n.home+"/hidden/claude was not found in the sandbox")
	if !strings.Contains(said, "--agent-path") {
		t.Errorf("no way out is named:\n%s", said)
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

// TestFirstRunRefused: what the provider refuses for good is asked once and said once,
// with what to do; wherever the agent runs.
func TestFirstRunRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status        int
		message, want string
		fix           string
	}{
		"wrong key":     {401, "invalid x-api-key", "refuses the key (401): invalid x-api-key", "check the key"},
		"forbidden":     {403, "this key may not", "refuses the key (403): this key may not", "check the key"},
		"unknown model": {404, "model: claude-nope", "does not know the model (404): model: claude-nope", "--model"},
		"no credit": {
			400, "Your credit balance is too low to access the Anthropic API.",
			"has no credit (400): Your credit balance is too low", "add credit",
		},
		"payment required": {402, "Payment required", "has no credit (402): Payment required", "add credit"},
		"too long": {
			400, "prompt is too long: 250000 tokens > 200000 maximum", "finds the request too long (400): prompt is too long",
			"shorten the plan",
		},
	} {
		for _, isolation := range []string{"auto", "none", "bwrap"} {
			t.Run(name+", "+isolation, func(t *testing.T) {
				t.Parallel()
				n, api := withClaude(t, "", fails(tt.status, tt.message))
				code, said := n.types("run", "plan.md", "--model", modelName, "--local-isolation", isolation)
				n.blamesNobody(code, said, tt.want)
				if !strings.Contains(said, tt.fix) {
					t.Errorf("%q is not said:\n%s", tt.fix, said)
				}
				if times := timesAsked(api); times != 1 {
					t.Errorf("the model was asked %d times", times)
				}
			})
		}
	}
}

// countsDown is how a wait is told: what for, how long, and until when on the clock here.
var countsDown = regexp.MustCompile(`… (.*); retrying in (\d+ s|\d+m|\d+h\d+m) \((\d\d:\d\d)\)$`)

// TestFirstRunLimited: the run says what it waits for and until when, and does not have
// the agent ask on and on.
func TestFirstRunLimited(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		after  string
		want   string
		most   int
	}{
		"a limit that lasts":            {429, "3600", "Rate limited", 1},
		"a limit without an end":        {429, "", "Rate limited", 8},
		"a provider that is overloaded": {529, "", "Provider overloaded", 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := agenttest.Fail(tt.status, "it is so")
			if tt.after != "" {
				reply.Header = http.Header{"Retry-After": {tt.after}}
			}
			n, api := withClaude(t, "", func(agenttest.Turn) agenttest.Reply { return reply })
			line := n.waitsFor("; retrying in ", "run", "plan.md")
			m := countsDown.FindStringSubmatch(line)
			if m == nil || m[1] != tt.want {
				t.Fatalf("%q", line)
			}
			until, err := time.ParseInLocation("15:04", m[3], time.Local)
			if err != nil || tt.after == "3600" && until.Hour() != time.Now().Add(time.Hour).Hour() &&
				until.Hour() != time.Now().Add(59*time.Minute).Hour() {
				t.Errorf("until %q, %v", m[3], err)
			}
			if times := timesAsked(api); times > tt.most {
				t.Errorf("the model was asked %d times", times)
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
