package agent

import (
	"strings"
	"testing"
	"time"
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
		"claude: credit in a body": {
			"claude",
			result("true", `API Error: 400 {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"Your credit balance is too low to access the Anthropic API.\"}}`),
			"", 1, OutcomeCredit, "credit balance",
		},
		"claude: key":            {"claude", used + result("true", noKey), "", 1, OutcomeAuth, "Please run /login"},
		"claude: key, a success": {"claude", result("false", noKey), "", 0, OutcomeAuth, "Please run /login"},
		"claude: model": {
			"claude", result("true", "There’s an issue with the selected model (opus-9). It may not exist."), "", 1, OutcomeModel, "opus-9",
		},
		"claude: too long at once": {"claude", result("true", "Prompt is too long"), "", 1, OutcomeContext, "too long"},
		"claude: too long after work": {
			"claude", used + result("true", "Prompt is too long"), "", 1, OutcomeErrored, "Prompt is too long",
		},
		"claude: the provider is down": {
			"claude", result("true", "API Error: 500 Internal server error"), "", 1, OutcomeUnavailable, "500",
		},
		"claude: out of turns": {
			"claude",
			used + `{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (2)"]}`,
			"Credit balance is too low", 1, OutcomeErrored, "turns",
		},
		// What nobody knows, before any work: a wait. After work it is the task's.
		"claude: a login":     {"claude", result("true", "Log in again"), "", 1, OutcomeRefused, "Log in"},
		"claude: of tomorrow": {"claude", result("true", "Your plan rests today"), "", 1, OutcomeRefused, "rests"},
		"claude: unheard of, after work": {
			"claude", used + result("true", "Your plan rests today"), "", 1, OutcomeErrored, "rests",
		},
		"codex: of tomorrow": {"codex", `{"type":"turn.failed","error":{"message":"No."}}`, "", 1, OutcomeRefused, "No."},
		"codex: 503": {
			"codex", `{"type":"turn.failed","error":{"message":"unexpected status 503 Service Unavailable: x"}}`, "", 1,
			OutcomeUnavailable, "503",
		},
		// Limits in words, also called a success, also of a program that only prints.
		"claude: a limit": {
			"claude", result("true", "You've hit your limit · resets 3pm (UTC)"), "", 1, OutcomeRateLimited, "resets",
		},
		"claude: a limit after work": {
			"claude", used + result("true", "You’re out of extra usage · resets 9pm"), "", 1, OutcomeRateLimited, "resets",
		},
		"claude: a limit, a success": {
			"claude", result("false", "Session limit reached ∙ resets 6am"), "", 0, OutcomeRateLimited, "resets",
		},
		"command: a limit on stdout": {
			"command", "I begin.\nClaude AI usage limit reached|1795905798\n", "", 1, OutcomeRateLimited, "1795905798",
		},
		"command: a limit on stderr": {"command", "", "x\nDaily quota exceeded\n", 1, OutcomeRateLimited, "quota"},
		"prose": {
			"claude", used + result("false", "Session limit reached ∙ resets 6am"), "", 0, OutcomeCompleted, "",
		},
		"prose of a program": {
			"command", "Credit balance is too low\nis what the page says now.\n", "", 0, OutcomeCompleted, "",
		},
		"prose of limits": {
			"command", "The page now says: limit reached, resets 6am.\n", "", 0, OutcomeCompleted, "",
		},
		"words later on": {
			"codex", `{"type":"item.completed","item":{"type":"agent_message","text":"x"}}` + "\n" +
				`{"type":"turn.failed","error":{"message":"the diff says that a limit was reached, resets 3pm"}}`, "", 1, OutcomeErrored, "diff",
		},

		"codex: model": {
			"codex",
			`{"type":"turn.failed","error":{"message":"{\"error\":{\"message\":\"The requested model 'gpt-9' does not exist.\",\"code\":\"model_not_found\"}}"}}`,
			"", 1, OutcomeModel, "gpt-9",
		},
		"codex: model, 404": {
			"codex",
			`{"type":"turn.failed","error":{"message":"unexpected status 404 Not Found: x, url: http://h/v1/responses"}}`, "", 1,
			OutcomeModel, "404",
		},
		"codex: no result": {
			"codex", "", "error: Missing environment variable: `OPENAI_API_KEY`.", 1, OutcomeCrashed, "OPENAI_API_KEY",
		},
		"acp: key of Google": {
			"acp",
			`{"type":"error","error":{"code":-32603,"message":"{\"error\":{\"code\":400,\"message\":\"API key not valid. Please pass a valid API key.\"}}"}}`,
			"", 1, OutcomeAuth, "API key",
		},

		"command: fails": {
			"command", "x", "first\n\x1b[31mline 41: no such table\x1b[0m\n\n", 3, OutcomeErrored,
			"exited with code 3; it said: first | line 41: no such table",
		},
		"command: not found, dash": {
			"command", "", "sh: 1: my-agent: not found\n", 127, OutcomeMissing,
			"the program my-agent was not found in the sandbox (exit code 127)",
		},
		"command: not found, bash": {
			"command", "", "sh: line 1: my-agent: command not found\n", 127, OutcomeMissing,
			"the program my-agent was not found",
		},
		"claude: no interpreter": {
			"claude", "", "/usr/bin/env: ‘node’: No such file or directory\n", 127, OutcomeMissing,
			"the program node was not found",
		},
		"command: not executable": {
			"command", "", "sh: 1: ./agent.sh: Permission denied\n", 126, OutcomeMissing, "the program ./agent.sh cannot be run",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := reads(t, tt.cli, []byte(tt.stream), 1<<20).Result.WithExit(tt.code, "", "", tt.stderr, noon)
			if got.Outcome != tt.want || !strings.Contains(got.Error, tt.says) {
				t.Errorf("%s: %q, want %s: %q", got.Outcome, got.Error, tt.want, tt.says)
			}
			if timed := strings.Contains(tt.says, "resets") || strings.Contains(tt.says, "3 PM"); timed && got.Outcome.Waits() && got.RetryAt.IsZero() {
				t.Error("nobody knows until when")
			}
		})
	}
}

