package pgtest

import (
	"net"
	"testing"
)

// Standby is a server that follows another one, without that one waiting for it: what was
// committed last is lost when it takes the other's place.
type Standby struct {
	*Server

	// Link is the way by which it follows. Where it is cut the standby falls behind.
	Link *Relay

	primary *Server
}

// Standby starts a standby of a server.
func (s *Server) Standby(t testing.TB) *Standby {
	t.Helper()
	link := s.Relay(t)
	host, port, err := net.SplitHostPort(link.addr)
	if err != nil {
		t.Fatal(err)
	}
	return &Standby{startOwn(t, "user=bot host="+host+" port="+port), link, s}
}

// CatchUp waits until the standby has all that is committed on its primary.
func (s *Standby) CatchUp(t testing.TB) {
	t.Helper()
	// A commit that waits for the standby, as the others do not.
	err := s.primary.exec(`SET LOCAL synchronous_commit = remote_apply; SELECT pg_logical_emit_message(true, '', '')`)
	if err != nil {
		t.Fatal(err)
	}
}

// Promote makes the standby a primary. It does nothing about the other one.
func (s *Standby) Promote(t testing.TB) { s.tell(t, "promote") }

// At is the URL of a database on this server, given one on another.
func (s *Server) At(t testing.TB, url string) string {
	t.Helper()
	cfg := parse(t, url)
	return s.url(cfg.Database)
}
