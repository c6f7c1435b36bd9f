package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// MaxFile bounds the files that FindWeakened is to be given, in bytes.
const MaxFile = 1 << 20

// FileDiff is one file before and after; Old is nil where it is new, New where
// it is gone.
type FileDiff struct {
	Path     string
	Old, New []byte
}

// Finding is something about a proposal that a person should look at.
type Finding struct {
	Path string
	// Rule names the kind of finding: "test_deleted", "aws_access_key".
	Rule string
	// Text is a sentence; it may hold names the agent chose.
	Text string
	// Grave findings fail the attempt, unless the task asks for what was done.
	Grave bool
	// test is the test a finding is about; for RuleRunner the words by which a task
	// asks for it.
	test string
}

// The rules of FindWeakened and FindUntested, and of tests that were changed.
const (
	RuleDeleted   = "test_deleted"
	RuleReplaced  = "test_replaced"
	RuleSkipped   = "test_skipped"
	RuleFocused   = "test_focused"
	RuleAsserts   = "assertions_removed"
	RuleCommand   = "test_command_changed"
	RuleRunner    = "runner_changed"
	RuleExcluded  = "tests_excluded"
	RuleNoNewTest = "no_new_tests"
	RuleChanged   = "test_changed"
	RuleSecret    = "secret"
	RuleUnseen    = "not_inspected"
)

// Unseen tells of a test, or of a file that decides how checks run, that could not be
// looked at. Nothing may hide by being large.
func Unseen(path string) Finding {
	return Finding{
		Path: path, Rule: RuleUnseen, Grave: true,
		Text: fmt.Sprintf("%s cannot be inspected: it is, or was, no plain file of at most %d MiB", path, MaxFile>>20),
	}
}

// TooMuch tells of more such files than can be looked at.
func TooMuch(files, most int) Finding {
	return Finding{
		Rule: RuleUnseen, Grave: true,
		Text: fmt.Sprintf("%d changed tests and files that decide how checks run are too much to inspect: at most %d of these",
			files, most),
	}
}

// Leak is what looks like a secret in a proposal. The secret itself is not in
// it.
type Leak struct {
	Path string
	// Line counts from 1; 0 means that the path itself holds it, masked.
	Line int
	// Rule names the form it has: "aws_access_key".
	Rule string
	// Critical forms are keys of a known service; others may be harmless.
	Critical bool
}

// RuleUnsearched is the rule of a Leak that is none: nobody has looked there.
const RuleUnsearched = "not_searched"

// Finding says whether the leak fails an attempt, and what to tell of it.
func (q Quality) Finding(l Leak) Finding {
	allowed := q.AllowHigh
	if l.Critical {
		allowed = q.AllowCritical
	}
	place := fmt.Sprintf("%s:%d", l.Path, l.Line)
	if l.Rule == RuleUnsearched {
		return Finding{
			Path: l.Path, Rule: RuleUnsearched, Grave: !allowed,
			Text: l.Path + " was not searched for secrets: it, or the change as a whole, is too large for that",
		}
	}
	if l.Line == 0 {
		place = "the name " + l.Path
	}
	return Finding{
		Path: l.Path, Rule: RuleSecret, Grave: !allowed,
		Text: fmt.Sprintf("%s holds what looks like a secret (%s)", place, l.Rule),
	}
}

// language is how tests are written in one. The expressions see whole files.
type language struct {
	// files are the paths that hold tests.
	files func() *regexp.Regexp
	// test finds a test; its first group that matched is the name.
	test, skip, assert *expression
	// only finds what keeps all other tests from running; nil where there is no
	// such thing.
	only *expression
}

