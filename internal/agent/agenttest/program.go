package agenttest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// EnvPackages names the directory of the npm packages with the agent CLIs.
const EnvPackages = "RALPH_TEST_NPM"

// failer is the part of testing.TB that Program needs.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Program is the program of an agent CLI, from the installed npm packages.
func Program(t failer, name string) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	pattern, ok := map[string]string{
		"claude":   "@anthropic-ai/claude-code-linux-ARCH/claude",
		"codex":    "@openai/codex-linux-ARCH/vendor/*/bin/codex",
		"gemini":   "@google/gemini-cli/bundle/gemini.js",
		"opencode": "opencode-linux-ARCH/bin/opencode",
		"copilot":  "@github/copilot-linux-ARCH/copilot",
	}[name]
	dir := os.Getenv(EnvPackages)
	if !ok || dir == "" {
		t.Fatalf("%s does not name the npm packages that hold %s", EnvPackages, name)
	}
	found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(strings.ReplaceAll(pattern, "ARCH", arch))))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %d programs in %s, %v", name, len(found), dir, err)
	}
	return found[0]
}
