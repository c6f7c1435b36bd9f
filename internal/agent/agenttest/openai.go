package agenttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
)

// openAIFailure is how both of OpenAI's APIs tell an error.
func openAIFailure(r Reply) object {
	kind, code := r.ErrorType, any(nil)
	switch {
	case kind != "":
	case r.Status == http.StatusUnauthorized:
		kind, code = "invalid_request_error", "invalid_api_key"
	case r.Status == http.StatusTooManyRequests:
		kind, code = "requests", "rate_limit_exceeded"
	case r.Status >= 500:
		kind = "server_error"
	default:
		kind = "invalid_request_error"
	}
	if r.ErrorType == "insufficient_quota" {
		code = r.ErrorType
	}
	return object{"error": object{"message": r.Message, "type": kind, "param": nil, "code": code}}
}

// responses is the OpenAI Responses API.
type responses struct{}

func (responses) read(_ *http.Request, body []byte) (Turn, bool, error) {
	var req struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Input  []struct {
			Type    string  `json:"type"`
			Role    string  `json:"role"`
			Content content `json:"content"`
			CallID  string  `json:"call_id"`
			Output  content `json:"output"`
		} `json:"input"`
		Tools []struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return Turn{}, false, fmt.Errorf("We could not parse the JSON body of your request: %w", err) //nolint:staticcheck // ST1005: the API's words
	}
	if req.Model == "" || len(req.Input) == 0 {
		return Turn{Model: req.Model}, false, errors.New("Missing required parameter: 'model' or 'input'.") //nolint:staticcheck // ST1005: the API's words
	}
	var t talk
	for _, tool := range req.Tools {
		name := tool.Name
		if name == "" {
			name = tool.Type
		}
		t.turn.Tools = append(t.turn.Tools, name)
	}
	for i, item := range req.Input {
		switch item.Type {
		case "function_call", "custom_tool_call":
			t.call(item.CallID)
		case "function_call_output", "custom_tool_call_output":
			if err := t.result(item.CallID, ToolResult{Text: item.Output.text()}); err != nil {
				return Turn{Model: req.Model}, false, fmt.Errorf("input[%d]: %w", i, err)
			}
		case "reasoning":
			t.model()
		default:
			if item.Role == "assistant" {
				t.model()
			} else if item.Role == "user" {
				t.user(item.Content.text())
			}
		}
	}
	turn, err := t.done(req.Model)
	return turn, req.Stream, err
}

// items are the parts of an answer.
func (responses) items(r Reply) []object {
	var items []object
	if r.Text != "" {
		items = append(items, object{
			"type": "message", "id": newID("msg_"), "status": "completed", "role": "assistant",
			"content": []object{{"type": "output_text", "text": r.Text, "annotations": []any{}}},
		})
	}
	for _, t := range r.Tools {
		items = append(items, object{
			"type": "function_call", "id": newID("fc_"), "call_id": newID("call_"), "status": "completed",
			"name": t.Name, "arguments": t.input(),
		})
	}
	return items
}

func (responses) response(id, model, status string, items []object, r Reply) object {
	response := object{
		"id": id, "object": "response", "created_at": 1, "status": status, "model": model, "output": items, "usage": nil,
		"error": nil,
	}
	if status == "completed" {
		in, out := usage(r)
		response["usage"] = object{
			"input_tokens": in, "input_tokens_details": object{"cached_tokens": 0},
			"output_tokens": out, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": in + out,
		}
	}
	return response
}

func (a responses) whole(model string, r Reply) object {
	return a.response(newID("resp_"), model, "completed", a.items(r), r)
}

