package notify

import (
	"bufio"
	"net"
	"net/url"
	"strings"
	"testing"
)

// To a server elsewhere neither password nor message goes in the clear: one that
// knows no TLS, or that somebody on the way makes look so, is left.
func TestMailIsNotSentInTheClear(t *testing.T) {
	t.Parallel()
	for _, user := range []*url.Userinfo{nil, url.UserPassword("ralph", "swordfish")} {
		ours, theirs := net.Pipe()
		said := make(chan string)
		go func() {
			var all strings.Builder
			_, _ = theirs.Write([]byte("220 mail.example\r\n"))
			for lines := bufio.NewScanner(theirs); lines.Scan(); {
				all.WriteString(lines.Text() + "\n")
				_, _ = theirs.Write([]byte("250 AUTH PLAIN\r\n"))
			}
			said <- all.String()
		}()
		s := mailer{host: "mail.example", port: "587", user: user, from: "ralph@example.com", to: []string{"ada@example.com"}}
		err := s.talk(t.Context(), ours, Message{})
		if err == nil || !strings.Contains(err.Error(), "offers no TLS") {
			t.Errorf("%v", err)
		}
		if got := <-said; got != "EHLO localhost\n" {
			t.Errorf("said %q", got)
		}
	}
}

// Who takes part in a mail, and by which port, is read from its address.
func TestMailAddresses(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("smtp://ralph%40example.com:p%2Fw@mail.example/?from=ralph+bot@example.com&to=ada@example.com,root")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newMailer(u)
	if err != nil {
		t.Fatal(err)
	}
	got := s.(mailer)
	password, _ := got.user.Password()
	if got.host != "mail.example" || got.port != "25" || got.user.Username() != "ralph@example.com" || password != "p/w" ||
		got.from != "ralph+bot@example.com" || strings.Join(got.to, " ") != "ada@example.com root" {
		t.Errorf("%+v", got)
	}
}
