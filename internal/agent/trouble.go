package agent

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/strs"
)

// trouble is one kind of refusal by a provider, or by a CLI in its name.
type trouble struct {
	outcome Outcome
	// begins are the words that such an error begins with, as an expression. They
	// are looked for in what reports itself as an error only.
	begins string
	// doFirst is what a person does first about it.
	doFirst string
}

// troubles are in the order in which they are looked for.
func troubles() []trouble {
	return []trouble{
		{
			OutcomeRateLimited, // which ends by waiting
			`you've (?:hit|reached) your (?:\w+ )?limit\b|claude (?:ai )?usage limit reached|\d+-hour limit reached`,
			"",
		},
		{
			OutcomeCredit,
			`(?:your )?credit balance is too low|insufficient (?:credits?|balance|funds)|payment required|billing hard limit has been reached`,
			"add credit to the account with the provider, or raise its spending limit",
		},
		{
			OutcomeQuota,
			`you(?:'ve| have)? (?:exceeded|exhausted|used up) your (?:\w+ ){0,2}quota|(?:\w+ )?quota (?:was |has been )?exceeded`,
			"wait until the quota is renewed, or raise it with the provider",
		},
		{
			OutcomeAuth,
			`invalid (?:x-)?api[- ]key|invalid bearer token|(?:incorrect|missing|no) api key\b|api key (?:not valid|not found|expired|is invalid)` +
				`|not logged in|please run /login|(?:your )?oauth (?:access )?token (?:has |is )?(?:been )?(?:expired|revoked|invalid)` +
				`|failed to authenticate|authentication (?:failed|required)|no authentication information found|please set an auth method` +
				`|missing environment variable|could not resolve authentication method|this organization has been disabled`,
			"check the key: that it is set where the agent runs, still valid, and of the right account",
		},
		{
			OutcomeModel,
			`there's an issue with the selected model\b.*|model[ _]not[ _]found|providermodelnotfounderror|unknown model\b|models/\S+ is not (?:found|supported)` +
				`|(?:the )?(?:requested )?model [^ ]{1,200} (?:does not exist|is not (?:found|supported|available)|not found)|the '[^']{1,200}' model is not supported`,
			"check the model's name (--model, or agent.model of a server), and that the account may use it",
		},
		{
			OutcomeContext,
			`(?:prompt|input) is too long|(?:your )?(?:input|prompt) exceeds the (?:model's )?context|this model's maximum context length` +
				`|input length and .max_tokens. exceed context limit|the input token count|codex ran out of room in the model's context window`,
			"the context is too long before any work is done: shorten the plan and the texts that agents read " +
				"(AGENTS.md, CLAUDE.md), or use a model with a larger context",
		},
		{
			OutcomeUnavailable,
			`connection error\b|unable to connect|request timed out|fetch failed`,
			"check that the provider is up and reachable from here, then run again",
		},
	}
}

// DoFirst is what a person does first about an outcome that no task is to blame
// for and that does not end by waiting; "" for the others.
func (o Outcome) DoFirst() string {
	if o == OutcomeMissing {
		return "put the program where the sandbox sees it, in the image or in a system directory such as " +
			"/usr/local/bin (homes and /tmp are hidden from agents); where the agent is a wrapper, name its own " +
			"program with --agent-path"
	}
	for _, t := range troubles() {
		if t.outcome == o {
			return t.doFirst
		}
	}
	return ""
}

// troubleREs are the expressions of troubles, in their order.
var troubleREs = sync.OnceValue(func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, t := range troubles() {
		all = append(all, regexp.MustCompile(`^(?i:`+t.begins+`)`))
	}
	return all
})

