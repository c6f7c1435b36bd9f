package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
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
	// forms are those of the known values by their first four bytes, the longest first.
	forms map[uint32][]string
	// pairs are the first two bytes of all: most places of a text are ruled out by them.
	pairs [1 << 16]bool
	// longest is the length of the longest form.
	longest int
	// bare are the letters and digits of the values that look random.
	bare [][]byte
	// looks: what looks like a token is masked, too.
	looks bool
	mask  string
}

// masks are tried in turn for one that shares no character with a known
// value: no value can then come together from a mask and its neighbours.
var masks = [...]string{"***", "•••", "███", "▒▒▒"}

// New makes a Masker for known secrets. Values shorter than MinSecret are left
// out; so are lines of them, where a value has several lines, each of which is
// masked by itself too.
func New(secrets ...string) *Masker {
	m := NewKnown(secrets...)
	m.looks = true
	return m
}

// NewKnown makes a Masker for known secrets alone: what only looks like a token is
// left as it is.
func NewKnown(secrets ...string) *Masker {
	m := &Masker{forms: map[uint32][]string{}, mask: masks[len(masks)-1]}
	var all []string
	for _, s := range secrets {
		if b := bare(s); len(b) >= pieceLen && random(string(b)) {
			m.bare = append(m.bare, b)
		}
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
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, form := range slices.Compact(all) {
		first := []byte(form)
		key := binary.LittleEndian.Uint32(first)
		m.forms[key] = append(m.forms[key], form)
		m.pairs[binary.LittleEndian.Uint16(first)] = true
		m.longest = max(m.longest, len(form))
	}
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
	if len(s) <= pieceLen || strings.ContainsFunc(s, func(r rune) bool { return !inKey(r) }) {
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

// inKey says whether r is of the characters that keys are made of.
func inKey(r rune) bool {
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
	m = m.orPlain()
	text := []byte(s)
	return string(m.without(text, merge(append(m.secrets(text), m.spread(text, math.MaxInt)...))))
}

// without is a text with a mask in the place of each span.
func (m *Masker) without(text []byte, spans []span) []byte {
	out := make([]byte, 0, len(text))
	done := 0
	for _, at := range spans {
		if at.from >= len(text) {
			break
		}
		out = append(append(out, text[done:at.from]...), m.mask...)
		done = min(at.to, len(text))
	}
	return append(out, text[done:]...)
}

// secrets gives the places of all that is to be masked but what is spread, in order.
func (m *Masker) secrets(text []byte) []span {
	all := m.known(text, math.MaxInt)
	if m.looks {
		for i := range tokens {
			tokens[i].each(text, func(at span) bool {
				all = append(all, at)
				return true
			})
		}
	}
	return merge(all)
}

// known gives the places of known values, at most so many of each form. Pieces of a value
// that overlap or touch are one.
func (m *Masker) known(text []byte, most int) []span {
	var all []span
	count := map[string]int{}
	for i := 0; i+4 <= len(text); i++ {
		if !m.pairs[binary.LittleEndian.Uint16(text[i:])] {
			continue
		}
		for _, form := range m.forms[binary.LittleEndian.Uint32(text[i:])] {
			if len(text)-i < len(form) || string(text[i:i+len(form)]) != form {
				continue
			}
			if n := len(all); n > 0 && all[n-1].to >= i {
				all[n-1].to = max(all[n-1].to, i+len(form))
			} else if count[form] < most {
				count[form]++
				all = append(all, span{i, i + len(form)})
			} else {
				i += len(form) - 1
			}
			break
		}
	}
	return all
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
// text, whatever stands between them; of each value at most so many.
func (m *Masker) spread(text []byte, most int) []span {
	var all []span
	for _, value := range m.bare {
		// The search of Knuth, Morris and Pratt: back says how much of the value is still
		// there where what follows so much of it is something else.
		back := make([]int, len(value))
		for i, k := 1, 0; i < len(value); i++ {
			for k > 0 && value[i] != value[k] {
				k = back[k-1]
			}
			if value[i] == value[k] {
				k++
			}
			back[i] = k
		}
		k, count := 0, 0
		for i, c := range text {
			if !alphanumeric(c) {
				continue
			}
			for k > 0 && c != value[k] {
				k = back[k-1]
			}
			if c == value[k] {
				k++
			}
			if k < len(value) {
				continue
			}
			from := i + 1
			for ; k > 0; from-- {
				if alphanumeric(text[from-1]) {
					k--
				}
			}
			if all = append(all, span{from, i + 1}); count+1 == most {
				break
			}
			count++
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

// maxHeld bounds what a Writer keeps back, but for the longest known secret: a line, or a
// private key of several.
const maxHeld = 64 << 10

// maxStart is how much of a token has to be there to be seen as one, at most.
const maxStart = 1 << 10

// Writer returns a writer that passes masked text on to w, line by line: the end of a
// line may be what turns it into a secret. Close passes on the rest, and does not close w.
// It does not see secrets that are spread over the text.
// It is not safe for concurrent use.
func (m *Masker) Writer(w io.Writer) *Writer { return &Writer{w: w, m: m.orPlain()} }

// Writer masks a stream.
type Writer struct {
	w    io.Writer
	m    *Masker
	held []byte
	err  error
}

// Write implements io.Writer. All of p counts as written, even where some of
// it is kept back. After an error of the writer below, it is returned again.
func (w *Writer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxHeld)
		w.held = append(w.held, rest[:n]...)
		if bytes.IndexByte(rest[:n], '\n') >= 0 || len(w.held) > maxHeld {
			w.flush(false)
		}
		rest = rest[n:]
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close passes on what was kept back.
func (w *Writer) Close() error {
	w.flush(true)
	return w.err
}

// flush passes on the lines that are whole, or all at the end. Of a long line, or key, it
// keeps back what may be the beginning of a known secret.
func (w *Writer) flush(final bool) {
	if w.err != nil {
		return
	}
	spans, cut := w.m.secrets(w.held), len(w.held)
	if !final {
		most := max(len(w.held)-max(w.m.longest, maxStart), 0)
		cut = bytes.LastIndexByte(w.held, '\n') + 1
		if cut == 0 {
			cut = most
		}
		for _, at := range slices.Backward(spans) {
			if at.from < cut && cut <= at.to {
				cut = at.from
			}
		}
		if len(w.held)-cut > maxHeld {
			cut = most
		}
	}
	if cut > 0 {
		_, w.err = w.w.Write(w.m.without(w.held[:cut], spans))
	}
	w.held = append(w.held[:0], w.held[cut:]...)
}
