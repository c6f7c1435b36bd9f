package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gateway/spend/spendtest"
	"github.com/org/ralph-action/internal/run"
)

const realKey = "sk-ant-real-key"

// runToken is that of the start every test's meter knows.
var runToken = Token([]byte("key"), "r1-1")

// small is a request that the gateway lets through.
const small = `{"max_tokens":100,"model":"claude-sonnet-4-5"}`

// upstream is a model endpoint that remembers what it saw.
type upstream struct {
	mu     sync.Mutex
	seen   []*http.Request
	bodies []string
	answer http.HandlerFunc
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	u.mu.Lock()
	u.seen = append(u.seen, r)
	u.bodies = append(u.bodies, string(body))
	u.mu.Unlock()
	if err != nil {
		return // the gateway gave up on the request
	}
	if u.answer != nil {
		u.answer(w, r)
	}
}

func (u *upstream) requests() []*http.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen
}

// trial is a gateway between a client and an upstream.
type trial struct {
	url   string
	meter *spend.Meter
	// dir is where the ledger is.
	dir string
}

func (tr trial) report(t *testing.T) spend.Report {
	t.Helper()
	r, err := tr.meter.Report(t.Context(), "r1-1")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// try puts a gateway in front of u, for a run with that budget in dollars, if
// any.
func try(t testing.TB, u http.Handler, p run.Provider, budget float64, change func(*Config)) trial {
	t.Helper()
	back := httptest.NewServer(u)
	t.Cleanup(back.Close)
	target, err := url.Parse(back.URL)
	if err != nil {
		t.Fatal(err)
	}
	tr := trial{dir: t.TempDir()}
	tr.meter = spend.NewMeter(spendtest.Open(t, tr.dir), run.ListPrices())
	if err := tr.meter.Begin(t.Context(), spend.Start{
		Name: "r1-1", Scopes: []spend.Scope{spend.RunScope("r1", spend.Dollars(budget))},
	}); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Upstreams: []Upstream{{Provider: p, BaseURL: target, APIKey: realKey}}, Key: []byte("key"), Meter: tr.meter,
	}
	if change != nil {
		change(&cfg)
	}
	h, err := NewHandler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(h)
	t.Cleanup(front.Close)
	tr.url = front.URL
	return tr
}

// start is try for the Messages API without a budget.
func start(t *testing.T, u *upstream, change func(*Config)) string {
	t.Helper()
	return try(t, u, run.ProviderAnthropic, 0, change).url
}

// request makes one; headers come in pairs.
func request(t *testing.T, method, target string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(header, 2) {
		req.Header.Add(pair[0], pair[1])
	}
	return req
}

// answer is a response that was read and closed.
type answer struct {
	status int
	header http.Header
	body   string
}

func do(t *testing.T, req *http.Request) answer {
	t.Helper()
	return doBy(t, http.DefaultClient, req)
}

