package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/org/ralph-action/internal/agent/agenttest"
)

// nobody is who a person is where the tests are root: somebody without rights.
const nobody = 65534

// beginner is somebody who is not root, with a home, secrets in it and a project, who
// types commands.
type beginner struct {
	t testing.TB
	// home is theirs, project a repository with plan.md in it.
	home, project string
	// path is where they have their agent, before the system's directories.
	path []string
	env  []string
	bot  string
}

// secretsAtHome are files that no agent may find.
var secretsAtHome = []string{".ssh/id_ed25519", ".env", ".netrc", "src/project/.env"}

// homeCanary is what stands in them.
const homeCanary = "canary-of-a-home"

func newBeginner(t testing.TB) *beginner {
	t.Helper()
	dir := shortTempDir(t)
	n := &beginner{t: t, home: filepath.Join(dir, "ada"), bot: filepath.Join(dir, "bot")}
	n.project = filepath.Join(n.home, "src", "project")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	place(t, theProgram(t), n.bot)
	newRepo(t, n.project, map[string]string{"plan.md": "# Greet\n\n- [ ] Write a greeting\n", "go.mod": "module greet\n"})
	for _, name := range secretsAtHome {
		n.write(name, homeCanary, 0o600)
	}
	n.write(".gitconfig", "[user]\nname = Ada\nemail = ada@example.com\n", 0o644)
	return n
}

// write makes a file in the home; one that begins with "→ " is a link.
func (n *beginner) write(name, content string, mode os.FileMode) {
	n.t.Helper()
	path := filepath.Join(n.home, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if target, ok := strings.CutPrefix(content, "→ "); ok && err == nil {
		err = os.Symlink(target, path)
	} else if err == nil {
		err = os.WriteFile(path, []byte(content), mode)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// place makes a file at another path, without a copy where that can be.
func place(t testing.TB, from, to string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(to), 0o755)
	if err == nil {
		if err = os.Link(from, to); err != nil {
			err = copyTo(from, to)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func copyTo(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// own gives the home to its person. What was placed stays whose it was.
func (n *beginner) own() {
	n.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	err := filepath.WalkDir(n.home, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() && st.Nlink > 1 {
			return nil // it is somebody else's, too
		}
		return os.Lchown(path, nobody, nobody)
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// command is one as the person types it in the project.
func (n *beginner) command(ctx context.Context, args ...string) *exec.Cmd {
	n.t.Helper()
	n.own()
	cmd := exec.CommandContext(ctx, n.bot, args...)
	cmd.Dir = n.project
	var path []string
	for _, dir := range n.path {
		path = append(path, filepath.Join(n.home, dir))
	}
	cmd.Env = append([]string{
		"HOME=" + n.home, "PATH=" + strings.Join(append(path, "/usr/local/bin", "/usr/bin", "/bin"), ":"), "TMPDIR=/tmp",
		"GIT_CONFIG_NOSYSTEM=1",
	}, n.env...)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

// types runs a command to its end, and gives its exit code and what it said.
func (n *beginner) types(args ...string) (code int, said string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	cmd := n.command(ctx, args...)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) {
		n.t.Fatalf("bot %v: %v\n%s", args, err, out)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// greets has an agent look for what it must not find, and then write the greeting.
func (n *beginner) greets(leaks *[]string) agenttest.Script {
	var look strings.Builder
	look.WriteString("env; cat /proc/*/environ")
	for _, name := range slices.Concat(secretsAtHome, []string{".claude/.credentials.json", ".codex/auth.json"}) {
		look.WriteString(" " + filepath.Join(n.home, name) + " \"$HOME/" + name + "\"")
	}
	return func(turn agenttest.Turn) agenttest.Reply {
		switch {
		case len(turn.Tools) == 0:
			return agenttest.Say("A title")
		case turn.Number == 0:
			return turn.Shell("echo hello > greeting.txt; " + look.String() + " 2>/dev/null; true")
		default:
			for _, r := range turn.Results {
				if strings.Contains(r.Text, "canary") {
					*leaks = append(*leaks, r.Text)
				}
			}
			return agenttest.Done("The greeting is there.")
		}
	}
}

// worked says whether the greeting was committed, and nothing of the home was found.
func (n *beginner) worked(code int, said string, leaks []string) {
	n.t.Helper()
	if code != 0 || !strings.Contains(said, "1 new commit on ralph/plan") {
		n.t.Errorf("exit code %d:\n%s", code, said)
	}
	for _, leak := range leaks {
		n.t.Errorf("the agent found a secret:\n%s", leak)
	}
}

// timesAsked counts the requests for a model's work.
func timesAsked(api *agenttest.Server) int {
	count := 0
	for _, r := range api.Requests() {
		if r.Method == "POST" && !strings.HasSuffix(r.Path, "count_tokens") && !strings.HasSuffix(r.Path, ":countTokens") {
			count++
		}
	}
	return count
}

// blamesNobody says whether a run said once what is wrong, and blocked no task.
func (n *beginner) blamesNobody(code int, said, want string) {
	n.t.Helper()
	if code != 1 || strings.Count(said, want) != 1 || !strings.Contains(said, "What to do first: ") {
		n.t.Errorf("exit code %d, want 1 and once %q:\n%s", code, want, said)
	}
	if strings.Contains(said, "✗") || strings.Contains(said, "blocked") || strings.Contains(said, "iteration 2") {
		n.t.Errorf("a task is blamed, or it was tried again:\n%s", said)
	}
}

// fails is a model that refuses.
func fails(status int, message string) agenttest.Script {
	return func(agenttest.Turn) agenttest.Reply { return agenttest.Fail(status, message) }
}