// languages are listed by the end of their file names.
var languages = sync.OnceValue(func() map[string]*language {
	js := &language{
		files: strs.Lazy(`(?:^|/)(?:__tests__|tests?|spec)/|\.(?:test|spec)\.[cm]?[jt]sx?$`),
		test: far("it test",
			"(?m)^\\s*[xf]?(?:it|test)(?:\\.(?:only|skip|todo|concurrent|failing|each\\([^)]*\\)))*\\s*\\(\\s*['\"`](.+?)['\"`]\\s*[,)]"),
		skip: near(".skip .todo .failing xit xtest xdescribe",
			`\b(?:it|test|describe|suite)\.(?:skip|todo|failing)\b|\bx(?:it|test|describe)\s*\(`),
		only:   near(".only fit fdescribe", `\b(?:it|test|describe|suite)\.only\b|\bf(?:it|describe)\s*\(`),
		assert: near("expect assert", `\bexpect\s*\(|\bassert\b`),
	}
	jvm := &language{
		files: strs.Lazy(`(?:^|/)src/(?:test|\w*Test)/|(?:Tests?|IT|Spec)\.(?:java|kt)$`),
		test: far("@Test @ParameterizedTest @RepeatedTest",
			"@(?:Test|ParameterizedTest|RepeatedTest)\\b[^{;]*?\\b(?:void|fun)\\s+`?([\\w ]+?)`?\\s*\\("),
		skip:   near("@Ignore @Disabled", `@(?:Ignore|Disabled)\b`),
		assert: near("assert verify shouldBe", `\bassert\w*\s*\(|\bverify\s*\(|\bshouldBe\b`),
	}
	native := &language{
		files:  strs.Lazy(`(?:^|/)tests?/|[_-]test\.|(?:^|/)test[_-]`),
		test:   far("TEST SCENARIO", `\b(?:TEST|TEST_F|TEST_P|TEST_CASE|SCENARIO|BOOST_AUTO_TEST_CASE)\s*\(\s*([^)]+?)\s*\)`),
		skip:   near("GTEST_SKIP DISABLED_ [.]", `\bGTEST_SKIP\b|\bDISABLED_|\[\.\]`),
		assert: near("EXPECT ASSERT REQUIRE CHECK", `\b(?:EXPECT|ASSERT|REQUIRE|CHECK|BOOST_CHECK)\w*\s*\(`),
	}
	all := map[string]*language{
		".go": {
			files: strs.Lazy(`_test\.go$`),
			test:  near("Test Fuzz Example", `(?m)^func ((?:Test|Fuzz|Example)\w*)\(`),
			skip:  near(".Skip //go:build", `\b(?:t|b|f|tb)\.Skip(?:f|Now)?\(|(?m)^//go:build `),
			assert: near(".Error .Fatal .Fail assert. require. is. qt.",
				`\b(?:t|b|f|tb)\.(?:Error|Fatal)f?\(|\b(?:t|b|f|tb)\.Fail(?:Now)?\(|\b(?:assert|require|is|qt)\.\w+\(`),
		},
		".py": {
			files: strs.Lazy(`(?:^|/)(?:tests?/.*|test_[^/]*|[^/]*_test)\.py$`),
			test:  near("def", `(?m)^\s*(?:async\s+)?def (test\w*)\s*\(`),
			skip: near("skip xfail expectedFailure importorskip",
				`@(?:pytest\.mark\.)?(?:skip|skipif|skipIf|skipUnless|xfail)\b|@unittest\.(?:skip\w*|expectedFailure)|\bpytest\.(?:skip|xfail|importorskip)\(|\.skipTest\(`),
			assert: near("assert pytest.raises", `\bassert\b|\.assert\w+\(|\bpytest\.raises\b`),
		},
		".rs": {
			files:  strs.Lazy(`\.rs$`),
			test:   far("test", `#\[(?:\w+::)*test(?:\([^\]]*\))?\](?:\s*#\[[^\]]*\])*\s*(?:pub\s+)?(?:async\s+)?fn (\w+)`),
			skip:   near("#[ignore", `#\[ignore\b`),
			assert: near("assert panic!", `\bassert\w*!|\bpanic!`),
		},
		".rb": {
			files: strs.Lazy(`(?:^|/)(?:spec|test)/|_(?:spec|test)\.rb$`),
			test: near("it specify test scenario",
				`(?m)^\s*(?:x|f)?(?:it|specify|test|scenario)\s*\(?\s*['"](.+?)['"]|^\s*def (test_\w+)`),
			skip:   near("xit xdescribe xcontext pending skip", `\bx(?:it|describe|context)\b|(?m)^\s*(?:pending|skip)\b`),
			only:   near("fit fdescribe fcontext focus", `\bf(?:it|describe|context)\b|\bfocus: true|, :focus\b`),
			assert: near("expect assert refute .should", `\bexpect\b|\bassert\w*|\brefute\w*|\.should\b`),
		},
		".php": {
			files:  strs.Lazy(`Test\.php$`),
			test:   near("test #[Test]", `\bfunction (test\w*)\s*\(|#\[Test\]\s*public function (\w+)`),
			skip:   near("markTest", `\bmarkTest(?:Skipped|Incomplete)\b`),
			assert: near("assert expectException", `(?:->|::)(?:assert\w+|expectException)`),
		},
		".cs": {
			files:  strs.Lazy(`Tests?\.cs$|(?:^|/)[\w.]*Tests?/`),
			test:   far("[Fact [Theory [Test", `\[(?:Fact|Theory|Test|TestCase|TestMethod)\b[^\]]*\][^{;=]*?\s(\w+)\s*\(`),
			skip:   near("Skip [Ignore Assert.", `\bSkip\s*=|\[Ignore\b|\bAssert\.(?:Ignore|Inconclusive)\b`),
			assert: near("Assert. .Should(", `\bAssert\.|\.Should\(`),
		},
		".java": jvm, ".kt": jvm,
	}
	for _, ext := range []string{".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts"} {
		all[ext] = js
	}
	for _, ext := range []string{".c", ".cc", ".cpp", ".cxx"} {
		all[ext] = native
	}
	return all
})

// testLanguage is the language of a file that may hold tests, or nil.
func testLanguage(name string) *language {
	l := languages()[path.Ext(name)]
	if l == nil || !l.files().MatchString(name) {
		return nil
	}
	return l
}

// Files that say how tests are run.
func isRunner(name string) bool {
	switch path.Base(name) {
	case "package.json", "composer.json":
		return true
	default:
		return isTestConfig(name) || decides(name) ||
			slices.ContainsFunc(switches, func(s runnerSwitch) bool { return s.in(name) })
	}
}

