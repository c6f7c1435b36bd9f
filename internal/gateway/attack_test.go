package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// Attack G3: a hijacked agent asks the gateway for more than it is for. Each is
// refused with 400 in its API's form, told in the report, and never sent.
func TestG3HijackedAgentGetsNoMoreFromTheGateway(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", maxRequest+1)
	tests := []struct {
		provider           run.Provider
		method, path, says string
		body               io.Reader
		header             []string
	}{
		{run.ProviderAnthropic, "POST", "/v1/files", "does not offer POST /v1/files", strings.NewReader(`{}`), nil},
		{run.ProviderAnthropic, "POST", "/v1/messages/batches", "does not offer", strings.NewReader(small), nil},
		{run.ProviderAnthropic, "POST", "/v1/messages%2Fbatches", "does not offer", strings.NewReader(small), nil},
		{run.ProviderAnthropic, "POST", "//v1/messages", "does not offer", strings.NewReader(small), nil},
		{run.ProviderAnthropic, "POST", "/http://evil.example/v1/messages", "does not offer", strings.NewReader(small), nil},
		{run.ProviderOpenAI, "GET", responsesPath, "does not offer GET", nil, nil},
		{run.ProviderOpenAI, "GET", "/v1/responses/resp_1", "does not offer", nil, nil},
		{run.ProviderOpenAI, "POST", messagesPath, "does not offer", strings.NewReader(small), nil}, // the other API
		{run.ProviderGoogle, "POST", "/v1beta/files", "does not offer", strings.NewReader(`{}`), nil},
		{run.ProviderGoogle, "POST", "/v1beta/models/..%2F..%2Ffiles:generateContent", "does not offer", strings.NewReader(`{}`), nil},
		{run.ProviderGoogle, "POST", "/v1beta/models/gemini-ultra:generateContent", `model "gemini-ultra" is not allowed`, strings.NewReader(`{}`), nil},
		{run.ProviderAnthropic, "POST", messagesPath, `model "claude-opus-4-5" is not allowed`, strings.NewReader(`{"model":"claude-opus-4-5"}`), nil},
		{run.ProviderOpenAI, "POST", responsesPath, `model "gpt-5-pro" is not allowed`, strings.NewReader(`{"model":"gpt-5-pro"}`), nil},
		{run.ProviderAnthropic, "POST", countPath, "is not allowed", strings.NewReader(`{"model":"claude-opus-4-5"}`), nil},
		{run.ProviderAnthropic, "POST", messagesPath, "mcp_servers is not allowed", strings.NewReader(`{"model":"claude-sonnet-4-5","mcp_servers":[]}`), nil},
		{run.ProviderOpenAI, "POST", responsesPath, `tools[0].type "web_search"`, strings.NewReader(`{"model":"gpt-5","tools":[{"type":"web_search"}]}`), nil},
		{run.ProviderGoogle, "POST", generatePath, "tools[0].google_search is not", strings.NewReader(`{"tools":[{"google_search":{}}]}`), nil},
		{run.ProviderOpenAI, "POST", responsesPath, "compressed", strings.NewReader("x"), []string{"Content-Encoding", "zstd"}},
		{run.ProviderAnthropic, "POST", messagesPath, "may have at most", strings.NewReader(large), nil},
		// Without a length it only shows while it is read.
		{run.ProviderAnthropic, "POST", messagesPath, "may have at most", struct{ io.Reader }{strings.NewReader(large)}, nil},
	}
	for _, tt := range tests {
		u := &upstream{}
		tr := try(t, u, tt.provider, 1, func(c *Config) { c.Models = []string{"claude-sonnet-*", "gpt-5", "gemini-2.5-pro"} })
		credential := map[run.Provider][]string{
			run.ProviderAnthropic: {"X-Api-Key", runToken}, run.ProviderGoogle: {"X-Goog-Api-Key", runToken},
			run.ProviderOpenAI: {"Authorization", "Bearer " + runToken},
		}[tt.provider]
		resp := do(t, request(t, tt.method, tr.url+tt.path, tt.body, append(credential, tt.header...)...))
		var got struct {
			Type  string
			Error struct {
				Type, Status, Message string
				Code                  any
			}
		}
		if err := json.Unmarshal([]byte(resp.body), &got); err != nil {
			t.Fatalf("%s: %d %s", tt.path, resp.status, resp.body)
		}
		form := got.Error.Type == "invalid_request_error" && (got.Type == "error") == (tt.provider == run.ProviderAnthropic || tt.path == messagesPath)
		if tt.provider == run.ProviderGoogle {
			form = got.Error.Status == "FAILED_PRECONDITION" && got.Error.Code == 400.0
		}
		if resp.status != http.StatusBadRequest || !form || !strings.Contains(got.Error.Message, tt.says) || len(u.requests()) != 0 {
			t.Errorf("%s: %d %s, %d were sent", tt.path, resp.status, resp.body, len(u.requests()))
		}
		if r := tr.report(t); len(r.Refused) != 1 || r.Refused[0].Reason != got.Error.Message || r.Refused[0].Budget || len(r.Models) != 0 {
			t.Errorf("%s: report %+v", tt.path, r)
		}
	}
}

// Attack G3: the token of another start, of another run, or of an agent that has
// ended is none.
func TestG3TokensOfOthers(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	tr := try(t, u, run.ProviderAnthropic, 0, nil)
	post := func(token string) answer {
		return do(t, request(t, http.MethodPost, tr.url+"/v1/messages", strings.NewReader(small), "X-Api-Key", token))
	}
	for name, token := range map[string]string{
		"never begun": Token([]byte("key"), "r1-2"), "another run's": Token([]byte("other key"), "r1-1"),
		"cut":     runToken[:len(runToken)-1],
		"renamed": strings.Replace(runToken, "r1-1", "r1-2", 1), "nothing": "", "prefix": "ralph-", "dot": "ralph-.",
		"the key": realKey,
	} {
		if resp := post(token); resp.status != http.StatusBadRequest ||
			!strings.Contains(resp.body, "token is missing or wrong") {
			t.Errorf("%s: %d %s", name, resp.status, resp.body)
		}
	}
	if resp := post(runToken); resp.status != http.StatusOK {
		t.Errorf("the right one: %d %s", resp.status, resp.body)
	}
	if err := tr.meter.End(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	if resp := post(runToken); resp.status != http.StatusBadRequest || len(u.requests()) != 1 {
		t.Errorf("of an agent that has ended: %d %s", resp.status, resp.body)
	}
}

// Attack I6: what a provider says of rates, load, credit and subscriptions
// reaches the agent as it was said, costs nothing, and is no refusal of ours:
// the agent's own words decide whether the run waits or stops.
func TestI6ProviderLimitsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 402, 403, 429, 500, 503, 529} {
		body := fmt.Sprintf(`{"type":"error","error":{"type":"e%d","message":"the provider's words"}}`, status)
		u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}}
		tr := try(t, u, run.ProviderAnthropic, 1, nil)
		resp := do(t, request(t, http.MethodPost, tr.url+"/v1/messages", strings.NewReader(small), "X-Api-Key", runToken))
		if resp.status != status || resp.body != body || resp.header.Get("Retry-After") != "7" {
			t.Errorf("%d: %d %s %v", status, resp.status, resp.body, resp.header)
		}
		if r := tr.report(t); len(r.Models)+len(r.Refused) != 0 {
			t.Errorf("%d: %+v", status, r)
		}
	}
}
