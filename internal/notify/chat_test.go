package notify_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/notify"
	"github.com/org/ralph-action/internal/run"
)

const (
	slackURL    = "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"
	slackBotURL = "slack://xoxb:123456789012-1234567890123-abcdefghijklmnopqrstuvwx@C0123456789"
	discordURL  = "https://discord.com/api/webhooks/123456789012345678/ABCDEFGHIJKLMNOPQRSTUVWX"
	telegramURL = "telegram://123456789:AAbbccddeeffgghhiijjkkllmmnnooppqqr@telegram?chats=@people"
)

// internet is a transport that meets handler, whichever host is asked for.
func internet(t *testing.T, handler http.Handler) http.RoundTripper {
	t.Helper()
	far := httptest.NewTLSServer(handler)
	t.Cleanup(far.Close)
	transport := far.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.ServerName = "example.com" // whose certificate it has
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, far.Listener.Addr().String())
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// hostile is the end of a run whose issue and agent try everything.
func hostile() run.Event {
	return run.Event{
		Kind: run.EventRunEnded, Run: "r1", Repo: "acme/app", URL: "https://github.example/acme/app/issues/7", Iteration: 5,
		Iterations: 3, CostUSD: 0.5, Done: 1, Total: 2,
		Subject: "<!channel> @everyone *bold* [x](https://evil.example)", End: run.EndFailed,
		Text: "see https://evil.example or evil.example\r\nBcc: all@evil.example `hunter2-hunter2` <b>&amp;",
	}
}

const (
	hostileLine  = "see https:\u200b//evil.\u200bexample or evil.\u200bexample Bcc: all@\u200bevil.\u200bexample"
	hostileSaid  = "Stopped: retrying won't fix this. 1 of 2 tasks done after 3 iterations, $0.50."
	hostileTitle = "acme/app: Ralph needs a person: "
)

func TestChats(t *testing.T) {
	t.Parallel()
	slackText := hostileTitle + "&lt;\u200b!channel&gt; @\u200beveryone *bold* [x](https:\u200b//evil.\u200bexample)"
	slackLines := []any{
		map[string]any{"text": hostileSaid},
		map[string]any{"text": hostileLine + " `***` &lt;\u200bb&gt;&amp;amp;"},
		map[string]any{"text": "https://github.example/acme/app/issues/7"},
	}
	discord := map[string]any{
		"embeds": []any{map[string]any{
			"title": hostileTitle + "<\u200b!channel\\> @\u200beveryone \\*bold\\* \\[x\\](https:\u200b//evil.\u200bexample)",
			"description": hostileSaid + "\n" + hostileLine +
				" \\`\\*\\*\\*\\` <\u200bb\\>&amp;\nhttps://github.example/acme/app/issues/7",
		}},
	}
	telegram := func(chat string, topic int) map[string]any {
		m := map[string]any{
			"chat_id": chat, "disable_web_page_preview": true,
			"text": hostileTitle + "<\u200b!channel> @\u200beveryone *bold* [x](https:\u200b//evil.\u200bexample)\n" +
				hostileSaid + "\n" + hostileLine + " `***` <\u200bb>&amp;\nhttps://github.example/acme/app/issues/7",
		}
		if topic != 0 {
			m["message_thread_id"] = float64(topic)
		}
		return m
	}
	const slackHook, discordHook, telegramBot = "hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx",
		"discord.com/api/webhooks/123456789012345678/ABCDEFGHIJKLMNOPQRSTUVWX",
		"api.telegram.org/bot123456789:AAbbccddeeffgghhiijjkkllmmnnooppqqr/sendMessage"
	tests := map[string]struct {
		url, to, authorization, answer string
		want                           []any
	}{
		"Slack": {
			slackURL, slackHook, "", "ok", []any{map[string]any{"text": slackText, "attachments": slackLines}},
		},
		"Slack by scheme": {
			"slack://hook:T00000000-B00000000-abcdefghijklmnopqrstuvwx@webhook", slackHook, "", "ok",
			[]any{map[string]any{"text": slackText, "attachments": slackLines}},
		},
		"a thread of Slack": {
			slackURL + "?thread_ts=1503435956.000247", slackHook, "", "ok",
			[]any{map[string]any{"text": slackText, "attachments": slackLines, "thread_ts": "1503435956.000247"}},
		},
		"a bot of Slack": {
			slackBotURL, "slack.com/api/chat.postMessage", "Bearer xoxb-123456789012-1234567890123-abcdefghijklmnopqrstuvwx",
			`{"ok":true}`,
			[]any{map[string]any{"text": slackText, "attachments": slackLines, "channel": "C0123456789"}},
		},
		"Discord":             {discordURL, discordHook, "", "", []any{discord}},
		"Discord by scheme":   {"discord://ABCDEFGHIJKLMNOPQRSTUVWX@123456789012345678", discordHook, "", "", []any{discord}},
		"a thread of Discord": {discordURL + "?thread_id=42", discordHook + "?thread_id=42", "", "", []any{discord}},
		"Telegram":            {telegramURL, telegramBot, "", `{"ok":true,"result":{}}`, []any{telegram("@people", 0)}},
		"chats of Telegram": {
			telegramURL + ",-1001234:7", telegramBot, "", `{"ok":true,"result":{}}`,
			[]any{telegram("@people", 0), telegram("-1001234", 7)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan post, 10)
			transport := internet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got <- post{r.Header, r.Host + r.URL.RequestURI(), body}
				if tt.answer == "" {
					w.WriteHeader(http.StatusNoContent)
				}
				_, _ = io.WriteString(w, tt.answer)
			}))
			n, failed := start(t, notify.Config{Transport: transport, Targets: []notify.Target{{Name: "team", URL: tt.url}}})
			n.Handle(hostile())
			closeSoon(n, patience)
			if said := failed.all(); len(said) > 0 {
				t.Fatalf("failed: %v", said)
			}
			close(got)
			var bodies []any
			for p := range got {
				if p.path != tt.to || p.header.Get("Authorization") != tt.authorization ||
					p.header.Get("Content-Type") != "application/json" {
					t.Errorf("posted to %s with %v, want %s", p.path, p.header, tt.to)
				}
				var body any
				if err := json.Unmarshal(p.body, &body); err != nil {
					t.Fatalf("%v in %s", err, p.body)
				}
				bodies = append(bodies, body)
			}
			if diff := cmp.Diff(tt.want, bodies); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What goes wrong is told without the address that it went to; what hangs is
