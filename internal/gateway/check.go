package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// checkTimeout bounds the question of Check.
const checkTimeout = 15 * time.Second

// reachTimeout bounds the wait for any answer at all.
const reachTimeout = 10 * time.Second

// Reach says with a *run.UserError that nobody answers at the upstream's address. It
// sends no credential, and any answer will do.
func (u Upstream) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.BaseURL.JoinPath("/").String(), nil)
	if err != nil {
		return fmt.Errorf("reach the model endpoint: %w", err)
	}
	resp, err := askOnce().Do(req)
	if err != nil {
		return u.unreachable(err)
	}
	_ = resp.Body.Close()
	return nil
}

// askOnce is a client that follows no redirect.
func askOnce() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (u Upstream) unreachable(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err // the rest of it is the address
	}
	return &run.UserError{
		Message: "cannot reach the model endpoint " + u.BaseURL.Host + ": " + err.Error(),
		Hint:    "check this machine's network (HTTPS_PROXY, if it needs one) and the address of the endpoint", Err: err,
	}
}

// Check asks the upstream which models there are, which costs nothing. An
// upstream that is not reached or refuses the credential is a *run.UserError; one
// that has no such list has refused nothing.
func (u Upstream) Check(ctx context.Context) error {
	path := "models"
	switch u.Provider {
	case run.ProviderAnthropic:
		path = "v1/models"
	case run.ProviderGoogle:
		path = "v1beta/models"
	case run.ProviderOpenAI:
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.BaseURL.JoinPath(path).String(), nil)
	if err != nil {
		return fmt.Errorf("ask for models: %w", err)
	}
	in := http.Header{}
	if u.Provider == run.ProviderAnthropic {
		in.Set("Anthropic-Version", "2023-06-01")
	}
	req.Header = u.header(in)
	resp, err := askOnce().Do(req)
	if err != nil {
		return u.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	refused := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden ||
		u.Provider == run.ProviderGoogle && resp.StatusCode == http.StatusBadRequest // its word for a key that is none
	if refused {
		return &run.UserError{
			Message: fmt.Sprintf("%s refuses the key (%d)", u.BaseURL.Host, resp.StatusCode),
			Hint:    "create a new one with the provider and set it",
		}
	}
	return nil
}
