package agent

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/ralph-action/internal/run"
)

// ACPCommand is the sub-command of our own binary that speaks the Agent Client
// Protocol with an agent, in the sandbox: `bot acp-client COMMAND`, with the prompt on
// standard input and the work tree as working directory. With --hello it asks the
// agent for no more than its name and version. Package acp has what it does.
const ACPCommand = "acp-client"

// acpSelfTarget is where our own binary is seen in a container.
const acpSelfTarget = mountDir + ACPCommand

// acp is any program that speaks the Agent Client Protocol on its standard input and
// output. Its command line gets the variables of the back end command.
type acp struct {
	command

	self string
}

// About implements Backend.
func (a acp) About() About {
	about := a.command.About()
	about.Name = "acp"
	return about
}

// Command implements Backend.
func (a acp) Command(inv Invocation) (Command, error) {
	cmd, err := a.command.Command(inv)
	if err != nil {
		return Command{}, err
	}
	return cmd, client(&cmd, a.self, a.line, inv)
}

// client puts our client for the protocol in front of an agent's command line.
func client(cmd *Command, self, line string, inv Invocation) error {
	self, err := filepath.Abs(self)
	if err != nil {
		return fmt.Errorf("path of own binary: %w", err)
	}
	if inv.Sandbox != SandboxLocal {
		cmd.Mounts = append(cmd.Mounts, Mount{Host: self, Target: acpSelfTarget})
		self = acpSelfTarget
	}
	cmd.Argv = []string{self, ACPCommand, line}
	if cmd.Version == nil {
		cmd.Version = []string{self, ACPCommand, "--hello", line}
	}
	return nil
}

// NewParser implements Backend.
func (a acp) NewParser(emit func(Activity)) Parser { return newACPFeed(emit) }

// acpDialect reads what package acp prints: the updates of a session as the agent sent
// them, under the names that the protocol gives them, and the answer to the prompt.
//
//   - A message comes in pieces.
//   - A call of a tool may be announced before its input is known, or by the question
//     whether it is permitted alone.
//   - What was used is told by some, and not all of it; the gateway knows.
type acpDialect struct {
	cwd string
	// seen are the calls that have been told, by their ids.
	seen map[string]bool
}

func newACPFeed(emit func(Activity)) *feed {
	return newFeed(emit, &acpDialect{seen: map[string]bool{}})
}

func (d *acpDialect) event(f *feed, kind string, e gjson.Result) bool {
	if kind != "agent_message_chunk" {
		f.endText()
	}
	update := e.Get("update")
	switch kind {
	case "init":
		d.cwd = strings.Clone(strings.TrimSuffix(text(e.Get("cwd")), "/"))
		f.result.Version = oneLine(text(e.Get("agent.version")))
		// Where a preset of ours names the model's provider, it is not the model's name.
		f.result.Model = oneLine(strings.TrimPrefix(text(e.Get("model")), presetProvider+"/"))
		f.emit(Activity{Kind: ActivityInit, Text: oneLine(strings.Join([]string{
			text(e.Get("agent.name")), f.result.Version, f.result.Model,
		}, " "))})
	case "agent_message_chunk":
		f.works()
		f.say(text(update.Get("content.text")))
	case "tool_call", "tool_call_update", "permission":
		d.call(f, kind, update)
	case "usage_update":
		if text(update.Get("cost.currency")) == "USD" {
			f.cost(update.Get("cost.amount"))
		}
		f.other(kind)
	case "result":
		d.result(f, e.Get("result"))
	case "error":
		acpFailure(f, e.Get("error"))
	default: // agent_thought_chunk, plan and whatever comes next
		f.other(kind)
	}
	return true
}

// result handles the answer to the prompt.
func (d *acpDialect) result(f *feed, result gjson.Result) {
	f.result.Answered = true
	if quota := result.Get("_meta.quota.token_count"); quota.IsObject() { // Gemini's way
		f.use(run.Usage{InputTokens: tokens(quota.Get("input_tokens")), OutputTokens: tokens(quota.Get("output_tokens"))})
	} else if u := result.Get("usage"); u.IsObject() {
		f.use(run.Usage{
			InputTokens:     tokens(u.Get("inputTokens")),
			OutputTokens:    tokens(u.Get("outputTokens")) + tokens(u.Get("thoughtTokens")),
			CacheReadTokens: tokens(u.Get("cachedReadTokens")), CacheWriteTokens: tokens(u.Get("cachedWriteTokens")),
		})
	}
	if reason := text(result.Get("stopReason")); reason != "end_turn" {
		f.fail(OutcomeErrored, "the agent stopped: "+reason)
		return
	}
	f.done()
	f.other("result")
}

// call tells of a call of a tool, once, when it is known what it is for.
func (d *acpDialect) call(f *feed, kind string, call gjson.Result) {
	id, in := idOf(call.Get("toolCallId")), call.Get("rawInput")
	about := firstOf(text(in.Get("command")), text(in.Get("pattern")), text(in.Get("query")), text(in.Get("url")))
	path := text(call.Get("locations.0.path"))
	if path == d.cwd {
		path = "" // a command's directory
	} else if d.cwd != "" {
		path = strings.TrimPrefix(path, d.cwd+"/")
	}
	early := kind == "tool_call" && text(call.Get("status")) == "pending" && about == "" && path == ""
	if d.seen[id] || early {
		f.works()
		f.other(kind)
		return
	}
	if len(d.seen) < maxIDs {
		d.seen[id] = true
	}
	f.tool(firstOf(text(call.Get("kind")), "other"), path, firstOf(about, text(call.Get("title"))))
}

// acpAuthRequired is the protocol's code for an agent that wants to be logged in.
const acpAuthRequired = -32000

// acpFailure classifies an error of the protocol. Some agents hand on the answer of the
// model's API as its text, or its status as its code.
func acpFailure(f *feed, failure gjson.Result) {
	code, message := int(failure.Get("code").Int()), text(failure.Get("message"))
	if code == acpAuthRequired {
		f.fail(OutcomeAuth, firstOf(message, "the agent wants to be logged in"))
		return
	}
	r, ok := readRefusal(message)
	if !ok {
		r.message = message
	}
	if r.status == 0 {
		r.status = code
	}
	f.fail(r.outcome(), r.message)
}
