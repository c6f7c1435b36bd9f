package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/gateway/spend"
)

// The limits of a request's JSON, which bound the time and the memory that reading
// takes.
const (
	maxNesting = 200
	maxValues  = 500_000
)

// kind is what the content of a field is to the API.
type kind int

const (
	ofAPI    kind = iota // fields that it reads
	inSchema             // a JSON schema
	inData               // for the model or a tool alone
)

// localRef is a reference in a schema to itself.
var localRef = rule{values: []string{"#*"}, why: whyAway, object: true}

// reader reads a request once, token by token, and copies next to nothing of it. It
// refuses what two readers of JSON could understand in two ways, and what the rules of
// the API are against.
type reader struct {
	// body is sound JSON, of which what is before at was read.
	body []byte
	at   int
	api  *rules
	// way leads to the value that is being read: names of fields, and places in lists.
	way []string
	// values counts those that were read.
	values int
	// names are those of the fields at the top, and top the values of these and of those
	// one level below that are neither lists nor objects, as they are written; all by their
	// normal names.
	names map[string]bool
	top   map[string][]byte
}

// read reads a whole body. Errors are refusals.
func (r *reader) read(body []byte) error {
	if !utf8.Valid(body) || !json.Valid(body) {
		return refuse("the request is not a JSON object: it is malformed")
	}
	if bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
		return refuse("the request is not a JSON object")
	}
	r.body, r.top = body, map[string][]byte{}
	r.next()
	return r.object("", ofAPI)
}

// next is the next token: a brace or bracket, or a text, number or word as it is written.
// In sound JSON commas and colons say nothing more.
func (r *reader) next() []byte {
	for strings.IndexByte(" \t\r\n,:", r.body[r.at]) >= 0 {
		r.at++
	}
	from := r.at
	switch r.body[r.at] {
	case '{', '}', '[', ']':
		r.at++
	case '"':
		for r.at++; r.body[r.at] != '"'; r.at++ {
			if r.body[r.at] == '\\' {
				r.at++
			}
		}
		r.at++
	default:
		r.at += bytes.IndexAny(r.body[r.at:], " \t\r\n,]}") // an object ends in a brace
	}
	return r.body[from:r.at]
}

// maxText is how much of a text is looked at, in bytes: neither a pattern nor the name of
// a model is as long, though each of its characters be written with six.
const maxText = 1 << 10

// unquote is what a text says that is written like that, up to most bytes of it.
func unquote(written []byte, most int) string {
	inner := written[1 : len(written)-1]
	cut := inner[:min(len(inner), most)]
	if i := bytes.LastIndexByte(cut, '\\'); len(cut) < len(inner) && i >= len(cut)-6 {
		cut = cut[:max(i, 0)] // an escape that was cut, or the end of one
	}
	var text string
	if err := json.Unmarshal(slices.Concat([]byte{'"'}, cut, []byte{'"'}), &text); err != nil {
		return string(cut) // it has a backslash, which nothing has that is looked for
	}
	return text
}

// object reads the rest of an object, which is the value of a field of that normal name.
func (r *reader) object(parent string, in kind) error {
	names := map[string]bool{}
	if len(r.way) == 0 {
		r.names = names
	}
	for tok := r.next(); tok[0] != '}'; tok = r.next() {
		name := unquote(tok, len(tok))
		r.way = append(r.way, name)
		key := name
		if in == ofAPI {
			if key = normal(name); !r.plain(name) || !r.api.spells(key, name) {
				return refuse("%s is not a field of this API: leave it out", r.path())
			}
		}
		if names[key] {
			return refuse("%s is there twice: send it once", r.path())
		}
		names[key] = true
		if err := r.field(parent, key, in); err != nil {
			return err
		}
		r.way = r.way[:len(r.way)-1]
	}
	switch {
	case in != ofAPI:
	case parent == "input" && !names["type"] && !(names["role"] && names["content"]):
		return refuse("%s has neither type, nor role and content, and may stand for something that is stored: %s", r.path(),
			whyAway)
	case parent == "inlinedata" && !names["mimetype"]:
		return refuse("%s has no mime_type: say what it is", r.path())
	}
	return nil
}

