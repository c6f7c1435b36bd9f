package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// refusal is an error of a model API, as its body tells it.
type refusal struct {
	status  int
	kind    string // the API's name for it
	message string
}

const (
	// maxRefusal bounds the body of an error that is looked into, in bytes.
	maxRefusal = 64 << 10
	// maxNested bounds how deep one body may lie in others. Google's clients nest
	// two.
	maxNested = 3
)

// readRefusal reads the body of an error in the form of any of the APIs; ok is
// false for what has none of them. What follows the body does not matter: some
// CLIs put words of their own there. A message may itself hold such a body, which
// counts where it has a status: Google's clients nest them.
func readRefusal(body string) (r refusal, ok bool) {
	for range maxNested {
		inner, read := refusalOf(body)
		if !read {
			break
		}
		if !ok || inner.status != 0 {
			r = inner
		}
		ok, body = true, inner.message
	}
	return r, ok
}

// refusalOf reads one body, whatever its message holds.
func refusalOf(body string) (r refusal, ok bool) {
	var raw json.RawMessage
	if json.NewDecoder(strings.NewReader(body[:min(len(body), maxRefusal)])).Decode(&raw) != nil || raw[0] != '{' {
		return r, false
	}
	v := gjson.ParseBytes(raw)
	for range maxNested {
		if inner := v.Get("error"); inner.IsObject() {
			v = inner
		}
	}
	state := text(v.Get("status"))
	r = refusal{message: text(v.Get("message")), kind: firstOf(text(v.Get("code")), state, text(v.Get("type")))}
	if n := tokens(v.Get("code")); n >= 100 && n < 600 {
		r.status = int(n)
	}
	return r, r.message != "" || r.kind != ""
}

// outcome is the class of a refusal.
func (r refusal) outcome() Outcome {
	switch r.kind {
	case "rate_limit_exceeded", "rate_limit_error", "overloaded_error", "RESOURCE_EXHAUSTED", "server_is_overloaded",
		"slow_down":
		return OutcomeRateLimited
	case "insufficient_quota", "billing_error", "billing_hard_limit_reached":
		return OutcomeCredit
	case "invalid_api_key", "authentication_error", "permission_error", "UNAUTHENTICATED", "PERMISSION_DENIED":
		return OutcomeAuth
	case "model_not_found":
		return OutcomeModel
	case "context_length_exceeded", "request_too_large":
		return OutcomeContext
	}
	if why := classify(r.status, ""); why != OutcomeErrored {
		return why
	}
	for _, known := range knownWords() {
		if known.begin.MatchString(r.message) {
			return known.why
		}
	}
	return OutcomeErrored
}

// known is a refusal that an API tells with status 400, as it does the agent's own faults, or
// that a CLI tells without one: only the words that it begins with say which one it is.
type known struct {
	begin *regexp.Regexp
	why   Outcome
}

var knownWords = sync.OnceValue(func() []known {
	var all []known
	for why, words := range map[Outcome]string{ //nolint:gosec // G101: words about keys
		OutcomeCredit:  `(?:your )?credit balance is too low`,
		OutcomeAuth:    `(?:invalid )?(?:x-)?api[- ]key\b|not logged in|please run /login|(?:your )?oauth (?:access )?token`,
		OutcomeModel:   `there['’]s an issue with the selected model`,
		OutcomeContext: `(?:prompt|input) is too long|the input token count|this model's maximum context length`,
	} {
		all = append(all, known{regexp.MustCompile(`^(?i:` + words + `)`), why})
	}
	return all
})

// classify names the class of a failure from the HTTP status of the API and the
// CLI's own name for it. The name goes first: an empty account answers 400.
func classify(status int, name string) Outcome {
	switch name {
	case "rate_limit", "overloaded":
		return OutcomeRateLimited
	case "authentication_failed":
		return OutcomeAuth
	case "billing_error":
		return OutcomeCredit
	}
	switch status {
	case http.StatusTooManyRequests, 529: // 529 is the API's own status for overload
		return OutcomeRateLimited
	case http.StatusUnauthorized, http.StatusForbidden:
		return OutcomeAuth
	case http.StatusPaymentRequired:
		return OutcomeCredit
	case http.StatusNotFound:
		return OutcomeModel // the paths are right, unless the endpoint is none
	case http.StatusRequestEntityTooLarge:
		return OutcomeContext
	}
	if status >= 500 && status < 600 {
		return OutcomeUnavailable
	}
	return OutcomeErrored
}

// ReadAnswer says what an answer of a model's API means that is no success, by its
// status and its body, and what it says. OutcomeErrored is one that says nothing of
// the agent's surroundings. Status 0 stands for no answer, of which the body says why.
func ReadAnswer(status int, body string) (why Outcome, said string) {
	if status == 0 {
		return OutcomeUnavailable, oneLine(body)
	}
	r, _ := readRefusal(body)
	r.status = status
	return r.outcome(), oneLine(firstOf(r.message, fmt.Sprintf("the model API answered %d", status)))
}

// EndsCall says whether an answer of that status and body is one that comes again
// however often an agent asks; worked says that the model has answered it before. What
// holds for one model or for one request only does not end a call that has got on.
func EndsCall(status int, body string, worked bool) bool {
	switch why, _ := ReadAnswer(status, body); why {
	case OutcomeCredit:
		return true
	case OutcomeAuth:
		return status != http.StatusForbidden || !worked
	case OutcomeModel, OutcomeContext:
		return !worked
	default:
		return false
	}
}
