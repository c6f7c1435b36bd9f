package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/org/ralph-action/internal/run"
)

// claude is the Claude Code CLI.
type claude struct{ cli }

// Command implements Backend.
func (c claude) Command(inv Invocation) (Command, error) {
	cmd := Command{
		Argv: []string{
			c.binary(), "-p", "--output-format", "stream-json", "--verbose",
			// The sandbox is the border, not a dialogue nobody would answer.
			"--dangerously-skip-permissions",
			// Settings and MCP servers of the work tree stay out: in -p mode the
			// CLI applies them without asking, and a settings file that sets
			// ANTHROPIC_BASE_URL would take the credentials elsewhere, one with
			// hooks would run commands of an earlier iteration.
			"--setting-sources", "user", "--strict-mcp-config",
		},
		// Without this every start tries hosts it cannot reach (12 s of DNS
		// time-outs without network) and asks the model for a session title.
		Env: map[string]string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
	}
	if inv.Model != "" {
		// One argument, so that a name cannot become an option.
		cmd.Argv = append(cmd.Argv, "--model="+inv.Model)
	}
	if len(inv.DenyTools) > 0 {
		cmd.Argv = append(cmd.Argv, "--disallowedTools="+strings.Join(inv.DenyTools, ","))
	}
	if inv.MaxTurns > 0 {
		cmd.Argv = append(cmd.Argv, "--max-turns", strconv.Itoa(inv.MaxTurns))
	}

	proxied, err := c.proxied(inv)
	if err != nil {
		return Command{}, err
	}
	if proxied {
		cmd.Env["ANTHROPIC_BASE_URL"] = inv.BaseURL
		cmd.Env["ANTHROPIC_API_KEY"] = inv.Token
	} else {
		cmd.PassEnv = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL"}
	}
	if inv.Sandbox == SandboxLocal && os.Getuid() == 0 {
		// The CLI refuses to skip permissions as root unless told that it is
		// confined. A container's user is never root.
		cmd.Env["IS_SANDBOX"] = "1"
	}
	return cmd, c.mount(&cmd, inv)
}

// NewParser implements Backend.
func (c claude) NewParser(emit func(Activity)) Parser { return newFeed(emit, &claudeDialect{}) }

// claudeDialect reads what Claude Code prints with --output-format stream-json.
//
//   - Several result events may come (a background command wakes the agent up
//     again): usage and turns are per event and are added up, the cost is
//     cumulative, so the last one counts, and so does the last verdict.
//   - is_error counts as failure also under subtype "success": that is how the
//     CLI reports refusals of the API.
//   - A killed run has no result event at all.
type claudeDialect struct {
	cwd string
	// apiError is the CLI's name for the API's last refusal.
	apiError string
	// before is the usage of the messages before the one with the id message, and
	// last that one's; the result at the end has the last word.
	before, last run.Usage
	message      string
}

func (d *claudeDialect) event(f *feed, kind string, e gjson.Result) bool {
	switch kind {
	case "system":
		d.system(f, e)
	case "assistant":
		d.assistant(f, e)
	case "rate_limit_event":
		limit := e.Get("rate_limit_info")
		if at := limit.Get("resetsAt").Int(); text(limit.Get("status")) == "rejected" && at > 0 && at <= maxTime {
			f.resetsAt = time.Unix(at, 0).UTC()
		}
		f.other(kind)
	case "result":
		d.result(f, e)
	default:
		f.other(kind)
	}
	return true
}

