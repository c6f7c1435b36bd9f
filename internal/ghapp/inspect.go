package ghapp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/go-github/v60/github"
)

// errNoKey: what only an App may ask cannot be asked with somebody's token.
var errNoKey = errors.New("only a token is known, not an App's key")

// ClockSkew says how far this machine's clock is ahead of GitHub's, to about a
// second. It needs no credentials: with a clock that is wrong none would be
// accepted.
func (a *App) ClockSkew(ctx context.Context, now func() time.Time) (time.Duration, error) {
	const op = "ask for the time"
	req, err := http.NewRequestWithContext(WithPurpose(ctx, "inspect"), http.MethodGet,
		a.api.JoinPath("rate_limit").String(), nil)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	resp, err := httpClient(a.meter).Do(req)
	if err != nil {
		return 0, wrap(op, err)
	}
	if err := resp.Body.Close(); err != nil {
		return 0, wrap(op, err)
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, &Error{Op: op, Status: resp.StatusCode, Class: Permanent, Message: "the answer has no date"}
	}
	return now().Sub(date), nil
}

// Hook is where GitHub sends the App's webhooks.
type Hook struct {
	// URL is "" where none are sent.
	URL string
	// JSON: they are sent as JSON, not as a form; Insecure: to a server whose
	// certificate is not checked.
	JSON, Insecure bool
}

// Hook asks for the App's webhook.
func (a *App) Hook(ctx context.Context) (Hook, error) {
	if a.jwtClient == nil {
		return Hook{}, errNoKey
	}
	c, _, err := a.jwtClient.Apps.GetHookConfig(WithPurpose(ctx, "inspect"))
	if err != nil {
		return Hook{}, wrap("read the App's webhook", err)
	}
	return Hook{URL: c.GetURL(), JSON: c.GetContentType() == "json", Insecure: c.GetInsecureSSL() == "1"}, nil
}

// Installation is the App on one account.
type Installation struct {
	ID        int64
	Account   string
	Suspended bool
	// Permissions are what the account has granted, which may be less than the
	// App asks for by now.
	Permissions map[string]string
	// URL is its page of settings.
	URL string
}

// Installations lists where the App is installed, as far as we look.
func (a *App) Installations(ctx context.Context) ([]Installation, error) {
	if a.jwtClient == nil {
		return nil, errNoKey
	}
	list, err := all("list installations", func(page github.ListOptions) ([]*github.Installation, *github.Response, error) {
		return a.jwtClient.Apps.ListInstallations(WithPurpose(ctx, "inspect"), &page)
	})
	var out []Installation
	for _, in := range list {
		out = append(out, Installation{
			ID: in.GetID(), Account: in.GetAccount().GetLogin(), Suspended: in.SuspendedAt != nil,
			Permissions: permissionMap(in.GetPermissions()), URL: in.GetHTMLURL(),
		})
	}
	return out, err
}

// Repository is one that an installation reaches.
type Repository struct {
	Owner, Name, NodeID string
	DefaultBranch       string
	Private             bool
	// Idle: it is archived or disabled, or has no issues.
	Idle bool
}

// Repositories lists what an installation reaches, as far as we look.
func (a *App) Repositories(ctx context.Context, installation int64) ([]Repository, error) {
	client := a.client(&authorised{
		next: a.meter, host: a.api.Host, tokens: a.tokensFor(tokenKey{installation: installation, scope: scopeMetadata}),
	})
	list, err := all("list repositories", func(page github.ListOptions) ([]*github.Repository, *github.Response, error) {
		got, resp, err := client.Apps.ListRepos(WithPurpose(ctx, "inspect"), &page)
		if err != nil {
			return nil, resp, err
		}
		return got.Repositories, resp, nil
	})
	var out []Repository
	for _, r := range list {
		out = append(out, Repository{
			Owner: r.GetOwner().GetLogin(), Name: r.GetName(), NodeID: r.GetNodeID(), DefaultBranch: r.GetDefaultBranch(),
			Private: r.GetPrivate(),
			Idle:    r.GetArchived() || r.GetDisabled() || r.HasIssues != nil && !r.GetHasIssues(),
		})
	}
	return out, err
}

// HasLabel says whether the repository has a label of that name.
func (r *Repo) HasLabel(ctx context.Context, name string) (bool, error) {
	var label struct {
		Name string `json:"name"`
	}
	err := r.get(ctx, "look for the label", fmt.Sprintf("repos/%s/%s/labels/%s", r.owner, r.name, url.PathEscape(name)),
		&label)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// BranchRules are the kinds of rules ("required_signatures") that rulesets set
// for a branch, which need not be there yet.
func (r *Repo) BranchRules(ctx context.Context, branch string) ([]string, error) {
	var rules []struct {
		Type string `json:"type"`
	}
	path := fmt.Sprintf("repos/%s/%s/rules/branches/%s?per_page=%d", r.owner, r.name, url.PathEscape(branch), pageSize)
	if err := r.get(ctx, "read the rules of a branch", path, &rules); err != nil {
		return nil, err
	}
	var kinds []string
	for _, rule := range rules {
		kinds = append(kinds, rule.Type)
	}
	return kinds, nil
}
