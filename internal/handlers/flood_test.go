package handlers_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/httpd"
)

// pipes is a listener in memory: what the other side has written was read.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }
func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

// flooded is a server in memory, in a bubble of synctest, to which strangers have sent most of
// a large body that nobody has signed.
type flooded struct {
	*pipes
	server *http.Server
	served chan error
	all    sync.WaitGroup
}

// flood has so many strangers send what they will: it ends when each of them waits for the server
// to read on, or was answered.
func flood(t *testing.T, strangers int, header, body string) *flooded {
	t.Helper()
	h, err := handlers.New(handlers.Config{Secrets: []string{secret}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	f := &flooded{
		pipes: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}, server: httpd.New(h), served: make(chan error, 1),
	}
	go func() { f.served <- f.server.Serve(httpd.Limit(f.pipes, 512)) }()
	request := []byte("POST " + handlers.DefaultPath + " HTTP/1.1\r\nHost: bot\r\nX-Hub-Signature-256: sha256=" +
		strings.Repeat("00", 32) + "\r\n" + header + body)
	for range strangers {
		f.all.Go(func() {
			near, far := net.Pipe()
			defer func() { _ = near.Close() }()
			f.conns <- far
			answered := make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, near)
				close(answered)
			}()
			// It blocks until the server has read that much.
			_, _ = near.Write(request)
			<-answered
		})
	}
	synctest.Wait()
	return f
}

// ping sends one with a signature, and wants it accepted.
func (f *flooded) ping(t *testing.T) {
	t.Helper()
	near, far := net.Pipe()
	f.conns <- far
	body := `{"zen":"Design for failure."}`
	go func() {
		_, _ = fmt.Fprintf(near, "POST %s HTTP/1.1\r\nHost: bot\r\nX-GitHub-Event: ping\r\nX-GitHub-Delivery: g\r\n"+
			"Content-Type: application/json\r\nX-Hub-Signature-256: %s\r\nContent-Length: %d\r\n\r\n%s", handlers.DefaultPath,
			delivery("ping", "g", []byte(body)).header.Get("X-Hub-Signature-256"), len(body), body)
	}()
	answer := make([]byte, 100)
	n, _ := near.Read(answer)
	if !strings.HasPrefix(string(answer[:n]), fmt.Sprintf("HTTP/1.1 %d", http.StatusAccepted)) {
		t.Errorf("answered %q", answer[:n])
	}
	_ = near.Close()
}

// end waits until each stranger was answered or cut off, and stops the server.
func (f *flooded) end(t *testing.T) {
	t.Helper()
	f.all.Wait()
	if err := f.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	<-f.served
}

// Attack: strangers send their bodies byte by byte, and hold up nobody.
func TestDribblers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := flood(t, 20, fmt.Sprintf("Content-Length: %d\r\n\r\n", handlers.MaxBody), "{")
		begin := time.Now()
		f.ping(t)
		if took := time.Since(begin); took != 0 { // they are cut off after eight seconds
			t.Errorf("answered after %v", took)
		}
		f.end(t)
	})
}
