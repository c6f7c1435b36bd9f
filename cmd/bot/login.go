package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/run"
)

// chatGPT is where the login of a ChatGPT account is good.
const chatGPT = "https://chatgpt.com/backend-api/codex"

// maxLogin bounds the file of a login.
const maxLogin = 1 << 20

// checkKey says before anything is started that an agent has no key, and how to give
// it one. Agents that find one by themselves, or need none, are not checked.
func checkKey(backend agent.Backend, env func(string) string) error {
	name, keys := backend.About().Name, backend.About().Keys
	for _, key := range keys {
		if env(key) != "" {
			return nil
		}
	}
	if len(keys) == 0 {
		return nil
	}
	hint := "set " + strings.Join(keys[:min(len(keys), 2)], " or ")
	if hasLogin(name) {
		hint += map[string]string{
			"claude": " (`claude setup-token` makes one of the latter)",
		}[name] + ", or use your own login with --use-login (docs/security.md says what that exposes)"
	}
	return &run.UserError{Message: fmt.Sprintf("there is no key for the agent %s", name), Hint: hint}
}

// hasLogin says whether the login of an agent can be used.
func hasLogin(name string) bool { return name == config.AgentClaude || name == "codex" }

// loginOf is the endpoint of an agent with the login that its command line has on this
// machine. It is read here and stays here: the agent gets neither the file nor what is
// in it. What cannot be used is a *run.UserError.
func loginOf(name string, u gateway.Upstream, now time.Time) (gateway.Upstream, error) {
	u.APIKey, u.AuthToken = "", ""
	var err error
	switch name {
	case config.AgentClaude:
		err = claudeLogin(&u, now)
	case "codex":
		err = codexLogin(&u)
	default:
		err = &run.UserError{
			Message: "--use-login does not work with the agent " + name, Hint: "use it with claude or codex, or set a key",
		}
	}
	return u, err
}

// claudeLogin is that of Claude Code.
func claudeLogin(u *gateway.Upstream, now time.Time) error {
	var file struct {
		OAuth struct {
			AccessToken string `json:"accessToken"`
			ExpiresAt   int64  `json:"expiresAt"` // milliseconds
		} `json:"claudeAiOauth"`
	}
	path, err := readLogin("CLAUDE_CONFIG_DIR", ".claude", ".credentials.json", "run `claude` once and log in; on macOS, which keeps the login in its Keychain, set CLAUDE_CODE_OAUTH_TOKEN "+
		"from `claude setup-token`", &file)
	if err != nil {
		return err
	}
	if file.OAuth.AccessToken == "" {
		return &run.UserError{
			Message: path + " holds no login of Claude Code",
			Hint:    "run `claude` once and log in, or set CLAUDE_CODE_OAUTH_TOKEN from `claude setup-token`",
		}
	}
	if end := time.UnixMilli(file.OAuth.ExpiresAt); file.OAuth.ExpiresAt > 0 && !end.After(now) {
		return &run.UserError{
			Message: "your login of Claude Code expired on " + end.Local().Format("2 January 15:04"),
			Hint:    "run `claude` once, which renews it; a token of `claude setup-token` lasts a year",
		}
	}
	u.AuthToken = file.OAuth.AccessToken
	return nil
}

// codexLogin is that of Codex: a key, or a ChatGPT account.
func codexLogin(u *gateway.Upstream) error {
	var file struct {
		Key    string `json:"OPENAI_API_KEY"`
		Tokens struct {
			AccessToken string `json:"access_token"`
			Account     string `json:"account_id"`
		} `json:"tokens"`
	}
	path, err := readLogin("CODEX_HOME", ".codex", "auth.json", "run `codex login`", &file)
	if err != nil {
		return err
	}
	switch {
	case file.Key != "":
		u.APIKey = file.Key
	case file.Tokens.AccessToken != "":
		u.AuthToken, u.Account = file.Tokens.AccessToken, file.Tokens.Account
		if os.Getenv("OPENAI_BASE_URL") == "" {
			if u.BaseURL, err = url.Parse(chatGPT); err != nil {
				return fmt.Errorf("address of ChatGPT: %w", err)
			}
		}
	default:
		return &run.UserError{Message: path + " holds no login of Codex", Hint: "run `codex login`, or set OPENAI_API_KEY"}
	}
	return nil
}

// readLogin reads the file of a login: in the directory that a variable names, else in
// that of the home.
func readLogin(variable, dir, name, hint string, into any) (path string, err error) {
	at := os.Getenv(variable)
	if at == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the home: %w", err)
		}
		at = filepath.Join(home, dir)
	}
	path = filepath.Join(at, name)
	f, err := os.Open(path) // #nosec G304 G703 -- the person's own
	if errors.Is(err, os.ErrNotExist) {
		return path, &run.UserError{Message: "there is no login in " + path, Hint: hint, Err: err}
	}
	if err != nil {
		return path, fmt.Errorf("read the login: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := json.NewDecoder(io.LimitReader(f, maxLogin)).Decode(into); err != nil {
		// The decoder's own words would quote from the file.
		return path, &run.UserError{Message: path + " is not what a login looks like", Hint: hint, Err: err}
	}
	return path, nil
}
