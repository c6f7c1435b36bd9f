//go:build claude

package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/agent/agenttest"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
)

// curlOfReleases stands in for curl: it answers as GitHub does where a release is in the
// directory RELEASE.
const curlOfReleases = `#!/bin/sh
out=/dev/stdout
while [ $# -gt 1 ]; do
	case $1 in
	--output) out=$2; shift ;;
	--write-out) echo https://github.com/org/ralph-action/releases/tag/v0.1.0; exit ;;
	esac
	shift
done
case $1 in
https://github.com/org/ralph-action/releases/*) exec cat "RELEASE/${1##*/}" >"$out" ;;
*) echo "no such address: $1" >&2; exit 22 ;;
esac
`

// release makes what a release has for this machine.
func (n *beginner) release() {
	n.t.Helper()
	name := fmt.Sprintf("ralph-bot_0.1.0_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH)
	path := filepath.Join(n.home, "release", name)
	script, err := os.ReadFile("../../install.sh")
	if err != nil {
		n.t.Fatal(err)
	}
	n.write("release/install.sh", string(script), 0o644)
	if err := pack(n.bot, "ralph-bot", path); err != nil {
		n.t.Fatal(err)
	}
	packed, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatal(err)
	}
	n.write("release/checksums.txt", fmt.Sprintf("%x  %s\n", sha256.Sum256(packed), name), 0o644)
	n.write("tools/curl", strings.ReplaceAll(curlOfReleases, "RELEASE", filepath.Join(n.home, "release")), 0o755)
}

// pack makes an archive of one program.
func pack(from, name, to string) (err error) {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = w.Write(program)
	return errors.Join(err, w.Close(), z.Close())
}

// TestFirstRunOfTheReadme: the README's own commands lead from nothing to a commit on
// somebody's own repository, in five of them.
func TestFirstRunOfTheReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(curl [^`]*)```").FindStringSubmatch(string(readme))
	if block == nil {
		t.Fatal("the README has no commands that install")
	}
	if commands := strings.Count(block[1], "\n"); commands > 5 {
		t.Errorf("%d commands", commands)
	}
	const key = "sk-ant-of-ada"
	n, _ := withClaude(t, key, func(turn agenttest.Turn) agenttest.Reply {
		switch {
		case len(turn.Tools) == 0:
			return agenttest.Say("A title")
		case turn.Mode == run.ModePlan && turn.Number == 0:
			return agenttest.Bash(`sed -i 's/^## Tasks$/&\n- [ ] Add the flag/' ` + turn.ProgressFile)
		case turn.Number > 0:
			return agenttest.Done("The flag is there.")
		default:
			return agenttest.Bash(`printf 'package greet\n\n// Verbose has greetings say more.\nvar Verbose bool\n' >verbose.go`)
		}
	})
	gitIn(t, n.project, "switch", "-q", "main")
	n.write("src/project/greet.go", "// Package greet greets.\npackage greet\n", 0o644)
	n.write("src/project/greet_test.go", "package greet\n\nimport \"testing\"\n\nfunc TestGreet(*testing.T) {}\n", 0o644)
	gitIn(t, n.project, "add", "greet.go", "greet_test.go")
	gitIn(t, n.project, "commit", "-q", "-m", "Greet")
	n.release()
	n.path = append(n.path, "tools", ".local/bin")
	commands := strings.NewReplacer("YOUR-KEY", key, "YOUR-REPOSITORY", n.project).Replace(block[1])
	n.write("commands", commands, 0o644)
	cmd := n.command(t.Context())
	cmd.Path, cmd.Args, cmd.Dir = "/bin/sh", []string{"sh", "-eu", "commands"}, n.home
	tool, err := proc.Look("go")
	if err != nil {
		t.Fatal(err)
	}
	for i, kv := range cmd.Env {
		if strings.HasPrefix(kv, "PATH=") {
			cmd.Env[i] += ":" + filepath.Dir(tool)
		}
	}
	cmd.Env = append(cmd.Env, "RALPH_INSTALL_DIR="+filepath.Join(n.home, ".local", "bin"))
	term := onTerminal(t, 116, 60, cmd)
	for _, question := range []string{
		"Agent (claude, codex", "before each commit (yes or no) [yes]:", "Container image", "Most agent calls", "Most dollars",
		"Notifications: a Slack", "Write the workflow of the GitHub Action",
	} {
		term.await(regexp.QuoteMeta(question))
		term.typed("\n")
	}
	code, screen := term.ended()
	out := strings.Join(screen, "\n")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	for _, p := range []string{`^Installed ralph-bot `, `^✓ All tasks are done and the checks pass`, `git diff main\.\.\.ralph/add-a-verbose-flag`} {
		if !regexp.MustCompile(`(?m)` + p).MatchString(out) {
			t.Errorf("the screen lacks %q:\n%s", p, out)
		}
	}
	got := gitOut(t, n.project, "-c", "safe.directory=*", "show", "ralph/add-a-verbose-flag:verbose.go")
	if !strings.HasSuffix(got, "var Verbose bool") {
		t.Errorf("the branch holds %q:\n%s", got, out)
	}
}
