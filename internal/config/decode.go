package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
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
	// maxLines and maxProblems bound what a hostile file costs: the YAML parser takes time
	// that grows with the square of the lines, and each problem quotes its line.
	maxLines    = 2000
	maxProblems = 20
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

// document is one file as it is read: where each key stands, and what is wrong.
type document struct {
	source []byte
	// dir is what relative paths are relative to.
	dir   string
	nodes map[string]ast.Node
	// malformed are problems of the file's form. Where there are some, what its values
	// amount to is not looked at.
	malformed, problems []Problem
}

// decode reads source strictly into dst, a pointer to a struct that already
// holds the defaults; see keysOf for its tags. An empty file, and a key without
// a value, say nothing. check looks at what came of it all.
func decode(source []byte, dir string, dst any, check func(*document)) []Problem {
	// Editors on Windows put a byte order mark first.
	source = bytes.TrimPrefix(source, []byte("\uFEFF"))
	d := &document{source: source, dir: dir, nodes: map[string]ast.Node{}}
	body, bad := d.parse()
	if bad != nil {
		return []Problem{*bad}
	}
	v := reflect.ValueOf(dst).Elem()
	d.set(v, body, "", "")
	if len(d.malformed) > 0 {
		return d.malformed
	}
	check(d)
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return d.problems
}

// parse gives the file's one document, nil where it says nothing.
func (d *document) parse() (ast.Node, *Problem) {
	tokens, p := d.prescan()
	if p != nil {
		return nil, p
	}
	file, err := parser.Parse(tokens, 0)
	if ye, ok := errors.AsType[yaml.Error](err); ok && ye.GetToken() != nil {
		p := d.at(ye.GetToken(), clipTo(strs.OneLine(ye.GetMessage()), 200))
		return nil, &p
	}
	switch {
	case err != nil:
		return nil, &Problem{Message: strs.OneLine(err.Error())}
	case len(file.Docs) > 1:
		return nil, &Problem{Message: "the file holds more than one YAML document; only one is allowed"}
	case len(file.Docs) == 0:
		return nil, nil //nolint:nilnil // an empty file says nothing
	}
	return file.Docs[0].Body, nil
}

// prescan gives the file's tokens. It refuses what must not reach the parser: a file too
// large, bytes that are no text, and nesting without end.
func (d *document) prescan() (token.Tokens, *Problem) {
	// Any of \n, \r and \r\n ends a line.
	lines := bytes.Count(d.source, []byte("\n")) + bytes.Count(d.source, []byte("\r")) - bytes.Count(d.source, []byte("\r\n"))
	switch {
	case len(d.source) > MaxFileBytes:
		return nil, &Problem{Message: fmt.Sprintf("the file has %d bytes; at most %d are read", len(d.source), MaxFileBytes)}
	case lines > maxLines:
		return nil, &Problem{Message: fmt.Sprintf("the file has %d lines; at most %d are read", lines, maxLines)}
	case !utf8.Valid(d.source):
		return nil, &Problem{Message: "the file is not UTF-8 text"}
	}
	depth, entries, line := 0, 0, 0
	tokens := lexer.Tokenize(string(d.source))
	for _, t := range tokens {
		if t.Position != nil && t.Position.Line != line {
			entries, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			// "- - - -" and "? ? ?" nest within one line.
			entries++
		}
		if depth > maxDepth || entries > maxDepth {
			p := d.at(t, "the file is nested too deeply")
			return nil, &p
		}
	}
	return tokens, nil
}

