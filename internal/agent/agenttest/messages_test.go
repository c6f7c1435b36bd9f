package agenttest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
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
