package redact

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// MinSecret is the least number of bytes of a known secret: masking shorter
// values would punch holes into ordinary text.
const MinSecret = 6

// Masker masks secrets. It is immutable and safe for concurrent use; a nil
// Masker masks by pattern only.
type Masker struct {
	starts *starts
	// bare are the letters and digits of the values that look random.
	bare [][]byte
	mask string
}

// masks are tried in turn for one that shares no character with a known
// value: no value can then come together from a mask and its neighbours.
var masks = [...]string{"***", "•••", "███", "▒▒▒"}

// New makes a Masker for known secrets. Values shorter than MinSecret are left
// out; so are lines of them, where a value has several lines, each of which is
// masked by itself too.
func New(secrets ...string) *Masker { return newMasker(secrets, patterns[:]) }

// NewKnown makes a Masker for known secrets alone: what only looks like a token is
// left as it is.
func NewKnown(secrets ...string) *Masker { return newMasker(secrets, nil) }

func newMasker(secrets []string, patterns []pattern) *Masker {
	m := &Masker{}
	var all []string
	for _, s := range secrets {
		s = strings.Trim(s, "\r\n")
		all = append(all, spellings(s)...)
		if lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }); len(lines) > 1 {
			for _, line := range lines {
				// The frame of a PEM block is no secret.
				if !strings.HasPrefix(line, "-----") {
					all = append(all, spellings(line)...)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	all = slices.Compact(all)
	m.starts = newStarts(all, patterns)
	for _, s := range secrets {
		if b := bare(s); len(b) >= pieceLen && random(string(b)) {
			m.bare = append(m.bare, b)
		}
	}
	m.mask = masks[len(masks)-1]
	for _, candidate := range masks {
		if !slices.ContainsFunc(all, func(f string) bool { return strings.ContainsAny(f, candidate) }) {
			m.mask = candidate
			break
		}
	}
	return m
}

// plain masks by pattern only.
var plain = sync.OnceValue(func() *Masker { return New() })

// orPlain is m, or what a nil Masker stands for.
func (m *Masker) orPlain() *Masker {
	if m == nil {
		return plain()
	}
	return m
}

// spellings lists the forms in which a value may show up.
func spellings(s string) []string {
	if len(s) < MinSecret {
		return nil
	}
	h := hex.EncodeToString([]byte(s))
	out := []string{s, h, strings.ToUpper(h)}
	out = append(out, pieces(s)...)
	for _, escaped := range []string{url.QueryEscape(s), url.PathEscape(s), componentEscape(s)} {
		out = append(out, escaped, lowerEscapes(escaped))
	}
	// In JSON, in JSON that is a text of JSON, and with the escapes that are left
	// to the writer's taste.
	for _, once := range jsonEscapes(s) {
		out = append(out, once)
		out = append(out, jsonEscapes(once)...)
	}
	// Base64 of a text that has the value in it: the value starts at one of
	// three alignments, and the characters at both ends also depend on its
	// neighbours. What lies between them is always the same.
	for shift := range 3 {
		padded := append(make([]byte, shift), s...)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			coded := enc.EncodeToString(padded)
			from := (shift*8 + 5) / 6
			to := len(padded) * 8 / 6
			if to-from >= MinSecret {
				out = append(out, coded[from:to])
			}
		}
	}
	return out
}

// pieceLen is the length of a piece of a value that is masked by itself: short enough to
// find a value that lacks its beginning, and long enough to be no word.
const pieceLen = 16

// pieces are the parts of a value that give most of it away: all that look random
// of one that is a token. Addresses, paths and phrases have none, since their
// parts are words.
func pieces(s string) []string {
	if len(s) <= pieceLen || strings.ContainsFunc(s, func(r rune) bool { return !token(r) }) {
		return nil
	}
	var out []string
	for i := 0; i+pieceLen <= len(s); i++ {
		if p := s[i : i+pieceLen]; random(p) {
			out = append(out, p)
		}
	}
	return out
}

// token says whether r is of the characters that keys are made of.
func token(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_+=", r)
}

// componentEscape is JavaScript's encodeURIComponent.
func componentEscape(s string) string {
	return strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A",
		"*").Replace(url.QueryEscape(s))
}

// lowerEscapes has the digits of %XX in lower case, as some write them.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// jsonEscapes are the ways to write s in a string of JSON.
func jsonEscapes(s string) []string {
	encode := func(html bool) string {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(html)
		_ = enc.Encode(s) // a string can always be encoded
		return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
	}
	plain, html := encode(false), encode(true)
	return []string{plain, html, strings.ReplaceAll(plain, "/", `\/`), strings.ReplaceAll(html, "/", `\/`)}
}

// Mask returns s with every secret replaced, those too that are spread over it: with
// line ends, quotes or anything else between their letters and digits.
func (m *Masker) Mask(s string) string {
	sc := scanner{m: m.orPlain()}
	text := sc.feed([]byte(s), true)
	var b strings.Builder
	done := 0
	for _, at := range merge(sc.m.spread(context.Background(), text, math.MaxInt)) {
		b.Write(text[done:at.from])
		b.WriteString(sc.m.mask)
		done = at.to
	}
	b.Write(text[done:])
	return b.String()
}

// span is a part of a text.
type span struct{ from, to int }

