package agent

import (
	"fmt"
	"path/filepath"
	"strings"
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
	about.Version = []string{a.self, ACPCommand, "--hello", a.line}
	about.RepeatsLimits = true // nobody knows, and some do
	return about
}

// Command implements Backend.
func (a acp) Command(inv Invocation) (Command, error) {
	cmd, err := a.command.Command(inv)
	if err != nil {
		return Command{}, err
	}
	self, err := filepath.Abs(a.self)
	if err != nil {
		return Command{}, fmt.Errorf("path of own binary: %w", err)
	}
	if inv.Sandbox != SandboxLocal {
		cmd.Mounts = append(cmd.Mounts, Mount{Host: self, Target: acpSelfTarget})
		self = acpSelfTarget
	}
	cmd.Argv = []string{self, ACPCommand, a.line}
	return cmd, nil
}

// NewParser implements Backend.
func (a acp) NewParser(emit func(Activity)) Parser {
	return newFeed(emit, &acpDialect{begun: map[string]bool{}})
}

// acpDialect reads what package acp prints: the updates of a session as the agent sent
// them, under the names that the protocol gives them, and the answer to the prompt.
//
//   - A message comes in pieces.
//   - A call of a tool may be announced before its input is known, or by the question
//     whether it is permitted alone.
//   - What was used is told by some, and not all of it; the gateway knows.
type acpDialect struct {
	cwd string
	// begun are the calls that have been told, by their ids.
	begun map[string]bool
}

func (d *acpDialect) event(f *feed, kind string, b []byte) bool {
	if kind != "agent_message_chunk" {
		f.endText()
	}
	switch kind {
	case "init":
		start, ok := pick(b, "agent", "model", "cwd")
		if !ok {
			return false
		}
		d.cwd = strings.TrimSuffix(text(start[2]), "/")
		f.result.Version, f.result.Model = oneLine(text(member(start[0], "version"))), oneLine(text(start[1]))
		f.emit(Activity{Kind: ActivityInit, Text: oneLine(strings.Join([]string{
			text(member(start[0], "name")), f.result.Version, f.result.Model,
		}, " "))})
	case "agent_message_chunk":
		f.works()
		f.say(text(member(b, "update", "content", "text")))
	case "tool_call", "tool_call_update", "permission":
		d.call(f, kind, member(b, "update"))
	case "usage_update":
		if cost := member(b, "update", "cost"); text(member(cost, "currency")) == "USD" {
			f.result.Usage.CostUSD = min(max(amount(member(cost, "amount")), 0), maxCost)
		}
		f.other(kind)
	case "result":
		end, ok := pick(member(b, "result"), "stopReason", "usage")
		if !ok {
			return false
		}
		if counts, ok := pick(end[1], "inputTokens", "outputTokens", "thoughtTokens", "cachedReadTokens",
			"cachedWriteTokens"); ok {
			f.use(tokens(counts[0]), tokens(counts[1])+tokens(counts[2]), tokens(counts[3]), tokens(counts[4]))
		}
		if reason := text(end[0]); reason != "end_turn" {
			f.fail(OutcomeErrored, "the agent stopped: "+reason)
			break
		}
		f.done()
		f.other(kind)
	case "error":
		acpFailure(f, member(b, "error"))
	default: // agent_thought_chunk, plan and whatever comes next
		f.other(kind)
	}
	return true
}

// call tells of a call of a tool, once, when it is known what it is for.
func (d *acpDialect) call(f *feed, kind string, update []byte) {
	call, _ := pick(update, "toolCallId", "kind", "title", "rawInput", "locations", "status")
	id := text(call[0])
	id = strings.Clone(id[:min(len(id), maxID)])
	input, _ := pick(call[3], "command", "pattern", "query", "url")
	about, path := firstOf(text(input[0]), text(input[1]), text(input[2]), text(input[3])), ""
	for location := range elements(call[4]) {
		path = text(member(location, "path"))
		break
	}
	if path == d.cwd {
		path = "" // a command's directory
	} else if d.cwd != "" {
		path = strings.TrimPrefix(path, d.cwd+"/")
	}
	early := kind == "tool_call" && text(call[5]) == "pending" && about == "" && path == ""
	if d.begun[id] || early {
		f.works()
		f.other(kind)
		return
	}
	if len(d.begun) < maxBegun {
		d.begun[id] = true
	}
	f.tool(firstOf(text(call[1]), "other"), path, firstOf(about, text(call[2])))
}

// acpAuthRequired is the protocol's code for an agent that wants to be logged in.
const acpAuthRequired = -32000

// acpFailure classifies an error of the protocol. Some agents hand on the answer of the
// model's API as its text, or its status as its code.
func acpFailure(f *feed, failure []byte) {
	said, _ := pick(failure, "code", "message", "data")
	code, message := int(amount(said[0])), text(said[1])
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
