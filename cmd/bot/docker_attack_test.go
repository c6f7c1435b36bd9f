//go:build docker

// The tests in this file are the attacks of the threat model, end to end: the
// program as it ships, a container of a real engine, and in it an agent or a
// check that works for an attacker. Each shows the defence at work.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// inDocker runs `bot run FILE --json` in containers, in the checkout dir, with
// env added to its environment. It gives the document, the exit code and what
// was said on stderr.
func inDocker(t *testing.T, exe, dir string, env []string, args ...string) (result, int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, append([]string{"run", "--json", "--sandbox", "docker", "--image", baseImage()}, args...)...)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ANTHROPIC_") && !strings.HasPrefix(v, "CLAUDE") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "RALPH_DATA_DIR="+filepath.Join(filepath.Dir(dir), "data"))
	cmd.Env = append(cmd.Env, env...)
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) {
		t.Fatalf("bot run: %v\n%s", err, told.String())
	}
	var doc result
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatalf("stdout is not one JSON document: %v\n%s\n%s", err, out, told.String())
	}
	return doc, cmd.ProcessState.ExitCode(), told.String()
}

// checkout is a repository with these files, below a directory of its own.
func checkout(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(shortTempDir(t), "repo")
	newRepo(t, dir, files)
	return dir
}

// scripted writes a script for the scripted agent that its container's user may
// read.
func scripted(t *testing.T, dir, script string) []string {
	t.Helper()
	file := filepath.Join(filepath.Dir(dir), "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"--agent", "script", "--script", file}
}

const onePlan = "# Work\n\n- [ ] Write one\n"

// TestG8CachesOfOtherRuns: a run finds what set-up commands on the default
// branch made, and nothing of what another run put into its caches.
func TestG8CachesOfOtherRuns(t *testing.T) {
	t.Parallel()
	const setup = `setup:
  run:
    - echo trusted >"$RALPH_CACHE/marker"
    - mkdir -p "$GOCACHE" && echo built >"$GOCACHE/result"
`
	const poison = `set -e
grep -qx trusted "$RALPH_CACHE/marker"
test "$(ls "$GOCACHE")" = result
for f in "$RALPH_CACHE/marker" "$GOCACHE/result" "$GOCACHE/evil"; do echo evil >"$f"; done
`
	dir := checkout(t, map[string]string{"one.md": onePlan, "two.md": "# Work\n\n- [ ] Write two\n", ".github/ralph.yml": setup})
	exe := builtBot(t)
	e := newEngine(t, filepath.Dir(dir), nil)
	agent := scripted(t, dir, `tasks:
  one: [{files: {one.txt: "1\n"}, say: done}]
  two: [{files: {two.txt: "2\n"}, say: done}]
`)
	for i, plan := range []string{"one.md", "two.md"} {
		got, code, told := inDocker(t, exe, dir, nil, append([]string{plan, "--gate", poison}, agent...)...)
		if code != run.ExitComplete || len(got.Commits) != 1 {
			t.Fatalf("run %d: exit code %d: %+v\n%s", i+1, code, got.Run, told)
		}
		if n := strings.Count(told, "set-up done"); n != 1-i {
			t.Errorf("run %d ran the set-up commands %d times:\n%s", i+1, n, told)
		}
	}
	marker, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "data", "caches", "*", "set-*", "marker"))
	if err != nil || len(marker) != 1 {
		t.Fatalf("what the set-up commands made: %v, %v", marker, err)
	}
	if kept, err := os.ReadFile(marker[0]); err != nil || string(kept) != "trusted\n" {
		t.Errorf("the kept cache holds %q, %v", kept, err)
	}
	e.nothingLeft(exe)
}

// TestG8CacheOfTheBase: what a proposal's code leaves in its cache does not make
// the check fail on the tree the work began from, which would excuse it.
func TestG8CacheOfTheBase(t *testing.T) {
	t.Parallel()
	const check = `if [ -e "$RALPH_CACHE/evil" ]; then echo "it failed before, too"; exit 1; fi
if [ -e evil.txt ]; then echo evil >"$RALPH_CACHE/evil"; echo "it fails"; exit 1; fi
`
	dir := checkout(t, map[string]string{"plan.md": onePlan})
	exe := builtBot(t)
	e := newEngine(t, filepath.Dir(dir), nil)
	got, code, told := inDocker(t, exe, dir, nil, append([]string{"plan.md", "--task-attempts", "1", "--gate", check},
		scripted(t, dir, `default: [{files: {evil.txt: "1\n"}, say: done}]`)...)...)
	if code == run.ExitComplete || len(got.Commits) != 0 || !strings.Contains(told, "as it was before the work began, passed") {
		t.Errorf("exit code %d, commits %+v:\n%s", code, got.Commits, told)
	}
	e.nothingLeft(exe)
}
