package gate

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/org/ralph-action/internal/strs"
)

// Limits of what is kept of a hostile output.
const (
	maxNames = 300
	maxName  = 200
	maxLine  = 4 << 10
	maxCount = 1 << 30
)

// Facts are what a tool's output says in numbers and names. They are the word
// of a program that runs the proposal's own code: good for comparing two trees
// of one repository, never a reason to pass what exited with an error.
type Facts struct {
	// Known tells that Passed, Failed and Skipped are the tool's own counts of
	// tests.
	Known                   bool
	Passed, Failed, Skipped int
	// FailedTests names what failed, sorted, each once; where no test could run,
	// the package, file or suite that was to hold it.
	FailedTests []string
	// Unloaded are those of them that no test has judged: it could not be built or loaded,
	// or ended at a name that is not there.
	Unloaded []string
	// Cut tells that more may have failed than FailedTests says.
	Cut bool
	// Warnings counts what a linter or compiler complained of.
	Warnings int
}

// Reader finds the facts in what is written to it: the output of go test (plain, -v, -json), pytest,
// unittest, Jest, Vitest, Mocha, node:test, TAP, cargo test, Maven, Gradle,
// RSpec, Minitest, PHPUnit, dotnet test, CTest and the usual linters. The work is
// linear in its length, and what is kept of it is bounded.
type Reader struct {
	reader
	rest []byte // the line that has not ended, at most maxLine of it
}

// NewReader gives a Reader to which nothing has been written.
func NewReader() *Reader { return &Reader{reader: reader{names: map[string]bool{}}} }

// Write never fails.
func (r *Reader) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		r.rest = append(r.rest, line[:min(len(line), maxLine-len(r.rest))]...)
		if !ended {
			return n, nil
		}
		r.line(plain(string(r.rest)))
		r.rest, p = r.rest[:0], rest
	}
}

// Read finds the facts in a whole output.
func Read(output string) Facts {
	r := NewReader()
	_, _ = r.Write([]byte(output))
	return r.Facts()
}

// Facts are those of all that was written. Nothing can be written after it.
func (r *Reader) Facts() Facts {
	r.line(plain(string(r.rest)))
	return r.close()
}

// plain is a line without colours and what else steers a terminal.
func plain(line string) string {
	if strings.IndexByte(line, 0x1b) >= 0 {
		line = escapes().ReplaceAllString(line, "")
	}
	return strings.TrimRight(line, "\r\n")
}

var escapes = strs.Lazy("\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\\\-_]")

type reader struct {
	facts Facts
	names map[string]bool
	// unloaded are those of names that no test has judged; last is the one that the
	// report at hand is about, "" where none is.
	unloaded map[string]bool
	last     string
	// pending are Go tests that failed in a package not yet named.
	pending []string
	// goCounts: the output has a line for each Go test, passed ones too.
	goCounts bool
	// jsonFailed are packages of go test -json with a test that failed.
	jsonFailed map[string]bool
	// ran is unittest's count of tests; the next summary line splits it up.
	ran int
	// suite is the file Jest is reporting on.
	suite string
	// minitest: the next line names what failed.
	minitest bool
	tap      tapCount
	located  int // lines that point at a place and complain
	reported int // what a linter's own summary counts
}

type tapCount struct{ plan, ok, failed, skipped int }

// unload notes what failed without a test that judged.
func (r *reader) unload(name string) {
	r.fail(name)
	if r.last != "" {
		if r.unloaded == nil {
			r.unloaded = map[string]bool{}
		}
		r.unloaded[r.last] = true
	}
	r.last = ""
}

func (r *reader) fail(name string) {
	r.last = ""
	name = strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(name, "")))
	switch {
	case name == "":
	case r.names[name]:
		r.last = name
	case len(r.names) >= maxNames || len(name) > maxName:
		r.facts.Cut = true
	default:
		r.names[name], r.last = true, name
	}
}

// nameless finds what a test ends with that calls what is not there (any more), in
// languages that find out so late.
var nameless = strs.Lazy(`^(?:E\s+)?(?:NameError|AttributeError|ImportError|ModuleNotFoundError|TypeError|` +
	`SyntaxError|ReferenceError|NoMethodError|ArgumentError)\b`)

func (r *reader) count(passed, failed, skipped int) {
	r.facts.Known = true
	r.facts.Passed = min(r.facts.Passed+max(passed, 0), maxCount)
	r.facts.Failed = min(r.facts.Failed+max(failed, 0), maxCount)
	r.facts.Skipped = min(r.facts.Skipped+max(skipped, 0), maxCount)
}

