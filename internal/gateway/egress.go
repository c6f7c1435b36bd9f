package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/gateway/spend"
)

// ProxyUser is the user that a start names to the proxy; the password is its
// ProxyToken.
const ProxyUser = "ralph"

// proxyPrefix begins the tokens for the proxy.
const proxyPrefix = "ralph-net-"

// ProxyToken is what a start presents to the proxy of a gateway with that key. It
// is good for nothing else: checks have one and must not reach the models.
func ProxyToken(key []byte, start string) string { return tokenOf(key, proxyPrefix, start) }

// What the connections of a run to hosts may take.
const (
	// maxTunnels bounds those at the same time; others wait.
	maxTunnels = 64
	// maxSent and maxReceived bound the bytes of one start. Packages are fetched,
	// and hardly anything needs to be sent for that.
	maxSent     = 64 << 20
	maxReceived = 8 << 30

	dialTimeout  = 15 * time.Second
	helloTimeout = 10 * time.Second
	idleTimeout  = 5 * time.Minute
	maxTunnel    = time.Hour
)

// Why a host is blocked, in words for the agent and for people. They hold nothing
// of the agent's, so that there are only so many.
const (
	notAllowed  = "not in egress.allow"
	notAName    = "not the name of a host"
	notThatPort = "only port 443 is open, and 80 for plain HTTP"
	notPublic   = "resolves to an address that is not public"
	notAGet     = "plain HTTP is for GET and HEAD"
	notTLS      = "no TLS inside of the tunnel"
	noName      = "TLS that names no host, or hides it"
	otherName   = "TLS for another host than the tunnel's"
	tooMuch     = "the call has reached its transfer limit"
)

// blocked is a request to the proxy that is not let through.
type blocked struct{ host, reason string }

// Error implements error.
func (b *blocked) Error() string { return b.host + ": " + b.reason }

// traffic counts the bytes of one start.
type traffic struct{ sent, received atomic.Int64 }

func (t *traffic) over() bool { return t.sent.Load() > maxSent || t.received.Load() > maxReceived }

// isProxied says whether a request is to the proxy, and not to the gateway itself.
func isProxied(r *http.Request) bool { return r.Method == http.MethodConnect || r.URL.IsAbs() }

