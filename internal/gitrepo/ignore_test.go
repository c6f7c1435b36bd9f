package gitrepo

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// gitIgnores asks git itself which of the paths each set of rules ignores. The
// sets lie in directories of one repository. Paths that end in a slash exist as
// directories; git takes what does not exist for a file.
func gitIgnores(t *testing.T, sets, paths []string) []map[string]bool {
	t.Helper()
	ignored := make([]map[string]bool, len(sets))
	for _, dirs := range []bool{true, false} {
		top := t.TempDir()
		mustGit(t, top, "init", "-q")
		var ask []string
		for i, rules := range sets {
			files{fmt.Sprintf("%d/.gitignore", i): rules}.write(t, top)
			for _, p := range paths {
				if strings.HasSuffix(p, "/") != dirs {
					continue
				}
				p = fmt.Sprintf("%d/%s", i, strings.TrimSuffix(p, "/"))
				if dirs {
					if err := os.MkdirAll(filepath.Join(top, p), 0o750); err != nil {
						t.Fatal(err)
					}
				}
				ask = append(ask, p)
			}
		}
		cmd := exec.CommandContext(t.Context(), "git", "check-ignore", "-z", "--stdin", "--no-index")
		cmd.Dir = top
		cmd.Env = baseEnv(false)
		cmd.Stdin = strings.NewReader(strings.Join(ask, "\x00"))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("git check-ignore: %v: %s", err, stderr.Bytes())
		}
		answers := map[string]bool{}
		for p := range strings.SplitSeq(string(out), "\x00") {
			answers[p] = true
		}
		for i := range sets {
			if ignored[i] == nil {
				ignored[i] = map[string]bool{}
			}
			for _, p := range paths {
				if strings.HasSuffix(p, "/") == dirs && answers[fmt.Sprintf("%d/%s", i, strings.TrimSuffix(p, "/"))] {
					ignored[i][p] = true
				}
			}
		}
	}
	return ignored
}

// weIgnore decides as a walk does, from the top down.
func weIgnore(rules []*ignoreRule, path string) bool {
	scope := newScope(nil)
	scope.rules = rules
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	for i, part := range parts {
		last := i == len(parts)-1
		if last {
			return scope.ignores(part, strings.HasSuffix(path, "/"))
		}
		scope = scope.below(part)
	}
	return false
}

func samplePaths() []string {
	return []string{
		"a", "a/", "b", "foo", "foo/", "foo/bar", "foo/bar/", "foo/bar/baz", "x/foo", "x/y/foo", "x/foo/bar",
		"a.o", "x/a.o", "x/y/a.o/", "foo.c", "fooo", "fo", "foo bar", "foo ", "!x", "#x", "a/b", "a/b/c", "a/x/b", "a/x/y/b",
		"ab", "abc", "a-b", "a]b", "é", "x/é.o", "A", "Foo", "dir/sub/file.txt", "file.txt", "\\x", "a*b", "a[b", "[abc]",
	}
}

func TestIgnoreMatchesGit(t *testing.T) {
	t.Parallel()
	sets := []string{
		"foo", "foo/", "/foo", "foo/bar", "/foo/bar/", "*.o", "!*.o", "*.o\n!a.o", "foo/*", "foo/**", "**/foo", "**/foo/bar",
		"a/**/b", "a/**", "**", "*", "*\n!foo", "*\n!*/", "/*\n!/foo", "foo/\n!foo/bar", "f?o", "f??", "[af]*", "[!a]*",
		"[^a]*",
		"[a-c]", "[c-a]", "[]a]*", "a[]-]b", "[[:alpha:]]", "[[:digit:][:upper:]]*", "[[:nope:]]", "[abc", "\\[abc]", "a\\*b",
		"\\!x", "\\#x", "#x", "foo\\ ", "foo ", "foo  ", "foo\\", "\\\\x", "a***b", "a**b", "x/**/y/foo", "***/foo",
		"foo/***",
		"/", "!", "!/", "//", "a//b", "foo\r", "\xef\xbb\xbffoo", "???.c", "*o", "*o*", "é", "?", "??", "dir/*/file.txt",
		"dir/*.txt", "**/*.txt", "*/foo", "*/", "x/", "!x/\nx", "a[", "a[b]", "[a\\]]b", "[\\\\]x", "[a-]b", "[--a]",
		"[!]a-]",
		"foo/bar/baz\n!foo/bar/baz", "x\\/foo", "**\\/foo", "a/**\\/b", "[.-/]*", "a[.-0]b", "[[:]", "[[:alpha]a",
		"a**/?*[[:alpha:]]", "fo****/bar", "fo**//",
	}
	compareIgnore(t, sets)
}

func TestIgnoreMatchesGitAtRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(77, 1)) // #nosec G404 -- repeatable on purpose
	pieces := []string{
		"a", "b", "o", "foo", "x", "*", "**", "/", "?", "[", "]", "!", "^", "-", "\\", " ", ".", "[a-b]", "[!a]", "**/",
		"/**", "[[:alpha:]]", "#",
	}
	var sets []string
	for range 150 {
		var lines []string
		for range 1 + rnd.IntN(3) {
			var line strings.Builder
			for range 1 + rnd.IntN(6) {
				line.WriteString(pieces[rnd.IntN(len(pieces))])
			}
			lines = append(lines, line.String())
		}
		sets = append(sets, strings.Join(lines, "\n"))
	}
	compareIgnore(t, sets)
}

func compareIgnore(t *testing.T, sets []string) {
	t.Helper()
	paths := samplePaths()
	want := gitIgnores(t, sets, paths)
	for i, rules := range sets {
		parsed, err := parseIgnore([]byte(rules))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if got := weIgnore(parsed, p); got != want[i][p] {
				t.Errorf("%q: %q: ignored %v, git says %v", rules, p, got, want[i][p])
			}
		}
	}
}

func FuzzIgnoreMatchesGit(f *testing.F) {
	for _, seed := range []string{"*.o\n!a.o", "a/**/b", "[[:alpha:]-z]*", "foo\\ \n/bar/", "**/x/**"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rules string) {
		if len(rules) > 200 || strings.HasPrefix(rules, "->") {
			return // long inputs only slow the search down; the other is our own notation
		}
		compareIgnore(t, []string{rules})
	})
}

// A tree of rules costs bounded memory and time, whatever they are, and is refused
// beyond that; the rules of the repository itself are no finding.
func TestHostileIgnoreRulesAreRefusedCheaply(t *testing.T) {
	t.Parallel()
	classes := strings.Repeat("[!a]", maxPattern/4) + "\n"
	manyClasses := strings.Repeat(classes, maxIgnoreSize/len(classes)-1)
	for name, tt := range map[string]struct {
		files, names int
		rules, want  string
	}{
		"memory":  {files: 60, rules: manyClasses, want: "more than 4 MiB of .gitignore files"},
		"size":    {files: 60, rules: strings.Repeat("#", maxIgnoreSize+1), want: "its rules are not followed: more than"},
		"long":    {files: 1, rules: strings.Repeat("[a]", 30_000), want: "its rules are not followed: a rule of more than"},
		"literal": {files: 1, names: 25_000, rules: strings.Repeat("a\n", maxIgnoreRules), want: "take too long to compare"},
		"stars": {
			files: 1, names: 1000, rules: strings.Repeat(strings.Repeat("*x", 1000)+"\n", 100), want: "take too long to compare",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := export(t, open(t, person(t, files{"a": "a"})))
			for i := range tt.files {
				files{fmt.Sprintf("d%d/.gitignore", i): tt.rules + fmt.Sprintf("#%d", i)}.write(t, w.Dir())
			}
			for i := range tt.names {
				if err := os.WriteFile(filepath.Join(w.Dir(), "d0", fmt.Sprintf("%s%d", strings.Repeat("x", 150), i)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s := snapshot(t, w)
			runtime.ReadMemStats(&after)
			if len(s.Refused) == 0 || !strings.Contains(s.Refused[0].Reason, tt.want) {
				t.Errorf("got %v, want %q", s.Refused, tt.want)
			}
			if measured && after.HeapSys > before.HeapSys+256<<20 {
				t.Errorf("the heap grew by %d MiB", (after.HeapSys-before.HeapSys)>>20)
			}
		})
	}
}

// Rules of the repository itself that are too many are no finding about the work.
func TestOwnIgnoreRulesAreNoFinding(t *testing.T) {
	t.Parallel()
	w := export(t, open(t, person(t, files{"a": "a", ".gitignore": strings.Repeat("a\n", maxIgnoreRules+1)})))
	files{"b": "b"}.write(t, w.Dir())
	if s := snapshot(t, w); len(s.Refused) > 0 {
		t.Errorf("refused %v", s.Refused)
	}
}

func TestIgnoreRefusesExcess(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"size":  "#" + strings.Repeat("x", maxIgnoreSize),
		"rules": strings.Repeat("a\n", maxIgnoreRules+1),
		"line":  strings.Repeat("x", maxPattern+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if rules, err := parseIgnore([]byte(data)); err == nil {
				t.Errorf("took %d rules", len(rules))
			}
		})
	}
}

