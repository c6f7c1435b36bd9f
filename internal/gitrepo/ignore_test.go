package gitrepo

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gitIgnores asks git itself which of the paths are ignored. Those that end in
// a slash exist as directories; git takes what does not exist for a file.
func gitIgnores(t *testing.T, rules []byte, paths []string) map[string]bool {
	t.Helper()
	ignored := map[string]bool{}
	for _, dirs := range []bool{true, false} {
		dir := t.TempDir()
		mustGit(t, dir, "init", "-q")
		if err := os.WriteFile(filepath.Join(dir, ".gitignore"), rules, 0o600); err != nil {
			t.Fatal(err)
		}
		var ask []string
		for _, p := range paths {
			if strings.HasSuffix(p, "/") != dirs {
				continue
			}
			if dirs {
				if err := os.MkdirAll(filepath.Join(dir, p), 0o750); err != nil {
					t.Fatal(err)
				}
			}
			ask = append(ask, strings.TrimSuffix(p, "/"))
		}
		cmd := exec.CommandContext(t.Context(), "git", "check-ignore", "-z", "--stdin", "--no-index")
		cmd.Dir = dir
		cmd.Env = baseEnv(false)
		cmd.Stdin = strings.NewReader(strings.Join(ask, "\x00"))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("git check-ignore: %v: %s", err, stderr.Bytes())
		}
		for p := range strings.SplitSeq(string(out), "\x00") {
			if dirs {
				p += "/"
			}
			ignored[p] = true
		}
	}
	return ignored
}

// weIgnore decides as a walk does, from the top down.
func weIgnore(rules []*ignoreRule, path string) bool {
	scope := &ignoreScope{rules: rules}
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	for i, part := range parts {
		last := i == len(parts)-1
		if last {
			return scope.ignores(part, strings.HasSuffix(path, "/"))
		}
		scope = &ignoreScope{parent: scope, name: part, dir: strings.Join(parts[:i+1], "/")}
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
	lines := []string{
		"foo", "foo/", "/foo", "foo/bar", "/foo/bar/", "*.o", "!*.o", "*.o\n!a.o", "foo/*", "foo/**", "**/foo", "**/foo/bar",
		"a/**/b", "a/**", "**", "*", "*\n!foo", "*\n!*/", "/*\n!/foo", "foo/\n!foo/bar", "f?o", "f??", "[af]*", "[!a]*", "[^a]*",
		"[a-c]", "[c-a]", "[]a]*", "a[]-]b", "[[:alpha:]]", "[[:digit:][:upper:]]*", "[[:nope:]]", "[abc", "\\[abc]", "a\\*b",
		"\\!x", "\\#x", "#x", "foo\\ ", "foo ", "foo  ", "foo\\", "\\\\x", "a***b", "a**b", "x/**/y/foo", "***/foo", "foo/***",
		"/", "!", "!/", "//", "a//b", "foo\r", "\xef\xbb\xbffoo", "???.c", "*o", "*o*", "é", "?", "??", "dir/*/file.txt",
		"dir/*.txt", "**/*.txt", "*/foo", "*/", "x/", "!x/\nx", "a[", "a[b]", "[a\\]]b", "[\\\\]x", "[a-]b", "[--a]", "[!]a-]",
		"foo/bar/baz\n!foo/bar/baz", "x\\/foo", "**\\/foo", "a/**\\/b", "[.-/]*", "a[.-0]b", "[[:]", "[[:alpha]a",
	}
	for _, rules := range lines {
		t.Run(rules, func(t *testing.T) {
			t.Parallel()
			compareIgnore(t, []byte(rules))
		})
	}
}

func compareIgnore(t *testing.T, rules []byte) {
	t.Helper()
	parsed, err := parseIgnore(rules)
	if err != nil {
		t.Fatal(err)
	}
	paths := samplePaths()
	want := gitIgnores(t, rules, paths)
	for _, p := range paths {
		if got := weIgnore(parsed, p); got != want[p] {
			t.Errorf("%q: ignored %v, git says %v", p, got, want[p])
		}
	}
}

func FuzzIgnoreMatchesGit(f *testing.F) {
	for _, seed := range []string{"*.o\n!a.o", "a/**/b", "[[:alpha:]-z]*", "foo\\ \n/bar/", "**/x/**"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rules string) {
		if len(rules) > 200 {
			return // long inputs only slow the search down
		}
		compareIgnore(t, []byte(rules))
	})
}

func TestIgnoreRefusesExcess(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"size":  "#" + strings.Repeat("x", maxIgnoreSize),
		"rules": strings.Repeat("a\n", maxIgnoreRules+1),
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

// mustGit runs git the way a person would, for setting up and cross-checking.
func mustGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(baseEnv(false),
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com",
		"GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=init.defaultBranch", "GIT_CONFIG_VALUE_0=main",
	)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n")
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

// runGitUnguarded runs git as a careless host would, whatever it answers.
func runGitUnguarded(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"status"}, {"add", "-A"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("git %s: %v: %s", args[0], err, out)
		}
	}
}
