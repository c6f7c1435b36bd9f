package gate

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// testFiles are names of tests (path.Match), testFolders those of folders that hold
// tests and what they compare with.
var (
	testFiles = []string{
		"*_test.*", "test_*.*", "*.test.*", "*.spec.*", "*_spec.*",
		"*Test.java", "*Tests.java", "*IT.java", "*Test.kt", "*Tests.kt", "*Spec.kt", "*Test.php", "*Test.cs", "*Tests.cs",
		"*Test.scala", "*Spec.scala", "*Tests.swift",
	}
	testFolders = []string{
		"test", "tests", "__tests__", "__snapshots__", "spec", "specs", "testdata", "androidTest", "integrationTest",
	}
)

// IsTest says whether a path is that of a test, or of what a test compares with. Tests
// that stand in the same file as the code, as in Rust, are none.
func IsTest(name string) bool {
	for dir := range strings.SplitSeq(path.Dir(name), "/") {
		if slices.Contains(testFolders, dir) || strings.HasSuffix(dir, ".Tests") {
			return true
		}
	}
	return like(name, testFiles)
}

// manifests say what a project depends on, and often how its tests run, too.
var manifests = []string{
	"go.mod", "package.json", "composer.json", "pyproject.toml", "setup.cfg", "Cargo.toml", "pom.xml", "Gemfile",
	"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "CMakeLists.txt", "*.csproj",
}

// runnerFiles decide which checks run and how. A pattern of several parts has to match the
// end of a path, one that ends in a slash a folder at its start.
var runnerFiles = []string{
	"Makefile", "makefile", "GNUmakefile", "Makefile.*", "makefile.*", "*.mk", "*.inc", "justfile", "Justfile",
	".justfile",
	"[Tt]askfile.y*ml", "[Tt]askfile.dist.y*ml", "[Rr]akefile", "[Rr]akefile.rb",
	"tox.ini", "noxfile.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "conftest.py", ".coveragerc",
	// What Python runs in the place of its own modules.
	"sitecustomize.py", "usercustomize.py", "pytest.py", "unittest.py", "pluggy.py", "iniconfig.py", "pytest/",
	"_pytest/", "unittest/", "pluggy/", "iniconfig/", "entry_points.txt",
	".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/", "bunfig.toml",
	"pnpm-workspace.yaml", "jest.*", "vitest.*", "vite.config.*",
	".mocharc.*", "ava.config.*", "karma.conf.*", "playwright.config.*", "cypress.config.*", ".babelrc",
	"babel.config.*",
	".rspec", "phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml",
	"gradle.properties", "gradlew", "gradlew.bat", "init.gradle", "init.gradle.kts", "gradle/",
	"mvnw", "mvnw.cmd", ".mvn/",
	"go.work", "vendor/modules.txt", ".cargo/", ".config/nextest.toml", "rust-toolchain", "rust-toolchain.toml",
	"global.json", "Directory.Build.*", "*.runsettings", "CTestCustom.cmake", ".bazelrc", ".env", ".env.*", ".flaskenv",
	".venv/bin/*", "venv/bin/*", "node_modules/.bin/*", "vendor/bin/*", ".gitlab-ci.yml", ".circleci/", ".github/",
	"*.sh", "*.bash", "*.zsh", "*.ps1", "script/", "scripts/", "ci/", ".ci/", "hack/",
}

// Decides says whether a file may decide which checks run and how: by its name, or
// because a check names it.
func Decides(name string, gates []Gate) bool {
	between := func(r rune) bool { return strings.ContainsRune(" \t\n;&|()'\"=", r) }
	return like(name, runnerFiles) || IsManifest(name) || slices.ContainsFunc(gates, func(g Gate) bool {
		words := strings.FieldsFunc(g.Command, between)
		return slices.Contains(words, name) || slices.Contains(words, "./"+name)
	})
}

// IsManifest says whether a file that decides how tests run also says what the project
// depends on: without the new one, new code may well not build.
func IsManifest(name string) bool { return like(name, manifests) }

// IsSource says whether a path holds source code that tests could be asked for. Rust's
// may hold its tests, too.
func IsSource(name string) bool {
	return !IsTest(name) && !like(name, runnerFiles) && slices.Contains([]string{
		".go", ".py", ".rb", ".php", ".java", ".kt", ".cs", ".c", ".cc", ".cpp", ".cxx",
		".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".swift", ".scala", ".ex", ".fs",
	}, path.Ext(name))
}

// like says whether a path is one of the patterns.
func like(name string, patterns []string) bool {
	parts := strings.Split(name, "/")
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if strings.HasSuffix(pattern, "/") {
			return strings.HasPrefix(name, pattern)
		}
		n := strings.Count(pattern, "/") + 1
		ok, err := path.Match(pattern, path.Join(parts[max(0, len(parts)-n):]...))
		return ok && err == nil
	})
}

var takesTests = strs.Lazy(`(?i)\b(?:remov|delet|drop|retir)\w*\b.*\btests?\b`)

// Asks says whether a task's words ask for a test or runner file to be another than it
// was: they name it, or one of them stands in it now and did not before, as 9090 does
// in "listen on port 9090"; or they ask to take tests away, and a test is gone.
func Asks(task run.Task, name string, before, after []byte) bool {
	text := task.Title + "\n" + strings.Join(task.Accept, "\n")
	taken := IsTest(name) && len(after) < len(before)
	if strings.Contains(text, path.Base(name)) || taken && takesTests().MatchString(text) {
		return true
	}
	had, asked := words(string(before)), words(text)
	for word := range words(string(after)) {
		if asked[word] && !had[word] {
			return true
		}
	}
	return false
}

// words are the words and numbers of a text that mean something by themselves.
func words(text string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
	}) {
		switch word {
		case "the", "and", "for", "not", "with", "from", "that", "this", "when", "test", "tests", "should", "must",
			"true", "false":
		default:
			if len(word) > 2 || strings.Trim(word, "0123456789") == "" {
				out[word] = true
			}
		}
	}
	return out
}

// Unnamed are the tests that the task does not name.
func Unnamed(task run.Task, tests []string) []string {
	text := task.Title + "\n" + strings.Join(task.Accept, "\n")
	return slices.DeleteFunc(slices.Clone(tests), func(name string) bool {
		id := identifier(name)
		return len(id) >= minIdentifier && strings.Contains(text, id)
	})
}

// minIdentifier keeps words that stand in any text from naming a test.
const minIdentifier = 6

var testWord = strs.Lazy(`\b(?:Test\w+|test_\w+|test[A-Z]\w*)`)

// identifier is the part of a test's name that a person would write: the name
// of the function where it is one, all of it where it is a sentence.
func identifier(name string) string {
	if words := testWord().FindAllString(name, -1); len(words) > 0 {
		return words[len(words)-1]
	}
	return name
}
