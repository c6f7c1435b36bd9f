package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// maxWaiting bounds the requests of a run whose answer has not begun, or under a budget not
// ended; others wait.
const maxWaiting = 16

// Upstream is where one API's requests go, and as whom.
type Upstream struct {
	Provider run.Provider
	// BaseURL is the endpoint: what the provider's own clients are given, such as
	// https://api.anthropic.com, https://api.openai.com/v1 or
	// https://generativelanguage.googleapis.com, or another that speaks the same.
	BaseURL *url.URL
	// APIKey is sent in the API's own header.
	APIKey string
	// AuthToken is sent as Bearer token where there is no APIKey.
	AuthToken string
	// Account names the account that an AuthToken of a ChatGPT login is for, where it is
	// one; else "".
	Account string
	// AuthHeader is the header in which the credential is sent, as it is, where the
	// endpoint wants another than the API's own; "" for that one.
	AuthHeader string
}

// Config says what a gateway lets through.
type Config struct {
	Upstreams []Upstream
	// Models are the models that may be used, as patterns of spend.Match; none
	// means all.
	Models []string
	// Egress are the hosts that starts may reach through the proxy, as far as they
	// were begun with them; none means that there is no way out.
	Egress egress.List
	// Key is what the tokens of the run's starts are made with; see Token and
	// ProxyToken.
	Key []byte
	// Meter admits and counts the requests. A start it does not know, or that has
	// ended, gets nothing.
	Meter *spend.Meter
	// Watch, where it is set, is told what the providers refuse. What it takes for final
	// ends the requests of that start.
	Watch *Watch
	// Unmetered lets through whatever the agent asks of the upstreams, as it is, and
	// counts nothing: for agents that have the machine's network anyway.
	Unmetered bool
	// InFlight is shared by the gateways of a process; nil means that there is no
	// other.
	InFlight *InFlight
	// Transport reaches the upstreams; nil means http.DefaultTransport.
	Transport http.RoundTripper

	// dial reaches the hosts of the proxy. Only tests, which have them on
	// loopback, bring another than that of dialer.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const tokenPrefix = "ralph-"

// Token is what the agent of a start presents to a gateway with that key.
func Token(key []byte, start string) string { return tokenOf(key, tokenPrefix, start) }

// tokenOf is the token of a start of the kind that has that prefix.
func tokenOf(key []byte, prefix, start string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(prefix + "\x00" + start))
	return prefix + start + "." + hex.EncodeToString(mac.Sum(nil)[:20])
}

// startOf is the start whose token of that kind it is; ok is false for any other
// text.
func startOf(key []byte, prefix, token string) (start string, ok bool) {
	rest, ok := strings.CutPrefix(token, prefix)
	i := strings.LastIndexByte(rest, '.')
	if !ok || i < 0 {
		return "", false
	}
	// Both have one length, and are compared in constant time.
	return rest[:i], hmac.Equal([]byte(token), []byte(tokenOf(key, prefix, rest[:i])))
}

// handler is the gateway of one run.
type handler struct {
	cfg     Config
	proxies map[run.Provider]*httputil.ReverseProxy
	waiting chan struct{}
	// own bounds what the run has of what is in flight.
	own *semaphore.Weighted
	// tunnels bounds the connections of the proxy, and starts holds the traffic of
	// each start.
	tunnels chan struct{}
	starts  sync.Map
}

