package redact

import "bytes"

// token is a form of secret that is known by its looks: a prefix, then at least min
// characters of a set. It goes on as long as the set does.
type token struct {
	// rule is what Find calls it, "" for one that only a Masker looks for.
	rule   string
	prefix string
	min    int
	// set lists ranges as pairs: "azAZ__".
	set string
	// exact forms have no more than min characters where Find looks for them; a Masker
	// hides what follows, too.
	exact bool
}

const (
	word = "azAZ09__"
	// pem begins a private key, or another block of its kind, and pemEnd ends it.
	pem, pemEnd = "-----BEGIN ", "-----END "
)

// tokens are the token forms that begin alike, of the services this program deals with
// and of others: what a Masker hides, and Find finds. Installation tokens are
// "ghs_<app>_<JWT>" since April 2026: about 520 characters with dots and hyphens.
var tokens = [...]token{
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
	{rule: "grafana_token", prefix: "glc_", min: 32, set: word + "++//=="},
	{rule: "hugging_face_token", prefix: "hf_", min: 34, set: "azAZ", exact: true},
	{rule: "digitalocean_token", prefix: "dop_v1_", min: 64, set: "af09", exact: true},
	{rule: "digitalocean_token", prefix: "doo_v1_", min: 64, set: "af09", exact: true},
	{rule: "digitalocean_token", prefix: "dor_v1_", min: 64, set: "af09", exact: true},
	{rule: "databricks_token", prefix: "dapi", min: 32, set: "af09", exact: true},
	{rule: "slack_token", prefix: "xoxa-", min: 10, set: "azAZ09--"},
	{rule: "slack_token", prefix: "xoxb-", min: 10, set: "azAZ09--"},
	{rule: "slack_token", prefix: "xoxo-", min: 10, set: "azAZ09--"},
	{rule: "slack_token", prefix: "xoxp-", min: 10, set: "azAZ09--"},
	{rule: "slack_token", prefix: "xoxs-", min: 10, set: "azAZ09--"},
	{rule: "slack_token", prefix: "xoxr-", min: 10, set: "azAZ09--"},
	{rule: "slack_token", prefix: "xapp-", min: 20, set: "azAZ09--"},
	{rule: "slack_webhook", prefix: "hooks.slack.com/services/", min: 30, set: "azAZ09//"},
	// The user part of a clone address: all that may stand there.
	{prefix: "x-access-token:", min: 1, set: word + "!!$$&.;;==~~%%"},
	// Base64 and old-style headers, with line ends as they are, as "\\n" or between quotes.
	{rule: "private_key", prefix: pem, min: 75, set: "azAZ09++//==::,,\\\\  --\t\t\n\n\r\r\"\"''"},
}

// has says whether c belongs to the set.
func (t *token) has(c byte) bool {
	for i := 0; i+1 < len(t.set); i += 2 {
		if t.set[i] <= c && c <= t.set[i+1] {
			return true
		}
	}
	return false
}

// each gives the places of the form in a text to do, in order, until that says no. Its
// work is linear.
func (t *token) each(text []byte, do func(span) bool) {
	for from := 0; ; {
		n := bytes.Index(text[from:], []byte(t.prefix))
		if n < 0 {
			return
		}
		from += n
		at := from + len(t.prefix)
		if t.prefix == pem {
			// Certificates and public keys are no secret.
			const longest, key = 60, "PRIVATE KEY"
			name, _, closed := bytes.Cut(text[at:min(len(text), at+longest)], []byte("-----"))
			if !closed || !bytes.Contains(name, []byte(key)) {
				from = at
				continue
			}
			at += len(name) + len("-----")
		}
		to := at
		for to < len(text) && t.has(text[to]) {
			to++
		}
		switch {
		case t.prefix == pem:
			if end := bytes.Index(text[at:to], []byte(pemEnd)); end >= 0 {
				end += at + len(pemEnd)
				if n := bytes.Index(text[end:to], []byte("-----")); n >= 0 {
					to = end + n + len("-----")
				}
			}
		case to-at < t.min:
			from = at
			continue
		}
		if !do(span{from, to}) {
			return
		}
		from = to
	}
}

// isKey says whether Find takes what stands there for a secret of that form.
func (t *token) isKey(text []byte, at span) bool {
	n := at.to - at.from - len(t.prefix)
	return t.rule != "" && n >= t.min && (!t.exact || n == t.min) &&
		(at.from == 0 || t.prefix == pem || !alphanumeric(text[at.from-1]) && text[at.from-1] != '_')
}
