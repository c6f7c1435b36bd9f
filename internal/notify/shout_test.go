package notify_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/notify"
	"github.com/org/ralph-action/internal/run"
)

const (
	slackURL    = "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"
	discordURL  = "https://discord.com/api/webhooks/123456789012345678/ABCDEFGHIJKLMNOPQRSTUVWX"
	telegramURL = "telegram://123456789:AAbbccddeeffgghhiijjkkllmmnnooppqqr@telegram?chats=@people"
)

// internet makes the process that sends meet handler, whichever host of the
// chats it asks for: a proxy that answers for all of them, with certificates
// of an authority that this process alone trusts.
func internet(t *testing.T, handler http.Handler) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the test's internet"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		DNSNames: []string{"hooks.slack.com", "discord.com", "api.telegram.org"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	far := httptest.NewUnstartedServer(handler)
	far.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	far.StartTLS()
	t.Cleanup(far.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		out, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", far.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		in, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = out.Close()
			return
		}
		_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
		both.Go(func() { _, _ = io.Copy(in, out); _ = in.Close() })
		both.Wait()
	}))
	t.Cleanup(proxy.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")
	t.Setenv("SSL_CERT_FILE", ca)
}

// hostile is the end of a run whose issue and agent try everything.
func hostile() run.Event {
	return run.Event{
		Kind: run.EventRunEnded, Run: "r1", Repo: "acme/app", URL: "https://github.example/acme/app/issues/7", Iteration: 3, CostUSD: 0.5, Done: 1, Total: 2,
		Subject: "<!channel> @everyone *bold* [x](https://evil.example)", End: run.EndFailed,
		Text: "see https://evil.example or evil.example\r\nBcc: all@evil.example `hunter2-hunter2` <b>&amp;",
	}
}

const (
	hostileLine  = "see https:\u200b//evil.\u200bexample or evil.\u200bexample Bcc: all@\u200bevil.\u200bexample"
	hostileSaid  = "Stopped because of a failure that repeating would not mend. 1 of 2 tasks done after 3 iterations, $0.50."
	hostileTitle = "acme/app: Ralph needs a person: "
)

func TestChats(t *testing.T) {
	tests := map[string]struct {
		url, path, answer string
		want              any
	}{
		"Slack": {slackURL, "hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx", "ok", map[string]any{
			"text": hostileTitle + "&lt;\u200b!channel&gt; @\u200beveryone *bold* [x](https:\u200b//evil.\u200bexample)",
			"attachments": []any{
				map[string]any{"text": hostileSaid},
				map[string]any{"text": hostileLine + " `***` &lt;\u200bb&gt;&amp;amp;"},
				map[string]any{"text": "https://github.example/acme/app/issues/7"},
			},
		}},
		"Discord": {discordURL, "discord.com/api/webhooks/123456789012345678/ABCDEFGHIJKLMNOPQRSTUVWX", "", map[string]any{
			"embeds": []any{map[string]any{
				"title":       hostileTitle + "<\u200b!channel\\> @\u200beveryone \\*bold\\* \\[x\\](https:\u200b//evil.\u200bexample)",
				"description": hostileSaid + "\n" + hostileLine + " \\`\\*\\*\\*\\` <\u200bb\\>&amp;\nhttps://github.example/acme/app/issues/7",
			}},
		}},
		"Telegram": {telegramURL, "api.telegram.org/bot123456789:AAbbccddeeffgghhiijjkkllmmnnooppqqr/sendMessage", `{"ok":true,"result":{}}`, map[string]any{
			"chat_id": "@people", "disable_web_page_preview": true,
			"text": hostileTitle + "<\u200b!channel> @\u200beveryone *bold* [x](https:\u200b//evil.\u200bexample)\n" +
				hostileSaid + "\n" + hostileLine + " `***` <\u200bb>&amp;\nhttps://github.example/acme/app/issues/7",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := make(chan post, 10)
			internet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got <- post{r.Header, r.Host + r.URL.Path, body}
				if tt.answer == "" {
					w.WriteHeader(http.StatusNoContent)
				}
				_, _ = io.WriteString(w, tt.answer)
			}))
			n, failed := start(t, notify.Config{Targets: []notify.Target{{Name: "team", URL: tt.url}}})
			n.Handle(hostile())
			closeSoon(n, patience)
			if said := failed.all(); len(said) > 0 {
				t.Fatalf("failed: %v", said)
			}
			p := <-got
			if p.path != tt.path {
				t.Errorf("posted to %s, want %s", p.path, tt.path)
			}
			var body map[string]any
			if err := json.Unmarshal(p.body, &body); err != nil {
				t.Fatalf("%v in %s", err, p.body)
			}
			for _, boring := range []string{"username", "disable_notification", "reply_to_message_id"} {
				delete(body, boring)
			}
			if embeds, ok := body["embeds"].([]any); ok {
				delete(embeds[0].(map[string]any), "color")
			}
			if diff := cmp.Diff(tt.want, any(body)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What goes wrong is told without the address that it went to; what hangs is
// ended.
func TestChatsThatFail(t *testing.T) {
	for name, url := range map[string]string{"Slack": slackURL, "Discord": discordURL, "Telegram": telegramURL} {
		for what, handler := range map[string]http.HandlerFunc{
			"refuses": func(w http.ResponseWriter, r *http.Request) {
				http.Error(w, "no such hook: "+r.URL.String(), http.StatusNotFound)
			},
			"hangs": func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				internet(t, handler)
				timeout := patience
				if what == "hangs" {
					timeout = 500 * time.Millisecond
				}
				n, failed := start(t, notify.Config{Timeout: timeout, Pauses: []time.Duration{}, Targets: []notify.Target{{Name: "team", URL: url}}})
				n.Handle(hostile())
				closeSoon(n, patience)
				said := failed.all()
				if len(said) != 1 || !strings.HasPrefix(said[0], "team: the message about acme/app (needs_human) was not delivered: ") {
					t.Fatalf("said %v", said)
				}
				if what == "hangs" && !strings.HasSuffix(said[0], "no answer within 500ms") {
					t.Errorf("said %v", said)
				}
				for _, part := range []string{"T00000000", "abcdefgh", "ABCDEFGH", "123456789", "AAbbcc"} {
					if strings.Contains(said[0], part) {
						t.Errorf("the address is told: %s", said[0])
					}
				}
			})
		}
	}
}

