package claim

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// finder is a regular expression that is only tried on texts that hold one of its
// needles: most sentences hold none for most rules, and looking is cheap.
type finder struct {
	*regexp.Regexp
	needles []string // one of them is part of whatever matches; none: always try
}

// newFinder compiles an expression; an empty one finds nothing.
func newFinder(expr string) (finder, error) {
	if expr == "" {
		expr = `[^\s\S]`
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return finder{}, err
	}
	re, err := regexp.Compile(expr)
	return finder{re, needles(tree)}, err
}

// may says whether the expression can match at all.
func (f finder) may(text string) bool {
	return len(f.needles) == 0 || slices.ContainsFunc(f.needles, func(n string) bool { return strings.Contains(text, n) })
}

// MatchString is that of the expression.
func (f finder) MatchString(text string) bool { return f.may(text) && f.Regexp.MatchString(text) }

// needles are words of which every match of an expression holds at least one, nil
// if there are none.
func needles(tree *syntax.Regexp) []string {
	switch tree.Op {
	case syntax.OpLiteral:
		if tree.Flags&syntax.FoldCase == 0 {
			return []string{string(tree.Rune)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needles(tree.Sub[0])
	case syntax.OpRepeat:
		if tree.Min > 0 {
			return needles(tree.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range tree.Sub {
			if found := needles(sub); shortest(found) > shortest(best) {
				best = found
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range tree.Sub {
			found := needles(sub)
			if len(found) == 0 {
				return nil
			}
			all = append(all, found...)
		}
		return all
	}
	return nil
}

// shortest is the length of the shortest word, 0 if there is none.
func shortest(words []string) int {
	if len(words) == 0 {
		return 0
	}
	return len(slices.MinFunc(words, func(a, b string) int { return len(a) - len(b) }))
}
