package ghapp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/golang-jwt/jwt/v4"
	"github.com/google/go-github/v60/github"
)

// Permissions are what an App has to be granted, as GitHub names it: what its
// tokens ask for, all purposes together.
func Permissions() map[string]string {
	all := make(map[string]string)
	for _, s := range []scope{scopeRead, scopeWrite, scopeChecks} {
		for name, want := range permissionMap(permissionsOf(s)) {
			if all[name] != "write" {
				all[name] = want
			}
		}
	}
	return all
}

// Manifest describes an App that is to be made, as GitHub's page for new Apps
// takes it.
type Manifest struct {
	Name string `json:"name"`
	// URL is the App's home page.
	URL  string       `json:"url"`
	Hook ManifestHook `json:"hook_attributes"`
	// RedirectURL is where GitHub sends the browser with the code for Register.
	RedirectURL string `json:"redirect_url"`
	Public      bool   `json:"public"`
	// Permissions and Events are the App's own; GitHub refuses an event that no
	// permission covers.
	Permissions map[string]string `json:"default_permissions"`
	Events      []string          `json:"default_events"`
}

// ManifestHook is where an App's webhooks go.
type ManifestHook struct {
	URL    string `json:"url"`
	Active bool   `json:"active"`
}

// Registration is an App that GitHub has made of a manifest, with its secrets.
// It prints as its name only.
type Registration struct {
	AppID int64
	Slug  string
	// URL is the App's public page.
	URL string
	// PrivateKey is in PEM.
	PrivateKey, WebhookSecret string
	ClientSecret              string
}

// String gives the App's name.
func (r Registration) String() string { return r.Slug }

// GoString gives the App's name.
func (r Registration) GoString() string { return r.Slug }

var (
	registrationCode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`) })
	slugPattern      = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	})
)

// Register trades the code that came back from GitHub's page for the App's
// credentials. A code works once, within an hour: ErrNotFound says that this one
// does not. transport may be nil.
func Register(ctx context.Context, apiURL, code string, transport http.RoundTripper) (Registration, error) {
	const op = "register the App"
	if !registrationCode().MatchString(code) {
		// It becomes part of a path.
		return Registration{}, &Error{Op: op, Class: NotFound, Message: "the code is none of GitHub's"}
	}
	api, err := parseURL("API", strings.TrimSuffix(apiURL, "/")+"/")
	if err != nil {
		return Registration{}, err
	}
	if transport == nil {
		transport = http.DefaultTransport
	}
	client := github.NewClient(httpClient(timed{transport.RoundTrip}))
	client.BaseURL = api
	app, _, err := client.Apps.CompleteAppManifest(ctx, code)
	if err != nil {
		return Registration{}, wrap(op, err)
	}
	r := Registration{
		AppID: app.GetID(), Slug: app.GetSlug(), URL: app.GetHTMLURL(),
		PrivateKey: app.GetPEM(), WebhookSecret: app.GetWebhookSecret(),
		ClientSecret: app.GetClientSecret(),
	}
	if err := r.check(); err != nil {
		return Registration{}, fmt.Errorf("%s: the answer cannot be used: %w", op, err)
	}
	return r, nil
}

// check refuses what could not be worked with, before it is stored.
func (r Registration) check() error {
	if r.AppID <= 0 || !slugPattern().MatchString(r.Slug) {
		return errors.New("it names no App")
	}
	if u, err := url.Parse(r.URL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("it has no page of the App")
	}
	if strings.TrimSpace(r.WebhookSecret) == "" {
		return errors.New("it has no webhook secret")
	}
	if _, err := jwt.ParseRSAPrivateKeyFromPEM([]byte(r.PrivateKey)); err != nil {
		return errors.New("it has no private key") // what the parser says may quote the key
	}
	return nil
}
