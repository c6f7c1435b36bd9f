package agenttest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
)

// chunk is how many bytes of text or tool input one delta carries: small, so
// that a client has to put them together.
const chunk = 24

type object = map[string]any

func newID(prefix string) string { return prefix + rand.Text() }

func usage(r Reply) (in, out int64) {
	in, out = r.InputTokens, r.OutputTokens
	if in == 0 {
		in = 100
	}
	if out == 0 {
		out = 20
	}
	return in, out
}

func stopReason(r Reply) string {
	if len(r.Tools) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

// whole is the answer to a request without "stream".
func whole(model string, r Reply) object {
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
		"usage": object{"input_tokens": in, "output_tokens": out, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
	}
}

// stream sends the answer as server-sent events, flushed one by one. A client
// that went away ends it.
func stream(w http.ResponseWriter, model string, r Reply) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Request-Id", newID("req_"))
	rc := http.NewResponseController(w)
	gone := false
	send := func(kind string, v object) {
		if gone {
			return
		}
		v["type"] = kind
		data, err := json.Marshal(v)
		if err == nil {
			_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
		}
		if err == nil {
			err = rc.Flush()
		}
		gone = err != nil
	}

	in, out := usage(r)
	send("message_start", object{"message": object{
		"id": newID("msg_"), "type": "message", "role": "assistant", "model": model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		// The count at the start is a placeholder; message_delta has the real one.
		"usage": object{"input_tokens": in, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
	}})
	send("ping", object{})
	index := 0
	add := func(start object, deltas []object) {
		send("content_block_start", object{"index": index, "content_block": start})
		for _, d := range deltas {
			send("content_block_delta", object{"index": index, "delta": d})
		}
		send("content_block_stop", object{"index": index})
		index++
	}
	if r.Text != "" {
		var deltas []object
		for _, part := range pieces(r.Text) {
			deltas = append(deltas, object{"type": "text_delta", "text": part})
		}
		add(object{"type": "text", "text": ""}, deltas)
	}
	for _, t := range r.Tools {
		input, err := json.Marshal(t.Input)
		if err != nil {
			input = []byte("{}")
		}
		var deltas []object
		for _, part := range pieces(string(input)) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": part})
		}
		add(object{"type": "tool_use", "id": newID("toolu_"), "name": t.Name, "input": object{}}, deltas)
	}
	send("message_delta", object{
		"delta": object{"stop_reason": stopReason(r), "stop_sequence": nil},
		"usage": object{"output_tokens": out},
	})
	send("message_stop", object{})
}

// pieces cuts s into parts of about chunk bytes without cutting a character.
func pieces(s string) []string {
	var parts []string
	start := 0
	for i := range s {
		if i-start >= chunk {
			parts = append(parts, s[start:i])
			start = i
		}
	}
	return append(parts, s[start:])
}

func writeError(w http.ResponseWriter, r Reply) {
	maps.Copy(w.Header(), r.Header)
	id := newID("req_")
	w.Header().Set("Request-Id", id)
	writeJSON(w, r.Status, object{
		"type":       "error",
		"error":      object{"type": r.ErrorType, "message": r.Message},
		"request_id": id,
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // a client that went away is its own loss
}
