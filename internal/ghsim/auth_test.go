package ghsim_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
)

type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func parseKey(t *testing.T, b []byte) *rsa.PrivateKey {
	t.Helper()
	block, _ := pem.Decode(b)
	if block == nil {
		t.Fatal("no PEM")
	}
	return must[*rsa.PrivateKey](t)(x509.ParsePKCS1PrivateKey(block.Bytes))
}

// sign makes a JSON web token by hand, so that every part of it can be wrong.
func sign(t *testing.T, key *rsa.PrivateKey, header, claims map[string]any) string {
	t.Helper()
	encode := func(v any) string {
		return base64.RawURLEncoding.EncodeToString(must[[]byte](t)(json.Marshal(v)))
	}
	text := encode(header) + "." + encode(claims)
	digest := sha256.Sum256([]byte(text))
	signature := must[[]byte](t)(rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:]))
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestAppTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	rival := must[ghsim.App](t)(w.CreateApp(ghsim.AppOptions{Slug: "rival"}))
	key, other := parseKey(t, w.app.PrivateKeyPEM), parseKey(t, rival.PrivateKeyPEM)
	rs256 := map[string]any{"alg": "RS256", "typ": "JWT"}
	now := time.Now().Unix()
	claims := func(iss any, iat, exp int64) map[string]any {
		return map[string]any{"iss": iss, "iat": iat, "exp": exp}
	}
	good := sign(t, key, rs256, claims(w.app.ID, now-30, now+540))
	const undecodable = "A JSON web token could not be decoded"
	for _, tt := range []struct {
		name, token string
		status      int
		message     string
	}{
		{"good", good, 200, ""},
		{"by client id", sign(t, key, rs256, claims(w.app.ClientID, now, now+60)), 200, ""},
		{"another App's key", sign(t, other, rs256, claims(w.app.ID, now, now+60)), 401, undecodable},
		{"another algorithm", sign(t, key, map[string]any{"alg": "none"}, claims(w.app.ID, now, now+60)), 401, undecodable},
		{"no signature", good[:strings.LastIndex(good, ".")+1], 401, undecodable},
		{"claims changed", strings.Replace(good, ".", ".e30", 1), 401, undecodable},
		{"not a token", "a.b.c", 401, undecodable},
		{"unknown App", sign(t, key, rs256, claims(1, now, now+60)), 401, "Integration not found"},
		{
			"expired", sign(t, key, rs256, claims(w.app.ID, now-900, now-300)), 401,
			"'Expiration time' claim ('exp') must be a numeric value",
		},
		{
			"no expiry", sign(t, key, rs256, map[string]any{"iss": w.app.ID, "iat": now}), 401,
			"'Expiration time' claim ('exp') must be a numeric value",
		},
		{
			"too long a life", sign(t, key, rs256, claims(w.app.ID, now, now+3600)), 401,
			"'Expiration time' claim ('exp') is too far in the future",
		},
		{"from the future", sign(t, key, rs256, claims(w.app.ID, now+300, now+500)), 401, "'Issued at' claim ('iat')"},
		{"rubbish", "rubbish", 401, "Bad credentials"},
		{"nothing", "", 401, undecodable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, body := w.do(t, http.MethodGet, "/api/v3/app", tt.token, nil)
			message, _ := body["message"].(string)
			if resp.StatusCode != tt.status || !strings.Contains(message, tt.message) {
				t.Errorf("%d %q, want %d %q", resp.StatusCode, message, tt.status, tt.message)
			}
		})
	}
}
