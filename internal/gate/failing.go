package gate

import (
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

const (
	// maxFailing is how many lines of a failed check a person is shown, and
	// failingLine how long one may be, in bytes.
	maxFailing  = 8
	failingLine = 200
)

var (
	// What a test says of itself where it fails: the comparison, or its name and place.
	assertion = strs.Lazy(`^E\s{2,}\S|^\s+\S+_test\.go:\d+: |^\s*--- FAIL: |` +
		`^\s*(?:Error Trace|Error|expected|actual|Expected|Received|got|want)\s*:|` +
		`^\s*(?:left|right): |\b\w*(?:Assertion|Type|Reference|Name|Value|Key|Attribute|Syntax|Import|Index)\w*Error\b|` +
		`^\s*(?:● |✖ |✗ |× |not ok )|^(?:FAILED|ERROR) \S|^(?:FAIL|ERROR): \S|^thread '.*' panicked at |^panic: |` +
		`^\s+(?:Failure/Error:|# \./\S+:\d+)|^\s*-->\s+\S+:\d+|^error(?:\[E\d+\])?: |^\[ERROR\] \S|` +
		`^\s*❯ \S+:\d+|^\s*at \S.*[(/](?:\./)?[\w./-]+:\d+:\d+\)?$`)
	// A place in a file with a complaint, as compilers and linters write it.
	complaintAt = strs.Lazy(`^(?:vet: )?\.?/?[\w][\w./+-]*(?::\d+(?::\d+)?(?::| -)|\(\d+(?:,\d+)?\):) \S`)
	// What is not the failure, though it may sound like one.
	remark = strs.Lazy(`(?i)\bwarn(?:ing)?s?\b|\bdeprecat|\bnpm (?:notice|err!)|node_modules/|\(?node:internal/|<frozen |site-packages/`)
)

// FailureLines are the lines that tell a person what failed: the assertion and its place,
// not the warnings before them, at most a few. Where none of that is found they are
// the last lines.
func FailureLines(output string) []string {
	lines := strings.Split(strings.TrimRight(output, "\r\n"), "\n")
	var told []string
	for i, line := range lines {
		lines[i] = strings.TrimRight(cutLine(plain(line)), " \t")
		line = lines[i]
		if remark().MatchString(line) || uneventful().MatchString(line) || slices.Contains(told, line) {
			continue
		}
		if assertion().MatchString(line) || complaintAt().MatchString(line) {
			told = append(told, line)
		}
	}
	if len(told) == 0 {
		const last = 4
		told = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
		told = told[max(0, len(told)-last):]
	}
	return told[:min(len(told), maxFailing)]
}

func cutLine(line string) string {
	if len(line) > failingLine {
		line = strings.ToValidUTF8(line[:failingLine], "") + "…"
	}
	return strings.ReplaceAll(line, "\t", "    ")
}