func (r *reader) close() Facts {
	for _, name := range r.pending {
		r.fail(name)
	}
	if r.tap.plan > 0 && !r.facts.Known {
		r.count(r.tap.ok, r.tap.failed, r.tap.skipped)
	}
	if !r.facts.Known {
		r.facts.Passed, r.facts.Failed, r.facts.Skipped = 0, 0, 0
	}
	r.facts.FailedTests = slices.Sorted(maps.Keys(r.names))
	r.facts.Unloaded = slices.Sorted(maps.Keys(r.unloaded))
	r.facts.Warnings = r.located
	if r.reported > 0 {
		r.facts.Warnings = r.reported
	}
	return r.facts
}

// number is a count out of a tool's text, held within what makes sense.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxCount {
		return 0
	}
	return n
}

var (
	goEnd       = strs.Lazy(`^FAIL[ \t]+(\S+)(?:[ \t]+(\[[a-z ]+\])|[ \t]+\d|$)`)
	pytestName  = strs.Lazy(`^(?:FAILED|ERROR) (\S+\.py\S*(?: \S+\])?)(?: - (.*))?`)
	pytestEnd   = strs.Lazy(`^(?:=+ )?(?:no tests ran|\d+ (?:passed|failed|skipped|errors?|warnings?|xfailed|xpassed|deselected|rerun)).* in [0-9.]+s`)
	wordCount   = strs.Lazy(`(\d+) ([a-z]+)`)
	unitName    = strs.Lazy(`^(?:FAIL|ERROR): (\S+ \(\S+\)|\S+)`)
	unitRan     = strs.Lazy(`^Ran (\d+) tests? in `)
	unitEnd     = strs.Lazy(`([a-z ]+)=(\d+)`)
	vitestName  = strs.Lazy(`^ *FAIL +(?:\|\S+\| +)?(\S+ > .+)$`)
	jestSuite   = strs.Lazy(`^ *FAIL +(?:\S+ )?(\S+\.[cm]?[jt]sx?)\b`)
	mochaName   = strs.Lazy(`^ +\d+\) (\S.*)$`)
	nodeCount   = strs.Lazy(`^(?:#|ℹ) (pass|fail|skipped) (\d+)$`)
	nodeName    = strs.Lazy(`^✖ (.+) \(\d[\d.]*ms\)$`)
	tapLine     = strs.Lazy(`^(not )?ok (\d+)(?: -)?(?: (.*))?$`)
	tapPlan     = strs.Lazy(`^1\.\.(\d+)`)
	cargoName   = strs.Lazy(`^test (.+) \.\.\. FAILED$`)
	cargoEnd    = strs.Lazy(`^test result: \S+ (\d+) passed; (\d+) failed; (\d+) ignored`)
	mavenName   = strs.Lazy(`^(?:\[ERROR\] +)?(\S+?)(?:\((\S+)\))?(?: +--)? +Time elapsed: .*<<< (?:FAILURE|ERROR)!`)
	mavenEnd    = strs.Lazy(`^(?:\[[A-Z]+\] +)?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$`)
	gradleName  = strs.Lazy(`^(\S.* > .+) FAILED$`)
	gradleEnd   = strs.Lazy(`^(\d+) tests? completed, (\d+) failed(?:, (\d+) skipped)?`)
	rspecName   = strs.Lazy(`^rspec (\S+?)(?::\d+|\[[\d:]+\])?(?: # (.*))?$`)
	rspecEnd    = strs.Lazy(`^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?(?:, (\d+) errors? )?`)
	minitestEnd = strs.Lazy(`^(\d+) (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors(?:, (\d+) skips)?`)
	minitestBad = strs.Lazy(`^(\S+#\S+)`)
	phpName     = strs.Lazy(`^\d+\) (\S+::\S+(?: with data set .*)?)$`)
	phpEnd      = strs.Lazy(`^Tests: (\d+), Assertions: \d+(.*)\.$`)
	phpCount    = strs.Lazy(`(Errors|Failures|Skipped|Incomplete): (\d+)`)
	phpOK       = strs.Lazy(`^OK \((\d+) tests?, \d+ assertions?\)`)
	dotnetName  = strs.Lazy(`^\s+Failed (\S.*) \[[^\]]*s\]$`)
	dotnetEnd   = strs.Lazy(`(?:Passed|Failed)! +- Failed: +(\d+), Passed: +(\d+), Skipped: +(\d+)`)
	ctestName   = strs.Lazy(`^\s+\d+ - (.+) \((?:Failed|Timeout|Not Run|SEGFAULT|Subprocess aborted|ILLEGAL|OTHER_FAULT)\)`)
	ctestEnd    = strs.Lazy(`^\d+% tests passed, (\d+) tests? failed out of (\d+)`)
	complaint   = strs.Lazy(`^[^\s:(]+[:(]\d+(?:[:,]\d+)?\)?:? `)
	lintEnd     = strs.Lazy(`(?:^|\s)(?:Found (\d+) (?:errors?|issues?|warnings?)|(\d+) (?:issues:|problems? \(|offenses? detected)|generated (\d+) warnings?)`)
)

