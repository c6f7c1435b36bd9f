package gitrepo

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// .gitignore files are read here and not by git, which would have to run on
// the agent's directory. The rules are those of gitignore(5), matched byte by
// byte as git does. A pattern becomes a regular expression of Go's kind, whose
// time is linear in the name: a hostile pattern cannot make it explode.

// maxIgnoreSize and maxIgnoreRules bound one .gitignore file.
const (
	maxIgnoreSize  = 256 << 10
	maxIgnoreRules = 5000
)

// ignoreRule is one line of a .gitignore file.
type ignoreRule struct {
	negated bool
	dirOnly bool
	// base rules are matched against the last part of the path, the others
	// against the path relative to the directory of the file.
	base bool
	// literal rules compare; suffix rules ("*.o") compare the end; for the rest
	// re is made when it is first needed.
	// Of a path rule, literal is what comes before the pattern: git compares it
	// first, so that "a**/b" is "a" and then "**/b".
	literal string
	suffix  bool
	pattern string
	re      *regexp.Regexp
	never   bool
}

// parseIgnore reads a .gitignore file. It fails where the file is larger than
// the limits.
func parseIgnore(data []byte) ([]*ignoreRule, error) {
	if len(data) > maxIgnoreSize {
		return nil, fmt.Errorf("more than %d bytes", maxIgnoreSize)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var rules []*ignoreRule
	for line := range strings.SplitSeq(string(data), "\n") {
		line = strings.TrimSuffix(line, "\r")
		// git's lines are C strings.
		line, _, _ = strings.Cut(line, "\x00")
		if line == "" || line[0] == '#' {
			continue
		}
		if rule := parseRule(trimTrailingSpaces(line)); rule != nil {
			rules = append(rules, rule)
		}
		if len(rules) > maxIgnoreRules {
			return nil, fmt.Errorf("more than %d rules", maxIgnoreRules)
		}
	}
	return rules, nil
}

// trimTrailingSpaces removes the spaces at the end that no backslash protects.
func trimTrailingSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
			if i == len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}

func parseRule(p string) *ignoreRule {
	r := &ignoreRule{}
	if rest, ok := strings.CutPrefix(p, "!"); ok {
		r.negated, p = true, rest
	}
	if rest, ok := strings.CutSuffix(p, "/"); ok {
		r.dirOnly, p = true, rest
	}
	r.base = !strings.Contains(p, "/")
	p = strings.TrimPrefix(p, "/")
	if p == "" {
		return nil
	}
	switch {
	case !hasGlob(p):
		r.literal = p
	case r.base && p[0] == '*' && !hasGlob(p[1:]):
		r.literal, r.suffix = p[1:], true
	case r.base:
		r.pattern = p
	default:
		at := strings.IndexAny(p, globBytes)
		r.literal, r.pattern = p[:at], p[at:]
	}
	return r
}

