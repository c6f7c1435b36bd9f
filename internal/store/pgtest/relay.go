package pgtest

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Relay is a way over TCP to a server, which can be cut off and joined again.
type Relay struct {
	addr string
	life context.Context //nolint:containedctx // that of the test, which all connections have
	work sync.WaitGroup

	mu    sync.Mutex
	to    *Server
	open  chan struct{} // closed while something passes
	conns map[net.Conn]bool
}

// Relay opens a way to a server that lasts as long as the test.
func (s *Server) Relay(t testing.TB) *Relay {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &Relay{addr: l.Addr().String(), life: life, to: s, open: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(r.open)
	r.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.work.Go(func() { r.pass(c) })
		}
	})
	t.Cleanup(func() {
		cancel()
		err := l.Close()
		r.Break()
		r.work.Wait()
		if err != nil {
			t.Error(err)
		}
	})
	return r
}

// URL is that of a database of the server, by way of the relay.
func (r *Relay) URL(t testing.TB, url string) string {
	t.Helper()
	return "postgres://bot@" + r.addr + "/" + parse(t, url).Database + "?sslmode=disable"
}

// Cut has nothing pass any more, in either direction. Connections stay open, and nobody is told:
// as when a cable is pulled.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.open:
		r.open = make(chan struct{})
	default:
	}
}

// Join has everything pass again, also what waited.
func (r *Relay) Join() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.open:
	default:
		close(r.open)
	}
}

// Break ends all connections. New ones are made.
func (r *Relay) Break() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

// LeadTo has new connections go to another server, and ends those that there are.
func (r *Relay) LeadTo(s *Server) {
	r.mu.Lock()
	r.to = s
	r.mu.Unlock()
	r.Break()
}

// passes waits until something passes.
func (r *Relay) passes() error {
	r.mu.Lock()
	open := r.open
	r.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-r.life.Done():
		return context.Cause(r.life)
	}
}

// keep notes a connection, to be ended by Break.
func (r *Relay) keep(c net.Conn) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, c)
		_ = c.Close()
	}
}

// pass carries what a client and the server say.
func (r *Relay) pass(client net.Conn) {
	defer r.keep(client)()
	if r.passes() != nil {
		return
	}
	r.mu.Lock()
	socket := filepath.Join(r.to.dir, ".s.PGSQL.5432")
	r.mu.Unlock()
	server, err := (&net.Dialer{}).DialContext(r.life, "unix", socket)
	if err != nil {
		return // as a server that is not there refuses
	}
	defer r.keep(server)()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{server, client}, {client, server}} {
		both.Go(func() {
			_, err := io.Copy(gated{way[0], r}, way[1])
			if err == nil {
				err = r.passes() // the end is told as late as the rest
			}
			_ = errors.Join(err, way[0].Close()) // an end of one is the end of both
		})
	}
	both.Wait()
}

// gated writes when something passes.
type gated struct {
	net.Conn

	relay *Relay
}

// Write implements io.Writer.
func (g gated) Write(p []byte) (int, error) {
	if err := g.relay.passes(); err != nil {
		return 0, err
	}
	return g.Conn.Write(p)
}

func parse(t testing.TB, url string) *pgx.ConnConfig {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
