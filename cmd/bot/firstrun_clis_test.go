//go:build clis

// The tests in this file are the first minutes of somebody who is not root with the real
// Codex and Gemini, as npm installs them, against a scripted model on loopback.

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/agent/agenttest"
)

// npmPackages are what npm installs of an agent, and its program there.
var npmPackages = map[string]struct {
	packages []string
	program  string
}{
	"codex":  {[]string{"@openai/codex", "@openai/codex-linux-x64", "@openai/codex-linux-arm64"}, "../@openai/codex/bin/codex.js"},
	"gemini": {[]string{"@google/gemini-cli"}, "../@google/gemini-cli/bundle/gemini.js"},
}

// withNPM is somebody who has installed an agent with npm in a folder of the home.
func withNPM(t *testing.T, name string, script agenttest.Script) (*beginner, *agenttest.Server) {
	t.Helper()
	n := newBeginner(t)
	modules := os.Getenv(agenttest.EnvPackages)
	if modules == "" {
		t.Fatal(agenttest.EnvPackages + " does not name the npm packages")
	}
	placed := 0
	for _, pkg := range npmPackages[name].packages {
		if from := filepath.Join(modules, pkg); isThere(from) {
			placeAll(t, from, filepath.Join(n.home, "tools/node_modules", pkg))
			placed++
		}
	}
	if placed == 0 {
		t.Fatalf("no package of %s in %s", name, modules)
	}
	n.write("tools/node_modules/.bin/"+name, "→ "+npmPackages[name].program, 0)
	api, url := newModel(t, "", script)
	n.path = []string{"tools/node_modules/.bin"}
	n.env = []string{
		"OPENAI_API_KEY=canary-openai", "OPENAI_BASE_URL=" + url + "/v1", "GEMINI_API_KEY=canary-gemini",
		"GOOGLE_GEMINI_BASE_URL=" + url,
	}
	return n, api
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// eachNPM runs a test with each agent of npmPackages.
func eachNPM(t *testing.T, test func(t *testing.T, name string)) {
	t.Helper()
	for name := range npmPackages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name)
		})
	}
}

// TestFirstRunOfCLIs: doctor starts them in the sandbox, they work a plan there, and find
// nothing of the home, nor their key.
func TestFirstRunOfCLIs(t *testing.T) {
	t.Parallel()
	eachNPM(t, func(t *testing.T, name string) {
		var leaks []string
		var n *beginner
		n, _ = withNPM(t, name, func(turn agenttest.Turn) agenttest.Reply { return n.greets(&leaks)(turn) })
		if code, said := n.types("doctor", "--agent", name); code != 0 || !strings.Contains(said, "✓ agent           "+name) {
			t.Errorf("exit code %d:\n%s", code, said)
		}
		code, said := n.types("run", "plan.md", "--agent", name, "--model", theClis[name], "--gate", "test -s greeting.txt")
		n.worked(code, said, leaks)
	})
}

// TestFirstRunOfCLIsRefused: what is refused for good is asked once and said once.
func TestFirstRunOfCLIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, message, want, fix string
		status                   int
	}{
		{"wrong key", "the key is wrong", "refuses the key (401): the key is wrong", "check the key", http.StatusUnauthorized},
		{"unknown model", "no such model", "does not know the model (404): no such model", "--model", http.StatusNotFound},
		{"no credit", "Payment required", "has no credit (402): Payment required", "add credit", http.StatusPaymentRequired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachNPM(t, func(t *testing.T, name string) {
				n, api := withNPM(t, name, fails(tt.status, tt.message))
				code, said := n.types("run", "plan.md", "--agent", name, "--model", theClis[name])
				n.blamesNobody(code, said, tt.want)
				if !strings.Contains(said, tt.fix) {
					t.Errorf("%q is not said:\n%s", tt.fix, said)
				}
				if times := timesAsked(api); times != 1 {
					t.Errorf("the model was asked %d times", times)
				}
			})
		})
	}
}

// TestFirstRunOfCLIsLimited: a limit that lasts is a wait at once.
func TestFirstRunOfCLIsLimited(t *testing.T) {
	t.Parallel()
	eachNPM(t, func(t *testing.T, name string) {
		reply := agenttest.Fail(http.StatusTooManyRequests, "slow down")
		reply.Header = http.Header{"Retry-After": {"3600"}}
		n, api := withNPM(t, name, func(agenttest.Turn) agenttest.Reply { return reply })
		line := n.waitsFor("; retrying in ", "run", "plan.md", "--agent", name, "--model", theClis[name])
		if !strings.Contains(line, "… Rate limited; retrying in ") {
			t.Errorf("%q", line)
		}
		if times := timesAsked(api); times > 3 {
			t.Errorf("the model was asked %d times", times)
		}
	})
}

// TestFirstRunOfCLIsWithoutAKey is told before anything starts.
func TestFirstRunOfCLIsWithoutAKey(t *testing.T) {
	t.Parallel()
	eachNPM(t, func(t *testing.T, name string) {
		n, api := withNPM(t, name, nil)
		n.env = nil
		for _, command := range [][]string{{"run", "plan.md", "--agent", name}, {"doctor", "--agent", name}} {
			code, said := n.types(command...)
			variable := map[string]string{"codex": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}[name]
			if code != 2 || !strings.Contains(said, "set "+variable) || strings.Contains(said, "--use-login") != (name == "codex") {
				t.Errorf("%v: exit code %d:\n%s", command, code, said)
			}
		}
		if len(api.Requests()) != 0 {
			t.Errorf("requests: %v", api.Requests())
		}
	})
}

// TestFirstRunWithTheLoginOfCodex: a key that codex login stored, and a ChatGPT account.
func TestFirstRunWithTheLoginOfCodex(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, token, account string }{
		"a key":      {`{"OPENAI_API_KEY":"sk-canary-of-a-login","tokens":null}`, "sk-canary-of-a-login", ""},
		"an account": {`{"OPENAI_API_KEY":null,"tokens":{"access_token":"canary-token","account_id":"of-ada"}}`, "canary-token", "of-ada"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var leaks []string
			var n *beginner
			n, api := withNPM(t, "codex", func(turn agenttest.Turn) agenttest.Reply { return n.greets(&leaks)(turn) })
			n.env = n.env[1:2]
			n.write(".codex/auth.json", tt.file, 0o600)
			code, said := n.types("run", "plan.md", "--agent", "codex", "--use-login", "--model", "gpt-5", "--gate",
				"test -s greeting.txt")
			n.worked(code, said, leaks)
			for _, r := range api.Requests() {
				if r.Method == http.MethodPost && (r.Header.Get("Authorization") != "Bearer "+tt.token ||
					r.Header.Get("Chatgpt-Account-Id") != tt.account) {
					t.Errorf("%s with %v", r.Path, r.Header)
				}
			}
		})
	}
}