// globBytes are the bytes with a meaning in a pattern.
const globBytes = `*?[\`

func hasGlob(s string) bool { return strings.ContainsAny(s, globBytes) }

// matches says whether the rule speaks of rel, which is relative to the
// directory of the rule's file.
func (r *ignoreRule) matches(rel, base string, dir bool) bool {
	if r.dirOnly && !dir {
		return false
	}
	name := rel
	if r.base {
		name = base
	}
	switch {
	case r.suffix:
		return strings.HasSuffix(name, r.literal)
	case r.pattern == "":
		return name == r.literal
	}
	name, ok := strings.CutPrefix(name, r.literal)
	if !ok {
		return false
	}
	if r.re == nil && !r.never {
		expr, ok := globToRegexp(r.pattern)
		if ok {
			re, err := regexp.Compile(expr)
			r.re, ok = re, err == nil
		}
		r.never = !ok
	}
	return !r.never && r.re.MatchString(latin1(name))
}

// latin1 makes each byte a character of its own, so that a character of a
// regular expression is a byte, whatever the encoding of the name.
func latin1(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			runes := make([]rune, len(s))
			for j := range len(s) {
				runes[j] = rune(s[j])
			}
			return string(runes)
		}
	}
	return s
}

// globToRegexp translates a pattern for paths. It says false for a pattern that
// can match nothing.
func globToRegexp(p string) (string, bool) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(p); {
		switch c := p[i]; c {
		case '\\':
			if i+1 == len(p) {
				return "", false
			}
			writeByte(&b, p[i+1])
			i += 2
		case '?':
			b.WriteString(`[^/]`)
			i++
		case '*':
			i = starToRegexp(&b, p, i)
		case '[':
			next, ok := classToRegexp(&b, p, i)
			if !ok {
				return "", false
			}
			i = next
		default:
			writeByte(&b, c)
			i++
		}
	}
	b.WriteString(`\z`)
	return b.String(), true
}

// starToRegexp translates the stars at i. Two or more cross directories where
// they stand alone between slashes; elsewhere they are one.
func starToRegexp(b *strings.Builder, p string, i int) int {
	end := i
	for end < len(p) && p[end] == '*' {
		end++
	}
	opens := i == 0 || p[i-1] == '/'
	switch {
	case end-i < 2 || !opens:
	case end == len(p):
		b.WriteString(`.*`)
		return end
	case p[end] == '/':
		b.WriteString(`(?:.*/)?`)
		return end + 1
	case strings.HasPrefix(p[end:], `\/`):
		b.WriteString(`.*`)
		return end
	}
	b.WriteString(`[^/]*`)
	return end
}

func writeByte(b *strings.Builder, c byte) { fmt.Fprintf(b, `\x{%02x}`, c) }

// classToRegexp translates the bracket expression at i, and returns where it
// ends. It is computed byte by byte: the two notations differ in too much.
func classToRegexp(b *strings.Builder, p string, i int) (int, bool) {
	var in [256]bool
	i++
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	var prev byte // the start of a range; 0 means none
	for first := true; ; first = false {
		if i >= len(p) {
			return 0, false
		}
		c := p[i]
		switch {
		case c == ']' && !first:
			return i + 1, writeClass(b, &in, negated)
		case c == '-' && prev != 0 && i+1 < len(p) && p[i+1] != ']':
			i++
			if p[i] == '\\' {
				if i++; i >= len(p) {
					return 0, false
				}
			}
			for v := int(prev); v <= int(p[i]); v++ {
				in[v] = true
			}
			prev = 0
			i++
			continue
		case c == '[' && i+1 < len(p) && p[i+1] == ':':
			end := strings.IndexByte(p[i+2:], ']')
			if end < 0 {
				return 0, false
			}
			if name, ok := strings.CutSuffix(p[i+2:i+2+end], ":"); ok {
				if !addClass(&in, name) {
					return 0, false
				}
				prev = 0
				i += 2 + end + 1
				continue
			}
			in['['] = true
			prev = '['
			i++
			continue
		case c == '\\':
			if i++; i >= len(p) {
				return 0, false
			}
			c = p[i]
		}
		in[c] = true
		prev = c
		i++
	}
}

// writeClass writes the set; a slash is never in it.
func writeClass(b *strings.Builder, in *[256]bool, negated bool) bool {
	var set strings.Builder
	for c := range 256 {
		if in[c] != negated && c != '/' {
			writeByte(&set, byte(c))
		}
	}
	if set.Len() == 0 {
		return false
	}
	b.WriteString("[" + set.String() + "]")
	return true
}

// addClass adds a POSIX class of ASCII characters.
func addClass(in *[256]bool, name string) bool {
	lower := func(c byte) bool { return c >= 'a' && c <= 'z' }
	upper := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	graph := func(c byte) bool { return c > ' ' && c < 0x7f }
	alnum := func(c byte) bool { return lower(c) || upper(c) || digit(c) }
	var member func(byte) bool
	switch name {
	case "alnum":
		member = alnum
	case "alpha":
		member = func(c byte) bool { return lower(c) || upper(c) }
	case "blank":
		member = func(c byte) bool { return c == ' ' || c == '\t' }
	case "cntrl":
		member = func(c byte) bool { return c < ' ' || c == 0x7f }
	case "digit":
		member = digit
	case "graph":
		member = graph
	case "lower":
		member = lower
	case "print":
		member = func(c byte) bool { return graph(c) || c == ' ' }
	case "punct":
		member = func(c byte) bool { return graph(c) && !alnum(c) }
	case "space":
		member = func(c byte) bool { return c == ' ' || (c >= '\t' && c <= '\r') }
	case "upper":
		member = upper
	case "xdigit":
		member = func(c byte) bool { return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') }
	default:
		return false
	}
	for c := range 256 {
		if member(byte(c)) {
			in[c] = true
		}
	}
	return true
}

// ignoreScope is the rules in force in one directory.
type ignoreScope struct {
	parent *ignoreScope
	// dir is the directory's path, name its last part; "" at the root.
	dir, name string
	rules     []*ignoreRule
	// excluded says whether the directory itself is ignored, once asked.
	excluded, asked bool
}

// ignores says whether the untracked file or directory name in the scope's
// directory is ignored. The rules of the deepest file that says something
// decide, the last of them first; below an ignored directory nothing can be
// taken back.
func (s *ignoreScope) ignores(name string, dir bool) bool {
	if s.ignored() {
		return true
	}
	path := name
	if s.dir != "" {
		path = s.dir + "/" + name
	}
	for scope := s; scope != nil; scope = scope.parent {
		rel := path
		if scope.dir != "" {
			rel = path[len(scope.dir)+1:]
		}
		for _, r := range slices.Backward(scope.rules) {
			if r.matches(rel, name, dir) {
				return !r.negated
			}
		}
	}
	return false
}

// ignored says whether the scope's own directory is.
func (s *ignoreScope) ignored() bool {
	if s.parent == nil {
		return false
	}
	if !s.asked {
		s.excluded = s.parent.ignores(s.name, true)
		s.asked = true
	}
	return s.excluded
}