func (d *claudeDialect) system(f *feed, e gjson.Result) {
	switch subtype := text(e.Get("subtype")); subtype {
	case "init":
		d.cwd = strings.Clone(strings.TrimSuffix(text(e.Get("cwd")), "/"))
		f.result.Model, f.result.Version = oneLine(text(e.Get("model"))), oneLine(text(e.Get("claude_code_version")))
		f.emit(Activity{Kind: ActivityInit, Text: oneLine(f.result.Version + " " + f.result.Model)})
	case "api_retry":
		status, name := int(e.Get("error_status").Int()), text(e.Get("error"))
		what := "cannot be reached"
		if status != 0 {
			what = fmt.Sprintf("answered %d", status)
		}
		f.wait(classify(status, name), fmt.Sprintf("the model API %s (%s); attempt %d of %d failed", what, name,
			e.Get("attempt").Int(), e.Get("max_retries").Int()))
	default:
		f.other("system/" + subtype)
	}
}

func (d *claudeDialect) assistant(f *feed, e gjson.Result) {
	f.works()
	d.apiError = strings.Clone(text(e.Get("error")))
	d.count(f, e.Get("message"))
	kind, words := ActivityText, strings.Builder{}
	if d.apiError != "" {
		kind = ActivityError
	}
	say := func(said string) {
		words.WriteString(said)
		if line := oneLine(said); line != "" {
			f.emit(Activity{Kind: kind, Text: line})
		}
	}
	for _, content := range []gjson.Result{e.Get("message.content"), e.Get("content")} { // old versions have it at the top
		say(text(content))
		each(content, func(b gjson.Result) {
			switch kind := text(b.Get("type")); kind {
			case "text":
				say(text(b.Get("text")))
			case "tool_use":
				d.tool(f, text(b.Get("name")), b.Get("input"))
			default: // thinking and whatever comes next
				f.other(kind)
			}
		})
	}
	// What a sub-agent says is not the last word of the agent.
	if words.Len() > 0 && text(e.Get("parent_tool_use_id")) == "" {
		f.result.Answered = f.result.Answered || d.apiError == ""
		f.last = append(f.last[:0], tail(words.String())...)
	}
}

func (d *claudeDialect) tool(f *feed, name string, in gjson.Result) {
	path := firstOf(text(in.Get("file_path")), text(in.Get("notebook_path")), text(in.Get("path")))
	if d.cwd != "" {
		path = strings.TrimPrefix(path, d.cwd+"/")
	}
	f.tool(name, path, firstOf(text(in.Get("command")), text(in.Get("pattern")), path, text(in.Get("description"))))
}

// count adds up what messages used. A message comes in several events, each with
// all that it used by then.
func (d *claudeDialect) count(f *feed, message gjson.Result) {
	usage := message.Get("usage")
	if !usage.IsObject() {
		return
	}
	if id := idOf(message.Get("id")); id != d.message || id == "" {
		d.before, d.message = d.before.Add(d.last), id
	}
	d.last = claudeUsage(usage)
	f.seen = d.before.Add(d.last)
}

func claudeUsage(u gjson.Result) run.Usage {
	return run.Usage{
		InputTokens: tokens(u.Get("input_tokens")), OutputTokens: tokens(u.Get("output_tokens")),
		CacheReadTokens:  tokens(u.Get("cache_read_input_tokens")),
		CacheWriteTokens: tokens(u.Get("cache_creation_input_tokens")),
	}
}

func (d *claudeDialect) result(f *feed, e gjson.Result) {
	used := claudeUsage(e.Get("usage"))
	used.Turns = int(tokens(e.Get("num_turns")))
	f.use(used)
	f.cost(e.Get("total_cost_usd"))
	f.result.PermissionDenials = int(e.Get("permission_denials.#").Int())
	said, subtype := text(e.Get("result")), text(e.Get("subtype"))
	f.result.FinalText = tail(said)
	if !e.Get("is_error").Bool() && !strings.HasPrefix(subtype, "error") {
		f.done()
		f.other("result")
		return
	}
	var errors []string
	each(e.Get("errors"), func(v gjson.Result) { errors = append(errors, text(v)) })
	f.fail(classify(int(e.Get("api_error_status").Int()), d.apiError), firstOf(said, strings.Join(errors, "; "), subtype))
}
