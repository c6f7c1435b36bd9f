package redact

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// pattern is a form of secret that is known by its looks: a prefix, then at
// least min characters of a set. It goes on as long as the set does.
type pattern struct {
	// rule is what Find calls it, "" for one that only a Masker looks for.
	rule   string
	prefix string
	min    int
	// set lists ranges as pairs: "azAZ__".
	set string
	// exact forms have no more than min characters where Find looks for them; a Masker
	// hides what follows, too.
	exact bool
	// pem patterns have a header line in place of min and end at their footer.
	pem bool
}

const word = "azAZ09__"

// patterns are the token forms that begin alike, of the services this program deals with
// and of others: what a Masker hides, and Find finds. Installation tokens are
// "ghs_<app>_<JWT>" since April 2026: about 520 characters with dots and hyphens.
var patterns = [...]pattern{
	{rule: "github_token", prefix: "ghs_", min: 36, set: word + "..--"},
	{rule: "github_token", prefix: "ghp_", min: 36, set: word},
	{rule: "github_token", prefix: "gho_", min: 36, set: word},
	{rule: "github_token", prefix: "ghu_", min: 36, set: word},
	{rule: "github_token", prefix: "ghr_", min: 36, set: word},
	{rule: "github_token", prefix: "github_pat_", min: 22, set: word},
	{rule: "anthropic_key", prefix: "sk-ant-", min: 20, set: word + "--"},
	{rule: "openai_key", prefix: "sk-proj-", min: 20, set: word + "--"},
	{rule: "openai_key", prefix: "sk-svcacct-", min: 20, set: word + "--"},
	{rule: "openai_key", prefix: "sk-admin-", min: 20, set: word + "--"},
	{rule: "aws_access_key", prefix: "AKIA", min: 16, set: "AZ09", exact: true},
	{rule: "aws_access_key", prefix: "ASIA", min: 16, set: "AZ09", exact: true},
	{rule: "aws_access_key", prefix: "ABIA", min: 16, set: "AZ09", exact: true},
	{rule: "aws_access_key", prefix: "ACCA", min: 16, set: "AZ09", exact: true},
	{rule: "google_api_key", prefix: "AIza", min: 35, set: word + "--"},
	{rule: "gitlab_token", prefix: "glpat-", min: 20, set: word + "--"},
	{rule: "gitlab_token", prefix: "gldt-", min: 20, set: word + "--"},
	{rule: "gitlab_token", prefix: "glrt-", min: 20, set: word + "--"},
	{rule: "gitlab_token", prefix: "glcbt-", min: 20, set: word + "--"},
	{rule: "gitlab_token", prefix: "glptt-", min: 20, set: word + "--"},
	{rule: "stripe_key", prefix: "sk_live_", min: 16, set: "azAZ09"},
	{rule: "stripe_key", prefix: "rk_live_", min: 16, set: "azAZ09"},
	{rule: "npm_token", prefix: "npm_", min: 36, set: "azAZ09", exact: true},
	{rule: "pypi_token", prefix: "pypi-AgEIcHlwaS5vcmc", min: 50, set: word + "--"},
	{rule: "docker_token", prefix: "dckr_pat_", min: 27, set: word + "--"},
	{rule: "docker_token", prefix: "dckr_oat_", min: 27, set: word + "--"},
	{rule: "age_key", prefix: "AGE-SECRET-KEY-1", min: 58, set: "AZ09", exact: true},
	{rule: "grafana_token", prefix: "glsa_", min: 32, set: word + "++//=="},
	// The user part of a clone address: all that may stand there.
	{prefix: "x-access-token:", min: 1, set: word + "!!$$&.;;==~~%%"},
	// Base64 and old-style headers, with line ends as they are or as "\\n".
	{prefix: "-----BEGIN ", set: "azAZ09++//==::,,\\\\  --\t\t\n\n\r\r", pem: true},
}

// expr is the expression by which Find looks for the pattern.
func (p *pattern) expr() string {
	var set strings.Builder
	for i := 0; i+1 < len(p.set); i += 2 {
		fmt.Fprintf(&set, `\x%02x-\x%02x`, p.set[i], p.set[i+1])
	}
	expr := regexp.QuoteMeta(p.prefix) + "[" + set.String() + "]{" + strconv.Itoa(p.min)
	if p.exact {
		return expr + `}\b`
	}
	return expr + ",}"
}

// has says whether c belongs to the pattern's set.
func (p *pattern) has(c byte) bool {
	for i := 0; i+1 < len(p.set); i += 2 {
		if p.set[i] <= c && c <= p.set[i+1] {
			return true
		}
	}
	return false
}

// matchPattern gives the length of the shortest text at the start of b that is
// certain to be a secret of one of the patterns.
func matchPattern(patterns []*pattern, b []byte, final bool) (n int, pat *pattern, partial bool) {
	for _, p := range patterns {
		if len(b) < len(p.prefix) {
			partial = partial || !final && strings.HasPrefix(p.prefix, string(b))
			continue
		}
		if string(b[:len(p.prefix)]) != p.prefix {
			continue
		}
		n, partial = p.match(b[len(p.prefix):], final)
		if n == 0 {
			return 0, nil, partial
		}
		return len(p.prefix) + n, p, false
	}
	return 0, nil, partial
}

func (p *pattern) match(body []byte, final bool) (n int, partial bool) {
	if p.pem {
		n, partial = frame(body, final)
		// Certificates and public keys are no secret.
		if n > 0 && !bytes.Contains(body[:n], []byte("PRIVATE KEY")) {
			return 0, false
		}
		return n, partial
	}
	for n < p.min {
		if n == len(body) {
			return 0, !final
		}
		if !p.has(body[n]) {
			return 0, false
		}
		n++
	}
	return n, false
}

// ends gives the length of what closes the pattern at the start of b.
func (p *pattern) ends(b []byte, final bool) (n int, partial bool) {
	if !p.pem {
		return 0, false
	}
	const footer = "-----END "
	if len(b) < len(footer) {
		return 0, !final && bytes.HasPrefix([]byte(footer), b)
	}
	if !bytes.HasPrefix(b, []byte(footer)) {
		return 0, false
	}
	n, partial = frame(b[len(footer):], final)
	if n > 0 {
		n += len(footer)
	}
	return n, partial
}

// frame gives the length of "RSA PRIVATE KEY-----" and its kin at the start
// of b.
func frame(b []byte, final bool) (n int, partial bool) {
	const longest, dashes = 60, "-----"
	for i, c := range b[:min(len(b), longest)] {
		switch {
		case c == ' ', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-':
			rest := b[i:]
			if len(rest) < len(dashes) {
				return 0, !final && bytes.HasPrefix([]byte(dashes), rest)
			}
			if bytes.HasPrefix(rest, []byte(dashes)) {
				return i + len(dashes), false
			}
			return 0, false
		default:
			return 0, false
		}
	}
	return 0, !final && len(b) < longest
}