func TestIgnoreHostilePatternIsLinear(t *testing.T) {
	t.Parallel()
	rules, err := parseIgnore([]byte("x" + strings.Repeat("*a", 200) + "b"))
	if err != nil {
		t.Fatal(err)
	}
	// A matcher that backtracks would not end in this universe.
	if weIgnore(rules, "x"+strings.Repeat("a", 250)) {
		t.Error("matched")
	}
}

// FuzzIgnoreRules: any bytes are rules that cost no more than their length tells.
func FuzzIgnoreRules(f *testing.F) {
	f.Add("*.o\n!a/**/b\n[[:alpha:]-z]*\\", "a/x/b")
	f.Add(strings.Repeat("*a", 100), strings.Repeat("a", 100))
	f.Add("**/**/**/x\n[!\xff]", "\xff/x")
	f.Fuzz(func(t *testing.T, rules, name string) {
		parsed, err := parseIgnore([]byte(rules))
		if err != nil || len(name) > maxPathLength {
			return
		}
		most := len(parsed)
		for _, r := range parsed {
			if r.pattern != nil {
				most += (len(r.pattern.tokens) + 1) * len(name)
			}
		}
		work := &ignoreWork{left: most}
		base := name[strings.LastIndexByte(name, '/')+1:]
		for _, r := range parsed {
			r.matches(name, base, true, work)
		}
		if work.left < 0 {
			t.Errorf("%d comparisons, at most %d were expected", most-work.left, most)
		}
	})
}

// What the person's git ignores by their own rules is left out as well; a repository's
// .gitignore goes before info/exclude, and that before core.excludesFile.
func TestPersonalIgnoreRules(t *testing.T) {
	t.Parallel()
	dir, own := person(t, files{".gitignore": "!kept.env\n", "d/x": "x"}), t.TempDir()
	files{"ignore": ".DS_Store\n*.env\n*.tmp\n"}.write(t, own)
	files{".git/info/exclude": "/scratch/\n!good.tmp\n"}.write(t, dir)
	mustGit(t, dir, "config", "core.excludesFile", filepath.Join(own, "ignore"))
	w := export(t, open(t, dir))
	made := files{
		"d/.DS_Store": "x", "a.env": "x", "kept.env": "x", "scratch/n": "x", "d/scratch/n": "x", "bad.tmp": "x", "good.tmp": "x",
	}
	made.write(t, w.Dir())
	made.write(t, dir)
	mustGit(t, dir, "add", "-A")
	s := snapshot(t, w)
	if want := mustGit(t, dir, "write-tree"); string(s.Tree) != want {
		t.Errorf("the tree is %q, git's is %s", treePaths(t, w.repo, s.Tree), mustGit(t, dir, "ls-tree", "-r", "--name-only", want))
	}
}
