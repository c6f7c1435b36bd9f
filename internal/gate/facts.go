package gate

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
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
	// Known tells that Passed and Failed are the tool's own counts of tests.
	Known          bool
	Passed, Failed int
	// FailedTests names what failed, sorted, each once; where no test could run,
	// the package, file or suite that was to hold it.
	FailedTests []string
	// Unloaded are those of them that no test has judged: it could not be built or loaded,
	// or ended at a name that is not there.
	Unloaded []string
	// Cut tells that more may have failed than FailedTests says.
	Cut bool
}

// Reader finds the facts in what is written to it: the output of go test (plain, -v,
// -json), pytest, Jest, Vitest, cargo test, Maven and Gradle. The work is linear in its
// length, and what is kept of it is bounded.
type Reader struct {
	rest            []byte // the line that has not ended, at most maxLine of it
	facts           Facts
	names, unloaded map[string]bool
	// last is the test that the report at hand is about, "" where none is.
	last string
	// pending are Go tests that failed in a package not yet named.
	pending []string
	// counted: the output has a line for each Go test, passed ones too.
	counted bool
	// broken are packages of go test -json with a test that failed.
	broken map[string]bool
	// suite is the file Jest is reporting on.
	suite string
}

// NewReader gives a Reader to which nothing has been written.
func NewReader() *Reader {
	return &Reader{names: map[string]bool{}, unloaded: map[string]bool{}, broken: map[string]bool{}}
}

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
	r.name("")
	f := r.facts
	if !f.Known {
		f.Passed, f.Failed = 0, 0
	}
	f.FailedTests, f.Unloaded = slices.Sorted(maps.Keys(r.names)), slices.Sorted(maps.Keys(r.unloaded))
	return f
}

// plain is a line without colours and what else steers a terminal.
func plain(line string) string {
	if strings.IndexByte(line, 0x1b) >= 0 {
		line = escapes().ReplaceAllString(line, "")
	}
	return strings.TrimRight(line, "\r\n")
}

var escapes = strs.Lazy("\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\\\-_]")

// form is a line that tells something: text that it has, so that most lines need no
// expression, the expression, and what is done with its groups.
type form struct {
	has  string
	is   func() *regexp.Regexp
	take func(r *Reader, m []string)
}

// nameless finds what a test ends with that calls what is not there (any more), in
// languages that find out so late.
var nameless = strs.Lazy(`^\s*(?:E\s+)?(?:NameError|AttributeError|ImportError|ModuleNotFoundError|TypeError|` +
	`SyntaxError|ReferenceError)\b`)

var (
	pytestName = strs.Lazy(`^(FAILED|ERROR) (\S+\.py\S*(?: \S+\])?)(?: - (.*))?`)
	cargoEnd   = strs.Lazy(`^test result: \S+ (\d+) passed; (\d+) failed; `)
	mavenName  = strs.Lazy(`^(?:\[ERROR\] +)?(\S+?)(?:\((\S+)\))?(?: +--)? +Time elapsed: .*<<< (?:FAILURE|ERROR)!`)
	mavenEnd   = strs.Lazy(`^(?:\[[A-Z]+\] +)?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$`)
	gradleEnd  = strs.Lazy(`^(\d+) tests? completed, (\d+) failed(?:, (\d+) skipped)?`)
)

// forms are tried in this order: Vitest, Jest and go test end what failed in much the same way.
var forms = []form{
	{`"Action":"`, strs.Lazy(`^\s*\{".*$`), func(r *Reader, m []string) { r.goJSON(m[0]) }},
	{"--- ", strs.Lazy(`^\s*--- (PASS|SKIP|FAIL): (\S+)`), func(r *Reader, m []string) { r.goTest(m[1], m[2]) }},
	// What ends itself with 0 is called so whatever its tests say.
	{"ok  \t", strs.Lazy(`^ok  \t(\S+)`), func(r *Reader, m []string) { r.name(m[1] + " ") }},
	{" > ", strs.Lazy(`^ *FAIL +(?:\|\S+\| +)?(\S+ > .+)$`), func(r *Reader, m []string) { r.fail(m[1]) }},
	{"FAIL ", strs.Lazy(`^ *FAIL +(?:\S+ )?(\S+\.[cm]?[jt]sx?)\b`), func(r *Reader, m []string) { r.suite = m[1] }},
	{"FAIL", strs.Lazy(`^FAIL[ \t]+(\S+)(?:[ \t]+(\[[a-z ]+\])|[ \t]+\d|$)`), func(r *Reader, m []string) {
		if len(r.pending) == 0 {
			r.unload(strings.TrimSpace(m[1] + " " + m[2]))
		}
		r.name(m[1] + " ")
	}},
	{"● ", strs.Lazy(`^\s*● (.+)$`), func(r *Reader, m []string) { r.jest(m[1]) }},
	{".py", pytestName, func(r *Reader, m []string) {
		if r.fail(m[2]); m[1] == "ERROR" || nameless().MatchString(m[3]) {
			r.unload(m[2])
		}
	}},
	{" in ", strs.Lazy(`^(?:=+ )?(\d+ (?:passed|failed|skipped|error|xfailed|xpassed).*) in [0-9.]+s`), countWords},
	{"no tests ran", strs.Lazy(`^(?:=+ )?no tests ran in [0-9.]+s`), func(r *Reader, _ []string) { r.count(0, 0) }},
	{"Tests", strs.Lazy(`^\s*Tests:? +(.*(?:total|\)))$`), countWords},
	{"... FAILED", strs.Lazy(`^test (.+) \.\.\. FAILED$`), func(r *Reader, m []string) { r.fail(m[1]) }},
	{"test result: ", cargoEnd, func(r *Reader, m []string) { r.count(number(m[1]), number(m[2])) }},
	{"<<< ", mavenName, func(r *Reader, m []string) { r.fail(strings.TrimPrefix(m[2]+"."+m[1], ".")) }},
	{"Tests run: ", mavenEnd, func(r *Reader, m []string) {
		failed := number(m[2]) + number(m[3])
		r.count(number(m[1])-failed-number(m[4]), failed)
	}},
	{" FAILED", strs.Lazy(`^(\S.* > .+) FAILED$`), func(r *Reader, m []string) { r.fail(m[1]) }},
	{" completed, ", gradleEnd, func(r *Reader, m []string) {
		r.count(number(m[1])-number(m[2])-number(m[3]), number(m[2]))
	}},
}

