package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// chat posts messages to a chat service, in the form that the service takes.
type chat struct {
	client *http.Client
	url    string
	// body is what is posted of a message.
	body func(Message) any
}

func (c chat) send(ctx context.Context, m Message) error {
	b, err := json.Marshal(c.body(m))
	if err != nil {
		return final{fmt.Errorf("write the message: %w", err)}
	}
	return post(ctx, c.client, c.url, nil, b)
}

// The addresses that the services show people.
var (
	slackPath    = strs.Lazy(`^/services/[A-Z0-9]{9,}/[A-Z0-9]{9,}/[A-Za-z0-9]{20,}$`)
	discordPath  = strs.Lazy(`^/api/webhooks/[0-9]+/[A-Za-z0-9_-]+$`)
	telegramPath = strs.Lazy(`^/bot[0-9]+:[A-Za-z0-9_-]+/sendMessage$`)
)

// newChat is the chat service that an address belongs to, with its name, or nil where it
// belongs to none. The error says what address the service would take.
func newChat(u *url.URL, client *http.Client) (name string, _ sender, _ error) {
	if u.Scheme != "https" {
		return "", nil, nil
	}
	query := u.Query()
	switch u.Host {
	case "hooks.slack.com":
		if !slackPath().MatchString(u.Path) || u.RawQuery != "" {
			return "", nil, errors.New("a webhook of Slack is https://hooks.slack.com/services/A/B/C")
		}
		return "Slack", chat{client, u.String(), func(m Message) any {
			return map[string]any{"text": m.text(escapeSlack)}
		}}, nil
	case "discord.com", "discordapp.com":
		if !discordPath().MatchString(u.Path) {
			return "", nil, errors.New("a webhook of Discord is https://discord.com/api/webhooks/ID/TOKEN, with ?thread_id=ID for a thread")
		}
		return "Discord", chat{client, u.String(), func(m Message) any {
			// An embed may be twice as long as a plain message, and mentions nobody.
			return map[string]any{"embeds": []any{map[string]any{"description": m.text(escapeDiscord)}}}
		}}, nil
	case "api.telegram.org":
		chatID := query.Get("chat_id")
		if !telegramPath().MatchString(u.Path) || chatID == "" {
			return "", nil, errors.New("for Telegram it is https://api.telegram.org/botTOKEN/sendMessage?chat_id=CHAT, with &message_thread_id=ID for a topic")
		}
		to := *u
		to.RawQuery = ""
		return "Telegram", chat{client, to.String(), func(m Message) any {
			body := map[string]any{
				"chat_id": chatID, "text": m.text(inert), "link_preview_options": map[string]any{"is_disabled": true},
			}
			if topic := query.Get("message_thread_id"); topic != "" {
				body["message_thread_id"] = topic
			}
			return body
		}}, nil
	}
	return "", nil, nil
}

// zeroWidth shows nothing and breaks what a chat would make more than text of.
const zeroWidth = "\u200b"

// inert breaks mentions and addresses: chats make links, and previews of what is behind
// them, of anything that looks like one.
func inert(s string) string {
	var b strings.Builder
	for i, r := range s {
		b.WriteRune(r)
		switch {
		case r == '@' || r == '#' || r == '<':
			b.WriteString(zeroWidth)
		case (r == '.' || r == ':') && i+1 < len(s) && s[i+1] != ' ':
			b.WriteString(zeroWidth)
		}
	}
	return b.String()
}

// escapeSlack follows docs.slack.dev/messaging/formatting-message-text#escaping.
func escapeSlack(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(inert(s))
}

// escapeDiscord keeps Markdown from working.
func escapeDiscord(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "~", `\~`, "|", `\|`, "`", "\\`", ">", `\>`, "[", `\[`, "]", `\]`).
		Replace(inert(s))
}
