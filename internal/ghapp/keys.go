package ghapp

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/golang-jwt/jwt/v4"
	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/run"
)

// keyring are the App's private keys. The one that GitHub took last comes first.
type keyring struct {
	// renew looks, when GitHub has refused all keys, whether there are others by now.
	renew func(context.Context)

	mu   sync.Mutex
	keys []*rsa.PrivateKey
}

// parseKeys reads one RSA key or more, in PEM. The error is a *run.UserError.
func parseKeys(text []byte) ([]*rsa.PrivateKey, error) {
	var keys []*rsa.PrivateKey
	var err error
	for rest := text; err == nil; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		var key *rsa.PrivateKey
		if key, err = jwt.ParseRSAPrivateKeyFromPEM(pem.EncodeToMemory(block)); err == nil {
			keys = append(keys, key)
		}
	}
	// What is cut off, or damaged, is no block to the decoder.
	if begun := bytes.Count(text, []byte("-----BEGIN ")); err == nil && (len(keys) == 0 || len(keys) != begun) {
		err = fmt.Errorf("%d of %d blocks in PEM are whole", len(keys), begun)
	}
	if err != nil {
		return nil, &run.UserError{
			Message: "The GitHub App's private key cannot be used",
			Hint:    "Download a new .pem file from the App's settings page and configure it as it is",
			Err:     fmt.Errorf("parse private key: %w", err),
		}
	}
	return keys, nil
}

// SetKeys replaces the App's private keys by those of a text in PEM. One that cannot be used
// is a *run.UserError, and changes nothing. Tokens that GitHub has given stay in use.
func (a *App) SetKeys(text []byte) error {
	keys, err := parseKeys(text)
	if err != nil {
		return err
	}
	a.keys.mu.Lock()
	defer a.keys.mu.Unlock()
	if last := slices.IndexFunc(keys, func(k *rsa.PrivateKey) bool { return k.Equal(a.keys.keys[0]) }); last > 0 {
		keys = first(keys, last)
	}
	a.keys.keys = keys
	return nil
}

// first is a list with its i-th key at the beginning.
func first(keys []*rsa.PrivateKey, i int) []*rsa.PrivateKey {
	out := []*rsa.PrivateKey{keys[i]}
	return append(append(out, keys[:i]...), keys[i+1:]...)
}

// use sends a request with one key after the other until GitHub takes it. send gives the
// status of the answer, 0 where there is none.
func (r *keyring) use(ctx context.Context, send func(*rsa.PrivateKey) (status int)) {
	for {
		r.mu.Lock()
		tried := r.keys
		r.mu.Unlock()
		for _, key := range tried {
			switch status := send(key); {
			case status == http.StatusUnauthorized:
				continue
			case status > 0 && status < http.StatusInternalServerError:
				r.took(key)
			}
			return
		}
		if r.renew == nil {
			return
		}
		r.renew(ctx)
		r.mu.Lock()
		now := r.keys
		r.mu.Unlock()
		if !slices.ContainsFunc(now, func(key *rsa.PrivateKey) bool {
			return !slices.ContainsFunc(tried, func(k *rsa.PrivateKey) bool { return k.Equal(key) })
		}) {
			return
		}
	}
}

// took remembers the key that GitHub takes.
func (r *keyring) took(key *rsa.PrivateKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.keys, key); i > 0 {
		r.keys = first(r.keys, i)
	}
}

// signed sends what is the App's own to ask, with each of its keys until one is taken.
type signed struct{ app *App }

// RoundTrip implements http.RoundTripper.
func (s signed) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	s.app.keys.use(req.Context(), func(key *rsa.PrivateKey) int {
		out := req.Clone(req.Context()) // ghinstallation sets headers on the request it is given
		if resp != nil {
			if req.Body != nil && req.Body != http.NoBody {
				if req.GetBody == nil {
					return 0 // the refusal stands
				}
				body, failed := req.GetBody()
				if failed != nil {
					return 0
				}
				out.Body = body
			}
			_ = resp.Body.Close()
		}
		if resp, err = s.app.appsTransport(key).RoundTrip(out); err != nil { //nolint:bodyclose // the caller closes it
			return 0
		}
		return resp.StatusCode
	})
	return resp, err
}

// mint has GitHub give a token of an installation.
func (a *App) mint(ctx context.Context, k tokenKey) (tr *ghinstallation.Transport, err error) {
	a.keys.use(ctx, func(key *rsa.PrivateKey) int {
		if refused, ok := errors.AsType[*ghinstallation.HTTPError](err); ok {
			_ = refused.Response.Body.Close()
		}
		tr = ghinstallation.NewFromAppsTransport(a.appsTransport(key), k.installation)
		tr.InstallationTokenOptions = &github.InstallationTokenOptions{Permissions: permissionsOf(k.scope)}
		if k.scope != scopeMetadata {
			tr.InstallationTokenOptions.Repositories = []string{k.repo}
		}
		if _, err = tr.Token(ctx); err == nil {
			return http.StatusCreated
		}
		if refused, ok := errors.AsType[*ghinstallation.HTTPError](err); ok && refused.Response != nil {
			return refused.Response.StatusCode
		}
		return 0
	})
	return tr, err
}

// Keys says which of the App's private keys GitHub takes, by the names that its page there
// gives them.
func (a *App) Keys(ctx context.Context) (taken, refused []string, err error) {
	a.keys.mu.Lock()
	keys := a.keys.keys
	a.keys.mu.Unlock()
	for _, key := range keys {
		name, err := keyName(key)
		if err != nil {
			return nil, nil, err
		}
		_, _, err = a.client(&pinned{host: a.api.Host, next: a.appsTransport(key)}).Apps.Get(WithPurpose(ctx, "inspect"), "")
		switch class, _ := Classify(wrap("identify the App", err)); {
		case err == nil:
			taken = append(taken, name)
		case class == Unauthorised:
			refused = append(refused, name)
		default:
			return nil, nil, wrap("try a private key", err)
		}
	}
	return taken, refused, nil
}

// keyName is what GitHub calls a key.
func keyName(key *rsa.PrivateKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return "", fmt.Errorf("name a private key: %w", err)
	}
	sum := sha256.Sum256(der)
	return "SHA256:" + base64.StdEncoding.EncodeToString(sum[:]), nil
}
