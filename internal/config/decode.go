package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/org/ralph-action/internal/strs"
)

const (
	// MaxFileBytes bounds a configuration. Real ones have a few hundred bytes;
	// a repository's file is written by people we do not know.
	MaxFileBytes = 32 << 10
	// maxDepth bounds nesting. Ours is three levels deep; the YAML parser
	// recurses, and a stack overflow cannot be recovered from.
	maxDepth = 16
	// maxExcerpt is how many characters of a line an excerpt shows.
	maxExcerpt = 120
)

// Problem is one thing that is wrong with a configuration, for showing to the
// person who wrote it. Message and Excerpt quote the file and so are as
// trustworthy as the file is: escape them for the medium.
type Problem struct {
	// Line and Column count from 1; both are 0 where the whole file is meant.
	Line, Column int
	// Message says what is wrong and what would be right, in one line.
	Message string
	// Excerpt is the line with a caret below the place, or "".
	Excerpt string
}

// String gives "line:column: message", without the excerpt.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Message
	}
	return fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p.Message)
}

// document is one parsed file, kept so that a problem found later, in the
// values, can be shown at its place.
type document struct {
	source []byte
	file   *ast.File
}

// decode reads source strictly into dst, a pointer to a struct that already
// holds the defaults. An empty file is a file that says nothing.
func decode(source []byte, dst any) (*document, []Problem) {
	// Editors on Windows put a byte order mark first.
	source = bytes.TrimPrefix(source, []byte("\uFEFF"))
	if p := prescan(source); p != nil {
		return nil, []Problem{*p}
	}
	doc := &document{source: source}
	file, err := parser.ParseBytes(source, 0)
	if err != nil {
		return nil, []Problem{doc.fromError(err)}
	}
	doc.file = file
	if len(file.Docs) > 1 {
		return nil, []Problem{{Message: "the file holds more than one YAML document; only one is allowed"}}
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return doc, nil
	}
	body := file.Docs[0].Body
	if _, ok := body.(*ast.NullNode); ok {
		return doc, nil
	}
	if t := oddKey(body); t != nil {
		return nil, []Problem{doc.at(t, "a key must be plain text")}
	}
	if err := yaml.NodeToValue(body, dst, yaml.Strict()); err != nil {
		return nil, []Problem{doc.fromError(err)}
	}
	return doc, nil
}

// prescan refuses what must not reach the parser: a file too large, bytes that
// are no text, nesting without end, and the parts of YAML that make a small
// file large (anchors, aliases and merge keys).
func prescan(source []byte) *Problem {
	switch {
	case len(source) > MaxFileBytes:
		return &Problem{Message: fmt.Sprintf("the file has %d bytes; at most %d are read", len(source), MaxFileBytes)}
	case !utf8.Valid(source):
		return &Problem{Message: "the file is not UTF-8 text"}
	}
	doc := &document{source: source}
	depth, entries, line := 0, 0, 0
	for _, t := range lexer.Tokenize(string(source)) {
		if t.Position != nil && t.Position.Line != line {
			entries, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			p := doc.at(t, "anchors, aliases and merge keys are not supported here; write the value out")
			return &p
		case token.TagType:
			p := doc.at(t, "YAML tags are not supported here")
			return &p
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			// "- - - -" and "? ? ?" nest within one line.
			entries++
		}
		if depth > maxDepth || entries > maxDepth {
			p := doc.at(t, "the file is nested too deeply")
			return &p
		}
	}
	return nil
}

// oddKey finds a key that is not text. The YAML library matches such keys with
// no field and passes over them in silence, even when strict.
func oddKey(body ast.Node) *token.Token {
	var odd *token.Token
	ast.Walk(visitor(func(n ast.Node) {
		pair, ok := n.(*ast.MappingValueNode)
		if !ok || odd != nil {
			return
		}
		if _, ok := pair.Key.(*ast.StringNode); !ok {
			odd = pair.Key.GetToken()
		}
	}), body)
	return odd
}

type visitor func(ast.Node)

// Visit implements ast.Visitor.
func (v visitor) Visit(n ast.Node) ast.Visitor {
	v(n)
	return v
}

// fromError turns what the YAML library reports into a Problem.
func (d *document) fromError(err error) Problem {
	ye, ok := errors.AsType[yaml.Error](err)
	if !ok || ye.GetToken() == nil {
		return Problem{Message: strs.OneLine(err.Error())}
	}
	t := ye.GetToken()
	if mismatch, ok := errors.AsType[*yaml.TypeError](err); ok {
		return d.at(t, "expected "+kindName(mismatch.DstType)+", found "+kindName(mismatch.SrcType))
	}
	if shape, ok := errors.AsType[*yaml.UnexpectedNodeTypeError](err); ok {
		return d.at(t, "expected "+nodeName(shape.Expected)+", found "+nodeName(shape.Actual))
	}
	if _, ok := errors.AsType[*yaml.UnknownFieldError](err); !ok {
		return d.at(t, strs.OneLine(ye.GetMessage()))
	}
	// The value of a key we do not know may be a secret in the wrong place: it
	// is not repeated.
	p := d.at(t, fmt.Sprintf("unknown key %q", t.Value))
	if looksSecret(t.Value) {
		p.Message += "; secrets are not read from this file"
	}
	if line, caret, ok := strings.Cut(p.Excerpt, "\n"); ok {
		if end := strings.IndexByte(line[min(p.Column-1, len(line)):], ':'); end >= 0 {
			p.Excerpt = line[:p.Column-1+end+1] + "\n" + caret
		}
	}
	return p
}

