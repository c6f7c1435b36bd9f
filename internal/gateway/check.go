package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// checkTimeout bounds the question of Check.
const checkTimeout = 15 * time.Second

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
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return &run.UserError{
			Message: "cannot reach the model endpoint " + u.BaseURL.Host + ": " + err.Error(),
			Hint:    "check this machine's network and the address in the configuration", Err: err,
		}
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
