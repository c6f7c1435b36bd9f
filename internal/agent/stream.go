package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
)

const (
	// maxLine is the longest line that is still read as an event. Longer than
	// maxEvent only those are looked at that need no decoding: the results of tools.
	maxLine  = 16 << 20
	maxEvent = 8 << 20
	// maxCount and maxCost bound what one start may claim to have used, so that
	// no sum over a run can overflow.
	maxCount = 1 << 40
	maxCost  = 1e6
	// maxTime is the last second of the year 9999: later times cannot be stored.
	maxTime = 253402300799
)

// stream parses what Claude Code prints with --output-format stream-json: one
// JSON event a line.
//
//   - Several result events may come (a background command wakes the agent up
//     again): usage and turns are per event and are added up, the cost is
//     cumulative, so the last one counts, and so does the last verdict.
//   - is_error counts as failure also under subtype "success": that is how the
//     CLI reports refusals of the API.
//   - A killed run has no result event at all.
type stream struct {
	lines

	emit     func(Activity)
	result   Result
	results  int
	closed   bool
	cwd      string
	lastText string
	apiError string    // the CLI's name for the API's last refusal
	waiting  *event    // the retry the CLI waits for; nil once it went on
	resetsAt time.Time // when a reported limit ends
	// told is the usage of the messages before the one with the id message, and
	// telling that one's; the result at the end has the last word.
	told, telling run.Usage
	message       string
}

func newStream(emit func(Activity)) *stream {
	if emit == nil {
		emit = func(Activity) {}
	}
	s := &stream{}
	s.emit = func(a Activity) {
		a.Usage = s.told.Add(s.telling)
		emit(a)
	}
	s.lines = lines{res: &s.result, take: s.line}
	return s
}

// Close implements Parser.
func (s *stream) Close() Result {
	if s.closed {
		return s.result
	}
	s.closed = true
	s.finish(nil)
	if s.results == 0 {
		s.result.Outcome = OutcomeEmpty
		s.result.Error = "the agent ended without a result"
		if s.waiting != nil {
			// Killed while waiting for a retry: the reason is the API's.
			if class := classify(s.waiting.ErrorStatus, string(s.waiting.Error)); class != OutcomeErrored {
				s.result.Outcome, s.result.Error = class, s.waiting.retryText()
			}
		}
	}
	if s.result.FinalText == "" {
		s.result.FinalText = tail(s.lastText)
	}
	if s.result.Outcome == OutcomeRateLimited {
		s.result.RetryAt = s.resetsAt
	}
	return s.result
}

// line handles one whole line.
func (s *stream) line(b []byte) {
	if b[0] != '{' || b[len(b)-1] != '}' {
		s.result.BadLines++ // a banner, a warning, a line cut by a kill
		return
	}
	if kind, ok := typePrefix(b); ok && !decoded(kind) {
		// Tool results are the bulk of a stream and carry nothing we need.
		s.emit(Activity{Kind: ActivityOther, Text: oneLine(kind)})
		return
	}
	if len(b) > maxEvent {
		s.result.BadLines++
		s.result.Truncated = true
		return
	}
	var e event
	if err := unmarshal(b, &e); err != nil || e.Type == "" {
		s.result.BadLines++
		return
	}
	s.event(&e, b)
}

// typePrefix reads the type where it is the first member, as the CLI writes it.
func typePrefix(b []byte) (string, bool) {
	rest, ok := bytes.CutPrefix(b, []byte(`{"type":"`))
	if !ok {
		return "", false
	}
	if len(rest) > 64 {
		rest = rest[:64]
	}
	kind, _, ok := bytes.Cut(rest, []byte{'"'})
	return string(kind), ok && bytes.IndexByte(kind, '\\') < 0
}

// decoded says whether events of this type are looked into.
func decoded(kind string) bool {
	switch kind {
	case "system", "assistant", "result", "rate_limit_event":
		return true
	default:
		return false
	}
}

// unmarshal forgives members of an unexpected type: they stay zero and the rest
// is still good.
func unmarshal(b []byte, v any) error {
	err := json.Unmarshal(b, v)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return nil
	}
	return err
}

