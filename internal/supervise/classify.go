package supervise

import (
	"regexp"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// FailureClass says what kind of trouble kept an iteration from landing.
type FailureClass string

// The classes of failures.
const (
	// FailNone: it did not fail.
	FailNone FailureClass = ""
	// FailCompile: the code does not compile, type-check or load.
	FailCompile FailureClass = "compile"
	// FailTest: tests ran and fail.
	FailTest FailureClass = "test"
	// FailLint: a linter or formatter objects.
	FailLint FailureClass = "lint"
	// FailTimeout: the agent or a check ran out of time.
	FailTimeout FailureClass = "timeout"
	// FailCrash: the agent or a check could not run or died.
	FailCrash FailureClass = "crash"
	// FailRateLimit: the provider asked to come back later.
	FailRateLimit FailureClass = "rate_limit"
	// FailRefused: the change touches what it must not, so that it was not even
	// looked at, or the agent was not permitted to act.
	FailRefused FailureClass = "refused"
	// FailEmpty: the call ended without changing anything.
	FailEmpty FailureClass = "empty"
	// FailTooComplex: the agent says that the task is too much for one call.
	FailTooComplex FailureClass = "too_complex"
	// FailMissingContext: the agent says that it lacks something it has to know.
	FailMissingContext FailureClass = "missing_context"
	// FailUnknown: none of the above can be told.
	FailUnknown FailureClass = "unknown"
)

// FailureClasses lists every class of a failure.
func FailureClasses() []FailureClass {
	return []FailureClass{
		FailCompile, FailTest, FailLint, FailTimeout, FailCrash, FailRateLimit,
		FailRefused, FailEmpty, FailTooComplex, FailMissingContext, FailUnknown,
	}
}

// Failure is what is known of an attempt that did not land, when it has just
// failed.
type Failure struct {
	Outcome Outcome
	// Detail is what went wrong with the agent call, in its own words.
	Detail string
	// Final is the agent's last message.
	Final string
	// Refused: the host would not take the proposal.
	Refused bool
	// Unchanged: the call left the tree as it was.
	Unchanged bool

	// Gate and Command are the check that failed, "" where none did.
	Gate, Command string
	ExitCode      int
	// Reason is why the check ended when not by itself, such as
	// "wall_timeout".
	Reason string
	// Output is what the check printed.
	Output string
}

// Classify says what kind of failure f is. What tools print beats what agents
// say.
func Classify(f Failure) FailureClass {
	switch f.Outcome {
	case RateLimited:
		return FailRateLimit
	case Broken:
		return FailCrash
	case TimedOut:
		return FailTimeout
	case Completed, GaveUp, OverBudget:
	}
	switch {
	case f.Refused:
		return FailRefused
	case f.Gate != "" || f.Command != "":
		return classifyGate(f)
	}
	said := AnalyseOutput(f.Final, Activity{})
	switch {
	case said.TooComplex || turnsRE().MatchString(clip(f.Detail, signatureLine)):
		return FailTooComplex
	case said.MissingContext:
		return FailMissingContext
	case said.Denied:
		return FailRefused
	case f.Unchanged:
		return FailEmpty
	default:
		return FailUnknown
	}
}

// turnsRE finds an agent that used up its turns or its context.
var turnsRE = strs.Lazy(`(?i)\bmax(?:imum)?[ _](?:number of )?turns\b|\bcontext (?:window|length|limit)\b|\bprompt is too long\b|\btoo many turns\b`)

// classifyGate reads a failed check: how it ended, then what it printed, then
// what its name says it is for.
func classifyGate(f Failure) FailureClass {
	switch {
	case f.Reason == "wall_timeout" || f.Reason == "idle_timeout":
		return FailTimeout
	case f.Reason != "" && f.Reason != "exited", f.ExitCode == 126, f.ExitCode == 127:
		return FailCrash
	}
	name := strings.ToLower(clip(f.Gate, maxName) + " " + clip(f.Command, maxMessage))
	lines, last := errorLines(f.Output)
	if len(lines) == 0 {
		lines = last
	}
	switch {
	case anyLine(lines, hungRE):
		return FailTimeout
	case anyLine(lines, compileRE):
		return FailCompile
	case anyLine(lines, testRE):
		return FailTest
	case anyLine(lines, lintRE):
		return FailLint
	case lintNameRE().MatchString(name):
		return FailLint
	case anyLine(lines, crashRE):
		return FailCrash
	case testNameRE().MatchString(name):
		return FailTest
	case buildNameRE().MatchString(name):
		return FailCompile
	default:
		return FailUnknown
	}
}

func anyLine(lines []string, re func() *regexp.Regexp) bool {
	return slices.ContainsFunc(lines, re().MatchString)
}

// What tools print, by what it means. The lines are trimmed.
var (
	hungRE = strs.Lazy(strings.Join([]string{
		`^panic: test timed out after`,
		`(?i)^(?:E +)?Failed: Timeout >`,                // pytest-timeout
		`\*\*\*Timeout\b|\(Timeout\)$`,                  // ctest
		`(?i)Exceeded timeout of \d+ ?ms for a test`,    // jest
		`(?i)\btest timed out in \d+ ?ms`,               // vitest
		`^make(?:\[\d+\])?: \*\*\* .* Terminated$`,      // killed from outside
		`(?i)execution exceeded the timeout of \d+ sec`, // JUnit through PHPUnit
	}, "|"))
	compileRE = strs.Lazy(strings.Join([]string{
		// go: a package headline or a compiler's position without a linter's name
		`\[build failed\]|\[setup failed\]|^vet: `,
		`^(?:\./)?[\w./-]+\.go:\d+:\d+: (?:undefined:|syntax error|cannot use|declared and not used|.* imported and not used|missing return|not enough arguments|too many arguments|assignment mismatch|invalid operation|undeclared name|no new variables|cannot assign|.* redeclared|non-name|expected |.* undefined \(type)`,
		`\.go:\d+:\d+: .*(?:no required module provides package|is not in std)|^no required module provides package|^go: .*(?:updates to go\.mod|missing go\.sum)|build constraints exclude all Go files`,
		`\berror TS\d+:|^error during build`, // tsc, vite
		// jest, node
		`(?i)^(?:●.*)?(?:Cannot find module '|.*Test suite failed to run$)|^SyntaxError: |Jest encountered an unexpected`,
		`^(?:E +)?(?:SyntaxError|IndentationError|ImportError|ModuleNotFoundError|TabError)\b|^ERROR collecting|errors? during collection`,
		`: error: .*  ?\[[a-z-]+\]$|^Found \d+ errors? in \d+ files?`, // mypy
		`^error\[E\d{4}\]|^error: could not compile|^error: (?:expected|cannot find|unresolved|aborting due to)`,
		`(?i)\[ERROR\] COMPILATION ERROR|^\[ERROR\] .+\.(?:java|kt):\[\d+,\d+\]|^.+\.java:\d+: error: |^e: .+\.kts?[:(]|Compilation failed; see|Execution failed for task ':\w*:?compile`,
		`: error (?:CS|FS|BC|MSB|NETSDK|NU)\d+:`, // dotnet
		`^.+\.(?:c|cc|cpp|cxx|h|hh|hpp|m|mm)(?::\d+)?(?::\d+)?: (?:fatal )?error: |undefined reference to |^ld: |^collect2: error|^CMake Error|linker command failed`,
		`^(?:PHP )?(?:Parse|Fatal) error: `, // php
		`^An error occurred while loading |^\S+\.rb:\d+: syntax error|\(LoadError\)|\(SyntaxError\)$`, // ruby
	}, "|"))
	testRE = strs.Lazy(strings.Join([]string{
		`^--- FAIL: |^FAIL\s+\S+\s+[\d.]+s$|^panic: `, // go
		// jest, vitest, mocha, node
		`^Tests: +\d+ failed|^FAIL +\S+\.(?:[cm]?[jt]sx?)|^● .+ › |^[✕✖✗×] \D|^not ok \d+|AssertionError`,
		`^(?:FAILED|ERROR) \S+::|^=+ .*\d+ (?:failed|errors?)\b|^E +assert |^FAIL: \w+ \(`, // pytest, unittest
		`^test \S+ \.\.\. FAILED|^test result: FAILED|^thread '.*' panicked at `,           // cargo
		`Tests run: \d+, Failures: (?:[1-9]\d*|\d+, Errors: [1-9])|There (?:was|were) \d+ (?:failure|error)s?:|There are test failures|There were failing tests|^[\w.$]+ > .+ FAILED$`,
		`^\d+ examples?, [1-9]\d* failures?|^FAILURES!$|^Tests: \d+, Assertions: \d+, (?:Failures|Errors)`, // rspec, phpunit
		`^Failed! +- Failed: +[1-9]|^Failed [\w.]+(?:\([^)]*\))? \[`,                                       // dotnet
		// ctest, googletest
		`^The following tests FAILED:|^\d+% tests passed, [1-9]\d* tests? failed|^\[ +FAILED +\]`,
	}, "|"))
	lintRE = strs.Lazy(strings.Join([]string{
		`^✖ \d+ problems? \(|^\d+:\d+ +(?:error|warning) +.+ +[\w@/-]+$`,                // eslint
		`^\S+\.pyi?:\d+:\d+: [A-Z]{1,4}\d{2,4}\b|^Found \d+ errors?\.|^would reformat `, // ruff, flake8, black
		`\.go:\d+(?::\d+)?: .+ \([\w-]+\)$`,                                             // golangci-lint, staticcheck
		`^\d+ issues?:$|^\d+ files? inspected, [1-9]\d* offenses?`,                      // golangci-lint, rubocop
		`^\[(?:warn|error)\] \S+\.\w+$|Code style issues (?:were )?found`,               // prettier
		`clippy::|^Diff in \S+ (?:at line )?\d+|\[WARN\] .*\.java:\d+|Checkstyle violations`,
		`^\S+\.\w+:\d+:\d+: warning: `,
	}, "|"))
	crashRE = strs.Lazy(`(?i)command not found|^sh: \d+: \S+: not found|no such file or directory$|segmentation fault|out of memory|heap out of memory|no space left on device|permission denied$|\bSIGKILL\b|^killed$|no rule to make target`)

	lintNameRE  = strs.Lazy(`\b(?:lint|eslint|golangci-lint|staticcheck|vet|ruff|flake8|pylint|black|rubocop|clippy|gofmt|fmt|format|prettier|phpcs|phpstan|checkstyle|ktlint|stylecop|clang-tidy|shellcheck)\b`)
	testNameRE  = strs.Lazy(`\b(?:tests?|check|jest|vitest|mocha|pytest|rspec|phpunit|ctest|verify|spec|nextest|tox|nox)\b`)
	buildNameRE = strs.Lazy(`\b(?:build|compile|tsc|typecheck|type-check|mypy|pyright|javac|gcc|cmake|make|cargo check|assemble)\b`)
)
