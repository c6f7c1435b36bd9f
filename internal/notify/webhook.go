package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// webhook posts messages as JSON, signed as standardwebhooks.com says: receivers
// find libraries for it in most languages.
type webhook struct {
	url    string
	key    []byte
	client *http.Client
}

func (w webhook) send(ctx context.Context, m Message) error {
	body, err := m.json()
	if err != nil {
		return final{err}
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	header := http.Header{}
	header.Set("Webhook-Id", m.ID)
	header.Set("Webhook-Timestamp", at)
	header.Set("Webhook-Signature", sign(w.key, m.ID, at, body))
	return post(ctx, w.client, w.url, header, body)
}

// sign is the header that says who made a body, and when.
func sign(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, at)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