func doBy(t *testing.T, c *http.Client, req *http.Request) answer {
	t.Helper()
	resp, err := c.Do(req)
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

func TestRequestIsPassedOnWithTheRealKey(t *testing.T) {
	t.Parallel()
	u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Request-Id", "req_1")
		w.Header().Set("Set-Cookie", "session=upstream")
		w.Header().Set("Anthropic-Ratelimit-Requests-Remaining", "7")
		_, _ = io.WriteString(w, `{"type":"message"}`)
	}}
	addr := start(t, u, func(c *Config) { c.Upstreams[0].BaseURL.Path = "/base" })
	resp := do(t, request(t, http.MethodPost, addr+"/v1/messages?beta=true",
		strings.NewReader(` {"model": "claude-sonnet-4-5","max_tokens":100}`),
		"X-Api-Key", runToken, "Authorization", "Bearer "+runToken, "Cookie", "a=b",
		"Anthropic-Version", "2023-06-01", "Anthropic-Beta", "b1,b2", "Content-Type", "application/json; charset=utf-16",
		"User-Agent", "claude-cli/2.1.197", "X-App", "cli", "X-Stainless-Lang", "js", "Accept", "application/json",
		"Accept-Encoding", "gzip, br", "X-Forwarded-For", "1.2.3.4", "Forwarded", "for=1.2.3.4", "Host", "evil.example",
		"Proxy-Authorization", "Basic x", "Connection", "X-Hop, Upgrade", "Upgrade", "websocket", "X-Hop", "1",
		"X-Organization-Uuid", "other", "Te", "trailers",
	))
	if resp.status != http.StatusOK || resp.body != `{"type":"message"}` {
		t.Errorf("answer %d %q", resp.status, resp.body)
	}
	if resp.header.Get("Request-Id") != "req_1" || resp.header.Get("Anthropic-Ratelimit-Requests-Remaining") != "7" ||
		resp.header.Get("Set-Cookie") != "" {
		t.Errorf("headers of the answer: %v", resp.header)
	}
	if len(u.requests()) != 1 {
		t.Fatalf("%d requests at the upstream", len(u.requests()))
	}
	got := u.requests()[0]
	if got.Method != http.MethodPost || got.URL.Path != "/base/v1/messages" || got.URL.RawQuery != "beta=true" ||
		u.bodies[0] != ` {"model": "claude-sonnet-4-5","max_tokens":100}` {
		t.Errorf("%s %s with body %q", got.Method, got.URL, u.bodies[0])
	}
	if !strings.HasPrefix(got.Host, "127.0.0.1:") {
		t.Errorf("host %q", got.Host)
	}
	want := http.Header{
		"X-Api-Key": {realKey}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"b1,b2"},
		"Content-Type": {"application/json"}, "Content-Length": {"48"}, "User-Agent": {"claude-cli/2.1.197"},
		"X-App": {"cli"}, "X-Stainless-Lang": {"js"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"},
	}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Errorf("headers at the upstream (-want +got):\n%s", diff)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	const oauth = "oauth-2025-04-20"
	for _, tt := range []struct {
		u        Upstream
		in, want http.Header
	}{
		{Upstream{Provider: run.ProviderAnthropic, APIKey: "k"}, nil, http.Header{"X-Api-Key": {"k"}}},
		{
			Upstream{Provider: run.ProviderAnthropic, APIKey: "k", AuthToken: "t"}, http.Header{"Anthropic-Beta": {"b1"}},
			http.Header{"X-Api-Key": {"k"}, "Anthropic-Beta": {"b1"}},
		},
		{
			Upstream{Provider: run.ProviderAnthropic, AuthToken: "t"}, http.Header{"Anthropic-Beta": {"b1"}},
			http.Header{"Authorization": {"Bearer t"}, "Anthropic-Beta": {"b1," + oauth}},
		},
		{
			Upstream{Provider: run.ProviderAnthropic, AuthToken: "t"}, http.Header{"Anthropic-Beta": {oauth + ",b1"}},
			http.Header{"Authorization": {"Bearer t"}, "Anthropic-Beta": {oauth + ",b1"}},
		},
		{Upstream{Provider: run.ProviderOpenAI, APIKey: "k"}, nil, http.Header{"Authorization": {"Bearer k"}}},
		{ // a ChatGPT login is sent with its account
			Upstream{Provider: run.ProviderOpenAI, AuthToken: "t", Account: "a"}, http.Header{"Chatgpt-Account-Id": {"of the agent"}},
			http.Header{"Authorization": {"Bearer t"}, "Chatgpt-Account-Id": {"a"}},
		},
		{
			Upstream{Provider: run.ProviderGoogle, APIKey: "k"}, http.Header{"X-Goog-Api-Key": {"of the agent"}, "X-Goog-User-Project": {"p"}},
			http.Header{"X-Goog-Api-Key": {"k"}},
		},
		// An endpoint that is not the provider's wants a header of its own.
		{Upstream{Provider: run.ProviderAnthropic, APIKey: "k", AuthHeader: "Api-Key"}, nil, http.Header{"Api-Key": {"k"}}},
		{Upstream{Provider: run.ProviderOpenAI, AuthToken: "t", AuthHeader: "Authorization"}, nil, http.Header{"Authorization": {"t"}}},
	} {
		in := http.Header{}
		// Neither another account, nor another host, nor another reading of the body.
		for _, name := range []string{
			"Host", "Cookie", "X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Via", "X-Real-Ip", "Proxy-Authorization", "Authorization",
			"X-Api-Key", "Anthropic-Organization", "Openai-Organization", "Openai-Project", "X-Goog-User-Project", "X-Http-Method-Override",
			"X-Original-Url", "X-Amz-Security-Token", "Traceparent", "Content-Encoding",
		} {
			in.Set(name, "of the agent")
		}
		maps.Copy(in, tt.in)
		tt.want["Accept-Encoding"], tt.want["User-Agent"] = []string{"identity"}, []string{""}
		if diff := cmp.Diff(tt.want, tt.u.header(in)); diff != "" {
			t.Errorf("%+v: %s", tt.u, diff)
		}
	}
}

// Where the parts of a request go, by its path and query.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]call{
		"/v1/messages?beta=true&x=1":     {provider: run.ProviderAnthropic, form: formMessages, path: "/v1/messages", query: "beta=true"},
		countPath:                        {provider: run.ProviderAnthropic, form: formMessages, path: countPath, free: true},
		"/v1/chat/completions?x=1":       {provider: run.ProviderOpenAI, form: formChat, path: "/chat/completions"},
		responsesPath:                    {provider: run.ProviderOpenAI, form: formResponses, path: "/responses"},
		generatePath + "?key=" + realKey: {provider: run.ProviderGoogle, form: formGenerate, path: generatePath, model: "gemini-2.5-pro"},
		"/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse&prettyPrint=1": {
			provider: run.ProviderGoogle, form: formGenerate, path: "/v1beta/models/gemini-2.5-pro:streamGenerateContent", query: "alt=sse",
			model: "gemini-2.5-pro",
		},
		countGemini: {provider: run.ProviderGoogle, form: formGenerate, path: countGemini, model: "gemini-2.5-pro", free: true},
	} {
		if got, ok := route(request(t, http.MethodPost, in, nil)); !ok || got != want {
			t.Errorf("%s: %+v", in, got)
		}
	}
}

