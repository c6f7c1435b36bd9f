package notify

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

// implicitTLS is the port on which mail servers speak TLS from the first byte.
const implicitTLS = "465"

// mailer sends messages by a mail server.
type mailer struct {
	host, port string
	user       *url.Userinfo
	from       string
	to         []string
}

// newMailer reads smtp://USER:PASSWORD@HOST:PORT/?from=ADDRESS&to=ADDRESS,ADDRESS.
func newMailer(u *url.URL) (sender, error) {
	query, err := options(u, "from", "to")
	if err != nil {
		return nil, err
	}
	// A + in a query is a blank, and addresses have no blanks.
	from, to := strings.ReplaceAll(query.Get("from"), " ", "+"), strings.ReplaceAll(query.Get("to"), " ", "+")
	if from == "" || to == "" {
		return nil, errors.New("it does not say from whom or to whom: …/?from=ADDRESS&to=ADDRESS")
	}
	return mailer{host: u.Hostname(), port: cmp.Or(u.Port(), "25"), user: u.User, from: from, to: strings.Split(to, ",")},
		nil
}

func (s mailer) send(ctx context.Context, m Message) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return fmt.Errorf("reach the mail server: %w", err)
	}
	return s.talk(ctx, conn, m)
}

func (s mailer) dial(ctx context.Context) (net.Conn, error) {
	addr := net.JoinHostPort(s.host, s.port)
	if s.port == implicitTLS {
		return (&tls.Dialer{Config: s.tls()}).DialContext(ctx, "tcp", addr)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

func (s mailer) tls() *tls.Config {
	return &tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12}
}

// talk has a conversation with the server, which it ends when ctx does: net/smtp
// knows no deadline.
func (s mailer) talk(ctx context.Context, conn net.Conn, m Message) error {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	client, err := smtp.NewClient(conn, s.host)
	if err != nil {
		return permanent(fmt.Errorf("greet the mail server: %w", err))
	}
	if err := s.introduce(client); err != nil {
		return permanent(err)
	}
	var errs []error
	for _, to := range s.to {
		if err := s.mail(client, to, m); err != nil {
			errs = append(errs, fmt.Errorf("send the mail: %w", err))
			_ = client.Reset() // for the next
		}
	}
	_ = client.Quit() // what was taken is taken
	return permanent(errors.Join(errs...))
}

// introduce makes the conversation safe and says who is talking. Neither password
// nor message goes over the network in the clear because somebody on the way says
// that the server knows no TLS.
func (s mailer) introduce(client *smtp.Client) error {
	if offered, _ := client.Extension("STARTTLS"); offered {
		if err := client.StartTLS(s.tls()); err != nil {
			return fmt.Errorf("begin TLS: %w", err)
		}
	} else if s.port != implicitTLS && !loopback(s.host) {
		return errors.New("the mail server offers no TLS")
	}
	password, _ := s.user.Password()
	if s.user.Username() == "" {
		return nil
	}
	if err := client.Auth(smtp.PlainAuth("", s.user.Username(), password, s.host)); err != nil {
		return fmt.Errorf("log in to the mail server: %w", err)
	}
	return nil
}

func (s mailer) mail(client *smtp.Client, to string, m Message) error {
	if err := client.Mail(s.from); err != nil {
		return err
	}
	if err := client.Rcpt(to); err != nil {
		return err
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, s.letter(to, m)); err != nil {
		return err
	}
	return w.Close()
}

func (s mailer) letter(to string, m Message) string {
	title, body := m.text(plainText())
	return strings.Join([]string{
		"Subject: " + mime.QEncoding.Encode("utf-8", title),
		"Date: " + m.Time.Format(time.RFC1123Z),
		"From: Ralph Bot <" + s.from + ">",
		"To: " + to,
		"MIME-Version: 1.0",
		`Content-Type: text/plain; charset="UTF-8"`,
		"Content-Transfer-Encoding: 8bit",
		"", body,
	}, "\n")
}

// permanent marks what a server refuses for good.
func permanent(err error) error {
	if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code >= 500 {
		return final{err}
	}
	return err
}