// kindName names a type as people who write YAML do.
func kindName(t reflect.Type) string {
	if t == nil {
		return "nothing"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a map"
	case reflect.Pointer:
		return kindName(t.Elem())
	default:
		return "a number"
	}
}

// nodeName is kindName for what stands in the file.
func nodeName(t ast.NodeType) string {
	switch t {
	case ast.MappingType, ast.MappingValueType:
		return "a map"
	case ast.SequenceType:
		return "a list"
	case ast.StringType, ast.LiteralType:
		return "text"
	case ast.IntegerType, ast.FloatType:
		return "a number"
	default:
		return strings.ToLower(t.String())
	}
}

// looksSecret says whether a key sounds as if its value were one.
func looksSecret(key string) bool {
	k := strings.ToLower(key)
	for _, word := range []string{"secret", "token", "password", "private_key", "api_key", "apikey"} {
		if strings.Contains(k, word) {
			return true
		}
	}
	return false
}

// at makes a Problem that points at token t.
func (d *document) at(t *token.Token, message string) Problem {
	p := Problem{Message: message}
	if t == nil || t.Position == nil {
		return p
	}
	p.Line, p.Column = max(t.Position.Line, 1), max(t.Position.Column, 1)
	p.Excerpt = d.excerpt(p.Line, p.Column)
	return p
}

// passwordPattern is what of a URL is or holds a password.
var passwordPattern = strs.Lazy(`://[^/\s]*:[^/\s]*@|password=[^&\s"']*`)

// excerpt is the line with a caret below the column, or "" where a caret
// would point nowhere sensible.
func (d *document) excerpt(line, column int) string {
	lines := strings.Split(string(d.source), "\n")
	if line > len(lines) {
		return ""
	}
	shown := passwordPattern().ReplaceAllStringFunc(lines[line-1], func(password string) string {
		return strings.Repeat("*", utf8.RuneCountInString(password)) // the caret stays at its place
	})
	text := []rune(strings.TrimRight(strings.ReplaceAll(shown, "\t", " "), "\r"))
	if column > len(text)+1 || column > maxExcerpt {
		return ""
	}
	if len(text) > maxExcerpt {
		text = append(text[:maxExcerpt-1:maxExcerpt-1], '…')
	}
	return string(text) + "\n" + strings.Repeat(" ", column-1) + "^"
}

// problem points at the value at path ("$.limits.max_iterations"), or at
// nothing where the file does not name it.
func (d *document) problem(path, message string) Problem {
	message = strings.TrimPrefix(path, "$.") + ": " + message
	if d == nil || d.file == nil || len(d.file.Docs) == 0 {
		return Problem{Message: message}
	}
	yp, err := yaml.PathString(path)
	if err != nil {
		return Problem{Message: message}
	}
	node, err := yp.FilterFile(d.file)
	if err != nil || node == nil {
		return Problem{Message: message}
	}
	return d.at(node.GetToken(), message)
}

// whole reads a whole number. The YAML library by itself would cut 1.5 to 1.
type whole int64

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (w *whole) UnmarshalYAML(node ast.Node) error {
	text := scalar(node)
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return &yaml.SyntaxError{
			Message: fmt.Sprintf("%q is not a whole number", clip(text)),
			Token:   node.GetToken(),
		}
	}
	*w = whole(v)
	return nil
}

// duration reads "90s", "30m" or "1h30m" and refuses a bare number, which
// would be nanoseconds to Go and minutes to most people.
type duration time.Duration

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (d *duration) UnmarshalYAML(node ast.Node) error {
	text := scalar(node)
	v, err := parseDuration(text)
	if err != nil {
		return &yaml.SyntaxError{
			Message: fmt.Sprintf("%q is not a duration; write it with a unit, like 90s, 30m or 1h30m", clip(text)),
			Token:   node.GetToken(),
		}
	}
	*d = duration(v)
	return nil
}

// parseDuration knows days, too: "30d".
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	return time.ParseDuration(text)
}

// bytesize reads "512m", "2g", "2GiB" or a number of bytes. Units are powers
// of 1024, as Docker's are.
type bytesize int64

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (b *bytesize) UnmarshalYAML(node ast.Node) error {
	text := scalar(node)
	v, ok := parseBytes(text)
	if !ok {
		return &yaml.SyntaxError{
			Message: fmt.Sprintf("%q is not a size; write it like 512m or 2g", clip(text)),
			Token:   node.GetToken(),
		}
	}
	*b = bytesize(v)
	return nil
}

func parseBytes(text string) (int64, bool) {
	digits := strings.TrimRight(text, "bBiIkKmMgGtT ")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	var shift uint
	switch strings.ToLower(strings.TrimSpace(text[len(digits):])) {
	case "", "b":
	case "k", "kb", "kib":
		shift = 10
	case "m", "mb", "mib":
		shift = 20
	case "g", "gb", "gib":
		shift = 30
	case "t", "tb", "tib":
		shift = 40
	default:
		return 0, false
	}
	if n > math.MaxInt64>>shift {
		return 0, false
	}
	return n << shift, true
}

// scalar is the text of a scalar node, unquoted; "" for anything else.
func scalar(node ast.Node) string {
	s, ok := node.(ast.ScalarNode)
	if !ok || s.GetToken() == nil {
		return ""
	}
	return s.GetToken().Value
}

// clip shortens a value for a message.
func clip(s string) string { return clipTo(s, 40) }
