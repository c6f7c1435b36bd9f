package supervise

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// Signature makes one error recognisable when it comes again. Errors that
// differ only in line numbers, addresses, durations, times and temporary
// directories have the same Hash.
type Signature struct {
	// Hash is "" where there is no error.
	Hash string
	// Text is the most telling line of the error, as it was printed.
	Text string
	// File and Line are the first place of the work tree it names, "" and 0
	// where it names none.
	File string
	Line int
	// Tests are the failing tests it names, at most ten.
	Tests []string
}

func (s Signature) bounded() Signature {
	s.Hash, s.Text, s.File = clip(s.Hash, maxID), clip(s.Text, maxMessage), clip(s.File, maxPath)
	s.Tests = clipAll(s.Tests, maxNames, maxName)
	return s
}

const (
	// signatureBytes bound what is read of an error: half of it from its
	// start, where compilers speak, half from its end, where test runners do.
	signatureBytes = 64 << 10
	// maxSuspects bound how many lines of it are looked at closely.
	maxSuspects = 200
	// signatureLines bound how many telling lines make the hash.
	signatureLines = 30
	// signatureLine bounds what is read of one line.
	signatureLine = 400
)

// Normalise reads an error as a person would: which lines tell what is wrong,
// where, and which tests fail.
func Normalise(errorText string) Signature {
	suspects, last := errorLines(errorText)
	var telling []string
	for _, l := range suspects {
		if tellingRE().MatchString(l) && !idleRE().MatchString(l) {
			telling = append(telling, l)
		}
	}
	if len(telling) == 0 {
		telling = last
	}
	if len(telling) == 0 {
		return Signature{}
	}
	telling = telling[:min(len(telling), signatureLines)]

	sig := Signature{Text: clip(mostTelling(telling), maxMessage), Tests: failingTests(suspects)}
	sig.File, sig.Line = place(telling)
	if sig.File == "" {
		sig.File, sig.Line = place(suspects)
	}
	stable := make([]string, 0, len(telling))
	for _, l := range telling {
		stable = append(stable, stabilise(l))
	}
	// Tests that run side by side report in no order, and some tools say the
	// same thing twice.
	slices.Sort(stable)
	stable = slices.Compact(stable)
	sum := sha256.Sum256([]byte(strings.Join(stable, "\n")))
	sig.Hash = hex.EncodeToString(sum[:8])
	return sig.bounded()
}

// errorLines are the lines of a log that may tell something, and the last five
// whatever they are; without blank lines and what only serves a terminal.
func errorLines(text string) (suspects, last []string) {
	if len(text) > signatureBytes {
		text = text[:signatureBytes/2] + "\n" + text[len(text)-signatureBytes/2:]
	}
	text = strings.ToValidUTF8(text, "")
	if strings.IndexByte(text, 0x1b) >= 0 {
		text = escapeRE().ReplaceAllString(text, "")
	}
	for line := range strings.Lines(text) {
		if line = clip(line, signatureLine); line == "" {
			continue
		}
		if len(last) == 5 {
			last = last[1:]
		}
		last = append(last, line)
		if suspicious(line) {
			suspects = append(suspects, line)
		}
	}
	if n := len(suspects); n > maxSuspects {
		suspects = slices.Concat(suspects[:maxSuspects/2], suspects[n-maxSuspects/2:])
	}
	return suspects, last
}

// suspicious is a cheap look at a line: only where it finds something are the
// expressions below tried. Most lines of a log are chatter.
func suspicious(line string) bool {
	for i := 1; i < len(line); i++ {
		if c := line[i]; c >= '0' && c <= '9' && strings.IndexByte(":([", line[i-1]) >= 0 {
			return true // a place, a count
		}
	}
	return containsAny(strings.ToLower(line), suspectWords...)
}

