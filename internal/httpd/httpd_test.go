package httpd

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() pipes { return pipes{make(chan net.Conn), make(chan struct{})} }

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.closed); return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial is a connection, once it is accepted below.
func (p pipes) dial() net.Conn {
	near, far := net.Pipe()
	p.conns <- far
	return near
}

// Attack: somebody opens connections and keeps them.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newPipes()
		l := Limit(below, 2)
		accepted := make(chan net.Conn, 10)
		go func() {
			defer close(accepted)
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				accepted <- c
			}
		}()
		below.dial()
		below.dial()
		waits := make(chan net.Conn)
		go func() { waits <- below.dial() }()
		synctest.Wait()
		if len(accepted) != 2 || len(waits) != 0 {
			t.Fatalf("%d connections were accepted", len(accepted))
		}
		one := <-accepted
		// What is closed counts once, and no longer.
		if err := errors.Join(one.Close(), one.Close()); err != nil {
			t.Fatal(err)
		}
		<-waits
		synctest.Wait()
		if len(accepted) != 2 {
			t.Errorf("%d connections were accepted, want 2", len(accepted))
		}
		// Whoever waits for a place hears the end.
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for range accepted {
		}
	})
}

// Attack: headers that never end, or that are huge.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newPipes()
		server := New(http.NotFoundHandler())
		done := make(chan error)
		go func() { done <- server.Serve(Limit(below, 100)) }()
		begin := time.Now()
		for name, request := range map[string]string{
			"slow": "GET / HTTP/1.1\r\nHost: a\r\n", "nothing": "",
			"huge": "GET / HTTP/1.1\r\nHost: a\r\nX-A: " + strings.Repeat("x", 100<<10) + "\r\n\r\n",
		} {
			c := below.dial()
			go func() { _, _ = c.Write([]byte(request)) }()
			answer := make([]byte, 100)
			n, _ := c.Read(answer)
			if slices.Contains([]string{"slow", "nothing"}, name) != (n == 0) || name == "huge" && !strings.Contains(string(answer), "431") {
				t.Errorf("%s: %q", name, answer[:n])
			}
			_ = c.Close()
		}
		if took := time.Since(begin); took > 3*headerTimeout {
			t.Errorf("it took %s", took)
		}
		// A connection that is idle ends.
		c := below.dial()
		go func() { _, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")) }()
		begin = time.Now()
		var err error
		for err == nil {
			_, err = c.Read(make([]byte, 100))
		}
		if took := time.Since(begin); took != idleTimeout {
			t.Errorf("an idle connection ended after %s", took)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
}
