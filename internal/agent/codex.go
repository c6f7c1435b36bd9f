package agent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// codex is the OpenAI Codex CLI.
type codex struct{ cli }

// Command implements Backend.
func (c codex) Command(inv Invocation) (Command, error) {
	proxied, err := c.proxied(inv)
	if err != nil {
		return Command{}, err
	}
	cmd := Command{Env: map[string]string{}}
	base := c.openAI(&cmd, inv, proxied)
	// A provider of our own: the built-in one wants a login. What is given here
	// wins over every file, also where the name is taken in one.
	provider := fmt.Sprintf(`{name="ralph",base_url=%s,env_key="OPENAI_API_KEY",wire_api="responses"}`, quoted(base))
	cmd.Argv = []string{
		c.binary(), "exec", "--json", "--skip-git-repo-check", "--ephemeral",
		// The sandbox is the border. Settings, hooks and servers of the work tree
		// stay out without a flag: the CLI reads them where a person said that the
		// directory is to be trusted, which a fresh home does not know of.
		"--dangerously-bypass-approvals-and-sandbox", "--ignore-rules",
		"-c", "model_provider=ralph", "-c", "model_providers.ralph=" + provider,
		// Without network it would hang at its end, for seconds.
		"-c", "analytics.enabled=false",
		// What the provider would run for the agent has no place in the sandbox,
		// and costs extra.
		"-c", "web_search=disabled", "-c", "features.image_generation=false",
		// The gateway has to read what is asked.
		"-c", "features.enable_request_compression=false",
	}
	if inv.Model != "" {
		cmd.Argv = append(cmd.Argv, "--model="+inv.Model)
	}
	cmd.Argv = append(cmd.Argv, "-") // the prompt is on standard input
	return cmd, c.mount(&cmd, inv)
}

// quoted is a value as JSON has it, which is how TOML has texts and lists of them.
func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return `""` // texts, and lists and maps of texts, can always be written
	}
	return string(b)
}

// NewParser implements Backend.
func (c codex) NewParser(emit func(Activity)) Parser {
	return newFeed(emit, &codexDialect{seen: map[string]bool{}})
}

// codexDialect reads what codex exec prints with --json.
//
//   - An item of type error is a warning (of a model it has no metadata for);
//     only turn.failed is a failure.
//   - An error at the top says that a request is repeated, or comes with
//     turn.failed.
//   - The counts of turn.completed are of the whole thread, so the last one
//     counts; they include what came from the cache.
type codexDialect struct {
	seen map[string]bool // the items whose start was seen
}

func (d *codexDialect) event(f *feed, kind string, e gjson.Result) bool {
	switch kind {
	case "item.started", "item.updated", "item.completed":
		return d.item(f, kind, e.Get("item"))
	case "thread.started":
		f.emit(Activity{Kind: ActivityInit, Text: "codex"})
	case "turn.started":
		f.works()
		f.other(kind)
	case "turn.completed":
		if u := e.Get("usage"); u.IsObject() {
			cached, written := tokens(u.Get("cached_input_tokens")), tokens(u.Get("cache_write_input_tokens"))
			f.result.Usage.InputTokens = max(tokens(u.Get("input_tokens"))-cached-written, 0)
			f.result.Usage.OutputTokens = tokens(u.Get("output_tokens"))
			f.result.Usage.CacheReadTokens, f.result.Usage.CacheWriteTokens = cached, written
		}
		f.done()
		f.other(kind)
	case "turn.failed":
		f.fail(codexFailure(text(e.Get("error.message"))))
	case "error":
		message := text(e.Get("message"))
		if attempt, rest, ok := strings.Cut(message, " ("); ok && strings.HasPrefix(attempt, "Reconnecting... ") {
			f.wait(codexFailure(strings.TrimSuffix(rest, ")")))
			break
		}
		f.emit(Activity{Kind: ActivityError, Text: oneLine(message)})
	default:
		f.other(kind)
	}
	return true
}

// item handles a part of the agent's work.
func (d *codexDialect) item(f *feed, event string, item gjson.Result) bool {
	id, kind := idOf(item.Get("id")), text(item.Get("type"))
	switch kind {
	case "":
		return false
	case "agent_message":
		if event == "item.completed" {
			f.works()
			f.say(text(item.Get("text")))
			f.endText()
		}
	case "error":
		f.other(text(item.Get("message")))
	case "command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call":
		known := d.seen[id]
		if event == "item.completed" {
			delete(d.seen, id)
		} else if len(d.seen) < maxIDs {
			d.seen[id] = true
		}
		if !known {
			d.call(f, kind, item)
		}
	default: // reasoning, todo_list and whatever comes next
		f.other(kind)
	}
	return true
}

func (d *codexDialect) call(f *feed, kind string, item gjson.Result) {
	switch kind {
	case "command_execution":
		f.tool("exec_command", "", text(item.Get("command")))
	case "file_change":
		each(item.Get("changes"), func(change gjson.Result) {
			f.tool("apply_patch", text(change.Get("path")), text(change.Get("kind")))
		})
	case "web_search":
		f.tool(kind, "", text(item.Get("query")))
	default:
		f.tool(firstOf(text(item.Get("tool")), kind), "", text(item.Get("server")))
	}
}

// codexStatus is the status of the API in the CLI's own words for an error.
var codexStatus = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b(?s:[^:]*: (.*), url: [^ ]*)?`)
})

// codexFailure classifies an error by the body or the status that the CLI passes on, and
// gives what a person should read.
func codexFailure(message string) (Outcome, string) {
	message = message[:min(len(message), maxRefusal)]
	if r, ok := readRefusal(message); ok {
		return r.outcome(), r.message
	}
	if m := codexStatus().FindStringSubmatch(message); m != nil {
		status, _ := strconv.Atoi(m[1]) // three digits
		if r, ok := readRefusal(m[2]); ok {
			r.status = status
			return r.outcome(), r.message
		}
		return classify(status, ""), message
	}
	return OutcomeErrored, strings.TrimPrefix(message, "stream disconnected before completion: ")
}