func TestProbeIsAnsweredHere(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	addr := start(t, u, nil)
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		if resp := do(t, request(t, method, addr+"/", nil)); resp.status != http.StatusOK {
			t.Errorf("%s /: %d", method, resp.status)
		}
	}
	if n := len(u.requests()); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

// Attack: what an endpoint answers would send the agent elsewhere, with its prompt.
func TestRedirectsEndHere(t *testing.T) {
	t.Parallel()
	other := &upstream{}
	elsewhere := httptest.NewServer(other)
	t.Cleanup(elsewhere.Close)
	away := elsewhere.URL + "/?key=" + realKey
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308, 399, 200, 201, 401, 503} {
		u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"Location", "Content-Location", "Refresh", "Link", "Alt-Svc"} {
				w.Header().Set(name, away)
			}
			w.WriteHeader(status)
		}}
		resp := do(t, request(t, http.MethodPost, start(t, u, nil)+"/v1/messages", strings.NewReader(small), "X-Api-Key",
			runToken))
		want := status
		if status/100 == 3 {
			want = http.StatusBadGateway
		}
		if told := strings.Contains(resp.body, "redirect"); resp.status != want || told != (want != status) {
			t.Errorf("%d became %d %s", status, resp.status, resp.body)
		}
		if text := fmt.Sprint(resp.header) + resp.body; strings.Contains(text, elsewhere.URL) ||
			strings.Contains(text, realKey) || len(other.requests()) != 0 {
			t.Errorf("%d: the agent sees %s", status, text)
		}
	}
}

// Each event arrives before the upstream sends the next one: it waits for the
// client to have read it.
func TestAnswerStreams(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	u := &upstream{answer: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			if rc.Flush() != nil {
				return
			}
			select {
			case <-read:
			case <-r.Context().Done():
				return
			}
		}
	}}
	resp, err := http.DefaultClient.Do(request(t, http.MethodPost, start(t, u, nil)+"/v1/messages", strings.NewReader(small), "X-Api-Key", runToken))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewReader(resp.Body)
	for i := range 3 {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		read <- struct{}{}
	}
	if rest, err := io.ReadAll(lines); len(rest) != 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := func() Config {
		return Config{
			Upstreams: []Upstream{
				{Provider: run.ProviderAnthropic, BaseURL: &url.URL{Scheme: "https", Host: "api.example"}, APIKey: "k"},
			},
			Key: []byte("t"), Meter: spend.NewMeter(nil, nil),
		}
	}
	proxy := Config{Egress: egress.List{"preset:go"}, Key: []byte("t"), Meter: spend.NewMeter(nil, nil)}
	for _, cfg := range []Config{good(), proxy} {
		if _, err := NewHandler(cfg); err != nil {
			t.Error(err)
		}
	}
	tests := map[string]struct {
		change func(*Config, *Upstream)
		user   bool
	}{
		"no upstream":        {func(c *Config, _ *Upstream) { c.Upstreams = nil }, true},
		"no address":         {func(_ *Config, u *Upstream) { u.BaseURL = nil }, true},
		"no host":            {func(_ *Config, u *Upstream) { u.BaseURL = &url.URL{Scheme: "https"} }, true},
		"other scheme":       {func(_ *Config, u *Upstream) { u.BaseURL.Scheme = "file" }, true},
		"password in it":     {func(_ *Config, u *Upstream) { u.BaseURL.User = url.UserPassword("a", "b") }, true},
		"query in it":        {func(_ *Config, u *Upstream) { u.BaseURL.RawQuery = "a=b" }, true},
		"fragment of a page": {func(_ *Config, u *Upstream) { u.BaseURL.Fragment = "x" }, true},
		"no key":             {func(_ *Config, u *Upstream) { u.APIKey = "" }, true},
		"no key for OpenAI":  {func(_ *Config, u *Upstream) { u.Provider, u.APIKey = run.ProviderOpenAI, "" }, true},
		"unknown API":        {func(_ *Config, u *Upstream) { u.Provider = "amp" }, false},
		"no key for tokens":  {func(c *Config, _ *Upstream) { c.Key = nil }, false},
		"no meter":           {func(c *Config, _ *Upstream) { c.Meter = nil }, false},
		"hosts of everybody": {func(c *Config, _ *Upstream) { c.Egress = egress.List{"*.com"} }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := good()
			tt.change(&cfg, &cfg.Upstreams[0])
			_, err := NewHandler(cfg)
			if _, user := errors.AsType[*run.UserError](err); err == nil || user != tt.user {
				t.Errorf("error %v, user error %t", err, user)
			}
		})
	}
}
