package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/run"
)

// Attack G3: a hijacked agent asks the gateway for more than it is for. Each is
// refused with 400 in its API's form, told in the report, and never sent.
func TestG3HijackedAgentGetsNoMoreFromTheGateway(t *testing.T) {
	t.Parallel()
	const (
		messages  = "/v1/messages"
		responses = "/v1/responses"
		chat      = "/v1/chat/completions"
		generate  = "/v1beta/models/gemini-2.5-pro:generateContent"
	)
	tests := []struct {
		name     string
		provider run.Provider
		method   string
		path     string
		body     string
		says     string
	}{
		{"other path", run.ProviderAnthropic, "POST", "/v1/files", `{}`, "does not offer POST /v1/files"},
		{"batches cost too", run.ProviderAnthropic, "POST", "/v1/messages/batches", `{}`, "does not offer"},
		{"other method", run.ProviderOpenAI, "GET", responses, ``, "does not offer GET"},
		{"answers of others", run.ProviderOpenAI, "GET", "/v1/responses/resp_1", ``, "does not offer"},
		{"files of Gemini", run.ProviderGoogle, "POST", "/v1beta/files", `{}`, "does not offer"},
		{
			"model with a path in it", run.ProviderGoogle, "POST", "/v1beta/models/..%2F..%2Ffiles:generateContent", `{}`,
			"does not offer",
		},
		{"the other API", run.ProviderOpenAI, "POST", messages, small, "does not offer"},
		{
			"other model", run.ProviderAnthropic, "POST", messages, `{"model":"claude-opus-4-5","max_tokens":1}`,
			`model "claude-opus-4-5" is not allowed`,
		},
		{
			"other model of Gemini", run.ProviderGoogle, "POST", "/v1beta/models/gemini-ultra:generateContent", `{}`,
			`model "gemini-ultra" is not allowed`,
		},
		{
			"counting for another model", run.ProviderAnthropic, "POST", "/v1/messages/count_tokens",
			`{"model":"claude-opus-4-5"}`, "is not allowed",
		},
		{
			"two models", run.ProviderAnthropic, "POST", messages,
			`{"model":"claude-sonnet-4-5","max_tokens":1,"model":"claude-opus-4-5"}`, "model is there twice",
		},
		{"no model", run.ProviderOpenAI, "POST", chat, `{}`, "names no model"},
		{"model of no text", run.ProviderOpenAI, "POST", chat, `{"model":["gpt-5"]}`, "names no model"},
		{
			"model of another case", run.ProviderAnthropic, "POST", messages, `{"Model":"claude-sonnet-4-5","max_tokens":1}`,
			"Model is not a field",
		},
		{"no object", run.ProviderAnthropic, "POST", messages, `[]`, "not a JSON object"},
		{"null", run.ProviderAnthropic, "POST", messages, `null`, "not a JSON object"},
		{"no JSON", run.ProviderAnthropic, "POST", messages, `{"model":`, "not a JSON object"},
		{
			"search by the provider", run.ProviderAnthropic, "POST", messages,
			`{"model":"claude-sonnet-4-5","tools":[{"name":"a"},{"type":"web_search_20250305"}]}`,
			`tools[1].type "web_search_20250305" is not allowed here`,
		},
		{
			"a tool of two types", run.ProviderAnthropic, "POST", messages,
			`{"model":"claude-sonnet-4-5","tools":[{"type":"custom","type":"web_fetch_20250910"}]}`,
			"tools[0].type is there twice",
		},
		{
			"servers of the provider", run.ProviderAnthropic, "POST", messages,
			`{"model":"claude-sonnet-4-5","mcp_servers":[{"url":"https://evil.example"}]}`, "mcp_servers is not allowed",
		},
		{
			"dearer speed", run.ProviderAnthropic, "POST", messages, `{"model":"claude-sonnet-4-5","speed":"fast"}`,
			"costs more than is counted",
		},
		{
			"dearer tier", run.ProviderOpenAI, "POST", responses, `{"model":"gpt-5","service_tier":"priority"}`,
			"costs more than is counted",
		},
		{
			"search of OpenAI", run.ProviderOpenAI, "POST", responses, `{"model":"gpt-5","tools":[{"type":"web_search"}]}`,
			`tools[0].type "web_search"`,
		},
		{
			"search in a group", run.ProviderOpenAI, "POST", responses,
			`{"model":"gpt-5","tools":[{"type":"namespace","tools":[{"type":"mcp"}]}]}`, `tools[0].tools[0].type "mcp"`,
		},
		{
			"search of chat", run.ProviderOpenAI, "POST", chat, `{"model":"gpt-5","web_search_options":{}}`,
			"web_search_options is not allowed",
		},
		{
			"answer that comes by another way", run.ProviderOpenAI, "POST", responses, `{"model":"gpt-5","background":true}`,
			`background "true" is not allowed`,
		},
		{
			"input that is not there", run.ProviderOpenAI, "POST", responses,
			`{"model":"gpt-5","previous_response_id":"resp_1"}`, "previous_response_id is not allowed",
		},
		{
			"search of Gemini", run.ProviderGoogle, "POST", generate, `{"tools":[{"google_search":{}}]}`, `tools[0].google_search is not allowed`,
		},
		{
			"cached content", run.ProviderGoogle, "POST", generate, `{"cached_content":"cachedContents/1"}`,
			"cached_content is not allowed",
		},
		{
			"an image by address", run.ProviderAnthropic, "POST", messages,
			`{"model":"claude-sonnet-4-5","messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://evil.example/?secret"}}]}]}`,
			"by address",
		},
		{
			"a document by address, in disguise", run.ProviderAnthropic, "POST", messages,
			`{"model":"claude-sonnet-4-5","messages":[{"content":[{"type":"tool_result","content":[{"type":"document","s\u006furce":{"type":"\u0075rl","url":"https://evil.example"}}]}]}]}`,
			"by address",
		},
		{
			"an image by address in responses", run.ProviderOpenAI, "POST", responses,
			`{"model":"gpt-5","input":[{"content":[{"type":"input_image","image_url":"https://evil.example"}]}]}`, "by address",
		},
		{
			"a file by address in responses", run.ProviderOpenAI, "POST", responses,
			`{"model":"gpt-5","input":[{"content":[{"type":"input_file","file_url":"https://evil.example"}]}]}`, "input[0].content[0].file_url is not allowed",
		},
		{
			"an image by address in chat", run.ProviderOpenAI, "POST", chat,
			`{"model":"gpt-5","messages":[{"content":[{"type":"image_url","image_url":{"url":"HTTPS://evil.example"}}]}]}`,
			"by address",
		},
		{
			"a file by address in Gemini", run.ProviderGoogle, "POST", generate,
			`{"contents":[{"parts":[{"file_data":{"file_uri":"https://evil.example"}}]}]}`, "contents[0].parts[0].file_data is not allowed",
		},
		{
			"limits in two spellings", run.ProviderGoogle, "POST", generate,
			`{"generationConfig":{"maxOutputTokens":1},"generation_config":{"maxOutputTokens":9}}`, "generation_config is there twice",
		},
		{
			"limit below nothing", run.ProviderAnthropic, "POST", messages, `{"model":"claude-sonnet-4-5","max_tokens":-5}`,
			"max_tokens is not a number",
		},
		{
			"limit beyond everything", run.ProviderAnthropic, "POST", messages,
			`{"model":"claude-sonnet-4-5","max_tokens":1e300}`, "max_tokens is not a number",
		},
		{
			"limit of text", run.ProviderAnthropic, "POST", messages, `{"model":"claude-sonnet-4-5","max_tokens":"5"}`,
			"max_tokens is not a number",
		},
		{
			"many answers", run.ProviderOpenAI, "POST", chat, `{"model":"gpt-5","max_tokens":1000,"n":1000}`, "ask for one answer",
		},
		{
			"a limit given twice", run.ProviderAnthropic, "POST", messages,
			`{"model":"claude-sonnet-4-5","max_tokens":5,"max_tokens":1000000}`, "max_tokens is there twice",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := &upstream{}
			tr := try(t, u, tt.provider, 1, func(c *Config) {
				c.Models = []string{"claude-sonnet-*", "gpt-5", "gemini-2.5-pro"}
			})
			header := []string{"Authorization", "Bearer " + runToken}
			switch tt.provider {
			case run.ProviderAnthropic:
				header = []string{"X-Api-Key", runToken}
			case run.ProviderGoogle:
				header = []string{"X-Goog-Api-Key", runToken}
			case run.ProviderOpenAI:
			}
			resp := do(t, request(t, tt.method, tr.url+tt.path, strings.NewReader(tt.body), header...))
			var got struct {
				Type  string
				Error struct {
					Type, Status, Message string
					Code                  any
				}
			}
			if err := json.Unmarshal([]byte(resp.body), &got); err != nil {
				t.Fatalf("%d %s", resp.status, resp.body)
			}
			form := map[run.Provider]bool{
				run.ProviderAnthropic: got.Type == "error" && got.Error.Type == "invalid_request_error",
				run.ProviderOpenAI:    got.Type == "" && got.Error.Type == "invalid_request_error" || tt.name == "the other API",
				run.ProviderGoogle:    got.Error.Status == "FAILED_PRECONDITION" && got.Error.Code == 400.0,
			}[tt.provider]
			if resp.status != http.StatusBadRequest || !form || !strings.Contains(got.Error.Message, tt.says) {
				t.Errorf("%d %s", resp.status, resp.body)
			}
			if len(u.requests()) != 0 {
				t.Error("it reached the upstream")
			}
			r := tr.report(t)
			if len(r.Refused) != 1 || r.Refused[0].Reason != got.Error.Message ||
				r.Refused[0].Budget != strings.Contains(tt.says, "budget") || len(r.Models) != 0 {
				t.Errorf("report %+v", r)
			}
		})
	}
}

