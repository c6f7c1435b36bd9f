package gateway

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/gateway/spend"
)

// The limits of a request's JSON. They bound what the scanner holds beside the
// request itself: an entry for each name of the objects that are open.
const (
	maxNesting = 200
	maxNames   = 20_000
	maxName    = 512
)

// shape says what a value may be. A list may hold what its shape allows, so a
// shape stands for one value and for a list of them.
type shape struct {
	// fields are those that an object may have.
	fields map[string]*shape
	// rest is what a field that is not among them may be; nil means that there may
	// be no other.
	rest *shape
	// texts are the texts that the value may be, as patterns of spend.Match; none
	// means any.
	texts []string
	// off: the value may only be false or null.
	off bool
	// why says what is wrong with other values.
	why string
	// place is where the scanner notes the value, if it is needed.
	place place
}

// place is one of the values that the gateway itself reads or sets.
type place int

const (
	noPlace place = iota
	inModel
	inStream
	inStreamOptions
	inIncludeUsage
	inStore
	inOutput
	inOutputOld
	inAnswers
	places
)

// span is where a value is in the body; the zero span stands for none.
type span struct{ from, to int }

// scanner reads a request once, token by token. It finds out whether all readers
// of JSON would understand it alike, and whether its fields are known.
type scanner struct {
	body []byte
	at   int
	// camel: the API takes a_name for aName, as protocol buffers do.
	camel bool
	// allowed are the paths of fields that the operator allows besides.
	allowed []string
	// allowKey is the key of the configuration that allows them.
	allowKey string

	names []name
	// way leads to the value that is being read.
	way []step
	// found are the values of places.
	found [places]span
}

// name is that of a field in an object that is open.
type name struct {
	hash uint64
	at   int
}

// step leads from a value to one in it: the name of a field, or a place in a list.
type step struct {
	name  []byte
	index int
}

// seed keeps others from making names that look alike to the scanner.
var seed = maphash.MakeSeed()

// scan reads the whole body. Errors are refusals.
func (s *scanner) scan(top *shape) error {
	if !utf8.Valid(s.body) {
		return refuse("the request is not a JSON object: it is not UTF-8")
	}
	if s.space(); s.at == len(s.body) || s.body[s.at] != '{' {
		return refuse("the request is not a JSON object")
	}
	if err := s.value(top); err != nil {
		return err
	}
	if s.space(); s.at != len(s.body) {
		return s.malformed()
	}
	return nil
}

func (s *scanner) malformed() error {
	return refuse("the request is not a JSON object: it is malformed at byte %d", s.at)
}