// line takes one line. The tests before the expressions are there for speed:
// most lines of a log are none of these.
func (r *reader) line(s string) {
	t := strings.TrimLeft(s, " \t")
	if r.minitest && t != "" {
		r.minitest = false
		if m := minitestBad().FindStringSubmatch(t); m != nil {
			r.fail(m[1])
			return
		}
	}
	if r.last != "" && strings.Contains(t, "Error") && nameless().MatchString(t) {
		r.unload(r.last)
		return
	}
	switch {
	case t == "":
	case strings.HasPrefix(t, `{"`) && strings.Contains(t, `"Action":"`):
		r.goJSON(t)
	case strings.HasPrefix(t, "--- "):
		r.goTest(t)
	case strings.HasPrefix(s, "ok  \t"): // what ends itself with 0 is called so whatever its tests say
		pkg, _, _ := strings.Cut(strings.TrimPrefix(s, "ok  \t"), "\t")
		for _, name := range r.pending {
			r.fail(pkg + " " + name)
		}
		r.pending = nil
	case strings.HasPrefix(t, "FAIL"), strings.HasPrefix(t, "ERROR"):
		r.failed(s, t)
	case strings.HasPrefix(t, "ok "), strings.HasPrefix(t, "not ok "), strings.HasPrefix(t, "1.."):
		r.tapped(t)
	case strings.HasPrefix(t, "# "), strings.HasPrefix(t, "ℹ "):
		if m := nodeCount().FindStringSubmatch(t); m != nil {
			n := number(m[2])
			switch m[1] {
			case "pass":
				r.count(n, 0, 0)
			case "fail":
				r.count(0, n, 0)
			default:
				r.count(0, 0, n)
			}
		}
	case strings.HasPrefix(t, "✖ "):
		if m := nodeName().FindStringSubmatch(t); m != nil {
			r.fail(m[1])
		} else {
			r.lint(s)
		}
	case strings.HasPrefix(t, "● "):
		r.jest(strings.TrimPrefix(t, "● "))
	case strings.HasPrefix(t, "Tests:"), strings.HasPrefix(t, "Tests "):
		r.summary(t)
	case strings.HasPrefix(s, "test "):
		r.cargo(s)
	case strings.HasPrefix(t, "Ran "):
		if m := unitRan().FindStringSubmatch(t); m != nil {
			r.ran = number(m[1])
		}
	case strings.HasPrefix(t, "OK"):
		r.passedAll(t)
	case strings.HasPrefix(t, "rspec "):
		if m := rspecName().FindStringSubmatch(t); m != nil {
			name := m[2]
			if name == "" {
				name = m[1]
			}
			r.fail(name)
		}
	default:
		r.other(s, t)
	}
}

// goTest reads "--- FAIL: TestX (0.00s)" and its kin.
func (r *reader) goTest(t string) {
	word, name, ok := strings.Cut(strings.TrimPrefix(t, "--- "), ": ")
	name, _, _ = strings.Cut(name, " (")
	if !ok || name == "" {
		return
	}
	switch word {
	case "PASS":
		r.goCounts = true
		r.count(1, 0, 0)
	case "SKIP":
		r.count(0, 0, 1)
		r.facts.Known = r.goCounts
	case "FAIL":
		r.count(0, 1, 0)
		r.facts.Known = r.goCounts
		if len(r.pending) <= maxNames {
			r.pending = append(r.pending, name)
		}
	}
}

func (r *reader) goJSON(t string) {
	var ev struct{ Action, Package, Test string }
	if json.Unmarshal([]byte(t), &ev) != nil {
		return
	}
	if ev.Test == "" {
		if ev.Action == "fail" && !r.jsonFailed[ev.Package] {
			r.unload(ev.Package)
		}
		return
	}
	switch ev.Action {
	case "pass":
		r.count(1, 0, 0)
	case "skip":
		r.count(0, 0, 1)
	case "fail":
		r.count(0, 1, 0)
		if r.jsonFailed == nil {
			r.jsonFailed = map[string]bool{}
		}
		if len(r.jsonFailed) <= maxNames {
			r.jsonFailed[ev.Package] = true
		}
		r.fail(ev.Package + " " + ev.Test)
	}
}

