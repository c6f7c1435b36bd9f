package agent

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"strconv"
)

// The parsers need a few members of each event, while most of its bytes are the
// output of tools. So events are not decoded whole: the end of each value is
// found, and only those that are wanted are looked into.

// pick gives the values of the named members of the JSON object b, as they stand
// there; of a name that occurs twice the last. A member that is not there is nil.
// ok is false where b is not laid out like an object; what lies within values is
// not checked.
func pick(b []byte, names ...string) (values [][]byte, ok bool) {
	values = make([][]byte, len(names))
	i := blank(b, 0)
	if i >= len(b) || b[i] != '{' {
		return values, false
	}
	i = blank(b, i+1)
	if i < len(b) && b[i] == '}' {
		return values, blank(b, i+1) == len(b)
	}
	for {
		key := i
		if i = stringEnd(b, i); i < 0 {
			return values, false
		}
		name := b[key+1 : i-1]
		if i = blank(b, i); i >= len(b) || b[i] != ':' {
			return values, false
		}
		value := blank(b, i+1)
		if i = valueEnd(b, value); i < 0 {
			return values, false
		}
		for n := range names {
			if string(name) == names[n] {
				values[n] = b[value:i]
			}
		}
		if i = blank(b, i); i >= len(b) {
			return values, false
		}
		switch b[i] {
		case ',':
			i = blank(b, i+1)
		case '}':
			return values, blank(b, i+1) == len(b)
		default:
			return values, false
		}
	}
}

// blank is the first place from i on that holds no white space.
func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is the place after the string that begins at i, -1 for none.
func stringEnd(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	i++
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		slashes := 0
		for slashes < n && b[i+n-1-slashes] == '\\' {
			slashes++
		}
		i += n + 1
		if slashes%2 == 0 {
			return i
		}
	}
}

// valueEnd is the place after the value that begins at i, -1 for none.
func valueEnd(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
		for depth := 0; i < len(b); {
			switch b[i] {
			case '"':
				if i = stringEnd(b, i); i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if i++; depth == 0 {
				return i
			}
		}
		return -1
	default: // a number, true, false or null
		from := i
		for i < len(b) && (b[i] == '-' || b[i] == '+' || b[i] == '.' || b[i]|0x20 >= 'a' && b[i]|0x20 <= 'z' || b[i] >= '0' &&
			b[i] <= '9') {
			i++
		}
		if i == from {
			return -1
		}
		return i
	}
}

// maxText is the longest string that is read, as it stands in an event. What a model
// says at once is far less, and the output of tools is not read.
const maxText = 8 << 20

// text is the string that a value holds, "" if it holds something else or too much.
func text(value []byte) string {
	if len(value) < 2 || len(value) > maxText || value[0] != '"' {
		return ""
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// amount is the number that a value holds, 0 if it holds something else.
func amount(value []byte) float64 {
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || math.IsNaN(f) {
		return 0
	}
	return f
}

// tokens is a count, within the bounds of what one start may claim.
func tokens(value []byte) int64 { return int64(min(max(amount(value), 0), maxCount)) }

// member goes down into objects by name, to the first of that name; nil where
// that leads nowhere. What comes after it is not looked at, which is most of an
// event with the output of a tool.
func member(b []byte, names ...string) []byte {
	i := 0
	for _, name := range names {
		i = blank(b, i)
		if i >= len(b) || b[i] != '{' {
			return nil
		}
		for i = blank(b, i+1); ; i = blank(b, i+1) {
			key := i
			if i = stringEnd(b, i); i < 0 {
				return nil
			}
			found := string(b[key+1:i-1]) == name
			if i = blank(b, i); i >= len(b) || b[i] != ':' {
				return nil
			}
			i = blank(b, i+1)
			if found {
				break
			}
			if i = valueEnd(b, i); i < 0 {
				return nil
			}
			if i = blank(b, i); i >= len(b) || b[i] != ',' {
				return nil
			}
		}
	}
	end := valueEnd(b, i)
	if end < 0 {
		return nil
	}
	return b[i:end]
}

// maxElements bounds what is looked at of one list.
const maxElements = 1000

// elements gives the values of a JSON list, at most maxElements of them: a list of
// nothing but "{}" must not become one of slices. Of anything else it gives none, and of a list
// that is broken those before the break.
func elements(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := blank(list, 0)
		if i >= len(list) || list[i] != '[' {
			return
		}
		i = blank(list, i+1)
		for n := 0; n < maxElements && i < len(list) && list[i] != ']'; n++ {
			end := valueEnd(list, i)
			if end < 0 || !yield(list[i:end]) {
				return
			}
			if i = blank(list, end); i < len(list) && list[i] == ',' {
				i = blank(list, i+1)
			}
		}
	}
}
