package ghsim

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

// tokenLife is how long an installation token works.
const tokenLife = time.Hour

// maxJWTLife is how far in the future an App's JWT may expire.
const maxJWTLife = 10 * time.Minute

// jwtLeeway is how far clocks may be apart.
const jwtLeeway = time.Minute

// principal is who calls: nobody, a person, an App by its JWT, or an App
// through an installation token.
type principal struct {
	user *user // a person
	app  *app  // by JWT
	tok  *token
}

func (p principal) anonymous() bool { return p.user == nil && p.app == nil && p.tok == nil }

// author is whose name stands on what p does.
func (p principal) author() author {
	if p.tok != nil {
		return author{user: p.tok.install.app.bot, via: p.tok.install.app}
	}
	return author{user: p.user}
}

// name is how the call log names the caller.
func (p principal) name() string {
	switch {
	case p.tok != nil:
		return fmt.Sprintf("installation:%d/token:%d", p.tok.install.id, p.tok.id)
	case p.app != nil:
		return fmt.Sprintf("app:%d", p.app.id)
	case p.user != nil:
		return "user:" + p.user.login
	default:
		return "anonymous"
	}
}

// level orders the grants of a permission.
func level(s string) int { return max(0, slices.Index([]string{"", "read", "write", "admin"}, s)) }

// allows says whether the token holds a permission.
func (t *token) allows(permission, want string) bool {
	if permission == "metadata" && want == "read" {
		return true
	}
	return level(t.permissions[permission]) >= level(want)
}

// covers says whether the token is for a repository.
func (t *token) covers(r *repo) bool { return slices.Contains(t.repos, r) }

// credentials takes the secret from an Authorization header: "Bearer x",
// "token x", or Basic with the secret as password.
func credentials(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	_, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(secret)
}

// identify finds out who calls. An Authorization header that is no good is
// refused even where none would be needed.
func (s *Sim) identify(r *http.Request) (principal, error) {
	if r.Header.Get("Authorization") == "" {
		return principal{}, nil
	}
	secret := credentials(r)
	if t := s.tokens[secret]; t != nil {
		if !s.now().Before(t.expires) {
			return principal{}, badCredentials()
		}
		return principal{tok: t}, nil
	}
	for _, u := range s.users {
		if u.token != "" && u.token == secret {
			return principal{user: u}, nil
		}
	}
	if !strings.HasPrefix(secret, "gh") && strings.Count(secret, ".") == 2 {
		a, err := s.verifyJWT(secret)
		return principal{app: a}, err
	}
	return principal{}, badCredentials()
}

func jwtRefused(message string) error {
	return &Error{Status: http.StatusUnauthorized, Message: message}
}

// verifyJWT checks an App's JSON web token: RS256, iss, iat and exp.
func (s *Sim) verifyJWT(raw string) (*app, error) {
	var found *app
	claims := jwt.MapClaims{}
	refusal := jwtRefused("A JSON web token could not be decoded")
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithoutClaimsValidation(), jwt.WithJSONNumber())
	_, err := parser.ParseWithClaims(raw, claims, func(*jwt.Token) (any, error) {
		issuer, ok := fmt.Sprint(claims["iss"]), false
		found, ok = find(s.apps, func(a *app) bool { return strconv.FormatInt(a.id, 10) == issuer || a.clientID == issuer })
		if !ok {
			refusal = jwtRefused("Integration not found")
			return nil, refusal
		}
		return &found.key.PublicKey, nil
	})
	if err != nil {
		return nil, refusal
	}
	now := s.now()
	switch {
	case !claims.VerifyExpiresAt(now.Add(-jwtLeeway).Unix(), true):
		return nil, jwtRefused("'Expiration time' claim ('exp') must be a numeric value representing the future time " +
			"at which the assertion expires")
	case claims.VerifyExpiresAt(now.Add(maxJWTLife+jwtLeeway).Unix(), true):
		return nil, jwtRefused("'Expiration time' claim ('exp') is too far in the future")
	case !claims.VerifyIssuedAt(now.Add(jwtLeeway).Unix(), true):
		return nil, jwtRefused("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	}
	return found, nil
}

// mint makes an installation token, narrowed to names (empty: all of the
// installation's repositories) and permissions (nil: all the App has).
func (s *Sim) mint(in *installation, repos []*repo, permissions map[string]string) *token {
	t := &token{
		id: s.nextID(), install: in, repos: in.repos, permissions: permissions,
		expires: s.now().Add(tokenLife), selected: repos != nil,
	}
	if repos != nil {
		t.repos = repos
	}
	if permissions == nil {
		t.permissions = maps.Clone(in.app.permissions)
	}
	t.permissions["metadata"] = "read"
	t.value = s.tokenValue(in, t)
	s.tokens[t.value] = t
	return t
}

// tokenValue has the form GitHub gives since 2026: ghs_<app id>_<JWT>, about
// 520 characters with two dots. Its signature is random: tokens are looked up,
// never verified.
func (s *Sim) tokenValue(in *installation, t *token) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"iss":"ghsim","sub":"installation:%d","iat":%d,"exp":%d,"jti":"%s"}`,
		in.id, s.now().Unix(), t.expires.Unix(), newGUID())
	return fmt.Sprintf("ghs_%d_%s.%s.%s", in.app.id, encode([]byte(`{"alg":"RS256","typ":"JWT"}`)), encode([]byte(claims)),
		encode(randomBytes(256)))
}

// appKey reads an App's private key, or makes one where there is none.
func appKey(pemBytes []byte) (*rsa.PrivateKey, []byte, error) {
	if len(pemBytes) > 0 {
		block, _ := pem.Decode(pemBytes)
		if block == nil {
			return nil, nil, invalid("App", "private_key", "invalid", "not PEM")
		}
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			return nil, nil, invalid("App", "private_key", "invalid", err.Error())
		}
		return key, pemBytes, nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return key, pem.EncodeToMemory(block), nil
}
