package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"net/url"
	"os"

	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/discord"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/slack"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/telegram"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/email/smtp"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"github.com/org/ralph-action/internal/proc"
)

// SendCommand is the argument with which this program has to call Send.
const SendCommand = "notify-send"

// maxParcel bounds what Send reads.
const maxParcel = 64 << 10

// parcel is a message on its way through shoutrrr, with its address.
type parcel struct{ URL, Title, Body string }

// shout sends through shoutrrr, in a process of its own: the library takes no
// context, repeats for minutes, and waits for ever for a mail server that says
// nothing. A process can be ended.
type shout struct {
	url  *url.URL
	self string
	env  []string
}

func (s shout) check() error {
	_, err := service(s.url)
	return err
}

func (s shout) send(ctx context.Context, m Message) error {
	p := parcel{URL: s.url.String()}
	p.Title, p.Body = m.text(media()[s.url.Scheme])
	switch s.url.Scheme {
	case "smtp":
		p.Title = mime.QEncoding.Encode("utf-8", p.Title) // it goes into a header
	case "telegram":
		// With a title of its own the text would be taken for HTML.
		p.Title, p.Body = "", p.Title+"\n"+p.Body
	}
	input, err := json.Marshal(p)
	if err != nil {
		return final{fmt.Errorf("pack the message: %w", err)}
	}
	_, err = proc.Run(ctx, proc.Cmd{Path: s.self, Args: []string{SendCommand}, Env: s.env, Stdin: bytes.NewReader(input)})
	if exit, ok := errors.AsType[*proc.ExitError](err); ok && exit.Cause == nil && len(exit.Stderr) > 0 {
		return errors.New(string(exit.Stderr))
	}
	return err
}

func media() map[string]medium {
	return map[string]medium{"slack": slackText(), "discord": discordText(), "telegram": telegramText(), "smtp": plainText()}
}

// SendEnv is what the process that sends gets of the environment: how to reach
// the outside, and whom to trust there.
func SendEnv() []string {
	var env []string
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return proc.ScrubbedEnv(env...)
}

// Send reads a message from in and sends it through shoutrrr. It is called in a
// process of its own, may take for ever, and changes how that process speaks
// HTTP.
func Send(in io.Reader) error {
	var p parcel
	if err := json.NewDecoder(io.LimitReader(in, maxParcel)).Decode(&p); err != nil {
		return fmt.Errorf("read the message: %w", err)
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return errors.New("the address cannot be read")
	}
	s, err := service(u)
	if err != nil {
		return err
	}
	params := types.Params{}
	if p.Title != "" {
		params.SetTitle(p.Title)
	}
	seen := &witness{below: http.DefaultTransport}
	http.DefaultTransport = seen // the clients of the library are out of reach
	if err := s.Send(p.Body, &params); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return seen.err
}

// witness remembers how the last request went: for Telegram the library takes a
// network that is down, or an answer that is no JSON, for success.
type witness struct {
	below http.RoundTripper
	err   error
}

// RoundTrip implements http.RoundTripper.
func (w *witness) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := w.below.RoundTrip(req)
	switch {
	case err != nil:
		w.err = err
	case res.StatusCode >= 300:
		w.err = fmt.Errorf("%s answered %d", req.URL.Host, res.StatusCode)
	default:
		w.err = nil
	}
	return res, err
}

// service is shoutrrr's for an address.
func service(u *url.URL) (types.Service, error) {
	var s types.Service
	switch u.Scheme {
	case "slack":
		s = &slack.Service{}
	case "discord":
		s = &discord.Service{}
		u = with(u, "splitlines", "No") // or each line is a box of its own
	case "telegram":
		s = &telegram.Service{}
		u = with(u, "preview", "No")
	case "smtp":
		s = &smtp.Service{}
		// Neither password nor message goes over the network in the clear because
		// somebody on the way says that the server knows no TLS.
		if !loopback(u.Hostname()) {
			u = with(u, "requirestarttls", "Yes")
		}
		u = with(u, "fromname", "Ralph Bot")
	default:
		return nil, fmt.Errorf("%.20q is no service", u.Scheme)
	}
	if err := s.Initialize(u, log.New(io.Discard, "", 0)); err != nil {
		return nil, fmt.Errorf("read the address: %w", err)
	}
	return s, nil
}

// with sets a property of an address where it does not say itself.
func with(u *url.URL, key, value string) *url.URL {
	query := u.Query()
	if query.Has(key) {
		return u
	}
	query.Set(key, value)
	clone := *u
	clone.RawQuery = query.Encode()
	return &clone
}
