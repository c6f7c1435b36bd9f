package gateway

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gateway/spend/spendtest"
	"github.com/org/ralph-action/internal/run"
)

// answers are whole and streamed answers of each API, with what they used.
var answers = []struct {
	name     string
	provider run.Provider
	path     string
	body     string
	kind     string
	answer   string
	want     spend.Tokens
}{
	{
		"messages", run.ProviderAnthropic, "/v1/messages", small, "application/json",
		`{"type":"message","usage":{"input_tokens":10,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,` +
			`"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":50}}`,
		spend.Tokens{Input: 10, Output: 50, CacheRead: 4000, CacheWrite: 100, CacheWriteLong: 200},
	},
	{
		"messages, streamed", run.ProviderAnthropic, "/v1/messages",
		`{"max_tokens":100,"model":"claude-sonnet-4-5","stream":true}`, "text/event-stream; charset=utf-8",
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":4000,\"output_tokens\":1}}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"the word usage\"}}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":50}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		spend.Tokens{Input: 10, Output: 50, CacheRead: 4000},
	},
	{
		"responses", run.ProviderOpenAI, "/v1/responses", `{"model":"gpt-5","max_output_tokens":100}`, "application/json",
		`{"object":"response","usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":900},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":20}}}`,
		spend.Tokens{Input: 100, Output: 50, CacheRead: 900},
	},
	{
		"responses, streamed", run.ProviderOpenAI, "/v1/responses", `{"model":"gpt-5","max_output_tokens":100,"stream":true}`,
		"text/event-stream",
		"event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\r\n\r\n" +
			"event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":1000,\"input_tokens_details\":{\"cached_tokens\":900},\"output_tokens\":50}}}\r\n\r\n",
		spend.Tokens{Input: 100, Output: 50, CacheRead: 900},
	},
	{
		"responses, streamed with counts from the beginning", run.ProviderOpenAI, "/v1/responses",
		`{"model":"gpt-5","max_output_tokens":100,"stream":true}`, "text/event-stream",
		"data: {\"type\":\"response.created\",\"response\":{\"usage\":{\"input_tokens\":0,\"output_tokens\":0}}}\n\n" +
			"data: {\"type\":\"response.incomplete\",\"response\":{\"usage\":{\"input_tokens\":1000,\"output_tokens\":50}}}\n\n",
		spend.Tokens{Input: 1000, Output: 50},
	},
	{
		"chat", run.ProviderOpenAI, "/v1/chat/completions", `{"model":"gpt-5","max_completion_tokens":100}`,
		"application/json",
		`{"choices":[],"usage":{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":900},"completion_tokens":50}}`,
		spend.Tokens{Input: 100, Output: 50, CacheRead: 900},
	},
	{
		"chat, streamed", run.ProviderOpenAI, "/v1/chat/completions", `{"model":"gpt-5","max_tokens":100,"stream":true}`,
		"text/event-stream",
		"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\n" +
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"prompt_tokens_details\":{\"cached_tokens\":900},\"completion_tokens\":50}}\n\ndata: [DONE]\n\n",
		spend.Tokens{Input: 100, Output: 50, CacheRead: 900},
	},
	{
		"generate", run.ProviderGoogle, "/v1beta/models/gemini-2.5-pro:generateContent", `{"contents":[]}`,
		"application/json",
		`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1000,"cachedContentTokenCount":900,"candidatesTokenCount":20,"thoughtsTokenCount":30}}`,
		spend.Tokens{Input: 100, Output: 50, CacheRead: 900},
	},
	{
		"generate, streamed", run.ProviderGoogle, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
		`{"contents":[]}`, "text/event-stream",
		"data: {\"candidates\":[{}],\"usageMetadata\":{\"promptTokenCount\":1000,\"candidatesTokenCount\":1}}\n\n" +
			"data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":1000,\"cachedContentTokenCount\":900,\"candidatesTokenCount\":20,\"thoughtsTokenCount\":30}}\n\n",
		spend.Tokens{Input: 100, Output: 50, CacheRead: 900},
	},
	{
		"generate, streamed with an early end", run.ProviderGoogle,
		"/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", `{"contents":[]}`, "text/event-stream",
		"data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":1000}}\n\n" +
			"data: {\"usageMetadata\":{\"promptTokenCount\":1000,\"candidatesTokenCount\":50}}\n\n",
		spend.Tokens{Input: 1000, Output: 50},
	},
	{
		"generate, streamed as a list", run.ProviderGoogle, "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
		`{"contents":[]}`, "application/json",
		"[{\"usageMetadata\":{\"promptTokenCount\":1000}}\n,\n{\"usageMetadata\":{\"promptTokenCount\":1000,\"cachedContentTokenCount\":900,\"candidatesTokenCount\":50}}]",
		spend.Tokens{Input: 100, Output: 50, CacheRead: 900},
	},
	{
		"a prompt that is blocked", run.ProviderGoogle, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
		`{"contents":[]}`, "text/event-stream",
		"data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"},\"usageMetadata\":{\"promptTokenCount\":1000}}\n\n",
		spend.Tokens{Input: 1000},
	},
}