// apiErrorRE is how Claude Code passes on the answer of an API.
var apiErrorRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:Failed to authenticate\. )?API Error:? *(?:(?:Request rejected )?\(?(\d{3})\b\)?)?[ :(·]*(.*)`)
})

// refusalIn reads a line that reports an error: what kind of trouble it begins
// with, "" where it is none that is known. whole says that the line holds nothing
// else, but for advice after a dot.
func refusalIn(line string) (why Outcome, whole bool) {
	line = strings.TrimSpace(strings.ReplaceAll(line, "’", "'"))
	if m := apiErrorRE().FindStringSubmatch(line); m != nil {
		status, _ := strconv.Atoi(m[1]) // three digits, or none
		if r, ok := readRefusal(m[2]); ok {
			if why, _ := refusalIn(r.message); why != "" {
				return why, true
			}
			r.status = status
			why = r.outcome()
		} else if why, _ = refusalIn(m[2]); why == "" {
			why = classify(status, "")
		}
		if why == OutcomeErrored {
			why = ""
		}
		return why, true
	}
	for i, re := range troubleREs() {
		if at := re.FindStringIndex(line); at != nil {
			rest := strings.TrimLeft(line[at[1]:], ".! ")
			return troubles()[i].outcome, rest == "" || strings.HasPrefix(rest, "·")
		}
	}
	return "", false
}

// ReadAnswer says what an answer of a model's API means that is no success, by its
// status and its body, and what it says. OutcomeErrored is one that says nothing of
// the agent's surroundings. Status 0 stands for no answer, of which the body says why.
func ReadAnswer(status int, body string) (why Outcome, said string) {
	if status == 0 {
		return OutcomeUnavailable, oneLine(body)
	}
	r, ok := readRefusal(body)
	if !ok {
		return classify(status, ""), statusText(status, "")
	}
	r.status = status
	if why = r.outcome(); why == OutcomeErrored {
		if known, _ := refusalIn(oneLine(r.message)); known != "" {
			why = known
		}
	}
	return why, oneLine(statusText(status, r.message))
}

// EndsCall says whether an answer of that status and body is one that comes again
// however often an agent asks; worked says that the model has answered it before. What
// holds for one model or for one request only does not end a call that has got on.
func EndsCall(status int, body string, worked bool) bool {
	switch why, _ := ReadAnswer(status, body); why {
	case OutcomeCredit, OutcomeQuota:
		return true
	case OutcomeAuth:
		return status != http.StatusForbidden || !worked
	case OutcomeModel, OutcomeContext:
		return !worked
	default:
		return false
	}
}

// Lasts says whether a failure of an agent's surroundings comes again with each call
// until a person has done something about it.
func (o Outcome) Lasts() bool { return o != OutcomeUnavailable && o.DoFirst() != "" }

// refused finds the trouble of a call, and the words that tell of it: in what it
// reports as an error, or on its standard error. A call that reports success is
// believed, unless it says nothing else and used nothing: some CLIs give an error
// for a result.
func (r Result) refused(byExit, stopped bool, code int, stderr string) (why Outcome, said string) {
	switch {
	case r.Outcome == OutcomeCompleted && !stopped && !r.worked() && len(r.FinalText) <= 4*maxActivityText:
		said = oneLine(r.FinalText)
		if found, whole := refusalIn(said); whole {
			why = found
		}
	case r.Outcome == OutcomeErrored && !byExit:
		said = r.Error
		why, _ = refusalIn(said)
	case r.Outcome == OutcomeContext:
		why, said = OutcomeContext, r.Error
	case stopped || r.Outcome != OutcomeCrashed && r.Outcome != OutcomeErrored:
	case (byExit || r.Lines == 0) && (code == 126 || code == 127): // what a shell exits with
		return OutcomeMissing, missing(code, stderr)
	default:
		why, said = refusalBeforeEnd(stderr, r.FinalText, byExit)
	}
	if why == OutcomeContext && (byExit || r.worked()) {
		return OutcomeErrored, said // the task was too much for one call
	}
	return why, said
}

// refusalBeforeEnd looks for trouble in the last lines on standard error and, of
// an agent that only prints, in the last one of its words.
func refusalBeforeEnd(stderr, final string, byExit bool) (why Outcome, said string) {
	for _, line := range lastLines(stderr) {
		line = oneLine(line)
		for at := range line { // a program may put its name, or "ERROR" and the like, before it
			if at == 0 || strings.HasSuffix(line[:at], ": ") || strings.HasSuffix(strings.ToLower(line[:at]), "error ") {
				if why, _ := refusalIn(line[at:]); why != "" {
					return why, line
				}
			}
		}
	}
	if words := lastLines(final); byExit && len(words) > 0 {
		said = oneLine(words[len(words)-1])
		why, _ = refusalIn(strings.TrimPrefix(said, "Error: "))
	}
	return why, said
}

// notFoundRE finds the program in a shell's words for what it cannot run.
var notFoundRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`([^\s:'"‘’]+)['"’]?: (?:(?:command )?not found|No such file or directory|Permission denied)$`)
})

// missing says which program a shell could not run.
func missing(code int, stderr string) string {
	program := "a program of the agent's command"
	lines := lastLines(stderr)
	for _, line := range lines {
		if m := notFoundRE().FindStringSubmatch(line); m != nil {
			program = "the program " + m[1]
		}
	}
	what := "was not found in the sandbox"
	if code == 126 {
		what = "cannot be run in the sandbox"
	}
	text := fmt.Sprintf("%s %s (exit code %d)", program, what, code)
	if said := lastWords(stderr); said != "" {
		text += "; it said: " + said
	}
	return oneLine(text)
}

// worked says whether the call got as far as having the model work.
func (r Result) worked() bool {
	return r.ToolCalls > 0 || r.Usage.OutputTokens > 0 || r.Usage.CostUSD > 0
}

// Of what an agent wrote to its standard error these are shown.
const (
	maxLastLines = 5
	maxLastWords = 300 // characters
)

// lastLines are the last lines of s that are not blank, clean.
func lastLines(s string) []string {
	var lines []string
	for line := range strings.Lines(clean(s)) {
		if line = strs.OneLine(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-maxLastLines):]
}

// lastWords is the end of s on one line.
func lastWords(s string) string {
	r := []rune(strings.Join(lastLines(s), " | "))
	if len(r) > maxLastWords {
		return "…" + string(r[len(r)-maxLastWords+1:])
	}
	return string(r)
}
