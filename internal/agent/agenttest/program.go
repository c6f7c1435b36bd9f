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

// ACPLine is the command line by which an agent CLI speaks the Agent Client Protocol,
// as docs/agents.md has it. The program, from the installed npm packages, is put into
// bin, which has to come first in the PATH.
func ACPLine(t failer, name, bin string) string {
	t.Helper()
	line, ok := map[string]string{
		"gemini": `gemini --acp --model "$RALPH_MODEL"`,
		"opencode": `
export OPENCODE_CONFIG_CONTENT='{
  "provider": {"ralph": {
    "npm": "@ai-sdk/openai-compatible",
    "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
    "models": {"{env:RALPH_MODEL}": {}}
  }},
  "model": "ralph/{env:RALPH_MODEL}", "small_model": "ralph/{env:RALPH_MODEL}"
}'
opencode acp`,
		"copilot": `
export COPILOT_OFFLINE=true COPILOT_MODEL="$RALPH_MODEL" COPILOT_PROVIDER_WIRE_API=responses
export COPILOT_PROVIDER_BASE_URL="$OPENAI_BASE_URL" COPILOT_PROVIDER_API_KEY="$OPENAI_API_KEY"
copilot --acp`,
	}[name]
	if !ok {
		t.Fatalf("no command line of %s for the Agent Client Protocol", name)
	}
	if err := os.Symlink(Program(t, name), filepath.Join(bin, name)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return line
}