// runnerSwitch is what can have a runner of tests do nothing, or something else, and
// still end well.
type runnerSwitch struct {
	// files are the names it works in (path.Match), of the last part of the path or,
	// with a slash, of the end of it. None stands for files of tests and their settings.
	files []string
	// line finds the line that does it; nil where the file itself is enough.
	line *expression
	// unless finds in the file what makes the line harmless; nil for nothing.
	unless *expression
	// fresh: only a file that was not there before does it; nested: only one that is
	// not in the root.
	fresh, nested bool
	// does says what comes of it.
	does string
	// asked are words by which a task asks for it.
	asked string
}

var switches = []runnerSwitch{
	{
		files: []string{"Makefile", "makefile", "GNUmakefile", "*.mk"},
		line: near("SHELL MAKE .IGNORE",
			`(?m)^\s*(?:(?:export|override)\s+)*(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|GNUMAKEFLAGS|MAKEFILES)\s*(?:[:+?!]|::)?=.*$|^\.IGNORE\b.*$`),
		does: "steers how make runs every command", asked: "shell makeflags",
	},
	{
		files: []string{"GNUmakefile", "makefile"}, fresh: true,
		does: "is what make reads instead of a Makefile", asked: "gnumakefile makefile",
	},
	{
		files: []string{".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "pnpm-workspace.yaml"},
		line: near("",
			`(?mi)^\s*["']?(?:script-?shell|shell(?:-?emulator)?|ignore-?scripts|node-?options|scripts-prepend-node-path|yarn-?path|plugins|preload|(?:global-?)?pnpmfile)\b.*$`),
		does: "steers how scripts are run", asked: "npmrc yarn bunfig pnpm",
	},
	{
		files: []string{"package.json"},
		line:  near("file: link: portal:", `(?m)^\s*"[^"\n]+"\s*:\s*"(?:file|link|portal):[^"\n]*".*$`),
		does:  "has a package come from a folder", asked: "package.json dependenc workspace file:",
	},
	{
		files: []string{"go.mod"}, line: near("ignore", `(?m)^\s*ignore\b.*$`),
		does: "has Go leave out folders", asked: "go.mod module",
	},
	{
		files: []string{"go.mod", "go.work"}, line: near("replace =>", `(?m)^\s*(?:replace\s*\(|.*=>.*)$`),
		does: "has Go take other code for a module", asked: "go.mod go.work module dependenc",
	},
	{
		files: []string{"go.work"}, fresh: true,
		does: "has Go work on other modules", asked: "go.work workspace module",
	},
	{
		files: []string{"vendor/modules.txt"}, fresh: true,
		does: "has Go take the code of dependencies from the repository", asked: "vendor",
	},
	{
		files: []string{"go.mod"}, fresh: true, nested: true,
		does: "takes its folder out of the module whose tests are run", asked: "go.mod module",
	},
	{
		files: []string{".cargo/config.toml", ".cargo/config"},
		line: near("runner rustc rustdoc linker paths [alias]",
			`(?m)^\s*(?:runner|rustc|rustc-wrapper|rustc-workspace-wrapper|rustdoc|linker|paths)\s*=.*$|^\s*\[alias\].*$`),
		does: "steers what cargo runs", asked: "cargo",
	},
	{
		files: []string{"Cargo.toml", ".cargo/config.toml", ".cargo/config"},
		line:  near("[patch [replace", `(?m)^\s*\[(?:patch\b|replace\]).*$`),
		does:  "has cargo take other code for a crate", asked: "cargo crate dependenc",
	},
	{
		files: []string{"rust-toolchain", "rust-toolchain.toml"}, line: near("path", `(?m)^\s*path\s*=.*$`),
		does: "has cargo be another program", asked: "toolchain",
	},
	{
		files: []string{"global.json"}, line: near("paths", `(?m)^.*"paths"\s*:.*$`),
		does: "has dotnet be another program", asked: "global.json sdk",
	},
	{
		files: []string{".config/nextest.toml"},
		line:  near("", `(?m)^\s*(?:default-filter|run-wrapper|command|platform|binary)\s*=.*$|^\s*\[+script.*$`),
		does:  "steers what nextest runs", asked: "nextest",
	},
	{
		files: []string{".env", ".env.*", ".flaskenv"},
		line: near("=",
			`(?m)^\s*(?:export\s+)?(?:PATH|SHELL|BASH_ENV|LD_\w+|DYLD_\w+|PYTEST_\w+|PYTHON(?:PATH|HOME|STARTUP|OPTIMIZE|USERBASE)|NODE_(?:OPTIONS|PATH)|npm_config_\w+|NPM_CONFIG_\w+|GO(?:FLAGS|ROOT|PATH|BIN|ENV|WORK|TOOLCHAIN|OS|ARCH)|MAKEFLAGS|RUST(?:C|DOC|FLAGS|DOCFLAGS|C_WRAPPER|UP_TOOLCHAIN)|CARGO_\w+|RUBY(?:OPT|LIB)|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|MAVEN_(?:OPTS|ARGS)|GRADLE_OPTS|PERL5\w+|PHPRC|PHP_INI_\w+)\s*=.*$`),
		does: "steers the programs that read it", asked: ".env environment",
	},
	{
		files: []string{"Cargo.toml"}, line: near("false", `(?m)^\s*(?:autotests|harness|test)\s*=\s*false\b.*$`),
		does: "has cargo leave out tests", asked: "harness",
	},
	{
		files: []string{"mvnw", "mvnw.cmd", ".mvn/*", ".mvn/wrapper/*"},
		does:  "steers how Maven runs", asked: "maven mvn wrapper",
	},
	{
		files: []string{".venv/bin/*", "venv/bin/*", "node_modules/.bin/*", "vendor/bin/*"},
		does:  "is run in the place of what is installed", asked: "venv node_modules vendor",
	},
	{
		files: []string{
			"pytest.py", "unittest.py", "sitecustomize.py", "usercustomize.py", "pytest/__init__.py", "pytest/__main__.py",
			"unittest/__init__.py", "unittest/__main__.py", "_pytest/*", "pluggy.py", "pluggy/*", "iniconfig.py", "iniconfig/*",
		},
		does: "is what Python runs in the place of its own module", asked: "pytest.py unittest.py sitecustomize usercustomize",
	},
	{
		files: []string{"*.egg-info/entry_points.txt", "*.dist-info/entry_points.txt"},
		line:  near("pytest11", `(?m)^.*\bpytest11\b.*$`),
		does:  "is a plugin of pytest", asked: "pytest plugin",
	},
	{
		line: near("pytest_",
			`(?m)^\s*(?:async\s+)?def pytest_(?:runtest_(?:makereport|protocol|logreport)|runtestloop|pyfunc_call|sessionfinish|cmdline_main|collection)\s*\(.*$|^\s*pytest_plugins\b.*$`),
		does: "can have pytest take failed tests for passed ones", asked: "conftest pytest hook plugin fixture",
	},
	{
		files: []string{
			"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "setup.cfg", "tox.ini", "pyproject.toml",
			".rspec", ".mocharc.*",
			"jest.config.*", "vitest.config.*",
		},
		line: near("dry collect-only setup- listTests unner --co",
			`(?mi)^.*(?:\bdry-?run\b|--collect-only\b|--co\b|--setup-(?:plan|only)\b|--listTests\b|["']?\b(?:test)?runner["']?\s*:).*$`),
		does: "has the runner run no test, or be another one", asked: "dry runner",
	},
	{
		files: []string{"package.json"},
		line:  near("dry testRunner listTests", `(?mi)^.*(?:\bmocha\b.*--dry-?run\b|["']testRunner["']|--listTests\b).*$`),
		does:  "has the runner run no test, or be another one", asked: "dry runner",
	},
	{
		files: []string{
			"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "setup.cfg", "tox.ini", "pyproject.toml",
		},
		line: near("-p", `(?m)^.*(?:\baddopts\b.*|^\s+)-p[ =]?\w.*$`),
		does: "loads a plugin of pytest", asked: "pytest plugin",
	},
	{
		files: []string{"gradlew", "gradlew.bat", "gradle/wrapper/*", "init.gradle", "init.gradle.kts"},
		does:  "steers how Gradle runs", asked: "gradle wrapper",
	},
	{
		files: []string{"*_test.go"}, line: near("TestMain", `(?m)^func TestMain\(.*$`), unless: near(".Run()", `\.Run\(\)`),
		does: "runs no test", asked: "testmain",
	},
	{
		line: near("xit",
			`(?m)\b(?:os\.Exit\(0\)|process\.exit\((?:0|)\)|sys\.exit\((?:0|)\)|os\._exit\(0\)|std::process::exit\(0\)|System\.exit\(0\)|exit!?\(?0\)?[\t\v\f\r ]*$)`),
		does: "ends the program as if all tests had passed", asked: "exit",
	},
}

func (s runnerSwitch) in(name string) bool {
	if len(s.files) == 0 {
		return testLanguage(name) != nil || isTestConfig(name)
	}
	return slices.ContainsFunc(s.files, func(pattern string) bool {
		parts := strings.Split(name, "/")
		n := strings.Count(pattern, "/") + 1
		ok, err := path.Match(pattern, path.Join(parts[max(0, len(parts)-n):]...))
		return ok && err == nil
	})
}

// steered finds what could switch checks off.
func steered(ctx context.Context, d FileDiff) (findings []Finding) {
	if d.New == nil {
		return nil
	}
	for _, s := range switches {
		if !s.in(d.Path) || s.fresh && d.Old != nil || s.nested && !strings.Contains(d.Path, "/") {
			continue
		}
		what := d.Path
		if s.line != nil {
			line := s.freshLine(ctx, d)
			if line == "" || s.unless != nil && s.unless.match(ctx, d.New) {
				continue
			}
			what = fmt.Sprintf("%q in %s", clip(line), d.Path)
		}
		findings = append(findings, Finding{
			Path: d.Path, Rule: RuleRunner, Text: what + " " + s.does, Grave: true, test: s.asked,
		})
	}
	return findings
}

// freshLine is the first line that does it and was not there before, "" for none.
func (s runnerSwitch) freshLine(ctx context.Context, d FileDiff) string {
	before := map[string]bool{}
	for _, line := range s.lines(ctx, d.Old) {
		before[string(line)] = true
	}
	for _, line := range s.lines(ctx, d.New) {
		if !before[string(line)] {
			return string(line)
		}
	}
	return ""
}

// lines are those of src that do it, each once, however often they do.
func (s runnerSwitch) lines(ctx context.Context, src []byte) [][]byte {
	var lines [][]byte
	end := 0
	for _, m := range s.line.all(ctx, src) {
		if m[1] <= end && end > 0 {
			continue
		}
		from := max(end, bytes.LastIndexByte(src[end:m[1]], '\n')+end+1)
		end = len(src)
		if n := bytes.IndexByte(src[m[1]:], '\n'); n >= 0 {
			end = m[1] + n
		}
		lines = append(lines, bytes.TrimSpace(src[from:end]))
	}
	return lines
}

// testSettings are the files that settings of test runners stand in (path.Match).
var testSettings = []string{
	"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "setup.cfg", "tox.ini", "pyproject.toml", "conftest.py",
	"pom.xml",
	"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties", ".rspec", "phpunit.xml",
	"phpunit.xml.dist", "phpunit.dist.xml", ".mocharc.*", "jest.config.*", "vitest.config.*", "vitest.workspace.*",
	"ava.config.*",
	"karma.conf.*", "Directory.Build.props", "Directory.Build.targets", "*.runsettings", "CTestCustom.cmake", ".bazelrc",
}

func isTestConfig(name string) bool {
	base := path.Base(name)
	return slices.ContainsFunc(testSettings, func(pattern string) bool {
		ok, err := path.Match(pattern, base)
		return ok && err == nil
	})
}

// Inspects says whether FindWeakened looks into a file of that name.
func Inspects(name string) bool { return testLanguage(name) != nil || isRunner(name) }

// foundTest is one test in one file.
type foundTest struct {
	path, name string
	asserts    int
}

// tests lists the tests of a file with the assertions in each.
func (l *language) tests(ctx context.Context, name string, src []byte) []foundTest {
	marks := l.test.all(ctx, src)
	out := make([]foundTest, 0, len(marks))
	for i, m := range marks {
		end := len(src)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		t := foundTest{path: name, asserts: l.assert.count(ctx, src[m[0]:end])}
		for g := 2; g+1 < len(m); g += 2 {
			if m[g] >= 0 {
				t.name = string(src[m[g]:m[g+1]])
				break
			}
		}
		out = append(out, t)
	}
	return out
}

// FindWeakened finds what takes strength from a repository's tests: tests that are
// gone, skipped or emptied, others that are kept from running, and commands and
// settings that leave tests out. A test that moved is not gone. Files that are
// not for [Inspects] are ignored. The work is linear in the size of the files. Once the
// context is cancelled it comes to an end, and what it gave is of no use.
func FindWeakened(ctx context.Context, diffs []FileDiff) []Finding {
	var findings []Finding
	gone := map[*language]map[string]foundTest{}
	added := map[*language]map[string]int{}
	for _, d := range diffs {
		if ctx.Err() != nil {
			return nil
		}
		findings = append(findings, steered(ctx, d)...)
		findings = append(findings, altered(ctx, d)...)
		l := testLanguage(d.Path)
		if l == nil {
			findings = append(findings, weakenedCommands(ctx, d)...)
			continue
		}
		if gone[l] == nil {
			gone[l], added[l] = map[string]foundTest{}, map[string]int{}
		}
		before, after := l.tests(ctx, d.Path, d.Old), l.tests(ctx, d.Path, d.New)
		asserts := map[string]int{}
		for _, t := range after {
			added[l][t.name]++
			asserts[t.name] += t.asserts
		}
		still := map[string]int{}
		for _, t := range before {
			if _, stays := asserts[t.name]; stays {
				added[l][t.name]--
				still[t.name] += t.asserts
			} else {
				gone[l][t.name] = t
			}
		}
		for _, t := range before {
			if n := still[t.name]; n > asserts[t.name] {
				findings = append(findings, Finding{
					Path: d.Path, Rule: RuleAsserts,
					Text: fmt.Sprintf("test %s in %s makes %d checks instead of %d", clip(t.name), d.Path, asserts[t.name], n),
				})
				delete(still, t.name)
			}
		}
		if d.Old != nil && d.New != nil {
			if l.skip.count(ctx, d.New) > l.skip.count(ctx, d.Old) {
				findings = append(findings, Finding{
					Path: d.Path, Rule: RuleSkipped, Text: fmt.Sprintf("%s skips more tests than before", d.Path),
				})
			}
		}
		if l.only != nil && l.only.count(ctx, d.New) > l.only.count(ctx, d.Old) {
			findings = append(findings, Finding{
				Path: d.Path, Rule: RuleFocused, Text: fmt.Sprintf("%s runs only some of its tests", d.Path),
			})
		}
	}
	for l, tests := range gone {
		findings = append(findings, missing(tests, added[l])...)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return strings.Compare(a.Path+a.Rule+a.Text, b.Path+b.Rule+b.Text)
	})
	return findings
}

