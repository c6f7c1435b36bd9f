package agent

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/strs"
)

// DoFirst is what a person does first about an outcome that no task is to blame
// for and that does not end by waiting; "" for the others.
func (o Outcome) DoFirst() string {
	return map[Outcome]string{ //nolint:gosec // G101: words about keys
		OutcomeCredit: "add credit to the account with the provider, or raise its spending limit",
		OutcomeAuth:   "check the key: that it is set where the agent runs, still valid, and of the right account",
		OutcomeModel:  "check the model's name (--model, or agent.model of a server), and that the account may use it",
		OutcomeContext: "the context is too long before any work is done: shorten the plan and the texts that agents read " +
			"(AGENTS.md, CLAUDE.md), or use a model with a larger context",
		OutcomeMissing: "put the program where the sandbox sees it, in the image or in a system directory such as " +
			"/usr/local/bin (homes and /tmp are hidden from agents); where the agent is a wrapper, name its own " +
			"program with --agent-path, or show what it needs with --show",
	}[o]
}

// Waits says whether an outcome ends by waiting, and costs no task anything.
func (o Outcome) Waits() bool {
	return o == OutcomeRateLimited || o == OutcomeUnavailable || o == OutcomeRefused
}

// apiErrorRE is how Claude Code passes on the answer of an API.
var apiErrorRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:Failed to authenticate\. )?API Error:? *(?:(?:Request rejected )?\(?(\d{3})\b\)?)?[ :(·]*(.*)`)
})

// readError says what kind of trouble a line reports, "" for none that is known.
func readError(line string) Outcome {
	r := refusal{message: strings.TrimSpace(line)}
	if m := apiErrorRE().FindStringSubmatch(r.message); m != nil {
		status, _ := strconv.Atoi(m[1]) // three digits, or none
		if r, _ = readRefusal(m[2]); r.message == "" {
			r.message = m[2]
		}
		r.status = status
	}
	if classifyWords(r.message) == OutcomeRateLimited {
		return OutcomeRateLimited // whatever status it came with
	}
	if why := r.outcome(); why != OutcomeErrored {
		return why
	}
	return ""
}

// explain finds what the trouble of a call is that the stream does not name: in what the
// agent reports as an error or, of one that only prints, in its last words. A call that
// reports success is believed, unless it says nothing else and used nothing: some CLIs give
// an error for a result. What is not known, and comes before any work, is none of the
// task's, unless the host stopped the agent: then its error is that.
func (r Result) explain(byExit, stopped bool, code int, stderr string, at time.Time) Result {
	words := r.Error
	switch {
	case r.Outcome == OutcomeCompleted && !r.worked() && len(r.FinalText) <= maxActivityText:
		said := oneLine(r.FinalText)
		why := readError(said)
		if byExit && (why != OutcomeRateLimited || limitEnd(said, at).IsZero()) {
			why = ""
		}
		if why != "" {
			words, r.Outcome, r.Error = said, why, said
		}
	case byExit && r.Outcome == OutcomeErrored:
		if code == 126 || code == 127 { // what a shell exits with
			r.Outcome, r.Error = OutcomeMissing, missing(code, stderr)
			return r
		}
		for _, said := range []string{stderr, r.FinalText} {
			if lines := lastLines(said); len(lines) > 0 && readError(lines[len(lines)-1]) == OutcomeRateLimited {
				words = oneLine(lines[len(lines)-1])
				r.Outcome, r.Error = OutcomeRateLimited, words
			}
		}
	case r.Outcome == OutcomeErrored:
		if why := readError(words); why != "" {
			r.Outcome = why
		} else if !r.worked() && !stopped {
			r.Outcome = OutcomeRefused
		}
	}
	if r.Outcome == OutcomeContext && r.worked() {
		r.Outcome = OutcomeErrored // the task was too much for one call
	}
	if r.Outcome == OutcomeRateLimited && r.RetryAt.IsZero() {
		r.RetryAt = limitEnd(words, at)
	}
	return r
}

// worked says whether the call got as far as having the model work.
func (r Result) worked() bool {
	return r.Answered || r.ToolCalls > 0 || r.Usage.OutputTokens > 0 || r.Usage.CostUSD > 0
}

// notFoundRE finds the program in a shell's words for what it cannot run.
var notFoundRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`([^\s:'"‘’]+)['"’]?: (?:(?:command )?not found|No such file or directory|Permission denied)$`)
})

// missing says which program a shell could not run.
func missing(code int, stderr string) string {
	program := "a program of the agent's command"
	for _, line := range lastLines(stderr) {
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
