package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/run"
)

// chatGPT is where the login of a ChatGPT account is good.
var chatGPT = url.URL{Scheme: "https", Host: "chatgpt.com", Path: "/backend-api/codex"}

// maxLogin bounds the file of a login.
const maxLogin = 1 << 20

// login is where the command line of an agent keeps its login: in a file of a directory that a
// variable names, else of one in the home. The others are the paths of what is in it.
type login struct {
	variable, dir, file, hint    string
	key, token, account, expires string
}

var logins = map[string]login{
	config.AgentClaude: { //nolint:gosec // G101: names of fields, no secrets
		variable: "CLAUDE_CONFIG_DIR", dir: ".claude", file: ".credentials.json",
		hint: "run `claude` once and log in; on macOS, which keeps the login in its Keychain, set CLAUDE_CODE_OAUTH_TOKEN from " +
			"`claude setup-token`",
		token: "claudeAiOauth.accessToken", expires: "claudeAiOauth.expiresAt",
	},
	"codex": {
		variable: "CODEX_HOME", dir: ".codex", file: "auth.json", hint: "run `codex login`, or set OPENAI_API_KEY",
		key: "OPENAI_API_KEY", token: "tokens.access_token", account: "tokens.account_id",
	},
}

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
	if _, ok := logins[name]; ok {
		hint += ", or use your own login with --use-login (docs/security.md says what that exposes)"
	}
	return &run.UserError{Message: fmt.Sprintf("there is no key for the agent %s", name), Hint: hint}
}

// loginOf is the endpoint of an agent with the login that its command line has on this
// machine. It is read here and stays here: the agent gets neither the file nor what is
// in it. What cannot be used is a *run.UserError.
func loginOf(name string, u gateway.Upstream, now time.Time) (gateway.Upstream, error) {
	l, ok := logins[name]
	if !ok {
		return u, &run.UserError{
			Message: "--use-login does not work with the agent " + name, Hint: "use it with claude or codex, or set a key",
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return u, fmt.Errorf("find the home: %w", err)
	}
	path := filepath.Join(cmp.Or(os.Getenv(l.variable), filepath.Join(home, l.dir)), l.file)
	b, err := readBounded(path, maxLogin)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return u, fmt.Errorf("read the login: %w", err)
	}
	of := func(field string) string { return gjson.GetBytes(b, field).String() }
	u.APIKey, u.AuthToken, u.Account = of(l.key), of(l.token), of(l.account)
	end := time.UnixMilli(gjson.GetBytes(b, l.expires).Int())
	problem := ""
	switch {
	case err != nil:
		problem = "there is no login in " + path
	case !gjson.ValidBytes(b): // of which nothing is quoted
		problem = path + " is not what a login looks like"
	case u.APIKey+u.AuthToken == "":
		problem = path + " holds no login"
	case end.UnixMilli() > 0 && !end.After(now):
		problem = "your login of " + name + " expired on " + end.Local().Format("2 January 15:04")
	case u.APIKey != "":
		u.AuthToken, u.Account = "", ""
	case u.Account != "" && os.Getenv("OPENAI_BASE_URL") == "":
		u.BaseURL = &chatGPT
	}
	if problem != "" {
		return u, &run.UserError{Message: problem, Hint: l.hint, Err: err}
	}
	return u, nil
}
