package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// maxAnswer is how much of an answer is read, so that the connection can be used
// again.
const maxAnswer = 16 << 10

// webhook posts messages as JSON, signed as standardwebhooks.com says: receivers
// find libraries for it in most languages.
type webhook struct {
	url    string
	key    []byte
	client *http.Client
}

func newWebhook(u *url.URL, key []byte) webhook {
	return webhook{url: u.String(), key: key, client: &http.Client{
		Transport: http.DefaultTransport,
		// A receiver does not choose where else messages go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (w webhook) send(ctx context.Context, m Message) error {
	body, err := m.json()
	if err != nil {
		return final{err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return final{fmt.Errorf("make the request: %w", err)}
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "ralph-bot")
	req.Header.Set("Webhook-Id", m.ID)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", sign(w.key, m.ID, at, body))
	res, err := w.client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the other half is the address
		}
		return fmt.Errorf("post the message: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	switch {
	case res.StatusCode < 300:
		return nil
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusRequestTimeout || res.StatusCode >= 500:
		return fmt.Errorf("the webhook answered %d", res.StatusCode)
	default:
		return final{fmt.Errorf("the webhook answered %d", res.StatusCode)}
	}
}

// sign is the header that says who made a body, and when.
func sign(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, at)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
