package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/tidwall/gjson"
)

// value is a JSON value and where it stands in the source. encoding/json decides what
// JSON is; gjson notes where.
type value struct {
	gjson.Result
	start, end int
}

// member is a key of an object, where it stands, and its value.
type member struct {
	name  string
	key   value
	value value
}

// parseJSON reads the one value that src holds.
func parseJSON(name string, src []byte) (value, error) {
	body := bytes.TrimPrefix(src, []byte(bom))
	skip := len(src) - len(body)
	var whole json.RawMessage
	err := json.Unmarshal(body, &whole)
	if err == nil {
		return placed(gjson.ParseBytes(body), skip), nil
	}
	at := len(body)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = int(syntax.Offset) - 1 // it counts the bytes read, the offending one included
	}
	message, hint := "this is not JSON: "+err.Error(), "fix it; a comma too many or too few is the usual cause"
	switch {
	case strings.HasPrefix(err.Error(), "unexpected end"),
		// within a word, where a blank stands for the end
		strings.HasPrefix(err.Error(), "invalid character ' '") && at == len(body)-1 && body[at] != ' ':
		at, message, hint = len(body), "the JSON document is cut off", "restore the end of the file"
	case strings.HasSuffix(err.Error(), "after top-level value"):
		message, hint = "there is something behind the end of the JSON document", "remove it"
	}
	return value{}, failAt(name, src, at+skip, message, hint)
}

func placed(r gjson.Result, skip int) value {
	start := r.Index + skip
	return value{r, start, start + len(r.Raw)}
}

// members are those of an object, none of any other value.
func (v value) members() (out []member) {
	if !v.IsObject() {
		return nil
	}
	skip := v.start - v.Index
	v.ForEach(func(k, r gjson.Result) bool {
		out = append(out, member{k.Str, placed(k, skip), placed(r, skip)})
		return true
	})
	return out
}

// items are those of a list.
func (v value) items() (out []value) {
	skip := v.start - v.Index
	v.ForEach(func(_, r gjson.Result) bool {
		out = append(out, placed(r, skip))
		return true
	})
	return out
}

// get finds a member by its name.
func (v value) get(name string) *value {
	for _, m := range v.members() {
		if m.name == name {
			return &m.value
		}
	}
	return nil
}

// missing says that a member is not there, or null.
func (v *value) missing() bool { return v == nil || v.Type == gjson.Null }

// kind says what a value is, for a person.
func (v value) kind() string {
	switch {
	case v.IsObject():
		return "an object"
	case v.IsArray():
		return "a list"
	case v.Type == gjson.String:
		return "a string"
	case v.Type == gjson.Number:
		return "a number"
	case v.IsBool():
		return "a boolean"
	}
	return "null"
}

// encodeString writes s as a JSON string, without the escapes HTML would want.
func encodeString(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string into a buffer: neither can fail
	return strings.TrimSuffix(b.String(), "\n")
}
