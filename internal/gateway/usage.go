package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/ralph-action/internal/gateway/spend"
)

// maxEvent bounds one event of a stream, or an answer that is no stream, of
// which the use is read. OpenAI repeats the whole answer in its last event.
const maxEvent = 8 << 20

// usage reads what an answer used while it passes. It keeps at most one event of
// it.
type usage struct {
	form form
	// events: the answer is a stream of server-sent events.
	events bool

	use spend.Tokens
	// input: the input was counted. final: everything was, and the answer has come to
	// its end. finish: it has come to its end, and a better count may follow.
	input, final, finish bool
	// line is the part of a line, or of an answer that is no stream, that was
	// read. long: it did not fit, and is left out.
	line []byte
	long bool
}

// Write takes the next part of the answer. It never fails.
func (u *usage) Write(p []byte) (int, error) {
	n := len(p)
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
	u.final = u.final || u.finish
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

// read takes an event of a stream, or a whole answer, of the form's API.
func (u *usage) read(data []byte) {
	if !gjson.ValidBytes(data) {
		return
	}
	e := gjson.ParseBytes(data)
	switch u.form {
	case formMessages:
		u.anthropic(e.Get("message.usage")) // message_start
		u.anthropic(e.Get("usage"))         // message_delta, or the whole
		u.final = u.final || u.input &&
			(!u.events || e.Get("delta.stop_reason").String() != "" || e.Get("type").String() == "message_stop")
	case formResponses:
		final := true
		if u.events { // some count from the beginning
			final = slices.Contains([]string{"response.completed", "response.incomplete", "response.failed"},
				e.Get("type").String())
			e = e.Get("response")
		}
		if c := e.Get("usage"); c.IsObject() {
			u.set(count(c, "input_tokens"), count(c, "input_tokens_details.cached_tokens"), count(c, "output_tokens"))
			u.final = final
		}
	case formChat:
		if c := e.Get("usage"); c.IsObject() {
			u.set(count(c, "prompt_tokens"), count(c, "prompt_tokens_details.cached_tokens"), count(c, "completion_tokens"))
			// Some providers count in every event.
			u.final = !u.events || e.Get("choices.#").Int() == 0
		}
	case formGenerate:
		if c := e.Get("usageMetadata"); c.IsObject() {
			u.set(count(c, "promptTokenCount")+count(c, "toolUsePromptTokenCount"), count(c, "cachedContentTokenCount"),
				count(c, "candidatesTokenCount")+count(c, "thoughtsTokenCount"))
			// A prompt that is blocked has no candidate.
			u.finish = u.finish || e.Get("promptFeedback.blockReason").String() != "" ||
				e.Get(`candidates.#(finishReason!="").finishReason`).String() != ""
		}
	}
}

// count is a number of tokens, within bounds that keep sums of them sane.
func count(v gjson.Result, path string) int64 {
	return int64(min(max(v.Get(path).Num, 0), maxCount))
}

const maxCount = 1 << 40

// anthropic takes counts that replace those before; a delta repeats only some.
func (u *usage) anthropic(c gjson.Result) {
	if !c.IsObject() {
		return
	}
	written := count(c, "cache_creation_input_tokens")
	long := min(count(c, "cache_creation.ephemeral_1h_input_tokens"), written)
	for latest, n := range map[*int64]int64{
		&u.use.Input: count(c, "input_tokens"), &u.use.Output: count(c, "output_tokens"), &u.use.CacheWrite: written - long,
		&u.use.CacheWriteLong: long, &u.use.CacheRead: count(c, "cache_read_input_tokens"),
	} {
		if n > 0 {
			*latest = n
		}
	}
	u.input = true
}

func (u *usage) set(input, cached, output int64) {
	input = min(input, maxCount)
	cached = min(cached, input)
	u.use = spend.Tokens{Input: input - cached, CacheRead: cached, Output: min(output, maxCount)}
	u.input = true
}

// tapped is an answer that is counted while it is read.
type tapped struct {
	body  io.ReadCloser
	usage usage
	// left is what is to come, -1 where that is not known.
	left int64
	// settle is told once what is known: when that is final, or at the close.
	settle func(u *usage)
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
	if t.settle != nil {
		// An end without a count of the output has it in an event that did not come.
		t.usage.final = t.usage.final || t.usage.finish && t.usage.use.Output > 0
		t.settle(&t.usage)
		t.settle = nil
	}
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
