package agent

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// opencode is the opencode CLI.
type opencode struct{ cli }

// About implements Backend.
func (o opencode) About() About {
	about := o.cli.About()
	about.RepeatsLimits = true
	// The CLI imports the plugins that these name, whatever it is told:
	// OPENCODE_PURE and OPENCODE_DISABLE_PROJECT_CONFIG do not keep it.
	about.Hides = []string{".opencode", "opencode.json", "opencode.jsonc"}
	return about
}

// Command implements Backend.
func (o opencode) Command(inv Invocation) (Command, error) {
	proxied, err := o.proxied(inv)
	if err != nil {
		return Command{}, err
	}
	if err := o.needModel(inv); err != nil {
		return Command{}, err
	}
	cmd := Command{
		Argv: []string{o.binary(), "run", "--format", "json"},
		Env: map[string]string{
			// What it would otherwise fetch at each start.
			"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
			"OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
		},
	}
	base := firstOf(o.env("OPENAI_BASE_URL"), "https://api.openai.com/v1")
	if proxied {
		base = inv.BaseURL + "/v1"
		cmd.Env["OPENAI_API_KEY"] = inv.Token
	} else {
		cmd.PassEnv = []string{"OPENAI_API_KEY"}
	}
	config, err := json.Marshal(o.config(inv, base))
	if err != nil {
		return Command{}, fmt.Errorf("configuration of agent opencode: %w", err)
	}
	cmd.Env["OPENCODE_CONFIG_CONTENT"] = string(config)
	return cmd, o.mount(&cmd, inv)
}

func (o opencode) config(inv Invocation, base string) map[string]any {
	type object = map[string]any
	// Of its rules the last that fits counts, and they are written in the order
	// of their names: "*" comes first.
	permission := object{"*": "allow"}
	for _, tool := range inv.DenyTools {
		permission[tool] = "deny"
	}
	return object{
		"provider": object{"ralph": object{
			"npm": "@ai-sdk/openai-compatible", "name": "ralph",
			// The CLI puts the variable's value there.
			"options": object{"baseURL": base, "apiKey": "{env:OPENAI_API_KEY}"}, //nolint:gosec // G101: the name of a variable
			"models":  object{inv.Model: object{"name": inv.Model}},
		}},
		"model": "ralph/" + inv.Model, "small_model": "ralph/" + inv.Model,
		"permission": permission, "share": "disabled", "autoupdate": false,
	}
}

// NewParser implements Backend.
func (o opencode) NewParser(emit func(Activity)) Parser { return newFeed(emit, opencodeDialect{}) }

// opencodeDialect reads what opencode run prints with --format json. It has no
// event for the end: that is a step which ends for another reason than calls of
// tools, with no error after it. The usage is told step by step.
type opencodeDialect struct{}

func (opencodeDialect) event(f *feed, kind string, b []byte) bool {
	switch kind {
	case "step_start":
		f.works()
		f.other(kind)
	case "text":
		f.say(text(member(b, "part", "text")))
		f.endText()
	case "tool_use":
		name := text(member(b, "part", "tool"))
		if name == "" {
			return false
		}
		input, _ := pick(member(b, "part", "state", "input"), "command", "filePath", "path", "pattern", "description")
		f.tool(name, firstOf(text(input[1]), text(input[2])), firstOf(text(input[0]), text(input[3]), text(input[4])))
	case "step_finish":
		step, ok := pick(member(b, "part"), "reason", "tokens", "cost")
		if !ok {
			return false
		}
		if counts, ok := pick(step[1], "input", "output", "reasoning", "cache"); ok {
			f.use(tokens(counts[0]), tokens(counts[1])+tokens(counts[2]), tokens(member(counts[3], "read")),
				tokens(member(counts[3], "write")))
		}
		u := &f.result.Usage
		u.CostUSD = min(u.CostUSD+max(amount(step[2]), 0), maxCost)
		u.Turns = int(bound(int64(u.Turns) + 1))
		switch reason := text(step[0]); reason {
		case "tool-calls", "unknown", "":
			f.other(kind)
		case "stop":
			f.done()
			f.other(kind)
		default:
			f.fail(OutcomeErrored, "the model's answer ended early: "+reason)
		}
	case "error":
		opencodeFailure(f, b)
	default: // reasoning and whatever comes next
		f.other(kind)
	}
	return true
}

func opencodeFailure(f *feed, b []byte) {
	name, data := text(member(b, "error", "name")), member(b, "error", "data")
	fields, _ := pick(data, "message", "statusCode", "responseBody", "responseHeaders")
	message, status := text(fields[0]), int(tokens(fields[1]))
	if own, err := strconv.Atoi(text(member(fields[3], strings.ToLower(FinalLimitHeader)))); err == nil {
		status = own
	}
	why := classify(status, "")
	if r, ok := readRefusal(text(fields[2])); ok {
		r.status = status
		why = r.outcome()
	}
	if name == "ProviderAuthError" {
		why = OutcomeAuth
	}
	if why == OutcomeRateLimited {
		now := time.UnixMilli(int64(min(max(amount(member(b, "timestamp")), 0), maxTime*1000))).UTC()
		f.resetsAt = retryAfter(text(member(fields[3], "retry-after")), now)
	}
	if status != 0 {
		message = statusText(status, message)
	}
	f.fail(why, strings.TrimSpace(firstOf(message, name)))
}
