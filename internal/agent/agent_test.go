package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

func lookup(t *testing.T, name string, opts Options) Backend {
	t.Helper()
	b, err := Lookup(name, opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		b := lookup(t, name, Options{ScriptFile: "s.yaml", Self: "/bin/bot", Command: "true"})
		if b.About().Name != name {
			t.Errorf("Lookup(%q) gave %q", name, b.About().Name)
		}
	}
	for _, name := range []string{"", "Claude", "cursor", "script"} {
		_, err := Lookup(name, Options{})
		if _, ok := errors.AsType[*run.UserError](err); !ok {
			t.Errorf("Lookup(%q): %v, want a user error", name, err)
		}
		if name == "cursor" && !strings.Contains(err.Error(),
			"acp, amp, claude, codex, command, copilot, gemini, opencode, script") {
			t.Errorf("error does not list the agents: %v", err)
		}
	}
	if _, err := Lookup("script", Options{ScriptFile: "s.yaml"}); err == nil {
		t.Error("script without our own binary was accepted")
	}
}

func TestClaudeCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	native, script := filepath.Join(dir, "native"), filepath.Join(dir, "cli.js")
	for path, content := range map[string]string{native: "\x7fELF and so on", script: "#!/usr/bin/env node\n"} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "claude")
	if err := os.Symlink("native", link); err != nil {
		t.Fatal(err)
	}
	// Temporary directories may themselves be links.
	native, err := filepath.EvalSymlinks(native)
	if err != nil {
		t.Fatal(err)
	}

	base := []string{
		"-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "--setting-sources", "user",
		"--strict-mcp-config",
	}
	argv := func(bin string, more ...string) []string {
		return append(append([]string{bin}, base...), more...)
	}
	quiet := map[string]string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
	added := map[string]string{
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "PATH": "/opt/agent/bin:/venv/bin:/usr/bin",
	}
	proxied := map[string]string{
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"ANTHROPIC_BASE_URL":                       "http://127.0.0.1:8080", "ANTHROPIC_API_KEY": "token",
	}
	credentials := []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL"}
	tests := []struct {
		name string
		path string
		inv  Invocation
		want Command
		err  string
	}{
		{
			name: "local with the host's credentials",
			inv:  Invocation{Sandbox: SandboxLocal},
			want: Command{Argv: argv("claude"), Env: quiet, PassEnv: credentials},
		},
		{
			name: "local behind a proxy passes no credential",
			path: link,
			inv: Invocation{
				Sandbox: SandboxLocal, BaseURL: "http://127.0.0.1:8080", Token: "token", Model: "sonnet", MaxTurns: 30,
			},
			want: Command{Argv: argv(link, "--model=sonnet", "--max-turns", "30"), Env: proxied},
		},
		{
			name: "local by a path that the PATH does not hold",
			path: "/opt/agent/bin/claude", inv: Invocation{Sandbox: SandboxLocal},
			want: Command{Argv: argv("/opt/agent/bin/claude"), Env: added, PassEnv: credentials},
		},
		{
			name: "local by a path that the PATH holds, behind others",
			path: "/usr/bin/claude", inv: Invocation{Sandbox: SandboxLocal},
			want: Command{Argv: argv("/usr/bin/claude"), Env: quiet, PassEnv: credentials},
		},
		{
			name: "without some tools",
			inv:  Invocation{Sandbox: SandboxLocal, DenyTools: []string{"WebFetch", "Bash(git push:*)"}},
			want: Command{Argv: argv("claude", "--disallowedTools=WebFetch,Bash(git push:*)"), Env: quiet, PassEnv: credentials},
		},
		{
			name: "docker mounts the file behind the link",
			path: link,
			inv:  Invocation{Sandbox: SandboxDocker, BaseURL: "http://127.0.0.1:8080", Token: "token"},
			want: Command{
				Argv: argv("/opt/ralph/claude"), Env: proxied, Mounts: []Mount{{Host: native, Target: "/opt/ralph/claude"}},
			},
		},
		{
			name: "docker with the image's own binary; a model is never an option",
			inv:  Invocation{Sandbox: SandboxDocker, BaseURL: "http://127.0.0.1:8080", Token: "token", Model: "--settings"},
			want: Command{Argv: argv("claude", "--model=--settings"), Env: proxied},
		},
		{name: "docker without proxy", inv: Invocation{Sandbox: SandboxDocker}, err: "needs a model proxy"},
		{
			name: "proxy without token", inv: Invocation{Sandbox: SandboxLocal, BaseURL: "http://x"}, err: "without a run token",
		},
		{
			name: "docker with a script", path: script, inv: Invocation{Sandbox: SandboxDocker, BaseURL: "http://x", Token: "t"},
			err: "not a Linux binary",
		},
		{
			name: "docker with nothing", path: filepath.Join(dir, "no"),
			inv: Invocation{Sandbox: SandboxDocker, BaseURL: "http://x", Token: "t"}, err: "was not found",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := func(name string) string { return map[string]string{"PATH": "/venv/bin:/usr/bin"}[name] }
			got, err := lookup(t, "claude", Options{Path: tt.path, Env: env}).Command(tt.inv)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// Root needs the CLI's word for a sandbox, outside containers only.
			if root := got.Env["IS_SANDBOX"] == "1"; root != (tt.inv.Sandbox == SandboxLocal && os.Getuid() == 0) {
				t.Errorf("IS_SANDBOX=%q", got.Env["IS_SANDBOX"])
			}
			delete(got.Env, "IS_SANDBOX")
			tt.want.Version = []string{tt.want.Argv[0], "--version"}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestClaudeCheck(t *testing.T) {
	t.Parallel()
	b := lookup(t, "claude", Options{})
	asked := ""
	if err := b.Check(func(file string) (string, error) { asked = file; return "/usr/bin/claude", nil }); err != nil ||
		asked != "claude" {
		t.Errorf("looked for %q: %v", asked, err)
	}
	err := b.Check(func(string) (string, error) { return "", fs.ErrNotExist })
	user, ok := errors.AsType[*run.UserError](err)
	if !ok || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(user.Hint, "npm install -g @anthropic-ai/claude-code") {
		t.Errorf("error %v", err)
	}
}

func TestScriptCommand(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs("testdata/greeting.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := lookup(t, "script", Options{ScriptFile: "testdata/greeting.yaml", Self: "/usr/bin/bot"})
	got, err := b.Command(Invocation{Sandbox: SandboxLocal})
	if err != nil {
		t.Fatal(err)
	}
	// A local sandbox that keeps agents apart hides what it is not told of.
	local := Command{
		Argv: []string{"/usr/bin/bot", "script-agent", "--script", file}, Mounts: []Mount{{Host: file, Target: file}},
	}
	if diff := cmp.Diff(local, got); diff != "" {
		t.Errorf("local (-want +got):\n%s", diff)
	}
	got, err = b.Command(Invocation{Sandbox: SandboxDocker})
	if err != nil {
		t.Fatal(err)
	}
	want := Command{
		Argv:   []string{scriptSelfTarget, "script-agent", "--script", scriptFileTarget},
		Mounts: []Mount{{Host: "/usr/bin/bot", Target: scriptSelfTarget}, {Host: file, Target: scriptFileTarget}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docker (-want +got):\n%s", diff)
	}
}

func TestScriptCheck(t *testing.T) {
	t.Parallel()
	look := func(file string) (string, error) { return file, nil }
	if err := lookup(t, "script", Options{
		ScriptFile: "testdata/greeting.yaml", Self: "/bin/bot",
	}).Check(look); err != nil {
		t.Error(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("tasks: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{bad, bad + ".missing"} {
		err := lookup(t, "script", Options{ScriptFile: file, Self: "/bin/bot"}).Check(look)
		if user, ok := errors.AsType[*run.UserError](err); !ok || !strings.Contains(user.Message, file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
