package agenttest

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	user  = `{"role":"user","content":"<system-reminder>x</system-reminder>\nTask: T1\nMode: build"}`
	tools = `"tools":[{"name":"Bash"},{"name":"Write"}]`
)

func body(stream bool, messages ...string) string {
	s := "false"
	if stream {
		s = "true"
	}
	return `{"model":"m","max_tokens":10,"stream":` + s + `,` + tools + `,"messages":[` + strings.Join(messages, ",") +
		`]}`
}

// answer is a response that was read and closed.
type answer struct {
	status int
	header http.Header
	body   string
}

func send(t *testing.T, h http.Handler, method, path, body string, header ...string) answer {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("X-Api-Key", "key")
	for pair := range slices.Chunk(header, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// joined puts a stream together as a client does.
func joined(t *testing.T, sse string) (text string, inputs []map[string]any, stop string) {
	t.Helper()
	var partial strings.Builder
	var order []string
	sc := bufio.NewScanner(strings.NewReader(sse))
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string
			Block struct{ Type string } `json:"content_block"`
			Delta struct {
				Text    string
				Partial string `json:"partial_json"`
				Stop    string `json:"stop_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		order = append(order, e.Type)
		text += e.Delta.Text
		partial.WriteString(e.Delta.Partial)
		if e.Delta.Stop != "" {
			stop = e.Delta.Stop
		}
		if e.Type == "content_block_stop" && partial.Len() > 0 {
			var in map[string]any
			if err := json.Unmarshal([]byte(partial.String()), &in); err != nil {
				t.Fatal(err)
			}
			inputs = append(inputs, in)
			partial.Reset()
		}
	}
	if len(order) < 4 || order[0] != "message_start" || order[len(order)-1] != "message_stop" {
		t.Errorf("order of events: %v", order)
	}
	return text, inputs, stop
}

func TestConversation(t *testing.T) {
	t.Parallel()
	write := Write("/w/a.txt", strings.Repeat("ä€\n", 30))
	write.Text = "I write it, " + strings.Repeat("slowly ", 20)
	var last Turn
	play := Play(map[string][]Reply{"T1": {write, Say("done")}, "": {Say("other")}})
	api := NewModel(func(t Turn) Reply { last = t; return play(t) })

	sse := send(t, api, http.MethodPost, "/v1/messages?beta=true", body(true, user)).body
	text, inputs, stop := joined(t, sse)
	if diff := cmp.Diff(write.Tools[0].Input, inputs[0]); diff != "" || text != write.Text || stop != "tool_use" {
		t.Errorf("text %q, stop %q, input (-want +got):\n%s", text, stop, diff)
	}
	if last.Task != "T1" || last.Mode != "build" || last.Number != 0 ||
		!strings.Contains(last.Prompt, "system-reminder") || len(last.Tools) != 2 {
		t.Errorf("turn %+v", last)
	}

	use := `{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"t1","name":"Write","input":{}}]}`
	result := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"no Task: T2"}]}]}`
	got := send(t, api, http.MethodPost, "/v1/messages", body(false, user, use, result)).body
	var whole struct {
		Content []struct{ Type, Text string }
		Stop    string `json:"stop_reason"`
		Usage   map[string]int
	}
	if err := json.Unmarshal([]byte(got), &whole); err != nil {
		t.Fatal(err)
	}
	if len(whole.Content) != 1 || whole.Content[0].Text != "done" || whole.Stop != "end_turn" ||
		whole.Usage["input_tokens"] != 100 {
		t.Errorf("answer %+v", whole)
	}
	if diff := cmp.Diff([]ToolResult{{Text: "no Task: T2", IsError: true}}, last.Results); diff != "" ||
		last.Number != 1 || last.Task != "T1" {
		t.Errorf("turn %+v\n%s", last, diff)
	}

	requests := api.Requests()
	if len(requests) != 2 || requests[0].Query != "beta=true" || requests[0].Header.Get("X-Api-Key") != "key" ||
		requests[1].Model != "m" {
		t.Errorf("requests %+v", requests)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	open := `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}]}`
	limited := Fail(http.StatusTooManyRequests, "slow down")
	limited.Header = http.Header{"Retry-After": {"7"}}
	tests := []struct {
		name, method, path, body string
		header                   []string
		reply                    Reply
		status                   int
		says                     string
	}{
		{"count", http.MethodPost, "/v1/messages/count_tokens", body(false, user), nil, Reply{}, 200, `"input_tokens":`},
		{"other path", http.MethodPost, "/v1/files", "{}", nil, Reply{}, 404, "not_found_error"},
		{"wrong key", http.MethodPost, "/v1/messages", body(false, user), []string{"X-Api-Key", "no"}, Reply{}, 401, "authentication_error"},
		{"no version", http.MethodPost, "/v1/messages", body(false, user), []string{"Anthropic-Version", ""}, Reply{}, 400, "anthropic-version"},
		{"unanswered call", http.MethodPost, "/v1/messages", body(false, user, open, user), nil, Reply{}, 400, "without `tool_result` blocks"},
		{"scripted error", http.MethodPost, "/v1/messages", body(true, user), nil, limited, 429, `"type":"rate_limit_error"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			api := NewModel(func(Turn) Reply { return tt.reply })
			api.APIKey = "key"
			got := send(t, api, tt.method, tt.path, tt.body, tt.header...)
			if got.status != tt.status || !strings.Contains(got.body, tt.says) {
				t.Errorf("%d %s, want %d with %q", got.status, got.body, tt.status, tt.says)
			}
			if tt.name == "scripted error" && got.header.Get("Retry-After") != "7" {
				t.Errorf("headers %v", got.header)
			}
		})
	}
}