// set puts what stands at node into v. path is the key's, and rule what its tag
// asks of the value.
func (d *document) set(v reflect.Value, node ast.Node, path, rule string) {
	if _, ok := node.(*ast.NullNode); ok || node == nil {
		return
	}
	d.nodes[path] = node
	switch v.Kind() {
	case reflect.Pointer:
		if text, ok := scalar(node); ok && text == "" {
			return // it says as little as a key without a value
		}
		v.Set(reflect.New(v.Type().Elem()))
		d.set(v.Elem(), node, path, rule)
	case reflect.Struct:
		m, ok := node.(ast.MapNode)
		if !ok {
			d.mismatch(node, "a map")
			return
		}
		d.setMap(v, keysOf(v.Type()), m, path, "")
	case reflect.Slice:
		list, ok := node.(*ast.SequenceNode)
		if !ok {
			d.mismatch(node, "a list")
			return
		}
		if len(list.Values) > maxEntries {
			d.malform(node.GetToken(), fmt.Sprintf("%d entries; at most %d are allowed", len(list.Values), maxEntries))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
		for i, entry := range list.Values {
			if _, null := entry.(*ast.NullNode); null || entry == nil {
				d.malform(node.GetToken(), fmt.Sprintf("entry %d of the list is empty", i+1))
				continue
			}
			d.set(v.Index(i), entry, fmt.Sprintf("%s[%d]", path, i), rule)
		}
	default:
		text, ok := scalar(node)
		if !ok {
			d.mismatch(node, cmp.Or(map[reflect.Kind]string{reflect.String: "text", reflect.Bool: "true or false"}[v.Kind()],
				"a number or a time"))
			return
		}
		d.setScalar(v, node, text, path, rule)
	}
}

// setMap puts the entries of a map, found in the file at path, into the fields of v
// whose keys begin with prefix.
func (d *document) setMap(v reflect.Value, keys map[string]field, m ast.MapNode, path, prefix string) {
	for entry := m.MapRange(); entry.Next(); {
		name, ok := entry.Key().(*ast.StringNode)
		if !ok {
			d.malform(entry.Key().GetToken(), "a key must be plain text")
			continue
		}
		at, key := strings.TrimPrefix(path+"."+name.Value, "."), prefix+name.Value
		if strings.Contains(name.Value, ".") { // dots are how keysOf writes sections
			d.unknown(name.GetToken())
			continue
		}
		if f, ok := keys[key]; ok {
			d.set(v.FieldByIndex(f.index), entry.Value(), at, f.rule)
			continue
		}
		section := false
		for k := range keys {
			section = section || strings.HasPrefix(k, key+".")
		}
		below, ok := entry.Value().(ast.MapNode)
		_, null := entry.Value().(*ast.NullNode)
		switch {
		case !section:
			d.unknown(name.GetToken())
		case ok:
			d.nodes[at] = entry.Value()
			d.setMap(v, keys, below, at, key+".")
		case !null:
			d.mismatch(entry.Value(), "a map")
		}
	}
}

// setScalar reads text as v's type has it, and checks it.
func (d *document) setScalar(v reflect.Value, node ast.Node, text, path, rule string) {
	inList := strings.HasSuffix(path, "]")
	if text == "" && !inList {
		return // it says as little as a key without a value
	}
	var err error
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		var span time.Duration
		if span, err = parseDuration(text); err == nil {
			v.SetInt(int64(span))
		} else {
			err = errors.New("is not a duration; write it with a unit, like 90s, 30m or 1h30m")
		}
	case strings.HasPrefix(rule, bytesRule):
		size, ok := parseBytes(text)
		if !ok {
			err = errors.New("is not a size; write it like 512m or 2g")
		}
		v.SetInt(size)
	case v.Kind() == reflect.Bool:
		if _, ok := node.(*ast.BoolNode); !ok {
			d.mismatch(node, "true or false")
			return
		}
		v.SetBool(strings.EqualFold(text, "true"))
	case v.CanInt():
		var n int64
		if n, err = strconv.ParseInt(text, 10, v.Type().Bits()); err != nil {
			err = errors.New("is not a whole number")
		}
		v.SetInt(n)
	case v.CanFloat():
		var n float64
		if n, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			err = errors.New("is not a number")
		}
		v.SetFloat(n)
	default:
		v.SetString(text)
	}
	if err != nil {
		d.malform(node.GetToken(), fmt.Sprintf("%q %s", clip(text), err))
		return
	}
	if err := d.check(v, rule); err != nil {
		d.report(path, "%s", err)
	}
}

func (d *document) malform(t *token.Token, message string) {
	if len(d.malformed) < maxProblems {
		d.malformed = append(d.malformed, d.at(t, message))
	}
}

func (d *document) mismatch(node ast.Node, want string) {
	d.malform(node.GetToken(), "expected "+want+", found "+nodeName(node))
}

// unknown reports a key that there is not. Its value may be a secret in the wrong
// place and is not repeated.
func (d *document) unknown(t *token.Token) {
	if len(d.malformed) == maxProblems {
		return
	}
	p := d.at(t, fmt.Sprintf("unknown key %q", clip(t.Value)))
	for _, word := range []string{"secret", "token", "password", "private_key", "api_key", "apikey"} {
		if strings.Contains(strings.ToLower(t.Value), word) {
			p.Message += "; secrets are not read from this file"
			break
		}
	}
	if line, caret, ok := strings.Cut(p.Excerpt, "\n"); ok {
		if end := strings.IndexByte(line[min(p.Column-1, len(line)):], ':'); end >= 0 {
			p.Excerpt = line[:p.Column-1+end+1] + "\n" + caret
		}
	}
	d.malformed = append(d.malformed, p)
}

// report notes a problem of the value at path ("gates[0].run"), and points at
// it where the file names it.
func (d *document) report(path, format string, args ...any) {
	if len(d.problems) == maxProblems {
		return
	}
	p := Problem{Message: path + ": " + fmt.Sprintf(format, args...)}
	if node := d.nodes[path]; node != nil {
		p = d.at(node.GetToken(), p.Message)
	}
	d.problems = append(d.problems, p)
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

// scalar is the text of a scalar node, unquoted.
func scalar(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	}
	return "", false
}

// nodeName names what stands in a file as people who write YAML do.
func nodeName(node ast.Node) string {
	switch node.(type) {
	case ast.MapNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	}
	return "what is not supported here: " + strings.ToLower(node.Type().String())
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

// parseBytes reads "512m", "2g", "2GiB" or a number of bytes. Units are powers
// of 1024, as Docker's are.
func parseBytes(text string) (int64, bool) {
	digits := strings.TrimRight(text, "bBiIkKmMgGtT ")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(text[len(digits):])), "b"), "i")
	power := strings.Index("kmgt", unit)
	if err != nil || n < 0 || len(unit) > 1 || power < 0 {
		return 0, false
	}
	shift := 10 * (power + len(unit))
	if n > math.MaxInt64>>shift {
		return 0, false
	}
	return n << shift, true
}
