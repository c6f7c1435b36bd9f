package notify

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// services are the chats that messages are posted to, known by the addresses that they
// show people.
var services = []struct {
	name  string
	hosts []string
	path  func() *regexp.Regexp
	usage string
	// body is what is posted of a message; nil where the address lacks something.
	body func(m Message, query url.Values) any
}{
	{
		"Slack", []string{"hooks.slack.com"}, strs.Lazy(`^/services/[A-Z0-9]{9,}/[A-Z0-9]{9,}/[A-Za-z0-9]{20,}$`),
		"a webhook of Slack is https://hooks.slack.com/services/A/B/C",
		func(m Message, query url.Values) any {
			if len(query) > 0 {
				return nil
			}
			return map[string]any{"text": m.text(escapeSlack)}
		},
	},
	{
		"Discord", []string{"discord.com", "discordapp.com"}, strs.Lazy(`^/api/webhooks/[0-9]+/[A-Za-z0-9_-]+$`),
		"a webhook of Discord is https://discord.com/api/webhooks/ID/TOKEN, with ?thread_id=ID for a thread",
		func(m Message, _ url.Values) any {
			// An embed may be twice as long as a plain message, and mentions nobody.
			return map[string]any{"embeds": []any{map[string]any{"description": m.text(escapeDiscord)}}}
		},
	},
	{
		"Telegram", []string{"api.telegram.org"}, strs.Lazy(`^/bot[0-9]+:[A-Za-z0-9_-]+/sendMessage$`),
		"for Telegram it is https://api.telegram.org/botTOKEN/sendMessage?chat_id=CHAT, with &message_thread_id=ID for a topic",
		func(m Message, query url.Values) any {
			if query.Get("chat_id") == "" {
				return nil
			}
			body := map[string]any{
				"chat_id": query.Get("chat_id"), "text": m.text(inert), "link_preview_options": map[string]any{"is_disabled": true},
			}
			if topic := query.Get("message_thread_id"); topic != "" {
				body["message_thread_id"] = topic
			}
			return body
		},
	},
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
