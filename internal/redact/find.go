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

// rules are the forms that services document for their keys and that do not begin alike,
// as those of [tokens] do, and those of passwords.
var rules = sync.OnceValue(func() []rule {
	critical := func(name, expr string, words ...string) rule {
		return rule{name: name, expr: strs.Lazy(expr), words: words, critical: true}
	}
	return []rule{
		critical("openai_key", `\b(sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})`, "T3BlbkFJ"),
		critical("sendgrid_key", `\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})`, "SG."),
		critical("azure_storage_key", `AccountKey=([A-Za-z0-9+/]{86}==)`, "AccountKey="),
		critical("shopify_token", `\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})\b`, "shp"),
		critical("telegram_token", `\b(\d{8,10}:AA[A-Za-z0-9_-]{33})\b`, ":AA"),
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
	if ctx.Err() != nil {
		return nil, false
	}
	whole = true
	lines := lineCounter{text: text}
	for i := range tokens {
		t, n := &tokens[i], len(found)
		t.each(text, func(at span) bool {
			value := string(text[at.from:min(at.to, at.from+maxValue)])
			if t.isKey(text, at) && !placeholder(value) {
				found = append(found, Secret{Line: lines.at(at.from), Rule: t.rule, Critical: true, Value: value})
			}
			return len(found)-n < maxFound
		})
	}
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
	lines, end := lineCounter{text: text}, 0 // what is before end was found
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
				found = append(found, Secret{Line: lines.at(at), Rule: r.name, Critical: r.critical, Value: value})
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
// form of a secret maxFound places are reported; nothing where the context was cancelled.
func (m *Masker) FindKnown(ctx context.Context, text []byte) []Secret {
	if ctx.Err() != nil {
		return nil
	}
	m = m.orPlain()
	// Most that are spread are there in one piece, too.
	places := merge(append(m.known(text, maxFound), m.spread(text, maxFound)...))
	found := make([]Secret, 0, len(places))
	lines := lineCounter{text: text}
	for _, at := range places {
		found = append(found, Secret{Line: lines.at(at.from), Rule: Known, Critical: true, Value: string(text[at.from:at.to])})
	}
	return found
}

// lineCounter gives the lines of places in a text, in their order.
type lineCounter struct {
	text []byte
	seen int
	ends int
}

// at is the line of a place, from 1; one before the last is looked for from the beginning.
func (l *lineCounter) at(place int) int {
	if place < l.seen {
		l.seen, l.ends = 0, 0
	}
	l.ends += bytes.Count(l.text[l.seen:place], []byte("\n"))
	l.seen = place
	return l.ends + 1
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
