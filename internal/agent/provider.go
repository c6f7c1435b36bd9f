package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// saying is what providers, and the CLIs that hand it on, say of one kind of trouble.
type saying struct {
	why Outcome
	// names are those that APIs and CLIs have for it.
	names string
	// statuses are those of HTTP.
	statuses []int
	// words begin what is said, where neither name nor status tell: some APIs answer 400,
	// as they do to the agent's own faults, and some CLIs say it without either.
	words string
}

var sayings = sync.OnceValue(func() []saying {
	return []saying{
		{
			why: OutcomeRateLimited, statuses: []int{http.StatusTooManyRequests, 529}, // 529 is Anthropic's for overload
			names: "rate_limit overloaded rate_limit_exceeded rate_limit_error overloaded_error RESOURCE_EXHAUSTED " +
				"server_is_overloaded slow_down",
			words: `you(?:['’]ve| have|['’]re|) (?:hit|reached|exceeded|exhausted|used up|out of) |` +
				`(?:[\w-]+ ){0,4}(?:limit|quota) (?:was |has been )?(?:reached|exceeded|hit)\b`,
		},
		{
			why: OutcomeCredit, statuses: []int{http.StatusPaymentRequired},
			names: "billing_error insufficient_quota billing_hard_limit_reached",
			words: `(?:your )?credit balance is too low`,
		},
		{
			why: OutcomeAuth, statuses: []int{http.StatusUnauthorized, http.StatusForbidden},
			names: "authentication_failed invalid_api_key authentication_error permission_error UNAUTHENTICATED PERMISSION_DENIED",
			words: `(?:invalid )?(?:x-)?api[- ]key\b|not logged in|please run /login|(?:your )?oauth (?:access )?token`,
		},
		{
			why: OutcomeModel, statuses: []int{http.StatusNotFound}, // the paths are right, unless the endpoint is none
			names: "model_not_found", words: `there['’]s an issue with the selected model`,
		},
		{
			why: OutcomeContext, statuses: []int{http.StatusRequestEntityTooLarge},
			names: "context_length_exceeded request_too_large",
			words: `(?:prompt|input) is too long|the input token count|this model's maximum context length`,
		},
	}
})

// classify names the class of a failure from the HTTP status of the API and the name that
// the API or the CLI has for it. The name goes first: an empty account answers 400.
func classify(status int, name string) Outcome {
	for _, s := range sayings() {
		if name != "" && slices.Contains(strings.Fields(s.names), name) {
			return s.why
		}
	}
	for _, s := range sayings() {
		if slices.Contains(s.statuses, status) {
			return s.why
		}
	}
	if status >= 500 && status < 600 {
		return OutcomeUnavailable
	}
	return OutcomeErrored
}

// begins are the expressions of the words of sayings, in their order.
var begins = sync.OnceValue(func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, s := range sayings() {
		all = append(all, regexp.MustCompile(`^(?i:`+s.words+`)`))
	}
	return all
})

// classifyWords names the class of a failure from the words that it is told by.
func classifyWords(words string) Outcome {
	for i, begin := range begins() {
		if begin.MatchString(words) {
			return sayings()[i].why
		}
	}
	return OutcomeErrored
}

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
	if why := classify(r.status, r.kind); why != OutcomeErrored {
		return why
	}
	// An API says by the status that a limit is reached.
	if why := classifyWords(r.message); why != OutcomeRateLimited || r.status == 0 {
		return why
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
