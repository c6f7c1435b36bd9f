package gitrepo

import "strings"

// glob is a pattern of gitignore(5) as a list of tokens, matched byte by byte.
// All ways to match are followed at once, so that the work is bounded by the
// product of the two lengths whatever the pattern.
type glob struct {
	tokens []token
	sets   []byteSet
}

// byteSet holds a bit for each byte.
type byteSet [4]uint64

func (s *byteSet) add(c byte)      { s[c>>6] |= 1 << (c & 63) }
func (s *byteSet) has(c byte) bool { return s[c>>6]&(1<<(c&63)) != 0 }

// token matches one byte, unless it is one of those that repeat.
type token struct {
	kind tokenKind
	// b is the byte of tokenByte.
	b byte
	// set is the place of tokenSet's in glob.sets.
	set uint16
}

type tokenKind uint8

const (
	tokenByte tokenKind = iota
	// tokenAny: any byte but a slash.
	tokenAny
	tokenSet
	// tokenStar: any number of bytes but slashes; tokenAll: of all bytes.
	tokenStar
	tokenAll
	// tokenDirs begins what may be left out: with tokenLoop, any bytes up to a
	// slash.
	tokenDirs
	tokenLoop
)

// parseGlob translates a pattern for paths. It says false for a pattern that can
// match nothing.
func parseGlob(p string) (glob, bool) {
	var g glob
	for i := 0; i < len(p); {
		switch c := p[i]; c {
		case '\\':
			if i+1 == len(p) {
				return glob{}, false
			}
			g.tokens = append(g.tokens, token{kind: tokenByte, b: p[i+1]})
			i += 2
		case '?':
			g.tokens = append(g.tokens, token{kind: tokenAny})
			i++
		case '*':
			i = g.stars(p, i)
		case '[':
			set, next, ok := parseClass(p, i)
			if !ok {
				return glob{}, false
			}
			g.tokens = append(g.tokens, token{kind: tokenSet, set: uint16(len(g.sets))}) // #nosec G115 -- see maxPattern
			g.sets = append(g.sets, set)
			i = next
		default:
			g.tokens = append(g.tokens, token{kind: tokenByte, b: c})
			i++
		}
	}
	return g, true
}

// stars translates the stars at i. Two or more cross directories where they
// stand alone between slashes; elsewhere they are one.
func (g *glob) stars(p string, i int) int {
	end := i
	for end < len(p) && p[end] == '*' {
		end++
	}
	opens := i == 0 || p[i-1] == '/'
	switch {
	case end-i < 2 || !opens:
	case end == len(p), strings.HasPrefix(p[end:], `\/`):
		g.tokens = append(g.tokens, token{kind: tokenAll})
		return end
	case p[end] == '/':
		g.tokens = append(g.tokens, token{kind: tokenDirs}, token{kind: tokenLoop})
		return end + 1
	}
	g.tokens = append(g.tokens, token{kind: tokenStar})
	return end
}

// parseClass reads the bracket expression at i, and returns where it ends. A
// slash is never in it.
func parseClass(p string, i int) (set byteSet, end int, ok bool) {
	i++
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	var prev byte // the start of a range; 0 means none
	for first := true; ; first = false {
		if i >= len(p) {
			return set, 0, false
		}
		c := p[i]
		switch {
		case c == ']' && !first:
			return finishClass(set, negated), i + 1, true
		case c == '-' && prev != 0 && i+1 < len(p) && p[i+1] != ']':
			i++
			if p[i] == '\\' {
				if i++; i >= len(p) {
					return set, 0, false
				}
			}
			for v := int(prev); v <= int(p[i]); v++ {
				set.add(byte(v))
			}
			prev = 0
			i++
			continue
		case c == '[' && i+1 < len(p) && p[i+1] == ':':
			end := strings.IndexByte(p[i+2:], ']')
			if end < 0 {
				return set, 0, false
			}
			if name, ok := strings.CutSuffix(p[i+2:i+2+end], ":"); ok {
				if !set.addClass(name) {
					return set, 0, false
				}
				prev = 0
				i += 2 + end + 1
				continue
			}
			set.add('[')
			prev = '['
			i++
			continue
		case c == '\\':
			if i++; i >= len(p) {
				return set, 0, false
			}
			c = p[i]
		}
		set.add(c)
		prev = c
		i++
	}
}

func finishClass(set byteSet, negated bool) byteSet {
	if negated {
		for i := range set {
			set[i] = ^set[i]
		}
	}
	set['/'>>6] &^= 1 << ('/' & 63)
	return set
}

// addClass adds a POSIX class of ASCII characters.
func (s *byteSet) addClass(name string) bool {
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
			s.add(byte(c))
		}
	}
	return true
}

// places is a set of places in a pattern.
type places struct {
	list []int
	in   []bool
}

func (s *places) reset(n int) {
	for _, at := range s.list {
		s.in[at] = false
	}
	s.list = s.list[:0]
	if len(s.in) < n {
		s.in = make([]bool, n)
	}
}

// add adds a place, and those that follow it where tokens are left out.
func (s *places) add(g *glob, at int) {
	for !s.in[at] {
		s.in[at] = true
		s.list = append(s.list, at)
		if at == len(g.tokens) {
			return
		}
		switch g.tokens[at].kind {
		case tokenStar, tokenAll:
			at++
		case tokenDirs:
			s.add(g, at+2)
			at++
		default:
			return
		}
	}
}

// matches says whether all of name matches. The work done is taken off work; a
// match that exceeds it is none.
func (g *glob) matches(name string, work *ignoreWork) bool {
	now, next := &work.now, &work.next
	now.reset(len(g.tokens) + 1)
	now.add(g, 0)
	for i := range len(name) {
		if len(now.list) == 0 || !work.take(len(now.list)) {
			return false
		}
		next.reset(len(g.tokens) + 1)
		for _, at := range now.list {
			g.step(at, name[i], next)
		}
		now, next = next, now
	}
	return len(now.in) > len(g.tokens) && now.in[len(g.tokens)]
}

// step adds the places that the byte c leads to from a place.
func (g *glob) step(at int, c byte, next *places) {
	if at == len(g.tokens) {
		return
	}
	switch t := g.tokens[at]; t.kind {
	case tokenByte:
		if c == t.b {
			next.add(g, at+1)
		}
	case tokenAny:
		if c != '/' {
			next.add(g, at+1)
		}
	case tokenSet:
		if g.sets[t.set].has(c) {
			next.add(g, at+1)
		}
	case tokenStar:
		if c != '/' {
			next.add(g, at)
		}
	case tokenAll:
		next.add(g, at)
	case tokenLoop:
		next.add(g, at)
		if c == '/' {
			next.add(g, at+1)
		}
	}
}
