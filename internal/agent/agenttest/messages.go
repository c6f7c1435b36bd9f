package agenttest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// messages is the Anthropic Messages API.
type messages struct{}

// The request as far as the server looks at it.
type messagesRequest struct {
	Model     string    `json:"model"`
	MaxTokens int64     `json:"max_tokens"`
	Stream    bool      `json:"stream"`
	Messages  []message `json:"messages"`
	Tools     []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a list of blocks; a plain string means one text block.
type content []block

func (c *content) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	var blocks []block
	if err := json.Unmarshal(b, &blocks); err != nil {
		return err
	}
	*c = blocks
	return nil
}

type block struct {
	Type      string  `json:"type"`
	Text      string  `json:"text"`
	ID        string  `json:"id"`
	ToolUseID string  `json:"tool_use_id"`
	Content   content `json:"content"`
	IsError   bool    `json:"is_error"`
}

// text joins the texts of a content, of whatever kind its API says they are.
func (c content) text() string {
	var parts []string
	for _, b := range c {
		if b.Text != "" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

func (messages) read(r *http.Request, body []byte) (Turn, bool, error) {
	var req messagesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return Turn{}, false, fmt.Errorf("the request body is not valid JSON: %w", err)
	}
	turn := Turn{Model: req.Model}
	switch {
	case r.Header.Get("Anthropic-Version") == "":
		return turn, false, errors.New("anthropic-version: header is required")
	case req.Model == "":
		return turn, false, errors.New("model: Field required")
	case req.MaxTokens < 1:
		return turn, false, errors.New("max_tokens: Field required")
	case len(req.Messages) == 0:
		return turn, false, errors.New("messages: at least one message is required")
	case req.Messages[0].Role != "user":
		return turn, false, errors.New("messages: first message must use the user role")
	}
	var t talk
	for _, tool := range req.Tools {
		t.turn.Tools = append(t.turn.Tools, tool.Name)
	}
	for i, m := range req.Messages {
		if m.Role == "assistant" {
			t.answer = false // each message is an answer of its own
			t.model()
			for _, b := range m.Content {
				if b.Type == "tool_use" {
					t.call(b.ID)
				}
			}
			continue
		}
		t.user("")
		var said content
		for _, b := range m.Content {
			if b.Type != "tool_result" {
				said = append(said, b)
				continue
			}
			if err := t.result(b.ToolUseID, ToolResult{Text: b.Content.text(), IsError: b.IsError}); err != nil {
				return turn, false, fmt.Errorf("messages.%d: %w", i, err)
			}
		}
		for id := range t.waiting {
			return turn, false, fmt.Errorf("messages.%d: `tool_use` ids were found without `tool_result` blocks "+
				"immediately after: %s", i-1, id)
		}
		if t.turn.Number == 0 {
			t.prompt = append(t.prompt, said.text())
		}
	}
	turn, err := t.done(req.Model)
	return turn, req.Stream, err
}

func stopReason(r Reply) string {
	if len(r.Tools) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func (messages) whole(model string, r Reply) object {
	var blocks []object
	if r.Text != "" {
		blocks = append(blocks, object{"type": "text", "text": r.Text})
	}
	for _, t := range r.Tools {
		blocks = append(blocks, object{"type": "tool_use", "id": newID("toolu_"), "name": t.Name, "input": t.Input})
	}
	in, out := usage(r)
	return object{
		"id": newID("msg_"), "type": "message", "role": "assistant", "model": model,
		"content": blocks, "stop_reason": stopReason(r), "stop_sequence": nil,
		"usage": object{
			"input_tokens": in, "output_tokens": out, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
		},
	}
}

func (messages) stream(e *events, model string, r Reply) {
	send := func(kind string, v object) {
		v["type"] = kind
		e.send(kind, v)
	}
	in, out := usage(r)
	send("message_start", object{"message": object{
		"id": newID("msg_"), "type": "message", "role": "assistant", "model": model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		// The count at the start is a placeholder; message_delta has the real one.
		"usage": object{
			"input_tokens": in, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
		},
	}})
	send("ping", object{})
	index := 0
	add := func(start object, text, kind, field string) {
		send("content_block_start", object{"index": index, "content_block": start})
		for _, part := range pieces(text) {
			send("content_block_delta", object{"index": index, "delta": object{"type": kind, field: part}})
		}
		send("content_block_stop", object{"index": index})
		index++
	}
	if r.Text != "" {
		add(object{"type": "text", "text": ""}, r.Text, "text_delta", "text")
	}
	for _, t := range r.Tools {
		add(object{"type": "tool_use", "id": newID("toolu_"), "name": t.Name, "input": object{}}, t.input(),
			"input_json_delta", "partial_json")
	}
	send("message_delta", object{
		"delta": object{"stop_reason": stopReason(r), "stop_sequence": nil},
		"usage": object{"output_tokens": out},
	})
	send("message_stop", object{})
}

func (messages) failure(r Reply) object {
	kind := cmp.Or(r.ErrorType, map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error",
		http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
		529: "overloaded_error", // the API's own status for overload
	}[r.Status])
	if kind == "" && r.Status >= 500 {
		kind = "api_error"
	}
	return object{
		"type": "error", "error": object{"type": cmp.Or(kind, "invalid_request_error"), "message": r.Message}, "request_id": newID("req_"),
	}
}
