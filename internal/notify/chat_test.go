package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/notify"
	"github.com/org/ralph-action/internal/run"
)

const (
	slackURL    = "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"
	discordURL  = "https://discord.com/api/webhooks/123456789012345678/ABCDEFGHIJKLMNOPQRSTUVWX"
	telegramURL = "https://api.telegram.org/bot123456789:AAbbccddeeffgghhiijjkkllmmnnooppqqr/sendMessage?chat_id=@people"
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
	const url = "\nhttps://github.example/acme/app/issues/7"
	slack := map[string]any{
		"text": hostileTitle + "&lt;\u200b!channel&gt; @\u200beveryone *bold* [x](https:\u200b//evil.\u200bexample)\n" +
			hostileSaid + "\n" + hostileLine + " `***` &lt;\u200bb&gt;&amp;amp;" + url,
	}
	discord := map[string]any{"embeds": []any{map[string]any{
		"description": hostileTitle + "<\u200b!channel\\> @\u200beveryone \\*bold\\* \\[x\\](https:\u200b//evil.\u200bexample)\n" +
			hostileSaid + "\n" + hostileLine + " \\`\\*\\*\\*\\` <\u200bb\\>&amp;" + url,
	}}}
	telegram := func(chat string) map[string]any {
		return map[string]any{
			"chat_id": chat, "link_preview_options": map[string]any{"is_disabled": true},
			"text": hostileTitle + "<\u200b!channel> @\u200beveryone *bold* [x](https:\u200b//evil.\u200bexample)\n" +
				hostileSaid + "\n" + hostileLine + " `***` <\u200bb>&amp;" + url,
		}
	}
	topic := telegram("-1001234")
	topic["message_thread_id"] = "7"
	const discordHook, telegramBot = "discord.com/api/webhooks/123456789012345678/ABCDEFGHIJKLMNOPQRSTUVWX",
		"api.telegram.org/bot123456789:AAbbccddeeffgghhiijjkkllmmnnooppqqr/sendMessage"
	tests := map[string]struct {
		url, to, answer string
		want            map[string]any
	}{
		"Slack":               {slackURL, "hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx", "ok", slack},
		"Discord":             {discordURL, discordHook, "", discord},
		"a thread of Discord": {discordURL + "?thread_id=42", discordHook + "?thread_id=42", "", discord},
		"Telegram":            {telegramURL, telegramBot, `{"ok":true,"result":{}}`, telegram("@people")},
		"a topic of Telegram": {
			strings.Replace(telegramURL, "@people", "-1001234&message_thread_id=7", 1), telegramBot, `{"ok":true,"result":{}}`, topic,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if kind, err := (notify.Target{URL: tt.url + "\n"}).Kind(); err != nil || !strings.Contains(name, kind) {
				t.Errorf("it is %q: %v", kind, err)
			}
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
				if p.path != tt.to || p.header.Get("Content-Type") != "application/json" {
					t.Errorf("posted to %s with %v, want %s", p.path, p.header, tt.to)
				}
				var body any
				if err := json.Unmarshal(p.body, &body); err != nil {
					t.Fatalf("%v in %s", err, p.body)
				}
				bodies = append(bodies, body)
			}
			if diff := cmp.Diff([]any{tt.want}, bodies); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What a chat says of a message is told without the address that it went to, and what hangs is ended.
func TestChatsThatFail(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"Slack": slackURL, "Discord": discordURL, "Telegram": telegramURL} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s hangs %t", name, hangs), func(t *testing.T) {
				t.Parallel()
				want, timeout := "answered 404: no such hook: ", patience
				if hangs {
					want, timeout = "no answer within 100ms", 100*time.Millisecond
				}
				transport := internet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if hangs {
						<-r.Context().Done()
						panic(http.ErrAbortHandler) // to return would be an answer
					}
					http.Error(w, "no such hook: "+r.URL.String(), http.StatusNotFound)
				}))
				n, failed := start(t, notify.Config{
					Timeout: timeout, Transport: transport, Targets: []notify.Target{{Name: "team", URL: url}},
				})
				n.Handle(hostile())
				closeSoon(n, patience)
				told := failed.all()
				if len(told) != 1 || !strings.HasPrefix(told[0],
					"team: the message about acme/app (needs_human) was not delivered: ") || !strings.Contains(told[0], want) {
					t.Fatalf("told %v, want %s", told, want)
				}
				for _, part := range []string{"T00000000", "abcdefgh", "ABCDEFGH", "123456789", "AAbbcc"} {
					if strings.Contains(told[0], part) {
						t.Errorf("the address is told: %s", told[0])
					}
				}
			})
		}
	}
}