// NewHandler makes the gateway of one run. A configuration with nothing to reach,
// or with an upstream without key, is refused with a *run.UserError.
func NewHandler(cfg Config) (http.Handler, error) {
	if len(cfg.Key) == 0 || cfg.Meter == nil {
		return nil, errors.New("gateway: no key for tokens, or no meter")
	}
	if cfg.Unmetered && len(cfg.Upstreams) != 1 {
		return nil, errors.New("gateway: what is not metered has one upstream")
	}
	if len(cfg.Upstreams) == 0 && len(cfg.Egress) == 0 {
		return nil, &run.UserError{
			Message: "there is no key for any model endpoint", Hint: "set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN",
		}
	}
	for _, entry := range cfg.Egress {
		if err := egress.Check(entry); err != nil {
			return nil, &run.UserError{Message: "egress.allow: " + err.Error(), Hint: "see docs/agents.md"}
		}
	}
	if cfg.dial == nil {
		cfg.dial = dialer().DialContext
	}
	if cfg.InFlight == nil {
		cfg.InFlight = NewInFlight()
	}
	h := &handler{
		cfg: cfg, proxies: map[run.Provider]*httputil.ReverseProxy{}, waiting: make(chan struct{}, maxWaiting),
		own: semaphore.NewWeighted(maxRequest), tunnels: make(chan struct{}, maxTunnels),
	}
	for _, u := range cfg.Upstreams {
		if err := u.check(); err != nil {
			return nil, err
		}
		h.proxies[u.Provider] = h.proxy(u)
	}
	return h, nil
}

func (u Upstream) check() error {
	switch {
	case u.BaseURL == nil || u.BaseURL.Host == "" || (u.BaseURL.Scheme != "https" && u.BaseURL.Scheme != "http"):
		return &run.UserError{Message: "the model endpoint is not an http or https address", Hint: "give it as https://host"}
	case u.BaseURL.User != nil || u.BaseURL.RawQuery != "" || u.BaseURL.Fragment != "":
		return &run.UserError{
			Message: "the model endpoint holds more than scheme, host and path", Hint: "give it as https://host/path",
		}
	case u.APIKey == "" && u.AuthToken == "":
		hint := "set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"
		switch u.Provider {
		case run.ProviderOpenAI:
			hint = "set OPENAI_API_KEY"
		case run.ProviderGoogle:
			hint = "set GEMINI_API_KEY"
		case run.ProviderAnthropic:
		}
		return &run.UserError{Message: "there is no key for the model endpoint", Hint: hint}
	case !slices.Contains([]run.Provider{run.ProviderAnthropic, run.ProviderOpenAI, run.ProviderGoogle}, u.Provider):
		return fmt.Errorf("gateway: unknown API %q", u.Provider)
	}
	return nil
}

// exchange is one request on its way, and what is known of its cost. admission
// is nil for a request that costs nothing.
type exchange struct {
	start     string
	call      call
	admission *spend.Admission
	// sent: it was written to a connection, or net/http was about to.
	sent atomic.Bool
	// settled: something was written down for it.
	settled bool
	// limited: a budget holds for it, so that it keeps its place until it is charged.
	limited bool
	// release lets go of its place among the requests of the run.
	release func()
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange) // put there by handler.exchange, always
	return x
}