// missing tells of tests that are gone and did not come up elsewhere. Where as
// many new ones came as old ones went, they may have got other names: that is
// for a person to see, not for us to refuse.
func missing(gone map[string]foundTest, added map[string]int) []Finding {
	fresh := 0
	var lost []foundTest
	for name, n := range added {
		if _, moved := gone[name]; !moved && n > 0 {
			fresh += n
		}
	}
	for name, t := range gone {
		if added[name] <= 0 {
			lost = append(lost, t)
		}
	}
	rule, verb := RuleDeleted, "is gone"
	if fresh >= len(lost) {
		rule, verb = RuleReplaced, "is gone; others were added"
	}
	var findings []Finding
	for _, t := range lost {
		findings = append(findings, Finding{
			Path: t.path, Rule: rule, Text: fmt.Sprintf("test %s of %s %s", clip(t.name), t.path, verb),
			Grave: rule == RuleDeleted, test: t.name,
		})
	}
	return findings
}

var (
	// A command that cannot fail.
	harmless = strs.Lazy(`^(?:true|:|exit 0|echo\b[^&|;]*)?$|(?:\|\||;)\s*(?:true|:|exit 0|echo\b.*)\s*$`)
	// Settings that leave tests out.
	excluding = near(
		"--ignore --deselect collect_ignore testPathIgnorePatterns skip ignoreFailures testFailureIgnore "+
			"excludeTestsMatching passWithNoTests --exclude-pattern testNamePattern IsTestProject --test_filter CTEST_CUSTOM",
		`testNamePattern|\bIsTestProject\b|--test_filter\b|CTEST_CUSTOM_TESTS_IGNORE|--ignore\b|--deselect\b|\bcollect_ignore|testPathIgnorePatterns|\bskipTests\b|maven\.test\.skip|\bignoreFailures\b|testFailureIgnore|\bexcludeTestsMatching\b|passWithNoTests|--exclude-pattern`)
)

