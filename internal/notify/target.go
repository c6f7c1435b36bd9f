package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Target is somewhere to send messages to, as the operator names it.
type Target struct {
	// Name is what people call it.
	Name string
	// URL is a secret: the address of a webhook as Slack, Discord and Telegram have it,
	// or that of a webhook of one's own, which is signed with Secret.
	URL, Secret string
	// Script is the absolute path of a program, in place of a URL.
	Script string
	// Notices are what it is told of; none means everything.
	Notices []run.Notice
	// Serves says for which repositories; nil means all.
	Serves func(repository string) bool
}

// final is an error that trying again does not fix.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Kind is what a target is, for people: "Slack", "a signed webhook". The error
// is a *run.UserError that does not show the address.
func (t Target) Kind() (string, error) {
	kind, _, err := t.open(nil)
	return kind, err
}

// open gives what delivers one message, or gives up when its context ends; it posts over
// transport.
func (t Target) open(transport http.RoundTripper) (kind string, send func(context.Context, Message) error, err error) {
	hint := "docs/server.md#notifications shows the address of each service"
	defer func() {
		if err != nil {
			err = &run.UserError{Message: fmt.Sprintf("notifications: %s: %v", t.Name, err), Hint: hint}
		}
	}()
	if t.Script != "" {
		if !filepath.IsAbs(t.Script) {
			return "", nil, errors.New("the path of the program is not absolute")
		}
		return "a program", script(t.Script).send, nil
	}
	u, err := url.Parse(strings.TrimSpace(t.URL))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "", nil, errors.New("the address is missing, or is none of https")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "", nil, errors.New("plain http would send messages unencrypted; use https")
	}
	// A receiver does not choose where else messages go.
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, s := range services {
		if !slices.Contains(s.hosts, u.Host) {
			continue
		}
		query := u.Query()
		if !s.path().MatchString(u.Path) || s.body(Message{}, query) == nil {
			return "", nil, errors.New(s.usage)
		}
		if s.name == "Telegram" {
			u.RawQuery = "" // it goes into the body
		}
		return s.name, func(ctx context.Context, m Message) error {
			return post(ctx, client, u.String(), nil, s.body(m, query))
		}, nil
	}
	key, err := webhookKey(t.Secret)
	if err != nil {
		hint = "make one with: echo whsec_$(openssl rand -base64 32)"
		return "", nil, err
	}
	return "a signed webhook", func(ctx context.Context, m Message) error {
		at := strconv.FormatInt(time.Now().Unix(), 10)
		return post(ctx, client, u.String(), func(body []byte) http.Header {
			return http.Header{
				"Webhook-Id": {m.ID}, "Webhook-Timestamp": {at}, "Webhook-Signature": {sign(key, m.ID, at, body)},
			}
		}, m)
	}, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// webhookKey reads a secret as standardwebhooks.com has it.
func webhookKey(secret string) ([]byte, error) {
	const least = 24 // bytes, as the specification asks for
	secret = strings.TrimPrefix(strings.TrimSpace(secret), "whsec_")
	if secret == "" {
		return nil, errors.New("a webhook needs a signing secret")
	}
	key, err := base64.StdEncoding.DecodeString(secret)
	if err != nil || len(key) < least {
		return nil, fmt.Errorf("the secret must be whsec_ followed by base64 of at least %d bytes", least)
	}
	return key, nil
}

// sign is the header that says who made a body, and when, as standardwebhooks.com says:
// receivers find libraries for it in most languages.
func sign(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, at)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// post posts message as JSON, with the header that is made of its body. Its errors do not
// show the address; one that is final says that the receiver does not want the message.
func post(ctx context.Context, client *http.Client, address string, header func([]byte) http.Header, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return final{fmt.Errorf("write the message: %w", err)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return final{errors.New("the address cannot be used")}
	}
	if header != nil {
		maps.Copy(req.Header, header(body))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "ralph-bot")
	res, err := client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the other half is the address
		}
		return fmt.Errorf("post the message: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, 16<<10)) // so that the connection can be used again
	if res.StatusCode < 300 {
		return nil
	}
	err = fmt.Errorf("%s answered %d: %s", req.URL.Host, res.StatusCode, answer)
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusRequestTimeout || res.StatusCode >= 500 {
		return err
	}
	return final{err}
}

// script is a program that gets messages: a text for people as its one argument, all
// of it as JSON on its standard input. Nothing of the server's secrets is in its
// environment. The text is cleaned, and begins with our own words.
type script string

// send starts the program once. What it fails with is final: it may have told
// people before it failed, and others wait behind it.
func (s script) send(ctx context.Context, m Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return final{err}
	}
	text := m.text(func(s string) string { return s })
	_, err = proc.Run(ctx, proc.Cmd{
		Path: string(s), Args: []string{strings.TrimLeft(text, "-")}, // never an option
		Env: proc.ScrubbedEnv("RALPH_EVENT=" + string(m.Notice)), Stdin: bytes.NewReader(append(body, '\n')),
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return final{err}
}

// minPart is the least length of a part of an address that is taken for a
// secret; shorter ones are words.
const minPart = 8

// Secrets are the parts of an address that nobody may read, for masking.
func Secrets(address string) []string {
	address = strings.TrimSpace(address)
	if address == "" {
		return nil
	}
	all := []string{address}
	u, err := url.Parse(address)
	if err != nil {
		return all
	}
	parts := strings.Split(u.Path, "/")
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	for _, part := range parts {
		// Telegram has "bot" before its token.
		for _, s := range []string{part, strings.TrimPrefix(part, "bot")} {
			if len(s) >= minPart {
				all = append(all, s)
			}
		}
	}
	return all
}

var anyURL = regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^\s"'<>/?#@]*)[^\s"'<>]*`)

// hide takes addresses, and parts of them, out of what went wrong.
func hide(text string, secrets []string) string {
	text = anyURL.ReplaceAllString(text, "$1/…")
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "…")
	}
	return strs.Cut(strs.OneLine(run.Printable(text)), maxDetail)
}