// suspectWords are what lines have in them that tell something.
var suspectWords = []string{
	"error", "fail", "panic", "fatal", "undefined", "not found", "cannot ", "could not", "couldn't", "unable to",
	"expected", "actual", "got", "want", "assert", "exception", "traceback", "missing", "unresolved", "time",
	"without ", "changed no", "●", "✕", "✖", "✗", "×", "not ok", "rspec ", "::", "vet:", "go:", "module", "redeclared",
	"constraints", "line ", "ld:", "collect2", "loading", "tests", "examples", "would reformat", "issue", "inspected",
	"problem",
	"style", "clippy", "diff in", "warn", "violations", "killed", "terminated", "fault", "memory", "no space",
	"permission",
	"no such file", "no rule", "sigkill", "e: ",
}

var escapeRE = strs.Lazy("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)")

// tellingRE finds lines that say what went wrong, in the words of common tools.
var tellingRE = strs.Lazy(`(?i)\berrors?\b|\bfail(?:ed|ure|ures|ing)?\b|\bpanic:|\bfatal\b|undefined|not found|cannot |could not|couldn't|unable to|\bunexpected\b|\bexpected\b|\bactual\b|\bgot:? |\bwant:? |assert|exception|traceback|\bmissing\b|unresolved|timed out|without (?:a result|changing)|changed no file|^\S+?[:(]\d+[:,]\d+\)?:? |\.(?:go|py|rb|php|c|cc|cpp|h|java|kt|cs|rs|m?[jt]sx?):\d+\b|^[✕✗×●]|^E +\S|\w(?:Error|Exception)\b`)

// idleRE finds lines that look like errors and say nothing: totals and
// successes.
var idleRE = strs.Lazy(`(?i)^(?:ok|PASS|---? PASS|exit status \d+|make(?:\[\d+\])?: leaving|0 (?:errors?|failures?)|no errors?)\b|\b0 failed\b[^1-9]*$`)

// mostTelling is the line to show of those that tell something: the first that
// is more than a headline.
func mostTelling(lines []string) string {
	for _, l := range lines {
		if !headlineRE().MatchString(l) {
			return l
		}
	}
	return lines[0]
}

// headlineRE finds lines that only say that something failed.
var headlineRE = strs.Lazy(`(?i)^(?:-{2,}.*|=+.*|(?-i:FAIL(?:ED)?\b.*)|failures?:?|errors?:?|# \S+.*|Traceback \(most recent call last\):|\S+ +(?:FAILED|ERROR)|The check ".*|running \d+ tests?|●.*|make(?:\[\d+\])?: \*\*\*.*)$`)