func (a responses) stream(e *events, model string, r Reply) {
	id, number := newID("resp_"), 0
	send := func(kind string, v object) {
		v["type"], v["sequence_number"] = kind, number
		number++
		e.send(kind, v)
	}
	send("response.created", object{"response": a.response(id, model, "in_progress", []object{}, r)})
	items := a.items(r)
	for i, item := range items {
		begun := maps.Clone(item)
		begun["status"] = "in_progress"
		if item["type"] == "function_call" {
			begun["arguments"] = ""
			arguments, _ := item["arguments"].(string)
			send("response.output_item.added", object{"output_index": i, "item": begun})
			for _, part := range pieces(arguments) {
				send("response.function_call_arguments.delta", object{"item_id": item["id"], "output_index": i, "delta": part})
			}
			send("response.function_call_arguments.done",
				object{"item_id": item["id"], "output_index": i, "arguments": arguments})
		} else {
			begun["content"] = []any{}
			send("response.output_item.added", object{"output_index": i, "item": begun})
			send("response.content_part.added", object{
				"item_id": item["id"], "output_index": i, "content_index": 0,
				"part": object{"type": "output_text", "text": "", "annotations": []any{}},
			})
			for _, part := range pieces(r.Text) {
				send("response.output_text.delta", object{
					"item_id": item["id"], "output_index": i, "content_index": 0, "delta": part,
				})
			}
			send("response.output_text.done", object{
				"item_id": item["id"], "output_index": i, "content_index": 0, "text": r.Text,
			})
			send("response.content_part.done", object{
				"item_id": item["id"], "output_index": i, "content_index": 0,
				"part": object{"type": "output_text", "text": r.Text, "annotations": []any{}},
			})
		}
		send("response.output_item.done", object{"output_index": i, "item": item})
	}
	send("response.completed", object{"response": a.response(id, model, "completed", items, r)})
}

func (responses) failure(r Reply) object { return openAIFailure(r) }

// chat is the OpenAI Chat Completions API.
type chat struct{}

func (chat) read(_ *http.Request, body []byte) (Turn, bool, error) {
	var req struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			message

			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID string `json:"id"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return Turn{}, false, fmt.Errorf("We could not parse the JSON body of your request: %w", err) //nolint:staticcheck // ST1005: the API's words
	}
	if req.Model == "" || len(req.Messages) == 0 {
		return Turn{Model: req.Model}, false, errors.New("you must provide a model and messages")
	}
	var t talk
	for _, tool := range req.Tools {
		t.turn.Tools = append(t.turn.Tools, tool.Function.Name)
	}
	for i, m := range req.Messages {
		switch m.Role {
		case "assistant":
			t.answer = false // each message is an answer of its own
			t.model()
			for _, call := range m.ToolCalls {
				t.call(call.ID)
			}
		case "tool":
			if err := t.result(m.ToolCallID, ToolResult{Text: m.Content.text()}); err != nil {
				return Turn{Model: req.Model}, false, fmt.Errorf("messages.[%d]: %w", i, err)
			}
		case "user":
			t.user(m.Content.text())
		}
	}
	turn, err := t.done(req.Model)
	return turn, req.Stream, err
}

func finishReason(r Reply) string {
	if len(r.Tools) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func chatUsage(r Reply) object {
	in, out := usage(r)
	return object{
		"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out,
		"prompt_tokens_details": object{"cached_tokens": 0}, "completion_tokens_details": object{"reasoning_tokens": 0},
	}
}

func (chat) whole(model string, r Reply) object {
	said := object{"role": "assistant", "content": r.Text}
	var calls []object
	for _, t := range r.Tools {
		calls = append(calls, object{
			"id": newID("call_"), "type": "function", "function": object{"name": t.Name, "arguments": t.input()},
		})
	}
	if calls != nil {
		said["tool_calls"] = calls
	}
	return object{
		"id": newID("chatcmpl-"), "object": "chat.completion", "created": 1, "model": model,
		"choices": []object{{"index": 0, "message": said, "finish_reason": finishReason(r)}},
		"usage":   chatUsage(r),
	}
}

func (chat) stream(e *events, model string, r Reply) {
	id := newID("chatcmpl-")
	send := func(choices []object, usage any) {
		e.send("", object{
			"id": id, "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices, "usage": usage,
		})
	}
	delta := func(d object, finish any) {
		send([]object{{"index": 0, "delta": d, "finish_reason": finish}}, nil)
	}
	delta(object{"role": "assistant", "content": ""}, nil)
	if r.Text != "" {
		for _, part := range pieces(r.Text) {
			delta(object{"content": part}, nil)
		}
	}
	for i, t := range r.Tools {
		delta(object{
			"tool_calls": []object{
				{"index": i, "id": newID("call_"), "type": "function", "function": object{"name": t.Name, "arguments": ""}},
			},
		}, nil)
		for _, part := range pieces(t.input()) {
			delta(object{"tool_calls": []object{{"index": i, "function": object{"arguments": part}}}}, nil)
		}
	}
	delta(object{}, finishReason(r))
	send([]object{}, chatUsage(r))
	e.raw("data: [DONE]\n\n")
}

func (chat) failure(r Reply) object { return openAIFailure(r) }
