package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxDepth bounds how deep JSON nests; a PRD needs four.
const maxDepth = 100

// value is a JSON value and where it stands in the source.
type value struct {
	kind       byte // '{', '[', '"', '0' for a number, 't' for a boolean, 'n'
	start, end int
	text       string   // of a string, decoded; of a number, as written
	truth      bool     // of a boolean
	members    []member // of an object
	items      []value  // of an array
}

// member is a key of an object, where it stands, and its value.
type member struct {
	name       string
	start, end int // of the key, with its quotes
	value      value
}

// get finds a member by its name.
func (v *value) get(name string) *value {
	for i := range v.members {
		if v.members[i].name == name {
			return &v.members[i].value
		}
	}
	return nil
}

// scanner reads values with their places. encoding/json decides what JSON is;
// this only notes where.
type scanner struct {
	name string
	src  []byte // without byte order mark
	skip int    // length of the byte order mark
	dec  *json.Decoder
}

// parseJSON reads the one value that src holds.
func parseJSON(name string, src []byte) (value, error) {
	body := bytes.TrimPrefix(src, []byte(bom))
	s := &scanner{name: name, src: body, skip: len(src) - len(body), dec: json.NewDecoder(bytes.NewReader(body))}
	s.dec.UseNumber()
	tok, start, err := s.next()
	if err != nil {
		return value{}, err
	}
	v, err := s.value(tok, start, 0)
	if err != nil {
		return value{}, err
	}
	if _, err := s.dec.Token(); !errors.Is(err, io.EOF) {
		at := v.end + len(s.src[v.end-s.skip:]) - len(bytes.TrimLeft(s.src[v.end-s.skip:], " \t\r\n"))
		return value{}, s.fail(at, "there is something behind the end of the JSON document", "remove it")
	}
	return v, nil
}

// next reads a token and gives its first byte in the source.
func (s *scanner) next() (json.Token, int, error) {
	at := int(s.dec.InputOffset())
	for at < len(s.src) && strings.IndexByte(" \t\r\n,:", s.src[at]) >= 0 {
		at++
	}
	tok, err := s.dec.Token()
	if err == nil {
		return tok, at + s.skip, nil
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		// Offset counts the bytes read, the offending one included.
		at = max(at, int(syntax.Offset)-1)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || at >= len(s.src) {
		return nil, 0, s.fail(len(s.src)+s.skip, "the JSON document is cut off", "restore the end of the file")
	}
	return nil, 0, s.fail(at+s.skip, "this is not JSON: "+strings.TrimPrefix(err.Error(), "json: "),
		"fix it; a comma too many or too few is the usual cause")
}

// end is the place behind the last token.
func (s *scanner) end() int { return int(s.dec.InputOffset()) + s.skip }

// value reads the rest of the value that begins with tok.
func (s *scanner) value(tok json.Token, start, depth int) (value, error) {
	if depth > maxDepth {
		return value{}, s.fail(start, fmt.Sprintf("the JSON document nests more than %d levels deep", maxDepth),
			"nest it less deeply")
	}
	v := value{start: start}
	switch t := tok.(type) {
	case json.Delim:
		v.kind = '['
		if t == '{' {
			v.kind = '{'
		}
		for s.dec.More() {
			if err := s.element(&v, depth); err != nil {
				return value{}, err
			}
		}
		if _, _, err := s.next(); err != nil { // the closing bracket
			return value{}, err
		}
	case string:
		v.kind, v.text = '"', t
	case json.Number:
		v.kind, v.text = '0', t.String()
	case bool:
		v.kind, v.truth = 't', t
	case nil:
		v.kind = 'n'
	}
	v.end = s.end()
	return v, nil
}

// element reads the next member of an object or item of an array into v.
func (s *scanner) element(v *value, depth int) error {
	var m member
	tok, start, err := s.next()
	if err != nil {
		return err
	}
	if v.kind == '{' {
		m.name, _ = tok.(string) // the decoder lets nothing else be a key
		m.start, m.end = start, s.end()
		if tok, start, err = s.next(); err != nil {
			return err
		}
	}
	item, err := s.value(tok, start, depth+1)
	if err != nil {
		return err
	}
	if v.kind == '{' {
		m.value = item
		v.members = append(v.members, m)
	} else {
		v.items = append(v.items, item)
	}
	return nil
}

// fail is an error at a place of the whole source, byte order mark included.
func (s *scanner) fail(at int, message, hint string) error {
	return failAt(s.name, s.src, at-s.skip, message, hint)
}

// encodeString writes s as a JSON string, without the escapes HTML would want.
func encodeString(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string into a buffer: neither can fail
	return strings.TrimSuffix(b.String(), "\n")
}