// event holds the members we use of all events we look into.
type event struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`

	// system/init
	Cwd     string `json:"cwd"`
	Model   string `json:"model"`
	Version string `json:"claude_code_version"`

	// system/api_retry; assistant has Error too
	Error        string  `json:"error"`
	ErrorStatus  int     `json:"error_status"`
	Attempt      int     `json:"attempt"`
	MaxRetries   int     `json:"max_retries"`
	RetryDelayMS float64 `json:"retry_delay_ms"`

	// assistant; old versions have the content at the top level
	Message struct {
		ID      string       `json:"id"`
		Content streamBlocks `json:"content"`
		Usage   streamUsage  `json:"usage"`
	} `json:"message"`
	Content         streamBlocks `json:"content"`
	ParentToolUseID string       `json:"parent_tool_use_id"`

	// rate_limit_event
	RateLimit struct {
		Status   string `json:"status"`
		ResetsAt int64  `json:"resetsAt"`
	} `json:"rate_limit_info"`

	// result
	IsError           bool        `json:"is_error"`
	APIErrorStatus    int         `json:"api_error_status"`
	NumTurns          int64       `json:"num_turns"`
	Result            string      `json:"result"`
	TotalCostUSD      *float64    `json:"total_cost_usd"`
	Usage             streamUsage `json:"usage"`
	PermissionDenials []struct{}  `json:"permission_denials"` // they take no memory
	Errors            streamTexts `json:"errors"`
}

type streamUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

type streamBlock struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Name  string `json:"name"`
	Input struct {
		FilePath     string `json:"file_path"`
		NotebookPath string `json:"notebook_path"`
		Path         string `json:"path"`
		Command      string `json:"command"`
		Pattern      string `json:"pattern"`
		Description  string `json:"description"`
	} `json:"input"`
}

// streamBlocks are the first blocks of a message: a decoded one takes many times the
// memory of its "{}".
type streamBlocks []streamBlock

// UnmarshalJSON implements json.Unmarshaler. What is no list has no blocks.
func (all *streamBlocks) UnmarshalJSON(list []byte) error {
	*all = nil
	for value := range elements(list) {
		var b streamBlock
		if err := unmarshal(value, &b); err != nil {
			return err
		}
		*all = append(*all, b)
	}
	return nil
}

// streamTexts are the first strings of a list.
type streamTexts []string

// UnmarshalJSON implements json.Unmarshaler. What is no list has no strings.
func (all *streamTexts) UnmarshalJSON(list []byte) error {
	*all = nil
	for value := range elements(list) {
		*all = append(*all, text(value))
	}
	return nil
}

func (s *stream) event(e *event, raw []byte) {
	switch e.Type {
	case "system":
		s.system(e)
	case "assistant":
		s.assistant(e, raw)
	case "rate_limit_event":
		if e.RateLimit.Status == "rejected" && e.RateLimit.ResetsAt > 0 && e.RateLimit.ResetsAt <= maxTime {
			s.resetsAt = time.Unix(e.RateLimit.ResetsAt, 0).UTC()
		}
		s.emit(Activity{Kind: ActivityOther, Text: e.Type})
	case "result":
		s.ended(e)
	default:
		s.emit(Activity{Kind: ActivityOther, Text: oneLine(e.Type)})
	}
}

func (s *stream) system(e *event) {
	switch e.Subtype {
	case "init":
		s.cwd = strings.TrimSuffix(e.Cwd, "/")
		s.result.Model, s.result.Version = oneLine(e.Model), oneLine(e.Version)
		s.emit(Activity{Kind: ActivityInit, Text: oneLine(e.Version + " " + e.Model)})
	case "api_retry":
		s.waiting = e
		s.emit(Activity{Kind: ActivityRetry, Text: e.retryText()})
	default:
		s.emit(Activity{Kind: ActivityOther, Text: oneLine("system/" + e.Subtype)})
	}
}

// retryText says what the CLI waits for.
func (e *event) retryText() string {
	what := "cannot be reached"
	if e.ErrorStatus != 0 {
		what = fmt.Sprintf("answered %d", e.ErrorStatus)
	}
	return oneLine(fmt.Sprintf("the model API %s (%s); attempt %d of %d failed", what, e.Error, e.Attempt, e.MaxRetries))
}

func (s *stream) assistant(e *event, raw []byte) {
	s.waiting = nil
	s.apiError = e.Error
	s.count(e)
	blocks := append(e.Message.Content, e.Content...)
	if len(blocks) == 0 {
		blocks = plainContent(raw)
	}
	var text strings.Builder
	for _, b := range blocks {
		switch b.Type {
		case "text":
			text.WriteString(b.Text)
			kind := ActivityText
			if e.Error != "" {
				kind = ActivityError
			}
			if line := oneLine(b.Text); line != "" {
				s.emit(Activity{Kind: kind, Text: line})
			}
		case "tool_use":
			s.result.ToolCalls++
			s.emit(s.tool(b))
		default: // thinking and whatever comes next
			s.emit(Activity{Kind: ActivityOther, Text: oneLine(b.Type)})
		}
	}
	// What a sub-agent says is not the last word of the agent.
	if text.Len() > 0 && e.ParentToolUseID == "" {
		s.lastText = text.String()
		if len(s.lastText) > 2*maxFinalText {
			s.lastText = strings.Clone(s.lastText[len(s.lastText)-2*maxFinalText:])
		}
	}
}

// count adds up what messages used. A message comes in several events, each with
// all that it used by then.
func (s *stream) count(e *event) {
	u := e.Message.Usage
	if u == (streamUsage{}) {
		return
	}
	if e.Message.ID != s.message || e.Message.ID == "" {
		s.told, s.message = s.told.Add(s.telling), strings.Clone(e.Message.ID)
	}
	s.telling = run.Usage{
		InputTokens: bound(u.Input), OutputTokens: bound(u.Output), CacheReadTokens: bound(u.CacheRead),
		CacheWriteTokens: bound(u.CacheWrite),
	}
}

// plainContent reads content given as a plain string.
func plainContent(raw []byte) []streamBlock {
	var e struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Content string `json:"content"`
	}
	if unmarshal(raw, &e) != nil || e.Message.Content+e.Content == "" {
		return nil
	}
	return []streamBlock{{Type: "text", Text: e.Message.Content + e.Content}}
}

func (s *stream) tool(b streamBlock) Activity {
	path := firstOf(b.Input.FilePath, b.Input.NotebookPath, b.Input.Path)
	if s.cwd != "" {
		path = strings.TrimPrefix(path, s.cwd+"/")
	}
	return Activity{
		Kind: ActivityTool,
		Text: oneLine(firstOf(b.Input.Command, b.Input.Pattern, path, b.Input.Description)),
		Tool: oneLine(b.Name),
		Path: oneLine(path),
	}
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func (s *stream) ended(e *event) {
	s.results++
	s.waiting = nil
	u := &s.result.Usage
	u.InputTokens = bound(u.InputTokens + bound(e.Usage.Input))
	u.OutputTokens = bound(u.OutputTokens + bound(e.Usage.Output))
	u.CacheReadTokens = bound(u.CacheReadTokens + bound(e.Usage.CacheRead))
	u.CacheWriteTokens = bound(u.CacheWriteTokens + bound(e.Usage.CacheWrite))
	u.Turns = int(bound(int64(u.Turns) + bound(e.NumTurns)))
	if e.TotalCostUSD != nil {
		u.CostUSD = min(max(*e.TotalCostUSD, 0), maxCost)
	}
	s.result.PermissionDenials = len(e.PermissionDenials)
	s.result.FinalText = tail(e.Result)

	if !e.IsError && !strings.HasPrefix(e.Subtype, "error") {
		s.result.Outcome, s.result.Error = OutcomeCompleted, ""
		s.emit(Activity{Kind: ActivityOther, Text: e.Type})
		return
	}
	s.result.Outcome = classify(e.APIErrorStatus, s.apiError)
	s.result.Error = oneLine(firstOf(e.Result, strings.Join(e.Errors, "; "), e.Subtype, "the agent reports an error"))
	s.emit(Activity{Kind: ActivityError, Text: s.result.Error})
}

// bound keeps a count between 0 and maxCount.
func bound(n int64) int64 { return min(max(n, 0), maxCount) }

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
	case 429, 529: // 529 is the API's own status for overload
		return OutcomeRateLimited
	case 401, 403:
		return OutcomeAuth
	case 402:
		return OutcomeCredit
	case 404:
		return OutcomeModel // the paths are right, unless the endpoint is none
	case 413:
		return OutcomeContext
	}
	if status >= 500 && status < 600 {
		return OutcomeUnavailable
	}
	return OutcomeErrored
}
