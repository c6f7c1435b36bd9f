package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"strings"

	"github.com/org/ralph-action/internal/gateway/spend"
)

// maxEvent bounds one event of a stream, or an answer that is no stream, of
// which the use is read. OpenAI repeats the whole answer in its last event.
const maxEvent = 8 << 20

// wireUsage is the use as Anthropic and OpenAI tell it.
type wireUsage struct {
	wireTokens

	// Iterations are the parts of an answer that was sampled more than once. Where
	// there was a compaction the counts beside it leave that out.
	Iterations    []wireTokens       `json:"iterations"`
	ServerToolUse map[string]float64 `json:"server_tool_use"`
	ServiceTier   string             `json:"service_tier"`
	Speed         string             `json:"speed"`
	InferenceGeo  string             `json:"inference_geo"`

	InputTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`

	PromptTokens        int64 `json:"prompt_tokens"`
	CompletionTokens    int64 `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type wireTokens struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	CacheCreation            struct {
		Ephemeral1h int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

// wireEvent is an event of a stream, or a whole answer, of any of the APIs.
type wireEvent struct {
	Type    string     `json:"type"`
	Usage   *wireUsage `json:"usage"`
	Message struct {
		Usage *wireUsage `json:"usage"`
	} `json:"message"`
	Delta struct {
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	ServiceTier string `json:"service_tier"`
	Response    struct {
		Usage       *wireUsage `json:"usage"`
		ServiceTier string     `json:"service_tier"`
	} `json:"response"`
	Choices       []struct{} `json:"choices"`
	UsageMetadata *struct {
		PromptTokenCount        int64  `json:"promptTokenCount"`
		CachedContentTokenCount int64  `json:"cachedContentTokenCount"`
		CandidatesTokenCount    int64  `json:"candidatesTokenCount"`
		ThoughtsTokenCount      int64  `json:"thoughtsTokenCount"`
		ToolUsePromptTokenCount int64  `json:"toolUsePromptTokenCount"`
		ServiceTier             string `json:"serviceTier"`
	} `json:"usageMetadata"`
	Candidates []struct {
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
}

// What providers charge for besides tokens at list prices. None of it is asked for
// through this gateway; an account may have it for every request.
const (
	// priorityTimes is the most that a tier for urgent requests costs (OpenAI 2 to
	// 2.5, Gemini 1.8; Anthropic's is by contract).
	priorityTimes = 2.5
	// fastTimes is what Anthropic's fast mode costs.
	fastTimes = 6
	// placeTimes is what inference in a place of one's choice costs.
	placeTimes = 1.1
	// toolFee is the most that one use of a tool of the provider's costs: $10 for a
	// thousand searches.
	toolFee = spend.USD(10_000_000)
)

// usage reads what an answer used while it passes. It keeps at most one event of
// it.
type usage struct {
	form form
	// events: the answer is a stream of server-sent events.
	events bool

	use spend.Use
	// input: the input was counted. final: everything was, and the answer has come to
	// its end.
	input, final bool
	// seen is how many bytes of the answer came.
	seen int64

	// line is the part of a line, or of an answer that is no stream, that was
	// read. long: it did not fit, and is left out.
	line []byte
	long bool
}

// Write takes the next part of the answer. It never fails.
func (u *usage) Write(p []byte) (int, error) {
	n := len(p)
	u.seen += int64(n)
	if !u.events {
		u.keep(p)
		return n, nil
	}
	for {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		if !whole {
			u.keep(line)
			return n, nil
		}
		if len(u.line) > 0 || u.long {
			u.keep(line)
			line = u.line
		}
		if !u.long {
			u.event(line)
		}
		u.line, u.long = u.line[:0], false
		p = rest
	}
}

func (u *usage) keep(p []byte) {
	if u.long = u.long || len(u.line)+len(p) > maxEvent; u.long {
		u.line = nil
		return
	}
	u.line = append(u.line, p...)
}

// end takes note of the end of an answer that came whole.
func (u *usage) end() {
	if !u.events && !u.long {
		body := bytes.TrimSpace(u.line)
		var events []json.RawMessage
		if !bytes.HasPrefix(body, []byte("[")) || json.Unmarshal(body, &events) != nil {
			events = []json.RawMessage{body}
		}
		for _, e := range events {
			u.read(e)
		}
		u.final = u.final || u.input
	}
	u.line = nil
}

// event takes one line of a stream.
func (u *usage) event(line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	switch {
	case !ok:
	case u.form == formChat && string(bytes.TrimSpace(data)) == "[DONE]":
		u.final = u.input
	// Most events hold a few words and no count.
	case bytes.Contains(data, []byte("sage")):
		u.read(data)
	}
}

func (u *usage) read(data []byte) {
	var e wireEvent
	if json.Unmarshal(data, &e) != nil {
		return
	}
	switch u.form {
	case formMessages:
		if e.Message.Usage != nil { // message_start
			u.anthropic(*e.Message.Usage)
		}
		if e.Usage != nil { // message_delta, or the whole
			u.anthropic(*e.Usage)
		}
		u.final = u.final || u.input && (!u.events || e.Delta.StopReason != "" || e.Type == "message_stop")
	case formResponses:
		r, tier := e.Usage, e.ServiceTier
		if u.events { // response.completed and its like
			r, tier = e.Response.Usage, e.Response.ServiceTier
		}
		if r != nil {
			u.set(r.InputTokens, r.InputTokensDetails.CachedTokens, r.OutputTokens)
			u.dearer(cmp.Or(tier, r.ServiceTier), "", "")
			u.final = true
		}
	case formChat:
		if c := e.Usage; c != nil {
			u.set(c.PromptTokens, c.PromptTokensDetails.CachedTokens, c.CompletionTokens)
			u.dearer(cmp.Or(e.ServiceTier, c.ServiceTier), "", "")
			// Some providers count in every event.
			u.final = !u.events || len(e.Choices) == 0
		}
	case formGenerate:
		if g := e.UsageMetadata; g != nil {
			u.set(g.PromptTokenCount+g.ToolUsePromptTokenCount, g.CachedContentTokenCount, g.CandidatesTokenCount+
				g.ThoughtsTokenCount)
			u.dearer(g.ServiceTier, "", "")
			// A prompt that is blocked has no candidate.
			u.final = u.final || e.PromptFeedback.BlockReason != ""
			for _, c := range e.Candidates {
				u.final = u.final || c.FinishReason != ""
			}
		}
	}
}

// dearer takes note of what raises the price of an answer's tokens.
func (u *usage) dearer(tier, speed, place string) {
	times := 1.0
	if strings.EqualFold(tier, "priority") {
		times = priorityTimes
	}
	if speed == "fast" {
		times = max(times, fastTimes)
	}
	if place != "" && place != "global" && place != "not_available" {
		times *= placeTimes
	}
	u.use.Times = max(u.use.Times, times)
}

// anthropic takes counts that replace those before; a delta repeats only some.
func (u *usage) anthropic(w wireUsage) {
	latest := func(old *int64, n int64) {
		if n > 0 {
			*old = min(n, maxCount)
		}
	}
	t := w.wireTokens
	var sum wireTokens
	add := func(to *int64, n int64) { *to = min(*to+min(max(n, 0), maxCount), maxCount) }
	for _, i := range w.Iterations {
		add(&sum.InputTokens, i.InputTokens)
		add(&sum.OutputTokens, i.OutputTokens)
		add(&sum.CacheCreationInputTokens, i.CacheCreationInputTokens)
		add(&sum.CacheReadInputTokens, i.CacheReadInputTokens)
		add(&sum.CacheCreation.Ephemeral1h, i.CacheCreation.Ephemeral1h)
	}
	written := max(t.CacheCreationInputTokens, sum.CacheCreationInputTokens)
	long := min(max(t.CacheCreation.Ephemeral1h, sum.CacheCreation.Ephemeral1h, 0), written)
	latest(&u.use.Input, max(t.InputTokens, sum.InputTokens))
	latest(&u.use.CacheWrite, written-long)
	latest(&u.use.CacheWriteLong, long)
	latest(&u.use.CacheRead, max(t.CacheReadInputTokens, sum.CacheReadInputTokens))
	latest(&u.use.Output, max(t.OutputTokens, sum.OutputTokens))
	var uses float64
	for _, n := range w.ServerToolUse {
		uses += min(max(n, 0), maxUses)
	}
	u.use.Fees = max(u.use.Fees, toolFee*spend.USD(min(uses, maxUses)))
	u.dearer(w.ServiceTier, w.Speed, w.InferenceGeo)
	u.input = true
}

// maxUses bounds the uses of a provider's tools that are charged for one answer.
const maxUses = 1 << 20

// maxCount bounds a count of tokens, so that sums of them stay sane.
const maxCount = 1 << 40

func (u *usage) set(input, cached, output int64) {
	input = min(max(input, 0), maxCount)
	cached = min(max(cached, 0), input)
	u.use.Tokens = spend.Tokens{Input: input - cached, CacheRead: cached, Output: min(max(output, 0), maxCount)}
	u.input = true
}

// tapped is an answer that is counted while it is read.
type tapped struct {
	body  io.ReadCloser
	usage usage
	// left is what is to come, -1 where that is not known.
	left int64
	// settle is told what is known once that is final, and again at the close if
	// more is known by then.
	settle  func(u *usage)
	settled spend.Use
	done    bool
}

// Read implements io.Reader.
func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.body.Read(p)
	_, _ = t.usage.Write(p[:n])
	if t.left > 0 {
		t.left = max(t.left-int64(n), 0)
	}
	if err == io.EOF || t.left == 0 {
		t.usage.end()
	}
	// Before the client has the end of the answer, so that its next request finds it
	// charged.
	if t.usage.final {
		t.tell()
	}
	return n, err
}

func (t *tapped) tell() {
	if t.done && t.settled == t.usage.use {
		return
	}
	t.done, t.settled = true, t.usage.use
	t.settle(&t.usage)
}

// Close implements io.Closer. An answer that was not read to its end was cut
// off.
func (t *tapped) Close() error {
	t.tell()
	return t.body.Close()
}

// isEvents says whether an answer is a stream of server-sent events.
func isEvents(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
