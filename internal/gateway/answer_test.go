package gateway

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/run"
)

// Attack: an endpoint that says the key, in an error, a header, a stream, or on the
// way to an answer. However it is cut, the agent does not see it.
func TestKeyIsMaskedInAnswers(t *testing.T) {
	t.Parallel()
	forms := []string{
		realKey, "Bearer " + realKey, strings.Repeat(realKey, 3),
		hex.EncodeToString([]byte(realKey)), base64.StdEncoding.EncodeToString([]byte("x:" + realKey)),
	}
	for _, form := range forms {
		for _, size := range []int{1, 2, 3, 5, 7, 16, 1 << 20} {
			for _, kind := range []string{"text/event-stream", "application/json"} {
				text := "data: {\"a\":\"" + form + "\"}\n\ndata: [DONE]\n\n"
				u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", kind)
					w.Header().Set("X-Echo", form)
					w.Header().Set("Trailer", "X-Late")
					w.Header().Set("Link", "</"+form+">")
					w.WriteHeader(http.StatusEarlyHints)
					w.WriteHeader(http.StatusOK)
					for part := range chunks([]byte(text), size) {
						_, _ = w.Write(part)
						_ = http.NewResponseController(w).Flush()
					}
					w.Header().Set("X-Late", form)
					w.Header().Set(http.TrailerPrefix+"X-Later", form)
				}}
				req := request(t, http.MethodPost, try(t, u, run.ProviderAnthropic, 0, nil).url+messagesPath, strings.NewReader(small),
					"X-Api-Key", runToken)
				early := ""
				req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
					Got1xxResponse: func(status int, h textproto.MIMEHeader) error { early += fmt.Sprint(status, h); return nil },
				}))
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || !strings.HasPrefix(string(body), "data: {\"a\":\"") || !strings.HasSuffix(string(body), "\"}\n\ndata: [DONE]\n\n") {
					t.Errorf("%q, %v", body, err)
				}
				seen := early + fmt.Sprint(resp.Header, resp.Trailer) + string(body)
				for _, secret := range []string{realKey, hex.EncodeToString([]byte(realKey))[8:], forms[4][4:20]} {
					if strings.Contains(seen, secret) {
						t.Fatalf("in pieces of %d the agent sees %s", size, seen)
					}
				}
			}
		}
	}
}

// What breaks off in the middle of the key shows none of it.
func TestKeyThatIsCutIsMasked(t *testing.T) {
	t.Parallel()
	cut := realKey[:len(realKey)-1]
	u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: x\ndata: "+cut)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}}
	resp, err := http.DefaultClient.Do(request(t, http.MethodPost, start(t, u, nil)+messagesPath, strings.NewReader(small),
		"X-Api-Key", runToken))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); strings.Contains(string(body), cut) || err == nil {
		t.Errorf("%q, %v", body, err)
	}
}

