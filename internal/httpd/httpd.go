// Package httpd bounds what a server of HTTP gives to whoever connects: the number of
// connections, the size of headers, and the time that they take. What a handler reads is
// the handler's own to bound, and what one address may have is a reverse proxy's.
package httpd

import (
	"errors"
	"net"
	"net/http"
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

// Limit lets l accept at most so many connections at a time; others wait with the system,
// and none of them takes memory here. Close has to be called. Unlike those of
// golang.org/x/net/netutil its connections pass the end of one direction on.
func Limit(l net.Listener, all int) net.Listener {
	return &listener{Listener: l, slots: make(chan struct{}, all), closed: make(chan struct{})}
}

type listener struct {
	net.Listener

	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
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
	return &conn{Conn: c, leave: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
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
// two.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
