package httpd

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// maxHeader is far more than a webhook or a model's client sends. (The standard
	// library adds 4 KiB.)
	maxHeader = 32 << 10
)

// New makes a server with bounds on headers and on idle connections.
func New(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
}

// Limit lets l accept at most so many connections at a time, and of those so many
// from each public address (0: any number). Close has to be called.
func Limit(l net.Listener, all, each int) net.Listener {
	return &listener{
		Listener: l, slots: make(chan struct{}, all), each: each, closed: make(chan struct{}), from: map[netip.Prefix]int{},
	}
}

type listener struct {
	net.Listener

	slots  chan struct{}
	each   int
	once   sync.Once
	closed chan struct{}

	mu sync.Mutex
	// from counts the connections of public addresses.
	from map[netip.Prefix]int
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		address, public := sender(c)
		if !l.enter(address, public) {
			<-l.slots
			_ = c.Close()
			continue
		}
		return &conn{Conn: c, leave: sync.OnceFunc(func() {
			l.exit(address, public)
			<-l.slots
		})}, nil
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// enter counts a connection of an address; ok is false where it has its share.
func (l *listener) enter(address netip.Prefix, public bool) (ok bool) {
	if l.each == 0 || !public {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from[address] >= l.each {
		return false
	}
	l.from[address]++
	return true
}

func (l *listener) exit(address netip.Prefix, public bool) {
	if l.each == 0 || !public {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from[address]--; l.from[address] == 0 {
		delete(l.from, address)
	}
}

// sender is the address that a connection comes from: of IPv6 the network, of which
// one person has all addresses.
func sender(c net.Conn) (address netip.Prefix, public bool) {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}, false
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return netip.Prefix{}, false
	}
	size := 64
	if ip.Is4() {
		size = 32
	}
	address, err := ip.Prefix(size)
	return address, err == nil
}

// conn is a connection that counts until it is closed.
type conn struct {
	net.Conn

	leave func()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite closes the direction in which this side sends, where the connection has
// two: proxies pass the end of one on.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
