package redact

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/strs"
)

// Secret is a place in a text that looks like a secret.
type Secret struct {
	// Line counts from 1.
	Line int
	// Rule names the form: "aws_access_key".
	Rule string
	// Critical forms are issued by one service or open a lock by themselves;
	// the others only look like passwords and may be something else.
	Critical bool
	// Value is the secret. It must not be shown.
	Value string
}

// rule is one form of secret.
type rule struct {
	name string
	// words: a text without any of them cannot hold the form.
	words    []string
	expr     func() *regexp.Regexp
	critical bool
	// vague values count only where they look random.
	vague bool
}

// rules are the forms that services document for their keys. The forms of
// GitHub are those of [patterns], of which the installation token of 2026,
// "ghs_<app>_<JWT>", is one that other scanners do not know yet.
var rules = sync.OnceValue(func() []rule {
	critical := func(name, expr string, words ...string) rule {
		return rule{name: name, expr: strs.Lazy(expr), words: words, critical: true}
	}
	return []rule{
		critical("github_token", `\b(ghs_[A-Za-z0-9._-]{36,}|gh[pour]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})`, "ghs_",
			"ghp_", "gho_", "ghu_", "ghr_", "github_pat_"),
		critical("aws_access_key", `\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b`, "AKIA", "ASIA", "ABIA", "ACCA"),
		critical("private_key", `(-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\\[nr]|[\s"'+,])*[A-Za-z0-9+/=:, -]{40,})`, "PRIVATE KEY"),
		critical("anthropic_key", `\b(sk-ant-[A-Za-z0-9_-]{20,})`, "sk-ant-"),
		critical("openai_key", `\b(sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})`,
			"sk-"),
		critical("gitlab_token", `\b(gl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_-]{20,})`, "glpat-", "gldt-", "glrt-", "glcbt-",
			"glptt-"),
		critical("slack_token", `\b(xox[abposr]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{20,})`, "xox", "xapp-"),
		critical("slack_webhook", `(hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{20,})`,
			"hooks.slack.com"),
		critical("stripe_key", `\b([sr]k_live_[A-Za-z0-9]{16,})`, "k_live_"),
		critical("google_api_key", `\b(AIza[A-Za-z0-9_-]{35})`, "AIza"),
		critical("npm_token", `\b(npm_[A-Za-z0-9]{36})\b`, "npm_"),
		critical("pypi_token", `\b(pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,})`, "pypi-AgEI"),
		critical("sendgrid_key", `\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})`, "SG."),
		critical("hugging_face_token", `\b(hf_[A-Za-z]{34})\b`, "hf_"),
		critical("digitalocean_token", `\b(do[opr]_v1_[a-f0-9]{64})\b`, "_v1_"),
		critical("azure_storage_key", `AccountKey=([A-Za-z0-9+/]{86}==)`, "AccountKey="),
		critical("docker_token", `\b(dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,})`, "dckr_"),
		critical("shopify_token", `\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})\b`, "shp"),
		critical("telegram_token", `\b(\d{8,10}:AA[A-Za-z0-9_-]{33})\b`, ":AA"),
		critical("age_key", `\b(AGE-SECRET-KEY-1[A-Z0-9]{58})\b`, "AGE-SECRET-KEY-1"),
		critical("grafana_token", `\b(gl(?:sa|c)_[A-Za-z0-9+/=_]{32,})`, "glsa_", "glc_"),
		critical("databricks_token", `\b(dapi[a-f0-9]{32})\b`, "dapi"),
		{
			name: "json_web_token", words: []string{"eyJ"},
			expr: strs.Lazy(`\b(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,})`),
		},
		{
			name: "password_in_url", words: []string{"://"}, vague: true,
			expr: strs.Lazy(`\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@'"<>]+:([^\s:/@'"<>]{8,})@`),
		},
		{name: "assigned_secret", vague: true, words: []string{
			"key", "secret", "token", "passw", "KEY", "SECRET", "TOKEN", "PASSW", "Key", "Secret", "Token", "Passw",
		},
			expr: strs.Lazy(`(?i)(?:api[_-]?key|secret|token|passw(?:or)?d|access[_-]?key|private[_-]?key|auth[_-]?key)[\w-]*['"]?\]?\s*(?::=|=>|[:=])\s*['"\x60]([^\s'"\x60]{16,200})['"\x60]`)},
	}
})