// forward serves a request to the proxy.
func (h *handler) forward(w http.ResponseWriter, r *http.Request) {
	start, err := h.proxyStart(r)
	if errors.Is(err, spend.ErrUnknownStart) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="ralph"`)
		http.Error(w, "this start's token is missing or wrong", http.StatusProxyAuthRequired)
		return
	}
	var host string
	if err == nil {
		host, err = h.target(r, start)
	}
	if err == nil {
		err = h.connect(w, r, start, host)
	}
	if err != nil {
		h.refuseHost(w, r, start.Name, err)
	}
}

// connect waits for its turn and serves a request to a host. On an error nothing
// was answered.
func (h *handler) connect(w http.ResponseWriter, r *http.Request, start spend.Start, host string) error {
	select {
	case h.tunnels <- struct{}{}:
		defer func() { <-h.tunnels }()
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	if r.Method == http.MethodConnect {
		return h.tunnel(w, r, start, host)
	}
	return h.fetch(w, r, start, host)
}

// proxyStart is the start whose token the request carries. That for the models
// will do too: who has it is known all the same.
func (h *handler) proxyStart(r *http.Request) (spend.Start, error) {
	// The form is that of the other header.
	as := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	_, token, _ := as.BasicAuth()
	name, ok := startOf(h.cfg.Key, proxyPrefix, token)
	if !ok {
		name, ok = startOf(h.cfg.Key, tokenPrefix, token)
	}
	if ok {
		return h.cfg.Meter.Start(r.Context(), name)
	}
	return spend.Start{}, spend.ErrUnknownStart
}

// target is the host that a request is for, if the start may reach it as it wants
// to. Otherwise the error is a *blocked. Nothing is looked up for that: the name
// of a host that is not allowed never leaves.
func (h *handler) target(r *http.Request, start spend.Start) (string, error) {
	given, port, scheme := r.URL.Hostname(), r.URL.Port(), strings.ToLower(r.URL.Scheme)
	name, ok := egress.Name(given)
	switch {
	case !ok:
		return "", &blocked{shown(given), notAName}
	case !h.cfg.Egress.Allows(name) || !egress.List(start.Hosts).Allows(name):
		return "", &blocked{name, notAllowed}
	case r.Method == http.MethodConnect && port != "443",
		r.Method != http.MethodConnect && (scheme != "http" || port != "" && port != "80"):
		return "", &blocked{name, notThatPort}
	case r.Method != http.MethodConnect && r.Method != http.MethodGet && r.Method != http.MethodHead:
		return "", &blocked{name, notAGet}
	case h.traffic(start.Name).over():
		return "", &blocked{name, tooMuch}
	}
	return name, nil
}

// shown is what an agent wrote in the place of a host, fit for a report.
func shown(given string) string {
	return clip(strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return '?'
		}
		return c
	}, given))
}

func (h *handler) traffic(start string) *traffic {
	t, _ := h.starts.LoadOrStore(start, &traffic{})
	return t.(*traffic) //nolint:forcetypeassert // nothing else is stored there
}

// refuseHost answers a request that was not passed on, and takes note of it.
func (h *handler) refuseHost(w http.ResponseWriter, r *http.Request, start string, err error) {
	b, ok := errors.AsType[*blocked](err)
	if !ok {
		http.Error(w, "the proxy could not pass the request on: "+err.Error(), http.StatusBadGateway)
		return
	}
	text := fmt.Sprintf("Ralph Bot blocked %s: %s", b.host, b.reason)
	if b.reason == notAllowed {
		text += "; the operator of the bot can allow hosts, and the repository's settings may allow fewer"
	}
	if nerr := h.cfg.Meter.Block(r.Context(), start, b.host, b.reason); nerr != nil {
		text += "; this could not be noted: " + nerr.Error()
	}
	if r.Method != http.MethodConnect {
		http.Error(w, text, http.StatusForbidden)
		return
	}
	// Of the answer to CONNECT clients show at most the first line.
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, text, http.StatusForbidden)
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 403 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n"+
		"Connection: close\r\n\r\n%s", text, len(text), text)
}

// dialer reaches hosts at public addresses only. The address is looked at when it
// is about to be connected to, so that it makes no difference what the name
// resolved to before.
func dialer(r *net.Resolver) *net.Dialer {
	return &net.Dialer{
		Timeout: dialTimeout, Resolver: r,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !egress.Public(at.Addr()) {
				return errNotPublic
			}
			return nil
		},
	}
}

var errNotPublic = errors.New("the address is not public")

// reach connects to a host.
func (h *handler) reach(ctx context.Context, host, port string) (net.Conn, error) {
	conn, err := h.cfg.dial(ctx, "tcp", net.JoinHostPort(host, port))
	if errors.Is(err, errNotPublic) {
		return nil, &blocked{host, notPublic}
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", host, err)
	}
	return conn, nil
}

// fetch passes a request of plain HTTP on. It is written anew: its first line and
// its Host say the same, and what is meant for the proxy stays here. A redirect
// is the client's to follow.
func (h *handler) fetch(w http.ResponseWriter, r *http.Request, start spend.Start, host string) error {
	ctx, cancel := context.WithTimeout(r.Context(), maxTunnel)
	defer cancel()
	conn, err := h.reach(ctx, host, "80")
	if err != nil {
		return err
	}
	counted := &countedConn{Conn: conn, of: h.traffic(start.Name)}
	passage, ctx, err := h.cfg.Meter.Pass(ctx, start.Name, host)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer func() {
		_ = conn.Close()
		passage.Close(counted.sent.Load(), counted.received.Load())
		h.noteOver(ctx, start.Name, host)
	}()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	counted.idle = time.AfterFunc(idleTimeout, func() { _ = conn.Close() })
	defer counted.idle.Stop()

	var failed error
	p := &httputil.ReverseProxy{
		Transport: &http.Transport{
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return counted, nil },
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 256 << 10,
		},
		FlushInterval: -1,
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host, pr.Out.URL.User, pr.Out.Host = "http", host, nil, host
			pr.Out.Body, pr.Out.ContentLength = nil, 0
			for _, name := range []string{"Upgrade", "Connection", "Proxy-Authorization"} {
				pr.Out.Header.Del(name)
			}
			if _, ok := pr.Out.Header["User-Agent"]; !ok {
				pr.Out.Header["User-Agent"] = []string{""} // or the transport would add its own
			}
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
		ErrorLog:     log.New(io.Discard, "", 0), // what breaks off is the client's to report
	}
	p.ServeHTTP(w, r.WithContext(ctx))
	return failed
}

// noteOver takes note that a connection was cut off, if it was for what went over
// it. The client sees no more than that.
func (h *handler) noteOver(ctx context.Context, start, host string) {
	if h.traffic(start).over() {
		_ = h.cfg.Meter.Block(context.WithoutCancel(ctx), start, host, tooMuch)
	}
}

// countedConn counts what goes over it, for its start too, and ends where that
// may have no more.
type countedConn struct {
	net.Conn
	of             *traffic
	idle           *time.Timer
	sent, received atomic.Int64
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.count(n, err, &c.received, &c.of.received)
}

// Write implements net.Conn.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.count(n, err, &c.sent, &c.of.sent)
}

func (c *countedConn) count(n int, err error, own, all *atomic.Int64) error {
	c.idle.Reset(idleTimeout)
	own.Add(int64(n))
	all.Add(int64(n))
	if c.of.over() {
		return errors.Join(errTooMuch, err)
	}
	return err
}

var errTooMuch = errors.New(tooMuch)