func weakenedCommands(ctx context.Context, d FileDiff) []Finding {
	if d.Old == nil {
		return nil
	}
	var findings []Finding
	before, after := commands(d.Path, d.Old), commands(d.Path, d.New)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		old, now := before[name], after[name]
		if old == now || isHarmless(old) || isMore(old, now) {
			continue
		}
		what := fmt.Sprintf("ran %q and now runs %q", clip(old), clip(now))
		if now == "" {
			what = fmt.Sprintf("ran %q and is gone", clip(old))
		}
		findings = append(findings, Finding{
			Path: d.Path, Rule: RuleCommand, Text: fmt.Sprintf("%q of %s %s", name, d.Path, what), Grave: true,
		})
	}
	if isTestConfig(d.Path) && excluding.count(ctx, d.New) > excluding.count(ctx, d.Old) {
		findings = append(findings, Finding{
			Path: d.Path, Rule: RuleExcluded, Text: d.Path + " skips tests that it ran before",
		})
	}
	return findings
}

// checkCommands are the names of scripts and targets that check something.
var checkCommands = [...]string{"test", "tests", "check", "lint", "typecheck", "type-check", "pretest", "posttest"}

// maxCommand bounds the commands that are looked into, in bytes.
const maxCommand = 64 << 10

// isHarmless says whether a command cannot fail.
func isHarmless(command string) bool {
	return len(command) <= maxCommand && harmless().MatchString(command)
}

