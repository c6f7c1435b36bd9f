package ghapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"
)

// meter is the lowest transport: it names the program, counts what is
// really sent, including the tokens that are minted, and bounds its time.
type meter struct {
	next        http.RoundTripper
	userAgent   string
	graphQLPath string
	total       *counter
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", m.userAgent)
	resp, err := timed{m.count}.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusForbidden && resp.Header.Get(headerRemaining) != "0" {
		// The reset of a limit that is not used up says nothing, yet go-github
		// takes it for the end of a secondary limit and refuses calls till then.
		resp.Header.Del(headerReset)
	}
	return resp, err
}

// count counts a request and sends it.
func (m *meter) count(req *http.Request) (*http.Response, error) {
	m.total.add(req.URL.Path == m.graphQLPath, purposeOf(req.Context()))
	return m.next.RoundTrip(req)
}

// tokens mints and keeps the token of one repository and one set of
// permissions.
type tokens struct {
	mint func() *ghinstallation.Transport
	// fixed is a token that cannot be minted anew, "" where one can.
	fixed string

	mu      sync.Mutex
	current *ghinstallation.Transport
}

// get returns a token good for a minute at least, which ghinstallation sees to. A token equal to refused
// is replaced, if there can be another.
func (t *tokens) get(ctx context.Context, refused string) (string, error) {
	if t.fixed != "" {
		return t.fixed, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx = WithPurpose(ctx, "token")
	if t.current == nil {
		t.current = t.mint()
	}
	token, err := t.current.Token(ctx)
	if err == nil && token == refused {
		t.current = t.mint()
		token, err = t.current.Token(ctx)
	}
	if err != nil {
		return "", mintError(err)
	}
	return token, nil
}

// mintError classifies a token that was not given. GitHub answers 404 for an
// installation that is gone: that must not read as "the branch is not there".
func mintError(err error) error {
	const op = "mint installation token"
	h, ok := errors.AsType[*ghinstallation.HTTPError](err)
	if !ok || h.Response == nil {
		return wrap(op, err)
	}
	defer func() { _ = h.Response.Body.Close() }()
	body, readErr := io.ReadAll(io.LimitReader(h.Response.Body, maxErrorBody))
	if readErr != nil {
		return wrap(op, errors.Join(err, readErr))
	}
	e := fromResponse(op, h.Response, messageOf(body))
	switch e.Class {
	case RateLimited, Transient:
	default:
		e.Class = Unauthorised
	}
	return e
}

// authorised adds the token of one repository, waits for a write's turn, and mints anew
// once when a token is refused.
type authorised struct {
	next   http.RoundTripper
	host   string
	tokens *tokens
	pace   *pace // of the installation's writes, nil for readers
}

func (a *authorised) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	if req.URL.Host != a.host {
		// A redirect to elsewhere must not carry the token along.
		closeBody(req)
		return nil, fmt.Errorf("refusing to send a token to %q", req.URL.Host)
	}
	ctx := req.Context()
	token, err := a.tokens.get(ctx, "")
	if err != nil {
		closeBody(req)
		return nil, err
	}
	if a.pace != nil && req.Method != http.MethodGet {
		if err := a.pace.wait(ctx); err != nil {
			closeBody(req)
			return nil, err
		}
	}
	resp, err = a.send(req, req.Body, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || (req.Body != nil && req.GetBody == nil) {
		return resp, err
	}
	renewed, err := a.tokens.get(ctx, token)
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if renewed == token {
		return resp, nil
	}
	body := req.Body
	if req.GetBody != nil {
		if body, err = req.GetBody(); err != nil {
			_ = resp.Body.Close()
			return nil, fmt.Errorf("rewind request: %w", err)
		}
	}
	_ = resp.Body.Close()
	return a.send(req, body, renewed)
}

func (a *authorised) send(req *http.Request, body io.ReadCloser, token string) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Body = body
	out.Header.Set("Authorization", "token "+token)
	return a.next.RoundTrip(out)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// permissionsOf are the permissions that a scope needs, and no more. Webhook,
// workflow and administration rights are never asked for.
func permissionsOf(s scope) *github.InstallationPermissions {
	read, write := github.String("read"), github.String("write")
	switch s {
	case scopeWrite:
		return &github.InstallationPermissions{Contents: write, Metadata: read, Issues: write, PullRequests: write}
	case scopeChecks:
		return &github.InstallationPermissions{Checks: write, Metadata: read}
	case scopeMetadata:
		return &github.InstallationPermissions{Metadata: read}
	case scopeRead:
	}
	return &github.InstallationPermissions{Contents: read, Metadata: read, Issues: read, PullRequests: read}
}
