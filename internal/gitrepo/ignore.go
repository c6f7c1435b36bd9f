package gitrepo

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// .gitignore files are read here and not by git, which would have to run on
// the agent's directory. The rules are those of gitignore(5), matched byte by
// byte as git does. How much there may be of them, and how long matching takes,
// is bounded: for a file, for a tree, and for one walk.

const (
	// maxIgnoreSize and maxIgnoreRules bound one .gitignore file, and maxPattern
	// one rule, in bytes: no path is longer.
	maxIgnoreSize  = 256 << 10
	maxIgnoreRules = 5000
	maxPattern     = 4096
	// maxIgnoreTree bounds the .gitignore files of a tree together, in bytes, and
	// those that are kept parsed.
	maxIgnoreTree = 4 << 20
	// maxIgnoreWork bounds the comparisons of one walk: a second or two.
	maxIgnoreWork = 100_000_000
)

var errIgnoreSize = fmt.Errorf("more than %d bytes", maxIgnoreSize)

// ignoreWork is what one walk has left for comparing, and room to do it in.
type ignoreWork struct {
	left      int
	now, next places
	// person are rules that come after all files'.
	person []*ignoreRule
}

// take says whether n comparisons are left.
func (w *ignoreWork) take(n int) bool {
	w.left -= n
	return w.left >= 0
}

// ignoreRule is one line of a .gitignore file.
type ignoreRule struct {
	negated bool
	dirOnly bool
	// base rules are matched against the last part of the path, the others
	// against the path relative to the directory of the file.
	base bool
	// literal rules compare; suffix rules ("*.o") compare the end. Of a path rule, literal is what comes before the pattern: git compares it
	// first, so that "a**/b" is "a" and then "**/b".
	literal string
	suffix  bool
	// pattern is nil where there is nothing but the literal.
	pattern *glob
}

// parseIgnore reads a .gitignore file. It fails where the file is larger than
// the limits. A rule that can match nothing is left out.
func parseIgnore(data []byte) ([]*ignoreRule, error) {
	if len(data) > maxIgnoreSize {
		return nil, errIgnoreSize
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
		if len(line) > maxPattern {
			return nil, fmt.Errorf("a rule of more than %d bytes", maxPattern)
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
	var pattern string
	switch {
	case !hasGlob(p):
		r.literal = p
		return r
	case r.base && p[0] == '*' && !hasGlob(p[1:]):
		r.literal, r.suffix = p[1:], true
		return r
	case r.base:
		pattern = p
	default:
		at := strings.IndexAny(p, globBytes)
		r.literal, pattern = p[:at], p[at:]
	}
	g, ok := parseGlob(pattern)
	if !ok {
		return nil
	}
	r.pattern = &g
	return r
}

// globBytes are the bytes with a meaning in a pattern.
const globBytes = `*?[\`

func hasGlob(s string) bool { return strings.ContainsAny(s, globBytes) }

// matches says whether the rule speaks of rel, which is relative to the
// directory of the rule's file.
func (r *ignoreRule) matches(rel, base string, dir bool, work *ignoreWork) bool {
	if !work.take(1) || r.dirOnly && !dir {
		return false
	}
	name := rel
	if r.base {
		name = base
	}
	switch {
	case r.suffix:
		return strings.HasSuffix(name, r.literal)
	case r.pattern == nil:
		return name == r.literal
	}
	name, ok := strings.CutPrefix(name, r.literal)
	return ok && r.pattern.matches(name, work)
}

// ignoreScope is the rules in force in one directory.
type ignoreScope struct {
	parent *ignoreScope
	// dir is the directory's path, name its last part; "" at the root.
	dir, name string
	rules     []*ignoreRule
	// refused: the directory's own .gitignore was.
	refused bool
	// work is that of the walk.
	work *ignoreWork
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
		if len(scope.rules) == 0 {
			continue
		}
		rel := path
		if scope.dir != "" {
			rel = path[len(scope.dir)+1:]
		}
		for _, r := range slices.Backward(scope.rules) {
			if r.matches(rel, name, dir, s.work) {
				return !r.negated
			}
		}
	}
	for _, r := range slices.Backward(s.work.person) {
		if r.matches(path, name, dir, s.work) {
			return !r.negated
		}
	}
	return false
}

// below is the scope of the directory name in the scope's directory. Its rules are
// not known yet.
func (s *ignoreScope) below(name string) *ignoreScope {
	return &ignoreScope{parent: s, name: name, dir: strings.TrimPrefix(s.dir+"/"+name, "/"), work: s.work}
}

// newScope is the scope of the root, where these rules of a person hold besides those of files.
func newScope(person []*ignoreRule) *ignoreScope {
	return &ignoreScope{work: &ignoreWork{left: maxIgnoreWork, person: person}}
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