// isMore says whether a command does all that it did before, and more: make must not
// ignore how it ends.
func isMore(old, now string) bool {
	return now != "" && len(now) <= maxCommand && strings.Contains(now, old) && !isHarmless(now) &&
		!strings.Contains(now, "-"+old)
}

// commands are those of a file that check something, by name, on one line each.
func commands(name string, src []byte) map[string]string {
	all := map[string]string{}
	switch path.Base(name) {
	case "package.json", "composer.json":
		var f struct {
			Scripts map[string]json.RawMessage `json:"scripts"`
		}
		if json.Unmarshal(src, &f) != nil {
			return all
		}
		names := slices.Clone(checkCommands[:])
		for i := 0; i < len(names); i++ { // it grows
			script, ok := f.Scripts[names[i]]
			if !ok {
				continue
			}
			var text string
			if json.Unmarshal(script, &text) != nil {
				text = string(script)
			}
			all[names[i]] = text
			for _, call := range scriptCalls().FindAllString(text, -1) { // what it runs counts as much
				for word := range strings.FieldsSeq(call) {
					if _, ok := f.Scripts[word]; ok && len(names) < maxScriptNames && !slices.Contains(names, word) {
						names = append(names, word)
					}
				}
			}
		}
	case "Makefile", "makefile", "GNUmakefile":
		all = makeTargets(string(src), checkCommands[:])
	}
	for name, text := range all {
		all[name] = strs.OneLine(text)
	}
	return all
}

// maxScriptNames bounds the scripts that are followed from those of checks.
const maxScriptNames = 100

// scriptCalls finds where a script runs others by their names.
var scriptCalls = strs.Lazy(`\b(?:npm|pnpm|yarn|bun|npm-run-all|run-[sp]|composer|turbo|lerna)\b[^&|;"']*`)

func clip(s string) string {
	s = strs.OneLine(strings.ToValidUTF8(s, ""))
	if r := []rune(s); len(r) > 120 {
		return string(r[:119]) + "…"
	}
	return s
}

var (
	removing   = strs.Lazy(`(?i)\b(?:remov|delet|drop|retir|replac|merg|rewrit|consolidat|mov|split|prun|clean)\w*\b|\bget rid\b`)
	aboutTests = strs.Lazy(`(?i)\b(?:tests?|testing|specs?|suite|coverage)\b`)
	tooling    = strs.Lazy(`(?i)\b(?:tests?|testing|scripts?|commands?|runner|makefile|package\.json|build|ci|lint\w*|checks?|gates?|tooling)\b`)
)