// noon is a Saturday's.
var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// TestWhenLimitsEnd: in the zone that the words name, else in that of the place.
func TestWhenLimitsEnd(t *testing.T) {
	t.Parallel()
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"You've hit your session limit · resets 10am (Europe/Zurich)":      "2026-11-29T09:00:00Z",
		"You've hit your session limit · resets 2:30pm (Europe/Zurich)":    "2026-11-28T13:30:00Z",
		"You've hit your limit · resets 12:04pm (UTC)":                     "2026-11-28T12:04:00Z",
		"You're out of extra usage · resets 9pm":                           "2026-11-29T12:00:00Z",
		"Session limit reached ∙ resets 12am":                              "2026-11-28T15:00:00Z",
		"Weekly limit reached ∙ resets Mon 9am":                            "2026-11-30T00:00:00Z",
		"Weekly limit reached ∙ resets Dec 3 at 9am (UTC)":                 "2026-12-03T09:00:00Z",
		"You've hit your usage limit. Try again at 10:15 PM.":              "2026-11-28T13:15:00Z",
		"You've hit your usage limit. Try again at Dec 3rd, 2026 3:00 PM.": "2026-12-03T06:00:00Z",
		"You've hit your usage limit. Try again in 3 hours 12 minutes.":    "2026-11-28T15:12:00Z",
		"You've hit your usage limit. Try again in 2 days 1 hour.":         "2026-11-30T13:00:00Z",
		"Rate limit reached. Please try again in 20s.":                     "2026-11-28T12:00:20Z",
		"Claude AI usage limit reached|1795905798":                         "2026-11-28T22:43:18Z",
		"Limit reached, resets at 21:30":                                   "2026-11-28T12:30:00Z",
		"Limit reached":                                                    "", "resets 25pm": "", "resets 13am": "", "resets Feb 45 at 3pm": "", "resets 9": "",
		"resets 9pm (No/Where)": "2026-11-29T12:00:00Z",
	} {
		got := ""
		if end := limitEnd(words, noon.In(tokyo)); !end.IsZero() {
			got = end.Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%q ends at %q, want %q", words, got, want)
		}
	}
}

// What the host ended has its reason, whatever stands on standard error.
func TestTroubleOfWhatWasStopped(t *testing.T) {
	t.Parallel()
	for _, r := range []Result{{Outcome: OutcomeEmpty}, {Outcome: OutcomeByExit}} {
		got := r.WithExit(143, "SIGTERM", "idle_timeout", "Daily quota exceeded", noon)
		if got.Outcome != OutcomeCrashed || !strings.Contains(got.Error, "idle_timeout") {
			t.Errorf("%s: %+v", r.Outcome, got)
		}
	}
	// A program that only prints has its exit for a verdict, and its lines for words.
	printed := reads(t, "command", []byte("first\r\n\x1b[31mlast\n"), 3).Result
	if got := printed.WithExit(0, "SIGKILL", "", "", noon); got.Outcome != OutcomeCrashed || got.FinalText != "first\nlast\n" {
		t.Errorf("%+v", got)
	}
	// Its own words about that are none of the provider's, which would be a wait.
	got := Result{Outcome: OutcomeErrored, Error: "Request was aborted."}.WithExit(143, "SIGTERM", "wall_timeout", "", noon)
	if got.Outcome != OutcomeErrored {
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
