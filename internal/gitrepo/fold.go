package gitrepo

import (
	"iter"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Fold gives paths the same form that some file system takes for one: letters of
// either case by Unicode's full folding, composed and decomposed characters, code
// points that macOS ignores, and on Windows dots and spaces at the end of a name
// and what follows a colon. It is for comparing, not for showing.
func Fold(path string) string {
	if folded(path) {
		return path
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = foldName(part)
	}
	return strings.Join(parts, "/")
}

// folded says whether Fold would change nothing, where that is plain to see.
func folded(path string) bool {
	for i := range len(path) {
		switch c := path[i]; {
		case c >= 'A' && c <= 'Z', c == ':', c >= 0x80:
			return false
		case (c == '.' || c == ' ') && (i+1 == len(path) || path[i+1] == '/'):
			return false
		}
	}
	return true
}

func foldName(name string) string {
	same := strings.Map(func(r rune) rune {
		if hfsIgnores(r) {
			return -1
		}
		return r
	}, name)
	same = norm.NFC.String(cases.Fold().String(norm.NFD.String(same)))
	base, _, _ := strings.Cut(same, ":")
	if base = strings.TrimRight(base, " ."); base == "" {
		return same // nothing but dots
	}
	return base
}

// dropTwins refuses new files where some file system takes their name, or that of
// a directory they lie in, for another one of the tree. What the tree had before
// stays, also where it collides.
func (s *snapper) dropTwins(kept []entry) {
	if len(s.added) == 0 {
		return
	}
	slices.SortFunc(s.added, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	// The spellings of each name that new files have.
	spelled := map[string][]string{}
	for _, e := range s.added {
		for path := range prefixes(e.Path) {
			spelled[Fold(path)] = nil
		}
	}
	for _, e := range kept {
		for path := range prefixes(e.Path) {
			key := Fold(path)
			if others, asked := spelled[key]; asked && !slices.Contains(others, path) {
				spelled[key] = append(others, path)
			}
		}
	}
	s.added = slices.DeleteFunc(s.added, func(e entry) bool {
		for path := range prefixes(e.Path) {
			key := Fold(path)
			others := spelled[key]
			switch {
			case slices.Contains(others, path):
			case len(others) == 0:
				spelled[key] = []string{path}
			default:
				reason := "the same name as " + quotePath(others[0]) + " on some file systems"
				if path != e.Path {
					reason = "its directory has " + reason
				}
				s.refuse(e.Path, reason)
				return true
			}
		}
		return false
	})
}

// prefixes gives the directories that a path lies in, from the top, and the path.
func prefixes(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(path) {
			if path[i] == '/' && !yield(path[:i]) {
				return
			}
		}
		yield(path)
	}
}