// Blames keeps the findings that fail an attempt: the grave ones that the task
// does not ask for. A test may go where the task speaks of taking something away
// and of tests, or of the test itself, or where source files went too; a command
// may change where the task speaks of commands. A test in known, which failed
// before the work began, is no loss.
func Blames(task run.Task, findings []Finding, known []string, sourceGone bool) []Finding {
	text := task.Title + "\n" + strings.Join(task.Accept, "\n")
	var blamed []Finding
	for _, f := range findings {
		switch {
		case !f.Grave:
		case f.Rule == RuleUnseen && f.Path != "" && strings.Contains(text, f.Path):
		case f.Rule == RuleSecret || f.Rule == RuleUnsearched || f.Rule == RuleNoNewTest:
			blamed = append(blamed, f)
		case f.Rule == RuleCommand && tooling().MatchString(text):
		case f.Rule == RuleRunner && slices.ContainsFunc(strings.Fields(f.test), func(word string) bool {
			return strings.Contains(strings.ToLower(text), word)
		}):
		case f.Rule == RuleDeleted && removing().MatchString(text) &&
			(sourceGone || aboutTests().MatchString(text) || strings.Contains(text, f.test)):
		case f.Rule == RuleDeleted && slices.ContainsFunc(known, f.names):
		default:
			blamed = append(blamed, f)
		}
	}
	return blamed
}

var (
	revising = strs.Lazy(`(?i)\b(?:updat|chang|adjust|adapt|fix|mend|repair|correct|refactor|renam)\w*\b`)
)

// LosesLines says whether a file that holds nothing but tests lost a line that it
// had: adding to it is not altering it, nor is taking it away.
func LosesLines(d FileDiff) bool {
	if !IsTest(d.Path) || d.Old == nil || d.New == nil {
		return false
	}
	lost, _ := swapped(d)
	return len(lost) > 0
}

// GrowsInside says whether a file that holds nothing but tests has lines within tests that were
// there before: an inserted line can take the strength of those below it, as a return does,
// and so can a condition of the whole file. Lines at the end of a test, and rows of a table,
// take none.
func GrowsInside(ctx context.Context, d FileDiff) bool {
	if !IsTest(d.Path) || d.Old == nil || d.New == nil {
		return false
	}
	l := testLanguage(d.Path)
	if l.skip.count(ctx, d.New) > l.skip.count(ctx, d.Old) ||
		l.only != nil && l.only.count(ctx, d.New) > l.only.count(ctx, d.Old) {
		return true
	}
	before := l.bodies(ctx, d.Old)
	for name, now := range l.bodies(ctx, d.New) {
		was, there := before[name]
		if !there || was == now {
			continue
		}
		left := expecting([]byte(was))
		all := len(left)
		for _, line := range slices.Backward(expecting([]byte(now))) {
			switch {
			case len(left) > 0 && left[len(left)-1] == line:
				left = left[:len(left)-1]
			case len(left) < all && !strings.HasSuffix(line, ","):
				return true
			}
		}
	}
	return false
}

// bodies are the tests of a file, each to the beginning of the next, by name.
func (l *language) bodies(ctx context.Context, src []byte) map[string]string {
	marks := l.test.all(ctx, src)
	out := make(map[string]string, len(marks))
	for i, m := range marks {
		end := len(src)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		for g := 2; g+1 < len(m); g += 2 {
			if m[g] >= 0 {
				out[string(src[m[g]:m[g+1]])] += string(src[m[0]:end])
				break
			}
		}
	}
	return out
}

// multiplied finds what makes several tests of one: tables, parameters and subtests.
var multiplied = near(
	".Run( parametrize .each @ParameterizedTest @RepeatedTest [Theory [TestCase [InlineData #[case #[rstest "+
		"ataProvider subTest( TEST_P INSTANTIATE_TEST",
	`\b(?:t|b)\.Run\(|parametrize|\.each\b|@ParameterizedTest|@RepeatedTest|\[(?:Theory|TestCase|InlineData)\b|#\[(?:case|rstest)|@dataProvider|DataProvider|subTest\(|TEST_P\b|INSTANTIATE_TEST`)

// CountTests is about how many tests the old file held, as a runner counts them. Where some
// count more than once, each of the lines that went may have been one.
func CountTests(ctx context.Context, d FileDiff) int {
	l := testLanguage(d.Path)
	if l == nil || d.Old == nil {
		return 0
	}
	n := len(l.tests(ctx, d.Path, d.Old))
	if multiplied.match(ctx, d.Old) {
		lost, _ := swapped(d)
		n += len(lost)
	}
	return n
}

// swapped are the lines of the old file that the new one lacks, and those it has
// instead.
func swapped(d FileDiff) (lost, got []string) {
	count := map[string]int{}
	now := expecting(d.New)
	for _, line := range now {
		count[line]++
	}
	for _, line := range expecting(d.Old) {
		if count[line] > 0 {
			count[line]--
		} else {
			lost = append(lost, line)
		}
	}
	for _, line := range now {
		if count[line] > 0 {
			count[line]--
			got = append(got, line)
		}
	}
	return lost, got
}

