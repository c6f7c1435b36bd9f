package agenttest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// generate is generateContent of the Gemini API.
type generate struct{}

func (generate) read(r *http.Request, body []byte) (Turn, bool, error) {
	name, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/models/"), ":")
	var req struct {
		Contents []struct {
			Role  string `json:"role"`
			Parts []struct {
				Text         string `json:"text"`
				FunctionCall *struct {
					Name string `json:"name"`
				} `json:"functionCall"`
				FunctionResponse *struct {
					Name     string          `json:"name"`
					Response json.RawMessage `json:"response"`
				} `json:"functionResponse"`
			} `json:"parts"`
		} `json:"contents"`
		Tools []struct {
			Functions []struct {
				Name string `json:"name"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return Turn{Model: name}, false, fmt.Errorf("Invalid JSON payload received. %w", err) //nolint:staticcheck // ST1005: the API's words
	}
	if len(req.Contents) == 0 {
		return Turn{Model: name}, false, errors.New("GenerateContentRequest.contents: contents is not specified")
	}
	var t talk
	for _, tool := range req.Tools {
		for _, f := range tool.Functions {
			t.turn.Tools = append(t.turn.Tools, f.Name)
		}
	}
	for i, c := range req.Contents {
		for _, p := range c.Parts {
			switch {
			case p.FunctionCall != nil:
				t.call(p.FunctionCall.Name)
			case p.FunctionResponse != nil:
				var said struct {
					Output string `json:"output"`
					Error  string `json:"error"`
				}
				if json.Unmarshal(p.FunctionResponse.Response, &said) != nil {
					said.Output = string(p.FunctionResponse.Response)
				}
				result := ToolResult{Text: said.Output + said.Error, IsError: said.Error != ""}
				if err := t.result(p.FunctionResponse.Name, result); err != nil {
					return Turn{Model: name}, false, fmt.Errorf("contents[%d]: %w", i, err)
				}
			case c.Role == "model":
				t.model()
			default:
				t.user(p.Text)
			}
		}
	}
	turn, err := t.done(name)
	return turn, method == "streamGenerateContent", err
}

func (generate) answer(model string, parts []object, finish bool, r Reply) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	answer := object{"candidates": []object{candidate}, "modelVersion": model, "responseId": newID("")}
	if finish {
		candidate["finishReason"] = "STOP"
		in, out := usage(r)
		answer["usageMetadata"] = object{"promptTokenCount": in, "candidatesTokenCount": out, "totalTokenCount": in + out}
	}
	return answer
}

func (generate) calls(r Reply) []object {
	var parts []object
	for _, t := range r.Tools {
		parts = append(parts, object{"functionCall": object{"name": t.Name, "args": t.Input}})
	}
	return parts
}

func (a generate) whole(model string, r Reply) object {
	parts := []object{}
	if r.Text != "" {
		parts = append(parts, object{"text": r.Text})
	}
	return a.answer(model, append(parts, a.calls(r)...), true, r)
}

func (a generate) stream(e *events, model string, r Reply) {
	if r.Text != "" {
		for _, part := range pieces(r.Text) {
			e.send("", a.answer(model, []object{{"text": part}}, false, r))
		}
	}
	// The last one carries the calls, or nothing but the end.
	last := a.calls(r)
	if last == nil {
		last = []object{{"text": ""}}
	}
	e.send("", a.answer(model, last, true, r))
}

func (generate) failure(r Reply) object {
	state := cmp.Or(r.ErrorType, map[int]string{
		http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND",
		http.StatusTooManyRequests: "RESOURCE_EXHAUSTED",
	}[r.Status])
	if state == "" && r.Status >= 500 {
		state = "UNAVAILABLE"
	}
	return object{"error": object{"code": r.Status, "message": r.Message, "status": cmp.Or(state, "INVALID_ARGUMENT")}}
}
