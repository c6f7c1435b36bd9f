package agenttest

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/run"
)

// Script decides how the model answers one request.
type Script func(Turn) Reply

// Turn is a conversation as it stands when the model is asked to go on.
type Turn struct {
	// Model is the model the client asked for.
	Model string
	// Assignment is read from the prompt.
	agent.Assignment
	// Prompt is all text of the user before the model's first answer.
	Prompt string
	// Number counts the model's answers so far: 0 on the first request.
	Number int
	// Tools are the names of the tools the client offers, in its order. Side
	// requests of a CLI (a title for the session) offer none.
	Tools []string
	// Results are the answers to the tool calls of the turn before.
	Results []ToolResult
}

// ToolResult is what a tool call gave. Not every API tells that it failed.
type ToolResult struct {
	Text    string
	IsError bool
}

// Reply is one answer of the model: text and tool calls, or an error.
type Reply struct {
	Text  string
	Tools []ToolUse

	// Status of 400 and above makes the reply an error with ErrorType, Message
	// and Header. 0 means 200. Without ErrorType it is the API's own for that
	// status.
	Status    int
	ErrorType string
	Message   string
	Header    http.Header

	// InputTokens and OutputTokens are reported as usage; 0 becomes 100 and 20.
	InputTokens, OutputTokens int64
}

// ToolUse is one call of a tool of the client.
type ToolUse struct {
	Name  string
	Input map[string]any
}

// Say ends the conversation with a text.
func Say(text string) Reply { return Reply{Text: text} }

// Done ends a call and claims its task, as prompts ask for it.
func Done(text string) Reply { return Say(text + "\n\nRALPH_RESULT: done") }

// Bash makes Claude Code run a shell command in its work tree; see Turn.Shell
// for any client.
func Bash(command string) Reply {
	return Reply{Tools: []ToolUse{{
		Name:  "Bash",
		Input: object{"command": command, "description": "Run a scripted command"},
	}}}
}

// shells are the shell tools of the CLIs, and what each calls its command.
var shells = []struct{ tool, command string }{
	{"Bash", "command"},              // Claude Code
	{"exec_command", "cmd"},          // Codex
	{"run_shell_command", "command"}, // Gemini CLI
	{"bash", "command"},              // opencode, Copilot CLI
}

// Shell makes whatever client asks run a shell command in its work tree. A client
// that offers no shell is refused.
func (t Turn) Shell(command string) Reply {
	for _, s := range shells {
		if slices.Contains(t.Tools, s.tool) {
			input := object{s.command: command}
			if s.command == "command" {
				input["description"] = "Run a scripted command"
			}
			return Reply{Tools: []ToolUse{{Name: s.tool, Input: input}}}
		}
	}
	return Fail(http.StatusBadRequest, fmt.Sprintf("no shell among the tools %q", t.Tools))
}

// Write makes Claude Code write a file. The real CLI wants an absolute path.
func Write(path, content string) Reply {
	return Reply{Tools: []ToolUse{{
		Name:  "Write",
		Input: object{"file_path": path, "content": content},
	}}}
}

// Fail refuses the request the way the API does: 400 invalid_request_error,
// 401 authentication_error, 429 rate_limit_error, 529 overloaded_error and so on.
func Fail(status int, message string) Reply {
	return Reply{Status: status, Message: message}
}

// PlanKey names the replies for a prompt in plan mode in Play.
const PlanKey = "plan"

// Play answers the n-th turn about a task with the n-th of its replies; the
// last one repeats. Plan mode has the key PlanKey, anything else "".
func Play(replies map[string][]Reply) Script {
	return func(t Turn) Reply {
		if len(t.Tools) == 0 {
			return Say("ok")
		}
		key := t.Task
		if t.Mode == run.ModePlan {
			key = PlanKey
		}
		list, ok := replies[key]
		if !ok {
			list = replies[""]
		}
		if len(list) == 0 {
			return Fail(http.StatusBadRequest, fmt.Sprintf("the script has no reply for %q", key))
		}
		return list[min(t.Number, len(list)-1)]
	}
}