// expecting are the lines of a test that may say what is expected.
func expecting(src []byte) []string {
	var lines []string
	for line := range strings.Lines(string(src)) {
		line = strs.OneLine(line)
		if !isAside(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// isAside says whether a line of a test says nothing of what is expected: a comment,
// an import, a path in quotes, or nothing but brackets.
func isAside(line string) bool {
	if strings.Trim(line, "{}()[];,") == "" {
		return true
	}
	for _, start := range [...]string{"//", "#", "/*", "*", "--", "use ", "using "} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	for _, word := range [...]string{"import", "package", "require"} {
		if rest, ok := strings.CutPrefix(line, word); ok && (rest == "" || !isWord(rest[0])) {
			return true
		}
	}
	if rest, ok := strings.CutPrefix(line, "from "); ok { // the module, and "import"
		_, what, _ := strings.Cut(rest, " ")
		after, ok := strings.CutPrefix(what, "import")
		return ok && (after == "" || !isWord(after[0]))
	}
	return len(line) > 2 && line[0] == '"' && line[len(line)-1] == '"' && isPath(line[1:len(line)-1])
}

// isPath says whether text is made of words, dots, slashes and hyphens.
func isPath(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isWord(c) && c != '.' && c != '/' && c != '-' {
			return false
		}
	}
	return true
}

// isWord says whether a byte is of those that \w stands for.
func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// AsksToChange says whether the task asks for tests to expect something else than they
// did: it speaks of changing or removing tests, takes source files away, names
// the file or a test of it, or holds a word or number that the new lines have and
// the old ones had not, as in "listen on port 9090".
func AsksToChange(ctx context.Context, task run.Task, d FileDiff, sourceGone bool) bool {
	text := task.Title + "\n" + strings.Join(task.Accept, "\n")
	if aboutTests().MatchString(task.Title) && (revising().MatchString(task.Title) || removing().MatchString(task.Title)) ||
		sourceGone && removing().MatchString(text) || strings.Contains(text, path.Base(d.Path)) {
		return true
	}
	for _, t := range testLanguage(d.Path).tests(ctx, d.Path, d.Old) {
		if len(t.name) >= minIdentifier && strings.Contains(text, t.name) {
			return true
		}
	}
	lost, got := swapped(d)
	had, asked := words(strings.Join(lost, " ")), words(text)
	for word := range words(strings.Join(got, " ")) {
		if asked[word] && !had[word] {
			return true
		}
	}
	return false
}

// betweenWords says whether a character is part of no word.
func betweenWords(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

// words are the words and numbers of a text that mean something by themselves.
func words(text string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), betweenWords) {
		switch word {
		case "the", "and", "for", "not", "with", "from", "that", "this", "when", "test", "tests", "should", "must":
		default:
			if len(word) > 2 || strings.Trim(word, "0123456789") == "" {
				out[word] = true
			}
		}
	}
	return out
}

// names says whether the name that a tool gave a test is that of the test which
// the finding is about: what stands before the name of the function, such as a
// package, must not speak of another place.
func (f Finding) names(name string) bool {
	id := identifier(name)
	if id != f.test {
		return false
	}
	place := strings.TrimRight(strings.TrimSuffix(name, id), " .:/#")
	dir := path.Dir(f.Path)
	return place == "" || dir == "." || strings.HasSuffix(place, dir) || strings.Contains(place, path.Base(f.Path)) ||
		strings.Contains(place, strings.TrimSuffix(path.Base(f.Path), path.Ext(f.Path)))
}

// IsSource says whether a path holds source code that tests could be asked for.
func IsSource(name string) bool {
	if IsTest(name) || isTestConfig(name) {
		return false
	}
	switch path.Ext(name) {
	case ".go", ".py", ".rs", ".rb", ".php", ".java", ".kt", ".cs", ".c", ".cc", ".cpp", ".cxx",
		".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".swift", ".scala", ".ex", ".fs":
		return true
	default:
		return false
	}
}

// IsTest says whether a path holds nothing but tests. Rust's may hold both.
func IsTest(name string) bool {
	if path.Ext(name) == ".rs" {
		return strings.HasPrefix(name, "tests/") || strings.Contains(name, "/tests/")
	}
	return testLanguage(name) != nil
}

// FindUntested finds source files that gained lines in a proposal whose tests
// gained none.
func FindUntested(ctx context.Context, diffs []FileDiff) []Finding {
	var findings []Finding
	for _, d := range diffs {
		l := testLanguage(d.Path)
		switch {
		case ctx.Err() != nil:
			return nil
		case l != nil && (IsTest(d.Path) && gained(d) || len(l.tests(ctx, d.Path, d.New)) > len(l.tests(ctx, d.Path, d.Old))):
			return nil
		case IsSource(d.Path) && gained(d):
			findings = append(findings, Finding{
				Path: d.Path, Rule: RuleNoNewTest, Text: d.Path + " gained lines, and no test did", Grave: true,
			})
		}
	}
	return findings
}

// gained says whether a file has lines that it had not, beside empty ones and
// comments.
func gained(d FileDiff) bool {
	had := map[string]int{}
	for line := range strings.Lines(string(d.Old)) {
		had[strings.TrimSpace(line)]++
	}
	for line := range strings.Lines(string(d.New)) {
		line = strings.TrimSpace(line)
		if had[line]--; had[line] >= 0 || line == "" {
			continue
		}
		if !slices.ContainsFunc([]string{"//", "#", "/*", "*", "--", `"""`},
			func(mark string) bool { return strings.HasPrefix(line, mark) }) {
			return true
		}
	}
	return false
}