func (s *scanner) space() {
	for s.at < len(s.body) {
		switch s.body[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// take reads c, if it comes next.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.at == len(s.body) || s.body[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) value(sh *shape) error {
	s.space()
	if s.at == len(s.body) {
		return s.malformed()
	}
	if len(s.way) > maxNesting {
		return refuse("the request nests deeper than %d levels", maxNesting)
	}
	from := s.at
	var err error
	switch c := s.body[s.at]; {
	case c == '{':
		err = s.object(sh)
	case c == '[':
		err = s.list(sh)
	case c == '"':
		err = s.text(sh)
	case c == '-' || '0' <= c && c <= '9':
		err = s.number()
	default:
		err = s.word()
	}
	if err == nil && sh.place != noPlace {
		s.found[sh.place] = span{from, s.at}
	}
	if v := string(s.body[from:min(s.at, from+6)]); err == nil && sh.off && v != "false" && v != "null" && !s.allows() {
		return refuse("%s may only be false here: %s", s.path(), sh.why)
	}
	return err
}

func (s *scanner) object(sh *shape) error {
	if sh.fields == nil && sh.rest == nil {
		if !s.allows() {
			return refuse("%s may not be an object here: %s", s.path(), s.advice())
		}
		sh = anything
	}
	s.at++
	if s.take('}') {
		return nil
	}
	first := len(s.names)
	for {
		s.space()
		from := s.at
		key, err := s.key()
		if err != nil {
			return err
		}
		field, known := sh.fields[string(key)]
		if !known && s.camel && sh.rest == nil {
			key = camelCase(key)
			field, known = sh.fields[string(key)]
		}
		s.way = append(s.way, step{name: key})
		if !known {
			if field = sh.rest; field == nil {
				if !s.allows() {
					return refuse("%s is not a field that this gateway knows: %s", s.path(), s.advice())
				}
				field = anything
			}
		}
		if s.names = append(s.names, name{maphash.Bytes(seed, key), from}); len(s.names) > maxNames {
			return refuse("the request has more than %d names in objects within each other", maxNames)
		}
		if !s.take(':') {
			return s.malformed()
		}
		if err := s.value(field); err != nil {
			return err
		}
		s.way = s.way[:len(s.way)-1]
		if s.take(',') {
			continue
		}
		if !s.take('}') {
			return s.malformed()
		}
		return s.close(first)
	}
}

// close ends an object, in which no name may stand twice.
func (s *scanner) close(first int) error {
	own := s.names[first:]
	s.names = s.names[:first]
	slices.SortFunc(own, func(a, b name) int {
		switch {
		case a.hash < b.hash:
			return -1
		case a.hash > b.hash:
			return 1
		default:
			return 0
		}
	})
	for i := 1; i < len(own); i++ {
		if own[i].hash == own[i-1].hash {
			s.at = own[i].at
			key, err := s.key()
			if err != nil {
				return err
			}
			s.way = append(s.way, step{name: key})
			return refuse("%s is there twice: send it once", s.path())
		}
	}
	return nil
}

func (s *scanner) list(sh *shape) error {
	if sh.place != noPlace {
		return refuse("%s may not be a list", s.path())
	}
	s.at++
	if s.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		s.way = append(s.way, step{index: i})
		if err := s.value(sh); err != nil {
			return err
		}
		s.way = s.way[:len(s.way)-1]
		if s.take(',') {
			continue
		}
		if !s.take(']') {
			return s.malformed()
		}
		return nil
	}
}

// key reads the name of a field.
func (s *scanner) key() ([]byte, error) {
	if s.at == len(s.body) || s.body[s.at] != '"' {
		return nil, s.malformed()
	}
	raw, escaped, err := s.quoted()
	if err != nil {
		return nil, err
	}
	if len(raw) > maxName {
		return nil, refuse("the request has a name of more than %d bytes", maxName)
	}
	if escaped {
		return unquote(raw), nil
	}
	return raw, nil
}

func (s *scanner) text(sh *shape) error {
	raw, escaped, err := s.quoted()
	if err != nil || len(sh.texts) == 0 {
		return err
	}
	// No pattern is as long as that.
	cut := raw[:min(len(raw), maxName)]
	if escaped {
		if i := bytes.LastIndexByte(cut, '\\'); len(raw) > maxName && i > len(cut)-6 {
			cut = cut[:i] // an escape that was cut
		}
		cut = unquote(cut)
	}
	value := string(cut)
	fits := func(pattern string) bool {
		return spend.Match(pattern, value) && (len(raw) <= maxName || strings.HasSuffix(pattern, "*"))
	}
	if slices.ContainsFunc(sh.texts, fits) || s.allows() {
		return nil
	}
	return refuse("%s %q is not allowed here: %s", s.path(), clip(value), sh.why)
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// quoted reads a text, whose quotes are left out. escaped says that it has
// escapes.
func (s *scanner) quoted() (raw []byte, escaped bool, err error) {
	s.at++
	from := s.at
	for {
		// Eight bytes at a time: most of a request is text. A byte that ends a text,
		// begins an escape or is a control character sets its top bit.
		for s.at+8 <= len(s.body) {
			x := binary.LittleEndian.Uint64(s.body[s.at:])
			quote, escape := x^(ones*'"'), x^(ones*'\\')
			hit := ((quote-ones)&^quote | (escape-ones)&^escape | (x-ones*' ')&^x) & highs
			if hit != 0 {
				s.at += bits.TrailingZeros64(hit) / 8
				break
			}
			s.at += 8
		}
		if s.at == len(s.body) {
			return nil, false, s.malformed()
		}
		switch c := s.body[s.at]; {
		case c == '"':
			s.at++
			return s.body[from : s.at-1], escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, false, err
			}
		case c < ' ':
			return nil, false, s.malformed()
		default:
			s.at++
		}
	}
}

func (s *scanner) escape() error {
	rest := s.body[s.at:]
	switch {
	case len(rest) < 2:
	case strings.IndexByte(`"\/bfnrt`, rest[1]) >= 0:
		s.at += 2
		return nil
	case rest[1] == 'u' && len(rest) >= 6 && !slices.ContainsFunc(rest[2:6], func(c byte) bool { return !isHex(c) }):
		s.at += 6
		return nil
	}
	return s.malformed()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// unquote reads the escapes of a text that quoted has read.
func unquote(raw []byte) []byte {
	var text string
	if err := json.Unmarshal(slices.Concat([]byte{'"'}, raw, []byte{'"'}), &text); err != nil {
		return raw // it was checked; nothing that is looked for has a backslash
	}
	return []byte(text)
}

func (s *scanner) number() error {
	digits := func() bool {
		from := s.at
		for s.at < len(s.body) && '0' <= s.body[s.at] && s.body[s.at] <= '9' {
			s.at++
		}
		return s.at > from
	}
	next := func(set string) bool {
		if s.at < len(s.body) && strings.IndexByte(set, s.body[s.at]) >= 0 {
			s.at++
			return true
		}
		return false
	}
	next("-")
	if !next("0") && !digits() {
		return s.malformed()
	}
	if next(".") && !digits() {
		return s.malformed()
	}
	if next("eE") {
		next("+-")
		if !digits() {
			return s.malformed()
		}
	}
	return nil
}

func (s *scanner) word() error {
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.body[s.at:], []byte(word)) {
			s.at += len(word)
			return nil
		}
	}
	return s.malformed()
}