// readUse reads an answer in pieces.
func readUse(f form, events bool, answer []byte, size int) usage {
	u := usage{form: f, events: events}
	for chunk := range chunks(answer, size) {
		_, _ = u.Write(chunk) // it never fails
	}
	u.end()
	return u
}

// formOf is how the answers of a path are laid out.
func formOf(t *testing.T, path string) form {
	t.Helper()
	c, ok := route(request(t, http.MethodPost, path, nil))
	if !ok {
		t.Fatal(path)
	}
	return c.form
}

// What an answer used is read wherever its pieces end. Of a stream that lacks its last
// event it is not taken for all.
func TestUseIsReadFromTheWire(t *testing.T) {
	t.Parallel()
	for _, a := range answers {
		f, events := formOf(t, a.path), isEvents(a.kind)
		for _, size := range []int{1, 7, len(a.answer)} {
			if u := readUse(f, events, []byte(a.answer), size); u.use != a.want || !u.final {
				t.Errorf("%s in pieces of %d: %+v, final %t", a.name, size, u.use, u.final)
			}
		}
		var told usage
		tap := &tapped{
			body: io.NopCloser(iotest.OneByteReader(strings.NewReader(a.answer))), left: -1,
			usage: usage{form: f, events: events}, settle: func(u *usage) { told = *u },
		}
		if _, err := io.Copy(io.Discard, tap); err != nil || told.use != a.want || !told.final {
			t.Errorf("%s settles for %+v, %v", a.name, told.use, err)
		}
		if !events || strings.Contains(a.name, "blocked") || strings.Contains(a.name, "early") {
			continue
		}
		// Everything but the last event that has anything to say.
		cut := strings.LastIndex(strings.TrimSuffix(strings.TrimRight(a.answer, "\r\n"), "data: [DONE]"), "data: {")
		if a.provider == run.ProviderAnthropic {
			cut = strings.Index(a.answer, "event: message_delta")
		}
		for _, more := range []string{"", "data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n"} {
			if u := readUse(f, events, []byte(a.answer[:cut]+more), 9); u.final {
				t.Errorf("%s is taken for whole without its end: %q", a.name, a.answer[:cut]+more)
			}
		}
	}
}

// Of an answer that is cut off after its end was told, the output is known where it was counted.
func TestGeminiIsCutBeforeItsCount(t *testing.T) {
	t.Parallel()
	for counts, final := range map[string]bool{"": false, `,"candidatesTokenCount":50`: true} {
		var told usage
		tap := &tapped{
			body: io.NopCloser(strings.NewReader(`data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1000` +
				counts + "}}\n\n")),
			left: -1, usage: usage{form: formGenerate, events: true}, settle: func(u *usage) { told = *u },
		}
		if _, err := tap.Read(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		if err := tap.Close(); err != nil || told.use.Input != 1000 || told.final != final {
			t.Errorf("%q settles for %+v, final %t, %v", counts, told.use, told.final, err)
		}
	}
}

// An answer passes as it comes, and what it used is in the report by its end.
func TestAnswersAreCharged(t *testing.T) {
	t.Parallel()
	for _, tt := range answers {
		u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tt.kind)
			_, _ = io.WriteString(w, tt.answer)
		}}
		tr := try(t, u, tt.provider, 5, nil)
		if resp := post(t, tr, tt.path, tt.body); resp.status != http.StatusOK || resp.body != tt.answer {
			t.Fatalf("%d %s", resp.status, resp.body)
		}
		if got := tr.report(t); len(got.Models) != 1 || got.Models[0].Cost <= 0 || got.Models[0].Tokens != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// What breaks off, and what fails, is charged by the rule that the package's
