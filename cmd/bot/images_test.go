//go:build docker

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// debianImage is what the images that ship are built on here: Debian's packages
// with this machine's certificates, where no registry is reached.
const debianImage = "ralph-test/debian:1"

// dockerRun runs the docker program and gives its exit code and what it said.
func dockerRun(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "docker", args...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func mustDocker(t *testing.T, args ...string) string {
	t.Helper()
	code, out := dockerRun(t, args...)
	if code != 0 {
		t.Fatalf("docker %s: %d (%s)\n%s", args[0], code, needs, out)
	}
	return out
}

// engineSocket is the engine's socket, and the group that may use it.
func engineSocket(t *testing.T) (path, group string) {
	t.Helper()
	socket := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if socket == "" {
		socket = "/var/run/docker.sock"
	}
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("the socket has no owner")
	}
	return socket, fmt.Sprint(owner.Gid)
}

// The images are built as they ship, by the names that compose.yaml has for them.
func TestImagesThatShip(t *testing.T) {
	t.Parallel()
	version := fmt.Sprintf("ralph-test-%d", os.Getpid())
	bot, agents := "ghcr.io/org/ralph-bot:"+version, "ghcr.io/org/ralph-agent:"+version
	t.Cleanup(func() { dockerRun(t, "image", "rm", "--force", bot, agents) })
	composeProgram(t) // to miss it now, not in minutes
	mustDocker(t, "image", "inspect", debianImage)
	mustDocker(t, "build", "-t", bot, "--build-arg", "GO_BASE="+goImage(), "--build-arg", "BASE="+debianImage,
		"--build-arg", "VERSION=v9.8.7", "--build-arg", "COMMIT=abc", "../..")
	mustDocker(t, "build", "-t", agents, "--build-arg", "GO_BASE="+goImage(), "--build-arg", "BASE="+debianImage,
		"--build-arg", "AGENTS=@anthropic-ai/claude-code@2.1.197", "../../images/agent")
	t.Run("by themselves", func(t *testing.T) {
		t.Parallel()
		tryImages(t, bot, agents, version)
	})
	t.Run("with compose", func(t *testing.T) {
		t.Parallel()
		setUpWithCompose(t, version)
	})
}

// tryImages: the bot's image passes doctor and a whole demonstration with its agents
// and checks in the agents' image.
func tryImages(t *testing.T, bot, agents, volume string) {
	programs := volume + "-programs"
	t.Cleanup(func() { dockerRun(t, "volume", "rm", "--force", volume, programs) })
	if out := mustDocker(t, "run", "--rm", bot, "version", "--json"); !strings.Contains(out, `"v9.8.7"`) ||
		!strings.Contains(out, `"abc"`) {
		t.Errorf("version: %s", out)
	}
	if out := mustDocker(t, "run", "--rm", "--network", "none", "--user", "1000:1000", agents, "claude",
		"--version"); !strings.Contains(out, "2.1.197") {
		t.Errorf("the agent's version: %s", out)
	}
	// As compose.yaml has it: the bot tries the agent's program before it mounts it.
	mustDocker(t, "run", "--rm", "--network", "none", "-v", programs+":/agents", agents, "cp", "--dereference",
		"/usr/local/bin/claude", "/agents/claude")
	if out := mustDocker(t, "run", "--rm", "--network", "none", "-v", programs+":/agents:ro", "--entrypoint",
		"/agents/claude", bot, "--version"); !strings.Contains(out, "2.1.197") {
		t.Errorf("the agent's version in the bot's image: %s", out)
	}
	if out := mustDocker(t, "image", "inspect", "--format", "{{.Config.User}}",
		bot); strings.TrimSpace(out) != "10001:10001" {
		t.Errorf("the bot runs as %s", out)
	}
	// Neither Go nor an engine is there.
	if code, out := dockerRun(t, "run", "--rm", bot, "demo"); code != run.ExitUsage ||
		!strings.Contains(out, "Go is not installed") {
		t.Errorf("a demonstration without Go: %d, %s", code, out)
	}
	if code, out := dockerRun(t, "run", "--rm", bot, "demo", "--sandbox", "docker", "--image",
		agents); code != run.ExitUsage || !strings.Contains(out, "Docker") {
		t.Errorf("a demonstration without an engine: %d, %s", code, out)
	}

	socket, group := engineSocket(t)
	script := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(script, []byte("default: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	with := func(args ...string) []string {
		return append([]string{
			"run", "--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--group-add", group,
			"-v", socket + ":/var/run/docker.sock", "-v", volume + ":/var/lib/ralph", "-v", script + ":/script.yaml:ro", bot,
		}, args...)
	}
	if out := mustDocker(t, with("doctor", "--agent", "script", "--script", "/script.yaml")...); !strings.Contains(out,
		"No problems found.") || !strings.Contains(out, "✓ docker") {
		t.Errorf("doctor:\n%s", out)
	}
	cmd := exec.CommandContext(t.Context(), "docker", with("demo", "--json", "--sandbox", "docker", "--image", agents)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the demonstration: %v\n%s", err, &said)
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.Run.EndReason != run.EndAllTasksComplete || r.Tasks.Done != 3 || r.PullRequest == nil || len(r.Checks) == 0 {
		t.Errorf("the demonstration ended %s: %s\n%s", r.Run.EndReason, r.Run.Detail, &said)
	}
}
