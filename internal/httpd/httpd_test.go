package httpd

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections come from addresses of the test's choice.
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

// dial is a connection from an address, once it is accepted below.
func (p pipes) dial(from string) net.Conn {
	near, far := net.Pipe()
	p.conns <- caller{far, &net.TCPAddr{IP: net.ParseIP(from), Port: 1000}}
	return near
}

type caller struct {
	net.Conn

	from net.Addr
}

func (c caller) RemoteAddr() net.Addr { return c.from }

// accepted collects what a listener accepts.
func accepted(l net.Listener) <-chan net.Conn {
	out := make(chan net.Conn, 1000)
	go func() {
		defer close(out)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			out <- c
		}
	}()
	return out
}

// Attack: somebody opens connections and keeps them.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newPipes()
		l := Limit(below, 10, 3)
		got := accepted(l)
		var open []net.Conn
		take := func(want int) {
			t.Helper()
			synctest.Wait()
			if len(got) != want {
				t.Fatalf("%d connections were accepted, want %d", len(got), want)
			}
			for range want {
				open = append(open, <-got)
			}
		}
		isClosed := func(c net.Conn) bool {
			_, err := c.Read(make([]byte, 1))
			return err != nil
		}
		for range 3 {
			below.dial("1.2.3.4")
		}
		take(3)
		if !isClosed(below.dial("1.2.3.4")) {
			t.Error("a fourth connection of an address is open")
		}
		// Of IPv6 the network counts, in whatever way IPv4 is written.
		for i := range 3 {
			below.dial(fmt.Sprintf("2600:1:2:3::%d", i+1))
		}
		take(3)
		if !isClosed(below.dial("2600:1:2:3:ffff::1")) || !isClosed(below.dial("::ffff:1.2.3.4")) {
			t.Error("another address of the same network is a new one")
		}
		// A proxy stands for everybody.
		for range 4 {
			below.dial("10.0.0.1")
		}
		take(4)
		// All are taken: the next one waits.
		waits := make(chan net.Conn)
		go func() { waits <- below.dial("5.6.7.8") }()
		take(0)
		if err := errors.Join(open[0].Close(), open[0].Close()); err != nil {
			t.Fatal(err)
		}
		take(1)
		<-waits
		// What is closed counts once, and no longer.
		if err := errors.Join(open[1].Close(), open[2].Close()); err != nil {
			t.Fatal(err)
		}
		below.dial("1.2.3.4")
		below.dial("1.2.3.4")
		take(2)
		// Whoever waits for a place hears the end.
		if err := errors.Join(l.Close()); err != nil {
			t.Fatal(err)
		}
		if _, more := <-got; more {
			t.Error("accepted after the end")
		}
		if from := l.(*listener).from; len(from) != 3 {
			t.Errorf("counted are %v", from)
		}
		for _, c := range open {
			_ = c.Close()
		}
		if from := l.(*listener).from; len(from) != 0 {
			t.Errorf("counted are %v", from)
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
		go func() { done <- server.Serve(Limit(below, 100, 0)) }()
		begin := time.Now()
		for name, request := range map[string]string{
			"slow": "GET / HTTP/1.1\r\nHost: a\r\n", "nothing": "",
			"huge": "GET / HTTP/1.1\r\nHost: a\r\nX-A: " + strings.Repeat("x", 100<<10) + "\r\n\r\n",
		} {
			c := below.dial("1.2.3.4")
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
		c := below.dial("1.2.3.4")
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
