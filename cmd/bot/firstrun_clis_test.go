//go:build clis

// The tests in this file are the first minutes of somebody who is not root with the real
// Codex and Gemini, as npm installs them, against a scripted model on loopback.

package main

import (
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
func withNPM(t *testing.T, name string, script agenttest.Script) *beginner {
	t.Helper()
	n := newBeginner(t)
	modules := os.Getenv(agenttest.EnvPackages)
	if modules == "" {
		t.Fatal(agenttest.EnvPackages + " does not name the npm packages")
	}
	placed := 0
	for _, pkg := range npmPackages[name].packages {
		from := filepath.Join(modules, pkg)
		if _, err := os.Stat(from); err == nil {
			placeAll(t, from, filepath.Join(n.home, "tools/node_modules", pkg))
			placed++
		}
	}
	if placed == 0 {
		t.Fatalf("no package of %s in %s", name, modules)
	}
	n.write("tools/node_modules/.bin/"+name, "→ "+npmPackages[name].program, 0)
	_, url := newModel(t, "", script)
	n.path = []string{"tools/node_modules/.bin"}
	n.env = []string{
		"OPENAI_API_KEY=canary-openai", "OPENAI_BASE_URL=" + url + "/v1", "GEMINI_API_KEY=canary-gemini",
		"GOOGLE_GEMINI_BASE_URL=" + url,
	}
	return n
}

// TestFirstRunOfCLIs: doctor starts them in the sandbox, they work a plan there, and find nothing of the home, nor
// their key.
func TestFirstRunOfCLIs(t *testing.T) {
	t.Parallel()
	for name := range npmPackages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var leaks []string
			var n *beginner
			n = withNPM(t, name, func(turn agenttest.Turn) agenttest.Reply { return n.greets(&leaks)(turn) })
			if code, said := n.types("doctor", "--agent", name); code != 0 || !strings.Contains(said, "✓ agent           "+name) {
				t.Errorf("exit code %d:\n%s", code, said)
			}
			code, said := n.types("run", "plan.md", "--agent", name, "--model", theClis[name], "--gate", "test -s greeting.txt")
			n.worked(code, said, leaks)
		})
	}
}