// Each thing that a provider documents as billed is counted where it shows up in
// an answer.
func TestEveryBilledDimensionIsCounted(t *testing.T) {
	t.Parallel()
	const opus, gpt, gemini = "claude-opus-4-5", "gpt-5", "gemini-2.5-pro"
	messages := func(usage string) string {
		return `{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":1000,"output_tokens":100` + usage + `}}`
	}
	tests := []struct {
		name, path, model, answer string
		want                      spend.Tokens
		times                     float64
		fees                      float64
	}{
		{"tokens", messagesPath, opus, messages(``), spend.Tokens{Input: 1000, Output: 100}, 1, 0},
		{
			"caches of Anthropic", messagesPath, opus, messages(`,"cache_creation_input_tokens":30,"cache_read_input_tokens":7,` +
				`"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20}`),
			spend.Tokens{Input: 1000, Output: 100, CacheRead: 7, CacheWrite: 10, CacheWriteLong: 20}, 1, 0,
		},
		{
			"iterations of a compaction", messagesPath, opus, messages(`,"iterations":[` +
				`{"type":"compaction","input_tokens":180000,"output_tokens":3500,"cache_read_input_tokens":5},` +
				`{"type":"message","input_tokens":1000,"output_tokens":100,"cache_creation_input_tokens":4}]`),
			spend.Tokens{Input: 181000, Output: 3600, CacheRead: 5, CacheWrite: 4}, 1, 0,
		},
		{"fast mode", messagesPath, opus, messages(`,"speed":"fast"`), spend.Tokens{Input: 1000, Output: 100}, fastTimes, 0},
		{
			"priority of Anthropic", messagesPath, opus, messages(`,"service_tier":"priority"`),
			spend.Tokens{Input: 1000, Output: 100}, priorityTimes, 0,
		},
		{"standard", messagesPath, opus, messages(`,"service_tier":"standard"`), spend.Tokens{Input: 1000, Output: 100}, 1, 0},
		{"place", messagesPath, opus, messages(`,"inference_geo":"us"`), spend.Tokens{Input: 1000, Output: 100}, placeTimes, 0},
		{
			"tools of Anthropic", messagesPath, opus, messages(`,"server_tool_use":{"web_search_requests":3,"web_fetch_requests":1}`),
			spend.Tokens{Input: 1000, Output: 100}, 1, 0.04,
		},
		{
			"reasoning and cache of OpenAI", responsesPath, gpt, `{"usage":{"input_tokens":1000,"output_tokens":100,` +
				`"input_tokens_details":{"cached_tokens":400},"output_tokens_details":{"reasoning_tokens":90}}}`,
			spend.Tokens{Input: 600, CacheRead: 400, Output: 100}, 1, 0,
		},
		{
			"priority of OpenAI", responsesPath, gpt, `{"service_tier":"priority","usage":{"input_tokens":1000,"output_tokens":100}}`,
			spend.Tokens{Input: 1000, Output: 100}, priorityTimes, 0,
		},
		{
			"flex of OpenAI", responsesPath, gpt, `{"service_tier":"flex","usage":{"input_tokens":1000,"output_tokens":100}}`,
			spend.Tokens{Input: 1000, Output: 100}, 1, 0,
		},
		{
			"priority of OpenAI's chat", chatPath, gpt,
			`{"choices":[{}],"service_tier":"priority","usage":{"prompt_tokens":1000,"completion_tokens":100}}`,
			spend.Tokens{Input: 1000, Output: 100}, priorityTimes, 0,
		},
		{
			"thoughts, cache and tools of Gemini", generatePath, gemini, `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{` +
				`"promptTokenCount":1000,"cachedContentTokenCount":300,"candidatesTokenCount":10,"thoughtsTokenCount":90,"toolUsePromptTokenCount":50}}`,
			spend.Tokens{Input: 750, CacheRead: 300, Output: 100}, 1, 0,
		},
		{
			"priority of Gemini", generatePath, gemini, `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{` +
				`"promptTokenCount":1000,"candidatesTokenCount":100,"serviceTier":"PRIORITY"}}`,
			spend.Tokens{Input: 1000, Output: 100}, priorityTimes, 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.answer) }}
			tr := try(t, u, providerOf(tt.path), 100, nil)
			body := `{"model":"` + tt.model + `"}`
			if tt.path == generatePath {
				body = `{}`
			}
			if resp := post(t, tr, tt.path, body); resp.status != http.StatusOK {
				t.Fatalf("%d %s", resp.status, resp.body)
			}
			p, _ := run.ListPrices().Of(tt.model)
			w := tt.want
			want := spend.Dollars(tt.fees + tt.times*(float64(w.Input)*p.Input+float64(w.Output)*p.Output+
				float64(w.CacheRead)*p.CacheRead+float64(w.CacheWrite)*p.CacheWrite+float64(w.CacheWriteLong)*2*p.Input)/1e6)
			got := tr.settled(t)
			if off := got.Cost - want; got.Tokens != tt.want || off < 0 || off > 10 {
				t.Errorf("%+v is charged with %d, want %+v with %d", got.Tokens, got.Cost, tt.want, want)
			}
		})
	}
}

// A stream that ends early may have cost what was reserved, in every API.
func TestStreamsThatEndEarlyAreChargedInFull(t *testing.T) {
	t.Parallel()
	for _, a := range answers {
		if a.kind == "application/json" || strings.Contains(a.name, "blocked") {
			continue
		}
		// Everything but the last event that has anything to say.
		cut := strings.LastIndex(strings.TrimSuffix(strings.TrimRight(a.answer, "\r\n"), "data: [DONE]"), "data: {")
		if a.provider == run.ProviderAnthropic {
			cut = strings.Index(a.answer, "event: message_delta")
		}
		for _, more := range []string{"", "data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n"} {
			u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", a.kind)
				_, _ = io.WriteString(w, a.answer[:cut]+more)
			}}
			tr := try(t, u, a.provider, 5, nil)
			if resp := post(t, tr, a.path, a.body); resp.status != http.StatusOK {
				t.Fatalf("%s: %d %s", a.name, resp.status, resp.body)
			}
			if got := tr.settled(t); got.Tokens.Input < 1 || got.Tokens.Output < 100 {
				t.Errorf("%s: charged %+v for %q", a.name, got.Tokens, a.answer[:cut]+more)
			}
		}
	}
}
