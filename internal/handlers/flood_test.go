package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/httpd"
	"github.com/org/ralph-action/internal/store"
)

// nowhere keeps nothing.
type nowhere struct{}

func (nowhere) InTx(context.Context, func(tx *store.Tx) error) error { return errors.New("not kept") }

func (nowhere) InsertDelivery(context.Context, *store.Tx, store.Delivery) (bool, error) {
	return false, errors.New("not kept")
}

func (nowhere) EnqueueDelivery(context.Context, *store.Tx, string) error {
	return errors.New("not queued")
}

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

// Attack: two thousand connections, each with most of a large body that nobody has
// signed. The server holds a few of them, and answers afterwards.
func TestUnsignedBodiesFitInMemory(t *testing.T) { //nolint:paralleltest // it measures the process
	const strangers, length, most = 2000, 1<<20 - 1, 200 << 20
	for name, header := range map[string]string{
		"with a length":   fmt.Sprintf("Content-Length: %d\r\n\r\n", length+1),
		"without":         fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", length+1),
		"of a known form": fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", length+1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, err := handlers.New(handlers.Config{Secrets: []string{secret}, Inbox: nowhere{}, Queue: nowhere{}})
				if err != nil {
					t.Fatal(err)
				}
				l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
				server := httpd.New(h)
				served := make(chan error, 1)
				go func() { served <- server.Serve(httpd.Limit(l, 512, 64)) }()
				request := []byte("POST " + handlers.DefaultPath + " HTTP/1.1\r\nHost: bot\r\nX-Hub-Signature-256: sha256=" +
					strings.Repeat("00", 32) + "\r\n" + header + strings.Repeat("x", length))
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				var all sync.WaitGroup
				for range strangers {
					all.Go(func() {
						near, far := net.Pipe()
						defer func() { _ = near.Close() }()
						l.conns <- far
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
				runtime.ReadMemStats(&after)
				if took := int64(after.HeapSys+after.StackSys) - int64(before.HeapSys+before.StackSys); took > most {
					t.Errorf("%d connections take %d MiB", strangers, took>>20)
				}
				// Time-outs make room for whoever comes with a signature.
				all.Wait()
				near, far := net.Pipe()
				l.conns <- far
				body := `{"zen":"Design for failure."}`
				go func() {
					_, _ = fmt.Fprintf(near, "POST %s HTTP/1.1\r\nHost: bot\r\nX-GitHub-Event: ping\r\nX-GitHub-Delivery: g\r\n"+
						"Content-Type: application/json\r\nX-Hub-Signature-256: %s\r\nContent-Length: %d\r\n\r\n%s", handlers.DefaultPath,
						delivery("ping", "g", []byte(body)).header.Get("X-Hub-Signature-256"), len(body), body)
				}()
				answer := make([]byte, 100)
				n, _ := near.Read(answer)
				if !strings.HasPrefix(string(answer[:n]), fmt.Sprintf("HTTP/1.1 %d", http.StatusAccepted)) {
					t.Errorf("the next one: %q", answer[:n])
				}
				_ = near.Close()
				if err := server.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				<-served
			})
		})
	}
}