// comment states.
func TestBrokenAnswersAreChargedInFull(t *testing.T) {
	t.Parallel()
	const start = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n"
	const delta = "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"hi\"}}\n\n"
	cut := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	whole := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	all := spend.Tokens{Input: int64(len(small)) / bytesPerToken, Output: 100}
	told := spend.Tokens{Input: 10, Output: 100}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   spend.Tokens
	}{
		{"nothing came", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, all},
		{"before its count", cut(delta), all},
		// What a model thinks is charged, and need not be sent: the few bytes say nothing.
		{"after the input's count, in hidden thinking", cut(start), told},
		{"an end that is none", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, start+delta)
		}, told},
		{"a count that is not the last", cut(start +
			"data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":2}}\n\n"), told},
		// What the model goes on to think is not seen.
		{"the client leaves", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, start)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, told},
		{"an answer without use", whole(`{}`), all},
		{"half of an answer", whole(`{"usage":{"input_tokens":10,"output_tokens":1}`), all},
		{"compressed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "x")
		}, all},
		{
			"more than was asked for",
			cut("data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":90000,\"output_tokens\":1000}}}\n\n"),
			spend.Tokens{Input: 90000, Output: 1000},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr := try(t, &upstream{answer: tt.answer}, run.ProviderAnthropic, 5, nil)
			resp, err := http.DefaultClient.Do(request(t, http.MethodPost, tr.url+"/v1/messages", strings.NewReader(small), "X-Api-Key", runToken))
			if err == nil {
				if tt.name == "the client leaves" {
					_, _ = resp.Body.Read(make([]byte, 1))
				} else {
					_, _ = io.Copy(io.Discard, resp.Body) // it may break off
				}
				_ = resp.Body.Close()
			}
			got := tr.settled(t)
			price, _ := run.ListPrices().Of("claude-sonnet-4-5")
			want := spend.Dollars((float64(tt.want.Input)*price.Input + float64(tt.want.Output)*price.Output) / 1e6)
			if got.Tokens != tt.want || got.Cost != want {
				t.Errorf("charged %+v, want %+v for %d", got, tt.want, want)
			}
		})
	}
}

// settled is the use of the one model once its one request is charged, which may
// be after the client has its answer.
func (tr trial) settled(t *testing.T) spend.ModelUse {
	t.Helper()
	if err := tr.meter.End(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	r := tr.report(t)
	if len(r.Models) != 1 {
		t.Fatalf("%+v", r)
	}
	return r.Models[0]
}

// The end of a start cuts off its requests, and they are in its report.
func TestEndChargesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	u := &upstream{answer: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}}
	tr := try(t, u, run.ProviderAnthropic, 5, nil)
	resp, err := http.DefaultClient.Do(request(t, http.MethodPost, tr.url+"/v1/messages", strings.NewReader(small), "X-Api-Key", runToken))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if got := tr.settled(t); got.Tokens.Output != 100 {
		t.Errorf("%+v", got)
	}
}

// What was never sent costs nothing, however often it is tried.
func TestNoConnectionCostsNothing(t *testing.T) {
	t.Parallel()
	tr := try(t, &upstream{}, run.ProviderAnthropic, 5, func(c *Config) { c.Upstreams[0].BaseURL.Host = "127.0.0.1:1" })
	if resp := post(t, tr, messagesPath, small); resp.status != http.StatusBadGateway ||
		!strings.Contains(resp.body, `"api_error"`) || !strings.Contains(resp.body, "cannot be reached") {
		t.Errorf("%d %s", resp.status, resp.body)
	}
	if r := tr.report(t); len(r.Models) != 0 {
		t.Errorf("charged %+v", r)
	}
}

