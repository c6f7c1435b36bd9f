package agent

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// result is a result event of Claude Code.
func result(isError, words string) string {
	return `{"type":"result","subtype":"success","is_error":` + isError + `,"num_turns":1,"result":"` + words +
		`","usage":{}}`
}

// used is a turn of Claude Code that used the model.
const used = `{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}
{"type":"result","subtype":"success","is_error":false,"result":"half","usage":{"output_tokens":20}}
`

func TestTroubleIsNoTasks(t *testing.T) {
	t.Parallel()
	const noKey = "Invalid API key · Please run /login"
	tests := map[string]struct {
		cli, stream, stderr string
		code                int
		want                Outcome
		says                string
	}{
		// Claude Code, with and without a name for the error, whatever the exit code.
		"claude: credit": {
			"claude", result("true", "Credit balance is too low"), "", 0, OutcomeCredit, "Credit balance is too low",
		},
		"claude: credit, exit 1": {
			"claude", result("true", "Credit balance is too low"), "", 1, OutcomeCredit, "Credit balance is too low",
		},
		"claude: credit after work": {
			"claude", used + result("true", "Credit balance is too low"), "", 1, OutcomeCredit, "Credit balance",
		},
		"claude: credit in a body": {
			"claude",
			result("true", `API Error: 400 {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"Your credit balance is too low to access the Anthropic API.\"}}`),
			"", 1, OutcomeCredit, "credit balance",
		},
		"claude: called a success": {
			"claude", result("false", "Credit balance is too low"), "", 0, OutcomeCredit, "Credit balance",
		},
		"claude: key, a success": {"claude", result("false", noKey), "", 0, OutcomeAuth, "Please run /login"},
		"claude: key":            {"claude", result("true", noKey), "", 1, OutcomeAuth, "Please run /login"},
		"claude: 401": {
			"claude",
			result("true", `API Error: 401 {\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"OAuth token has expired.\"}} · Please run /login`),
			"", 1, OutcomeAuth, "401",
		},
		"claude: 401, a success": {"claude", result("false", "API Error: 401 unheard of"), "", 0, OutcomeAuth, "401"},
		"claude: failed to": {
			"claude", result("true", "Failed to authenticate. API Error: 401 Invalid bearer token"), "", 1, OutcomeAuth,
			"bearer",
		},
		"claude: token": {
			"claude", result("true", "OAuth token has expired. Please obtain a new token"), "", 1, OutcomeAuth, "OAuth",
		},
		"claude: model": {
			"claude",
			result("true", "There’s an issue with the selected model (opus-9). It may not exist or you may not have access to it."),
			"", 1, OutcomeModel, "opus-9",
		},
		"claude: model by status": {
			"claude", `{"type":"result","subtype":"success","is_error":true,"api_error_status":404,"result":"model: opus-9"}`,
			"", 1, OutcomeModel, "opus-9",
		},
		"claude: too long at once":    {"claude", result("true", "Prompt is too long"), "", 1, OutcomeContext, "too long"},
		"claude: too long, a success": {"claude", result("false", "Prompt is too long"), "", 0, OutcomeContext, "too long"},
		"claude: too long after work": {
			"claude", used + result("true", "Prompt is too long"), "", 1, OutcomeErrored, "Prompt is too long",
		},
		"claude: too long by status": {
			"claude", used + `{"type":"result","subtype":"success","is_error":true,"api_error_status":413,"result":"too large"}`,
			"", 1, OutcomeErrored, "too large",
		},
		"claude: a reset is a wait": {
			"claude", result("true", "API Error: Request rejected (429) · This request would exceed your rate limit"), "", 1,
			OutcomeRateLimited, "429",
		},
		"claude: a limit in words": {
			"claude", result("true", "You've hit your limit · resets 3pm (UTC)"), "", 1, OutcomeRateLimited, "resets",
		},
		"claude: the provider is down": {
			"claude", result("true", "API Error: 500 Internal server error"), "", 1, OutcomeUnavailable, "500",
		},
		"claude: no connection": {
			"claude", result("true", "API Error: Connection error."), "", 1, OutcomeUnavailable, "Connection",
		},
		"claude: stderr alone": {"claude", "", "node: warning\nError: " + noKey + "\n", 1, OutcomeAuth, noKey},
		"claude: a request of ours": {
			"claude", result("true", "API Error: 400 run token refused"), "", 1, OutcomeErrored, "refused",
		},
		"claude: prose": {
			"claude", used + result("false", "Credit balance is too low"), "", 0, OutcomeCompleted, "",
		},
		"claude: prose that used none": {
			"claude", result("false", "Credit balance is too low: the page says so now."), "", 0, OutcomeCompleted, "",
		},
		"claude: out of turns": {
			"claude",
			`{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (2)"]}`,
			"Credit balance is too low", 1, OutcomeErrored, "turns",
		},

		"codex: quota": {
			"codex", `{"type":"turn.failed","error":{"message":"Quota exceeded. Check your plan and billing details."}}`, "", 1,
			OutcomeCredit, "Quota",
		},
		"codex: model": {
			"codex",
			`{"type":"turn.failed","error":{"message":"{\"error\":{\"message\":\"The requested model 'gpt-9' does not exist.\",\"code\":\"model_not_found\"}}"}}`,
			"", 1, OutcomeModel, "gpt-9",
		},
		"codex: model, plan": {
			"codex",
			`{"type":"turn.failed","error":{"message":"{\"detail\":1,\"message\":\"The 'gpt-9' model is not supported when using Codex with a ChatGPT account.\"}"}}`,
			"", 1, OutcomeModel, "gpt-9",
		},
		"codex: model, 404": {
			"codex",
			`{"type":"turn.failed","error":{"message":"unexpected status 404 Not Found: x, url: http://h/v1/responses"}}`, "", 1,
			OutcomeModel, "404",
		},
		"codex: context": {
			"codex",
			`{"type":"turn.failed","error":{"message":"Codex ran out of room in the model's context window. Start a new thread."}}`,
			"", 1, OutcomeContext, "room",
		},
		"codex: key on stderr": {
			"codex", "", "2026-11-22T10:00:00Z ERROR codex_core: error: Missing environment variable: `OPENAI_API_KEY`.", 1,
			OutcomeAuth, "OPENAI_API_KEY",
		},
		"gemini: key": {
			"gemini",
			`{"type":"result","status":"error","error":{"message":"[API Error: {\"error\":{\"code\":400,\"message\":\"API key not valid. Please pass a valid API key.\",\"status\":\"INVALID_ARGUMENT\"}}]"}}`,
			"", 1, OutcomeAuth, "API key",
		},
		"gemini: model": {
			"gemini",
			`{"type":"result","status":"error","error":{"message":"[API Error: {\"error\":{\"code\":404,\"message\":\"models/gemini-9 is not found for API version v1beta\",\"status\":\"NOT_FOUND\"}}]"}}`,
			"", 1, OutcomeModel, "gemini-9",
		},
		"gemini: quota": {
			"gemini",
			`{"type":"result","status":"error","error":{"message":"You have exhausted your daily quota on this model."}}`, "", 1,
			OutcomeQuota, "daily",
		},
		"gemini: context": {
			"gemini",
			`{"type":"result","status":"error","error":{"message":"[API Error: {\"error\":{\"code\":400,\"message\":\"The input token count (2) exceeds the maximum number of tokens allowed (1).\",\"status\":\"INVALID_ARGUMENT\"}}]"}}`,
			"", 1, OutcomeContext, "token count",
		},
		"opencode: model": {
			"opencode",
			`{"type":"error","error":{"name":"APIError","data":{"message":"The model ` + "`gpt-9`" +
				` does not exist or you do not have access to it.","statusCode":404}}}`,
			"", 1, OutcomeModel, "gpt-9",
		},
		"opencode: context": {
			"opencode",
			`{"type":"error","error":{"name":"APIError","data":{"message":"x","statusCode":400,"responseBody":"{\"error\":{\"message\":\"x\",\"code\":\"context_length_exceeded\"}}"}}}`,
			"", 1, OutcomeContext, "x",
		},
		"copilot: quota": {
			"copilot", `{"type":"session.error","data":{"errorType":"quota","message":"no requests left"}}`, "", 1, OutcomeQuota,
			"no requests",
		},
		"copilot: not signed in": {
			"copilot", "", "Error: No authentication information found.", 1, OutcomeAuth, "No authentication",
		},

		// A program that only prints: its words count where it failed.
		"command: on stdout": {
			"command", "I begin.\nCredit balance is too low\n", "", 1, OutcomeCredit, "Credit balance is too low",
		},
		"command: on stderr": {
			"command", "", "Traceback\nError: Incorrect API key provided: sk-…\n", 1, OutcomeAuth, "Incorrect API key",
		},
		"command: nothing else": {
			"command", "Credit balance is too low\n", "", 0, OutcomeCredit, "Credit balance is too low",
		},
		"command: prose": {
			"command", "Invalid API key is what the page says now.\n", "", 0, OutcomeCompleted, "",
		},
		"command: prose before": {
			"command", "Credit balance is too low\nis what the page says now.\n", "", 0, OutcomeCompleted, "",
		},
		"command: prose, and fails": {"command", "The test shows: Invalid API key.\n", "", 1, OutcomeErrored, "code 1"},
		"command: fails": {
			"command", "x", "first\n\x1b[31mline 41: no such table\x1b[0m\n\n", 3, OutcomeErrored,
			"exited with code 3; it said: first | line 41: no such table",
		},
		"command: too long": {"command", "", "Prompt is too long", 1, OutcomeErrored, "Prompt is too long"},
		"command: not found, dash": {
			"command", "", "sh: 1: my-agent: not found\n", 127, OutcomeMissing,
			"the program my-agent was not found in the sandbox (exit code 127)",
		},
		"command: not found, bash": {
			"command", "", "sh: line 1: my-agent: command not found\n", 127, OutcomeMissing,
			"the program my-agent was not found",
		},
		"command: no interpreter": {
			"command", "", "/usr/bin/env: ‘node’: No such file or directory\n", 127, OutcomeMissing,
			"the program node was not found",
		},
		"command: not executable": {
			"command", "", "sh: 1: ./agent.sh: Permission denied\n", 126, OutcomeMissing, "the program ./agent.sh cannot be run",
		},
		"command: not found, silent": {
			"command", "", "", 127, OutcomeMissing, "a program of the agent's command was not found",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := reads(t, tt.cli, []byte(tt.stream), 1<<20).Result.WithExit(tt.code, "", "", tt.stderr)
			if got.Outcome != tt.want || !strings.Contains(got.Error, tt.says) {
				t.Errorf("%s: %q, want %s: %q", got.Outcome, got.Error, tt.want, tt.says)
			}
			blamed := tt.want == OutcomeCompleted || tt.want == OutcomeErrored || tt.want == OutcomeRateLimited
			if (got.DoFirst == "") != blamed {
				t.Errorf("%s: do first %q", got.Outcome, got.DoFirst)
			}
		})
	}
}

