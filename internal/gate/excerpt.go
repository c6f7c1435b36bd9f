package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/strs"
)

// Remediation limits: enough lines to act on, few enough to read.
const (
	remediationLines = 80
	remediationBytes = 8 << 10
	excerptLine      = 400
	// blockLines bounds what is kept after the line that says what failed.
	blockLines = 24
	lastLines  = 8
)

// Remediation is what the next attempt is told about a failed gate: the
// command, how it ended, and the failing lines of its output, not all of it.
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
	if excerpt := excerpt(r.Output, func(int) bool { return false }); excerpt != "" {
		b.WriteString(" It printed:\n\n")
		b.WriteString(excerpt)
	}
	return b.String()
}

var (
	// What begins the report of one failure, in the words of common tools. Nothing but
	// the start of a line is looked at: most lines are told apart by a few bytes.
	opening = strs.Lazy(`^\s*(?:--- FAIL: |FAIL:? |FAILED |ERROR:? |\[ERROR\] |● |✖ |✗ |× |\d+\) |not ok |panic: |fatal error: |Traceback |error(?:\[E\d+\])?: |_{3,} .* _{3,}$|---- .* stdout ----|Failures?:$|thread '.*' .*panicked|FAIL\t|# \S+$)|^\S+[:(]\d+(?:[:,]\d+)?\)?: (?:fatal )?error|^\S+\.\w+:\d+(?::\d+)?: |^npm ERR!`)
	// What begins one wherever it stands in a line.
	within = strs.Lazy(`\berror TS\d+:|\bSyntaxError\b`)
	// Lines that tell something where no report begins with them.
	telling = strs.Lazy(`(?i)(\berror\b|\bfail(ed|ure|ing)?\b|\bpanic\b|\bfatal\b|undefined|not found|expected|\bgot\b|\bwant\b|assert|exception|:\d+:\d+: |\.go:\d+)`)
	// What go test -v says of tests that are no trouble.
	uneventful = strs.Lazy(`^=== (?:RUN|PAUSE|CONT|NAME) |^\s*--- (?:PASS|SKIP): `)
	// What differs between two tellings of the same thing.
	varying = strs.Lazy(`0x[0-9a-f]+|\d+`)
)

// isOpening says whether a line begins the report of one failure.
func isOpening(line string) bool {
	if opening().MatchString(line) {
		return true
	}
	return (strings.Contains(line, "error TS") || strings.Contains(line, "SyntaxError")) && within().MatchString(line)
}

// Excerpt keeps the parts of a log that tell what failed: the report of each
// failure, the first ones first where there is no room for all, then single
// lines that sound like trouble, and the last lines. Colours are taken out,
// the same report is not told twice, and what was left out is marked. The work is
// linear in the length of the log; once the context is cancelled it comes to an end,
// and what it gave is of no use.
func Excerpt(ctx context.Context, log string) string {
	return excerpt(log, func(i int) bool { return i%1000 == 0 && ctx.Err() != nil })
}

// excerpt is Excerpt; gone is asked about the number of each line whether to end.
func excerpt(log string, gone func(i int) bool) string {
	lines := strings.Split(strings.TrimRight(log, "\r\n"), "\n")
	for i, line := range lines {
		if gone(i) {
			return ""
		}
		if len(line) > maxLine {
			line = line[:maxLine]
		}
		lines[i] = plain(line)
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return uneventful().MatchString(line) })
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	return render(lines, choose(lines, gone))
}

// choose marks the lines to keep.
func choose(lines []string, gone func(i int) bool) []bool {
	keep := make([]bool, len(lines))
	if len(lines) <= remediationLines {
		for i := range keep {
			keep[i] = true
		}
		return keep
	}
	left := remediationLines
	take := func(i int) {
		if i >= 0 && i < len(lines) && !keep[i] && left > 0 {
			keep[i] = true
			left--
		}
	}
	for i := len(lines) - 1; i >= len(lines)-lastLines; i-- {
		take(i)
	}
	told := map[string]bool{}
	for i := 0; i < len(lines) && left > 0 && !gone(i); i++ {
		if !isOpening(lines[i]) {
			continue
		}
		key := varying().ReplaceAllString(lines[i], "0")
		if told[key] && !strings.Contains(lines[i], "--- FAIL") {
			continue
		}
		told[key] = true
		take(i)
		if last := i + blockLines; isReport(lines[i]) {
			for i++; i < len(lines) && i < last && (strings.TrimSpace(lines[i]) != "" || i+1 < len(lines) &&
				indented(lines[i+1])) && !isOpening(lines[i]); i++ {
				take(i)
			}
			i--
		}
	}
	for i, line := range lines {
		if left == 0 || gone(i) {
			break
		}
		if !keep[i] && telling().MatchString(line) {
			take(i - 1)
			take(i)
			take(i + 1)
		}
	}
	return keep
}

// isReport says whether what follows the line belongs to it. A compiler's
// message mostly stands for itself.
func isReport(line string) bool { return !strings.HasPrefix(line, "# ") }

func indented(line string) bool {
	return strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
}

func render(lines []string, keep []bool) string {
	var b strings.Builder
	skipped := false
	for i, line := range lines {
		if !keep[i] {
			skipped = true
			continue
		}
		if skipped {
			b.WriteString("[…]\n")
			skipped = false
		}
		if len(line) > excerptLine {
			line = strings.ToValidUTF8(line[:excerptLine], "") + "…"
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	out := strings.TrimRight(b.String(), "\n")
	if len(out) <= remediationBytes {
		return out
	}
	// The first failure is worth more than the last words.
	const end = 1 << 10
	return strings.ToValidUTF8(out[:remediationBytes-end], "") + "\n[…]\n" + strings.ToValidUTF8(out[len(out)-end:], "")
}