func (r *Reader) line(s string) {
	if r.last != "" && strings.Contains(s, "Error") && nameless().MatchString(s) {
		r.unload(r.last)
		return
	}
	for _, f := range forms {
		if !strings.Contains(s, f.has) {
			continue
		}
		if m := f.is().FindStringSubmatch(s); m != nil {
			f.take(r, m)
			return
		}
	}
}

// fail notes a test that failed.
func (r *Reader) fail(name string) {
	r.last = ""
	name = strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(name, "")))
	switch {
	case name == "":
	case !r.names[name] && (len(r.names) >= maxNames || len(name) > maxName):
		r.facts.Cut = true
	default:
		r.names[name], r.last = true, name
	}
}

// unload notes what failed without a test that judged.
func (r *Reader) unload(name string) {
	if r.fail(name); r.last != "" {
		r.unloaded[r.last] = true
	}
	r.last = ""
}

func (r *Reader) count(passed, failed int) {
	r.facts.Known = true
	r.facts.Passed = min(r.facts.Passed+max(passed, 0), maxCount)
	r.facts.Failed = min(r.facts.Failed+max(failed, 0), maxCount)
}

// number is a count out of a tool's text, held within what makes sense.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxCount {
		return 0
	}
	return n
}

// goTest reads "--- FAIL: TestX (0.00s)" and its kin. What passed is told with -v only.
func (r *Reader) goTest(word, name string) {
	switch word {
	case "PASS":
		r.counted = true
		r.count(1, 0)
	case "SKIP":
		r.count(0, 0)
	default:
		if r.count(0, 1); len(r.pending) <= maxNames {
			r.pending = append(r.pending, name)
		}
	}
	r.facts.Known = r.counted
}

// name gives the Go tests that failed the package that they are of.
func (r *Reader) name(pkg string) {
	for _, name := range r.pending {
		r.fail(pkg + name)
	}
	r.pending = nil
}

func (r *Reader) goJSON(line string) {
	var ev struct{ Action, Package, Test string }
	if json.Unmarshal([]byte(line), &ev) != nil {
		return
	}
	switch {
	case ev.Test == "" && ev.Action == "fail" && !r.broken[ev.Package]:
		r.unload(ev.Package)
	case ev.Test == "":
	case ev.Action == "pass":
		r.count(1, 0)
	case ev.Action == "skip":
		r.count(0, 0)
	case ev.Action == "fail":
		if r.count(0, 1); len(r.broken) <= maxNames {
			r.broken[ev.Package] = true
		}
		r.fail(ev.Package + " " + ev.Test)
	}
}

// jest reads the heading of a failure; the file it is in came before.
func (r *Reader) jest(name string) {
	if name == "Console" || strings.HasPrefix(name, "Validation") {
		return
	}
	whole := name
	if r.suite != "" {
		whole = r.suite + ": " + name
	}
	if r.fail(whole); name == "Test suite failed to run" {
		r.unload(whole)
	}
}

var wordCount = strs.Lazy(`(\d+) ([a-z]+)`)

// countWords counts "2 passed", "1 failed" and the like in a summary line.
func countWords(r *Reader, m []string) {
	for _, m := range wordCount().FindAllStringSubmatch(m[1], -1) {
		switch n := number(m[1]); m[2] {
		case "passed", "xfailed", "xpassed":
			r.count(n, 0)
		case "failed", "error", "errors":
			r.count(0, n)
		case "skipped", "todo", "pending":
			r.count(0, 0)
		}
	}
}