// The parts of an error that differ each time. They are replaced in this order.
var unstable = []struct {
	re   func() *regexp.Regexp
	with string
}{
	{strs.Lazy(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<id>"},
	{strs.Lazy(`\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?Z| ?[+-]\d\d:?\d\d)?)?`), "<time>"},
	{strs.Lazy(`\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b`), "<time>"},
	// A temporary directory goes with the names made up in it: what has a digit.
	{
		strs.Lazy(`(?i)(?:/private)?(?:/var/folders/\w+/[^/\s]+/T|/var/tmp|/tmp|/dev/shm|[a-z]:[\\/][^\s:"']*?[\\/]temp)(?:[\\/][^\\/\s:"',)]*\d[^\\/\s:"',)]*)*`),
		"<tmp>",
	},
	{strs.Lazy(`(?i)\b0x[0-9a-f]+\b`), "<hex>"},
	{strs.Lazy(`(?i)\b(?:\d+[a-f]|[a-f]+\d)[0-9a-f]{6,}\b`), "<hex>"},
	{
		strs.Lazy(`(?i)\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|secs?|seconds?|m|min|minutes?|h|hours?)(?:\d+(?:\.\d+)?(?:ms|s|m))*\b`),
		"<span>",
	},
	{strs.Lazy(`(?i)\b(goroutine|pid|port|thread|process|worker)([ =:#-]+)\d+`), "$1$2<n>"},
	{strs.Lazy(`\b(localhost|127\.0\.0\.1|\[::1\]):\d+`), "$1:<n>"},
	{strs.Lazy(`(?i)\b(lines?|cols?|columns?|char(?:acter)?s?)([ :]+)\d+(?:[-:]\d+)?`), "$1$2<n>"},
	{strs.Lazy(`([\w)\]]\.?[\w]*)\(\d+(?:,\d+)?\)`), "$1(<n>)"},
	{strs.Lazy(`(\.\w{1,5}|\b\w*[Mm]akefile):\d+(?::\d+)?`), "$1:<n>"},
	{strs.Lazy(`^(\s*>?\s*)\d+ *\|`), "$1<n>|"},
	{strs.Lazy(`\b\d{5,}\b`), "<n>"},
	{strs.Lazy(` +`), " "},
}

func stabilise(line string) string {
	if !strings.ContainsAny(line, "0123456789") && !strings.Contains(line, "folders") {
		return line
	}
	for _, u := range unstable {
		line = u.re().ReplaceAllString(line, u.with)
	}
	return strings.TrimSpace(line)
}

// places are the ways tools name a file and a line, the file first.
var places = []func() *regexp.Regexp{
	// gcc, go, rustc, eslint's unix format, mypy, ruff, phpunit, rspec
	strs.Lazy(`([\w@.+/\\-]+\.[A-Za-z]\w{0,5}):(\d+)(?::\d+)?`),
	// tsc, msbuild, javac through Maven
	strs.Lazy(`([\w@.+/\\-]+\.[A-Za-z]\w{0,5})[:(]\[?(\d+),\d+[\])]`),
	// Python tracebacks
	strs.Lazy(`File "([^"\n]+)", line (\d+)`),
}

// place is the first file and line that lies, by its name, in the work tree.
func place(lines []string) (string, int) {
	for _, l := range lines {
		for _, re := range places {
			m := re().FindStringSubmatch(l)
			if m == nil || foreignRE().MatchString(m[1]) {
				continue
			}
			n, err := strconv.Atoi(m[2])
			if err != nil || n <= 0 {
				continue
			}
			return strings.TrimPrefix(strings.TrimPrefix(m[1], "/workspace/"), "./"), n
		}
	}
	return "", 0
}

// foreignRE finds files that nobody is meant to change.
var foreignRE = strs.Lazy(`(?:^|/)(?:node_modules|vendor|site-packages|dist-packages|\.cargo|\.rustup|go/pkg/mod|usr|lib/python\d)(?:/|\.)|^<`)

// testNames are the ways test runners name a test that failed.
var testNames = []func() *regexp.Regexp{
	strs.Lazy(`^--- FAIL: (\S+)`),                                 // go test
	strs.Lazy(`^(?:FAILED|ERROR) (\S+::\S+)`),                     // pytest
	strs.Lazy(`^● (.+ › .+)$`),                                    // jest
	strs.Lazy(`^(?:FAIL) +(\S+\.[\w.]+ > .+)$`),                   // vitest
	strs.Lazy(`^[✕✖✗×] (\D.*?)(?: \(?\d+(?:\.\d+)? ?m?s\)?)?$`),   // jest, node
	strs.Lazy(`^not ok \d+ - (.+)$`),                              // TAP
	strs.Lazy(`^test (\S+) \.\.\. FAILED`),                        // cargo
	strs.Lazy(`^rspec (\./\S+:\d+)`),                              // rspec
	strs.Lazy(`^\d+\) ([\w\\]+::\w+)`),                            // phpunit
	strs.Lazy(`^\[ERROR\] +(?:Failures: +)?(\w[\w$]*\.\w+):\d+ `), // Maven Surefire
	strs.Lazy(`^([\w.$]+ > [\w() ,.$-]+) FAILED$`),                // Gradle
	strs.Lazy(`^Failed ([\w.]+)(?:\([^)]*\))? \[`),                // dotnet
	strs.Lazy(`^\d+ - (\S+) \((?:Failed|Timeout|SEGFAULT)`),       // ctest
	strs.Lazy(`^(?:FAIL|ERROR): (\w+ \([\w.]+\))`),                // unittest
}

func failingTests(lines []string) []string {
	var tests []string
	for _, l := range lines {
		for _, re := range testNames {
			if m := re().FindStringSubmatch(l); m != nil {
				if name := quote(m[1], maxName); !slices.Contains(tests, name) {
					tests = append(tests, name)
				}
				break
			}
		}
		if len(tests) == maxNames {
			break
		}
	}
	return tests
}
