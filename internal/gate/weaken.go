package gate

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// MaxFile bounds the files that Weakened is to be given, in bytes.
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
	// test is the test a finding is about.
	test string
}

// The rules of Weakened and Untested, and of tests that were changed.
const (
	RuleDeleted   = "test_deleted"
	RuleReplaced  = "test_replaced"
	RuleSkipped   = "test_skipped"
	RuleFocused   = "test_focused"
	RuleAsserts   = "assertions_removed"
	RuleCommand   = "test_command_changed"
	RuleExcluded  = "tests_excluded"
	RuleNoNewTest = "no_new_tests"
	RuleChanged   = "test_changed"
	RuleSecret    = "secret"
)

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

// Finding says whether the leak fails an attempt, and what to tell of it.
func (q Quality) Finding(l Leak) Finding {
	allowed := q.AllowHigh
	if l.Critical {
		allowed = q.AllowCritical
	}
	place := fmt.Sprintf("%s:%d", l.Path, l.Line)
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
	test, skip, assert func() *regexp.Regexp
	// only finds what keeps all other tests from running; nil where there is no
	// such thing.
	only func() *regexp.Regexp
}

// languages are listed by the end of their file names.
var languages = sync.OnceValue(func() map[string]*language {
	js := &language{
		files:  strs.Lazy(`(?:^|/)(?:__tests__|tests?|spec)/|\.(?:test|spec)\.[cm]?[jt]sx?$`),
		test:   strs.Lazy("(?m)^\\s*[xf]?(?:it|test)(?:\\.(?:only|skip|todo|concurrent|failing|each\\([^)]*\\)))*\\s*\\(\\s*['\"`](.+?)['\"`]\\s*[,)]"),
		skip:   strs.Lazy(`\b(?:it|test|describe|suite)\.(?:skip|todo|failing)\b|\bx(?:it|test|describe)\s*\(`),
		only:   strs.Lazy(`\b(?:it|test|describe|suite)\.only\b|\bf(?:it|describe)\s*\(`),
		assert: strs.Lazy(`\bexpect\s*\(|\bassert\b`),
	}
	jvm := &language{
		files:  strs.Lazy(`(?:^|/)src/(?:test|\w*Test)/|(?:Tests?|IT|Spec)\.(?:java|kt)$`),
		test:   strs.Lazy("@(?:Test|ParameterizedTest|RepeatedTest)\\b[^{;]*?\\b(?:void|fun)\\s+`?([\\w ]+?)`?\\s*\\("),
		skip:   strs.Lazy(`@(?:Ignore|Disabled)\b`),
		assert: strs.Lazy(`\bassert\w*\s*\(|\bverify\s*\(|\bshouldBe\b`),
	}
	native := &language{
		files:  strs.Lazy(`(?:^|/)tests?/|[_-]test\.|(?:^|/)test[_-]`),
		test:   strs.Lazy(`\b(?:TEST|TEST_F|TEST_P|TEST_CASE|SCENARIO|BOOST_AUTO_TEST_CASE)\s*\(\s*([^)]+?)\s*\)`),
		skip:   strs.Lazy(`\bGTEST_SKIP\b|\bDISABLED_|\[\.\]`),
		assert: strs.Lazy(`\b(?:EXPECT|ASSERT|REQUIRE|CHECK|BOOST_CHECK)\w*\s*\(`),
	}
	all := map[string]*language{
		".go": {
			files:  strs.Lazy(`_test\.go$`),
			test:   strs.Lazy(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`),
			skip:   strs.Lazy(`\b(?:t|b|f|tb)\.Skip(?:f|Now)?\(|(?m)^//go:build `),
			assert: strs.Lazy(`\b(?:t|b|f|tb)\.(?:Error|Fatal)f?\(|\b(?:t|b|f|tb)\.Fail(?:Now)?\(|\b(?:assert|require|is|qt)\.\w+\(`),
		},
		".py": {
			files:  strs.Lazy(`(?:^|/)(?:tests?/.*|test_[^/]*|[^/]*_test)\.py$`),
			test:   strs.Lazy(`(?m)^\s*(?:async\s+)?def (test\w*)\s*\(`),
			skip:   strs.Lazy(`@(?:pytest\.mark\.)?(?:skip|skipif|skipIf|skipUnless|xfail)\b|@unittest\.(?:skip\w*|expectedFailure)|\bpytest\.(?:skip|xfail|importorskip)\(|\.skipTest\(`),
			assert: strs.Lazy(`\bassert\b|\.assert\w+\(|\bpytest\.raises\b`),
		},
		".rs": {
			files:  strs.Lazy(`\.rs$`),
			test:   strs.Lazy(`#\[(?:\w+::)*test(?:\([^\]]*\))?\](?:\s*#\[[^\]]*\])*\s*(?:pub\s+)?(?:async\s+)?fn (\w+)`),
			skip:   strs.Lazy(`#\[ignore\b`),
			assert: strs.Lazy(`\bassert\w*!|\bpanic!`),
		},
		".rb": {
			files:  strs.Lazy(`(?:^|/)(?:spec|test)/|_(?:spec|test)\.rb$`),
			test:   strs.Lazy(`(?m)^\s*(?:x|f)?(?:it|specify|test|scenario)\s*\(?\s*['"](.+?)['"]|^\s*def (test_\w+)`),
			skip:   strs.Lazy(`\bx(?:it|describe|context)\b|(?m)^\s*(?:pending|skip)\b`),
			only:   strs.Lazy(`\bf(?:it|describe|context)\b|\bfocus: true|, :focus\b`),
			assert: strs.Lazy(`\bexpect\b|\bassert\w*|\brefute\w*|\.should\b`),
		},
		".php": {
			files:  strs.Lazy(`Test\.php$`),
			test:   strs.Lazy(`\bfunction (test\w*)\s*\(|#\[Test\]\s*public function (\w+)`),
			skip:   strs.Lazy(`\bmarkTest(?:Skipped|Incomplete)\b`),
			assert: strs.Lazy(`(?:->|::)(?:assert\w+|expectException)`),
		},
		".cs": {
			files:  strs.Lazy(`Tests?\.cs$|(?:^|/)[\w.]*Tests?/`),
			test:   strs.Lazy(`\[(?:Fact|Theory|Test|TestCase|TestMethod)\b[^\]]*\][^{;=]*?\s(\w+)\s*\(`),
			skip:   strs.Lazy(`\bSkip\s*=|\[Ignore\b|\bAssert\.(?:Ignore|Inconclusive)\b`),
			assert: strs.Lazy(`\bAssert\.|\.Should\(`),
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
	case "package.json", "composer.json", "Makefile", "makefile", "GNUmakefile":
		return true
	default:
		return isTestConfig(name)
	}
}

func isTestConfig(name string) bool {
	base := path.Base(name)
	switch base {
	case "pytest.ini", "setup.cfg", "tox.ini", "pyproject.toml", "conftest.py", "pom.xml", "build.gradle",
		"build.gradle.kts", "gradle.properties", ".rspec", "phpunit.xml", "phpunit.xml.dist", ".mocharc.json":
		return true
	default:
		return strings.HasPrefix(base, "jest.config.") || strings.HasPrefix(base, "vitest.config.")
	}
}

// Watched says whether Weakened looks into a file of that name.
func Watched(name string) bool { return testLanguage(name) != nil || isRunner(name) }

// foundTest is one test in one file.
type foundTest struct {
	path, name string
	asserts    int
}

// tests lists the tests of a file with the assertions in each.
func (l *language) tests(name string, src []byte) []foundTest {
	marks := l.test().FindAllSubmatchIndex(src, -1)
	out := make([]foundTest, 0, len(marks))
	for i, m := range marks {
		end := len(src)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		t := foundTest{path: name, asserts: len(l.assert().FindAllIndex(src[m[0]:end], -1))}
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

// Weakened finds what takes strength from a repository's tests: tests that are
// gone, skipped or emptied, others that are kept from running, and commands and
// settings that leave tests out. A test that moved is not gone. Files that are
// not Watched are ignored. The work is linear in the size of the files.
func Weakened(diffs []FileDiff) []Finding {
	var findings []Finding
	gone := map[*language]map[string]foundTest{}
	added := map[*language]map[string]int{}
	for _, d := range diffs {
		l := testLanguage(d.Path)
		if l == nil {
			findings = append(findings, weakenedCommands(d)...)
			continue
		}
		if gone[l] == nil {
			gone[l], added[l] = map[string]foundTest{}, map[string]int{}
		}
		before, after := l.tests(d.Path, d.Old), l.tests(d.Path, d.New)
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
			if n := len(l.skip().FindAllIndex(d.New, -1)) - len(l.skip().FindAllIndex(d.Old, -1)); n > 0 {
				findings = append(findings, Finding{
					Path: d.Path, Rule: RuleSkipped, Text: fmt.Sprintf("%s skips more tests than before", d.Path),
				})
			}
		}
		if l.only != nil && len(l.only().FindAllIndex(d.New, -1)) > len(l.only().FindAllIndex(d.Old, -1)) {
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
	excluding = strs.Lazy(`--ignore\b|--deselect\b|\bcollect_ignore|testPathIgnorePatterns|\bskipTests\b|maven\.test\.skip|\bignoreFailures\b|testFailureIgnore|\bexcludeTestsMatching\b|passWithNoTests|--exclude-pattern`)
)

func weakenedCommands(d FileDiff) []Finding {
	if d.Old == nil {
		return nil
	}
	var findings []Finding
	before, after := commands(d.Path, d.Old), commands(d.Path, d.New)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		old, now := before[name], after[name]
		if old == now || harmless().MatchString(old) {
			continue
		}
		if now != "" && strings.Contains(now, old) && !harmless().MatchString(now) {
			continue // more than before
		}
		what := fmt.Sprintf("ran %q and now runs %q", clip(old), clip(now))
		if now == "" {
			what = fmt.Sprintf("ran %q and is gone", clip(old))
		}
		findings = append(findings, Finding{
			Path: d.Path, Rule: RuleCommand, Text: fmt.Sprintf("%q of %s %s", name, d.Path, what), Grave: true,
		})
	}
	if isTestConfig(d.Path) && len(excluding().FindAllIndex(d.New, -1)) > len(excluding().FindAllIndex(d.Old, -1)) {
		findings = append(findings, Finding{
			Path: d.Path, Rule: RuleExcluded, Text: d.Path + " skips tests that it ran before",
		})
	}
	return findings
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
		for name, script := range f.Scripts {
			var text string
			if json.Unmarshal(script, &text) != nil {
				text = string(script)
			}
			all[name] = text
		}
	case "Makefile", "makefile", "GNUmakefile":
		all = MakeTargets(string(src))
	}
	maps.DeleteFunc(all, func(name, _ string) bool {
		return !slices.Contains([]string{"test", "tests", "check", "lint", "typecheck", "type-check", "pretest", "posttest"},
			name)
	})
	for name, text := range all {
		all[name] = strs.OneLine(text)
	}
	return all
}

func clip(s string) string {
	s = strs.OneLine(strings.ToValidUTF8(s, ""))
	if r := []rune(s); len(r) > 120 {
		return string(r[:119]) + "…"
	}
	return s
}

var (
	removing = strs.Lazy(`(?i)\b(?:remov|delet|drop|retir|replac|merg|rewrit|consolidat|mov|split|prun|clean)\w*\b|\bget rid\b`)
	testing  = strs.Lazy(`(?i)\b(?:tests?|testing|specs?|suite|coverage)\b`)
	tooling  = strs.Lazy(`(?i)\b(?:tests?|testing|scripts?|commands?|runner|makefile|package\.json|build|ci|lint\w*|checks?|gates?|tooling)\b`)
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
		case f.Rule == RuleSecret || f.Rule == RuleNoNewTest:
			blamed = append(blamed, f)
		case f.Rule == RuleCommand && tooling().MatchString(text):
		case f.Rule == RuleDeleted && removing().MatchString(text) &&
			(sourceGone || testing().MatchString(text) || strings.Contains(text, f.test)):
		case f.Rule == RuleDeleted && slices.ContainsFunc(known, f.names):
		default:
			blamed = append(blamed, f)
		}
	}
	return blamed
}

var (
	revising = strs.Lazy(`(?i)\b(?:updat|chang|adjust|adapt|fix|mend|repair|correct|refactor|renam)\w*\b`)
	wordRE   = strs.Lazy(`[\p{L}\p{N}_]+`)
	// Lines of a test that say nothing of what is expected.
	aside = strs.Lazy(`^(?://|#|/\*|\*|--|import\b|from\s\S+\simport\b|use\s|using\s|package\b|require\b|"[\w./-]+"$|[{}()\[\];,]*$)`)
)

// Altered says whether a file that holds nothing but tests lost a line that it
// had: adding to it is not altering it, nor is taking it away.
func Altered(d FileDiff) bool {
	if !IsTest(d.Path) || d.Old == nil || d.New == nil {
		return false
	}
	lost, _ := swapped(d)
	return len(lost) > 0
}

// swapped are the lines of the old file that the new one lacks, and those it has
// instead.
func swapped(d FileDiff) (lost, got []string) {
	count := map[string]int{}
	each := func(src []byte, do func(line string)) {
		for line := range strings.Lines(string(src)) {
			if line = strs.OneLine(line); !aside().MatchString(line) {
				do(line)
			}
		}
	}
	each(d.New, func(line string) { count[line]++ })
	each(d.Old, func(line string) {
		if count[line] > 0 {
			count[line]--
		} else {
			lost = append(lost, line)
		}
	})
	each(d.New, func(line string) {
		if count[line] > 0 {
			count[line]--
			got = append(got, line)
		}
	})
	return lost, got
}

// Vouched says whether the task asks for tests to expect something else than they
// did: it speaks of changing or removing tests, takes source files away, names
// the file or a test of it, or holds a word or number that the new lines have and
// the old ones had not, as in "listen on port 9090".
func Vouched(task run.Task, d FileDiff, sourceGone bool) bool {
	text := task.Title + "\n" + strings.Join(task.Accept, "\n")
	if testing().MatchString(task.Title) && (revising().MatchString(task.Title) || removing().MatchString(task.Title)) ||
		sourceGone && removing().MatchString(text) || strings.Contains(text, path.Base(d.Path)) {
		return true
	}
	for _, t := range testLanguage(d.Path).tests(d.Path, d.Old) {
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

// words are the words and numbers of a text that mean something by themselves.
func words(text string) map[string]bool {
	out := map[string]bool{}
	for _, word := range wordRE().FindAllString(strings.ToLower(text), -1) {
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

// Untested finds source files that gained lines in a proposal whose tests
// gained none.
func Untested(diffs []FileDiff) []Finding {
	var findings []Finding
	for _, d := range diffs {
		l := testLanguage(d.Path)
		switch {
		case l != nil && (IsTest(d.Path) && gained(d) || len(l.tests(d.Path, d.New)) > len(l.tests(d.Path, d.Old))):
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
