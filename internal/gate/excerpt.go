package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/strs"
)

const (
	// lastLines and tellingLines are how much is kept of a log: its end, and what tells of
	// failures before that.
	lastLines    = 80
	tellingLines = 40
	excerptLine  = 400
	excerptBytes = 8 << 10
	// shownLines is how many lines of a failed check a person is shown, and shownLine how
	// long one may be, in bytes.
	shownLines = 8
	shownLine  = 200
)

var (
	// telling finds lines that say what failed, and where: the comparison of a test, its
	// name, or a complaint about a place, as compilers and linters write it.
	telling = strs.Lazy(`^E\s{2,}\S|^\s+\S+_test\.go:\d+: |^\s*--- FAIL: |^_{3,} .* _{3,}$|` +
		`^\s*(?:Error Trace|Error|expected|actual|Expected|Received|got|want|left|right)\s*:|\bexpected: <|` +
		`\b\w*(?:Assertion|Type|Reference|Name|Value|Key|Attribute|Syntax|Import|Index)\w*Error\b|` +
		`^\s*(?:● |✖ |✗ |× |not ok )|^(?:FAILED|ERROR) \S|^(?:FAIL|ERROR): \S|^thread '.*' panicked at |` +
		`^(?:panic|fatal error): |` +
		`^\s+(?:Failure/Error:|# \./\S+:\d+)|^error(?:\[E\d+\])?: |^\[ERROR\] \S|^npm ERR!|` +
		`^\s*❯ \S+:\d+|^\s*at \S.*[(/](?:\./)?[\w./-]+:\d+:\d+\)?$|^\s*-->\s+\S+:\d+|` +
		`^(?:vet: )?\.?/?[\w][\w./+-]*(?::\d+(?::\d+)?(?::| -)|\(\d+(?:,\d+)?\):) \S`)
	// remark finds what is not the failure, though it may sound like one.
	remark = strs.Lazy(`(?i)\bwarn(?:ing)?s?\b|\bdeprecat|\bnpm (?:notice|err!)|node_modules/|\(?node:internal/|` +
		`<frozen |site-packages/`)
	// uneventful is what go test -v says of tests that are no trouble.
	uneventful = strs.Lazy(`^=== (?:RUN|PAUSE|CONT|NAME) |^\s*--- (?:PASS|SKIP): `)
	// varying is what differs between two tellings of the same thing.
	varying = strs.Lazy(`0x[0-9a-f]+|\d+`)
)

// Remediation is what the next attempt is told about a failed gate: the command, how it
// ended, and the failing lines of its output.
func Remediation(r Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The check %q (%s) failed", r.Gate, r.Command)
	switch r.Reason {
	case "", "exited":
		if r.ExitCode == 0 {
			b.WriteString(", although it exited with 0.")
			break
		}
		fmt.Fprintf(&b, " with exit code %d.", r.ExitCode)
	case "wall_timeout":
		fmt.Fprintf(&b, ": it ran out of time after %s.", r.Duration.Round(time.Second))
	default:
		fmt.Fprintf(&b, ": %s.", r.Reason)
	}
	if r.Verdict.Note != "" {
		fmt.Fprintf(&b, " (%s.)", r.Verdict.Note)
	}
	if excerpt := Excerpt(r.Output); excerpt != "" {
		b.WriteString(" It printed:\n\n")
		b.WriteString(excerpt)
	}
	return b.String()
}

// logLines are the lines of a log that tell anything, without colours.
func logLines(log string) []string {
	lines := strings.Split(strings.TrimRight(log, "\r\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(plain(line[:min(len(line), maxLine)]), " \t")
	}
	return slices.DeleteFunc(lines, func(line string) bool { return uneventful().MatchString(line) })
}

// Excerpt keeps the last lines of a log and, of those before, the first that tell what
// failed, the same thing once. What was left out is marked. The work is linear in the
// length of the log.
func Excerpt(log string) string {
	const left = "[…]"
	lines := logLines(log)
	tail := max(0, len(lines)-lastLines)
	var kept []string
	told, skipped := map[string]bool{}, false
	for i, line := range lines {
		if i < tail {
			if len(told) == tellingLines || !telling().MatchString(line) {
				skipped = skipped || line != left
				continue
			}
			same := varying().ReplaceAllString(line, "0")
			if told[same] && !strings.Contains(line, "--- FAIL") {
				skipped = true
				continue
			}
			told[same] = true
		}
		if skipped {
			kept, skipped = append(kept, left), false
		}
		kept = append(kept, cut(line, excerptLine))
	}
	out := strings.Join(kept, "\n")
	if len(out) <= excerptBytes {
		return out
	}
	// The first failure is worth more than the last words.
	const last = 1 << 10
	begin, end := out[:excerptBytes-last], out[len(out)-last:]
	return strings.ToValidUTF8(begin, "") + "\n" + left + "\n" + strings.ToValidUTF8(end, "")
}

// FailureLines are the lines that tell a person what failed: the assertion and its place,
// not the warnings before them, at most a few. Where none of that is found they are
// the last lines.
func FailureLines(output string) []string {
	lines := logLines(output)
	var told []string
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(cut(line, shownLine), "\t", "    ")
		if telling().MatchString(line) && !remark().MatchString(line) && !slices.Contains(told, lines[i]) {
			told = append(told, lines[i])
		}
	}
	if len(told) == 0 {
		const last = 4
		told = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
		told = told[max(0, len(told)-last):]
	}
	return told[:min(len(told), shownLines)]
}

func cut(line string, limit int) string {
	if len(line) > limit {
		line = strings.ToValidUTF8(line[:limit], "") + "…"
	}
	return line
}