const (
	// maxFound bounds what is reported of one text.
	maxFound = 100
	// maxVague bounds the text, in bytes, that the vague forms are looked for in:
	// they are slow to find, and what is larger is data.
	maxVague = 1 << 20
)

// Find looks for secrets nobody has told us of, by their looks. What cannot be
// one is left out: examples of the vendors' documentation, place holders, and
// for the vague forms all that does not look random, or stands in a text of
// more than 1 MiB. The work is linear.
func Find(text []byte) []Secret {
	var found []Secret
	for _, r := range rules() {
		if r.vague && len(text) > maxVague {
			continue
		}
		if !slices.ContainsFunc(r.words, func(word string) bool { return bytes.Contains(text, []byte(word)) }) {
			continue
		}
		for _, m := range r.expr().FindAllSubmatchIndex(text, maxFound) {
			value := string(text[m[2]:m[3]])
			if placeholder(value) || r.vague && !random(value) {
				continue
			}
			found = append(found, Secret{
				Line: 1 + bytes.Count(text[:m[2]], []byte("\n")), Rule: r.name, Critical: r.critical, Value: value,
			})
		}
	}
	slices.SortStableFunc(found, func(a, b Secret) int { return a.Line - b.Line })
	return found[:min(len(found), maxFound)]
}

// Known is the rule of a secret that a Masker was told of.
const Known = "known_secret"

// Find looks for the secrets that the Masker knows, in any of the forms that it
// masks and spread over the text, besides what [Find] finds.
func (m *Masker) Find(text []byte) []Secret {
	found := Find(text)
	m = m.orPlain()
	places := m.known(text)
	for _, at := range m.spread(text) {
		// Most are there in one piece, too.
		if !slices.ContainsFunc(places, func(k span) bool { return k.from < at.to && at.from < k.to }) &&
			len(places) < 2*maxFound {
			places = append(places, at)
		}
	}
	for _, at := range places {
		found = append(found, Secret{
			Line: 1 + bytes.Count(text[:at.from], []byte("\n")), Rule: Known, Critical: true, Value: string(text[at.from:at.to]),
		})
	}
	slices.SortStableFunc(found, func(a, b Secret) int { return a.Line - b.Line })
	return found
}

// known gives the places of known values, at most maxFound of them. Pieces of a
// value that touch are one.
func (m *Masker) known(text []byte) []span {
	var places []span
	for i := 0; ; i++ {
		i += m.starts.skip(text[i:])
		if len(text)-i < startLen {
			return places
		}
		for _, form := range m.starts.at(text[i:]).forms {
			if len(text)-i < len(form) || string(text[i:i+len(form)]) != form {
				continue
			}
			if n := len(places); n > 0 && places[n-1].to == i {
				places[n-1].to += len(form)
			} else if places = append(places, span{i, i + len(form)}); n+1 == maxFound {
				return places
			}
			i += len(form) - 1
			break
		}
	}
}

var filler = strs.Lazy(`(?i)example|placeholder|change[_-]?me|your[_-]|xxxx|\*\*\*\*|\.\.\.\.|dummy|redacted|<[^>]+>|\$\{|\{\{|%s|0000000|1234567890`)

// placeholder says whether a value only stands for a secret.
func placeholder(value string) bool {
	return filler().MatchString(value) || entropy(strings.TrimLeft(value, "-")) < 2.5
}

// random says whether a value of no special form looks as if it was drawn by
// lot: letters and digits, and little repetition.
func random(value string) bool {
	const letters, digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	return strings.ContainsAny(value, letters) && strings.ContainsAny(value, digits) &&
		!strings.ContainsAny(value, "(){}$ ") && entropy(value) >= 3.3
}

// entropy is Shannon's, in bits for a character.
func entropy(s string) float64 {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	h := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(s))
			h -= p * math.Log2(p)
		}
	}
	return h
}
