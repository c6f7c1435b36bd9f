package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
)

// maxAnswer is how much of an answer is read, so that the connection can be used
// again.
const maxAnswer = 16 << 10

// newClient makes a client that follows no redirection: a receiver does not
// choose where else messages go.
func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post posts JSON. Its errors do not show the address; one that is final says that the
// receiver does not want the message.
func post(ctx context.Context, client *http.Client, address string, header http.Header, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return final{errors.New("the address cannot be used")}
	}
	maps.Copy(req.Header, header)
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
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode < 300 {
		return nil
	}
	err = fmt.Errorf("%s answered %d: %s", req.URL.Host, res.StatusCode, answer)
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusRequestTimeout ||
		res.StatusCode >= 500 {
		return err
	}
	return final{err}
}
