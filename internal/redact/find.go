package redact

import (
	"bytes"
	"context"
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
	// words: each of the form holds one of them, at most maxLead bytes behind its begin.
	words    []string
	expr     func() *regexp.Regexp
	critical bool
	// vague values count only where they look random.
	vague bool
}

// rules are the forms that services document for their keys: those of [patterns], and those
// that do not begin alike.
var rules = sync.OnceValue(func() []rule {
	critical := func(name, expr string, words ...string) rule {
		return rule{name: name, expr: strs.Lazy(expr), words: words, critical: true}
	}
	var all []rule
	for i := range patterns {
		if p := &patterns[i]; p.rule != "" {
			all = append(all, critical(p.rule, `\b(`+p.expr()+`)`, p.prefix))
		}
	}
	return append(all, []rule{
		critical("private_key",
			`(-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\\[nr]|[\s"'+,])*[A-Za-z0-9+/=:, -]{40,})`,
			"-----BEGIN "),
		critical("openai_key", `\b(sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})`, "T3BlbkFJ"),
		critical("slack_token", `\b(xox[abposr]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{20,})`, "xox", "xapp-"),
		critical("slack_webhook", `(hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{20,})`,
			"hooks.slack.com"),
		critical("sendgrid_key", `\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})`, "SG."),
		critical("hugging_face_token", `\b(hf_[A-Za-z]{34})\b`, "hf_"),
		critical("digitalocean_token", `\b(do[opr]_v1_[a-f0-9]{64})\b`, "_v1_"),
		critical("azure_storage_key", `AccountKey=([A-Za-z0-9+/]{86}==)`, "AccountKey="),
		critical("shopify_token", `\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})\b`, "shp"),
		critical("telegram_token", `\b(\d{8,10}:AA[A-Za-z0-9_-]{33})\b`, ":AA"),
		critical("grafana_token", `\b(glc_[A-Za-z0-9+/=_]{32,})`, "glc_"),
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
	}...)
})

const (
	// maxFound bounds what is reported of one text, of the secrets that are known by form.
	maxFound = 100
	// maxVague bounds the text, in bytes, that the vague forms are looked for in:
	// they are slow to find, and what is larger is data.
	maxVague = 1 << 20
	// maxLead and maxReach are how far before and behind one of its words a form is
	// looked for, and maxValue how much of it is kept.
	maxLead, maxReach, maxValue = 64, 1024, 512
	// maxPiece is looked at between two looks at the context.
	maxPiece = 64 << 10
	// maxClose bounds what a Search looks at closely, in bytes. Source code needs about a
	// third of its length.
	maxClose = 64 << 20
)

// Search is for texts that belong together, as those of one change. It bounds what all
// of them cost: near the words of a form, an expression is tried, and these are slow.
// The zero Search has not begun.
type Search struct{ close int }

// Find looks for secrets nobody has told us of, by their looks. What cannot be
// one is left out: examples of the vendors' documentation, place holders, and
// for the vague forms all that does not look random, or stands in a text of
// more than 1 MiB. The work is linear. whole is false where not all of the text was
// looked at: the context was cancelled, or the search has cost too much.
func (s *Search) Find(ctx context.Context, text []byte) (found []Secret, whole bool) {
	whole = true
	for _, r := range rules() {
		if r.vague && len(text) > maxVague {
			continue
		}
		some, all := s.find(ctx, r, text)
		found, whole = append(found, some...), whole && all
	}
	slices.SortStableFunc(found, func(a, b Secret) int { return a.Line - b.Line })
	return found[:min(len(found), maxFound)], whole
}

// find gives the places of one form, at most maxFound.
func (s *Search) find(ctx context.Context, r rule, text []byte) (found []Secret, whole bool) {
	seen, line, end := 0, 1, 0 // line is that of the byte at seen; what is before end was found
	for _, near := range r.near(text) {
		for from := near.from; from < near.to; from += maxPiece {
			// The byte before says whether a word begins.
			before := max(0, from-1)
			piece := text[before:min(len(text), from+maxPiece+maxReach, near.to)]
			if s.close += len(piece); s.close > maxClose || ctx.Err() != nil {
				return found, false
			}
			for _, m := range r.expr().FindAllSubmatchIndex(piece, -1) {
				if before+m[0] >= from+maxPiece { // the next piece holds the whole
					break
				}
				at, value := before+m[2], string(piece[m[2]:min(m[3], m[2]+maxValue)])
				if before+m[0] < end || placeholder(value) || r.vague && !random(value) {
					continue
				}
				end = before + m[1]
				line += bytes.Count(text[seen:at], []byte("\n"))
				seen = at
				found = append(found, Secret{Line: line, Rule: r.name, Critical: r.critical, Value: value})
				if len(found) == maxFound {
					return found, true
				}
			}
		}
	}
	return found, true
}

// near gives the parts of a text that may hold the form, in order: what is around
// its words. Most texts have few, and expressions are slow.
func (r rule) near(text []byte) []span {
	var parts []span
	for _, word := range r.words {
		w := []byte(word)
		for i := 0; ; {
			n := bytes.Index(text[i:], w)
			if n < 0 {
				break
			}
			part := span{max(0, i+n-maxLead), min(len(text), i+n+maxReach)}
			if last := len(parts) - 1; last >= 0 && parts[last].from <= part.from && part.from <= parts[last].to {
				parts[last].to = max(parts[last].to, part.to)
			} else {
				parts = append(parts, part)
			}
			i += n + len(w)
		}
	}
	return merge(parts)
}

// Known is the rule of a secret that a Masker was told of.
const Known = "known_secret"

// Search looks for the secrets that the Masker knows, in any of the forms that it masks,
// besides what the search finds; whole is as there.
func (m *Masker) Search(ctx context.Context, search *Search, text []byte) (found []Secret, whole bool) {
	found, whole = search.Find(ctx, text)
	found = append(found, m.FindKnown(ctx, text)...)
	slices.SortStableFunc(found, func(a, b Secret) int { return a.Line - b.Line })
	return found, whole
}

// FindKnown looks for nothing but the secrets that the Masker knows. Time is linear in
// the length of the text, and next to no memory is needed beside one that is large. Of each
// form of a secret maxFound places are reported; when the context is cancelled, what was found until then is returned.
func (m *Masker) FindKnown(ctx context.Context, text []byte) []Secret {
	m = m.orPlain()
	// Most that are spread are there in one piece, too.
	places := merge(append(m.known(ctx, text), m.spread(ctx, text, maxFound)...))
	found := make([]Secret, 0, len(places))
	seen, line := 0, 1
	for _, at := range places {
		line += bytes.Count(text[seen:at.from], []byte("\n"))
		seen = at.from
		found = append(found, Secret{Line: line, Rule: Known, Critical: true, Value: string(text[at.from:at.to])})
	}
	return found
}

// known gives the places of known values, at most maxFound of each form. Pieces of a
// value that touch are one.
func (m *Masker) known(ctx context.Context, text []byte) []span {
	var places []span
	count := map[string]int{}
	asked := 0
	for i := 0; ; i++ {
		if i >= asked {
			if ctx.Err() != nil {
				return places
			}
			asked = i + maxPiece
		}
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
			} else if count[form] < maxFound {
				count[form]++
				places = append(places, span{i, i + len(form)})
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