// merge gives the spans in order, those that overlap or touch as one. It reuses the slice.
func merge(all []span) []span {
	slices.SortFunc(all, func(a, b span) int { return a.from - b.from })
	apart := all[:0]
	for _, at := range all {
		if last := len(apart) - 1; last >= 0 && at.from <= apart[last].to {
			apart[last].to = max(apart[last].to, at.to)
		} else {
			apart = append(apart, at)
		}
	}
	return apart
}

// spread gives the places of known values whose letters and digits follow each other in
// text, whatever stands between them; of each value at most so many. The text is walked in
// pieces, and what a value may begin with is carried from one to the next.
func (m *Masker) spread(ctx context.Context, text []byte, most int) []span {
	longest := 0
	for _, value := range m.bare {
		longest = max(longest, len(value))
	}
	if longest == 0 {
		return nil
	}
	var all []span
	var letters []byte
	var places []int
	count := make([]int, len(m.bare))
	for from := 0; from < len(text) && ctx.Err() == nil; from += maxPiece {
		carried := min(len(letters), longest-1)
		letters = slices.Delete(letters, 0, len(letters)-carried)
		places = slices.Delete(places, 0, len(places)-carried)
		for i, c := range text[from:min(from+maxPiece, len(text))] {
			if alphanumeric(c) {
				letters, places = append(letters, c), append(places, from+i)
			}
		}
		for i, value := range m.bare {
			// What ends in what was carried was found before.
			for at := max(0, carried-len(value)+1); count[i] < most; count[i]++ {
				n := bytes.Index(letters[at:], value)
				if n < 0 {
					break
				}
				at += n + len(value)
				all = append(all, span{places[at-len(value)], places[at-1] + 1})
			}
		}
	}
	return all
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// bare is what a value has of letters and digits.
func bare(value string) []byte {
	return slices.DeleteFunc([]byte(value), func(c byte) bool { return !alphanumeric(c) })
}

// Writer returns a writer that passes masked text on to w. It keeps back what
// may turn out to be a secret; Close passes on the rest, and does not close w. It
// does not see secrets that are spread over the text.
// It is not safe for concurrent use.
func (m *Masker) Writer(w io.Writer) *Writer { return &Writer{w: w, sc: scanner{m: m.orPlain()}} }

// Writer masks a stream.
type Writer struct {
	w   io.Writer
	sc  scanner
	err error
}

// Write implements io.Writer. All of p counts as written, even where some of
// it is kept back. After an error of the writer below, it is returned again.
func (w *Writer) Write(p []byte) (int, error) {
	if w.flush(p, false); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close passes on what was kept back.
func (w *Writer) Close() error {
	w.flush(nil, true)
	return w.err
}

func (w *Writer) flush(p []byte, final bool) {
	if w.err != nil {
		return
	}
	if out := w.sc.feed(p, final); len(out) > 0 {
		_, w.err = w.w.Write(out)
	}
}

// scanner masks a text that comes in pieces.
type scanner struct {
	m    *Masker
	held []byte
	// masking: the mask for what is being dropped is out already. Secrets that
	// overlap or touch share one mask, so that the tail of one does not stay
	// behind the mask of another.
	masking bool
	// until is how much of held is to be dropped for certain.
	until int
	// swallow drops on, past until, while the text goes on like the pattern.
	swallow *pattern
}

// feed returns what can be decided after p has come in.
func (sc *scanner) feed(p []byte, final bool) []byte {
	b := append(sc.held, p...)
	out := make([]byte, 0, len(b))
	until := sc.until
	for i := 0; i < len(b); i++ {
		if !sc.masking {
			n := sc.m.starts.skip(b[i:])
			out = append(out, b[i:i+n]...)
			if i += n; i == len(b) {
				break
			}
		}
		n, pat, partial := sc.m.match(b[i:], final)
		if !partial && n == 0 && sc.masking && i >= until && sc.swallow != nil {
			n, partial = sc.swallow.ends(b[i:], final)
			if n > 0 {
				sc.swallow = nil
			}
		}
		if partial {
			sc.held, sc.until = append([]byte(nil), b[i:]...), max(until-i, 0)
			return out
		}
		if n > 0 {
			if !sc.masking {
				out = append(out, sc.m.mask...)
				sc.masking = true
			}
			until = max(until, i+n)
			if pat != nil {
				sc.swallow = pat
			}
		}
		if sc.masking && (i < until || sc.swallow != nil && sc.swallow.has(b[i])) {
			continue
		}
		sc.masking, sc.swallow = false, nil
		out = append(out, b[i])
	}
	sc.held, sc.until = nil, max(until-len(b), 0)
	return out
}

// match gives the length of the longest secret at the start of b, and the
// pattern it has, if any. partial says that more text could make one, or a
// longer one.
func (m *Masker) match(b []byte, final bool) (n int, pat *pattern, partial bool) {
	if len(b) < startLen {
		return 0, nil, !final && m.starts.mayBegin(b)
	}
	at := m.starts.at(b)
	for _, f := range at.forms {
		switch {
		case len(b) >= len(f):
			if string(b[:len(f)]) == f {
				n = max(n, len(f))
			}
		case !final && strings.HasPrefix(f, string(b)):
			return 0, nil, true
		}
	}
	pn, pat, partial := matchPattern(at.patterns, b, final)
	return max(n, pn), pat, partial
}