// dying is a connection on which nothing can be written once it is dead.
type dying struct {
	net.Conn
	dead *atomic.Bool
}

func (d dying) Write(p []byte) (int, error) {
	if d.dead.Load() {
		return 0, syscall.EPIPE
	}
	return d.Conn.Write(p)
}

// Of a request on a connection that died while it was kept nothing is written: it is sent on
// another, whatever its size, and costs nothing where there is none.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	for _, large := range []int{0, 8 << 10, 1 << 20} {
		for _, another := range []bool{true, false} {
			var dials atomic.Int32
			var dead atomic.Bool
			transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				n := dials.Add(1)
				if n > 1 && !another {
					return nil, syscall.ECONNREFUSED
				}
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if n == 1 && err == nil {
					conn = dying{conn, &dead}
				}
				return conn, err
			}}
			t.Cleanup(transport.CloseIdleConnections)
			u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answers[0].answer) }}
			tr := try(t, u, run.ProviderAnthropic, 5, func(c *Config) { c.Transport = transport })
			if resp := post(t, tr, messagesPath, small); resp.status != http.StatusOK {
				t.Fatalf("%d %s", resp.status, resp.body)
			}
			dead.Store(true)
			body := `{"max_tokens":100,"model":"claude-sonnet-4-5","system":"` + strings.Repeat("x", large) + `"}`
			status, requests := http.StatusOK, 2
			if !another {
				status, requests = http.StatusBadGateway, 1
			}
			if resp := post(t, tr, messagesPath, body); resp.status != status || dials.Load() != 2 {
				t.Errorf("%d bytes, another %t: %d %s after %d dials", large, another, resp.status, resp.body, dials.Load())
			}
			if got := tr.report(t).Models; len(got) != 1 || got[0].Requests != requests ||
				got[0].Tokens.Output != int64(requests)*answers[0].want.Output {
				t.Errorf("%d bytes, another %t: charged %+v", large, another, got)
			}
			if last := u.bodies[len(u.bodies)-1]; another && last != body {
				t.Errorf("%d bytes became %d", len(body), len(last))
			}
		}
	}
}

