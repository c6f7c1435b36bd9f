package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	notAllowed = "not in egress.allow"
	notAName   = "not the name of a host"
	notTheWay  = "only TLS is open, on port 443"
	notPublic  = "resolves to an address that is not public"
	notTLS     = "no TLS inside of the tunnel"
	noName     = "TLS that names no host, or hides it"
	otherName  = "TLS for another host than the tunnel's"
	tooMuch    = "the call has reached its transfer limit"
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
		err = h.tunnel(w, r, start.Name, host)
	}
	if err != nil {
		h.refuseHost(w, r, start.Name, err)
	}
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
	given := r.URL.Hostname()
	name, ok := egress.Name(given)
	switch {
	case !ok:
		return "", &blocked{shown(given), notAName}
	case !h.cfg.Egress.Allows(name) || !egress.List(start.Hosts).Allows(name):
		return "", &blocked{name, notAllowed}
	case r.Method != http.MethodConnect || r.URL.Port() != "443":
		return "", &blocked{name, notTheWay}
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
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: dialTimeout,
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