// failed reads lines that begin with FAIL, FAILED or ERROR, which half the
// world's runners print.
func (r *reader) failed(s, t string) {
	if m := vitestName().FindStringSubmatch(s); m != nil {
		r.fail(m[1])
	} else if m := jestSuite().FindStringSubmatch(s); m != nil {
		r.suite = m[1]
	} else if m := pytestName().FindStringSubmatch(t); m != nil {
		if strings.HasPrefix(t, "ERROR") || nameless().MatchString(m[2]) {
			r.unload(m[1])
		} else {
			r.fail(m[1])
		}
	} else if m := unitName().FindStringSubmatch(t); m != nil {
		r.fail(m[1]) // what it ended with comes below
	} else if strings.HasPrefix(t, "FAILED (") {
		failed, skipped := 0, 0
		for _, m := range unitEnd().FindAllStringSubmatch(t, -1) {
			switch strings.TrimSpace(m[1]) {
			case "failures", "errors", "unexpected successes":
				failed += number(m[2])
			case "skipped":
				skipped += number(m[2])
			}
		}
		if r.ran > 0 {
			r.count(r.ran-failed-skipped, failed, skipped)
			r.ran = 0
		}
	} else if m := goEnd().FindStringSubmatch(s); m != nil {
		for _, name := range r.pending {
			r.fail(m[1] + " " + name)
		}
		if len(r.pending) == 0 {
			r.unload(strings.TrimSpace(m[1] + " " + m[2]))
		}
		r.pending = nil
	}
}

func (r *reader) passedAll(t string) {
	switch m := phpOK().FindStringSubmatch(t); {
	case m != nil:
		r.count(number(m[1]), 0, 0)
	case r.ran > 0:
		skipped := 0
		for _, m := range unitEnd().FindAllStringSubmatch(t, -1) {
			if strings.TrimSpace(m[1]) == "skipped" {
				skipped = number(m[2])
			}
		}
		r.count(r.ran-skipped, 0, skipped)
		r.ran = 0
	}
}

func (r *reader) tapped(t string) {
	if m := tapPlan().FindStringSubmatch(t); m != nil {
		r.tap.plan = max(r.tap.plan, number(m[1]))
		return
	}
	m := tapLine().FindStringSubmatch(t)
	if m == nil {
		return
	}
	name, directive, _ := strings.Cut(" "+m[3], " # ")
	directive = strings.ToUpper(directive)
	switch {
	case strings.HasPrefix(directive, "SKIP"), strings.HasPrefix(directive, "TODO"):
		r.tap.skipped++
	case m[1] == "":
		r.tap.ok++
	default:
		r.tap.failed++
		if strings.TrimSpace(name) == "" {
			name = "test " + m[2]
		}
		r.fail(name)
	}
}

// jest reads the heading of a failure; the file it is in came before.
func (r *reader) jest(name string) {
	if name == "Console" || strings.HasPrefix(name, "Validation") {
		return
	}
	loaded := name != "Test suite failed to run"
	if r.suite != "" {
		name = r.suite + ": " + name
	}
	if r.fail(name); !loaded {
		r.unload(name)
	}
}

// summary reads the lines that begin with "Tests": those of Jest, Vitest,
// Maven and PHPUnit.
func (r *reader) summary(t string) {
	if m := mavenEnd().FindStringSubmatch(t); m != nil {
		r.maven(m)
		return
	}
	if m := phpEnd().FindStringSubmatch(t); m != nil {
		failed, skipped := 0, 0
		for _, c := range phpCount().FindAllStringSubmatch(m[2], -1) {
			if c[1] == "Errors" || c[1] == "Failures" {
				failed += number(c[2])
			} else {
				skipped += number(c[2])
			}
		}
		r.count(number(m[1])-failed-skipped, failed, skipped)
		return
	}
	if strings.Contains(t, "total") || strings.HasSuffix(t, ")") {
		r.words(t)
	}
}

// words counts "2 passed", "1 failed" and the like in a summary line.
func (r *reader) words(t string) {
	for _, m := range wordCount().FindAllStringSubmatch(t, -1) {
		n := number(m[1])
		switch m[2] {
		case "passed", "xfailed", "xpassed":
			r.count(n, 0, 0)
		case "failed", "error", "errors":
			r.count(0, n, 0)
		case "skipped", "todo", "pending":
			r.count(0, 0, n)
		case "warning", "warnings":
			r.reported += n
		}
	}
}