// Requests pass until the budget is used up, and then none does.
func TestRequestsUseUpTheBudget(t *testing.T) {
	t.Parallel()
	u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"usage":{"input_tokens":1000,"output_tokens":100}}`)
	}}
	price, _ := run.ListPrices().Of("claude-sonnet-4-5")
	one := spend.Dollars((1000*price.Input + 100*price.Output) / 1e6)
	tr := try(t, u, run.ProviderAnthropic, (2*one + one/2).Dollars(), nil)
	for i, want := range []int{200, 200, 200, 400, 400} {
		resp := do(t, request(t, http.MethodPost, tr.url+"/v1/messages", strings.NewReader(small), "X-Api-Key", runToken))
		if resp.status != want {
			t.Errorf("request %d: %d %s", i, resp.status, resp.body)
		}
	}
	r := tr.report(t)
	if _, over := r.OverBudget(); r.Models[0].Cost != 3*one || !over || len(u.requests()) != 3 {
		t.Errorf("%d requests at the upstream, %+v", len(u.requests()), r)
	}
}

// transport answers as it does.
type transport func(r *http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Attack: an agent sends many requests and reads no answer to its end, so that none is
// charged. Under a budget only so many pass before it is known what they cost.
func TestRequestsUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	const more = 4
	for name, tt := range map[string]struct {
		budget float64
		want   map[int]int // how many requests end with which status
	}{
		"a budget":  {0.001, map[int]int{http.StatusOK: maxWaiting, http.StatusBadRequest: more}},
		"no budget": {0, map[int]int{http.StatusOK: maxWaiting + more}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				var passed atomic.Int32
				meter := spend.NewMeter(spendtest.Open(t, t.TempDir()), run.ListPrices())
				if err := meter.Begin(t.Context(), spend.Start{
					Name: "r1-1", Scopes: []spend.Scope{spend.RunScope("r1", spend.Dollars(tt.budget))},
				}); err != nil {
					t.Fatal(err)
				}
				h, err := NewHandler(Config{
					Key: []byte("key"), Meter: meter,
					Upstreams: []Upstream{{
						Provider: run.ProviderAnthropic, BaseURL: &url.URL{Scheme: "https", Host: "models.test"}, APIKey: realKey,
					}},
					Transport: transport(func(r *http.Request) (*http.Response, error) {
						_, _ = io.Copy(io.Discard, r.Body)
						passed.Add(1)
						body, answer := io.Pipe()
						go func() {
							<-end
							_, _ = io.WriteString(answer, `{"usage":{"input_tokens":1000,"output_tokens":100}}`)
							_ = answer.Close()
						}()
						return &http.Response{
							StatusCode: http.StatusOK, Header: http.Header{}, Body: body, ContentLength: -1, Request: r,
						}, r.Body.Close()
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				answers := make(chan int)
				for range maxWaiting + more {
					go func() {
						w := httptest.NewRecorder()
						h.ServeHTTP(w, request(t, http.MethodPost, messagesPath, strings.NewReader(small), "X-Api-Key", runToken))
						answers <- w.Code
					}()
				}
				synctest.Wait()
				if got, want := int(passed.Load()), tt.want[http.StatusOK]; got != want {
					t.Errorf("%d requests passed before one was charged, want %d", got, want)
				}
				close(end)
				got := map[int]int{}
				for range maxWaiting + more {
					got[<-answers]++
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// FuzzUsage: whatever comes in whatever pieces, what is counted is sane, memory
// is bounded, and the pieces make no difference.
func FuzzUsage(f *testing.F) {
	for _, a := range answers {
		f.Add([]byte(a.answer), strings.HasPrefix(a.kind, "text/event-stream"), uint8(formMessages), uint8(3))
		for _, form := range []form{formMessages, formResponses, formChat, formGenerate} {
			f.Add([]byte(a.answer), strings.HasPrefix(a.kind, "text/event-stream"), uint8(form), uint8(200))
		}
	}
	f.Add([]byte("data: {\"usage\":{\"output_tokens\":-1,\"input_tokens\":9223372036854775807}}\n"), true,
		uint8(formMessages), uint8(1))
	f.Fuzz(func(t *testing.T, answer []byte, events bool, kind, cut uint8) {
		whole, pieces := readUse(form(kind%4), events, answer, len(answer)), readUse(form(kind%4), events, answer, int(cut))
		if whole.use != pieces.use || whole.final != pieces.final || whole.input != pieces.input {
			t.Errorf("in one piece %+v, in pieces of %d %+v", whole, cut, pieces)
		}
		for _, n := range []int64{
			whole.use.Input, whole.use.Output, whole.use.CacheRead, whole.use.CacheWrite,
			whole.use.CacheWriteLong,
		} {
			if n < 0 || n > maxCount {
				t.Errorf("counted %+v", whole.use)
			}
		}
		if whole.final && !whole.input {
			t.Errorf("final without a count: %+v", whole)
		}
	})
}

func chunks(b []byte, size int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(max(size, 1), len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// A line without an end is not kept.
func TestUsageIsBounded(t *testing.T) {
	t.Parallel()
	for _, events := range []bool{true, false} {
		u := usage{form: formMessages, events: events}
		part := bytes.Repeat([]byte("x"), 1<<20)
		for range 64 {
			_, _ = u.Write(part)
		}
		if cap(u.line) > 2*maxEvent || !u.long {
			t.Errorf("events %t: %d bytes are kept", events, cap(u.line))
		}
		_, _ = u.Write([]byte("\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":5}}\n"))
		u.end()
		if u.final != events {
			t.Errorf("events %t: after a line that is too long: %+v", events, u.use)
		}
	}
}