// ended, and no service sends a message elsewhere.
func TestChatsThatFail(t *testing.T) {
	t.Parallel()
	failures := map[string]struct {
		handler http.HandlerFunc
		posts   int
		want    string
	}{
		"refuses": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no such hook: "+r.URL.String(), http.StatusNotFound)
		}, 1, "answered 404: no such hook: "},
		"is down": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, 2, "answered 502"},
		"sends it elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/", http.StatusTemporaryRedirect)
		}, 1, "answered 307"},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // to return would be an answer
		}, 2, "no answer within 100ms"},
		"refuses with 200": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"ok":false,"error":"channel_not_found"}`)
		}, 2, "the message was refused: channel_not_found"},
	}
	for name, url := range map[string]string{
		"Slack": slackURL, "a bot of Slack": slackBotURL, "Discord": discordURL, "Telegram": telegramURL,
	} {
		for what, tt := range failures {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				var posts atomic.Int32
				transport := internet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if r.Host == "evil.example" {
						t.Error("a redirection was followed")
					}
					posts.Add(1)
					tt.handler(w, r)
				}))
				timeout := patience
				if what == "hangs" {
					timeout = 100 * time.Millisecond
				}
				n, failed := start(t, notify.Config{
					Timeout: timeout, Pauses: []time.Duration{time.Millisecond}, Transport: transport,
					Targets: []notify.Target{{Name: "team", URL: url}},
				})
				n.Handle(hostile())
				closeSoon(n, patience)
				said := failed.all()
				if len(said) != 1 || !strings.HasPrefix(said[0],
					"team: the message about acme/app (needs_human) was not delivered: ") || !strings.Contains(said[0], tt.want) {
					t.Fatalf("said %v, want %s", said, tt.want)
				}
				// A hung attempt may be over before the server has seen it.
				if got := int(posts.Load()); got != tt.posts && what != "hangs" {
					t.Errorf("%d posts, want %d", got, tt.posts)
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
	n, failed := start(t, notify.Config{
		Targets: []notify.Target{{Name: "mail", URL: "smtp://" + addr + "/?from=ralph@example.com&to=ada@example.com"}},
	})
	ev := hostile()
	ev.Time = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
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
	if diff := cmp.Diff(mail.Header{
		"Date": {"Sun, 01 Mar 2026 12:00:00 +0000"}, "From": {"Ralph Bot <ralph@example.com>"}, "To": {"ada@example.com"},
		"Mime-Version": {"1.0"}, "Content-Type": {`text/plain; charset="UTF-8"`}, "Content-Transfer-Encoding": {"8bit"},
	}, parsed.Header); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	want := "Stopped: retrying won't fix this. 1 of 2 tasks done after 3 iterations, $0.50.\n. QUIT\nhttps://github.example/acme/app/issues/7\n.\nQUIT\n"
	if diff := cmp.Diff(want, strings.ReplaceAll(body, "\n..", "\n.")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A mail server that says nothing is not waited for.
func TestASilentMailServer(t *testing.T) {
	t.Parallel()
	addr, _ := mailServer(t, true)
	n, failed := start(t, notify.Config{
		Timeout: 300 * time.Millisecond, Pauses: []time.Duration{},
		Targets: []notify.Target{{Name: "mail", URL: "smtp://" + addr + "/?from=ralph@example.com&to=ada@example.com"}},
	})
	n.Handle(hostile())
	closeSoon(n, patience)
	if said := strings.Join(failed.all(), "\n"); !strings.HasSuffix(said, "no answer within 300ms") {
		t.Errorf("said %s", said)
	}
}