func (h *handler) proxy(u Upstream) *httputil.ReverseProxy {
	base, keys := *u.BaseURL, redact.NewKnown(u.APIKey, u.AuthToken)
	if base.Path == "" {
		base.Path = "/" // JoinPath on no path at all gives a relative one
	}
	return &httputil.ReverseProxy{
		Transport: h.cfg.Transport,
		// Flush at once: an agent's idle clock watches the stream.
		FlushInterval: -1,
		Rewrite: func(pr *httputil.ProxyRequest) {
			x := exchangeOf(pr.In.Context())
			target := base.JoinPath(x.call.path)
			target.RawQuery = x.call.query
			pr.Out.URL, pr.Out.Host = target, ""
			pr.Out.Header = u.header(pr.In.Header)
			if pr.Out.Method == http.MethodPost && !h.cfg.Unmetered {
				// What was checked is what it is read as: by another type, or in another
				// set of characters, the same bytes say something else.
				pr.Out.Header["Content-Type"] = []string{"application/json"}
			}
		},
		ModifyResponse: func(r *http.Response) error {
			x := exchangeOf(r.Request.Context())
			x.answered(r)
			if err := passable(r); err != nil {
				return err
			}
			if err := h.watch(x, keys, r); err != nil {
				return err
			}
			mask(keys, r)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			x := exchangeOf(r.Context())
			if !x.sent.Load() {
				x.settle(r.Context(), spend.Tokens{}, true)
			}
			message := "the model endpoint cannot be reached: " + err.Error()
			if own, ok := errors.AsType[refusal](err); ok {
				message = own.Error()
			} else if r.Context().Err() == nil {
				h.unreached(x, base.Host, errors.New(keys.Mask(err.Error())))
			}
			writeError(w, u.Provider, http.StatusBadGateway, keys.Mask(message))
		},
		// What breaks off mid-stream is the agent's to report.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// answered takes note that the answer begins, and counts it from there.
func (x *exchange) answered(r *http.Response) {
	if !x.limited || x.admission == nil {
		x.release()
	}
	ctx := r.Request.Context()
	switch {
	case r.StatusCode >= http.StatusMultipleChoices:
		x.settle(ctx, spend.Tokens{}, true)
	case x.admission != nil && plainAnswer(r): // of another all is charged
		r.Body = &tapped{
			body: r.Body, left: r.ContentLength,
			usage:  usage{form: x.call.form, events: isEvents(r.Header.Get("Content-Type"))},
			settle: func(u *usage) { x.settle(ctx, u.use, u.final) },
		}
	}
}

// settle writes down, once, what a request used. An answer that breaks off may have cost
// all that was asked for: what a model thinks is charged, and need not have been sent.
// Where writing fails the meter keeps the charge, logs it and lets nothing more through.
func (x *exchange) settle(ctx context.Context, u spend.Tokens, whole bool) {
	switch {
	case x.settled || x.admission == nil:
	case whole:
		_ = x.admission.Settle(ctx, u)
	default:
		_ = x.admission.SettleCut(ctx, u)
	}
	x.settled = true
}

// ServeHTTP implements http.Handler. It is not a ServeMux, which answers unclean
// paths with a redirect.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isProxied(r) {
		h.forward(w, r)
		return
	}
	if r.URL.Path == "/" && (r.Method == http.MethodHead || r.Method == http.MethodGet) {
		// Claude Code asks HEAD / to warm up its connection.
		w.WriteHeader(http.StatusOK)
		return
	}
	c, offered := route(r)
	switch {
	case h.cfg.Unmetered:
		c, offered = h.anything(r, c, offered), true
	case !offered:
		c.provider = provider(r)
	}
	start, err := h.start(r)
	if errors.Is(err, spend.ErrUnknownStart) {
		writeError(w, c.provider, http.StatusBadRequest, "this run's token is missing or wrong")
		return
	}
	if err == nil {
		err = h.exchange(w, r, start, c, offered)
	}
	if err != nil {
		h.fail(w, r, c.provider, start.Name, err)
	}
}

// start is the start that the sender of a request works for.
func (h *handler) start(r *http.Request) (spend.Start, error) {
	if agent, ok := h.agent(r); ok {
		return h.cfg.Meter.Start(r.Context(), agent)
	}
	return spend.Start{}, spend.ErrUnknownStart
}

// agent is the start whose token the request carries.
func (h *handler) agent(r *http.Request) (name string, ok bool) {
	for _, token := range presented(r) {
		if name, ok = startOf(h.cfg.Key, tokenPrefix, token); ok {
			return name, true
		}
	}
	return "", false
}

