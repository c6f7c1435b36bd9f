package gitrepo

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestValidRef(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]bool{
		"refs/heads/main": true, "refs/heads/ralph/7": true, "refs/ralph/x": true, "refs/heads/é": true,
		"refs/heads/-x": true,
		"refs/heads/@":  true, "refs/heads/a@b": true,
		"main": false, "HEAD": false, "refs/": false, "refs/heads/": false, "refs/heads//x": false, "refs/heads/.x": false,
		"refs/heads/x.": false, "refs/heads/x.lock": false, "refs/heads/x.lock/y": false, "refs/heads/a..b": false,
		"refs/heads/a b": false, "refs/heads/a\tb": false, "refs/heads/a\x7fb": false, "refs/heads/a~b": false,
		"refs/heads/a^b": false,
		"refs/heads/a:b": false, "refs/heads/a?b": false, "refs/heads/a*b": false, "refs/heads/a[b": false,
		`refs/heads/a\b": false`: false,
		"refs/heads/a@{b":        false, "refs/heads/a\nb": false, "refs/heads/../../x": false, "--upload-pack=x": false,
		"": false,
	} {
		if got := ValidRef(ref); got != want {
			t.Errorf("%q: %v, want %v", ref, got, want)
		}
	}
	for name, want := range map[string]bool{
		"main": true, "ralph/7": true, "-x": false, "HEAD": false, "": false, "a b": false,
	} {
		if got := ValidBranch(name); got != want {
			t.Errorf("branch %q: %v, want %v", name, got, want)
		}
	}
}

func TestIsDotGit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		".git": true, ".GIT": true, ".Git": true, ".git.": true, ".git ": true, ".git. . ": true, ".git:x": true,
		".git::$INDEX_ALLOCATION": true,
		"git~1":                   true, "GIT~1": true, "git~23": true, "git~1.": true, ".g\u200cit": true,
		"\ufeff.git": true, ".git\u200f": true,
		".gi\u212at": false, ".gitignore": false, ".github": false, "git": false, "git~": false, "git~1x": false,
		".git.x": false, "": false, "x.git": false,
	} {
		if got := isDotGit(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"a/b.c", "A/B.C", "a./b.c ", "a/b.c:x", "a/b.c::$DATA", "a\u200c/b.c"},
		{".husky", ".hu\u017fky", ".HUSKY", ".hus\u212ay"},
		{"stra\u00dfe", "STRASSE", "Stra\u1e9ee"}, {"caf\u00e9", "cafe\u0301", "CAFE\u0301"}, {"\u03c3", "\u03c2", "\u03a3"},
		{"..", ".."}, {"...", "..."},
	} {
		for _, name := range same {
			if got := Fold(name); got != Fold(same[0]) {
				t.Errorf("%q is %q, and %q is %q", same[0], Fold(same[0]), name, got)
			}
		}
	}
	for _, differ := range [][2]string{{"a", "b"}, {"a.b", "ab"}, {"a/b", "ab"}, {"", "a"}, {".", ".."}} {
		if Fold(differ[0]) == Fold(differ[1]) {
			t.Errorf("%q and %q are both %q", differ[0], differ[1], Fold(differ[0]))
		}
	}
}

func FuzzFold(f *testing.F) {
	for _, seed := range []string{"a/B.c", ".HU\u017fky", "x:y/. /..", "\xff", "\u0130", "e\u0301"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		once := Fold(path)
		if strings.Count(once, "/") != strings.Count(path, "/") {
			t.Errorf("%q became %q", path, once)
		}
		upper := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r - 'a' + 'A'
			}
			return r
		}, path)
		if utf8.ValidString(path) && Fold(upper) != once {
			t.Errorf("%q depends on the case of its letters", path)
		}
	})
}

func TestBadTarget(t *testing.T) {
	t.Parallel()
	for path, targets := range map[string][2][]string{ // those that are allowed, and those that are not
		"l":                {{"a", "./a/b", "a/", "."}, {"", "/", "/a", "..", "../a", "a/../b", "a/../../b", "./../a", ".git/config", "a\x00b", "x/.git"}},
		"d/l":              {{"../a", ".."}, {"../../a", "../.GIT"}},
		"d/e/l":            {{"../../a"}, nil},
		".gitignore":       {nil, []string{"a"}},
		"d/.gitattributes": {nil, []string{"a"}},
	} {
		for i, list := range targets {
			for _, target := range list {
				if got := badTarget(path, target); (got == "") != (i == 0) {
					t.Errorf("%q -> %q: %q", path, target, got)
				}
			}
		}
	}
}

func FuzzBadTarget(f *testing.F) {
	f.Add("d/l", "../a")
	f.Add("l", "a/../../b")
	f.Fuzz(func(t *testing.T, path, target string) {
		if cleanPath(path) != nil || badTarget(path, target) != "" {
			return
		}
		// Resolved by text it is inside; and stays so through any other link,
		// since it does not climb after it descended.
		dir, _ := splitPath(path)
		rel, err := filepath.Rel("/base/tree", filepath.Join("/base/tree", dir, target))
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") || strings.HasPrefix(target, "/") {
			t.Errorf("%q -> %q leads to %q", path, target, rel)
		}
	})
}

func TestParseOID(t *testing.T) {
	t.Parallel()
	hex40 := strings.Repeat("01234abcde", 4)
	for s, want := range map[string]bool{
		hex40: true, hex40 + hex40[:24]: false, "": false, "HEAD": false, hex40[1:]: false, hex40 + "0": false,
		strings.ToUpper(hex40): false,
		"-" + hex40[1:]:        false, hex40[:39] + "g": false, hex40[:39] + "\n": false,
	} {
		if got, err := parseOID(s); (err == nil) != want || (want && string(got) != s) {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
}

func TestRecentEnough(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"git version 2.39.5\n": true, "git version 2.39.5 (Apple Git-154)": true, "git version 2.50.1.windows.1": true,
		"git version 3.0.0":  true,
		"git version 2.38.9": false, "git version 1.99.0": false, "git version": false, "": false, "git version x.y": false,
	} {
		if got := recentEnough(version); got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
}
