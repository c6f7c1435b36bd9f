package agent

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// feed is the parser of an agent that prints one JSON event a line; what the
// events mean is its dialect's to say.
type feed struct {
	lines

	emit    func(Activity)
	dialect dialect

	result Result
	closed bool
	// said is the text of the message at hand, which may come in pieces; last is
	// the one before.
	said, last []byte
	// finished: the agent came to an end of its own, and reported no failure
	// since.
	finished bool
	// failed is why it reported a failure; "" if it did not.
	failed Outcome
	// waiting is what a request is being repeated for, "" where none is.
	waiting Outcome
	// reason goes with failed or waiting.
	reason string
	// resetsAt is when a reported limit ends.
	resetsAt time.Time
}

// dialect is what the events of one CLI mean.
type dialect interface {
	// event handles the event b of that type, and says whether it was one.
	event(f *feed, kind string, b []byte) bool
}

func newFeed(emit func(Activity), d dialect) *feed {
	if emit == nil {
		emit = func(Activity) {}
	}
	f := &feed{dialect: d}
	f.emit = func(a Activity) {
		a.Usage = f.result.Usage
		emit(a)
	}
	f.lines = lines{res: &f.result, take: f.line}
	return f
}

func (f *feed) line(b []byte) {
	if b[0] != '{' || b[len(b)-1] != '}' {
		f.result.BadLines++ // a banner, a warning, a line cut by a kill
		return
	}
	kind, ok := typePrefix(b)
	if !ok {
		kind = text(member(b, "type"))
	}
	if kind == "" || !f.dialect.event(f, kind, b) {
		f.result.BadLines++
	}
}

// Close implements Parser.
func (f *feed) Close() Result {
	if f.closed {
		return f.result
	}
	f.closed = true
	f.finish(nil)
	f.endText()
	r := &f.result
	switch {
	case f.failed != "":
		r.Outcome, r.Error = f.failed, f.reason
	case f.finished:
		r.Outcome = OutcomeCompleted
	case f.waiting != "" && f.waiting != OutcomeErrored:
		// Stopped while it waited to repeat a request: the reason is the API's.
		r.Outcome, r.Error = f.waiting, f.reason
	default:
		r.Outcome, r.Error = OutcomeEmpty, "the agent ended without a result"
	}
	r.FinalText = tail(string(f.last))
	if r.Outcome == OutcomeRateLimited {
		r.RetryAt = f.resetsAt
	}
	return *r
}

// other notes a sign of life.
func (f *feed) other(kind string) { f.emit(Activity{Kind: ActivityOther, Text: oneLine(kind)}) }

// say adds to the message at hand, of which the end is kept.
func (f *feed) say(s string) {
	if len(s) > 4*maxFinalText {
		s = s[len(s)-2*maxFinalText:]
		f.said = f.said[:0]
	}
	f.said = append(f.said, s...)
	if len(f.said) > 4*maxFinalText {
		f.said = append(f.said[:0], f.said[len(f.said)-2*maxFinalText:]...)
	}
}

// endText ends the message at hand, if there is one.
func (f *feed) endText() {
	if len(f.said) == 0 {
		return
	}
	if line := oneLine(string(f.said)); line != "" {
		f.emit(Activity{Kind: ActivityText, Text: line})
	}
	f.last, f.said = f.said, f.last[:0]
}

// tool notes the call of a tool. The agent is at work again: what it reported
// before was not the end.
func (f *feed) tool(name, path, about string) {
	f.works()
	f.result.ToolCalls++
	f.emit(Activity{Kind: ActivityTool, Tool: oneLine(name), Path: oneLine(path), Text: oneLine(firstOf(about, path))})
}

// works notes that the agent goes on.
func (f *feed) works() { f.finished, f.waiting = false, "" }

// done notes that the agent came to its end and reports success.
func (f *feed) done() { f.finished, f.failed, f.waiting = true, "", "" }

// fail notes that the agent reports a failure.
func (f *feed) fail(why Outcome, reason string) {
	f.finished, f.waiting = false, ""
	f.failed, f.reason = why, firstOf(oneLine(reason), "the agent reports an error")
	f.emit(Activity{Kind: ActivityError, Text: f.reason})
}

// wait notes that the agent repeats a request.
func (f *feed) wait(why Outcome, reason string) {
	f.waiting, f.reason = why, firstOf(oneLine(reason), "the agent repeats a request")
	f.emit(Activity{Kind: ActivityRetry, Text: f.reason})
}

// use adds to what was used.
func (f *feed) use(input, output, cacheRead, cacheWrite int64) {
	u := &f.result.Usage
	u.InputTokens = bound(u.InputTokens + max(input, 0))
	u.OutputTokens = bound(u.OutputTokens + max(output, 0))
	u.CacheReadTokens = bound(u.CacheReadTokens + max(cacheRead, 0))
	u.CacheWriteTokens = bound(u.CacheWriteTokens + max(cacheWrite, 0))
}

// refusal is an error of a model API, as its body tells it.
type refusal struct {
	status  int
	kind    string // the API's name for it
	message string
	after   time.Duration // when to come back, 0 if it does not say
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
	b := []byte(body[:min(len(body), maxRefusal)])
	end := valueEnd(b, blank(b, 0))
	if end < 0 {
		return r, false
	}
	b = b[:end]
	for range maxNested {
		values, ok := pick(b, "error", "message", "type", "code", "status", "details")
		if !ok {
			return r, false
		}
		if inner := values[0]; len(inner) > 0 && inner[0] == '{' {
			b = inner
			continue
		}
		return refusalWith(text(values[1]), text(values[2]), values[3], text(values[4]), values[5])
	}
	return r, false
}

// refusalWith is the refusal with these members; ok is false where none of them says
// what it is.
func refusalWith(message, kind string, code []byte, state string, details []byte) (r refusal, ok bool) {
	if message == "" && kind == "" && state == "" {
		return r, false
	}
	r = refusal{message: message, kind: firstOf(text(code), state, kind)}
	if n := amount(code); n >= 100 && n < 600 {
		r.status = int(n)
	}
	for detail := range elements(details) {
		if d, err := time.ParseDuration(text(member(detail, "retryDelay"))); err == nil && d > 0 {
			r.after = d
		}
	}
	return r, true
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
	return classify(r.status, "")
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(value string, now time.Time) time.Time {
	if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n > 0 && n < 1<<30 && !now.IsZero() {
		return now.Add(time.Duration(n) * time.Second)
	}
	if t, err := http.ParseTime(value); err == nil {
		return t.UTC()
	}
	return time.Time{}
}

// statusText says what the API answered, where the agent does not.
func statusText(status int, message string) string {
	if message != "" {
		return message
	}
	return fmt.Sprintf("the model API answered %d", status)
}