// exchange checks a request and passes it on with its answer. On
// an error nothing was passed on, and nothing answered.
func (h *handler) exchange(w http.ResponseWriter, r *http.Request, start spend.Start, c call, offered bool) error {
	proxy := h.proxies[c.provider]
	if !offered || proxy == nil {
		return refuse("this gateway does not offer %s %s", run.PrintableLine(clip(r.Method)),
			run.PrintableLine(clip(r.URL.Path)))
	}
	if last, _ := h.cfg.Watch.Last(start.Name); last.Final {
		return errFinal
	}
	if h.cfg.Unmetered {
		h.pass(w, r, start, c, proxy)
		return nil
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return refuse("compressed requests are not understood here")
	}
	select {
	case h.waiting <- struct{}{}:
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	x := &exchange{
		start: start.Name, call: c, limited: start.Limited(), release: sync.OnceFunc(func() { <-h.waiting }),
	}
	ctx := context.WithValue(r.Context(), exchangeKey{}, x)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// It is repeated on another connection only where nothing came of it on the last.
		GetConn:      func(string) { x.sent.Store(false) },
		WroteHeaders: func() { x.sent.Store(true) },
	})
	defer func() {
		x.settle(ctx, spend.Tokens{}, false)
		x.release()
	}()
	out := r.WithContext(ctx)
	if r.Method == http.MethodPost {
		body, length, life, err := h.admit(w, out, start, x)
		if err != nil {
			return err
		}
		defer body.end()
		// Where the start ends nobody need read on.
		control := http.NewResponseController(w)
		stop := context.AfterFunc(life, func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) })
		defer stop()
		out = out.WithContext(life)
		out.Body, out.GetBody, out.ContentLength, out.TransferEncoding = body, body.again, length, nil
	}
	proxy.ServeHTTP(lastAnswer{w}, out)
	return nil
}

// anything is a request as an unmetered gateway passes it on: to the one upstream.
func (h *handler) anything(r *http.Request, c call, known bool) call {
	u, query := h.cfg.Upstreams[0], r.URL.Query()
	query.Del("key") // the credential, as some clients send it
	if known && c.provider == u.Provider {
		c.query = query.Encode()
		return c
	}
	// The agent's work does not depend on it.
	c = call{provider: u.Provider, path: r.URL.Path, query: query.Encode(), free: true}
	if u.Provider == run.ProviderOpenAI {
		c.path = strings.TrimPrefix(c.path, "/v1") // the base address ends in it
	}
	return c
}

// pass passes a request on as it is, but for the credential.
func (h *handler) pass(w http.ResponseWriter, r *http.Request, start spend.Start, c call, proxy *httputil.ReverseProxy) {
	x := &exchange{start: start.Name, call: c, release: func() {}}
	ctx := context.WithValue(r.Context(), exchangeKey{}, x)
	proxy.ServeHTTP(lastAnswer{w}, r.WithContext(ctx))
}

// admit reads and checks the body of a request, and whether there is money for it. It
// returns what is to be sent, which is to be closed, and the context of that.
func (h *handler) admit(
	w http.ResponseWriter, r *http.Request, start spend.Start, x *exchange,
) (_ *sent, length int64, ctx context.Context, err error) {
	body, release, err := h.read(w, r, maxRequest)
	if err != nil {
		return nil, 0, nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	a, err := inspect(x.call, body)
	if err != nil {
		return nil, 0, nil, err
	}
	if len(h.cfg.Models) > 0 && !slices.ContainsFunc(h.cfg.Models,
		func(pattern string) bool { return spend.Match(pattern, a.Model) }) {
		return nil, 0, nil, refuse("the model %q is not allowed here", clip(a.Model))
	}
	if ctx = r.Context(); !x.call.free {
		if x.admission, ctx, err = h.cfg.Meter.Admit(ctx, start, a.Request); err != nil {
			return nil, 0, nil, err
		}
	}
	return &sent{body: a.sent(), release: release}, a.size(), ctx, nil
}

// fail answers a request that was not passed on. What was refused is told in the
// report of the start.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, p run.Provider, start string, err error) {
	_, over := errors.AsType[*spend.OverError](err)
	_, unpriced := errors.AsType[*spend.UnpricedError](err)
	_, refused := errors.AsType[refusal](err)
	if errors.Is(err, errFinal) {
		writeError(w, p, http.StatusBadRequest, err.Error())
		return
	}
	if !over && !unpriced && !refused {
		// Nothing is wrong with the request: its sender may repeat it.
		writeError(w, p, http.StatusBadGateway, "the gateway could not pass the request on: "+err.Error())
		return
	}
	if rerr := h.cfg.Meter.Refuse(r.Context(), start,
		spend.Refusal{Reason: err.Error(), Budget: over || unpriced}); rerr != nil {
		err = errors.Join(err, rerr)
	}
	writeError(w, p, http.StatusBadRequest, err.Error())
}
