package ghapp

import (
	"bytes"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/golang-jwt/jwt/v4"
	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/run"
)

const (
	// maxErrorBody and maxGraphQLBody bound what is read of an answer.
	maxErrorBody   = 64 << 10
	maxGraphQLBody = 8 << 20
	defaultAPI     = "https://api.github.com/"
)

// Config says which App speaks to which GitHub.
type Config struct {
	// APIURL is the REST root: https://api.github.com/ (the default) or
	// https://HOST/api/v3/.
	APIURL string
	// GraphQLURL is the GraphQL endpoint; empty derives it from APIURL.
	GraphQLURL string
	// WebURL is the root people see; empty derives it from APIURL.
	WebURL string
	AppID  int64
	// PrivateKey is the App's RSA key in PEM.
	PrivateKey []byte
	// Token, where set, is used for everything in place of an App's own: that
	// of a job in GitHub Actions, say. It is never minted anew.
	Token string
	// Kin are the logins of other bots ("my-app[bot]") whose pull requests and
	// comments are as good as the App's own: that of the Action, for a server.
	Kin []string
	// Transport carries the requests; nil is http.DefaultTransport.
	Transport http.RoundTripper
	UserAgent string
	// WriteEvery is the pause between the writes of an installation, after the
	// first few; zero is the second that GitHub asks for.
	WriteEvery time.Duration
}

// App is one GitHub App, or whoever a token stands for. It is safe for concurrent use.
type App struct {
	api, graphQL *url.URL
	web          string
	appID        int64
	key          *rsa.PrivateKey
	meter        *meter
	writeEvery   time.Duration
	jwtClient    *github.Client

	mu     sync.Mutex
	tokens map[tokenKey]*tokens
	paces  map[int64]*pace // by installation
	self   *Identity
	// bot is the App's bot user, with an id of 0 as long as it is not known.
	bot User
	// fixed is Config.Token, kin Config.Kin.
	fixed string
	kin   []string
}

type tokenKey struct {
	installation int64
	owner, repo  string
	scope        scope
}

// scope is what a token may be used for.
type scope int

const (
	scopeRead scope = iota
	scopeWrite
	// scopeChecks is apart from scopeWrite because it may not be granted: GitHub
	// then refuses the whole token.
	scopeChecks
	// scopeMetadata is for asking what an installation reaches.
	scopeMetadata
)

// Identity is who the App is.
type Identity struct {
	ID   int64
	Slug string
	// BotLogin is the login of the App's bot user: "slug[bot]".
	BotLogin string
	Name     string
	// Permissions holds what the App asks for: "contents" → "write". Only the
	// ones this program knows of are in it.
	Permissions map[string]string
	Events      []string
}

// New prepares an App. A key that cannot be used or an address that cannot be
// parsed is a *run.UserError. Nothing is sent yet.
func New(cfg Config) (*App, error) {
	key, err := appKey(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.APIURL == "" {
		cfg.APIURL = defaultAPI
	}
	api, err := parseURL("API", strings.TrimSuffix(cfg.APIURL, "/")+"/")
	if err != nil {
		return nil, err
	}
	if cfg.GraphQLURL == "" {
		cfg.GraphQLURL = strings.TrimSuffix(strings.TrimSuffix(api.String(), "/"), "/v3") + "/graphql"
	}
	graphQL, err := parseURL("GraphQL", cfg.GraphQLURL)
	if err != nil {
		return nil, err
	}
	if graphQL.Host != api.Host {
		return nil, &run.UserError{
			Message: fmt.Sprintf("The GraphQL address is on %q but the API is on %q", graphQL.Host, api.Host),
			Hint:    "Both must be on one host: tokens are sent to it only",
		}
	}
	if cfg.WebURL == "" {
		cfg.WebURL = webURL(api)
	}
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport
	}
	if cfg.WriteEvery == 0 {
		cfg.WriteEvery = writeEvery
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "ralph-bot"
	}
	a := &App{
		api: api, graphQL: graphQL, web: strings.TrimSuffix(cfg.WebURL, "/"), appID: cfg.AppID, key: key,
		writeEvery: cfg.WriteEvery,
		meter:      &meter{next: cfg.Transport, userAgent: cfg.UserAgent, graphQLPath: graphQL.Path, total: &counter{}},
		tokens:     make(map[tokenKey]*tokens),
		paces:      make(map[int64]*pace),

		fixed: cfg.Token,
		kin:   cfg.Kin,
	}
	if key != nil {
		a.jwtClient = a.client(&pinned{host: api.Host, next: a.appsTransport()})
	}
	return a, nil
}

// appKey is the App's key, nil where a token of somebody else's is used.
func appKey(cfg Config) (*rsa.PrivateKey, error) {
	if cfg.Token != "" {
		return nil, nil //nolint:nilnil // none is needed
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM(cfg.PrivateKey)
	if err == nil && bytes.Count(cfg.PrivateKey, []byte("-----BEGIN ")) > 1 {
		err = errors.New("there is more than one")
	}
	if err != nil {
		return nil, &run.UserError{
			Message: "The GitHub App's private key cannot be used",
			Hint:    "Download a new .pem file from the App's settings page and configure it as it is",
			Err:     fmt.Errorf("parse private key: %w", err),
		}
	}
	if cfg.AppID <= 0 {
		return nil, &run.UserError{
			Message: "The GitHub App's id is missing", Hint: "Copy \"App ID\" from the App's settings page",
		}
	}
	return key, nil
}

func parseURL(what, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, &run.UserError{
			Message: fmt.Sprintf("%q is not a GitHub %s address", raw, what),
			Hint:    "Use https://api.github.com/ or https://HOST/api/v3/", Err: err,
		}
	}
	return u, nil
}