// allows says whether the operator allows the value that is being read, whatever
// it is.
func (s *scanner) allows() bool { return len(s.allowed) > 0 && slices.Contains(s.allowed, s.field()) }

func (s *scanner) advice() string {
	return fmt.Sprintf("leave it out, or have the operator add %q to %s", clip(s.field()), s.allowKey)
}

// path is the way to the value for a message.
func (s *scanner) path() string {
	var b strings.Builder
	for _, at := range s.way {
		switch {
		case at.name == nil:
			fmt.Fprintf(&b, "[%d]", at.index)
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		b.WriteString(readable(at.name))
	}
	const most = 200
	if b.Len() > most {
		return "…" + strings.ToValidUTF8(b.String()[b.Len()-most:], "")
	}
	return cmp.Or(b.String(), "the request")
}

// field is the way to the value without the places in lists, as the configuration
// has it.
func (s *scanner) field() string {
	var names []string
	for _, at := range s.way {
		if at.name != nil {
			names = append(names, readable(at.name))
		}
	}
	return strings.Join(names, ".")
}

// readable is a name for a message, which is quoted if it is no usual one.
func readable(name []byte) string {
	usual := func(c rune) bool {
		return c < utf8.RuneSelf && (c == '_' || c == '-' || c == '$' || unicode.IsLetter(c) || unicode.IsDigit(c))
	}
	text := clip(string(name))
	if text == "" || strings.ContainsFunc(text, func(c rune) bool { return !usual(c) }) {
		return strconv.Quote(text)
	}
	return text
}

// camelCase is a_name as aName. There is no such name for one that has capitals.
func camelCase(key []byte) []byte {
	if bytes.IndexByte(key, '_') < 0 || bytes.ContainsFunc(key, unicode.IsUpper) {
		return key
	}
	out := make([]byte, 0, len(key))
	for i := 0; i < len(key); i++ {
		if key[i] == '_' && i+1 < len(key) && 'a' <= key[i+1] && key[i+1] <= 'z' {
			i++
			out = append(out, key[i]-'a'+'A')
			continue
		}
		out = append(out, key[i])
	}
	return out
}
