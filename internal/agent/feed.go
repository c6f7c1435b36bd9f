package agent

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/org/ralph-action/internal/run"
)

const (
	// maxLine is the longest line that is read as an event.
	maxLine = 16 << 20
	// maxCount and maxCost bound what one start may claim to have used, so that
	// no sum over a run can overflow.
	maxCount = 1 << 40
	maxCost  = 1e6
	// maxTime is the last second of the year 9999: later times cannot be stored.
	maxTime = 253402300799
	// maxElements bounds what is looked at of one list: each element becomes an activity.
	maxElements = 1000
	// maxIDs bounds the calls that are remembered, those that never end, and maxID how much
	// of the id of each, in bytes.
	maxIDs = 1000
	maxID  = 200
)

// feed is the parser of an agent that prints one JSON event a line; what the
// events mean is its dialect's to say.
type feed struct {
	lines

	emit    func(Activity)
	dialect dialect

	result Result
	closed bool
	// seen is what the start has used so far where the dialect knows that before the end.
	seen run.Usage
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
	// event handles an event of that type, and says whether it was one.
	event(f *feed, kind string, e gjson.Result) bool
}

func newFeed(emit func(Activity), d dialect) *feed {
	if emit == nil {
		emit = func(Activity) {}
	}
	f := &feed{dialect: d}
	f.emit = func(a Activity) {
		a.Usage = f.result.Usage
		if f.seen != (run.Usage{}) {
			a.Usage = f.seen
		}
		emit(a)
	}
	f.lines = lines{res: &f.result, take: f.line}
	return f
}

func (f *feed) line(b []byte) {
	// Valid of the standard library, unlike gjson's, bounds how deep a line may nest.
	if b[0] != '{' || !json.Valid(b) {
		f.result.BadLines++ // a banner, a warning, a line cut by a kill
		return
	}
	e := gjson.ParseBytes(b)
	if kind := text(e.Get("type")); kind == "" || !f.dialect.event(f, kind, e) {
		f.result.BadLines++
	}
}

// Final implements Parser.
func (f *feed) Final() bool { return f.finished || f.failed != "" }

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
	if r.FinalText == "" {
		r.FinalText = tail(string(f.last))
	}
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
	f.result.Answered = true
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
func (f *feed) works() { f.finished, f.failed, f.waiting = false, "", "" }

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
func (f *feed) use(u run.Usage) {
	r := &f.result.Usage
	r.InputTokens = bound(r.InputTokens + max(u.InputTokens, 0))
	r.OutputTokens = bound(r.OutputTokens + max(u.OutputTokens, 0))
	r.CacheReadTokens = bound(r.CacheReadTokens + max(u.CacheReadTokens, 0))
	r.CacheWriteTokens = bound(r.CacheWriteTokens + max(u.CacheWriteTokens, 0))
	r.Turns = int(bound(int64(r.Turns) + int64(max(u.Turns, 0))))
}

// cost sets what was used in dollars, all in all.
func (f *feed) cost(v gjson.Result) {
	if v.Type == gjson.Number {
		f.result.Usage.CostUSD = min(max(v.Num, 0), maxCost)
	}
}

// text is the string that a value holds, "" if it holds something else.
func text(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	return v.Str
}

// tokens is a count, within the bounds of what one start may claim.
func tokens(v gjson.Result) int64 {
	if v.Type != gjson.Number {
		return 0
	}
	return int64(min(max(v.Num, 0), maxCount))
}

// each gives the first elements of a list to do.
func each(list gjson.Result, do func(gjson.Result)) {
	if !list.IsArray() {
		return
	}
	n := 0
	list.ForEach(func(_, v gjson.Result) bool {
		do(v)
		n++
		return n < maxElements
	})
}

// bound keeps a count between 0 and maxCount.
func bound(n int64) int64 { return min(max(n, 0), maxCount) }

// idOf is the id of a call, to remember it by.
func idOf(v gjson.Result) string {
	id := text(v)
	return strings.Clone(id[:min(len(id), maxID)])
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
