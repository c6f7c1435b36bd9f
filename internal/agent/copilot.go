package agent

import (
	"strings"
	"time"
)

// copilot is the GitHub Copilot CLI. Behind the proxy it works offline, with the
// proxy as its model provider, and needs no account; by itself it needs one.
type copilot struct{ cli }

// Command implements Backend.
func (c copilot) Command(inv Invocation) (Command, error) {
	proxied, err := c.proxied(inv)
	if err != nil {
		return Command{}, err
	}
	own := !proxied && c.env("COPILOT_PROVIDER_BASE_URL") == "" // GitHub's own models
	if !own {
		if err := c.needModel(inv); err != nil {
			return Command{}, err
		}
	}
	cmd := Command{
		Argv: []string{
			c.binary(), "--output-format", "json", "--stream", "off", "--no-color", "--log-level", "none",
			// The sandbox is the border, not a dialogue nobody would answer. Hooks
			// and servers of the work tree stay out: the CLI reads them where a
			// person said that the directory is to be trusted, which a fresh home
			// does not know of.
			"--allow-all", "--no-ask-user", "--no-auto-update", "--no-remote", "--disable-builtin-mcps",
		},
		Env: map[string]string{},
	}
	if len(inv.DenyTools) > 0 {
		cmd.Argv = append(cmd.Argv, "--excluded-tools="+strings.Join(inv.DenyTools, ","))
	}
	if inv.Model != "" {
		cmd.Env["COPILOT_MODEL"] = inv.Model
	}
	if !own {
		cmd.Env["COPILOT_OFFLINE"] = "true"
		if strings.HasPrefix(inv.Model, "gpt-5") {
			// These think between calls only there.
			cmd.Env["COPILOT_PROVIDER_WIRE_API"] = "responses"
		}
	}
	if proxied {
		cmd.Env["COPILOT_PROVIDER_BASE_URL"] = inv.BaseURL + "/v1"
		cmd.Env["COPILOT_PROVIDER_API_KEY"] = inv.Token
	} else {
		// Never GH_TOKEN or GITHUB_TOKEN, which it would take as well.
		cmd.PassEnv = []string{
			"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE",
			"COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN",
		}
	}
	return cmd, c.mount(&cmd, inv)
}

// NewParser implements Backend.
func (c copilot) NewParser(emit func(Activity)) Parser { return newFeed(emit, copilotDialect{}) }

// copilotDialect reads what the CLI prints with --output-format json.
//
//   - The result alone tells too little: after an interruption it has exit code
//     0, too. What was reported before it counts.
//   - It does not tell what was used.
type copilotDialect struct{}

func (copilotDialect) event(f *feed, kind string, b []byte) bool {
	switch kind {
	case "assistant.message":
		message, ok := pick(member(b, "data"), "content", "model", "parentToolCallId")
		if !ok {
			return false
		}
		f.works()
		f.failed = ""
		f.result.Model = firstOf(oneLine(text(message[1])), f.result.Model)
		if len(message[2]) == 0 { // not a sub-agent's
			f.say(text(message[0]))
			f.endText()
		}
	case "assistant.turn_start":
		f.result.Usage.Turns = int(bound(int64(f.result.Usage.Turns) + 1))
		f.other(kind)
	case "tool.execution_start":
		call, ok := pick(member(b, "data"), "toolName", "arguments")
		if !ok {
			return false
		}
		input, _ := pick(call[1], "command", "path", "pattern", "description")
		f.tool(text(call[0]), text(input[1]), firstOf(text(input[0]), text(input[2]), text(input[3])))
	case "model.call_failure":
		failure, ok := pick(member(b, "data"), "statusCode", "errorMessage")
		if !ok {
			return false
		}
		status := int(tokens(failure[0]))
		r, _ := readRefusal(text(failure[1]))
		r.status = status
		if r.after > 0 {
			if now, err := time.Parse(time.RFC3339, text(member(b, "timestamp"))); err == nil {
				f.resetsAt = now.Add(r.after)
			}
		}
		f.wait(r.outcome(), statusText(status, r.message))
	case "session.error":
		end, ok := pick(member(b, "data"), "errorType", "message", "statusCode")
		if !ok {
			return false
		}
		why := f.waiting // the failure of the call says it best
		if why == "" || why == OutcomeErrored {
			why = copilotOutcome(text(end[0]), int(tokens(end[2])))
		}
		f.fail(why, text(end[1]))
	case "abort":
		if f.waiting != "" && f.waiting != OutcomeErrored {
			f.fail(f.waiting, f.reason)
		} else {
			f.fail(OutcomeErrored, "interrupted: "+text(member(b, "data", "reason")))
		}
	case "result":
		if code := member(b, "exitCode"); f.failed == "" && (len(code) == 0 || amount(code) != 0) {
			f.fail(OutcomeErrored, "the agent reports exit code "+string(code))
		} else if f.failed == "" {
			f.done()
		}
		f.other(kind)
	default:
		f.other(kind)
	}
	return true
}

func copilotOutcome(kind string, status int) Outcome {
	switch kind {
	case "authentication", "authorization":
		return OutcomeAuth
	case "rate_limit":
		return OutcomeRateLimited
	case "quota":
		return OutcomeQuota
	default:
		return classify(status, "")
	}
}
