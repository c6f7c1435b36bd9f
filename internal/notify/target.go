package notify

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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

// sender delivers one message, or gives up when ctx ends.
type sender interface {
	send(ctx context.Context, m Message) error
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

// open makes a target's sender, which posts over transport.
func (t Target) open(transport http.RoundTripper) (kind string, _ sender, err error) {
	bad := func(message, hint string) (string, sender, error) {
		return "", nil, &run.UserError{Message: fmt.Sprintf("notifications: %s: %s", t.Name, message), Hint: hint}
	}
	if t.Script != "" {
		if !filepath.IsAbs(t.Script) {
			return bad("the path of the program is not absolute", "write all of it")
		}
		return "a program", script{path: t.Script}, nil
	}
	u, err := url.Parse(strings.TrimSpace(t.URL))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return bad("the address is missing, or is none of https", addressHint)
	}
	client := newClient(transport)
	kind, s, err := newChat(u, client)
	switch {
	case err != nil:
		return bad(err.Error(), addressHint)
	case s != nil:
		return kind, s, nil
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return bad("plain http would send messages unencrypted", "use https")
	}
	key, err := webhookKey(t.Secret)
	if err != nil {
		return bad(err.Error(), "make one with: echo whsec_$(openssl rand -base64 32)")
	}
	return "a signed webhook", webhook{url: u.String(), key: key, client: client}, nil
}

const addressHint = "docs/server.md#notifications shows the address of each service"

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// minKey is the least a key may hold, in bytes; the specification asks for 24.
const minKey = 24

// webhookKey reads a secret as standardwebhooks.com has it.
func webhookKey(secret string) ([]byte, error) {
	secret = strings.TrimPrefix(strings.TrimSpace(secret), "whsec_")
	if secret == "" {
		return nil, fmt.Errorf("a webhook needs a signing secret")
	}
	key, err := base64.StdEncoding.DecodeString(secret)
	if err != nil || len(key) < minKey {
		return nil, fmt.Errorf("the secret must be whsec_ followed by base64 of at least %d bytes", minKey)
	}
	return key, nil
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
	slices.Sort(all)
	return slices.Compact(all)
}

var anyURL = regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^\s"'<>]+`)

// hide takes addresses, and parts of them, out of what went wrong.
func hide(text string, secrets []string) string {
	text = anyURL.ReplaceAllStringFunc(text, func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			return "…"
		}
		return u.Scheme + "://" + u.Host + "/…"
	})
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "…")
	}
	return strs.Cut(strs.OneLine(run.Printable(text)), maxDetail)
}
