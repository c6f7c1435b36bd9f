package ghapp_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"testing"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/run"
)

// A text that is not one whole key is refused before anything is sent.
func TestKeysThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.appInfo.PrivateKeyPEM
	for what, text := range map[string][]byte{
		"nothing":              nil,
		"half of one":          key[:len(key)/2],
		"one, and half of one": append(bytes.Clone(key), key[:len(key)/2]...),
		"two":                  append(bytes.Clone(key), key...),
		"something else":       pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: []byte("a key of another kind")}),
	} {
		_, err := ghapp.New(ghapp.Config{APIURL: w.URL() + "/api/v3/", AppID: w.appInfo.ID, PrivateKey: text})
		if _, ok := errors.AsType[*run.UserError](err); !ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}
