package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/run"
)

// TestCheckKey: an agent that has a key in none of its variables is told of those, and of
// a login where there can be one.
func TestCheckKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set  string
		want []string // nil where nothing is missing
	}{
		"claude":   {"", []string{"ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN", "--use-login"}},
		"codex":    {"", []string{"OPENAI_API_KEY", "--use-login"}},
		"gemini":   {"", []string{"GEMINI_API_KEY"}},
		"opencode": {"", []string{"OPENAI_API_KEY"}},
		"copilot":  {}, "amp": {},
		"claude ANTHROPIC_API_KEY": {"ANTHROPIC_API_KEY", nil}, "claude CLAUDE_CODE_OAUTH_TOKEN": {"CLAUDE_CODE_OAUTH_TOKEN", nil},
		"claude ANTHROPIC_AUTH_TOKEN": {"ANTHROPIC_AUTH_TOKEN", nil}, "gemini GEMINI_API_KEY": {"GEMINI_API_KEY", nil},
	} {
		backend, err := agent.Lookup(strings.Fields(name)[0], agent.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = checkKey(backend, func(variable string) string {
			if variable == tt.set {
				return "x"
			}
			return ""
		})
		user, said := errors.AsType[*run.UserError](err)
		if said != (tt.want != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(user.Hint, want) {
				t.Errorf("%s: no %q in %q", name, want, user.Hint)
			}
		}
		if said && strings.Contains(user.Hint, "--use-login") != (logins[backend.About().Name].file != "") {
			t.Errorf("%s: %q", name, user.Hint)
		}
	}
}

// TestLoginOf reads the logins of this machine, and shows nothing of what is in them.
func TestLoginOf(t *testing.T) { //nolint:paralleltest // it sets variables
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	home := t.TempDir()
	t.Setenv("CLAUDE_CONFIG_DIR", home)
	t.Setenv("CODEX_HOME", home)
	t.Setenv("OPENAI_BASE_URL", "")
	const claudeFile, codexFile = ".credentials.json", "auth.json"
	ends := func(at time.Time) string {
		return fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"canary","expiresAt":%d}}`, at.UnixMilli())
	}
	of, err := url.Parse("https://of.example/v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		agent, file, content string
		want                 gateway.Upstream
		says                 string
	}{
		{config.AgentClaude, "", "", gateway.Upstream{}, "there is no login in"},
		{config.AgentClaude, claudeFile, "canary", gateway.Upstream{}, "is not what a login looks like"},
		{config.AgentClaude, claudeFile, "{}", gateway.Upstream{}, "holds no login"},
		{config.AgentClaude, claudeFile, ends(now.Add(-time.Minute)), gateway.Upstream{}, "expired"},
		{config.AgentClaude, claudeFile, ends(now.Add(time.Minute)), gateway.Upstream{AuthToken: "canary"}, ""},
		{"codex", codexFile, `{"OPENAI_API_KEY":"canary"}`, gateway.Upstream{APIKey: "canary"}, ""},
		{"codex", codexFile, `{"tokens":{}}`, gateway.Upstream{}, "holds no login"},
		{
			"codex", codexFile, `{"tokens":{"access_token":"canary","account_id":"a"}}`,
			gateway.Upstream{AuthToken: "canary", Account: "a", BaseURL: &url.URL{Scheme: "https", Host: "chatgpt.com", Path: "/backend-api/codex"}},
			"",
		},
		{"gemini", "", "", gateway.Upstream{}, "does not work with the agent gemini"},
	} {
		if tt.file != "" {
			if err := os.WriteFile(filepath.Join(home, tt.file), []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := loginOf(tt.agent, gateway.Upstream{BaseURL: of, APIKey: "of the environment"}, now)
		if tt.says != "" {
			user, ok := errors.AsType[*run.UserError](err)
			if !ok || !strings.Contains(user.Message, tt.says) || user.Hint == "" || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s %s: %v", tt.agent, tt.content, err)
			}
			continue
		}
		if tt.want.BaseURL == nil {
			tt.want.BaseURL = of
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s %s: %v\n%s", tt.agent, tt.content, err, diff)
		}
	}
}

// TestShimOf: a shim of a manager is told from the program it stands for, and from what others keep in such a directory.
func TestShimOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, to := range map[string]string{
		"bin/claude": "", "bin/mise": "", ".asdf/shims/claude": "", ".volta/bin/volta-shim": "", "work/shims/claude": "",
		"local/claude": "../bin/claude", "mise/shims/claude": "../../bin/mise", ".volta/bin/claude": "volta-shim",
	} {
		file := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if to != "" {
			err = errors.Join(err, os.Symlink(to, file))
		} else {
			err = errors.Join(err, os.WriteFile(file, nil, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"bin/claude": "", "bin/mise": "", "local/claude": "", "nothing": "", "work/shims/claude": "",
		"mise/shims/claude": "mise", ".volta/bin/claude": "volta", ".asdf/shims/claude": "asdf",
	} {
		if got := shimOf(filepath.Join(dir, name)); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
