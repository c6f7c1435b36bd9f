package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// chat posts messages to a chat service, in the form that the service takes.
type chat struct {
	client *http.Client
	url    string
	header http.Header
	// bodies are what is posted of a message, each in a request of its own.
	bodies func(Message) []any
}

// send tries each body, so that a room that is gone does not keep others from
// hearing.
func (c chat) send(ctx context.Context, m Message) error {
	var errs []error
	for _, body := range c.bodies(m) {
		errs = append(errs, c.one(ctx, body))
	}
	return errors.Join(errs...)
}

func (c chat) one(ctx context.Context, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return final{fmt.Errorf("write the message: %w", err)}
	}
	answer, err := post(ctx, c.client, c.url, c.header, b)
	if err != nil {
		return err
	}
	// Slack's API refuses with 200.
	var said struct {
		OK    *bool  `json:"ok"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(answer, &said); err == nil && said.OK != nil && !*said.OK {
		return fmt.Errorf("the message was refused: %s", said.Error)
	}
	return nil
}

// slackToken matches a webhook's or a bot's token, with what is before the @ of
// an address.
var slackToken = strs.Lazy(`^(?:(hook)[-:]([A-Z0-9]{9,}-[A-Z0-9]{9,}-[A-Za-z0-9]{24,})|(xox[a-z])[-:]([A-Za-z0-9-]{24,}))$`)

// newSlack reads slack://hook:A-B-C@webhook, an incoming webhook, or
// slack://xoxb:TOKEN@CHANNEL, a bot.
func newSlack(u *url.URL, client *http.Client) (sender, error) {
	query, err := options(u, "thread_ts")
	if err != nil {
		return nil, err
	}
	user := u.User.Username()
	if password, ok := u.User.Password(); ok {
		user += ":" + password
	}
	token := slackToken().FindStringSubmatch(user)
	if token == nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("it is neither slack://hook:A-B-C@webhook nor slack://xoxb:TOKEN@CHANNEL")
	}
	c := chat{client: client, url: "https://hooks.slack.com/services/" + strings.ReplaceAll(token[2], "-", "/")}
	channel := ""
	if token[1] == "" {
		channel = u.Hostname()
		c.url = "https://slack.com/api/chat.postMessage"
		c.header = http.Header{"Authorization": {"Bearer " + token[3] + "-" + token[4]}}
	}
	c.bodies = func(m Message) []any { return []any{newSlackMessage(m, channel, query.Get("thread_ts"))} }
	return c, nil
}

// slackMessage is what chat.postMessage and incoming webhooks take.
type slackMessage struct {
	Channel     string            `json:"channel,omitempty"`
	Thread      string            `json:"thread_ts,omitempty"`
	Text        string            `json:"text"`
	Attachments []slackAttachment `json:"attachments"`
}

type slackAttachment struct {
	Text string `json:"text"`
}

func newSlackMessage(m Message, channel, thread string) slackMessage {
	title, body := m.text(slackText())
	out := slackMessage{Channel: channel, Thread: thread, Text: title}
	for line := range strings.SplitSeq(body, "\n") {
		out.Attachments = append(out.Attachments, slackAttachment{line})
	}
	return out
}

// newDiscord reads discord://TOKEN@ID, a channel's webhook.
func newDiscord(u *url.URL, client *http.Client) (sender, error) {
	query, err := options(u, "thread_id")
	if err != nil {
		return nil, err
	}
	if u.User.Username() == "" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("it is not discord://TOKEN@ID")
	}
	to := (&url.URL{Scheme: "https", Host: "discord.com"}).JoinPath("api", "webhooks", url.PathEscape(u.Host),
		url.PathEscape(u.User.Username()))
	to.RawQuery = query.Encode()
	return chat{client: client, url: to.String(), bodies: func(m Message) []any { return []any{newDiscordMessage(m)} }},
		nil
}

// discordMessage is what a webhook of Discord takes.
type discordMessage struct {
	Embeds []discordEmbed `json:"embeds"`
}

type discordEmbed struct {
	Title       string `json:"title"`
	Description string `json:"description"`
}

func newDiscordMessage(m Message) discordMessage {
	title, body := m.text(discordText())
	return discordMessage{[]discordEmbed{{title, body}}}
}

var telegramToken = strs.Lazy(`^[0-9]+:[a-zA-Z0-9_-]+$`)

// newTelegram reads telegram://BOT_TOKEN@telegram?chats=@CHANNEL,NUMBER,NUMBER:TOPIC.
func newTelegram(u *url.URL, client *http.Client) (sender, error) {
	query, err := options(u, "chats")
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	token := u.User.Username() + ":" + password
	if !telegramToken().MatchString(token) || query.Get("chats") == "" {
		return nil, errors.New("it is not telegram://BOT_TOKEN@telegram?chats=@CHANNEL")
	}
	bodies := func(m Message) []any {
		var all []any
		for chat := range strings.SplitSeq(query.Get("chats"), ",") {
			all = append(all, newTelegramMessage(m, chat))
		}
		return all
	}
	return chat{client: client, url: "https://api.telegram.org/bot" + token + "/sendMessage", bodies: bodies}, nil
}

// telegramMessage is what sendMessage takes.
type telegramMessage struct {
	Chat           string `json:"chat_id"`
	Topic          int    `json:"message_thread_id,omitempty"`
	Text           string `json:"text"`
	DisablePreview bool   `json:"disable_web_page_preview"`
}

func newTelegramMessage(m Message, chat string) telegramMessage {
	title, body := m.text(telegramText())
	id, topic, _ := strings.Cut(strings.TrimSpace(chat), ":")
	number, _ := strconv.Atoi(topic) // 0 is no topic
	return telegramMessage{Chat: id, Topic: number, Text: title + "\n" + body, DisablePreview: true}
}

// options are the query of an address. One that nobody reads is an error: it was
// meant to do something.
func options(u *url.URL, known ...string) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("what follows the ? cannot be read")
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("there is no option %.20q; what it takes is %s", key, strings.Join(known, ", "))
		}
	}
	return query, nil
}