// What the host ended has its reason, whatever stands on standard error.
func TestTroubleOfWhatWasStopped(t *testing.T) {
	t.Parallel()
	for _, r := range []Result{{Outcome: OutcomeEmpty}, {Outcome: OutcomeByExit}} {
		got := r.WithExit(143, "SIGTERM", "idle_timeout", "Invalid API key")
		if got.Outcome != OutcomeCrashed || got.DoFirst != "" || !strings.Contains(got.Error, "idle_timeout") {
			t.Errorf("%s: %+v", r.Outcome, got)
		}
	}
	done := Result{Outcome: OutcomeCompleted, FinalText: "Done.", Usage: run.Usage{OutputTokens: 1}}
	if got := done.WithExit(0, "", "", "Invalid API key"); got.Outcome != OutcomeCompleted || got.DoFirst != "" {
		t.Errorf("%+v", got)
	}
}

func TestLastWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 4000) + "\nthe end\n"
	if got := lastWords(long); len([]rune(got)) != maxLastWords || !strings.HasPrefix(got, "…ä") ||
		!strings.HasSuffix(got, "ä | the end") {
		t.Errorf("%d: %q", len([]rune(got)), got)
	}
	if got := lastWords("\n \x1b]0;x\x07\n"); got != "" {
		t.Errorf("%q", got)
	}
}