// mailServer takes mail, and gives what was said to it in each conversation.
func mailServer(t *testing.T, silent bool) (addr string, talks <-chan string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 10)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer func() { _ = conn.Close() }()
				if silent {
					_, _ = io.Copy(io.Discard, conn)
					return
				}
				said <- smtpTalk(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	return l.Addr().String(), said
}

func smtpTalk(conn net.Conn) string {
	var all strings.Builder
	answer := func(s string) { _, _ = fmt.Fprintf(conn, "%s\r\n", s) }
	answer("220 mail.example")
	data := false
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		line := lines.Text()
		all.WriteString(line + "\n")
		switch {
		case data && line == ".":
			data = false
			answer("250 taken")
		case data:
		case strings.HasPrefix(line, "DATA"):
			data = true
			answer("354 go on")
		case strings.HasPrefix(line, "QUIT"):
			answer("221 bye")
			return all.String()
		default:
			answer("250 fine")
		}
	}
	return all.String()
}

func TestMail(t *testing.T) {
	t.Parallel()
	addr, talks := mailServer(t, false)
	n, failed := start(t, notify.Config{Targets: []notify.Target{{Name: "mail", URL: "smtp://" + addr + "/?from=ralph@example.com&to=ada@example.com"}}})
	ev := hostile()
	ev.Subject = "grün\r\nBcc: all@evil.example\r\n\r\nMy text"
	ev.Text = ".\r\nQUIT"
	n.Handle(ev)
	closeSoon(n, patience)
	if said := failed.all(); len(said) > 0 {
		t.Fatalf("failed: %v", said)
	}
	talk := <-talks
	_, message, _ := strings.Cut(talk, "\nDATA\n")
	head, body, _ := strings.Cut(message, "\n\n")
	parsed, err := mail.ReadMessage(strings.NewReader(head + "\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := (&mime.WordDecoder{}).DecodeHeader(parsed.Header.Get("Subject"))
	if want := "acme/app: Ralph needs a person: grün Bcc: all@evil.example My text"; err != nil || subject != want {
		t.Errorf("subject %q, %v", subject, err)
	}
	delete(parsed.Header, "Subject")
	delete(parsed.Header, "Date")
	if diff := cmp.Diff(mail.Header{"From": {"Ralph Bot <ralph@example.com>"}, "To": {"ada@example.com"}, "Mime-Version": {"1.0"}, "Content-Type": {`text/plain; charset="UTF-8"`}}, parsed.Header); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	want := "Stopped because of a failure that repeating would not mend. 1 of 2 tasks done after 3 iterations, $0.50.\n. QUIT\nhttps://github.example/acme/app/issues/7\n.\nQUIT\n"
	if diff := cmp.Diff(want, strings.ReplaceAll(body, "\n..", "\n.")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A mail server that says nothing is not waited for.
func TestASilentMailServer(t *testing.T) {
	t.Parallel()
	addr, _ := mailServer(t, true)
	n, failed := start(t, notify.Config{Timeout: 300 * time.Millisecond, Pauses: []time.Duration{}, Targets: []notify.Target{{Name: "mail", URL: "smtp://" + addr + "/?from=ralph@example.com&to=ada@example.com"}}})
	n.Handle(hostile())
	closeSoon(n, patience)
	if said := strings.Join(failed.all(), "\n"); !strings.HasSuffix(said, "no answer within 300ms") {
		t.Errorf("said %s", said)
	}
}