// Attack G3: of the headers that an agent makes up, and of its token, nothing
// reaches the upstream, and of the key nothing reaches the agent.
func TestG3HeadersOfTheAgentStayBehind(t *testing.T) {
	t.Parallel()
	const mark = "made-up-by-the-agent"
	for _, p := range []run.Provider{run.ProviderAnthropic, run.ProviderOpenAI, run.ProviderGoogle} {
		u := &upstream{answer: func(w http.ResponseWriter, r *http.Request) {
			// What a provider would never say: the test is about what passes.
			w.Header().Set("Set-Cookie", r.Header.Get("Authorization")+r.Header.Get("X-Api-Key")+r.Header.Get("X-Goog-Api-Key"))
		}}
		tr := try(t, u, p, 0, nil)
		path := map[run.Provider]string{
			run.ProviderAnthropic: "/v1/messages", run.ProviderOpenAI: "/v1/responses",
			run.ProviderGoogle: "/v1beta/models/gemini-2.5-pro:generateContent",
		}[p]
		body := map[run.Provider]string{
			run.ProviderAnthropic: small, run.ProviderOpenAI: `{"model":"gpt-5"}`, run.ProviderGoogle: `{}`,
		}[p]
		req := request(t, http.MethodPost, tr.url+path+"?mark="+mark, strings.NewReader(body), "X-Api-Key", runToken,
			"Authorization", "Bearer "+runToken, "X-Goog-Api-Key", runToken)
		for _, name := range []string{
			"Host", "Cookie", "X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Via", "X-Real-Ip", "Proxy-Authorization",
			"Anthropic-Organization",
			"Openai-Organization", "Openai-Project", "X-Goog-User-Project", "X-Http-Method-Override", "X-Original-Url",
			"X-Amz-Security-Token", "Traceparent",
		} {
			req.Header.Set(name, mark)
		}
		resp := do(t, req)
		got := u.requests()[0]
		var sent bytes.Buffer
		if err := got.Header.Write(&sent); err != nil {
			t.Fatal(err)
		}
		text := got.Host + got.URL.String() + sent.String()
		if strings.Contains(text, mark) || strings.Contains(text, runToken) || strings.Contains(text, "r1-1") ||
			!strings.Contains(text, realKey) {
			t.Errorf("%s: the upstream sees\n%s", p, text)
		}
		if answer := fmt.Sprint(resp.header) + resp.body; strings.Contains(answer, realKey) {
			t.Errorf("%s: the agent sees %s", p, answer)
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

// Compressed requests would pass unseen.
func TestG3CompressedRequest(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	tr := try(t, u, run.ProviderOpenAI, 0, nil)
	resp := do(t, request(t, http.MethodPost, tr.url+"/v1/responses", strings.NewReader("x"), "Authorization", "Bearer "+
		runToken, "Content-Encoding", "zstd"))
	if resp.status != http.StatusBadRequest || !strings.Contains(resp.body, "compressed") || len(u.requests()) != 0 {
		t.Errorf("%d %s", resp.status, resp.body)
	}
}

// Under a budget a request without a limit gets one, and a chat tells its use.
func TestRequestsAreMadeCountable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		provider         run.Provider
		path, body, want string
	}{
		{
			run.ProviderOpenAI, "/v1/responses", `{"model":"gpt-5","input":"é\n"}`,
			`{"store":false,"model":"gpt-5","input":"é\n"}`,
		},
		{
			run.ProviderOpenAI, "/v1/chat/completions",
			`{"model":"gpt-5","stream":true,"stream_options":{"include_usage":true,"include_obfuscation":true},"max_tokens":null}`,
			`{"model":"gpt-5","stream":true,"stream_options":{"include_usage":true,"include_obfuscation":true},"max_tokens":null}`,
		},
		{
			run.ProviderOpenAI, "/v1/chat/completions", `{"max_tokens":7,"model":"gpt-5","stream":true}`,
			`{"stream_options":{"include_usage":true},"max_tokens":7,"model":"gpt-5","stream":true}`,
		},
		{
			run.ProviderAnthropic, "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":null}`,
			`{"model":"claude-sonnet-4-5","max_tokens":null}`,
		},
		{
			run.ProviderOpenAI, "/v1/responses", ` {"model":"gpt-5","max_output_tokens":5,"store":false}`,
			` {"model":"gpt-5","max_output_tokens":5,"store":false}`,
		},
		{
			run.ProviderGoogle, "/v1beta/models/gemini-2.5-pro:generateContent", `{}`, `{}`,
		},
		{
			run.ProviderGoogle, "/v1beta/models/gemini-2.5-pro:generateContent", `{"generation_config":{"temperature":1}}`,
			`{"generation_config":{"temperature":1}}`,
		},
		{
			run.ProviderGoogle, "/v1beta/models/gemini-2.5-pro:generateContent",
			`{"tools":[{"functionDeclarations":[{"name":"a"}]}],"generationConfig":{"maxOutputTokens":5}}`,
			`{"tools":[{"functionDeclarations":[{"name":"a"}]}],"generationConfig":{"maxOutputTokens":5}}`,
		},
		// What looks like a link and is none.
		{
			run.ProviderAnthropic, "/v1/messages",
			`{"max_tokens":7,"messages":[{"content":"{\"type\":\"url\"} \u0041"},{"content":[{"type":"tool_use","input":{"source":{"type":"url","url":"x"}}}]}],"model":"claude-sonnet-4-5"}`,
			`{"max_tokens":7,"messages":[{"content":"{\"type\":\"url\"} \u0041"},{"content":[{"type":"tool_use","input":{"source":{"type":"url","url":"x"}}}]}],"model":"claude-sonnet-4-5"}`,
		},
		{
			run.ProviderOpenAI, "/v1/chat/completions",
			`{"max_tokens":7,"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AA"}}]}],"model":"gpt-5"}`,
			`{"max_tokens":7,"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AA"}}]}],"model":"gpt-5"}`,
		},
		{
			run.ProviderAnthropic, "/v1/messages",
			`{"model":"claude-sonnet-4-5","max_tokens":7,"tools":[{"name":"a","input_schema":{}},{"type":"bash_20250124","name":"bash"}]}`,
			`{"model":"claude-sonnet-4-5","max_tokens":7,"tools":[{"name":"a","input_schema":{}},{"type":"bash_20250124","name":"bash"}]}`,
		},
	}
	for _, tt := range tests {
		u := &upstream{}
		tr := try(t, u, tt.provider, 5, nil)
		if resp := do(t, request(t, http.MethodPost, tr.url+tt.path, strings.NewReader(tt.body), "Authorization", "Bearer "+
			runToken)); resp.status != http.StatusOK {
			t.Fatalf("%d %s", resp.status, resp.body)
		}
		if u.bodies[0] != tt.want {
			t.Errorf("%s became\n%s, want\n%s", tt.body, u.bodies[0], tt.want)
		}
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
		if m := tr.settled(t); m.Cost != 0 || m.Tokens != (spend.Tokens{}) || len(tr.report(t).Refused) != 0 {
			t.Errorf("%d: %+v", status, tr.report(t))
		}
	}
}

// Attack: a name that is more than the name of a model to whoever stands behind the
// endpoint, or fills the books.
func TestNamesOfModelsAreNamesOfModels(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"gpt-5-pro,x/gpt-5":                     "does not look like", // LiteLLM asks both
		"gpt-5\u202e":                           "does not look like",
		"gpt-5 ":                                "does not look like",
		"gpt-5\\u0000":                          "does not look like",
		"../files/gpt-5":                        "does not look like",
		"a/../../gpt-5":                         "does not look like",
		"gpt-5?key=x":                           "does not look like",
		"x#/gpt-5":                              "does not look like",
		"x%2f/gpt-5":                            "does not look like",
		"x;/gpt-5":                              "does not look like",
		"https://evil.example?/gpt-5":           "does not look like",
		strings.Repeat("m", 100_000) + "/gpt-5": "does not look like",
		"openai/gpt-5:online":                   "is not allowed here",
		"openai/gpt-5":                          "",
		"org/gpt-5":                             "",
		"@cf/gpt-5":                             "does not look like",
	} {
		for _, budget := range []float64{0, 5} {
			u := &upstream{}
			tr := try(t, u, run.ProviderOpenAI, budget, nil)
			resp := post(t, tr, chatPath, `{"model":"`+name+`","max_completion_tokens":1}`)
			if (resp.status == http.StatusOK) != (says == "") || !strings.Contains(resp.body, says) || len(resp.body) > 1000 ||
				(len(u.requests()) > 0) != (says == "") {
				t.Errorf("%.40q: %d %.400s, sent %q", name, resp.status, resp.body, u.bodies)
			}
		}
	}
}

// Attack: the body is checked as JSON, and sent as something else.
func TestWhatIsSentIsJSON(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		messagesPath: small, countPath: `{"model":"claude-sonnet-4-5"}`, responsesPath: `{"model":"gpt-5"}`,
		chatPath: `{"model":"gpt-5"}`, generatePath: `{}`, countGemini: `{}`,
	} {
		u := &upstream{}
		tr := try(t, u, providerOf(path), 5, nil)
		resp := do(t, request(t, http.MethodPost, tr.url+path, strings.NewReader(body), "Authorization", "Bearer "+runToken,
			"Content-Type", "application/json; charset=utf-16", "Content-Type", "application/x-www-form-urlencoded"))
		if resp.status != http.StatusOK || len(u.requests()) != 1 {
			t.Fatalf("%s: %d %s", path, resp.status, resp.body)
		}
		if got := u.requests()[0].Header.Values("Content-Type"); !slices.Equal(got, []string{"application/json"}) {
			t.Errorf("%s was sent as %q", path, got)
		}
	}
}

// Attack: a limit of nothing, which some endpoints take for no limit, and an answer that is
// cut off.
func TestNoOutputIsNoLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, body string
		want       int64
	}{
		{messagesPath, `{"model":"claude-sonnet-4-5","max_tokens":0}`, defaultOutput},
		{messagesPath, `{"model":"claude-sonnet-4-5","max_tokens":-0.0}`, defaultOutput},
		{responsesPath, `{"max_output_tokens":0e5,"store":false,"model":"gpt-5"}`, defaultOutput},
		{chatPath, `{"model":"gpt-5","max_tokens":0}`, defaultOutput},
		{chatPath, `{"model":"gpt-5","max_tokens":7,"max_completion_tokens":0}`, 7},
		{generatePath, `{"generationConfig":{"max_output_tokens":0}}`, defaultOutput},
	} {
		u := &upstream{answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}
		tr := try(t, u, providerOf(tt.path), 5, nil)
		post(t, tr, tt.path, tt.body)
		if got := tr.settled(t); got.Tokens.Output != tt.want {
			t.Errorf("%s was charged %+v", tt.body, got.Tokens)
		}
	}
}

// Names of fields are those that protocol buffers have, in either form: what is half
// of both is unknown to the provider.
func TestHalfOfTwoNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"max_outputTokens", "maxOutput_tokens", "MAX_OUTPUT_TOKENS"} {
		u := &upstream{}
		tr := try(t, u, run.ProviderGoogle, 5, nil)
		if resp := post(t, tr, generatePath, `{"generationConfig":{"`+name+`":1}}`); resp.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s, sent %q", name, resp.status, resp.body, u.bodies)
		}
	}
}
