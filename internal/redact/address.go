package redact

import (
	"net/url"
	"regexp"
	"strings"
)

// userinfo finds who logs in, in the addresses of a text: "https://user:password@host".
var userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s/,|"'<>]+)@`)

// Logins gives the secrets in the addresses of a text, such as the value of GOPROXY:
// passwords, and names that come without one, which are tokens.
func Logins(text string) []string {
	var secrets []string
	for _, m := range userinfo.FindAllStringSubmatch(text, -1) {
		name, secret, ok := strings.Cut(m[2], ":")
		if !ok {
			secret = name
		}
		secrets = append(secrets, secret)
		if plain, err := url.PathUnescape(secret); err == nil && plain != secret {
			secrets = append(secrets, plain)
		}
	}
	return secrets
}

// WithoutLogins is a text whose addresses do not say who logs in.
func WithoutLogins(text string) string { return userinfo.ReplaceAllString(text, "$1") }