func webURL(api *url.URL) string {
	return api.Scheme + "://" + strings.TrimPrefix(api.Host, "api.")
}

// pinned keeps the App's JWT on its host.
type pinned struct {
	host string
	next http.RoundTripper
}

func (p *pinned) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != p.host {
		closeBody(req)
		return nil, fmt.Errorf("refusing to send the App's token to %q", req.URL.Host)
	}
	return p.next.RoundTrip(req.Clone(req.Context())) // ghinstallation sets headers on the request it is given
}

// appsTransport is made anew for each user: ghinstallation writes to it when
// it mints.
func (a *App) appsTransport() *ghinstallation.AppsTransport {
	t := ghinstallation.NewAppsTransportFromPrivateKey(a.meter, a.appID, a.key)
	t.BaseURL = strings.TrimSuffix(a.api.String(), "/")
	return t
}

func (a *App) client(tr http.RoundTripper) *github.Client {
	c := github.NewClient(httpClient(tr))
	c.BaseURL = a.api
	return c
}

// httpClient sends by tr, which bounds the time of each call. A time of the client itself would
// cost a goroutine for as long as an answer is not closed, and go-github closes none that is an
// error.
func httpClient(tr http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: tr,
		// Following a redirect turns a POST into a GET, which then looks like
		// a success that did nothing.
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > 3 || via[0].Method != http.MethodGet {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

// Calls counts what was sent since New.
func (a *App) Calls() CallCounts { return a.meter.total.Counts() }

// WebURL is the root of the pages people see, without a slash at the end.
func (a *App) WebURL() string { return a.web }

// Self asks GitHub who the App is. The answer is kept for the life of a.
func (a *App) Self(ctx context.Context) (Identity, error) {
	a.mu.Lock()
	known := a.self
	a.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	if a.jwtClient == nil {
		return Identity{}, errors.New("identify the App: only a token is known")
	}
	app, _, err := a.jwtClient.Apps.Get(WithPurpose(ctx, "self"), "")
	if err != nil {
		return Identity{}, wrap("identify the App", err)
	}
	id := Identity{
		ID: app.GetID(), Slug: app.GetSlug(), BotLogin: app.GetSlug() + "[bot]", Name: app.GetName(),
		Permissions: permissionMap(app.GetPermissions()), Events: app.Events,
	}
	a.mu.Lock()
	a.self = &id
	a.mu.Unlock()
	return id, nil
}

func permissionMap(p *github.InstallationPermissions) map[string]string {
	out := make(map[string]string)
	if p == nil {
		return out
	}
	for name, value := range map[string]*string{
		"actions": p.Actions, "checks": p.Checks, "contents": p.Contents, "issues": p.Issues,
		"metadata": p.Metadata, "pull_requests": p.PullRequests, "statuses": p.Statuses, "workflows": p.Workflows,
	} {
		if value != nil {
			out[name] = *value
		}
	}
	return out
}

// Repo speaks to one repository through one installation. It is cheap: tokens
// are kept by a.
func (a *App) Repo(installation int64, owner, name string) *Repo {
	a.mu.Lock()
	writes := a.paces[installation]
	if writes == nil {
		writes = newPace(a.writeEvery)
		a.paces[installation] = writes
	}
	a.mu.Unlock()
	readTokens := a.tokensFor(tokenKey{installation, owner, name, scopeRead})
	writer := func(s scope) *github.Client {
		return a.client(&authorised{
			next: a.meter, host: a.api.Host, tokens: a.tokensFor(tokenKey{installation, owner, name, s}), pace: writes,
		})
	}
	return &Repo{
		app: a, installation: installation, owner: owner, name: name,
		readTokens: readTokens,
		reader:     a.client(&authorised{next: a.meter, host: a.api.Host, tokens: readTokens}),
		writer:     writer(scopeWrite),
		checks:     writer(scopeChecks),
	}
}

func (a *App) tokensFor(k tokenKey) *tokens {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tokens[k]
	if t == nil && a.fixed != "" {
		t = &tokens{fixed: a.fixed}
		a.tokens[k] = t
	}
	if t == nil {
		t = &tokens{mint: func() *ghinstallation.Transport { return a.mint(k) }}
		a.tokens[k] = t
	}
	return t
}

// mint makes what has GitHub give tokens of an installation.
func (a *App) mint(k tokenKey) *ghinstallation.Transport {
	t := ghinstallation.NewFromAppsTransport(a.appsTransport(), k.installation)
	t.InstallationTokenOptions = &github.InstallationTokenOptions{Permissions: permissionsOf(k.scope)}
	if k.scope != scopeMetadata {
		t.InstallationTokenOptions.Repositories = []string{k.repo}
	}
	return t
}