// field reads the value of a field.
func (r *reader) field(parent, name string, in kind) error {
	switch {
	case in == inData:
		return r.value(r.next(), name, rule{}, false, inData)
	case in == inSchema:
		switch name {
		case "$ref", "$dynamicRef", "$recursiveRef":
			return r.value(r.next(), name, localRef, true, inSchema)
		}
		return r.value(r.next(), name, rule{}, false, inSchema)
	case r.api.data[name]:
		return r.value(r.next(), name, rule{}, false, inData)
	case r.api.schemas[name]:
		return r.value(r.next(), name, rule{}, false, inSchema)
	}
	rl, ruled := r.api.of(parent, name)
	if ruled && len(rl.values) == 0 {
		return refuse("%s is not allowed here: %s", r.path(), rl.why)
	}
	return r.value(r.next(), name, rl, ruled, ofAPI)
}

// value reads a value of a field, or of a list that is one, which begins with a token.
func (r *reader) value(tok []byte, field string, rl rule, ruled bool, in kind) error {
	if r.values++; r.values > maxValues {
		return refuse("the request has more than %d values", maxValues)
	}
	nested := tok[0] == '{' || tok[0] == '['
	switch {
	case nested && len(r.way) >= maxNesting:
		return refuse("the request nests deeper than %d levels", maxNesting)
	case tok[0] == '{' && ruled && !rl.object:
		return refuse("%s may not be an object: %s", r.path(), rl.why)
	case tok[0] == '{':
		return r.object(field, in)
	case nested:
		tok = r.next()
		for i := 0; tok[0] != ']'; i++ {
			r.way = append(r.way, "["+strconv.Itoa(i)+"]")
			if err := r.value(tok, field, rl, ruled, in); err != nil {
				return err
			}
			r.way, tok = r.way[:len(r.way)-1], r.next()
		}
		return nil
	}
	if ruled {
		text := string(tok[:min(len(tok), maxText)])
		if tok[0] == '"' {
			text = unquote(tok, maxText)
		}
		if !rl.fits(text) {
			return refuse("%s %q is not allowed here: %s", r.path(), clip(text), rl.why)
		}
	}
	if in == ofAPI && len(r.way) <= 2 {
		r.top[normal(strings.Join(r.way, "."))] = tok
	}
	return nil
}

func (rl rule) fits(value string) bool {
	for _, pattern := range rl.values {
		if spend.Match(pattern, value) {
			return true
		}
	}
	return false
}

// plain says whether a name is spelled as the API spells its own: no reader takes it for
// another.
func (r *reader) plain(name string) bool {
	if r.api.camel && strings.Contains(name, "_") && name != strings.ToLower(name) {
		return false
	}
	for _, c := range name {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (!r.api.camel || c < 'A' || c > 'Z') {
			return false
		}
	}
	return name != ""
}

// text is the text in a field at the top, "" where there is none.
func (r *reader) text(name string) (string, error) {
	tok, there := r.top[normal(name)]
	if there && tok[0] != '"' {
		return "", refuse("%s is not a string", name)
	}
	if !there {
		return "", nil
	}
	return unquote(tok, maxText), nil
}

// number is the whole number in a field, 0 where there is none.
func (r *reader) number(name string) (int64, error) {
	tok := string(r.top[normal(name)])
	if tok == "" || tok == "null" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(tok, 64)
	if n := int64(f); err == nil && float64(n) == f && 0 <= n && n <= 1_000_000_000 {
		return n, nil
	}
	return 0, refuse("%s is not a number of tokens or the like", name)
}

// path is the way to the value for a message.
func (r *reader) path() string {
	var b strings.Builder
	for _, name := range r.way {
		if b.Len() > 0 && !strings.HasPrefix(name, "[") {
			b.WriteByte('.')
		}
		b.WriteString(readable(name))
	}
	const most = 200
	if b.Len() > most {
		return "…" + strings.ToValidUTF8(b.String()[b.Len()-most:], "")
	}
	return cmp.Or(b.String(), "the request")
}

// readable is a name for a message, which is quoted if it is no usual one.
func readable(name string) string {
	usual := func(c rune) bool {
		return c < utf8.RuneSelf && (strings.ContainsRune("_-$[]", c) || unicode.IsLetter(c) || unicode.IsDigit(c))
	}
	text := clip(name)
	if text == "" || strings.ContainsFunc(text, func(c rune) bool { return !usual(c) }) {
		return strconv.Quote(text)
	}
	return text
}
