package agent

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// gemini is the Gemini CLI.
type gemini struct{ cli }

// Command implements Backend.
func (g gemini) Command(inv Invocation) (Command, error) {
	proxied, err := g.proxied(inv)
	if err != nil {
		return Command{}, err
	}
	cmd := Command{
		Argv: []string{g.binary(), "--output-format", "stream-json"},
		// The work tree is not trusted: its settings, hooks, servers, policies and
		// .env stay out. All the tools work nonetheless, by the policy below; the
		// flag --yolo would trust it, too.
		Env:       map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "false"},
		HomeFiles: map[string]string{".gemini/policies/ralph.toml": g.policy(inv, proxied)},
	}
	if inv.Model != "" {
		cmd.Argv = append(cmd.Argv, "--model="+inv.Model)
	}
	if proxied {
		cmd.Env["GOOGLE_GEMINI_BASE_URL"] = inv.BaseURL
		cmd.Env["GEMINI_API_KEY"] = inv.Token
	} else {
		cmd.PassEnv = []string{"GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"}
	}
	settings, err := json.Marshal(g.settings(inv))
	if err != nil {
		return Command{}, fmt.Errorf("settings of agent gemini: %w", err)
	}
	cmd.HomeFiles[".gemini/settings.json"] = string(settings)
	return cmd, g.mountPackage(&cmd, inv)
}

func (g gemini) settings(inv Invocation) map[string]any {
	type object = map[string]any
	settings := object{
		"security": object{
			// With a base address the CLI picks a type that it then refuses.
			"auth": object{"selectedType": "gemini-api-key"},
			// Or it would not start in a directory that it does not trust.
			"folderTrust": object{"enabled": false},
		},
		"privacy":   object{"usageStatisticsEnabled": false},
		"telemetry": object{"enabled": false},
		// Its own ten attempts take minutes, in silence.
		"general": object{"enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 3},
	}
	if inv.MaxTurns > 0 {
		settings["model"] = object{"maxSessionTurns": inv.MaxTurns}
	}
	return settings
}

// policy allows all tools but those of the role, those that ask a person, and
// those that the provider would run outside of the sandbox.
func (g gemini) policy(inv Invocation, proxied bool) string {
	denied := append([]string{"ask_user", "enter_plan_mode", "exit_plan_mode"}, inv.DenyTools...)
	if proxied {
		denied = append(denied, "google_web_search", "web_fetch")
	}
	names := make([]string, len(denied))
	for i, name := range denied {
		names[i] = quoted(name)
	}
	return `[[rule]]
toolName = "*"
decision = "allow"
priority = 900
allowRedirection = true

[[rule]]
toolName = [` + strings.Join(names, ", ") + `]
decision = "deny"
priority = 990
`
}

// mountPackage makes the person's CLI visible in a container, where the image has
// to hold node: it is a script with its neighbours.
func (g gemini) mountPackage(cmd *Command, inv Invocation) error {
	g.putFirst(cmd, inv)
	if inv.Sandbox == SandboxLocal || g.path == "" {
		return nil
	}
	script, err := g.resolved()
	if err != nil {
		return err
	}
	dir := filepath.Dir(filepath.Dir(script)) // PACKAGE/bundle/gemini.js
	info, err := os.Stat(filepath.Join(dir, "package.json"))
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return &run.UserError{
			Message: fmt.Sprintf("%q does not lie in an installed package that can be mounted into a container", g.path),
			Hint:    "name the file bundle/gemini.js of the npm package " + g.pkg,
			Err:     err,
		}
	}
	inside, err := filepath.Rel(dir, script)
	if err != nil {
		return fmt.Errorf("path of agent gemini: %w", err)
	}
	target := mountDir + g.name
	cmd.Argv = append([]string{"node", target + "/" + filepath.ToSlash(inside)}, cmd.Argv[1:]...)
	cmd.Mounts = append(cmd.Mounts, Mount{Host: dir, Target: target})
	return nil
}

// NewParser implements Backend.
func (g gemini) NewParser(emit func(Activity)) Parser { return newFeed(emit, geminiDialect{}) }

// geminiDialect reads what the CLI prints with --output-format stream-json.
//
//   - A message comes in pieces.
//   - An error of the API is told as "[API Error: BODY]", where advice may
//     follow, on further lines.
//   - Input tokens include those from the cache, and thoughts count in the total
//     only.
type geminiDialect struct{}

func (geminiDialect) event(f *feed, kind string, b []byte) bool {
	if kind != "message" {
		f.endText()
	}
	switch kind {
	case "init":
		f.result.Model = oneLine(text(member(b, "model")))
		f.emit(Activity{Kind: ActivityInit, Text: f.result.Model})
	case "message":
		message, ok := pick(b, "role", "content")
		if ok && text(message[0]) == "assistant" {
			f.works()
			f.say(text(message[1]))
		}
	case "tool_use":
		call, ok := pick(b, "tool_name", "parameters")
		if !ok {
			return false
		}
		input, _ := pick(call[1], "command", "file_path", "path", "dir_path", "pattern", "description")
		f.tool(text(call[0]), firstOf(text(input[1]), text(input[2]), text(input[3])),
			firstOf(text(input[0]), text(input[4]), text(input[5])))
	case "error":
		event, ok := pick(b, "severity", "message")
		if !ok {
			return false
		}
		f.emit(Activity{Kind: ActivityError, Text: oneLine(text(event[1]))})
	case "result":
		end, ok := pick(b, "status", "error", "stats", "timestamp")
		if !ok {
			return false
		}
		if stats, ok := pick(end[2], "input_tokens", "output_tokens", "cached", "total_tokens"); ok {
			input, output, cached := tokens(stats[0]), tokens(stats[1]), tokens(stats[2])
			f.use(input-cached, max(output, tokens(stats[3])-input), cached, 0)
		}
		if text(end[0]) == "success" {
			f.done()
			f.other(kind)
			break
		}
		geminiFailure(f, text(member(end[1], "type")), text(member(end[1], "message")), text(end[3]))
	default: // tool_result and whatever comes next
		f.other(kind)
	}
	return true
}

// geminiFailure classifies the error of a result.
func geminiFailure(f *feed, kind, message, at string) {
	body, ok := strings.CutPrefix(message, "[API Error: ")
	r, read := readRefusal(body)
	switch {
	case ok && read:
		if now, err := time.Parse(time.RFC3339, at); err == nil && r.after > 0 {
			f.resetsAt = now.Add(r.after)
		}
		f.fail(r.outcome(), r.message)
	case kind == "FatalAuthenticationError":
		f.fail(OutcomeAuth, message)
	case ok && quotaWords(body):
		said, _, _ := strings.Cut(body, "]\n")
		f.fail(OutcomeRateLimited, said)
	default:
		f.fail(OutcomeErrored, firstOf(message, kind))
	}
}

// quotaWords says whether an error of the API without a body ends in the CLI's
// own advice for a rate limit, which stands on a line of its own.
func quotaWords(s string) bool {
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "Please wait and try again later.") ||
			strings.HasPrefix(line, "Possible quota limitations in place") {
			return true
		}
	}
	return false
}