func (r *reader) cargo(s string) {
	if m := cargoName().FindStringSubmatch(s); m != nil {
		r.fail(m[1])
	} else if m := cargoEnd().FindStringSubmatch(s); m != nil {
		r.count(number(m[1]), number(m[2]), number(m[3]))
	}
}

func (r *reader) maven(m []string) {
	failed, skipped := number(m[2])+number(m[3]), number(m[4])
	r.count(number(m[1])-failed-skipped, failed, skipped)
}

func (r *reader) other(s, t string) {
	switch {
	case strings.Contains(t, "Tests run: "):
		if m := mavenEnd().FindStringSubmatch(t); m != nil {
			r.maven(m)
		}
	case strings.Contains(t, "<<< "):
		if m := mavenName().FindStringSubmatch(t); m != nil {
			name := m[1]
			if m[2] != "" {
				name = m[2] + "." + name
			}
			r.fail(name)
		}
	case strings.HasSuffix(t, " FAILED"):
		if m := gradleName().FindStringSubmatch(t); m != nil {
			r.fail(m[1])
		}
	case strings.HasPrefix(t, "Failed "):
		if m := dotnetName().FindStringSubmatch(s); m != nil {
			r.fail(m[1])
		}
	case strings.Contains(t, "! "):
		if m := dotnetEnd().FindStringSubmatch(t); m != nil {
			r.count(number(m[2]), number(m[1]), number(m[3]))
		}
	case strings.HasSuffix(t, ") Failure:"), strings.HasSuffix(t, ") Error:"):
		r.minitest = true
	case t[0] >= '0' && t[0] <= '9':
		r.numbered(s, t)
	case t[0] == '=' && pytestEnd().MatchString(t):
		r.words(t)
	default:
		r.lint(s)
	}
}

// numbered reads the lines that begin with a digit.
func (r *reader) numbered(s, t string) {
	if m := ctestName().FindStringSubmatch(s); m != nil {
		r.fail(m[1])
	} else if m := phpName().FindStringSubmatch(t); m != nil {
		r.fail(m[1])
	} else if m := mochaName().FindStringSubmatch(s); m != nil {
		if !r.facts.Known { // the list after the summary names suites
			r.fail(strings.TrimSuffix(m[1], ":"))
		}
	} else if m := ctestEnd().FindStringSubmatch(t); m != nil {
		failed := number(m[1])
		r.count(number(m[2])-failed, failed, 0)
	} else if m := gradleEnd().FindStringSubmatch(t); m != nil {
		failed, skipped := number(m[2]), number(m[3])
		r.count(number(m[1])-failed-skipped, failed, skipped)
	} else if m := rspecEnd().FindStringSubmatch(t); m != nil {
		failed, skipped := number(m[2])+number(m[4]), number(m[3])
		r.count(number(m[1])-failed-skipped, failed, skipped)
	} else if m := minitestEnd().FindStringSubmatch(t); m != nil {
		failed, skipped := number(m[2])+number(m[3]), number(m[4])
		r.count(number(m[1])-failed-skipped, failed, skipped)
	} else if pytestEnd().MatchString(t) {
		r.words(t)
	} else if n, word, ok := strings.Cut(t, " "); ok && (strings.HasPrefix(word, "passing") ||
		strings.HasPrefix(word, "failing") || strings.HasPrefix(word, "pending")) {
		switch word[0] {
		case 'f':
			r.count(0, number(n), 0)
		default:
			if strings.HasPrefix(word, "passing") {
				r.count(number(n), 0, 0)
			} else {
				r.count(0, 0, number(n))
			}
		}
	} else {
		r.lint(s)
	}
}

// lint counts what a linter complains of: what it says at the end where it says
// it, else the lines that begin with a place.
func (r *reader) lint(s string) {
	for _, word := range [...]string{"Found ", " issues:", " problem", " offenses ", "generated "} {
		if !strings.Contains(s, word) {
			continue
		}
		if m := lintEnd().FindStringSubmatch(s); m != nil {
			for _, n := range m[1:] {
				r.reported = min(r.reported+number(n), maxCount)
			}
			return
		}
	}
	first, _, _ := strings.Cut(s, " ")
	if strings.ContainsAny(first, ":(") && complaint().MatchString(s) {
		r.located++
	}
}
